/* fewcalls [CALLS [COUNT [DIRECTORY]]]: as many eligible calls as asked for between MPI_Init and
 * MPI_Finalize, the last two in another working directory where one is given. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    int calls = argc > 1 ? atoi(argv[1]) : 1;
    int count = argc > 2 ? atoi(argv[2]) : 4096;
    float *in = input_alloc((size_t)count * sizeof *in);
    float *out = input_alloc((size_t)count * sizeof *out);
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    for (int call = 0; call < calls; call++) {
        if (argc > 3 && call == calls - 2 && chdir(argv[3]) != 0)
            perror(argv[3]);
        input_fill_whole(in, count, (uint64_t)call, tap.rank);
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        tap_ok(input_is_whole_sum(out, count, (uint64_t)call, tap.size),
               "call %d of %d gives the sum", call + 1, calls);
    }
    tap_ok(true, "reached MPI_Finalize after %d calls", calls);
    status = tap_end();
    MPI_Finalize();
    free(in);
    free(out);
    return status;
}
