/* edge_args CASE: arguments at the edges: let go at once, at the end of a page, far
 * away; and the state of the processor around a call. */
#include <errno.h>
#include <fenv.h>
#include <sys/mman.h>

#include "tests/mpi/harmless/edge.h"

/* ---- arguments let go at once ---- */

enum { TURNS = 12 };

static int let_go_at_once(int turn, bool large, float *all, MPI_Comm comm, MPI_Request *request)
{
    size_t size = (size_t)edge.size;
    int err = MPI_SUCCESS;
    MPI_Datatype type = MPI_FLOAT;

    if (turn % 3 == 2) {
        MPI_Type_contiguous(1, MPI_FLOAT, &type);
        MPI_Type_commit(&type);
    }
    if (!large) {
        int *n = malloc(size * sizeof *n), *at = malloc(size * sizeof *at);

        for (int r = 0; r < edge.size; r++) {
            n[r] = edge.count;
            at[r] = r * edge.count;
        }
        err = MPI_Iallgatherv(edge.in, edge.count, type, all, n, at, type, comm, request);
        memset(n, 0x7e, size * sizeof *n);
        memset(at, 0x7e, size * sizeof *at);
        free(n);
        free(at);
    }
#if MPI_VERSION >= 4
    if (large) {
        MPI_Count *n = malloc(size * sizeof *n);
        MPI_Aint *at = malloc(size * sizeof *at);

        for (int r = 0; r < edge.size; r++) {
            n[r] = edge.count;
            at[r] = r * edge.count;
        }
        err = MPI_Iallgatherv_c(edge.in, edge.count, type, all, n, at, type, comm, request);
        memset(n, 0x7e, size * sizeof *n);
        memset(at, 0x7e, size * sizeof *at);
        free(n);
        free(at);
    }
#endif
    if (type != MPI_FLOAT)
        MPI_Type_free(&type);
    return err;
}

static bool gathers_what_was_sent(const float *all, uint64_t seed)
{
    for (int r = 0; r < edge.size; r++)
        for (int i = 0; i < edge.count; i++)
            if (all[r * edge.count + i] != (float)input_whole(seed, r, (uint64_t)i))
                return false;
    return true;
}

/* Counts and displacements of a nonblocking gather are overwritten and freed after the call, as
 * MPICH lets a program do. */
static void lists_let_go(void)
{
    float *all = input_alloc(sizeof(float) * (size_t)edge.count * (size_t)edge.size);

    for (int turn = 0; turn < TURNS; turn++)
        for (int large = 0; large < 2; large++) {
            MPI_Comm comm;
            MPI_Request request = MPI_REQUEST_NULL;
            bool good;

            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            if (turn % 2)
                edge_sum(comm, 1);
            edge_fill(comm, edge.in, (uint64_t)turn);
            memset(all, 0x55, sizeof(float) * (size_t)edge.count * (size_t)edge.size);
            good = let_go_at_once(turn, large, all, comm, &request) == MPI_SUCCESS;
            if (edge.rank == turn % edge.size)
                usleep(3000);
            MPI_Comm_free(&comm);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            edge_say("gathered: %s",
                     edge_yes(good && (MPI_VERSION < 4 && large
                                           ? true
                                           : gathers_what_was_sent(all, (uint64_t)turn))));
        }
    free(all);
}

/* ---- slices far apart, out of order, with gaps ---- */

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

/* Slices in reverse order with gaps between them, which keep what is in them; some are empty. */
static void gaps(void)
{
    int size = edge.size, n[64], at[64], stride = edge.count + 17;
    size_t room = (size_t)stride * (size_t)size;
    float *all = input_alloc(room * sizeof *all);

    for (int turn = 0; turn < 8; turn++) {
        bool good = true, kept = true;
        MPI_Request request = MPI_REQUEST_NULL;

        for (int r = 0; r < size; r++) {
            n[r] = turn % 4 == 3 && r == 0 ? 0 : edge.count;
            at[r] = (size - 1 - r) * stride;
        }
        edge_fill(MPI_COMM_WORLD, edge.in, (uint64_t)turn);
        for (size_t i = 0; i < room; i++)
            all[i] = 4711;
        if (turn % 2)
            MPI_Allgatherv(edge.in, n[edge.rank], MPI_FLOAT, all, n, at, MPI_FLOAT, MPI_COMM_WORLD);
        else
            MPI_Iallgatherv(edge.in, n[edge.rank], MPI_FLOAT, all, n, at, MPI_FLOAT, MPI_COMM_WORLD,
                            &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < stride; i++) {
                float x = all[at[r] + i];

                if (i < n[r])
                    good = good && x == (float)input_whole((uint64_t)turn, r, (uint64_t)i);
                else
                    kept = kept && x == 4711;
            }
        edge_say("gathered %s, gaps kept %s", edge_yes(good), edge_yes(kept));
    }
    free(all);
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

/* ---- in place, and nothing at all ---- */

static void in_place(void)
{
    int n = edge.count, size = edge.size;
    float *all = input_alloc(sizeof(float) * (size_t)n * (size_t)size);
    int many[64], at[64];
    MPI_Request request;

    for (int r = 0; r < size; r++) {
        many[r] = n;
        at[r] = r * n;
    }
    for (int turn = 0; turn < 4; turn++) {
        edge_fill(MPI_COMM_WORLD, edge.out, 3);
        MPI_Allreduce(MPI_IN_PLACE, edge.out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        edge_say("allreduce %s", edge_yes(edge_right(MPI_COMM_WORLD, edge.out, 3)));
        edge_fill(MPI_COMM_WORLD, edge.out, 3);
        MPI_Iallreduce(MPI_IN_PLACE, edge.out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        edge_say("iallreduce %s", edge_yes(edge_right(MPI_COMM_WORLD, edge.out, 3)));
        edge_fill(MPI_COMM_WORLD, edge.out, 3);
        MPI_Reduce(edge.rank == 0 ? MPI_IN_PLACE : edge.out, edge.rank == 0 ? edge.out : NULL, n,
                   MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
        edge_say("reduce %s", edge_yes(edge.rank != 0 || edge_right(MPI_COMM_WORLD, edge.out, 3)));
        for (int kind = 0; kind < 4; kind++) {
            memset(all, 0x55, sizeof(float) * (size_t)n * (size_t)size);
            edge_fill(MPI_COMM_WORLD, all + (size_t)edge.rank * (size_t)n, 4);
            request = MPI_REQUEST_NULL;
            if (kind == 0)
                MPI_Allgather(MPI_IN_PLACE, -5, MPI_DATATYPE_NULL, all, n, MPI_FLOAT,
                              MPI_COMM_WORLD);
            if (kind == 1)
                MPI_Iallgather(MPI_IN_PLACE, -5, MPI_DATATYPE_NULL, all, n, MPI_FLOAT,
                               MPI_COMM_WORLD, &request);
            if (kind == 2)
                MPI_Allgatherv(MPI_IN_PLACE, -5, MPI_DATATYPE_NULL, all, many, at, MPI_FLOAT,
                               MPI_COMM_WORLD);
            if (kind == 3)
                MPI_Iallgatherv(MPI_IN_PLACE, -5, MPI_DATATYPE_NULL, all, many, at, MPI_FLOAT,
                                MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            edge_say("gather %d %s", kind, edge_yes(gathers_what_was_sent(all, 4)));
        }
    }
    free(all);
}

static void nothing_at_all(void)
{
    MPI_Request request;
    int none[64] = {0};
    float x[2] = {1, 2};
    const MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF};

    for (int c = 0; c < 2; c++)
        for (int turn = 0; turn < 3; turn++) {
            MPI_Comm comm = comms[c];

            MPI_Allreduce(NULL, NULL, 0, MPI_FLOAT, MPI_SUM, comm);
            MPI_Allreduce(x, x, 0, MPI_FLOAT, MPI_SUM, comm);
            MPI_Iallreduce(NULL, NULL, 0, MPI_FLOAT, MPI_SUM, comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Reduce(NULL, NULL, 0, MPI_FLOAT, MPI_SUM, 0, comm);
            MPI_Reduce_scatter_block(NULL, NULL, 0, MPI_FLOAT, MPI_SUM, comm);
            MPI_Allgather(NULL, 0, MPI_FLOAT, NULL, 0, MPI_FLOAT, comm);
            MPI_Allgatherv(NULL, 0, MPI_FLOAT, NULL, none, none, MPI_FLOAT, comm);
            MPI_Iallgatherv(NULL, 0, MPI_FLOAT, NULL, none, none, MPI_FLOAT, comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            edge_say("nothing was done %d %d", c, turn);
        }
    edge_say("sums %s, %s", edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)),
             edge_yes(edge_sums(MPI_COMM_SELF, 3, 1)));
}

/* ---- the processor ---- */

static void tell_flags(const char *when)
{
    edge_say("%s: rounding %d, exceptions %d%d%d%d%d", when, fegetround(),
             fetestexcept(FE_INVALID) != 0, fetestexcept(FE_DIVBYZERO) != 0,
             fetestexcept(FE_OVERFLOW) != 0, fetestexcept(FE_UNDERFLOW) != 0,
             fetestexcept(FE_INEXACT) != 0);
}

/* Sums of whole numbers raise no exception, and leave those alone that the program raised. */
static void exceptions(void)
{
    float *all = input_alloc(sizeof(float) * (size_t)edge.count * (size_t)edge.size);

    for (int turn = 0; turn < 4; turn++) {
        edge_fill(MPI_COMM_WORLD, edge.in, 3);
        fesetround(turn % 2 ? FE_UPWARD : FE_TONEAREST);
        feclearexcept(FE_ALL_EXCEPT);
        MPI_Allreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        tell_flags("after a sum");
        MPI_Allgather(edge.in, edge.count, MPI_FLOAT, all, edge.count, MPI_FLOAT, MPI_COMM_WORLD);
        tell_flags("after a gather");
        MPI_Reduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
        tell_flags("after a reduction");
        feraiseexcept(FE_OVERFLOW);
        MPI_Reduce_scatter_block(edge.in, edge.out, edge.count / edge.size, MPI_FLOAT, MPI_SUM,
                                 MPI_COMM_WORLD);
        tell_flags("with one of the program's");
    }
    free(all);
}

/* A program that is stopped by any exception. */
static void traps(void)
{
    float *all = input_alloc(sizeof(float) * (size_t)edge.count * (size_t)edge.size);
    bool good = true;

    for (int turn = 0; turn < 6; turn++) {
        edge_fill(MPI_COMM_WORLD, edge.in, 3);
        if (edge.argc > 2) /* sums of such do not raise anything, either */
            for (int i = 0; i < edge.count; i += 100)
                edge.in[i] = i % 200 ? __builtin_nanf("") : __builtin_inff();
        feclearexcept(FE_ALL_EXCEPT);
        feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW);
        MPI_Allreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allgather(edge.in, edge.count, MPI_FLOAT, all, edge.count, MPI_FLOAT, MPI_COMM_WORLD);
        MPI_Reduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
        fedisableexcept(FE_ALL_EXCEPT);
        good = (edge.argc > 2 || edge.rank != 0 || edge_right(MPI_COMM_WORLD, edge.out, 3)) && good;
    }
    edge_say("sums %s", edge_yes(good));
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
    {"uncommitted-zeros-multiple", MPI_THREAD_MULTIPLE, uncommitted_zeros},
    {"uncommitted", EDGE_INIT, uncommitted},
    {"uncommitted-multiple", MPI_THREAD_MULTIPLE, uncommitted},
    {"lists", EDGE_INIT, lists_let_go},
    {"lists-multiple", MPI_THREAD_MULTIPLE, lists_let_go},
    {"far", EDGE_INIT, far_away},
    {"far-multiple", MPI_THREAD_MULTIPLE, far_away},
    {"gaps", EDGE_INIT, gaps},
    {"gaps-multiple", MPI_THREAD_MULTIPLE, gaps},
    {"page-ends", EDGE_INIT, page_ends},
    {"page-ends-multiple", MPI_THREAD_MULTIPLE, page_ends},
    {"read-only", EDGE_INIT, read_only},
    {"read-only-multiple", MPI_THREAD_MULTIPLE, read_only},
    {"in-place", EDGE_INIT, in_place},
    {"in-place-multiple", MPI_THREAD_MULTIPLE, in_place},
    {"nothing", EDGE_INIT, nothing_at_all},
    {"nothing-multiple", MPI_THREAD_MULTIPLE, nothing_at_all},
    {"exceptions", EDGE_INIT, exceptions},
    {"traps", EDGE_INIT, traps},
    {"errno", EDGE_INIT, errno_is_kept},
    {"stack", MPI_THREAD_SERIALIZED, small_stack},
    {"stack-multiple", MPI_THREAD_MULTIPLE, small_stack},
};

EDGE_MAIN(cases)
