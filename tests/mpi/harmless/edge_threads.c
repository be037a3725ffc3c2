/* edge_threads CASE: the thread in which code of the program runs, and the level of threads that it
 * sees. */
#include <dirent.h>

#include "tests/mpi/harmless/edge.h"

enum { LONG = 160000, ROUNDS = 30 };

static pthread_t self;   /* the only thread of this program */
static int away, called; /* calls of its code: in another thread, in all */

static void here(void)
{
    called++;
    away += !pthread_equal(pthread_self(), self);
}

static void tell(const char *what)
{
    edge_say("%s: called %s, in another thread %d times", what, edge_yes(called > 0), away);
    called = away = 0;
}

/* ---- operators ---- */

static double scratch[1024]; /* what the operator and the computation share */

static double mix(double x)
{
    for (int i = 0; i < 8; i++)
        x = x * 0.5 + 1;
    return x;
}

/* Adds in blocks by way of the scratch array. */
static void add(void *a, void *b, int *n, MPI_Datatype *type)
{
    double *in = a, *inout = b;

    (void)type;
    here();
    for (int i = 0; i < *n; i += 1024) {
        int block = *n - i < 1024 ? *n - i : 1024;

        for (int j = 0; j < block; j++)
            scratch[j] = in[i + j] + inout[i + j];
        memcpy(inout + i, scratch, (size_t)block * sizeof *scratch);
    }
}

/* Returns true if the scratch array keeps its values while no MPI function is called. */
static bool compute(int turns)
{
    bool good = true;

    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < 1024; i++)
            scratch[i] = mix(i + turn);
        for (int i = 0; i < 1024; i++)
            good = good && scratch[i] == mix(i + turn);
    }
    return good;
}

static bool holds(const double *got, double value)
{
    for (int i = 0; i < LONG; i++)
        if (got[i] != value)
            return false;
    return true;
}

typedef int long_call(double *in, double *out, MPI_Op op, MPI_Comm comm, MPI_Request *request);

static int ireduce(double *in, double *out, MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    return MPI_Ireduce(in, out, LONG, MPI_DOUBLE, op, 0, comm, request);
}

static int iallreduce(double *in, double *out, MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    return MPI_Iallreduce(in, out, LONG, MPI_DOUBLE, op, comm, request);
}

static int iscan(double *in, double *out, MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    return MPI_Iscan(in, out, LONG, MPI_DOUBLE, op, comm, request);
}

static int iexscan(double *in, double *out, MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    return MPI_Iexscan(in, out, LONG, MPI_DOUBLE, op, comm, request);
}

static int ireduce_scatter(double *in, double *out, MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    return MPI_Ireduce_scatter_block(in, out, LONG / edge.size, MPI_DOUBLE, op, comm, request);
}

/* Long reductions with an operator of the program beside eligible calls, while it computes. */
static void operators_with(const char *name, long_call *call, MPI_Comm theirs)
{
    double *in = input_alloc(LONG * sizeof *in), *out = input_alloc(LONG * sizeof *out);
    double *plain = input_alloc(LONG * sizeof *plain);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    bool still = true, right = true, eligible = true;
    MPI_Op op;

    MPI_Op_create(add, 1, &op);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LONG; i++) {
            in[i] = edge.rank + 1;
            out[i] = plain[i] = -1;
        }
        edge_fill(MPI_COMM_WORLD, edge.in, 5);
        MPI_Iallreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                       &requests[0]);
        call(in, out, op, theirs, &requests[1]);
        still = compute(40) && still;
        if (round % 3 == 0)
            usleep(2000);
        MPI_Waitall(2, requests, statuses);
        eligible = edge_right(MPI_COMM_WORLD, edge.out, 5) && eligible;
        still = compute(2) && still;
        if (call == iallreduce)
            right = holds(out, edge.size * (edge.size + 1) / 2.0) && right;
        if (call == iscan)
            right = holds(out, (edge.rank + 1) * (edge.rank + 2) / 2.0) && right;
        if (call == ireduce && edge.rank == 0)
            right = holds(out, edge.size * (edge.size + 1) / 2.0) && right;
    }
    edge_say("%s: reduced %s, summed %s, computed %s", name, edge_yes(right), edge_yes(eligible),
             edge_yes(still));
    called++; /* not every rank reduces something in each of them */
    tell(name);
    MPI_Op_free(&op);
    free(in);
    free(out);
    free(plain);
}

static void operators(void)
{
    MPI_Comm theirs;

    self = pthread_self();
    MPI_Comm_dup(MPI_COMM_WORLD, &theirs);
    operators_with("ireduce", ireduce, theirs);
    operators_with("iallreduce", iallreduce, theirs);
    operators_with("iscan", iscan, theirs);
    operators_with("iexscan", iexscan, theirs);
    operators_with("ireduce_scatter_block", ireduce_scatter, theirs);
    operators_with("iallreduce on the same communicator", iallreduce, MPI_COMM_WORLD);
    MPI_Comm_free(&theirs);
}

/* ---- callbacks of attributes ---- */

static int on_delete_comm(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    here();
    return MPI_SUCCESS;
}

static int on_copy_comm(MPI_Comm comm, int keyval, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    here();
    *(void **)copy = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int on_delete_type(MPI_Datatype type, int keyval, void *value, void *extra)
{
    (void)type, (void)keyval, (void)value, (void)extra;
    here();
    return MPI_SUCCESS;
}

/* Communicators and datatypes freed while calls on them are under way. */
static void attributes(void)
{
    int comm_key, type_key;
    int counts[64], displs[64];
    float *gathered = input_alloc(sizeof(float) * (size_t)(edge.count * edge.size));

    self = pthread_self();
    MPI_Comm_create_keyval(on_copy_comm, on_delete_comm, &comm_key, NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, on_delete_type, &type_key, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm;
        MPI_Datatype type;
        MPI_Request requests[3];
        MPI_Status statuses[3];

        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_attr(comm, comm_key, &comm_key);
        MPI_Type_contiguous(1, MPI_FLOAT, &type);
        MPI_Type_commit(&type);
        MPI_Type_set_attr(type, type_key, &type_key);
        for (int r = 0; r < edge.size; r++) {
            counts[r] = edge.count;
            displs[r] = r * edge.count;
        }
        if (round % 2 == 0)
            edge_isum(comm, 3);
        edge_fill(comm, edge.in, 4);
        MPI_Iallreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, comm, &requests[0]);
        MPI_Iallgatherv(edge.in, edge.count, type, gathered, counts, displs, type, comm,
                        &requests[1]);
        MPI_Ibcast(&displs[32], 16, MPI_INT, 0, comm, &requests[2]);
        MPI_Type_free(&type);
        MPI_Comm_free(&comm);
        compute(5);
        if (round % 3 == 0)
            usleep(2000);
        MPI_Waitall(3, requests, statuses);
        if (!edge_right(MPI_COMM_WORLD, edge.out, 4))
            edge_say("a wrong sum");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    edge_say("callbacks called %d times", called);
    tell("callbacks");
    MPI_Comm_free_keyval(&comm_key);
    MPI_Type_free_keyval(&type_key);
    free(gathered);
}

/* ---- error handlers and generalized requests ---- */

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    here();
}

static int on_query(void *extra, MPI_Status *status)
{
    (void)extra;
    here();
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int on_free(void *extra)
{
    (void)extra;
    here();
    return MPI_SUCCESS;
}

static int on_cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    here();
    return MPI_SUCCESS;
}

/* A message too long for its receive, and requests of the program's own, beside eligible calls. */
static void handlers(void)
{
    MPI_Errhandler handler;
    MPI_Comm comm;
    int small, big[4] = {0};
    int next = (edge.rank + 1) % edge.size;

    self = pthread_self();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[3], own;

        MPI_Irecv(&small, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &requests[0]);
        MPI_Grequest_start(on_query, on_free, on_cancel, NULL, &own);
        edge_fill(comm, edge.in, 6);
        MPI_Iallreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, comm, &requests[1]);
        MPI_Isend(big, 4, MPI_INT, next, 1, comm, &requests[2]);
        compute(10);
        if (round % 3 == 0)
            usleep(2000);
        MPI_Grequest_complete(own);
        MPI_Wait(&own, MPI_STATUS_IGNORE);
        for (int i = 0; i < 3; i++)
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        if (!edge_right(comm, edge.out, 6))
            edge_say("a wrong sum");
    }
    edge_say("handlers and callbacks called %d times", called);
    tell("handlers");
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
}

/* ---- levels ---- */

static int threads_of_this_process(void)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    int n = 0;

    if (!dir)
        return -1;
    while ((entry = readdir(dir)))
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void tell_level(int provided)
{
    int level = -1, is_main = 0;

    MPI_Query_thread(&level);
    MPI_Is_thread_main(&is_main);
    edge_say("provided %d, queried %d, main %d", provided, level, is_main);
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 4)));
    MPI_Query_thread(&level);
    edge_say("queried again %d", level);
}

/* levels LEVEL: as the argument asks; "init" for MPI_Init. */
static void levels(void)
{
    const char *asked = edge.argc > 2 ? edge.argv[2] : "init";
    int provided = -1;

    if (strcmp(asked, "init") == 0)
        MPI_Init(NULL, NULL);
    else
        MPI_Init_thread(NULL, NULL, atoi(asked), &provided);
    edge_begin(MPI_COMM_WORLD);
    tell_level(provided);
    MPI_Finalize();
}

/* The user asks for more, by MPICH's own means. */
static void level_of_environment(void)
{
    setenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL", "MPI_THREAD_SERIALIZED", 1);
    MPI_Init(NULL, NULL);
    edge_begin(MPI_COMM_WORLD);
    tell_level(-1);
    MPI_Finalize();
}

static void async_progress(void)
{
    int provided = -1;

    setenv("MPIR_CVAR_ASYNC_PROGRESS", "1", 1);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    edge_begin(MPI_COMM_WORLD);
    tell_level(provided);
    edge_say("threads: %d", threads_of_this_process());
    MPI_Finalize();
}

static void threads_counted(void)
{
    int before = threads_of_this_process();

    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 9)));
    edge_say("as many threads as before: %s", edge_yes(threads_of_this_process() == before));
}

static const struct edge_case cases[] = {
    {"operators", EDGE_INIT, operators},
    {"operators-multiple", MPI_THREAD_MULTIPLE, operators},
    {"attributes", EDGE_INIT, attributes},
    {"attributes-multiple", MPI_THREAD_MULTIPLE, attributes},
    {"handlers", EDGE_INIT, handlers},
    {"handlers-multiple", MPI_THREAD_MULTIPLE, handlers},
    {"levels", EDGE_NONE, levels},
    {"level-env", EDGE_NONE, level_of_environment},
    {"async-progress", EDGE_NONE, async_progress},
    {"threads", EDGE_INIT, threads_counted},
};

EDGE_MAIN(cases)
