/* freed COMMS: so many duplicates of MPI_COMM_WORLD one after the other, each freed after 40 steps
 * of one gradient of 4096 floats. */
#include <stdlib.h>

#include <mpi.h>

#include "tests/mpi/support/input.h"

enum { STEPS = 40, COUNT = 4096 };

static void train(MPI_Comm comm, int rank, int at)
{
    static float in[COUNT], out[COUNT];

    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < COUNT; i++)
            in[i] = (float)(int)(input_word(5, rank, (uint64_t)(at + step) << 32 | (uint64_t)i) %
                                 2001) -
                    1000;
        MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm);
    }
}

int main(int argc, char **argv)
{
    int rank, comms = argc > 1 ? atoi(argv[1]) : 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int c = 0; c < comms; c++) {
        MPI_Comm comm;

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        train(comm, rank, c * STEPS);
        MPI_Comm_free(&comm);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
