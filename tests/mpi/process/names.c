/* A program that looks by name for what its MPI library may lack, as mpi4py's wheels do, and calls
 * what it finds. Its output is the same bare and preloaded; on stderr it prints how many functions
 * whose names end in _c it called. Built with any MPI library. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

enum { N = 4000, CALLS = 40 };

typedef int64_t word;
typedef int reduction(const void *, void *, word, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int rooted(const void *, void *, word, MPI_Datatype, MPI_Op, int, MPI_Comm);
typedef int ireduction(const void *, void *, word, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Request *);
typedef int irooted(const void *, void *, word, MPI_Datatype, MPI_Op, int, MPI_Comm, MPI_Request *);
typedef int scatterv(const void *, void *, const word *, MPI_Datatype, MPI_Op, MPI_Comm);
typedef int iscatter(const void *, void *, const word *, MPI_Datatype, MPI_Op, MPI_Comm,
                     MPI_Request *);
typedef int gather(const void *, word, MPI_Datatype, void *, word, MPI_Datatype, MPI_Comm);
typedef int igather(const void *, word, MPI_Datatype, void *, word, MPI_Datatype, MPI_Comm,
                    MPI_Request *);
typedef int gatherv(const void *, word, MPI_Datatype, void *, const word *, const word *,
                    MPI_Datatype, MPI_Comm);
typedef int igatherv(const void *, word, MPI_Datatype, void *, const word *, const word *,
                     MPI_Datatype, MPI_Comm, MPI_Request *);
typedef int persistent(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info,
                       MPI_Request *);

static int rank, ranks, tests, failures, called;
static float *mine, *got, *sum, *all, *joined;

static void check(int good, const char *name)
{
    int everywhere;

    PMPI_Allreduce(&good, &everywhere, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    failures += !everywhere;
    tests++;
    if (rank == 0)
        printf("%s %d - %s\n", everywhere ? "ok" : "not ok", tests, name);
}

/* Functions and data pointers have one size under POSIX. */
static int look(void *function, const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static float entry(int of, int i)
{
    return i % 50 == of ? (float)(of + i + 1) : 0;
}

static void fill(void)
{
    for (int i = 0; i < N; i++) {
        sum[i] = 0;
        for (int r = 0; r < ranks; r++) {
            joined[r * N + i] = entry(r, i);
            sum[i] += entry(r, i);
        }
    }
    memcpy(mine, joined + (size_t)rank * N, N * sizeof *mine);
}

static int same(const float *a, const float *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

static void clear(void)
{
    memset(got, 0x55, N * sizeof *got);
    memset(all, 0x55, (size_t)ranks * N * sizeof *all);
}

/* A function that is missing is not called: the library is older than MPI 4. */
#define PROBE(type, name)                                                                          \
    type *call;                                                                                    \
    if (!look(&call, name)) {                                                                      \
        check(1, name);                                                                            \
        return;                                                                                    \
    }                                                                                              \
    clear();                                                                                       \
    called++

/* What a reduction leaves on this rank. */
struct outcome {
    const char *name;
    const float *result;
    int n;     /* elements passed in */
    size_t of; /* elements of the result */
};

static int is_sum(const struct outcome *o)
{
    return same(got, o->result, o->of);
}

/* The same in place, and with nothing. */
static void blocking(struct outcome o)
{
    int good;
    PROBE(reduction, o.name);
    good = call(mine, got, o.n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS && is_sum(&o);
    memcpy(got, mine, N * sizeof *got);
    good = good &&
           call(MPI_IN_PLACE, got, o.n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS &&
           is_sum(&o) && call(mine, got, 0, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS &&
           is_sum(&o);
    check(good, o.name);
}

static void nonblocking(struct outcome o)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int good;
    PROBE(ireduction, o.name);
    good = call(mine, got, o.n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request) == MPI_SUCCESS &&
           MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && is_sum(&o);
    check(good, o.name);
}

static void reduces(void)
{
    int last = ranks - 1, good;
    PROBE(rooted, "MPI_Reduce_c");
    good = call(mine, rank == last ? got : NULL, N, MPI_FLOAT, MPI_SUM, last, MPI_COMM_WORLD) ==
               MPI_SUCCESS &&
           (rank != last || same(got, sum, N));
    memcpy(got, mine, N * sizeof *got);
    good = good &&
           call(rank == 0 ? MPI_IN_PLACE : mine, rank == 0 ? got : NULL, N, MPI_FLOAT, MPI_SUM, 0,
                MPI_COMM_WORLD) == MPI_SUCCESS &&
           (rank != 0 || same(got, sum, N));
    check(good, "MPI_Reduce_c");
}

static void ireduces(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int good;
    PROBE(irooted, "MPI_Ireduce_c");
    good = call(mine, got, N, MPI_FLOAT, MPI_SUM, ranks - 1, MPI_COMM_WORLD, &request) ==
               MPI_SUCCESS &&
           MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           (rank != ranks - 1 || same(got, sum, N));
    check(good, "MPI_Ireduce_c");
}

/* Sums of the ranks before this one, and of itself where `with_it`. */
static void scans(const char *name, int with_it)
{
    static float before[N];

    memset(before, 0, sizeof before);
    for (int i = 0; i < N; i++)
        for (int r = 0; r < rank + with_it; r++)
            before[i] += entry(r, i);
    nonblocking((struct outcome){name, before, N, rank + with_it > 0 ? N : 0});
}

static void gathers(void)
{
    int good;
    PROBE(gather, "MPI_Allgather_c");
    good = call(mine, N, MPI_FLOAT, all, N, MPI_FLOAT, MPI_COMM_WORLD) == MPI_SUCCESS &&
           same(all, joined, (size_t)ranks * N);
    clear();
    memcpy(all + (size_t)rank * N, mine, N * sizeof *all);
    good = good &&
           call(MPI_IN_PLACE, INT64_MAX, MPI_FLOAT, all, N, MPI_FLOAT, MPI_COMM_WORLD) ==
               MPI_SUCCESS &&
           same(all, joined, (size_t)ranks * N);
    check(good, "MPI_Allgather_c");
}

static void igathers(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int good;
    PROBE(igather, "MPI_Iallgather_c");
    good = call(mine, N, MPI_FLOAT, all, N, MPI_FLOAT, MPI_COMM_WORLD, &request) == MPI_SUCCESS &&
           MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           same(all, joined, (size_t)ranks * N);
    check(good, "MPI_Iallgather_c");
}

static word *lists(word each)
{
    word *made = malloc(2 * (size_t)ranks * sizeof *made);

    for (int r = 0; r < ranks; r++) {
        made[r] = each;
        made[ranks + r] = r * each;
    }
    return made;
}

static void let_go(word *list)
{
    memset(list, 0xee, 2 * (size_t)ranks * sizeof *list);
    free(list);
}

static void slices(void)
{
    word *list = lists(N);
    int good;
    PROBE(gatherv, "MPI_Allgatherv_c");
    good = call(mine, N, MPI_FLOAT, all, list, list + ranks, MPI_FLOAT, MPI_COMM_WORLD) ==
               MPI_SUCCESS &&
           same(all, joined, (size_t)ranks * N);
    list[0] = 0; /* where an empty slice would lie means nothing */
    list[ranks] = INT64_MAX;
    good = good &&
           call(mine, rank ? N : 0, MPI_FLOAT, all, list, list + ranks, MPI_FLOAT,
                MPI_COMM_WORLD) == MPI_SUCCESS &&
           same(all, joined, (size_t)ranks * N);
    free(list);
    check(good, "MPI_Allgatherv_c");
}

/* Each call's lists are let go as soon as it returns, and other memory takes their place. */
static void islices(void)
{
    MPI_Request request[CALLS];
    MPI_Status status[CALLS];
    float *into[CALLS];
    int good = 1;
    PROBE(igatherv, "MPI_Iallgatherv_c");
    for (int i = 0; i < CALLS; i++) {
        word *list = lists(N - i);

        into[i] = malloc((size_t)ranks * N * sizeof **into);
        good = good && call(mine, N - i, MPI_FLOAT, into[i], list, list + ranks, MPI_FLOAT,
                            MPI_COMM_WORLD, &request[i]) == MPI_SUCCESS;
        let_go(list);
        let_go(lists(-1));
    }
    MPI_Waitall(CALLS, request, status);
    for (int i = 0; i < CALLS; i++) {
        for (int r = 0; r < ranks; r++)
            good = good && same(into[i] + (size_t)r * (size_t)(N - i), joined + (size_t)r * N,
                                (size_t)(N - i));
        free(into[i]);
    }
    check(good, "MPI_Iallgatherv_c");
}

/* The counts are let go as soon as the call returns; each rank gets a slice of another size. */
static void iscatters(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    word *list = lists(0);
    int good;
    PROBE(iscatter, "MPI_Ireduce_scatter_c");
    for (int r = 0; r < ranks; r++)
        list[r] = r + 1;
    good = call(mine, got, list, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request) == MPI_SUCCESS;
    let_go(list);
    let_go(lists(-1));
    good = good && MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           same(got, sum + rank * (rank + 1) / 2, (size_t)rank + 1);
    check(good, "MPI_Ireduce_scatter_c");
}

/* MPI_Reduce_scatter_c with equal counts, and with one that is larger. */
static void scatters_counts(void)
{
    int each = N / ranks / 2, good = 1;
    PROBE(scatterv, "MPI_Reduce_scatter_c");
    for (int more = 0; more < 2; more++) {
        word *list = lists(0);

        for (int r = 0; r < ranks; r++)
            list[r] = each + (r == ranks - 1 ? more : 0);
        good = call(mine, got, list, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS &&
               same(got, sum + rank * each, (size_t)each) && good;
        let_go(list);
    }
    check(good, "MPI_Reduce_scatter_c");
}

/* Sums a type that is not predefined, on a communicator without an earlier blocking call. */
static void pairs(void)
{
    MPI_Request request;
    MPI_Datatype pair;
    MPI_Comm comm;
    int good = 1;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Type_contiguous(2, MPI_FLOAT, &pair);
    MPI_Type_commit(&pair);
    for (int call = 0; call < 4; call++) {
        clear();
        MPI_Iallgather(mine, N / 2, pair, all, N / 2, pair, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        good = good && same(all, joined, (size_t)ranks * N);
    }
    MPI_Type_free(&pair);
    MPI_Comm_free(&comm);
    check(good, "MPI_Iallgather of pairs");
}

/* Not made up where the MPI library lacks it. */
static void persists(void)
{
    MPI_Request request;
    persistent *init;
    int good = 1;

    clear();
    if (look(&init, "MPI_Allreduce_init")) {
        good = init(mine, got, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request) ==
               MPI_SUCCESS;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        good = good && same(got, sum, N) && MPI_Request_free(&request) == MPI_SUCCESS;
        check(good, "MPI_Allreduce_init is there");
    } else {
        check(1, "MPI_Allreduce_init is not there");
    }
    check(1, dlsym(RTLD_DEFAULT, "MPI_Op_create_c") ? "MPI_Op_create_c is there"
                                                    : "MPI_Op_create_c is not there");
}

static int class_of(int code)
{
    int of = -1;

    MPI_Error_class(code, &of);
    return of;
}

static int heard;

static void hear(MPI_Comm *comm, int *code, ...)
{
    heard += *comm == MPI_COMM_WORLD && class_of(*code) == MPI_ERR_COUNT;
}

static int is_refused(int code)
{
    const int once = heard == 1 && class_of(code) == MPI_ERR_COUNT;

    heard = 0;
    return once;
}

/* Nonblocking reductions of too many elements, as the program's handler hears of them. */
static int refuses_reductions(const word *list)
{
    static const char *const names[] = {"MPI_Iallreduce_c", "MPI_Iscan_c", "MPI_Iexscan_c",
                                        "MPI_Ireduce_scatter_block_c"};
    const word n = (word)1 << 31;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request = MPI_REQUEST_NULL;
    ireduction *call;
    irooted *reduce;
    iscatter *scatter;
    int good = 1;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        good = look(&call, names[i]) &&
               is_refused(call(mine, got, n, MPI_FLOAT, MPI_SUM, world, &request)) && good;
    good = look(&reduce, "MPI_Ireduce_c") &&
           is_refused(reduce(mine, got, n, MPI_FLOAT, MPI_SUM, 0, world, &request)) && good;
    return look(&scatter, "MPI_Ireduce_scatter_c") &&
           is_refused(scatter(mine, got, list, MPI_FLOAT, MPI_SUM, world, &request)) && good;
}

/* On a library that has the function the call is none to be made here. */
static void too_large(void)
{
    MPI_Errhandler handler;
    MPI_Request request = MPI_REQUEST_NULL;
    ireduction *call;
    gather *join;
    word *list = lists((word)1 << 31);
    int good;

    if (dlsym(RTLD_DEFAULT, "PMPI_Iallreduce_c") || !look(&call, "MPI_Iallreduce_c") ||
        !look(&join, "MPI_Allgather_c")) {
        free(list);
        check(1, "calls larger than an int");
        return;
    }
    good = class_of(call(mine, got, -((word)1 << 32), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                         &request)) == MPI_ERR_COUNT;
    MPI_Comm_create_errhandler(hear, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    good = is_refused(join(mine, N, MPI_FLOAT, all, (word)1 << 31, MPI_FLOAT, MPI_COMM_WORLD)) &&
           refuses_reductions(list) && good;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
    free(list);
    check(good, "calls larger than an int");
}

int main(int argc, char **argv)
{
    float *room;
    int each;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    room = malloc((3 + 2 * (size_t)ranks) * N * sizeof *room);
    mine = room;
    got = mine + N;
    sum = got + N;
    all = sum + N;
    joined = all + (size_t)ranks * N;
    fill();
    pairs();
    MPI_Allreduce(mine, got, N, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    each = N / ranks;
    for (int turn = 0; turn < 3; turn++) {
        blocking((struct outcome){"MPI_Allreduce_c", sum, N, N});
        reduces();
        blocking(
            (struct outcome){"MPI_Reduce_scatter_block_c", sum + rank * each, each, (size_t)each});
        nonblocking((struct outcome){"MPI_Iallreduce_c", sum, N, N});
        gathers();
        igathers();
        slices();
        islices();
        scans("MPI_Iscan_c", 1);
        scans("MPI_Iexscan_c", 0);
        ireduces();
        nonblocking(
            (struct outcome){"MPI_Ireduce_scatter_block_c", sum + rank * each, each, (size_t)each});
        iscatters();
        scatters_counts();
    }
    persists();
    too_large();
    if (rank == 0)
        printf("1..%d\n", tests);
    if (rank == 0)
        fprintf(stderr, "names: %d calls\n", called);
    free(room);
    MPI_Finalize();
    return failures > 0;
}
