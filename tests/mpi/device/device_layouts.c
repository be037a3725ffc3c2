/* Where the buffers of a call begin, and where there are none.
 *
 *     device_layouts words      gathers of words at addresses between theirs
 *     device_layouts bottom     datatypes of absolute addresses
 *     device_layouts nothing    calls that touch no memory of a device
 *     device_layouts outside    displacements that lead into memory of a device from beside it
 *     device_layouts alone      nonblocking calls on communicators of one rank
 *     device_layouts two        buffers that begin on one device and end on another */
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

/* Of COUNT elements at an address. */
static MPI_Datatype at_address(const void *p)
{
    const int length = COUNT;
    MPI_Aint at;
    MPI_Datatype type;

    MPI_Get_address(p, &at);
    MPI_Type_create_hindexed(1, &length, &at, MPI_FLOAT, &type);
    MPI_Type_commit(&type);
    return type;
}

static void sum_there(void *in, void *out, int *n, MPI_Datatype *type)
{
    MPI_Aint from, extent;

    (void)n;
    MPI_Type_get_true_extent(*type, &from, &extent);
    for (int i = 0; i < COUNT; i++)
        ((float *)((char *)out + from))[i] += ((float *)((char *)in + from))[i];
}

static void bottom(void)
{
    const size_t slices = (size_t)tap.size * sizeof host;
    float *all = malloc(slices);
    char *mine;
    MPI_Request request;
    MPI_Datatype there;
    MPI_Op op;

    for (int call = 0; call < 3; call++)
        MPI_Allgather(host, COUNT, MPI_FLOAT, all, COUNT, MPI_FLOAT, MPI_COMM_WORLD);
    for (int kind = DEVICE; kind <= POOL; kind++) {
        char *whole = cuda_memory((enum kind)kind, slices);
        bool right = true;

        mine = cuda_memory((enum kind)kind, sizeof host);
        there = at_address(mine);
        input_fill_whole(host, COUNT, (uint64_t)kind, tap.rank);
        cuda_write((enum kind)kind, mine, host, sizeof host);
        for (int call = 0; call < 2; call++) {
            if (call == 0)
                MPI_Allgather(MPI_BOTTOM, 1, there, whole, COUNT, MPI_FLOAT, MPI_COMM_WORLD);
            else
                MPI_Iallgather(MPI_BOTTOM, 1, there, whole, COUNT, MPI_FLOAT, MPI_COMM_WORLD,
                               &request);
            if (call == 1)
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            cuda_read((enum kind)kind, all, whole, slices);
            for (int r = 0; r < tap.size; r++) {
                input_fill_whole(other, COUNT, (uint64_t)kind, r);
                right = right && memcmp(all + (size_t)r * COUNT, other, sizeof other) == 0;
            }
            tap_ok(right, "a gather from MPI_BOTTOM, %s", kind_names[kind]);
        }
        MPI_Type_free(&there);
    }
    mine = cuda_memory(DEVICE, sizeof host);
    there = at_address(mine);
    input_fill_whole(host, COUNT, 1, tap.rank);
    cuda_write(DEVICE, mine, host, sizeof host);
    MPI_Op_create(sum_there, 1, &op); /* ends nonblocking calls of ours */
    MPI_Allreduce(MPI_IN_PLACE, MPI_BOTTOM, 1, there, op, MPI_COMM_WORLD);
    cuda_read(DEVICE, got, mine, sizeof got);
    tap_ok(input_is_whole_sum(got, COUNT, 1, tap.size), "a sum at MPI_BOTTOM");
    MPI_Op_free(&op);
    MPI_Type_free(&there);
    free(all);
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

/* The receive buffer is named by its end, or by an address before it. The memory is longer than
 * what the driver hands out at once, so that no other follows. */
static void outside(void)
{
    enum { EACH = 524288 };
    const size_t slices = 4 * (size_t)EACH * (size_t)tap.size;
    float *mine = malloc(4 * (size_t)EACH), *all = malloc(slices), *native = malloc(slices);
    int *counts = malloc(2 * (size_t)tap.size * sizeof *counts), *displs = counts + tap.size;

    for (int form = 0; form < 4; form++) {
        const bool before = form % 2, in_place = form / 2;
        char *recv = cuda_memory(DEVICE, slices);
        for (int r = 0; r < tap.size; r++) {
            counts[r] = EACH;
            displs[r] = before ? (r + 1) * EACH : (r - tap.size) * EACH;
        }
        input_fill_whole(mine, EACH, (uint64_t)form, tap.rank);
        if (in_place)
            cuda_write(DEVICE, recv + 4 * (size_t)EACH * (size_t)tap.rank, mine, 4 * EACH);
        PMPI_Allgather(mine, EACH, MPI_FLOAT, native, EACH, MPI_FLOAT, MPI_COMM_WORLD);
        MPI_Allgatherv(in_place ? MPI_IN_PLACE : mine, EACH, MPI_FLOAT,
                       before ? recv - 4 * (size_t)EACH : recv + slices, counts, displs, MPI_FLOAT,
                       MPI_COMM_WORLD);
        cuda_read(DEVICE, all, recv, slices);
        tap_ok(memcmp(all, native, slices) == 0, "slices from %s%s", before ? "before" : "the end",
               in_place ? ", in place" : "");
    }
    free(counts);
    free(native);
    free(all);
    free(mine);
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

static void two(void)
{
    CUresult (*span)(CUdeviceptr *, size_t, size_t);
    CUdeviceptr in = 0, out = 0;

    *(void **)(void *)&span = dlsym(cuda.library, "test_cuda_span");
    if (!span || span(&in, sizeof host, sizeof host / 2) ||
        span(&out, sizeof host, sizeof host - 1))
        MPI_Abort(MPI_COMM_WORLD, 3);
    for (int call = 0; call < 4; call++) {
        input_fill_whole(host, COUNT, (uint64_t)call, tap.rank);
        cuda_write(DEVICE, (char *)in, host, sizeof host);
        MPI_Allreduce((void *)in, (void *)out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        cuda_read(DEVICE, got, (char *)out, sizeof got);
        tap_ok(input_is_whole_sum(got, COUNT, (uint64_t)call, tap.size), "a sum on two devices");
        cuda_write(DEVICE, (char *)in, host, sizeof host);
        MPI_Allreduce(MPI_IN_PLACE, (void *)in, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        cuda_read(DEVICE, got, (char *)in, sizeof got);
        tap_ok(input_is_whole_sum(got, COUNT, (uint64_t)call, tap.size), "... in place");
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
    else if (strcmp(mode, "bottom") == 0)
        bottom();
    else if (strcmp(mode, "nothing") == 0)
        nothing();
    else if (strcmp(mode, "outside") == 0)
        outside();
    else if (strcmp(mode, "alone") == 0)
        alone();
    else if (strcmp(mode, "two") == 0)
        two();
    if (tap.checks == 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    status = tap_end();
    MPI_Finalize();
    return status;
}
