/* An allreduce of a buffer in device memory, again and again: one JSON object.
 *
 *     bench_device ELEMENTS CALLS
 *
 * Wall and processor time of a call are medians over the calls of rank 0, without the first 5.
 * Elements are normal-like, drawn once for each rank; the device holds them before the first call.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/measure.h"
#include "tests/mpi/device/device_memory.h"

enum { WARM_UP = 5 };

static void draw(float *values, size_t n, int rank)
{
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(rank + 1);

    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (int j = 0; j < 4; j++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (float)(state >> 40) * 0x1p-24f - 0.5f;
        }
        values[i] = sum;
    }
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int n = argc > 1 ? atoi(argv[1]) : 0, calls = argc > 2 ? atoi(argv[2]) : 0;
    if (n < 1 || calls < 1) {
        fprintf(stderr, "usage: bench_device ELEMENTS CALLS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const size_t bytes = 4 * (size_t)n;
    float *values = malloc(bytes);
    double *wall = malloc((size_t)calls * sizeof *wall),
           *spent = malloc((size_t)calls * sizeof *spent);
    if (!values || !wall || !spent)
        MPI_Abort(MPI_COMM_WORLD, 1);
    cuda_open();
    char *send = cuda_memory(DEVICE, bytes), *recv = cuda_memory(DEVICE, bytes);
    draw(values, (size_t)n, rank);
    cuda_write(DEVICE, send, values, bytes);
    for (int call = -WARM_UP; call < calls; call++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = measure_clock(CLOCK_MONOTONIC), used = measure_cpu_seconds();
        MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (call >= 0) {
            wall[call] = measure_clock(CLOCK_MONOTONIC) - begin;
            spent[call] = measure_cpu_seconds() - used;
        }
    }
    cuda_read(DEVICE, values, recv, bytes);
    if (rank == 0)
        printf("{\"elements\": %d, \"ranks\": %d, \"algorithm\": \"%s\", \"mode\": \"%s\", "
               "\"calls\": %d, "
               "\"wall_ms\": %.4g, \"processor_ms\": %.4g}\n",
               n, size, getenv("SPARSESHIM_ALGORITHM") ? getenv("SPARSESHIM_ALGORITHM") : "auto",
               getenv("SPARSESHIM_MODE") ? getenv("SPARSESHIM_MODE") : "exact", calls,
               1e3 * measure_median(wall, calls), 1e3 * measure_median(spent, calls));
    free(spent);
    free(wall);
    free(values);
    MPI_Finalize();
    return 0;
}
