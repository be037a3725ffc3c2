/* scatter_counts LEAST: MPI_Reduce_scatter on 1, 2, ... ranks, whose results are those of
 * PMPI_Reduce_scatter bit for bit. With MIN_COUNT=LEAST it is served if all ranks get as many
 * elements, LEAST or more together. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { PART = 700, LONG = 30000, MOST = 64 };

static MPI_Comm comm, plain;
static int ranks, rank, counts[MOST];
static MPI_Count large_counts[MOST];
static MPI_Datatype pair;
static MPI_Op add_pairs;

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < 2 * *count; i++)
        ((int *)inout)[i] += ((const int *)in)[i];
}

static void fill(void *out, MPI_Datatype type, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) {
        const int whole = input_whole(seed, rank, (uint64_t)i);

        if (type == MPI_FLOAT)
            ((float *)out)[i] = (float)whole;
        else if (type == MPI_DOUBLE)
            ((double *)out)[i] = whole;
        else if (type == MPI_INT64_T)
            ((int64_t *)out)[i] = whole;
        else
            ((int *)out)[i] = whole;
    }
}

enum form { PLAIN, IN_PLACE, LARGE, FORMS };
static const char *const form_names[FORMS] = {"", ", in place", ", large form"};

static int scatter(const void *send, void *recv, MPI_Datatype type, MPI_Op op, enum form form)
{
    if (form == LARGE)
        return MPI_Reduce_scatter_c(send, recv, large_counts, type, op, comm);
    return MPI_Reduce_scatter(form == IN_PLACE ? MPI_IN_PLACE : send, recv, counts, type, op, comm);
}

/* Compares a call with the MPI library's. No byte behind the result is written. */
static bool is_same(MPI_Datatype type, MPI_Op op, enum form form)
{
    static uint64_t seed;
    int size, all = 0, width = type == pair ? 2 : 1, mine = counts[rank];
    char *in, *got, *expected;
    bool same;

    for (int r = 0; r < ranks; r++)
        all += counts[r];
    MPI_Type_size(type, &size);
    in = input_alloc((size_t)all * (size_t)size);
    got = input_alloc((size_t)all * (size_t)size + 1);
    expected = input_alloc((size_t)all * (size_t)size);
    fill(in, type, all * width, seed);
    fill(got, type, all * width, seed++);
    got[(form == IN_PLACE ? all : mine) * size] = 0x5a;
    same = scatter(in, got, type, op, form) == MPI_SUCCESS &&
           PMPI_Reduce_scatter(in, expected, counts, type, op, plain) == MPI_SUCCESS &&
           memcmp(got, expected, (size_t)mine * (size_t)size) == 0 &&
           got[(form == IN_PLACE ? all : mine) * size] == 0x5a;
    free(in);
    free(got);
    free(expected);
    return same;
}

/* Rank r gets part elements, and r % some more. */
static void set_counts(int part, int some)
{
    for (int r = 0; r < ranks; r++)
        large_counts[r] = counts[r] = part + r % some;
}

static void unequal(int least)
{
    set_counts(PART, 2);
    for (enum form form = PLAIN; form < FORMS; form++)
        tap_ok(is_same(MPI_FLOAT, MPI_SUM, form), "%d ranks: unequal counts%s", ranks,
               form_names[form]);
    set_counts(least, 1);
    large_counts[ranks - 1] = counts[ranks - 1] = 0;
    tap_ok(is_same(MPI_INT, MPI_SUM, PLAIN), "%d ranks: one count is 0", ranks);
}

static void equal(void)
{
    set_counts(PART, 1);
    for (enum form form = PLAIN; form < FORMS; form++) {
        bool same = is_same(MPI_FLOAT, MPI_SUM, form);

        same = is_same(MPI_DOUBLE, MPI_SUM, form) && same;
        same = is_same(MPI_INT64_T, MPI_BXOR, form) && same;
        tap_ok(same, "%d ranks: equal counts%s", ranks, form_names[form]);
    }
    set_counts(LONG, 1);
    tap_ok(is_same(MPI_INT, MPI_SUM, PLAIN), "%d ranks: large equal counts", ranks);
}

static void not_served(int least)
{
    set_counts((least - 1) / ranks, 1);
    tap_ok(is_same(MPI_FLOAT, MPI_SUM, PLAIN), "%d ranks: fewer than MIN_COUNT", ranks);
    set_counts(0, 1);
    tap_ok(is_same(MPI_FLOAT, MPI_SUM, PLAIN), "%d ranks: no elements", ranks);
    set_counts(PART, 1);
    tap_ok(is_same(pair, add_pairs, PLAIN), "%d ranks: own type and operator", ranks);
}

int main(int argc, char **argv)
{
    const int least = argc > 1 ? atoi(argv[1]) : PART;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(add, 1, &add_pairs);
    for (int p = 1; p <= tap.size; p++) {
        MPI_Comm_split(MPI_COMM_WORLD, tap.rank < p, 0, &comm);
        PMPI_Comm_dup(comm, &plain);
        MPI_Comm_size(comm, &ranks);
        MPI_Comm_rank(comm, &rank);
        unequal(least);
        equal();
        not_served(least);
        PMPI_Comm_free(&plain);
        MPI_Comm_free(&comm);
    }
    MPI_Op_free(&add_pairs);
    MPI_Type_free(&pair);
    MPI_Finalize();
    return tap_end();
}
