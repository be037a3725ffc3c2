/* A program that has always work under way in the legacy stream when it calls.
 *
 *     device_busy         blocking calls
 *     device_busy holds   calls of two threads, of which one waits for work that ends once the
 * other's call has */
#include <pthread.h>
#include <stdatomic.h>
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

static void calls(void)
{
    static float values[N];
    bool right = true;

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
}

/* ---- two threads ---- */

static void own_sum(void *in, void *out, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++)
        ((float *)out)[i] += ((float *)in)[i];
}

static atomic_int over;

static void *wait_for(void *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
    atomic_store(&over, 1);
    return NULL;
}

static void begin(char *const buffers[2], MPI_Request *request)
{
    MPI_Iallreduce(buffers[0], buffers[1], N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, request);
}

/* With an operator of the program nonblocking calls are the MPI library's, which is to get them at
 * once. */
static void holds(void)
{
    enum { ALL = 4 };
    static float values[N];
    char *buffers[ALL][2];
    MPI_Request request[ALL];
    MPI_Status statuses[ALL];
    bool right = true;
    pthread_t other;
    MPI_Op op;

    for (int i = 0; i < N; i++)
        values[i] = 1;
    for (int b = 0; b < ALL; b++) {
        const enum kind kind = b == 0 ? SECOND : DEVICE;
        buffers[b][0] = cuda_memory(kind, sizeof values);
        buffers[b][1] = cuda_memory(kind, sizeof values);
        cuda_write(kind, buffers[b][0], values, sizeof values);
    }
    for (int call = 0; call < CALLS; call++)
        MPI_Allreduce(buffers[0][0], buffers[0][1], N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Op_create(own_sum, 1, &op);
    for (int call = 0; call < 2 * CALLS; call++) {
        for (int b = 0; b < ALL; b++)
            begin(buffers[b], &request[b]);
        MPI_Waitall(ALL, request, statuses);
    }
    for (int b = 0; b < ALL - 1; b++)
        begin(buffers[b], &request[b]);
    cuda.hold(&over);
    pthread_create(&other, NULL, wait_for, &request[0]);
    begin(buffers[ALL - 1], &request[ALL - 1]);
    pthread_join(other, NULL);
    MPI_Waitall(ALL - 1, request + 1, statuses);
    for (int b = 0; b < ALL; b++) {
        cuda_read(b == 0 ? SECOND : DEVICE, values, buffers[b][1], sizeof values);
        right = values[0] == (float)tap.size && values[N - 1] == (float)tap.size && right;
    }
    tap_ok(right, "sums behind work that waits for another thread's");
    MPI_Op_free(&op);
}

int main(int argc, char **argv)
{
    const bool held = argc > 1 && strcmp(argv[1], "holds") == 0;
    int provided, status;

    MPI_Init_thread(&argc, &argv, held ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    tap_begin(MPI_COMM_WORLD);
    cuda_open();
    if (held)
        holds();
    else
        calls();
    status = tap_end();
    MPI_Finalize();
    return status;
}
