/* Calls of a program whose device has failed it.
 *
 *     device_failing sticky N     behind N calls an error of the program's own stays with its
 *                                 context: from then on the driver says nothing else, not even
 *                                 whose memory it is
 *     device_failing beside       the device of the last rank fails between two calls; it goes on
 *                                 with buffers of the host, under TIMEOUT
 *     device_failing told KIND    the device of the last rank fails between two calls of a kind,
 *                                 which all ranks are to hear of */
#include <sys/mman.h>
#include <unistd.h>

#include "tests/mpi/device/device_memory.h"
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 70000, HERE = 60000, CALLS = 4 };

static float *mapped(void)
{
    return mmap(NULL, 4 * COUNT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static bool says(int err, const char *part)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (err != MPI_SUCCESS)
        MPI_Error_string(err, text, &length);
    return strstr(text, part) != NULL;
}

static void sticky(int calls_before)
{
    char *send = cuda_memory(DEVICE, 4 * COUNT), *recv = cuda_memory(DEVICE, 4 * COUNT);
    float *in = mapped(), *out = mapped();
    bool failed = true, right = true;
    MPI_Comm away;
    int err;

    MPI_Comm_dup(MPI_COMM_WORLD, &away);
    MPI_Comm_set_errhandler(away, MPI_ERRORS_RETURN);
    input_fill_fractions(in, COUNT, 1, tap.rank);
    cuda_write(DEVICE, send, in, 4 * COUNT);
    for (int call = 0; call < calls_before; call++)
        MPI_Allreduce(send, recv, COUNT, MPI_FLOAT, MPI_SUM, away);
    setenv("TEST_CUDA_FAIL", "cuMemcpyHtoDAsync_v2:+1:700", 1);
    (void)cuda.cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)send, in, 4, CU_STREAM_LEGACY);
    err = MPI_Allreduce(send, recv, COUNT, MPI_FLOAT, MPI_SUM, away);
    tap_ok(says(err, "cannot be copied: CUDA_ERROR_ILLEGAL_ADDRESS"),
           "the call behind it is an error with the driver's name of its own");
    for (int call = 1; call < CALLS; call++)
        failed =
            MPI_Allreduce(send, recv, COUNT, MPI_FLOAT, MPI_SUM, away) != MPI_SUCCESS && failed;
    tap_ok(failed, "so are the next ones");
    input_fill_whole(in, HERE, 1, tap.rank);
    for (int call = 0; call < CALLS; call++) {
        right = MPI_Allreduce(in, out, HERE, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS &&
                right;
        right = input_is_whole_sum(out, HERE, 1, tap.size) && right;
    }
    tap_ok(right, "calls on the host, on another communicator, are right");
}

/* Makes a call and returns its code. */
static int call_of(const char *kind, const void *in, void *out)
{
    const int each = COUNT / tap.size;
    MPI_Request request = MPI_REQUEST_NULL;
    int err;

    if (strcmp(kind, "allreduce") == 0)
        return MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (strcmp(kind, "allgather") == 0)
        return MPI_Allgather(in, each, MPI_FLOAT, out, each, MPI_FLOAT, MPI_COMM_WORLD);
    if (strcmp(kind, "reduce_scatter") == 0)
        return MPI_Reduce_scatter_block(in, out, each, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (strcmp(kind, "reduce") == 0)
        return MPI_Reduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    err = strcmp(kind, "iallgather") == 0
              ? MPI_Iallgather(in, each, MPI_FLOAT, out, each, MPI_FLOAT, MPI_COMM_WORLD, &request)
              : MPI_Iallreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    return err == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : err;
}

static void told(const char *kind)
{
    enum { ALL = 6, LIVE = 3 };
    char *in = cuda_memory(DEVICE, 4 * COUNT), *out = cuda_memory(DEVICE, 4 * COUNT);
    const bool fails = tap.rank == tap.size - 1;
    float *values = mapped();
    bool lived = true, failed = true, named;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < COUNT; i += 100)
        values[i] = 1;
    cuda_write(DEVICE, in, values, 4 * COUNT);
    lived = call_of("allreduce", in, out) == MPI_SUCCESS; /* first exchange */
    for (int call = 0; call < LIVE; call++)
        lived = call_of(kind, in, out) == MPI_SUCCESS && lived;
    tap_ok(lived, "calls before");
    if (fails) {
        setenv("TEST_CUDA_FAIL", "cuMemcpyHtoDAsync_v2:+1:700", 1);
        (void)cuda.cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)in, values, 4, CU_STREAM_LEGACY);
    }
    named = says(call_of(kind, in, out), fails ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "another rank");
    tap_ok(named, "the call behind is an error on all ranks");
    for (int call = 0; call < ALL - LIVE; call++)
        failed = call_of(kind, in, out) != MPI_SUCCESS && failed;
    tap_ok(failed, "and none that follows meets another");
}

/* All ranks have an error, others once TIMEOUT has passed where they cannot be told, and in none of
 * their calls the sum of what belongs to another. Nothing is printed by TAP: the ranks cannot agree
 * any more. */
static void beside(void)
{
    enum { ALL = 7, LIVE = 4 };
    char *send = cuda_memory(DEVICE, 4 * COUNT), *recv = cuda_memory(DEVICE, 4 * COUNT);
    const bool fails = tap.rank == tap.size - 1;
    float *in = mapped(), *out = mapped();
    bool right = true, told = false;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int call = 0; call < ALL && right; call++) {
        const bool here = fails && call > LIVE;
        int err;
        for (int i = 0; i < COUNT; i++)
            in[i] = (float)(1 + call);
        if (fails && call == LIVE) {
            setenv("TEST_CUDA_FAIL", "cuMemcpyHtoDAsync_v2:+1:700", 1);
            (void)cuda.cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)send, in, 4, CU_STREAM_LEGACY);
        } else if (!here) {
            cuda_write(DEVICE, send, in, 4 * COUNT);
        }
        err = MPI_Allreduce(here ? (void *)in : send, here ? (void *)out : recv, COUNT, MPI_FLOAT,
                            MPI_SUM, MPI_COMM_WORLD);
        if (fails && call == LIVE)
            told = says(err, "CUDA_ERROR_ILLEGAL_ADDRESS");
        else if (!fails && call >= LIVE)
            told = told || err != MPI_SUCCESS;
        if (err != MPI_SUCCESS)
            continue;
        if (!here)
            cuda_read(DEVICE, out, recv, 4 * COUNT);
        right = out[0] == (float)(tap.size * (1 + call));
    }
    printf("rank %d: %s\n", tap.rank, right && told ? "an error, and no wrong sum" : "wrong");
    fflush(stdout);
    sleep(6); /* who ends first ends all */
    _exit(0);
}

int main(int argc, char **argv)
{
    int provided, status;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    tap_begin(MPI_COMM_WORLD);
    cuda_open();
    if (argc == 3 && strcmp(argv[1], "sticky") == 0)
        sticky(atoi(argv[2]));
    else if (argc == 2 && strcmp(argv[1], "beside") == 0)
        beside();
    else if (argc == 3 && strcmp(argv[1], "told") == 0)
        told(argv[2]);
    if (tap.checks == 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    status = tap_end();
    MPI_Finalize();
    return status;
}
