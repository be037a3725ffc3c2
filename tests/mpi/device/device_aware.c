/* Calls under an MPI library that takes device memory (tests/preload/cuda_takes.c): with buffers in
 * device memory on all ranks, on some, and on none.
 *
 * blocking [N] sums and gathers, each with every mixture of buffers; the longest of N elements
 * nonblocking  the same, two at a time, with a blocking sum behind them
 * steps        sums of one gradient: buffers of the host, then of a device on one rank in turn
 * alone        every call has buffers of the host */
#include <mpi.h>
#include <string.h>

#include "tests/mpi/device/device_memory.h"
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { SHORT = 5000, STEPS = 24, ROUNDS = 6 };
enum call { ALLREDUCE, REDUCE_SCATTER, REDUCE, GATHER, CALLS };
static const char *const names[CALLS] = {"allreduce", "reduce_scatter_block", "reduce",
                                         "allgather"};

static int rank, size, elements = 1200000; /* more than a piece of 4 MiB */
static uint64_t seed = 1;
static float *host[2], *input, *result, *expected;
static char *device[2];

static size_t sent(enum call call, int n)
{
    return call == REDUCE_SCATTER ? (size_t)n * (size_t)size : (size_t)n;
}

static size_t received(enum call call, int n)
{
    return call == GATHER ? (size_t)n * (size_t)size : (size_t)n;
}

static void fill(float *values, size_t n)
{
    memset(values, 0, n * sizeof *values);
    for (size_t i = (size_t)(seed % 7) + (size_t)rank; i < n; i += 100)
        values[i] = (float)((seed + i) % 50 + 1);
}

static int make(enum call call, const void *send, void *recv, int n, MPI_Request *request)
{
    MPI_Comm comm = MPI_COMM_WORLD;

    if (call == ALLREDUCE)
        return request ? MPI_Iallreduce(send, recv, n, MPI_FLOAT, MPI_SUM, comm, request)
                       : MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, comm);
    if (call == REDUCE_SCATTER)
        return request ? MPI_Ireduce_scatter_block(send, recv, n, MPI_FLOAT, MPI_SUM, comm, request)
                       : MPI_Reduce_scatter_block(send, recv, n, MPI_FLOAT, MPI_SUM, comm);
    if (call == REDUCE)
        return request ? MPI_Ireduce(send, recv, n, MPI_FLOAT, MPI_SUM, 0, comm, request)
                       : MPI_Reduce(send, recv, n, MPI_FLOAT, MPI_SUM, 0, comm);
    return request ? MPI_Iallgather(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, comm, request)
                   : MPI_Allgather(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, comm);
}

static void expect(enum call call, int n)
{
    MPI_Comm comm = MPI_COMM_WORLD;

    if (call == ALLREDUCE)
        PMPI_Allreduce(input, expected, n, MPI_FLOAT, MPI_SUM, comm);
    else if (call == REDUCE_SCATTER)
        PMPI_Reduce_scatter_block(input, expected, n, MPI_FLOAT, MPI_SUM, comm);
    else if (call == REDUCE)
        PMPI_Reduce(input, expected, n, MPI_FLOAT, MPI_SUM, 0, comm);
    else
        PMPI_Allgather(input, n, MPI_FLOAT, expected, n, MPI_FLOAT, comm);
}

static bool is_right(enum call call, bool out, int n)
{
    const size_t bytes = received(call, n) * sizeof(float);

    if (call == REDUCE && rank != 0)
        return true;
    if (out)
        cuda_read(DEVICE, result, device[1], bytes);
    return memcmp(out ? result : host[1], expected, bytes) == 0;
}

/* Makes one call, with the send buffer (in) and the receive buffer (out) on the device or not. */
static bool one(enum call call, int n, bool in, bool out, bool waits)
{
    const size_t bytes = sent(call, n) * sizeof(float);
    void *send = in ? (void *)device[0] : host[0], *recv = out ? (void *)device[1] : host[1];
    MPI_Request request = MPI_REQUEST_NULL;
    int err;

    seed++;
    fill(input, sent(call, n));
    if (in)
        cuda_write(DEVICE, device[0], input, bytes);
    else
        memcpy(host[0], input, bytes);
    err = make(call, send, recv, n, waits ? &request : NULL);
    if (waits)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(call, n);
    return err == MPI_SUCCESS && is_right(call, out, n);
}

static void mixtures(bool waits)
{
    for (enum call call = 0; call < CALLS; call++) {
        const int most = call == ALLREDUCE || call == REDUCE ? elements : elements / size;
        bool all = true, some = true, none = true;

        for (int i = 0; i < ROUNDS; i++) {
            const int n = i == 0 ? most : most / 20; /* once more than one piece */
            all = one(call, n, true, true, waits) && all;
            some = one(call, n, i % size == rank, (i / 2) % size == rank, waits) && some;
            some = one(call, n, i % 2, !(i % 2), waits) && some;
            none = one(call, n, false, false, waits) && none;
        }
        tap_ok(all, "%s: buffers in device memory on all ranks", names[call]);
        tap_ok(some, "%s: on some ranks, one of two", names[call]);
        tap_ok(none, "%s: buffers of the host", names[call]);
        tap_ok(one(call, SHORT, true, true, waits), "%s: a short one", names[call]);
    }
}

static void blocking(void)
{
    mixtures(false);
}

static void nonblocking(void)
{
    (void)one(ALLREDUCE, elements, false, false, false);
    mixtures(true);
}

/* The sum of a lossy call is another, but it is the same on all ranks. */
static bool same_sum(void)
{
    memcpy(expected, result, SHORT * sizeof(float));
    PMPI_Bcast(expected, SHORT, MPI_FLOAT, 0, MPI_COMM_WORLD);
    return memcmp(expected, result, SHORT * sizeof(float)) == 0;
}

static void steps(void)
{
    double given = 0, got = 0;
    bool same = true;

    for (int step = 0; step < STEPS; step++) {
        const bool there = step >= STEPS / 2 && step % size == rank;

        seed++;
        fill(input, SHORT);
        memcpy(host[0], input, SHORT * sizeof(float));
        if (there)
            cuda_write(DEVICE, device[0], input, SHORT * sizeof(float));
        MPI_Allreduce(there ? (void *)device[0] : host[0], there ? (void *)device[1] : host[1],
                      SHORT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (there)
            cuda_read(DEVICE, result, device[1], SHORT * sizeof(float));
        else
            memcpy(result, host[1], SHORT * sizeof(float));
        same = same_sum() && same;
        for (int i = 0; i < SHORT; i++) {
            given += input[i];
            got += result[i] / (float)size;
        }
    }
    PMPI_Allreduce(MPI_IN_PLACE, &given, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    tap_ok(same, "all ranks get the same sums");
    tap_ok(got * size <= given, "nothing is summed twice: %g of %g", got * size, given);
}

static void alone(void)
{
    bool right = true;

    for (int i = 0; i < STEPS; i++)
        right = one(ALLREDUCE, i < 2 ? elements : elements / 20, false, false, false) && right;
    tap_ok(right, "sums");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
        {"blocking", blocking}, {"nonblocking", nonblocking}, {"steps", steps}, {"alone", alone}};
    const char *mode = argc > 1 ? argv[1] : "blocking";
    size_t room;

    if (argc > 2)
        elements = atoi(argv[2]);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    tap_begin(MPI_COMM_WORLD);
    room = ((size_t)elements + SHORT) * (size_t)size * sizeof(float);
    cuda_open();
    for (int i = 0; i < 2; i++) {
        host[i] = malloc(room);
        device[i] = cuda_memory(DEVICE, room);
    }
    input = malloc(room);
    result = malloc(room);
    expected = malloc(room);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(mode, modes[i].name) == 0)
            modes[i].run();
    if (tap.checks == 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    const int status = tap_end();
    MPI_Finalize();
    return status;
}
