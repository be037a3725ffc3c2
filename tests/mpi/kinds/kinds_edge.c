/* Allgather and reduce at the edges of what they take: datatypes that end before their call does,
 * datatypes of pairs and of large counts, arguments that MPI does not look at, arguments that are
 * errors. Bare and preloaded alike. */
#include "tests/mpi/support/tap.h"

#include <string.h>

enum { WORDS = 4096, COLUMNS = 4 };

static MPI_Comm comm;
static int rank, size;

static int value(int from, int i, int seed)
{
    return seed * 1000000 + from * 100000 + i + 1;
}

/* A datatype of WORDS integers: one behind the other, or each of a pair of places. */
static MPI_Datatype words(bool apart)
{
    MPI_Datatype type;

    if (apart)
        MPI_Type_vector(WORDS, 1, 2, MPI_INT, &type);
    else
        MPI_Type_contiguous(WORDS, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

/* Handles of datatypes that were freed come back for others. */
static void reuse_handles(MPI_Datatype types[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        MPI_Type_vector(2, 1, 3 + i, MPI_CHAR, &types[i]);
        MPI_Type_commit(&types[i]);
    }
}

static void a_datatype_may_be_freed_before_its_allgather_ends(bool apart, bool varying)
{
    enum { CALLS = 3 };
    int step = apart ? 2 : 1;
    int *in[CALLS], *out[CALLS], counts[64], displs[64];
    MPI_Request requests[CALLS];
    MPI_Status statuses[CALLS];
    MPI_Datatype others[COLUMNS];
    bool right = true;
    int token = 0;

    for (int c = 0; c < CALLS; c++) {
        MPI_Datatype type = words(apart);

        in[c] = calloc((size_t)(WORDS * step), sizeof **in);
        out[c] = calloc((size_t)(WORDS * step * size), sizeof **out);
        for (int i = 0; i < WORDS; i++)
            in[c][i] = value(rank, i, c);
        for (int r = 0; r < size; r++) {
            counts[r] = 1;
            displs[r] = r;
        }
        if (rank == size - 1 && c == 0) /* the others' calls wait */
            MPI_Recv(&token, 1, MPI_INT, 0, 5, comm, MPI_STATUS_IGNORE);
        if (varying)
            MPI_Iallgatherv(in[c], WORDS, MPI_INT, out[c], counts, displs, type, comm,
                            &requests[c]);
        else
            MPI_Iallgather(in[c], WORDS, MPI_INT, out[c], 1, type, comm, &requests[c]);
        MPI_Type_free(&type);
    }
    reuse_handles(others);
    if (rank == 0)
        MPI_Send(&token, 1, MPI_INT, size - 1, 5, comm);
    MPI_Waitall(CALLS, requests, statuses);
    for (int c = 0; c < CALLS; c++) {
        MPI_Aint extent = apart ? 2 * WORDS - 1 : WORDS;

        for (int r = 0; r < size; r++)
            for (int i = 0; i < WORDS; i++)
                right = right && out[c][r * extent + i * step] == value(r, i, c);
        free(in[c]);
        free(out[c]);
    }
    for (int i = 0; i < COLUMNS; i++)
        MPI_Type_free(&others[i]);
    tap_ok(right, "a_datatype_may_be_freed_before_its_allgather_ends: %s%s",
           apart ? "with gaps" : "contiguous", varying ? ", allgatherv" : "");
}

static void datatypes_of_pairs_are_gathered(void)
{
    struct pair {
        float f;
        int i;
    } *in = calloc(WORDS, sizeof *in), *out = calloc((size_t)(WORDS * size), sizeof *out);
    MPI_Datatype type;
    bool right = true;

    MPI_Type_contiguous(WORDS, MPI_FLOAT_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < WORDS; i++)
        in[i] = (struct pair){(float)(rank + i), value(rank, i, 0)};
    for (int round = 0; round < 3; round++) {
        memset(out, 0, (size_t)(WORDS * size) * sizeof *out);
        MPI_Allgather(in, 1, type, out, 1, type, comm);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < WORDS; i++)
                right = right && out[r * WORDS + i].f == (float)(r + i) &&
                        out[r * WORDS + i].i == value(r, i, 0);
    }
    MPI_Type_free(&type);
    tap_ok(right, "datatypes_of_pairs_are_gathered");
    free(in);
    free(out);
}

/* Datatypes that cannot be asked about by MPI_Type_get_envelope: made by a function of large
 * counts, and made from such a one. */
static void datatypes_of_large_counts_are_gathered(void)
{
    int *in = calloc(WORDS, sizeof *in), *out = calloc((size_t)(WORDS * size), sizeof *out);
    MPI_Datatype types[3];
    bool right = true;

    MPI_Type_contiguous_c(COLUMNS, MPI_INT, &types[0]);
    MPI_Type_commit(&types[0]);
    MPI_Type_dup(types[0], &types[1]);
    MPI_Type_contiguous(1, types[0], &types[2]);
    MPI_Type_commit(&types[2]);
    for (int i = 0; i < WORDS; i++)
        in[i] = value(rank, i, 0);
    for (int round = 0; round < 6; round++) {
        MPI_Datatype type = types[round % 3];

        memset(out, 0, (size_t)(WORDS * size) * sizeof *out);
        MPI_Allgather(in, WORDS / COLUMNS, type, out, WORDS / COLUMNS, type, comm);
        for (int i = 0; i < WORDS * size; i++)
            right = right && out[i] == value(i / WORDS, i % WORDS, 0);
    }
    for (int i = 0; i < 3; i++)
        MPI_Type_free(&types[i]);
    tap_ok(right, "datatypes_of_large_counts_are_gathered");
    free(in);
    free(out);
}

/* One group reduces to the first rank of the other. The other ranks of its group take no part, and
 * MPI looks at none of their arguments. */
static void a_rank_beside_the_root_may_name_no_datatype(void)
{
    const int side = rank == size - 1;
    int *in = calloc(WORDS, sizeof *in), *out = calloc(WORDS, sizeof *out);
    MPI_Comm half, groups;
    bool right = true;

    MPI_Comm_split(comm, side, rank, &half);
    MPI_Intercomm_create(half, 0, comm, side ? 0 : size - 1, 3, &groups);
    for (int i = 0; i < WORDS; i++)
        in[i] = i;
    for (int round = 0; round < 3; round++)
        if (side)
            MPI_Reduce(in, NULL, WORDS, MPI_INT, MPI_SUM, 0, groups);
        else if (rank == 0)
            MPI_Reduce(in, out, WORDS, MPI_INT, MPI_SUM, MPI_ROOT, groups);
        else
            MPI_Reduce(NULL, NULL, WORDS, MPI_DATATYPE_NULL, MPI_OP_NULL, MPI_PROC_NULL, groups);
    for (int i = 0; rank == 0 && i < WORDS; i++)
        right = right && out[i] == i;
    MPI_Comm_free(&groups);
    MPI_Comm_free(&half);
    tap_ok(right, "a_rank_beside_the_root_may_name_no_datatype");
    free(in);
    free(out);
}

static int class_of(int code)
{
    int class = MPI_SUCCESS;

    MPI_Error_class(code, &class);
    return class;
}

/* Expects the MPI library's own errors, on a communicator of its own. */
static void wrong_arguments_are_the_librarys_to_name(void)
{
    int *in = calloc(WORDS, sizeof *in), *out = calloc((size_t)(WORDS * size), sizeof *out);
    int counts[64], displs[64];
    int err, native;

    for (int r = 0; r < size; r++) {
        counts[r] = r == size - 1 ? -1 : WORDS;
        displs[r] = r * WORDS;
    }
    err = MPI_Reduce(in, out, WORDS, MPI_INT, MPI_SUM, size, comm);
    native = PMPI_Reduce(in, out, WORDS, MPI_INT, MPI_SUM, size, comm);
    tap_ok(err != MPI_SUCCESS && class_of(err) == class_of(native),
           "wrong_arguments_are_the_librarys_to_name: a root that is no rank");
    err = MPI_Reduce(in, out, WORDS, MPI_INT, MPI_SUM, -1, comm);
    native = PMPI_Reduce(in, out, WORDS, MPI_INT, MPI_SUM, -1, comm);
    tap_ok(err != MPI_SUCCESS && class_of(err) == class_of(native),
           "wrong_arguments_are_the_librarys_to_name: a negative root");
    err = MPI_Allgatherv(in, WORDS, MPI_INT, out, counts, displs, MPI_INT, comm);
    native = PMPI_Allgatherv(in, WORDS, MPI_INT, out, counts, displs, MPI_INT, comm);
    tap_ok(err != MPI_SUCCESS && class_of(err) == class_of(native),
           "wrong_arguments_are_the_librarys_to_name: a negative count");
    err = MPI_Allgather(in, WORDS, MPI_INT, out, WORDS, MPI_DATATYPE_NULL, comm);
    native = PMPI_Allgather(in, WORDS, MPI_INT, out, WORDS, MPI_DATATYPE_NULL, comm);
    tap_ok(err != MPI_SUCCESS && class_of(err) == class_of(native),
           "wrong_arguments_are_the_librarys_to_name: no datatype");
    err = MPI_Reduce(in, out, WORDS, MPI_INT, MPI_SUM, 0, comm);
    tap_ok(err == MPI_SUCCESS, "after wrong arguments a right call is served");
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    tap_begin(MPI_COMM_WORLD);
    for (int kind = 0; kind < 8; kind++)
        a_datatype_may_be_freed_before_its_allgather_ends(kind & 1, kind & 2);
    datatypes_of_pairs_are_gathered();
    datatypes_of_large_counts_are_gathered();
    a_rank_beside_the_root_may_name_no_datatype();
    wrong_arguments_are_the_librarys_to_name();
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return tap_end();
}
