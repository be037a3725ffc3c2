/* train.c: 200,000 weights are to become -3, -2, ... 3, -3, ... */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 200000 };
static float weight[COUNT], gradient[COUNT];

int main(int argc, char **argv)
{
    int rank, ranks, steps = argc > 1 ? atoi(argv[1]) : 400;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    srand((unsigned)rank + 1); /* each rank has its own samples */
    for (int step = 1; step <= steps; step++) {
        double error = 0;
        for (int i = 0; i < COUNT; i++) {
            float noise = 8 * ((float)rand() / (float)RAND_MAX) - 4;
            gradient[i] = weight[i] - (float)(i % 7 - 3) + noise;
        }
        MPI_Allreduce(MPI_IN_PLACE, gradient, COUNT, MPI_FLOAT,
                      MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < COUNT; i++) {
            weight[i] -= 0.01F * gradient[i] / (float)ranks;
            float off = weight[i] - (float)(i % 7 - 3);
            error += off * off / COUNT;
        }
        if (rank == 0 && step % 100 == 0)
            printf("step %d: error %.3f\n", step, error);
    }
    MPI_Finalize();
    return 0;
}
