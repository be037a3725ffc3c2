/* Layers that share a wrapper around MPI_Allreduce, and a buffer.
 *
 *     sites LAYERS STEPS    LAYERS is 1 to 3; the program goes through a second phase, called from
 *                           another place, of as many steps */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mpi/support/tap.h"

enum { N = 3000 };

static float buffer[N];
static int calls;

/* The statements behind the calls below keep the compiler from turning the calls into jumps. */
__attribute__((noinline)) static void wrapper(void)
{
    MPI_Allreduce(MPI_IN_PLACE, buffer, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    calls++;
}

__attribute__((noinline)) static void first_layer(void)
{
    wrapper();
    calls += 2;
}

__attribute__((noinline)) static void second_layer(void)
{
    wrapper();
    calls += 3;
}

__attribute__((noinline)) static void third_layer(void)
{
    wrapper();
    calls += 4;
}

__attribute__((noinline)) static void train(int layers, int steps, int seed)
{
    static void (*const layer[])(void) = {first_layer, second_layer, third_layer};

    for (int step = 0; step < steps; step++)
        for (int k = 0; k < layers; k++) {
            for (int i = 0; i < N; i++) {
                unsigned h = (unsigned)(i + N * (step + 1000 * (tap.rank + seed))) * 2654435761u;
                buffer[i] = (float)(h >> 16) - 32768;
            }
            layer[k]();
        }
}

int main(int argc, char **argv)
{
    int layers = argc > 1 ? atoi(argv[1]) : 2, steps = argc > 2 ? atoi(argv[2]) : 20;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    train(layers, steps, 0);
    train(layers, steps, 7);
    tap_ok(calls > 0, "%d layers, twice %d steps", layers, steps);
    MPI_Finalize();
    return tap_end();
}
