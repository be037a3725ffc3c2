/* An allreduce of a buffer in device memory, again and again: one JSON object.
 *
 *     bench_device ELEMENTS CALLS
 *
 * Wall and processor time of a call are medians over the calls of rank 0, without the first 5.
 * Bytes are means over these calls and over ranks: what messages held (0 without
 * tests/preload/sent_bytes.c behind the library), and what crossed to the device and to the host
 * for them. Elements are normal-like, drawn once for each rank; the device holds them before the
 * first call. An exact result is compared with that of the MPI library on the host.
 */
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/queue/device.h"
#include "tests/bench/measure.h"
#include "tests/mpi/device/device_memory.h"

enum { WARM_UP = 5 };

/* An exact call's result is that of the MPI library, but for rounding; a lossy one's, of the same
 * input again and again, is not known. The first 1 Mi elements. */
static void check(const float *values, int n, const float *drawn)
{
    enum { LOOKED_AT = 1 << 20 };
    const int count = n < LOOKED_AT ? n : LOOKED_AT;
    float *sum = malloc(4 * (size_t)count);

    if (!sum)
        MPI_Abort(MPI_COMM_WORLD, 1);
    PMPI_Allreduce(drawn, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < count; i++)
        if (!(fabsf(values[i] - sum[i]) <= 1e-5f)) {
            fprintf(stderr, "bench_device: element %d is %g, not %g\n", i, (double)values[i],
                    (double)sum[i]);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    free(sum);
}

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

/* So far, of this process. */
struct bytes {
    double sent, to_device, to_host;
};

static struct bytes bytes_now(void)
{
    void *library = dlopen("libsparseshim_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    struct gpu_crossed *crossed = library ? dlsym(library, "gpu_crossed") : NULL;
    atomic_ullong *sent = dlsym(RTLD_DEFAULT, "sent_bytes");
    struct bytes b = {0};

    if (sent)
        b.sent = (double)atomic_load(sent);
    if (crossed) {
        b.to_device = (double)atomic_load(&crossed->to_device);
        b.to_host = (double)atomic_load(&crossed->to_host);
    }
    if (library)
        dlclose(library);
    return b;
}

/* At rank 0: of a call and a rank. */
static struct bytes bytes_of_call(struct bytes begin, int calls, int ranks)
{
    const struct bytes end = bytes_now();
    double own[3] = {end.sent - begin.sent, end.to_device - begin.to_device,
                     end.to_host - begin.to_host},
           all[3] = {0};

    PMPI_Reduce(own, all, 3, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    const double each = (double)calls * ranks;
    return (struct bytes){all[0] / each, all[1] / each, all[2] / each};
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
    struct bytes crossed = {0};
    for (int call = -WARM_UP; call < calls; call++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (call == 0)
            crossed = bytes_now();
        const double begin = measure_clock(CLOCK_MONOTONIC), used = measure_cpu_seconds();
        MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (call >= 0) {
            wall[call] = measure_clock(CLOCK_MONOTONIC) - begin;
            spent[call] = measure_cpu_seconds() - used;
        }
    }
    crossed = bytes_of_call(crossed, calls, size);
    float *got = malloc(bytes);
    if (!got)
        MPI_Abort(MPI_COMM_WORLD, 1);
    cuda_read(DEVICE, got, recv, bytes);
    if (!getenv("SPARSESHIM_MODE"))
        check(got, n, values);
    free(got);
    if (rank == 0)
        printf("{\"elements\": %d, \"ranks\": %d, \"algorithm\": \"%s\", \"mode\": \"%s\", "
               "\"calls\": %d, "
               "\"wall_ms\": %.4g, \"processor_ms\": %.4g, \"sent\": %.0f, \"to_device\": %.0f, "
               "\"to_host\": %.0f}\n",
               n, size, getenv("SPARSESHIM_ALGORITHM") ? getenv("SPARSESHIM_ALGORITHM") : "auto",
               getenv("SPARSESHIM_MODE") ? getenv("SPARSESHIM_MODE") : "exact", calls,
               1e3 * measure_median(wall, calls), 1e3 * measure_median(spent, calls), crossed.sent,
               crossed.to_device, crossed.to_host);
    free(spent);
    free(wall);
    free(values);
    MPI_Finalize();
    return 0;
}
