/* sums ar|ia COUNT STEPS: one blocking (ar) or nonblocking (ia) sum of COUNT floats per step, of
 * which 1 % are not zero; each result is compared with the sum. Does not ask for a thread level. */
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

int main(int argc, char **argv)
{
    bool blocking = argc > 1 && strcmp(argv[1], "ar") == 0;
    int count = argc > 2 ? atoi(argv[2]) : 100000;
    int steps = argc > 3 ? atoi(argv[3]) : 40;
    float *in = input_alloc((size_t)count * sizeof *in);
    float *out = input_alloc((size_t)count * sizeof *out);
    bool good = true;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    for (int step = 0; step < steps; step++) {
        MPI_Request request;

        for (int i = 0; i < count; i++)
            in[i] = i % 100 == step % 100 ? (float)(1 + (tap.rank + i + step) % 7) : 0;
        if (blocking) {
            MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        } else {
            MPI_Iallreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        for (int i = 0; i < count; i++) {
            float sum = 0;

            for (int r = 0; i % 100 == step % 100 && r < tap.size; r++)
                sum += (float)(1 + (r + i + step) % 7);
            good = good && out[i] == sum;
        }
    }
    tap_ok(good, "%d %s sums of %d floats are right", steps, blocking ? "blocking" : "nonblocking",
           count);
    int status = tap_end();
    MPI_Finalize();
    free(in);
    free(out);
    return status;
}
