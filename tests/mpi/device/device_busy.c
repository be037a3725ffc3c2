/* A program that has always work under way in the legacy stream when it calls. */
#include <stdbool.h>

#include "tests/mpi/device/device_memory.h"
#include "tests/mpi/support/tap.h"

enum { N = 5000, CALLS = 3, LONG = 32 << 20, TIMES = 4 };

static void queue_work(char *memory)
{
    for (int i = 0; i < TIMES; i++)
        CUDA(cuMemsetD32Async((CUdeviceptr)(uintptr_t)memory, (unsigned)i, LONG / 4,
                              CU_STREAM_LEGACY));
}

int main(int argc, char **argv)
{
    static float values[N];
    bool right = true;
    int status;

    MPI_Init(&argc, &argv);
    tap_begin(MPI_COMM_WORLD);
    cuda_open();
    char *work = cuda_memory(DEVICE, LONG), *in = cuda_memory(DEVICE, sizeof values),
         *out = cuda_memory(DEVICE, sizeof values);
    for (int call = 0; call < CALLS; call++) {
        for (int i = 0; i < N; i++)
            values[i] = i % 100 == call ? 1 : 0;
        cuda_write(DEVICE, in, values, sizeof values);
        queue_work(work);
        MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        cuda_read(DEVICE, values, out, sizeof values);
        for (int i = 0; i < N; i++)
            right = values[i] == (i % 100 == call ? (float)tap.size : 0) && right;
    }
    tap_ok(right, "sums behind work that is under way");
    status = tap_end();
    MPI_Finalize();
    return status;
}
