/* churn TIMES [HELD]: communicators made, used for three eligible calls and freed, one after the
 * other, while HELD others exist, so that few are left of those that the MPI library has. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 64, CALLS = 3, MOST = 2000 };

int main(int argc, char **argv)
{
    int times = argc > 1 ? atoi(argv[1]) : 3000, held = argc > 2 ? atoi(argv[2]) : 0;
    int made = 0, status;
    MPI_Comm others[MOST];
    float in[COUNT], out[COUNT];
    bool good = true;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < held && i < MOST; i++)
        if (MPI_Comm_dup(MPI_COMM_WORLD, &others[i]) != MPI_SUCCESS)
            held = i;
    for (; made < times; made++) {
        MPI_Comm comm;
        if (MPI_Comm_dup(MPI_COMM_WORLD, &comm) != MPI_SUCCESS)
            break;
        for (int call = 0; call < CALLS; call++) {
            uint64_t seed = (uint64_t)(made * CALLS + call);
            input_fill_whole(in, COUNT, seed, tap.rank);
            if (MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm) != MPI_SUCCESS ||
                !input_is_whole_sum(out, COUNT, seed, tap.size))
                good = false;
        }
        MPI_Comm_free(&comm);
    }
    for (int i = 0; i < held && i < MOST; i++)
        MPI_Comm_free(&others[i]);
    tap_ok(made == times, "%d communicators could be made", times);
    tap_ok(good, "%d calls on each give the sum", CALLS);
    status = tap_end();
    MPI_Finalize();
    return status;
}
