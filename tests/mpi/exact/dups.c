/* dups LEAST: duplicates of MPI_COMM_WORLD until the MPI library has no more. The first and the
 * last ones are used at once for two eligible calls each, so that private communicators stand
 * between them. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 64, MOST = 4096, FIRST = 200, LAST = 1900 };

static bool sum_is_right(MPI_Comm comm, uint64_t seed)
{
    float in[COUNT], out[COUNT];

    input_fill_whole(in, COUNT, seed, tap.rank);
    return MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm) == MPI_SUCCESS &&
           input_is_whole_sum(out, COUNT, seed, tap.size);
}

int main(int argc, char **argv)
{
    const int least = argc > 1 ? atoi(argv[1]) : 1;
    static MPI_Comm comms[MOST];
    int made = 0, status;
    bool right = true;
    MPI_Comm late;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    while (made < MOST && MPI_Comm_dup(MPI_COMM_WORLD, &comms[made]) == MPI_SUCCESS) {
        if (made < FIRST || made >= LAST)
            right = sum_is_right(comms[made], 1) && sum_is_right(comms[made], 2) && right;
        made++;
    }
    tap_note("%d duplicates were granted", made);
    tap_ok(made >= least, "at least %d duplicates are granted", least);
    tap_ok(right, "two sums on each of the first and the last ones");
    for (int i = 0; i < made; i++)
        MPI_Comm_free(&comms[i]);
    right = MPI_Comm_dup(MPI_COMM_WORLD, &late) == MPI_SUCCESS;
    for (uint64_t call = 0; right && call < 4; call++)
        right = sum_is_right(late, call);
    tap_ok(right, "four sums on a duplicate made after all were freed");
    if (right)
        MPI_Comm_free(&late);
    status = tap_end();
    MPI_Finalize();
    return status;
}
