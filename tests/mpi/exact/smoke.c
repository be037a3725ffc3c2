/* smoke [COUNT]: one call of each kind the library serves, and what stands around it: in place and
 * not, both entry points, every operator on every type, communicators that come and go,
 * MPI_Pcontrol on one rank. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { CALLS = 3 };

static int count = 4099;

struct kind {
    const char *name;
    MPI_Datatype type;
    size_t size;
    bool is_float;
};

static const struct kind kinds[] = {
    {"MPI_FLOAT", MPI_FLOAT, 4, true},      {"MPI_DOUBLE", MPI_DOUBLE, 8, true},
    {"MPI_REAL8", MPI_REAL8, 8, true},      {"MPI_INT", MPI_INT, 4, false},
    {"MPI_INT64_T", MPI_INT64_T, 8, false}, {"MPI_UNSIGNED_LONG", MPI_UNSIGNED_LONG, 8, false},
};

static const struct {
    const char *name;
    MPI_Op op;
    bool floats;
} operators[] = {
    {"MPI_SUM", MPI_SUM, true},  {"MPI_BOR", MPI_BOR, false},   {"MPI_BXOR", MPI_BXOR, false},
    {"MPI_LOR", MPI_LOR, false}, {"MPI_LXOR", MPI_LXOR, false},
};

/* Whole numbers, so that every order of addition gives the same bits. */
static void fill(void *out, const struct kind *kind, uint64_t seed)
{
    for (int i = 0; i < count; i++) {
        int value = input_whole(seed, tap.rank, (uint64_t)i);

        if (kind->is_float && kind->size == 4)
            ((float *)out)[i] = (float)value;
        else if (kind->is_float)
            ((double *)out)[i] = value;
        else if (kind->size == 4)
            ((int32_t *)out)[i] = value;
        else
            ((int64_t *)out)[i] = value;
    }
}

static void operator_gives_what_mpi_gives(const struct kind *kind, const char *name, MPI_Op op)
{
    size_t bytes = (size_t)count * kind->size;
    void *in = input_alloc(bytes), *kept = input_alloc(bytes);
    void *out = input_alloc(bytes), *native = input_alloc(bytes);
    bool good = true, untouched = true;

    for (int call = 0; call < CALLS; call++) {
        fill(in, kind, (uint64_t)call + 7);
        memcpy(kept, in, bytes);
        PMPI_Allreduce(in, native, count, kind->type, op, MPI_COMM_WORLD);
        memset(out, 0x55, bytes);
        if (call == 1) {
            MPI_Allreduce_c(in, out, count, kind->type, op, MPI_COMM_WORLD);
        } else if (call == 2) {
            memcpy(out, in, bytes);
            MPI_Allreduce(MPI_IN_PLACE, out, count, kind->type, op, MPI_COMM_WORLD);
        } else {
            MPI_Allreduce(in, out, count, kind->type, op, MPI_COMM_WORLD);
        }
        good = good && memcmp(out, native, bytes) == 0;
        untouched = untouched && memcmp(in, kept, bytes) == 0;
    }
    tap_ok(good, "%s on %s: as the MPI library, in place and through MPI_Allreduce_c too", name,
           kind->name);
    tap_ok(untouched, "%s on %s: the send buffer is never written", name, kind->name);
    free(in);
    free(kept);
    free(out);
    free(native);
}

static bool sums_are_right(MPI_Comm comm, int calls)
{
    float *in = input_alloc((size_t)count * sizeof *in);
    float *out = input_alloc((size_t)count * sizeof *out);
    bool good = true;
    int rank, size;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int call = 0; call < calls; call++) {
        input_fill_whole(in, count, (uint64_t)call, rank);
        good = MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS && good;
        good = input_is_whole_sum(out, count, (uint64_t)call, size) && good;
    }
    free(in);
    free(out);
    return good;
}

static void communicators_come_and_go(void)
{
    MPI_Comm outer, inner, half;
    bool good;

    MPI_Comm_dup(MPI_COMM_WORLD, &outer);
    good = sums_are_right(outer, 2);
    MPI_Comm_dup(outer, &inner);
    good = sums_are_right(inner, 2) && good;
    MPI_Comm_free(&outer);
    good = sums_are_right(inner, 2) && good;
    MPI_Comm_free(&inner);
    MPI_Comm_dup(MPI_COMM_WORLD, &outer);
    good = sums_are_right(outer, 2) && good;
    MPI_Comm_free(&outer);
    tap_ok(good, "duplicates, duplicates of those, and one more after they are freed");

    MPI_Comm_split(MPI_COMM_WORLD, tap.rank % 2, -tap.rank, &half);
    tap_ok(sums_are_right(half, 4), "halves of the world with their ranks reversed");
    MPI_Comm_free(&half);
    tap_ok(sums_are_right(MPI_COMM_SELF, 2), "MPI_COMM_SELF");
}

/* Fractions: an order of addition other than the MPI library's shows in the last bits. */
static void pcontrol_on_one_rank_makes_calls_native(void)
{
    size_t bytes = (size_t)count * sizeof(float);
    float *in = input_alloc(bytes), *out = input_alloc(bytes), *native = input_alloc(bytes);
    bool same = true;

    if (tap.rank == 0)
        MPI_Pcontrol(0);
    for (int call = 0; call < CALLS; call++) {
        input_fill_fractions(in, count, (uint64_t)call, tap.rank);
        PMPI_Allreduce(in, native, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        same = same && memcmp(out, native, bytes) == 0;
    }
    if (tap.rank == 0)
        MPI_Pcontrol(1, "with an argument");
    tap_ok(same, "switched off on rank 0, calls are bit for bit native on all");
    tap_ok(sums_are_right(MPI_COMM_WORLD, 2), "sums are right when it is on again");
    free(in);
    free(out);
    free(native);
}

int main(int argc, char **argv)
{
    int status;

    if (argc > 1)
        count = atoi(argv[1]);
    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t o = 0; o < sizeof operators / sizeof *operators; o++)
            if (operators[o].floats || !kinds[k].is_float)
                operator_gives_what_mpi_gives(&kinds[k], operators[o].name, operators[o].op);
    communicators_come_and_go();
    pcontrol_on_one_rank_makes_calls_native();
    status = tap_end();
    MPI_Finalize();
    return status;
}
