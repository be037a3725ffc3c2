/* edge_args CASE: arguments at the edges: at the end of a page, read-only, far away, of datatypes
 * that are not committed; errno and small stacks. */
#include <errno.h>
#include <sys/mman.h>

#include "tests/mpi/harmless/edge.h"

static bool gathers_what_was_sent(const float *all, uint64_t seed)
{
    for (int r = 0; r < edge.size; r++)
        for (int i = 0; i < edge.count; i++)
            if (all[r * edge.count + i] != (float)input_whole(seed, r, (uint64_t)i))
                return false;
    return true;
}

/* ---- slices far apart ---- */

/* Displacements of more than 2^31 elements, into memory that is there where it is touched. */
static void far_away(void)
{
#if MPI_VERSION >= 4
    size_t bytes = ((size_t)3 << 32) + ((size_t)64 << 20), size = (size_t)edge.size;
    float *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MPI_Count *n = malloc(size * sizeof *n);
    MPI_Aint *at = malloc(size * sizeof *at);
    MPI_Comm comm;

    if (all == MAP_FAILED) {
        edge_say("no address space");
        return;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int turn = 0; turn < 6; turn++) {
        MPI_Request request = MPI_REQUEST_NULL;
        bool good = true;

        for (int r = 0; r < edge.size; r++) {
            n[r] = edge.count;
            at[r] = r == 0 ? 0 : ((MPI_Aint)3 << 30) + r * edge.count;
        }
        edge_fill(comm, edge.in, (uint64_t)turn);
        if (turn % 2)
            MPI_Allgatherv_c(edge.in, edge.count, MPI_FLOAT, all, n, at, MPI_FLOAT, comm);
        else
            MPI_Iallgatherv_c(edge.in, edge.count, MPI_FLOAT, all, n, at, MPI_FLOAT, comm,
                              &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int r = 0; r < edge.size; r++)
            for (int i = 0; i < edge.count; i++)
                good = good && all[at[r] + i] == (float)input_whole((uint64_t)turn, r, (uint64_t)i);
        edge_say("gathered from far away: %s", edge_yes(good));
    }
    MPI_Comm_free(&comm);
    free(n);
    free(at);
    munmap(all, bytes);
#endif
}

/* ---- buffers at the end of their pages, or that cannot be written ---- */

/* `bytes` bytes that end, but for `before`, where no memory is; released with the process. */
static void *at_the_end(size_t bytes, size_t before)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t length = (bytes + before + page - 1) / page * page;
    char *start = mmap(NULL, length + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (start == MAP_FAILED || mprotect(start + page, length, PROT_READ | PROT_WRITE) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return start + page + length - before - bytes;
}

static void every_call(float *in, float *out, float *all, MPI_Comm comm)
{
    MPI_Request request;
    int n = edge.count;
    int many[64], at[64];

    for (int r = 0; r < edge.size; r++) {
        many[r] = n;
        at[r] = r * n;
    }
    for (int turn = 0; turn < 3; turn++) {
        bool sums = true, parts = true;

        MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, comm);
        sums = edge_right(comm, out, 3);
        MPI_Iallreduce(in, out, n, MPI_FLOAT, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        sums = edge_right(comm, out, 3) && sums;
        MPI_Reduce(in, out, n, MPI_FLOAT, MPI_SUM, 0, comm);
        sums = (edge.rank != 0 || edge_right(comm, out, 3)) && sums;
        MPI_Reduce_scatter_block(in, out, n / edge.size, MPI_FLOAT, MPI_SUM, comm);
        MPI_Allgather(in, n, MPI_FLOAT, all, n, MPI_FLOAT, comm);
        parts = gathers_what_was_sent(all, 3);
        MPI_Iallgather(in, n, MPI_FLOAT, all, n, MPI_FLOAT, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        parts = gathers_what_was_sent(all, 3) && parts;
        MPI_Allgatherv(in, n, MPI_FLOAT, all, many, at, MPI_FLOAT, comm);
        MPI_Iallgatherv(in, n, MPI_FLOAT, all, many, at, MPI_FLOAT, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        parts = gathers_what_was_sent(all, 3) && parts;
        edge_say("sums %s, gathers %s", edge_yes(sums), edge_yes(parts));
    }
}

/* Nothing before and behind the buffers is touched, wherever they begin; MPICH reads floats from
 * any address. */
static void page_ends(void)
{
    size_t bytes = sizeof(float) * (size_t)edge.count;

    for (size_t before = 0; before < 13; before += 4) {
        float *in = at_the_end(bytes, before), *out = at_the_end(bytes, before),
              *all = at_the_end(bytes * (size_t)edge.size, before);

        edge_fill(MPI_COMM_WORLD, in, 3);
        every_call(in, out, all, MPI_COMM_WORLD);
    }
}

static void read_only(void)
{
    size_t bytes = sizeof(float) * (size_t)edge.count, page = (size_t)sysconf(_SC_PAGESIZE);
    float *in =
        mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *all = input_alloc(bytes * (size_t)edge.size);

    edge_fill(MPI_COMM_WORLD, in, 3);
    mprotect(in, bytes + page, PROT_READ);
    every_call(in, edge.out, all, MPI_COMM_WORLD);
    free(all);
}

static void errno_is_kept(void)
{
    for (int turn = 0; turn < 4; turn++) {
        bool good;

        edge_fill(MPI_COMM_WORLD, edge.in, 3);
        MPI_Barrier(MPI_COMM_WORLD);
        errno = ERANGE;
        good = MPI_Allreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) ==
               MPI_SUCCESS;
        edge_say("errno kept %s, %s", edge_yes(errno == ERANGE), edge_yes(good));
    }
}

/* ---- small stacks ---- */

static void *sums_here(void *unused)
{
    (void)unused;
    edge_say("sums on a small stack %s, %s", edge_yes(edge_sums(MPI_COMM_WORLD, 6, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 9)));
    return NULL;
}

static void small_stack(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int kilobytes = edge.argc > 2 ? atoi(edge.argv[2]) : 64;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)kilobytes * 1024);
    pthread_create(&thread, &attributes, sums_here, NULL);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* ---- datatypes ---- */

/* An error, or a call that is taken and then right: both ranks make it. */
static int gather(MPI_Comm comm, MPI_Datatype sent, MPI_Datatype got, float *all,
                  MPI_Request *request)
{
    return MPI_Iallgather(edge.in, edge.count, sent, all, edge.count, got, comm, request);
}

/* Gathers of a datatype that is not committed are refused when they are made, also while the other
 * rank has yet to make its first calls. */
static void uncommitted(void)
{
    const int n = edge.count;
    float *all = input_alloc(sizeof(float) * (size_t)n * (size_t)edge.size);
    MPI_Datatype type;
    MPI_Comm comm, stale;

    MPI_Type_contiguous(1, MPI_FLOAT, &type);
    MPI_Comm_dup(MPI_COMM_WORLD, &stale);
    edge_fill(MPI_COMM_WORLD, edge.in, 2);
    for (int turn = 0; turn < 4; turn++) {
        MPI_Request requests[2], refused = MPI_REQUEST_NULL;
        int codes[2] = {MPI_SUCCESS, MPI_SUCCESS};

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        if (turn == 0)
            MPI_Comm_free(&(MPI_Comm){stale});
        gather(comm, MPI_FLOAT, MPI_FLOAT, all, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        if (edge.rank != turn % edge.size)
            MPI_Recv(NULL, 0, MPI_INT, turn % edge.size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        gather(comm, MPI_FLOAT, MPI_FLOAT, all, &requests[1]);
        if (edge.rank == turn % edge.size) {
            codes[0] = gather(comm, MPI_FLOAT, type, all, &refused);
            codes[1] = gather(comm, type, MPI_FLOAT, all, &refused);
            if (turn == 0) /* nobody has made another communicator since */
                edge_say(
                    "on a communicator that was freed: %s",
                    edge_class(MPI_Allreduce(edge.in, edge.out, n, MPI_FLOAT, MPI_SUM, stale)));
            for (int r = 0; r < edge.size; r++)
                if (r != edge.rank)
                    MPI_Send(NULL, 0, MPI_INT, r, 1, MPI_COMM_WORLD);
        }
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        edge_say("gathered into it: %s, sent: %s", edge_class(codes[0]), edge_class(codes[1]));
        edge_say("sums %s", edge_yes(edge_sums(comm, 2, 3)));
        MPI_Comm_free(&comm);
    }
    MPI_Type_free(&type);
    free(all);
}

/* Blocking ones, too, where gathers of so many zeros go the library's own way. */
static void uncommitted_zeros(void)
{
    const int n = edge.count, gathers[] = {n, n, n, n}, places[] = {0, n, 2 * n, 3 * n};
    float *in = input_alloc(sizeof(float) * (size_t)n);
    float *all = input_alloc(sizeof(float) * (size_t)n * (size_t)edge.size);
    MPI_Datatype type;
    MPI_Comm comm;

    memset(in, 0, sizeof(float) * (size_t)n);
    MPI_Type_contiguous(1, MPI_FLOAT, &type);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 12; turn++) {
        in[turn] = 1;
        MPI_Allgather(in, n, MPI_FLOAT, all, n, MPI_FLOAT, comm);
        edge_say("gathered %g", (double)all[(edge.size - 1) * n + turn]);
        edge_say("into it: %s, %s", edge_class(MPI_Allgather(in, n, MPI_FLOAT, all, n, type, comm)),
                 edge_class(MPI_Allgatherv(in, n, MPI_FLOAT, all, gathers, places, type, comm)));
        edge_say("from it: %s, %s", edge_class(MPI_Allgather(in, n, type, all, n, MPI_FLOAT, comm)),
                 edge_class(MPI_Allgatherv(in, n, type, all, gathers, places, MPI_FLOAT, comm)));
    }
    MPI_Type_commit(&type);
    edge_say("committed: %s", edge_class(MPI_Allgather(in, n, type, all, n, type, comm)));
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
    free(all);
    free(in);
}

static const struct edge_case cases[] = {
    {"uncommitted-zeros", EDGE_INIT, uncommitted_zeros},
    {"uncommitted", EDGE_INIT, uncommitted},
    {"far", EDGE_INIT, far_away},
    {"page-ends", EDGE_INIT, page_ends},
    {"read-only", EDGE_INIT, read_only},
    {"errno", EDGE_INIT, errno_is_kept},
    {"stack", MPI_THREAD_SERIALIZED, small_stack},
};

EDGE_MAIN(cases)
