/* Tests calls whose buffers begin anywhere, and calls without buffers.
 *
 *     device_layouts words      gathers of words at addresses between theirs
 *     device_layouts nothing    calls that touch no memory of a device
 *     device_layouts alone      nonblocking calls on communicators of one rank */
#include <complex.h>
#include <stdbool.h>

#include "tests/mpi/device/device_memory.h"
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 70000, SMALL = 5000 };

static float host[COUNT], got[COUNT], other[COUNT];

static void words(void)
{
    const size_t bytes = sizeof(float complex) * SMALL, all = bytes * (size_t)tap.size;
    float complex *mine = malloc(bytes), *native = malloc(all), *gathered = malloc(all);
    char *send = cuda_memory(DEVICE, bytes + 4), *recv = cuda_memory(DEVICE, all + 4);
    bool same = true;

    for (int call = 0; call < 5; call++) {
        for (int i = 0; i < SMALL; i++)
            mine[i] = i % 97 == 0 ? (float)(i + 1000 * call) + (float)tap.rank * I : 0;
        cuda_write(DEVICE, send + 4, mine, bytes);
        MPI_Allgather(send + 4, SMALL, MPI_C_FLOAT_COMPLEX, recv + 4, SMALL, MPI_C_FLOAT_COMPLEX,
                      MPI_COMM_WORLD);
        cuda_read(DEVICE, gathered, recv + 4, all);
        PMPI_Allgather(mine, SMALL, MPI_C_FLOAT_COMPLEX, native, SMALL, MPI_C_FLOAT_COMPLEX,
                       MPI_COMM_WORLD);
        same = same && memcmp(gathered, native, all) == 0;
    }
    tap_ok(same, "words of 8 bytes at addresses between theirs");
    free(mine);
    free(native);
    free(gathered);
}

static bool ends_well(int err, MPI_Request *request)
{
    return err == MPI_SUCCESS && MPI_Wait(request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* Buffers of no elements may lie anywhere, and so may the receive buffer of who is not the root. */
static void nothing(void)
{
    char *send = cuda_memory(DEVICE, 4 * SMALL), *recv = cuda_memory(POOL, 4 * SMALL);
    int counts[64] = {0}, displs[64] = {0};
    MPI_Request request;
    int err;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    err = MPI_Iallreduce(send, recv, 0, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    tap_ok(ends_well(err, &request), "an iallreduce of nothing");
    err = MPI_Iallreduce(MPI_IN_PLACE, recv, 0, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    tap_ok(ends_well(err, &request), "in place");
    err = MPI_Iallgather(send, 0, MPI_FLOAT, recv, 0, MPI_FLOAT, MPI_COMM_WORLD, &request);
    tap_ok(ends_well(err, &request), "an iallgather of nothing");
    for (int n = 10; n <= COUNT; n *= COUNT / 10) {
        const bool gives = tap.rank == 1;
        counts[1] = n;
        input_fill_whole(host, n, (uint64_t)n, tap.rank);
        err = MPI_Iallgatherv(gives ? (void *)host : send, gives ? n : 0, MPI_FLOAT, got, counts,
                              displs, MPI_FLOAT, MPI_COMM_WORLD, &request);
        input_fill_whole(other, n, (uint64_t)n, 1);
        tap_ok(ends_well(err, &request) && memcmp(got, other, 4 * (size_t)n) == 0,
               "who gives nothing to an iallgatherv of %d names a device", n);
    }
    err = MPI_Reduce(host, tap.rank == 0 ? (void *)got : recv, COUNT, MPI_FLOAT, MPI_MAX, 0,
                     MPI_COMM_WORLD);
    tap_ok(err == MPI_SUCCESS, "a reduce to the host");
}

static void alone(void)
{
    const MPI_Comm comms[] = {MPI_COMM_SELF, MPI_COMM_WORLD};
    char *send = cuda_memory(DEVICE, sizeof host), *recv = cuda_memory(DEVICE, sizeof host);
    MPI_Request request;

    input_fill_whole(host, COUNT, 1, tap.rank);
    cuda_write(DEVICE, send, host, sizeof host);
    for (int c = tap.size > 1; c >= 0; c--) {
        const int size = comms[c] == MPI_COMM_SELF ? 1 : tap.size;
        MPI_Allreduce(send, recv, COUNT, MPI_FLOAT, MPI_SUM, comms[c]);
        for (int call = 0; call < 3; call++) {
            int err;
            memset(got, 0, sizeof got);
            cuda_write(DEVICE, recv, got, sizeof got);
            err = MPI_Iallreduce(send, recv, COUNT, MPI_FLOAT, MPI_SUM, comms[c], &request);
            cuda_read(DEVICE, got, recv, ends_well(err, &request) ? sizeof got : 0);
            input_fill_whole(other, COUNT, 1, tap.rank);
            tap_ok(size > 1 ? input_is_whole_sum(got, COUNT, 1, size)
                            : memcmp(got, other, sizeof got) == 0,
                   "an iallreduce on a communicator of %d", size);
        }
        if (size > 1)
            continue;
        memset(got, 0, sizeof got);
        cuda_write(DEVICE, recv, got, sizeof got);
        int err =
            MPI_Iallgather(send, COUNT, MPI_FLOAT, recv, COUNT, MPI_FLOAT, comms[c], &request);
        cuda_read(DEVICE, got, recv, ends_well(err, &request) ? sizeof got : 0);
        tap_ok(memcmp(got, other, sizeof got) == 0, "an iallgather on a communicator of one");
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int provided, status;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    tap_begin(MPI_COMM_WORLD);
    cuda_open();
    if (strcmp(mode, "words") == 0)
        words();
    else if (strcmp(mode, "nothing") == 0)
        nothing();
    else if (strcmp(mode, "alone") == 0)
        alone();
    if (tap.checks == 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    status = tap_end();
    MPI_Finalize();
    return status;
}
