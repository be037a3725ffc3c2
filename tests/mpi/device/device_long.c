/* Entries of long messages go to the device as they came: 4 bytes of value and at most 1 of index,
 * not 8. The own entries are not coded, and come from it with a bitmap; with an argument, they are
 * claimed (MODE=topk) and stay there, and come as a message. With ALGORITHM=allgather each rank
 * adds all ranks'. With a second argument a step makes two nonblocking calls. */
#include <stdbool.h>
#include <stdint.h>

#include "tests/mpi/device/device_memory.h"
#include "tests/mpi/support/tap.h"

enum { N = 120000, EVERY = 8, ENTRIES = N / EVERY, STEPS = 4, CALLS = 2 };

static int rank, size, calls = 1;

static float element(int r, int i)
{
    return (i * 7 + r) % EVERY == 0 ? (float)(1 + i % 9) : 0;
}

static bool is_right(const float *got)
{
    for (int i = 0; i < N; i++) {
        float sum = 0;
        for (int r = 0; r < size; r++)
            sum += element(r, i);
        if (got[i] != sum)
            return false;
    }
    return true;
}

static void make_calls(char *const *send, char *const *recv)
{
    MPI_Request request[CALLS];
    MPI_Status status[CALLS];

    if (calls == 1) {
        MPI_Allreduce(send[0], recv[0], N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return;
    }
    for (int c = 0; c < calls; c++)
        MPI_Iallreduce(send[c], recv[c], N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request[c]);
    MPI_Waitall(calls, request, status);
}

/* Makes a step. Counts the bytes that crossed to the host and back, if the driver counts them. */
static bool step(char *const *send, char *const *recv, float *values, unsigned long long crossed[2])
{
    unsigned long long before[2] = {0, 0}, after[2] = {0, 0};
    bool right = true;

    for (int i = 0; i < N; i++)
        values[i] = element(rank, i);
    for (int c = 0; c < calls; c++)
        cuda_write(DEVICE, send[c], values, 4 * (size_t)N);
    if (cuda.crossed)
        cuda.crossed(&before[0], &before[1]);
    make_calls(send, recv);
    if (cuda.crossed)
        cuda.crossed(&after[0], &after[1]);
    for (int way = 0; way < 2; way++)
        crossed[way] = (after[way] - before[way]) / (unsigned)calls;
    for (int c = 0; c < calls; c++) {
        cuda_read(DEVICE, values, recv[c], 4 * (size_t)N);
        right = is_right(values) && right;
    }
    return right;
}

int main(int argc, char **argv)
{
    unsigned long long crossed[2] = {0, 0};
    bool right = true;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    tap_begin(MPI_COMM_WORLD);
    cuda_open();
    float *values = malloc(4 * (size_t)N);
    char *send[CALLS], *recv[CALLS];
    for (int c = 0; c < CALLS; c++) {
        send[c] = cuda_memory(DEVICE, 4 * (size_t)N);
        recv[c] = cuda_memory(DEVICE, 4 * (size_t)N);
    }
    calls = argc > 2 ? CALLS : 1;
    if (calls > 1) /* the first one is the MPI library's */
        MPI_Allreduce(send[0], recv[0], N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int s = 0; s < STEPS; s++)
        right = step(send, recv, values, crossed) && right;
    tap_ok(right, "sums of long messages");
    if (cuda.crossed) {
        const unsigned long long own = argc > 1 ? 0 : 8 * ENTRIES,
                                 come = 5 * ENTRIES * (unsigned long long)(size - 1);
        tap_ok(crossed[1] >= own && crossed[1] <= own + come + 4096,
               "... %llu bytes to the device for %d entries of each of %d ranks", crossed[1],
               ENTRIES, size);
    }
    if (cuda.crossed) /* values, and a bit for each element */
        tap_ok(crossed[0] <= 4 * ENTRIES + (argc > 1 ? ENTRIES : N / 8) + 4096,
               "... %llu bytes from it", crossed[0]);
    free(values);
    const int status = tap_end();
    MPI_Finalize();
    return status;
}
