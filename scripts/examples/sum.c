/* sum.c: sums of which 1 % is not zero. */
#include <mpi.h>
#include <stdio.h>

enum { COUNT = 1000000, STEPS = 20 };
static float mine[COUNT], total[COUNT];

int main(int argc, char **argv)
{
    int rank;
    double sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = rank; i < COUNT; i += 100)
        mine[i] = 1;
    for (int step = 0; step < STEPS; step++)
        MPI_Allreduce(mine, total, COUNT, MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++)
        sum += total[i];
    if (rank == 0)
        printf("sum %.0f\n", sum);
    MPI_Finalize();
    return 0;
}
