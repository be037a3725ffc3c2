/* Collectives on buffers in device memory: every result has the bits that the same call gives on
 * another communicator with buffers of the host, and nothing beside the buffers is written.
 *
 *     device_calls [all]        all collectives, kinds of memory, places, alignments, datatypes
 *     device_calls steps        one allreduce many times, in other memory in each step
 *     device_calls stays        what crosses from and to the device in sparse calls
 *     device_calls agree        steps in which all ranks get the same
 *     device_calls reset        the first device of a rank is reset between two steps
 *     device_calls late         CUDA comes after the first calls
 *     device_calls nonblocking  calls that are taken over
 *     device_calls host         CUDA is there, all buffers are the host's
 *     device_calls refused      calls that are not served give an error
 *     device_calls broken       what a call says when a copy fails: the whole message
 */
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "tests/mpi/device/device_memory.h"
#include "tests/mpi/support/input.h"
#include "tests/mpi/support/tap.h"

#include "tests/mpi/device/device_collectives.h" /* last: its variables would shadow parameters */

enum { BIG = 5000, SMALL = 100, GUARD = 64, ROUNDS = 3 };

static MPI_Comm on_host, on_device;
static size_t room;
static char *region[KINDS][2];
static char *host_region[2], *block[2];

/* ---- one call on the host and on devices ---- */

struct place {
    enum kind send, recv;
    bool in_place;
    int shift; /* bytes */
};

static size_t whole(size_t floats, int shift)
{
    return 2 * GUARD + (size_t)shift + 4 * floats;
}

/* A block with guards around what a buffer holds. */
static void fill(char *to, size_t floats, int shift, bool data, int which)
{
    const size_t bytes = whole(floats, shift);

    for (size_t i = 0; i < bytes; i++)
        to[i] = (char)(seed + i * 7 + (size_t)which);
    if (data) {
        float *values = malloc(4 * floats);

        input_fill_fractions(values, (int)floats, seed, rank);
        memcpy(to + GUARD + shift, values, 4 * floats);
        free(values);
    }
}

static bool same_call(enum call call, int n, struct place p)
{
    CUcontext before, after;
    const bool in_place = p.in_place && (call != REDUCE || rank == 0);

    seed++;
    lay_out(n);
    const size_t in = floats_in(call, n), out = floats_out(call, n, in_place);
    char *send = region[p.send][0], *recv = region[p.recv][1];
    fill(host_region[0], in, p.shift, true, 0);
    fill(host_region[1], out, p.shift, in_place, 1);
    cuda_write(p.send, send, host_region[0], whole(in, p.shift));
    cuda_write(p.recv, recv, host_region[1], whole(out, p.shift));
    CUDA(cuCtxSetCurrent(seed % 3 ? NULL : cuda.context[seed % 2]));
    CUDA(cuCtxGetCurrent(&before));
    const int at = GUARD + p.shift;
    int err = make(call, on_device, in_place ? MPI_IN_PLACE : send + at, recv + at, n);
    CUDA(cuCtxGetCurrent(&after));
    cuda_read(p.send, block[0], send, whole(in, p.shift));
    cuda_read(p.recv, block[1], recv, whole(out, p.shift));
    bool same = memcmp(block[0], host_region[0], whole(in, p.shift)) == 0;
    int host_err =
        make(call, on_host, in_place ? MPI_IN_PLACE : host_region[0] + at, host_region[1] + at, n);
    same = same && memcmp(block[1], host_region[1], whole(out, p.shift)) == 0;
    return same && err == MPI_SUCCESS && host_err == MPI_SUCCESS && before == after;
}

static bool rounds(enum call call, int n, struct place p)
{
    bool same = true;

    for (int i = 0; i < ROUNDS; i++)
        same = same_call(call, n, p) && same;
    return same;
}

static void kinds_of_memory(void)
{
    for (enum kind recv = 0; recv < KINDS; recv++) {
        bool same = true;

        for (enum kind send = 0; send < KINDS; send++)
            same = rounds(ALLREDUCE, BIG, (struct place){send, recv, false, 0}) && same;
        same = rounds(ALLREDUCE, BIG, (struct place){recv, recv, true, 0}) && same;
        tap_ok(same, "allreduce to %s from all kinds of memory, and in place", kind_names[recv]);
    }
}

static void collectives(int n)
{
    for (enum call call = 0; call < CALLS; call++) {
        const enum kind other = rank % 2 ? HOST : DEVICE;
        bool same = rounds(call, n, (struct place){DEVICE, DEVICE, false, 0});

        same = rounds(call, n, (struct place){POOL, SECOND, false, 0}) && same;
        same = rounds(call, n, (struct place){HOST, DEVICE, false, 0}) && same;
        same = rounds(call, n, (struct place){MANAGED, PINNED, false, 0}) && same;
        if (call != GATHER && call != GATHERV && call != HOLES)
            same = rounds(call, n, (struct place){DEVICE, DEVICE, true, 0}) && same;
        tap_ok(same, "%s of %d", call_names[call], n);
        same = rounds(call, n, (struct place){other, other, false, 0});
        same = rounds(call, n, (struct place){other, DEVICE, false, 0}) && same;
        tap_ok(same, "%s of %d, odd ranks with buffers of the host", call_names[call], n);
    }
}

static void alignments(void)
{
    static const int shifts[] = {4, 12, 20, 2, 1};
    bool same = true;

    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++) {
        same = rounds(ALLREDUCE, BIG, (struct place){DEVICE, POOL, false, shifts[i]}) && same;
        same = rounds(GATHER, BIG, (struct place){DEVICE, DEVICE, false, shifts[i]}) && same;
    }
    tap_ok(same, "addresses that are aligned to 4, 2, 1");
}

/* The memory is another one each time: what is known of a buffer must not hang on that. */
static void steps(void)
{
    for (int s = 0; s < 60; s += 10) {
        bool same = true;

        for (int i = 0; i < 10; i++) {
            const enum kind kind = (enum kind)((s + i + rank) % KINDS);
            same = same_call(ALLREDUCE, BIG, (struct place){kind, kind, i % 2 == 1, 0}) && same;
        }
        tap_ok(same, "steps %d to %d", s, s + 9);
    }
}

/* Fills in every 200th element, with whole numbers, so that sums do not depend on their order. */
static void fill_sparse(float *values, int n)
{
    memset(values, 0, 4 * (size_t)n);
    for (int i = (int)(seed % 7) + rank; i < n; i += 200)
        values[i] = (float)((int)(seed + (uint64_t)i) % 50 + 1);
}

static bool sparse_call(struct place p, unsigned long long crossed[2])
{
    unsigned long long before[2], after[2];
    float *values = (float *)(void *)host_region[0], *sum = (float *)(void *)host_region[1],
          *got = (float *)(void *)block[1];
    char *send = region[p.send][0], *recv = region[p.recv][1];

    seed++;
    fill_sparse(values, BIG);
    cuda_write(p.send, p.in_place ? recv : send, values, 4 * BIG);
    if (cuda.crossed)
        cuda.crossed(&before[0], &before[1]);
    MPI_Allreduce(p.in_place ? MPI_IN_PLACE : send, recv, BIG, MPI_FLOAT, MPI_SUM, on_device);
    if (cuda.crossed)
        cuda.crossed(&after[0], &after[1]);
    for (int i = 0; i < 2 && cuda.crossed; i++)
        crossed[i] += after[i] - before[i];
    cuda_read(p.recv, got, recv, 4 * BIG);
    PMPI_Allreduce(values, sum, BIG, MPI_FLOAT, MPI_SUM, on_host);
    return memcmp(got, sum, 4 * BIG) == 0;
}

/* In ten calls: a twentieth of what the buffers hold may cross, either way. */
static void stays(void)
{
    static const struct place places[] = {{DEVICE, DEVICE, false, 0},
                                          {DEVICE, DEVICE, true, 0},
                                          {POOL, POOL, false, 0},
                                          {DEVICE, POOL, false, 0},
                                          {SECOND, SECOND, true, 0}};
    unsigned long long crossed[2] = {0};

    (void)sparse_call(places[0], crossed); /* the first one is the MPI library's */
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        bool right = true;

        crossed[0] = crossed[1] = 0;
        for (int call = 0; call < 10; call++)
            right = sparse_call(places[i], crossed) && right;
        tap_ok(right, "%s to %s: sums", kind_names[places[i].send], kind_names[places[i].recv]);
        if (cuda.crossed) /* the driver for tests counts */
            tap_ok(crossed[0] > 0 && crossed[0] < 2 * BIG && crossed[1] > 0 && crossed[1] < 2 * BIG,
                   "... %llu bytes to the host, %llu from it, of %d", crossed[0], crossed[1],
                   40 * BIG);
    }
}

/* All ranks get the same, and nothing that is not finite. */
static bool agreeing_step(enum kind kind)
{
    float *values = (float *)(void *)host_region[0], *got = (float *)(void *)block[0],
          *first = (float *)(void *)block[1];
    bool same = true;

    seed++;
    input_fill_fractions(values, BIG, seed, rank);
    cuda_write(kind, region[kind][0], values, 4 * BIG);
    same = MPI_Allreduce(region[kind][0], region[kind][1], BIG, MPI_FLOAT, MPI_SUM, on_device) ==
           MPI_SUCCESS;
    cuda_read(kind, got, region[kind][1], 4 * BIG);
    memcpy(first, got, 4 * BIG);
    MPI_Bcast(first, BIG, MPI_FLOAT, 0, on_host);
    for (int i = 0; i < BIG; i++)
        same = same && got[i] == first[i] && got[i] - got[i] == 0;
    return same;
}

/* In some steps a rank has buffers of the host. */
static void agree(void)
{
    bool same = true;

    for (int step = 0; step < 20; step++)
        same = agreeing_step((step + rank) % 3 == 1 ? HOST : DEVICE) && same;
    tap_ok(same, "steps");
}

/* On the last rank. */
static void reset(void)
{
    bool same = true, failed = true;

    for (int step = 0; step < 10; step++)
        same = agreeing_step(DEVICE) && same;
    tap_ok(same, "steps");
    if (rank == size - 1) {
        CUDA(cuDevicePrimaryCtxReset_v2(0));
        CUDA(cuDevicePrimaryCtxRetain(&cuda.context[0], 0));
        CUDA(cuCtxSetCurrent(cuda.context[0]));
        for (int i = 0; i < 2; i++)
            region[DEVICE][i] = cuda_memory(DEVICE, room);
    }
    MPI_Comm_set_errhandler(on_device, MPI_ERRORS_RETURN);
    for (int call = 0; call < 5; call++)
        failed = MPI_Allreduce(region[DEVICE][0], region[DEVICE][1], BIG, MPI_FLOAT, MPI_SUM,
                               on_device) != MPI_SUCCESS &&
                 failed;
    tap_ok(failed, "behind a reset all calls are errors on all ranks");
}

/* ---- others ---- */

static bool is_mapped(const char *name)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");

    if (!maps)
        MPI_Abort(MPI_COMM_WORLD, 1);
    while (fgets(line, sizeof line, maps))
        found = found || strstr(line, name);
    fclose(maps);
    return found;
}

static bool sums_are_right(float *in, float *out)
{
    bool right = true;

    for (int i = 0; i < 4; i++) {
        input_fill_whole(in, BIG, ++seed, rank);
        MPI_Allreduce(in, out, BIG, MPI_FLOAT, MPI_SUM, on_host);
        right = right && input_is_whole_sum(out, BIG, seed, size);
    }
    return right;
}

static float *mapped(void)
{
    return mmap(NULL, 4 * BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void before_cuda(void)
{
    float *in = mapped(), *out = mapped(), stack[BIG];

    tap_ok(sums_are_right(in, out) && sums_are_right(stack, out), "sums before CUDA is there");
    tap_ok(!is_mapped("libcuda.so") && !is_mapped("libsparseshim_cuda"), "nothing opens it");
}

/* Prints whether the part that knows CUDA has been opened. */
static void host_only(void)
{
    float *in = (float *)(void *)region[PINNED][0], *out = mapped();

    tap_ok(sums_are_right(in, out), "sums of pinned and of mapped memory");
    tap_note("libsparseshim_cuda.so is %s",
             is_mapped("libsparseshim_cuda") ? "there" : "not there");
}

static char said[MPI_MAX_ERROR_STRING];

static bool says(int err, const char *part)
{
    int length = 0;

    said[0] = '\0';
    if (err != MPI_SUCCESS)
        MPI_Error_string(err, said, &length);
    return strstr(said, part) != NULL;
}

static int handled;

static void handler(MPI_Comm *comm, int *err, ...)
{
    (void)comm;
    handled = *err;
}

static void listen_for_errors(void)
{
    MPI_Errhandler errors;

    MPI_Comm_create_errhandler(handler, &errors);
    MPI_Comm_set_errhandler(on_device, errors);
    MPI_Errhandler_free(&errors);
}

static void refused(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    char *p = region[DEVICE][0], *q = region[DEVICE][1];

    listen_for_errors();
    lay_out(SMALL);
    MPI_Iallreduce(p, q, SMALL, MPI_FLOAT, MPI_SUM, on_device, &request);
    tap_ok(says(handled, "SPARSESHIM_PROGRESS=watchdog"), "iallreduce");
    handled = MPI_SUCCESS;
    MPI_Iallreduce(MPI_IN_PLACE, q, BIG, MPI_FLOAT, MPI_SUM, on_device, &request);
    tap_ok(says(handled, "MPI_Iallreduce with"), "a large one, in place: %s", said);
    handled = MPI_SUCCESS;
    MPI_Iallgather(p, SMALL, MPI_FLOAT, q, SMALL, MPI_FLOAT, on_device, &request);
    tap_ok(says(handled, "MPI_Iallgather with"), "iallgather");
    handled = MPI_SUCCESS;
    MPI_Iallgatherv(p, counts[rank], MPI_FLOAT, q, counts, displs, MPI_FLOAT, on_device, &request);
    tap_ok(says(handled, "MPI_Iallgatherv with"), "iallgatherv");
    tap_ok(rounds(ALLREDUCE, BIG, (struct place){DEVICE, DEVICE, false, 0}), "others go on");
    for (int i = 0; i < 4; i++)
        tap_ok(sums_are_right((float *)(void *)region[PINNED][0], mapped()), "and the host's");
}

static bool is_gathered(const float *got, int n)
{
    float *slice = input_alloc(4 * (size_t)n);
    bool right = true;

    for (int r = 0; r < size; r++) {
        input_fill_whole(slice, n, seed, r);
        right = right && memcmp(got + (size_t)r * (size_t)n, slice, 4 * (size_t)n) == 0;
    }
    free(slice);
    return right;
}

/* Four at once, with a blocking one of the host's between them. */
static bool four_at_once(enum call call)
{
    static const struct place places[] = {{DEVICE, DEVICE, false, 0},
                                          {POOL, SECOND, false, 0},
                                          {SECOND, POOL, false, 0},
                                          {HOST, MANAGED, false, 0}};
    MPI_Request request[4];
    MPI_Status status[4];
    float *values = (float *)(void *)block[0], *pinned = (float *)(void *)region[PINNED][0];
    bool right = true;

    seed++;
    input_fill_whole(values, BIG, seed, rank);
    memcpy(pinned, values, 4 * BIG);
    for (int r = 0; r < size; r++) {
        counts[r] = BIG;
        displs[r] = r * BIG;
    }
    for (int i = 0; i < 4; i++) {
        const bool host = i == 1 && rank % 2; /* ranks need not be alike */
        char *send = host ? block[0] : region[places[i].send][0], *recv = region[places[i].recv][1];

        if (!host)
            cuda_write(places[i].send, send, values, 4 * BIG);
        CUDA(cuCtxSetCurrent(NULL));
        if (call == GATHER)
            MPI_Iallgather(send, BIG, MPI_FLOAT, recv, BIG, MPI_FLOAT, on_device, &request[i]);
        else if (call == GATHERV)
            MPI_Iallgatherv(send, BIG, MPI_FLOAT, recv, counts, displs, MPI_FLOAT, on_device,
                            &request[i]);
        else
            MPI_Iallreduce(send, recv, BIG, MPI_FLOAT, MPI_SUM, on_device, &request[i]);
        if (i == 2)
            MPI_Allreduce(MPI_IN_PLACE, pinned, BIG, MPI_FLOAT, MPI_SUM, on_device);
    }
    right = input_is_whole_sum(pinned, BIG, seed, size);
    MPI_Waitall(4, request, status);
    for (int i = 0; i < 4; i++) {
        float *got = (float *)(void *)block[1];

        cuda_read(places[i].recv, block[1], region[places[i].recv][1],
                  call == ALLREDUCE ? 4 * BIG : 4 * BIG * (size_t)size);
        right = right && (call == ALLREDUCE ? input_is_whole_sum(got, BIG, seed, size)
                                            : is_gathered(got, BIG));
    }
    return right;
}

static void nonblocking(void)
{
    static const enum call calls[] = {ALLREDUCE, GATHER, GATHERV};

    tap_ok(rounds(ALLREDUCE, BIG, (struct place){DEVICE, DEVICE, false, 0}), "blocking ones");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        bool right = true;

        for (int round = 0; round < 10; round++)
            right = four_at_once(calls[i]) && right;
        tap_ok(right, "nonblocking %s, four at once", call_names[calls[i]]);
    }
}

static void broken(void)
{
    listen_for_errors();
    fill(host_region[0], BIG, 0, true, 0);
    cuda_write(DEVICE, region[DEVICE][0], host_region[0], 4 * BIG);
    MPI_Allreduce(region[DEVICE][0], host_region[1], BIG, MPI_FLOAT, MPI_SUM, on_device);
    tap_ok(says(handled, "a buffer in device memory cannot be copied"), "%s", said);
}

static void open_memory(void)
{
    cuda_open();
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 2; i++)
            region[kind][i] = cuda_memory(kind, room);
}

static void all(void)
{
    make_types();
    kinds_of_memory();
    collectives(BIG);
    collectives(SMALL);
    alignments();
    MPI_Op_free(&own_op);
    MPI_Type_free(&own_type);
    MPI_Type_free(&vector);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
        {"all", all},         {"steps", steps},  {"late", all},    {"nonblocking", nonblocking},
        {"stays", stays},     {"agree", agree},  {"reset", reset}, {"host", host_only},
        {"refused", refused}, {"broken", broken}};
    const char *mode = argc > 1 ? argv[1] : "all";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    tap_begin(MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &on_host);
    MPI_Comm_dup(MPI_COMM_WORLD, &on_device);
    room = whole(2 * (size_t)(BIG + 64) * (size_t)size, 64);
    for (int i = 0; i < 2; i++) {
        host_region[i] = malloc(room);
        block[i] = malloc(room);
    }
    if (strcmp(mode, "late") == 0)
        before_cuda();
    open_memory();
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(mode, modes[i].name) == 0)
            modes[i].run();
    if (tap.checks == 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_free(&on_device);
    MPI_Comm_free(&on_host);
    const int status = tap_end();
    MPI_Finalize();
    return status;
}
