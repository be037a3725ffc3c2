/* edge_errors CASE: error handlers that call MPI or end the job. */
#include "tests/mpi/harmless/edge.h"

static int handled;
static MPI_Comm other; /* no handler of this program is called for it */

static void handler_aborts(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    MPI_Abort(*comm, 7);
}

static void handler_aborts_window(MPI_Win *win, int *code, ...)
{
    (void)win, (void)code;
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static void handler_aborts_file(MPI_File *file, int *code, ...)
{
    (void)file, (void)code;
    MPI_Abort(MPI_COMM_WORLD, 11);
}

/* Point-to-point with itself and a neighbour, a probe, a collective of its own. */
static void handler_talks(MPI_Comm *comm, int *code, ...)
{
    int sent = 5, got = 0, sum = 0;
    int next = (edge.rank + 1) % edge.size, before = (edge.rank + edge.size - 1) % edge.size;
    MPI_Status status;

    (void)comm, (void)code;
    handled++;
    MPI_Send(&sent, 1, MPI_INT, next, 3, other);
    MPI_Probe(before, 3, other, &status);
    MPI_Recv(&got, 1, MPI_INT, status.MPI_SOURCE, 3, other, MPI_STATUS_IGNORE);
    MPI_Allreduce(&got, &sum, 1, MPI_INT, MPI_SUM, other);
    edge_say("the handler received %d, summed %d", got, sum);
}

static void handler_sums(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    handled++;
    edge_say("sums inside of the handler: %s", edge_yes(edge_sums(other, 3, 100)));
}

static void use(MPI_Comm comm, MPI_Comm_errhandler_function *function)
{
    MPI_Errhandler handler;

    MPI_Comm_create_errhandler(function, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
}

static int to_nobody(MPI_Comm comm)
{
    int x = 0;

    return MPI_Send(&x, 1, MPI_INT, 4711, 0, comm);
}

/* Only rank 0 ends the job; the others must not be in the way of its words. */
static void wait_for_the_end(void)
{
    for (;;)
        pause();
}

/* ---- a handler that ends the job ---- */

static void abort_first(void)
{
    use(MPI_COMM_WORLD, handler_aborts);
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank == 0)
        to_nobody(MPI_COMM_WORLD);
    wait_for_the_end();
}

static void abort_after_sums(void)
{
    use(MPI_COMM_WORLD, handler_aborts);
    edge_say("sums: %s", edge_yes(edge_sums(MPI_COMM_WORLD, 4, 1)));
    edge_say("nonblocking: %s", edge_yes(edge_isum(MPI_COMM_WORLD, 7)));
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank == 0)
        to_nobody(MPI_COMM_WORLD);
    wait_for_the_end();
}

static void abort_while_pending(void)
{
    MPI_Request request;

    use(MPI_COMM_WORLD, handler_aborts);
    edge_say("sums: %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)));
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank == 0)
        MPI_Iallreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (edge.rank == 0)
        to_nobody(MPI_COMM_WORLD);
    wait_for_the_end();
}

static void abort_in_allreduce(void)
{
    use(MPI_COMM_WORLD, handler_aborts);
    edge_say("sums: %s", edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)));
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank == 0)
        MPI_Allreduce(edge.in, edge.in, edge.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    wait_for_the_end();
}

static void abort_in_iallreduce(void)
{
    MPI_Request request;

    use(MPI_COMM_WORLD, handler_aborts);
    edge_say("sums: %s", edge_yes(edge_isum(MPI_COMM_WORLD, 1)));
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank == 0)
        MPI_Iallreduce(edge.in, edge.in, edge.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    wait_for_the_end();
}

static void abort_in_wait(void)
{
    int big[4] = {0}, small;
    MPI_Request request;

    use(MPI_COMM_WORLD, handler_aborts);
    edge_say("sums: %s", edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)));
    edge_say("nonblocking: %s", edge_yes(edge_isum(MPI_COMM_WORLD, 5)));
    if (edge.rank == 0)
        MPI_Irecv(&small, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank == 1)
        MPI_Send(big, 4, MPI_INT, 0, 8, MPI_COMM_WORLD);
    if (edge.rank == 0)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    wait_for_the_end();
}

static void abort_by_own_call(void)
{
    use(MPI_COMM_WORLD, handler_aborts);
    edge_say("sums: %s", edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)));
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank == 0)
        MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER);
    wait_for_the_end();
}

static void abort_of_a_window(void)
{
    MPI_Errhandler handler;
    MPI_Win win;
    int *memory, x = 1;

    edge_say("sums: %s", edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)));
    edge_say("nonblocking: %s", edge_yes(edge_isum(MPI_COMM_WORLD, 5)));
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_create_errhandler(handler_aborts_window, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Win_fence(0, win);
    if (edge.rank == 0)
        MPI_Put(&x, 1, MPI_INT, 4711, 0, 1, MPI_INT, win);
    wait_for_the_end();
}

static void abort_of_a_file(void)
{
    MPI_Errhandler handler;
    MPI_File file;

    edge_say("sums: %s", edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)));
    MPI_File_create_errhandler(handler_aborts_file, &handler);
    MPI_File_set_errhandler(MPI_FILE_NULL, handler);
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank == 0)
        MPI_File_open(MPI_COMM_SELF, "/not/there", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    wait_for_the_end();
}

static void abort_by_default(void)
{
    edge_say("sums: %s", edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)));
    edge_say("nonblocking: %s", edge_yes(edge_isum(MPI_COMM_WORLD, 5)));
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank == 0)
        to_nobody(MPI_COMM_WORLD);
    wait_for_the_end();
}

static void abort_itself(void)
{
    MPI_Request request;

    edge_say("sums: %s", edge_yes(edge_sums(MPI_COMM_WORLD, 3, 1)));
    MPI_Barrier(MPI_COMM_WORLD);
    if (edge.rank == 0) {
        MPI_Iallreduce(edge.in, edge.out, edge.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Abort(MPI_COMM_WORLD, 42);
    }
    wait_for_the_end();
}

/* ---- a handler that calls MPI ---- */

static void errors_with(MPI_Comm_errhandler_function *function)
{
    MPI_Comm comm;
    MPI_Request request = MPI_REQUEST_NULL;
    int code;

    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    use(comm, function);
    for (int round = 0; round < 4; round++) {
        edge_say("a send to nobody: %s", edge_class(to_nobody(comm)));
        code = MPI_Allreduce(edge.in, edge.in, edge.count, MPI_FLOAT, MPI_SUM, comm);
        edge_say("an allreduce onto itself: %s", edge_class(code));
        code = MPI_Iallreduce(edge.in, edge.in, edge.count, MPI_FLOAT, MPI_SUM, comm, &request);
        edge_say("a nonblocking one: %s", edge_class(code));
        edge_say("sums: %s", edge_yes(edge_sums(comm, 2, 10)));
        edge_say("nonblocking: %s", edge_yes(edge_isum(comm, 20)));
        edge_say("sums: %s", edge_yes(edge_sum(other, 30)));
    }
    edge_say("handled %d errors", handled);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&other);
}

static void handler_that_talks(void)
{
    errors_with(handler_talks);
}

static void handler_that_sums(void)
{
    errors_with(handler_sums);
}

/* ---- generalized requests ---- */

static int greq_calls[3];

static int greq_query(void *extra, MPI_Status *status)
{
    greq_calls[0]++;
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 1);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int greq_free(void *extra)
{
    int x = 1, y = 0;

    (void)extra;
    greq_calls[1]++;
    MPI_Sendrecv(&x, 1, MPI_INT, 0, 1, &y, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    return MPI_SUCCESS;
}

static int greq_cancel(void *extra, int complete)
{
    int x = 6, y = 0;

    greq_calls[2]++;
    MPI_Sendrecv(&x, 1, MPI_INT, 0, 1, &y, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    edge_say("the cancel callback received %d, complete %d, summed %s", y, complete,
             edge_yes(edge_sum(MPI_COMM_WORLD, 200)));
    if (!complete)
        MPI_Grequest_complete(*(MPI_Request *)extra);
    return MPI_SUCCESS;
}

static void generalized_requests(void)
{
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0;

    edge_say("sums: %s", edge_yes(edge_sums(MPI_COMM_WORLD, 2, 1)));
    for (int round = 0; round < 3; round++) {
        MPI_Grequest_start(greq_query, greq_free, greq_cancel, &request, &request);
        edge_say("nonblocking: %s", edge_yes(edge_isum(MPI_COMM_WORLD, 5)));
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &cancelled);
        edge_say("cancelled %d, callbacks %d %d %d", cancelled, greq_calls[0], greq_calls[1],
                 greq_calls[2]);
    }
}

static const struct edge_case cases[] = {
    {"abort-first", EDGE_INIT, abort_first},
    {"abort-after-sums", EDGE_INIT, abort_after_sums},
    {"abort-pending", EDGE_INIT, abort_while_pending},
    {"abort-allreduce", EDGE_INIT, abort_in_allreduce},
    {"abort-iallreduce", EDGE_INIT, abort_in_iallreduce},
    {"abort-wait", EDGE_INIT, abort_in_wait},
    {"abort-own", EDGE_INIT, abort_by_own_call},
    {"abort-window", EDGE_INIT, abort_of_a_window},
    {"abort-file", EDGE_INIT, abort_of_a_file},
    {"abort-default", EDGE_INIT, abort_by_default},
    {"abort", EDGE_INIT, abort_itself},
    {"talks", EDGE_INIT, handler_that_talks},
    {"talks-funneled", MPI_THREAD_FUNNELED, handler_that_talks},
    {"sums", EDGE_INIT, handler_that_sums},
    {"greq", EDGE_INIT, generalized_requests},
};

EDGE_MAIN(cases)
