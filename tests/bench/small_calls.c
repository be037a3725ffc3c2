/* What a call below MIN_COUNT costs on top of the MPI library: MPI_Allreduce of one element on one
 * rank, preloaded, against PMPI_Allreduce, in alternating blocks of one run. Prints nanoseconds per
 * call and the difference, medians over the blocks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 41, CALLS = 200000 };

typedef int allreduce(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);

static double block(allreduce *call)
{
    float in = 1, out = 0;
    double begin = MPI_Wtime();

    for (int i = 0; i < CALLS; i++)
        call(&in, &out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_SELF);
    return (MPI_Wtime() - begin) / CALLS * 1e9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double shim[BLOCKS], bare[BLOCKS], difference[BLOCKS];
    int provided, wanted = argc > 1 && argv[1][0] == 'm' ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;

    MPI_Init_thread(&argc, &argv, wanted, &provided);
    block(MPI_Allreduce);
    block(PMPI_Allreduce);
    for (int i = 0; i < BLOCKS; i++) {
        bare[i] = block(PMPI_Allreduce);
        shim[i] = block(MPI_Allreduce);
        difference[i] = shim[i] - bare[i];
    }
    qsort(shim, BLOCKS, sizeof *shim, by_value);
    qsort(bare, BLOCKS, sizeof *bare, by_value);
    qsort(difference, BLOCKS, sizeof *difference, by_value);
    printf("thread level %s: bare %.1f ns, preloaded %.1f ns, difference %.1f ns (quartiles %.1f, "
           "%.1f)\n",
           provided == MPI_THREAD_MULTIPLE ? "multiple" : "single", bare[BLOCKS / 2],
           shim[BLOCKS / 2], difference[BLOCKS / 2], difference[BLOCKS / 4],
           difference[3 * BLOCKS / 4]);
    MPI_Finalize();
    return 0;
}
