/* edge_finalize CASE: the end of a program, and ends that are none. */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/mpi/harmless/edge.h"

/* ---- callbacks of MPI_COMM_SELF and MPI_COMM_WORLD ---- */

static int sums_at_the_end(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    edge_say("callback %d: sums %s", (int)(intptr_t)value,
             edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)));
    return MPI_SUCCESS;
}

static int gathers_at_the_end(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int n = edge.count;
    float *all = input_alloc(sizeof(float) * (size_t)n * (size_t)edge.size);

    (void)comm, (void)keyval, (void)extra;
    edge_fill(MPI_COMM_WORLD, edge.in, 2);
    MPI_Allgather(edge.in, n, MPI_FLOAT, all, n, MPI_FLOAT, MPI_COMM_WORLD);
    MPI_Reduce(edge.in, edge.out, n, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    edge_say("callback %d: gathered %s, reduced %s", (int)(intptr_t)value,
             edge_yes(memcmp(all + (size_t)edge.rank * (size_t)n, edge.in,
                             sizeof(float) * (size_t)n) == 0),
             edge_yes(edge.rank != 0 || edge_right(MPI_COMM_WORLD, edge.out, 2)));
    free(all);
    return MPI_SUCCESS;
}

static int calls_nonblocking(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)extra;
    edge_say("callback %d: nonblocking %s, sums %s", (int)(intptr_t)value,
             edge_yes(edge_isum(MPI_COMM_WORLD, 4)), edge_yes(edge_sums(MPI_COMM_WORLD, 2, 5)));
    return MPI_SUCCESS;
}

static int duplicates_at_the_end(MPI_Comm comm, int keyval, void *value, void *extra)
{
    MPI_Comm late;

    (void)comm, (void)keyval, (void)extra;
    MPI_Comm_dup(MPI_COMM_WORLD, &late);
    edge_say("callback %d: first sums of a communicator %s, nonblocking %s", (int)(intptr_t)value,
             edge_yes(edge_sums(late, 3, 1)), edge_yes(edge_isum(late, 9)));
    MPI_Comm_free(&late);
    return MPI_SUCCESS;
}

static void at_the_end_of(MPI_Comm comm, MPI_Comm_delete_attr_function *function, int number)
{
    int keyval;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, function, &keyval, NULL);
    MPI_Comm_set_attr(comm, keyval, (void *)(intptr_t)number);
    MPI_Comm_free_keyval(&keyval);
}

static void at_the_end(MPI_Comm_delete_attr_function *function, int number)
{
    at_the_end_of(MPI_COMM_SELF, function, number);
}

static void callbacks_before(void)
{
    at_the_end(sums_at_the_end, 1);
    at_the_end(gathers_at_the_end, 2);
    at_the_end(calls_nonblocking, 3);
    at_the_end(duplicates_at_the_end, 4);
    edge_say("sums %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)));
}

static void callbacks_after(void)
{
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 1)));
    at_the_end(sums_at_the_end, 1);
    at_the_end(gathers_at_the_end, 2);
    at_the_end(calls_nonblocking, 3);
    at_the_end(duplicates_at_the_end, 4);
}

/* On one rank before, on the others after the first call. */
static void callbacks_mixed(void)
{
    if (edge.rank == 0) {
        at_the_end(sums_at_the_end, 1);
        at_the_end(duplicates_at_the_end, 2);
        at_the_end(calls_nonblocking, 3);
    }
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 1)));
    if (edge.rank != 0) {
        at_the_end(sums_at_the_end, 1);
        at_the_end(duplicates_at_the_end, 2);
        at_the_end(calls_nonblocking, 3);
    }
}

/* As callbacks_mixed, of the world: MPI_Finalize deletes its attributes, too. */
static void callbacks_of_the_world(void)
{
    if (edge.rank == 0) {
        at_the_end_of(MPI_COMM_WORLD, sums_at_the_end, 1);
        at_the_end_of(MPI_COMM_WORLD, gathers_at_the_end, 2);
        at_the_end_of(MPI_COMM_WORLD, calls_nonblocking, 3);
    }
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 1)));
    if (edge.rank != 0) {
        at_the_end_of(MPI_COMM_WORLD, sums_at_the_end, 1);
        at_the_end_of(MPI_COMM_WORLD, gathers_at_the_end, 2);
        at_the_end_of(MPI_COMM_WORLD, calls_nonblocking, 3);
    }
}

/* Nothing eligible happens before MPI_Finalize. */
static void callbacks_alone(void)
{
    at_the_end(sums_at_the_end, 1);
    at_the_end(calls_nonblocking, 2);
}

static int not_below(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int done = -1;

    (void)comm, (void)keyval, (void)extra;
    MPI_Finalized(&done);
    edge_say("callback %d: finalized %d", (int)(intptr_t)value, done);
    return MPI_SUCCESS;
}

/* The order of deletion is the reverse of that of setting. */
static void callbacks_in_order(void)
{
    for (int i = 0; i < 3; i++)
        at_the_end(not_below, i);
    edge_sums(MPI_COMM_WORLD, 3, 1);
    for (int i = 3; i < 6; i++)
        at_the_end(not_below, i);
}

/* A callback that fails: what MPI_Finalize makes of it. */
static int fails(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    return MPI_ERR_OTHER;
}

static void callback_fails(void)
{
    edge_sums(MPI_COMM_WORLD, 3, 1);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    at_the_end(fails, 1);
}

/* ---- a rank that comes late ---- */

static void late_to_finalize(void)
{
    struct timespec t = {.tv_sec = 3};

    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 1)));
    if (edge.rank == 0)
        nanosleep(&t, NULL);
}

/* Stopped as a whole, as by a batch system. */
static void stopped_before_finalize(void)
{
    pid_t self = getpid();

    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 1)));
    if (edge.rank != 0)
        return;
    if (fork() == 0) {
        sleep(3);
        kill(self, SIGCONT);
        _exit(0);
    }
    kill(self, SIGSTOP);
    wait(NULL);
}

static void late_to_the_last_sum(void)
{
    edge_say("sums %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)));
    if (edge.rank == 0)
        sleep(2);
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 1, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 1)));
}

/* The last call's request is complete on this rank long before on another. */
static void late_to_complete(void)
{
    MPI_Request request;

    edge_sums(MPI_COMM_WORLD, 2, 1);
    edge_isum(MPI_COMM_WORLD, 1);
    edge_fill(MPI_COMM_WORLD, edge.in, 8);
    if (edge.rank == 0)
        sleep(1);
    MPI_Iallreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (edge.rank == 1)
        sleep(1);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    edge_say("nonblocking %s", edge_yes(edge_right(MPI_COMM_WORLD, edge.out, 8)));
}

/* ---- sessions ---- */

#if MPI_VERSION >= 4
static MPI_Comm of_session(MPI_Session session, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;

    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}
#endif

/* outlives ORDER: sessions whose communicators are used after MPI_Finalize. Order 0: the first call
 * is before MPI_Finalize; 1: after it; 2: on rank 0 the session is opened first, on the others
 * MPI_Init is called first; 3: the last communicator is freed by a rank long before the others. */
static void session_outlives(void)
{
#if MPI_VERSION >= 4
    int order = edge.argc > 2 ? atoi(edge.argv[2]) : 0;
    const char *rank = getenv("PMI_RANK");
    bool session_first = order == 2 ? rank && atoi(rank) == 0 : order == 1;
    MPI_Session session;
    MPI_Comm comm, second;

    if (session_first)
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Init(NULL, NULL);
    if (!session_first)
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    edge_begin(MPI_COMM_WORLD);
    comm = of_session(session, "edge.first");
    second = of_session(session, "edge.second");
    if (order != 1) {
        edge_say("sums %s, %s", edge_yes(edge_sums(comm, 3, 1)),
                 edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)));
        edge_say("nonblocking %s", edge_yes(edge_isum(comm, 5)));
    }
    MPI_Finalize();
    edge_say("sums after MPI_Finalize %s", edge_yes(edge_sums(comm, 3, 1)));
    edge_say("nonblocking %s", edge_yes(edge_isum(comm, 5)));
    edge_say("sums on another %s", edge_yes(edge_sums(second, 3, 1)));
    edge_say("nonblocking %s", edge_yes(edge_isum(second, 5)));
    if (order == 3 && edge.rank == 0)
        sleep(1);
    MPI_Comm_free(&second);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    edge_say("the end");
#endif
}

/* Only sessions, two at a time. */
static void two_sessions(void)
{
#if MPI_VERSION >= 4
    MPI_Session sessions[2];
    MPI_Comm comms[2];

    for (int i = 0; i < 2; i++) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &sessions[i]);
        comms[i] = of_session(sessions[i], i == 0 ? "edge.first" : "edge.second");
        if (i == 0)
            edge_begin(comms[0]);
        edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(comms[i], 3, 1)),
                 edge_yes(edge_isum(comms[i], 5)));
    }
    for (int i = 0; i < 2; i++) {
        edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(comms[i], 3, 1)),
                 edge_yes(edge_isum(comms[i], 5)));
        MPI_Comm_free(&comms[i]);
        MPI_Session_finalize(&sessions[i]);
    }
    edge_say("the end");
#endif
}

/* ---- ends that are none ---- */

static void exit_without(void)
{
    int code = edge.argc > 2 ? atoi(edge.argv[2]) : 0;

    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 1)));
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank != 0)
        for (;;)
            pause();
    exit(code);
}

static void finalize_at_exit(void)
{
    edge_say("sums in an exit handler %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)));
    MPI_Finalize();
}

static void finalized_by_exit(void)
{
    MPI_Init(NULL, NULL);
    edge_begin(MPI_COMM_WORLD);
    atexit(finalize_at_exit);
    edge_say("sums %s, nonblocking %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)),
             edge_yes(edge_isum(MPI_COMM_WORLD, 1)));
}

static void killed(void)
{
    edge_say("sums %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)));
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank == 0)
        raise(SIGKILL);
    for (;;)
        pause();
}

static void never_a_sum(void)
{
    int x = edge.rank, sum = 0;

    MPI_Bcast(&x, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Scan(&x, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    edge_say("scanned %d", sum);
}

static void not_even_init(void)
{
    int up = -1, down = -1;

    MPI_Initialized(&up);
    MPI_Finalized(&down);
    edge_say("initialized %d, finalized %d", up, down);
}

static void init_only(void)
{
}

static void pcontrol(void)
{
    for (int level = 0; level < 5; level++) {
        MPI_Pcontrol(2);
        MPI_Pcontrol(level, "text", 1.5, 3);
        MPI_Pcontrol(1);
        edge_say("sums %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)));
    }
    MPI_Pcontrol(0);
    edge_say("sums %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)));
}

/* MPI_Finalize's own result, and what may be asked after it. */
static void after_finalize(void)
{
    int down = 0, version, sub, err;

    MPI_Init(NULL, NULL);
    edge_begin(MPI_COMM_WORLD);
    edge_sums(MPI_COMM_WORLD, 3, 1);
    err = MPI_Finalize();
    MPI_Finalized(&down);
    MPI_Get_version(&version, &sub);
    edge_say("finalized %d, returned %d", down, err);
}

/* Errors, which end the program. */
static void sum_before_init(void)
{
    float in = 1, out = 0;

    MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void sum_after_finalize(void)
{
    MPI_Init(NULL, NULL);
    edge_begin(MPI_COMM_WORLD);
    edge_sums(MPI_COMM_WORLD, 3, 1);
    MPI_Finalize();
    edge_sum(MPI_COMM_WORLD, 1);
}

static void pcontrol_after_finalize(void)
{
    MPI_Init(NULL, NULL);
    edge_begin(MPI_COMM_WORLD);
    edge_sums(MPI_COMM_WORLD, 3, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    MPI_Pcontrol(2);
}

static const struct edge_case cases[] = {
    {"before", EDGE_INIT, callbacks_before},
    {"after", EDGE_INIT, callbacks_after},
    {"mixed", EDGE_INIT, callbacks_mixed},
    {"world", EDGE_INIT, callbacks_of_the_world},
    {"alone", EDGE_INIT, callbacks_alone},
    {"order", EDGE_INIT, callbacks_in_order},
    {"fails", EDGE_INIT, callback_fails},
    {"late", EDGE_INIT, late_to_finalize},
    {"stopped", EDGE_INIT, stopped_before_finalize},
    {"last-sum", MPI_THREAD_MULTIPLE, late_to_the_last_sum},
    {"complete", MPI_THREAD_MULTIPLE, late_to_complete},
    {"outlives", EDGE_NONE, session_outlives},
    {"sessions", EDGE_NONE, two_sessions},
    {"exit", EDGE_INIT, exit_without},
    {"atexit", EDGE_NONE, finalized_by_exit},
    {"killed", EDGE_INIT, killed},
    {"no-sum", EDGE_INIT, never_a_sum},
    {"no-init", EDGE_NONE, not_even_init},
    {"sum-before", EDGE_NONE, sum_before_init},
    {"sum-after", EDGE_NONE, sum_after_finalize},
    {"init-only", EDGE_INIT, init_only},
    {"pcontrol", EDGE_INIT, pcontrol},
    {"pcontrol-after", EDGE_NONE, pcontrol_after_finalize},
    {"after-finalize", EDGE_NONE, after_finalize},
};

EDGE_MAIN(cases)
