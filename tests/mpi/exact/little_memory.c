/* little_memory COUNT: inputs of every density, which MAX_MEMORY leaves room for or does not: each
 * call ends, with its sum. */
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/support/tap.h"

enum { CALLS = 2 };

/* Adds what a rank puts in: rank + 1 in every step-th element. */
static void add_input(double *sum, int count, int step, int rank)
{
    for (int i = 0; i < count; i += step)
        sum[i] += rank + 1;
}

static bool is_equal(const double *out, const double *sum, int count)
{
    int wrong = 0;

    for (int i = 0; i < count; i++)
        wrong += out[i] != sum[i];
    return wrong == 0;
}

int main(int argc, char **argv)
{
    static const int every[] = {1, 2, 3, 5, 8, 20, 100};
    const int count = argc > 1 ? atoi(argv[1]) : 1;
    const size_t bytes = (size_t)count * sizeof(double);
    double *in = malloc(bytes), *out = malloc(bytes), *sum = malloc(bytes);
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    for (size_t e = 0; e < 2 * sizeof every / sizeof *every; e++) {
        const int step = every[e / 2], apart = e % 2 == 0 ? 0 : 7;
        bool right = true;
        memset(sum, 0, bytes);
        for (int r = 0; r < tap.size; r++)
            add_input(sum, count, step + r * apart, r);
        memset(in, 0, bytes);
        add_input(in, count, step + tap.rank * apart, tap.rank);
        for (int call = 0; call < CALLS; call++) {
            memset(out, 0xff, bytes); /* no element keeps the sum of the last call */
            right =
                MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS &&
                is_equal(out, sum, count) && right;
        }
        tap_ok(right, "one of %d is not zero%s", step, apart ? ", fewer on later ranks" : "");
    }
    status = tap_end();
    MPI_Finalize();
    free(in);
    free(out);
    free(sum);
    return status;
}
