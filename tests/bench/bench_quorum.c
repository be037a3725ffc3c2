/* The micro-benchmark of eager-SGD (Li et al., PPoPP'20, section 7.1): before each allreduce rank r
 * sleeps r * SKEW ms; what is timed is the call, on every rank, over ROUNDS rounds that a barrier
 * sets apart. Bare or preloaded, whatever MPI_Allreduce is.
 *
 *     bench_quorum COUNT SKEW ROUNDS
 *
 * Prints the mean time of a call over all ranks and rounds in ms, the mean over the rounds of the
 * slowest rank's, and the processor time that a rank has used, in percent of the time that passed.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/bench/measure.h"

int main(int argc, char **argv)
{
    int rank, size, count = argc > 1 ? atoi(argv[1]) : 0, rounds = argc > 3 ? atoi(argv[3]) : 64;
    double skew = argc > 2 ? atof(argv[2]) : 1, sum = 0, slowest = 0, all[2], used = 0, share;
    enum { WARM = 4 };

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count < 1 || rounds < 1 || skew < 0) {
        if (rank == 0)
            fprintf(stderr, "usage: bench_quorum COUNT SKEW_MS ROUNDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    float *in = calloc((size_t)count, sizeof *in), *out = calloc((size_t)count, sizeof *out);
    double began = 0;
    for (int round = -WARM; round < rounds; round++) {
        for (int i = 0; i < count; i++)
            in[i] = (float)((i * 7919 + round * 104729 + rank) % 1009 - 504);
        MPI_Barrier(MPI_COMM_WORLD);
        if (round == 0) {
            began = MPI_Wtime();
            used = measure_cpu_seconds();
        }
        usleep((useconds_t)(1000 * skew * rank));
        double begin = MPI_Wtime();
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        double mine = MPI_Wtime() - begin, most;
        PMPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (round >= 0) {
            sum += mine / rounds;
            slowest += most / rounds;
        }
    }
    share = (measure_cpu_seconds() - used) / (MPI_Wtime() - began);
    PMPI_Allreduce((double[]){sum, share}, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%.4f %.4f %.2f\n", 1e3 * all[0] / size, 1e3 * slowest, 100 * all[1] / size);
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
