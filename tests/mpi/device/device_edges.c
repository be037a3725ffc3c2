/* Tests calls on buffers in device memory while other calls are in flight or fail.
 *
 *     device_edges order        nonblocking calls that go to the MPI library while one of them is
 *                               still being copied, on one rank
 *     device_edges operator     the program makes an operator beside nonblocking calls
 *     device_edges receives     a program with an operator waits for a message behind such a call
 *     device_edges lost         the device is reset after the last call
 *     device_edges destroyed    the program destroys a context of its own after its last call there
 *     device_edges gaps         what lies between the slices of a gather changes beside it
 *     device_edges dead FAULT   the device of the last rank fails for good; a further argument:
 *                               in nonblocking calls
 *     device_edges copy         a copy fails on rank 1 behind the vote, under TIMEOUT
 *     device_edges missed       what follows a call of the MPI library's whose copy fails on rank 1
 *     device_edges many         more calls under way than blocks of pinned memory
 *     device_edges refused      an operator keeps nonblocking calls from being taken over: what is
 *                               said */
#include <stdbool.h>
#include <unistd.h>

#include "tests/mpi/device/device_memory.h"
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

enum { COUNT = 70000, SMALL = 5000, REQUESTS = 16 };

static float host[COUNT], got[COUNT], other[COUNT], sum[COUNT];

static void own_sum(void *in, void *out, int *n, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *n; i++)
        ((float *)out)[i] += ((float *)in)[i];
}

static void fill(float *values, int n, float value)
{
    for (int i = 0; i < n; i++)
        values[i] = value;
}

/* From the operator on nonblocking calls are the MPI library's, in the program's order. */
static void order(void)
{
    char *send = cuda_memory(DEVICE, sizeof host), *recv = cuda_memory(DEVICE, sizeof host);
    const bool away = tap.rank == 1;
    MPI_Request request[2];
    MPI_Status status[2];
    MPI_Op op;

    fill(host, COUNT, 1);
    fill(other, COUNT, 100);
    cuda_write(DEVICE, send, host, sizeof host);
    for (int call = 0; call < 3; call++)
        MPI_Allreduce(host, got, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int call = 0; call < 3; call++) {
        MPI_Iallreduce(host, got, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (tap.rank == 0) {
        MPI_Op_create(own_sum, 1, &op);
        usleep(300000);
    }
    MPI_Iallreduce(away ? (void *)send : host, away ? (void *)recv : got, COUNT, MPI_FLOAT, MPI_SUM,
                   MPI_COMM_WORLD, &request[0]);
    MPI_Iallreduce(other, sum, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, status);
    if (away)
        cuda_read(DEVICE, got, recv, sizeof got);
    tap_ok(got[5] == (float)tap.size && sum[5] == 100 * (float)tap.size,
           "each call has its own sum");
}

/* Calls on the device and on the host in turn, as the ranks like: the operator is made on rank 0
 * while the first of them are under way, and used between others. */
static void operator(void)
{
    char *send = cuda_memory(DEVICE, sizeof host), *recv[REQUESTS];
    MPI_Request request[REQUESTS];
    MPI_Status status[REQUESTS];
    MPI_Op op = MPI_OP_NULL;
    bool right = true;

    input_fill_whole(host, COUNT, 1, tap.rank);
    cuda_write(DEVICE, send, host, sizeof host);
    for (int i = 0; i < REQUESTS; i++)
        recv[i] = cuda_memory(i % 3 == 2 ? SECOND : DEVICE, sizeof host);
    for (int call = 0; call < 3; call++)
        MPI_Allreduce(host, got, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int round = 0; round < 5; round++) {
        float *sums = malloc(REQUESTS * sizeof host);
        for (int i = 0; i < REQUESTS; i++) {
            const bool here = (i + tap.rank) % 4 == 3;
            if (i == REQUESTS / 2 && round == 1 && tap.rank == 0)
                MPI_Op_create(own_sum, 1, &op);
            MPI_Iallreduce(here ? (void *)host : send,
                           here ? (void *)(sums + (size_t)i * COUNT) : recv[i], COUNT, MPI_FLOAT,
                           MPI_SUM, MPI_COMM_WORLD, &request[i]);
        }
        MPI_Waitall(REQUESTS, request, status);
        for (int i = 0; i < REQUESTS; i++) {
            const bool here = (i + tap.rank) % 4 == 3;
            if (!here)
                cuda_read(i % 3 == 2 ? SECOND : DEVICE, got, recv[i], sizeof got);
            right = right &&
                    input_is_whole_sum(here ? sums + (size_t)i * COUNT : got, COUNT, 1, tap.size);
        }
        free(sums);
        tap_ok(right, "round %d", round);
    }
    if (op != MPI_OP_NULL)
        MPI_Op_free(&op);
}

static void twelve_calls(void)
{
    char *send = cuda_memory(DEVICE, 4 * SMALL), *recv = cuda_memory(DEVICE, 4 * SMALL);

    for (int call = 0; call < 12; call++) {
        input_fill_fractions(host, SMALL, (uint64_t)call, tap.rank);
        cuda_write(DEVICE, send, host, 4 * SMALL);
        MPI_Allreduce(send, recv, SMALL, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
}

/* The residual lies on the first device. */
static void lost(void)
{
    twelve_calls();
    CUDA(cuDevicePrimaryCtxReset_v2(0));
    CUDA(cuDevicePrimaryCtxRetain(&cuda.context[0], 0));
    CUDA(cuCtxSetCurrent(cuda.context[0]));
    tap_ok(true, "a reset");
}

/* A look at that context after its end reads memory that is gone. Buffers elsewhere are served. */
static void destroyed(void)
{
    const CUcontext first = cuda.context[0];
    CUcontext own;

    for (int round = 0; round < 2; round++) {
        CUDA(cuCtxCreate_v2(&own, 0, 0));
        cuda.context[0] = own;
        twelve_calls();
        CUDA(cuCtxDestroy_v2(own));
        cuda.context[0] = first;
        CUDA(cuCtxSetCurrent(first));
        twelve_calls();
        input_fill_whole(host, COUNT, (uint64_t)round, tap.rank);
        MPI_Allreduce(host, got, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        tap_ok(input_is_whole_sum(got, COUNT, (uint64_t)round, tap.size),
               "round %d: sums of host buffers go on", round);
    }
}

static void fault(const char *plan)
{
    if (tap.rank == 1)
        setenv("TEST_CUDA_FAIL", plan, 1);
}

/* Slices lie a slice apart; what is between them is written while the call is under way: on copies
 * that are filled at its beginning. */
static bool gap_stays(bool nonblocking, char *send, char *recv)
{
    const size_t slices = 2 * (size_t)tap.size;
    int *counts = malloc(sizeof(int) * slices), *displs = counts + tap.size;
    float *all = calloc(slices, sizeof host);
    unsigned long long before[2], after[2];
    MPI_Request request;
    bool right = true;

    for (int r = 0; r < tap.size; r++) {
        counts[r] = SMALL;
        displs[r] = (2 * r + r % 2) * SMALL; /* two gaps, then none */
    }
    fill(host, SMALL, (float)(tap.rank + 1));
    cuda_write(DEVICE, send, host, 4 * SMALL);
    cuda_write(SECOND, recv, (char *)all, slices * 4 * SMALL);
    fill(other, SMALL, -1);
    if (cuda.crossed)
        cuda.crossed(&before[0], &before[1]);
    if (nonblocking) {
        MPI_Iallgatherv(send, SMALL, MPI_FLOAT, recv, counts, displs, MPI_FLOAT, MPI_COMM_WORLD,
                        &request);
        cuda_write(SECOND, recv + 4 * SMALL, other, 4 * SMALL);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Allgatherv(send, SMALL, MPI_FLOAT, recv, counts, displs, MPI_FLOAT, MPI_COMM_WORLD);
    }
    if (cuda.crossed) {
        cuda.crossed(&after[0], &after[1]);
        right = nonblocking || after[1] - before[1] <= 4 * SMALL * (unsigned long long)tap.size;
    }
    cuda_read(SECOND, all, recv, slices * 4 * SMALL);
    for (int r = 0; r < tap.size; r++)
        for (int i = 0; i < SMALL; i++)
            right = right && all[displs[r] + i] == (float)(r + 1);
    for (int i = 0; i < SMALL; i++)
        right = right && all[SMALL + i] == (nonblocking ? -1 : 0);
    free(counts);
    free(all);
    return right;
}

static void gaps(void)
{
    char *send = cuda_memory(DEVICE, 4 * SMALL),
         *recv = cuda_memory(SECOND, 8 * SMALL * (size_t)tap.size);
    bool right = true, beside = true;

    for (int call = 0; call < 5; call++)
        right = gap_stays(false, send, recv) && right;
    tap_ok(right, "only slices are written back");
    for (int call = 0; call < 5; call++)
        beside = gap_stays(true, send, recv) && beside;
    tap_ok(beside, "what is written between slices beside a call stays");
}

/* Makes the device of the last rank fail for good at some call. Every rank then has an error in the
 * same call and in all later ones, whether inputs are sparse or go to the MPI library unseen. */
static void dead(const char *plan, bool nonblocking)
{
    enum { N = 6000, CALLS = 12, LIVE = 6 };
    static float values[N];
    char *in = cuda_memory(DEVICE, sizeof values), *out = cuda_memory(DEVICE, sizeof values);
    int first[2] = {CALLS, -CALLS};

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < N; i++)
        values[i] = (float)(i % 7 + 1);
    cuda_write(DEVICE, in, values, sizeof values);
    for (int call = 0; call < CALLS; call++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int err;
        if (call == LIVE && tap.rank == tap.size - 1)
            setenv("TEST_CUDA_FAIL", plan, 1);
        if (nonblocking && call > 0) {
            err = MPI_Iallreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
            if (err == MPI_SUCCESS)
                err = MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            err = MPI_Allreduce(in, out, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        }
        if (err != MPI_SUCCESS && first[0] == CALLS)
            first[0] = call;
        if (err != MPI_SUCCESS)
            break; /* what follows would be one, too, or wait for ranks that have left */
    }
    first[1] = -first[0];
    PMPI_Allreduce(MPI_IN_PLACE, first, 2, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    tap_ok(first[0] == -first[1] && first[0] >= LIVE && first[0] < CALLS,
           "an error on all ranks in call %d", first[0]);
}

/* Its rank has an error at once, the others once TIMEOUT has passed. Nothing is printed by TAP: the
 * ranks cannot agree any more. */
static void copy(const char *plan)
{
    char *send = cuda_memory(DEVICE, 4 * SMALL), *recv = cuda_memory(DEVICE, 4 * SMALL);
    int err = MPI_SUCCESS;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    fill(host, SMALL, 1);
    cuda_write(DEVICE, send, host, 4 * SMALL);
    for (int call = 0; call < 6 && err == MPI_SUCCESS; call++) {
        if (call == 5)
            fault(plan);
        err = MPI_Allreduce(send, recv, SMALL, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    printf("rank %d: %s\n", tap.rank, err == MPI_SUCCESS ? "no error" : "an error");
    fflush(stdout);
    sleep(5); /* who ends first ends all */
    _exit(0);
}

/* Rank 0 has its calls under way when rank 1, which could not make the first, has made its second.
 */
static void missed(void)
{
    char *send = cuda_memory(DEVICE, 4 * SMALL), *recv = cuda_memory(DEVICE, 4 * SMALL);
    MPI_Request request;
    MPI_Status status;
    int err = MPI_SUCCESS, later = MPI_SUCCESS;
    MPI_Op op;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    fill(host, SMALL, 1);
    cuda_write(DEVICE, send, host, 4 * SMALL);
    for (int call = 0; call < 3; call++)
        MPI_Allreduce(send, recv, SMALL, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Op_create(own_sum, 1, &op);
    for (int call = 0; call < 2 * REQUESTS; call++) {
        MPI_Iallreduce(send, recv, SMALL, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, &status);
    }
    if (tap.rank == 1)
        setenv("TEST_CUDA_FAIL", "cuMemcpyDtoHAsync_v2:+1:700", 1);
    err = MPI_Iallreduce(send, recv, SMALL, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (tap.rank == 1 && err == MPI_SUCCESS)
        err = MPI_Wait(&request, &status);
    later = MPI_Iallreduce(host, got, SMALL, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (tap.rank == 1 && later == MPI_SUCCESS)
        later = MPI_Wait(&request, &status);
    if (tap.rank == 1)
        printf("%s, then %s\n", err == MPI_SUCCESS ? "no error" : "an error",
               later == MPI_SUCCESS ? "none" : "another");
    fflush(stdout);
    sleep(2); /* who ends first ends all */
    _exit(0);
}

static void many(void)
{
    MPI_Request request[REQUESTS];
    MPI_Status status[REQUESTS];
    char *recv[REQUESTS], *send = cuda_memory(DEVICE, sizeof host);
    bool right = true;

    input_fill_whole(host, COUNT, 1, tap.rank);
    cuda_write(DEVICE, send, host, sizeof host);
    for (int i = 0; i < REQUESTS; i++)
        recv[i] = cuda_memory(DEVICE, sizeof host);
    MPI_Allreduce(host, got, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < REQUESTS; i++)
        MPI_Iallreduce(send, recv[i], COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request[i]);
    MPI_Waitall(REQUESTS, request, status);
    for (int i = 0; i < REQUESTS; i++) {
        cuda_read(DEVICE, got, recv[i], sizeof got);
        right = right && input_is_whole_sum(got, COUNT, 1, tap.size);
    }
    tap_ok(right, "%d calls under way", REQUESTS);
}

/* No thread of ours makes MPI calls any more, and rank 1 sends once its call has ended. */
static void receives(void)
{
    char *send = cuda_memory(DEVICE, sizeof host), *recv = cuda_memory(DEVICE, sizeof host);
    const bool away = tap.rank == 0;
    MPI_Request request;
    bool right = true;
    MPI_Op op;
    int word = 0;

    fill(host, COUNT, 1);
    cuda_write(DEVICE, send, host, sizeof host);
    for (int call = 0; call < 3; call++)
        MPI_Allreduce(host, got, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Op_create(own_sum, 1, &op);
    for (int call = 0; call < 24; call++) { /* until all ranks know */
        MPI_Iallreduce(host, got, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    for (int round = 0; round < 5; round++) {
        MPI_Iallreduce(away ? (void *)send : host, away ? (void *)recv : got, COUNT, MPI_FLOAT,
                       MPI_SUM, MPI_COMM_WORLD, &request);
        if (away)
            MPI_Recv(&word, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (tap.rank == 1)
            MPI_Send(&word, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
        if (away)
            cuda_read(DEVICE, got, recv, sizeof got);
        right = right && got[7] == (float)tap.size;
    }
    tap_ok(right, "a message that depends on the call comes");
}

static void refused(void)
{
    char *send = cuda_memory(DEVICE, sizeof host), *recv = cuda_memory(DEVICE, sizeof host);
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Request request = MPI_REQUEST_NULL;
    int length, err;
    MPI_Op op;

    cuda_write(DEVICE, send, host, sizeof host);
    MPI_Op_create(own_sum, 1, &op);
    for (int call = 0; call < 3; call++)
        MPI_Allreduce(send, recv, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    err = MPI_Iallreduce(send, recv, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (err != MPI_SUCCESS)
        MPI_Error_string(err, text, &length);
    tap_ok(strstr(text, "before the program's own operators") != NULL, "the operator is named");
    MPI_Op_free(&op);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *plan = argc > 2 ? argv[2] : "";
    int provided, status;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    tap_begin(MPI_COMM_WORLD);
    cuda_open();
    if (strcmp(mode, "order") == 0)
        order();
    else if (strcmp(mode, "operator") == 0)
        operator();
    else if (strcmp(mode, "receives") == 0)
        receives();
    else if (strcmp(mode, "lost") == 0)
        lost();
    else if (strcmp(mode, "destroyed") == 0)
        destroyed();
    else if (strcmp(mode, "gaps") == 0)
        gaps();
    else if (strcmp(mode, "dead") == 0)
        dead(argc > 2 ? argv[2] : "", argc > 3);
    else if (strcmp(mode, "copy") == 0)
        copy(plan);
    else if (strcmp(mode, "missed") == 0)
        missed();
    else if (strcmp(mode, "many") == 0)
        many();
    else if (strcmp(mode, "refused") == 0)
        refused();
    if (tap.checks == 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    status = tap_end();
    MPI_Finalize();
    return status;
}
