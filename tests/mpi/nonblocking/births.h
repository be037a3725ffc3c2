/* Shared by nb_births and nb_crowd: communicators made in every way, and sums on them whose inputs
 * differ between ranks and between calls, so that a sum of other calls shows. */
#ifndef TESTS_MPI_BIRTHS_H
#define TESTS_MPI_BIRTHS_H

#include "tests/mpi/nonblocking/nb.h"
#include "tests/mpi/support/tap.h"

enum { BIRTHS_COUNT = 20000, BIRTHS_SUMS = 10, BIRTHS_RANKS = 8 };

/* A communicator under test; its ranks may be those of MPI_COMM_WORLD in another order. */
struct birth {
    MPI_Comm comm;
    int rank, size;
    const char *maker;
};

/* A reduction of floats in place. */
struct sum {
    MPI_Request request;
    MPI_Op op;
    float *buffer;
    int count, call;
};

/* ---- sums ---- */

/* Returns one entry in sixteen that is not zero, at places that depend on the call. */
static inline float births_value(int rank, int call, int i)
{
    return (i + call) % 16 == 0 ? (float)(1 + i % 31 + 3 * rank + 37 * call) : 0;
}

static inline float births_expected(const struct sum *s, int size, int i)
{
    float total = 0;

    for (int r = 0; r < size; r++) {
        float value = births_value(r, s->call, i);

        total = s->op == MPI_SUM ? total + value : value > total ? value : total;
    }
    return total;
}

/* Fills the input of the next call. All ranks make the calls of a communicator in one order. */
static inline void births_fill(struct sum *s, const struct birth *b, MPI_Op op, int count, int call)
{
    s->op = op;
    s->count = count;
    s->call = call % 1000;
    s->request = MPI_REQUEST_NULL;
    if (!s->buffer)
        s->buffer = input_alloc(BIRTHS_COUNT * sizeof *s->buffer);
    for (int i = 0; i < count; i++)
        s->buffer[i] = births_value(b->rank, s->call, i);
}

static inline void births_post(struct sum *s, const struct birth *b, MPI_Op op, int count, int call)
{
    births_fill(s, b, op, count, call);
    MPI_Iallreduce(MPI_IN_PLACE, s->buffer, count, MPI_FLOAT, op, b->comm, &s->request);
}

/* Returns true if the result is right; otherwise writes the first wrong entry to stderr. */
static inline bool births_right(const struct sum *s, const struct birth *b)
{
    for (int i = 0; i < s->count; i++) {
        const float expected = births_expected(s, b->size, i);

        if (s->buffer[i] == expected)
            continue;
        fprintf(stderr, "%s: rank %d, call %d of %d floats: entry %d is %g, not %g\n", b->maker,
                b->rank, s->call, s->count, i, (double)s->buffer[i], (double)expected);
        return false;
    }
    return true;
}

/* Waits for n sums at once. Returns true if all are right. */
static inline bool births_wait(struct sum *sums, int n, const struct birth *b)
{
    MPI_Request request[BIRTHS_SUMS];
    bool right = true;

    for (int i = 0; i < n; i++)
        request[i] = sums[i].request;
    nb_wait_all(n, request);
    for (int i = 0; i < n; i++)
        right = births_right(&sums[i], b) && right;
    return right;
}

static inline bool births_blocking(struct sum *s, const struct birth *b, int call)
{
    births_fill(s, b, MPI_SUM, BIRTHS_COUNT, call);
    MPI_Allreduce(MPI_IN_PLACE, s->buffer, s->count, MPI_FLOAT, MPI_SUM, b->comm);
    return births_right(s, b);
}

/* ---- communicators ---- */

/* The communicator that others are made from; the ranks in it are those of MPI_COMM_WORLD. */
static MPI_Comm births_parent;

static inline int births_world(MPI_Comm *comm)
{
    *comm = MPI_COMM_WORLD;
    return MPI_SUCCESS;
}

static inline int births_dup(MPI_Comm *comm)
{
    return MPI_Comm_dup(births_parent, comm);
}

static inline int births_dup_with_info(MPI_Comm *comm)
{
    return MPI_Comm_dup_with_info(births_parent, MPI_INFO_NULL, comm);
}

static inline int births_idup(MPI_Comm *comm)
{
    MPI_Request request;
    int err = MPI_Comm_idup(births_parent, comm, &request);

    return err == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : err;
}

static inline int births_split(MPI_Comm *comm)
{
    return MPI_Comm_split(births_parent, 7, -tap.rank, comm);
}

static inline int births_split_type(MPI_Comm *comm)
{
    return MPI_Comm_split_type(births_parent, MPI_COMM_TYPE_SHARED, tap.rank, MPI_INFO_NULL, comm);
}

static inline int births_of_group(int (*make)(MPI_Group group, MPI_Comm *comm), MPI_Comm *comm)
{
    MPI_Group group;
    int err;

    MPI_Comm_group(births_parent, &group);
    err = make(group, comm);
    MPI_Group_free(&group);
    return err;
}

static inline int births_call_create(MPI_Group group, MPI_Comm *comm)
{
    return MPI_Comm_create(births_parent, group, comm);
}

static inline int births_call_create_group(MPI_Group group, MPI_Comm *comm)
{
    return MPI_Comm_create_group(births_parent, group, 5, comm);
}

#if MPI_VERSION >= 4
static inline int births_call_from_group(MPI_Group group, MPI_Comm *comm)
{
    return MPI_Comm_create_from_group(group, "births", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, comm);
}

static inline int births_from_group(MPI_Comm *comm)
{
    return births_of_group(births_call_from_group, comm);
}
#endif

static inline int births_create(MPI_Comm *comm)
{
    return births_of_group(births_call_create, comm);
}

static inline int births_create_group(MPI_Comm *comm)
{
    return births_of_group(births_call_create_group, comm);
}

static inline int births_cart(MPI_Comm *comm)
{
    const int dims[1] = {tap.size}, periods[1] = {1};

    return MPI_Cart_create(births_parent, 1, dims, periods, 0, comm);
}

static inline int births_cart_sub(MPI_Comm *comm)
{
    const int dims[2] = {tap.size, 1}, periods[2] = {0, 0}, keep[2] = {1, 0};
    MPI_Comm grid;
    int err = MPI_Cart_create(births_parent, 2, dims, periods, 0, &grid);

    if (err == MPI_SUCCESS) {
        err = MPI_Cart_sub(grid, keep, comm);
        MPI_Comm_free(&grid);
    }
    return err;
}

/* The graphs are rings: each rank has an edge to the next. */
static inline int births_graph(MPI_Comm *comm)
{
    int index[BIRTHS_RANKS], edges[BIRTHS_RANKS];

    for (int r = 0; r < tap.size; r++) {
        index[r] = r + 1;
        edges[r] = (r + 1) % tap.size;
    }
    return MPI_Graph_create(births_parent, tap.size, index, edges, 0, comm);
}

static inline int births_dist_graph(MPI_Comm *comm)
{
    const int source[1] = {tap.rank}, one[1] = {1}, to[1] = {(tap.rank + 1) % tap.size};

    return MPI_Dist_graph_create(births_parent, 1, source, one, to, one, MPI_INFO_NULL, 0, comm);
}

static inline int births_dist_graph_adjacent(MPI_Comm *comm)
{
    const int from[1] = {(tap.rank + tap.size - 1) % tap.size};
    const int to[1] = {(tap.rank + 1) % tap.size}, one[1] = {1};

    return MPI_Dist_graph_create_adjacent(births_parent, 1, from, one, 1, to, one, MPI_INFO_NULL, 0,
                                          comm);
}

static inline int births_merge(MPI_Comm *comm)
{
    const int high = tap.rank > 0;
    MPI_Comm half, both;
    int err;

    MPI_Comm_split(births_parent, high, 0, &half);
    MPI_Intercomm_create(half, 0, births_parent, high ? 0 : 1, 6, &both);
    err = MPI_Intercomm_merge(both, high, comm);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
    return err;
}

/* MPI_Comm_create_group of Open MPI copies attributes (4.1, 5.0). */
#ifdef OPEN_MPI
enum { BIRTHS_GROUP_COPIES = 1 };
#else
enum { BIRTHS_GROUP_COPIES = 0 };
#endif

static const struct births_maker {
    const char *name;
    int (*make)(MPI_Comm *comm);
    bool served; /* with PROGRESS=watchdog, its nonblocking sums are served */
    bool copies; /* attributes of the parent are copied */
} births_makers[] = {
    {"world", births_world, true, false},
    {"dup", births_dup, true, true},
    {"dup_with_info", births_dup_with_info, true, true},
    {"split", births_split, true, false},
    {"split_type", births_split_type, true, false},
    {"create", births_create, true, false},
    {"create_group", births_create_group, true, BIRTHS_GROUP_COPIES},
    {"cart", births_cart, true, false},
    {"cart_sub", births_cart_sub, true, false},
    {"graph", births_graph, true, false},
    {"dist_graph", births_dist_graph, true, false},
    {"dist_graph_adjacent", births_dist_graph_adjacent, true, false},
    {"merge", births_merge, true, false},
#if MPI_VERSION >= 4
    {"from_group", births_from_group, false, false},
#endif
    {"idup", births_idup, false, true},
};
enum { BIRTHS_MAKERS = sizeof births_makers / sizeof *births_makers };

static inline struct birth births_make(const struct births_maker *maker)
{
    struct birth b = {.comm = MPI_COMM_NULL, .maker = maker->name};

    if (maker->make(&b.comm) != MPI_SUCCESS || b.comm == MPI_COMM_NULL) {
        fprintf(stderr, "%s makes no communicator\n", maker->name);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Comm_rank(b.comm, &b.rank);
    MPI_Comm_size(b.comm, &b.size);
    return b;
}

static inline void births_end(struct birth *b)
{
    if (b->comm != MPI_COMM_WORLD)
        MPI_Comm_free(&b->comm);
}

/* Begins MPI and TAP, whose collectives are on a communicator that the library under test has not
 * seen, since a mix-up on MPI_COMM_WORLD would reach them. */
static inline void births_begin(int *argc, char ***argv, bool multiple)
{
    MPI_Comm comm;
    int provided;

    if (multiple)
        MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    else
        MPI_Init(argc, argv);
    births_parent = MPI_COMM_WORLD;
    PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
    tap_begin(comm);
}

static inline int births_finalize(void)
{
    int status = tap_end();

    PMPI_Comm_free(&tap.comm);
    MPI_Finalize();
    return status;
}

#endif
