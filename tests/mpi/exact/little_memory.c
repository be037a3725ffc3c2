/* little_memory COUNT: inputs of every density, which MAX_MEMORY leaves room for or does not: each
 * call ends, with its sum. */
#include <stdlib.h>

#include "tests/mpi/support/tap.h"

enum { CALLS = 3 };

static bool is_sum(const double *out, int count, int every, int apart, int size)
{
    for (int i = 0; i < count; i++) {
        double expected = 0;
        for (int r = 0; r < size; r++)
            expected += i % (every + r * apart) == 0 ? r + 1 : 0;
        if (out[i] != expected)
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static const int every[] = {1, 2, 3, 5, 8, 20, 100};
    const int count = argc > 1 ? atoi(argv[1]) : 1;
    double *in = malloc((size_t)count * sizeof *in), *out = malloc((size_t)count * sizeof *out);
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    for (size_t e = 0; e < 2 * sizeof every / sizeof *every; e++) {
        const int step = every[e / 2], apart = e % 2 == 0 ? 0 : 7;
        bool right = true;
        for (int call = 0; call < CALLS; call++) {
            for (int i = 0; i < count; i++)
                in[i] = i % (step + tap.rank * apart) == 0 ? tap.rank + 1 : 0;
            right =
                MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS &&
                is_sum(out, count, step, apart, tap.size) && right;
        }
        tap_ok(right, "one of %d is not zero%s", step, apart ? ", fewer on later ranks" : "");
    }
    status = tap_end();
    MPI_Finalize();
    free(in);
    free(out);
    return status;
}
