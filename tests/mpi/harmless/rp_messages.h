/* Random programs: messages, windows, generalized requests. */
#ifndef TESTS_MPI_RP_MESSAGES_H
#define TESTS_MPI_RP_MESSAGES_H

#include "tests/mpi/harmless/rp_comms.h"

enum rp_message { RP_SEND, RP_ISEND, RP_ISSEND, RP_SEND_INIT, RP_ISEND_FREED, RP_SENDS };
enum rp_receipt { RP_RECV, RP_IRECV, RP_PROBE, RP_MPROBE, RP_RECV_INIT, RP_RECEIPTS };

/* Small, since no rank knows when the data of a request that was freed at once have been sent. */
static const int rp_letter[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void rp_send(struct rp *p, MPI_Comm comm, int to, int n, enum rp_message how)
{
    MPI_Request request = MPI_REQUEST_NULL;
    struct rp_buffers b = {.in_bytes = (size_t)n * 4, .in = rp_alloc((size_t)n * 4)};

    for (int i = 0; i < n; i++)
        ((int *)b.in)[i] = (int)input_word(p->seed, p->step, (uint64_t)i);
    rp_note(p, "a message of %d to %d, way %d", n, to, (int)how);
    switch (how) {
    case RP_SEND:
        RP(Send, b.in, n, MPI_INT, to, p->step, comm);
        break;
    case RP_ISEND:
        RP(Isend, b.in, n, MPI_INT, to, p->step, comm, &request);
        break;
    case RP_ISSEND:
        RP(Issend, b.in, n, MPI_INT, to, p->step, comm, &request);
        break;
    case RP_SEND_INIT:
        RP(Send_init, b.in, n, MPI_INT, to, p->step, comm, &request);
        RP(Start, &request);
        break;
    default:
        RP(Isend, rp_letter, n % 8, MPI_INT, to, p->step, comm, &request);
        RP(Request_free, &request);
        break;
    }
    rp_keep_buffers(p, &b, "a send", how != RP_SEND && how != RP_ISEND_FREED, request,
                    how == RP_SEND_INIT);
}

static void rp_receive(struct rp *p, MPI_Comm comm, int from, int n, enum rp_receipt how)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Message message;
    MPI_Status status = rp_no_status();
    struct rp_buffers b = {.out_bytes = (size_t)n * 4, .out = rp_alloc((size_t)n * 4)};
    bool pending = how == RP_IRECV || how == RP_RECV_INIT;
    int count = -1;

    switch (how) {
    case RP_IRECV:
        RP(Irecv, b.out, n, MPI_INT, from, p->step, comm, &request);
        break;
    case RP_RECV_INIT:
        RP(Recv_init, b.out, n, MPI_INT, from, p->step, comm, &request);
        RP(Start, &request);
        break;
    case RP_PROBE:
        RP(Probe, MPI_ANY_SOURCE, p->step, comm, &status);
        RP(Recv, b.out, n, MPI_INT, from, p->step, comm, &status);
        break;
    case RP_MPROBE:
        RP(Mprobe, from, p->step, comm, &message, &status);
        RP(Mrecv, b.out, n, MPI_INT, &message, &status);
        break;
    default:
        RP(Recv, b.out, n, MPI_INT, rp_draw_own(p, 2) ? from : MPI_ANY_SOURCE, p->step, comm,
           &status);
        break;
    }
    if (!pending) {
        RP(Get_count, &status, MPI_INT, &count);
        rp_note(p, "got %d from %d with tag %d", count, status.MPI_SOURCE, status.MPI_TAG);
    }
    rp_keep_buffers(p, &b, "a receive", pending, request, how == RP_RECV_INIT);
    if (pending)
        p->pending[p->waiting - 1].message = true;
}

static void rp_act_message(struct rp *p)
{
    struct rp_slot *slot = rp_draw_intra(p);
    int n = 1 + rp_draw(p, rp_draw(p, 8) ? 1000 : 60000);
    enum rp_message how = (enum rp_message)rp_draw(p, RP_SENDS);
    enum rp_receipt receipt = (enum rp_receipt)rp_draw(p, RP_RECEIPTS);
    int from_drawn = rp_draw(p, 1000), to_drawn = rp_draw(p, 1000), from, to;

    if (slot->comm == MPI_COMM_NULL || slot->size < 2)
        return;
    from = from_drawn % slot->size;
    to = (from + 1 + to_drawn % (slot->size - 1)) % slot->size;
    if (slot->rank == from)
        rp_send(p, slot->comm, to, n, how);
    else if (slot->rank == to)
        rp_receive(p, slot->comm, from, n, receipt);
}

/* Sends around the ranks of a communicator. */
static void rp_act_sendrecv(struct rp *p)
{
    struct rp_slot *slot = rp_draw_intra(p);
    int n = 1 + rp_draw(p, 500), count = -1, up, down;
    struct rp_buffers b;
    MPI_Status status = rp_no_status();

    if (slot->comm == MPI_COMM_NULL)
        return;
    up = (slot->rank + 1) % slot->size;
    down = (slot->rank + slot->size - 1) % slot->size;
    b = rp_make_buffers((size_t)n * 4, (size_t)n * 4, false);
    rp_fill(p, b.in, &rp_elements[2], (size_t)n, RP_DENSE, slot->rank);
    RP(Sendrecv, b.in, n, MPI_INT, up, p->step, b.out, n, MPI_INT, down, p->step, slot->comm,
       &status);
    RP(Get_count, &status, MPI_INT, &count);
    rp_note(p, "Sendrecv got %d from %d", count, status.MPI_SOURCE);
    rp_keep_buffers(p, &b, "Sendrecv", false, MPI_REQUEST_NULL, false);
}

/* Cancels a receive without a message; a collective cannot be cancelled. */
static void rp_act_cancel(struct rp *p)
{
    struct rp_slot *slot = rp_draw_intra(p);
    struct rp_buffers b = {.out_bytes = 16, .out = rp_alloc(16)};
    MPI_Request request = MPI_REQUEST_NULL;
    int flag = 1;

    if (slot->comm == MPI_COMM_NULL) {
        free(b.out);
        return;
    }
    RP(Irecv, b.out, 4, MPI_INT, MPI_ANY_SOURCE, 20000 + p->step, slot->comm, &request);
    RP(Test, &request, &flag, MPI_STATUS_IGNORE);
    rp_note(p, "a receive without a message: flag %d", flag);
    RP(Request_get_status, request, &flag, MPI_STATUS_IGNORE);
    rp_note(p, "a receive without a message: status flag %d", flag);
    RP(Cancel, &request);
    rp_keep_buffers(p, &b, "a cancelled receive", true, request, false);
    p->pending[p->waiting - 1].message = true;
}

/* Does to a collective in flight what a program must not do. The error goes to the handler of the
 * world, or of self. */
static void rp_act_refused(struct rp *p)
{
    struct rp_slot *slot = rp_draw_intra(p);
    bool cancels = rp_draw(p, 2);
    struct rp_pending *last;
    int err;

    if (slot->comm == MPI_COMM_NULL || p->sessions)
        return;
    rp_reduce_on(p, slot, RP_IALLREDUCE);
    last = &p->pending[p->waiting - 1];
    if (rp_draw_own(p, 2) || last->request == MPI_REQUEST_NULL)
        return;
    err = cancels ? RP(Cancel, &last->request) : RP(Request_free, &last->request);
    rp_note(p, "%s of a collective: class %d", cancels ? "Cancel" : "Request_free", rp_class(err));
}

/* ---- windows ---- */

static void rp_win_handler(MPI_Win *win, int *code, ...)
{
    struct rp *p = rp_callback();

    (void)win;
    if (p)
        rp_note(p, "window handler: class %d in %s", rp_class(*code), rp_calling());
}

/* Runs an epoch, in which a rank may also make an error for its handler. */
static void rp_epoch(struct rp *p, struct rp_slot *slot, MPI_Win win, int *got)
{
    int value = slot->rank + 1, next = (slot->rank + 1) % slot->size;
    MPI_Errhandler handler;

    RP(Win_fence, 0, win);
    RP(Put, &value, 1, MPI_INT, next, 0, 1, MPI_INT, win);
    RP(Accumulate, &value, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, win);
    if (rp_draw(p, 2))
        rp_reduce_on(p, slot, RP_IALLREDUCE);
    RP(Win_fence, 0, win);
    RP(Get, got, 2, MPI_INT, next, 0, 2, MPI_INT, win);
    RP(Win_fence, 0, win);
    RP(Win_create_errhandler, rp_win_handler, &handler);
    RP(Win_set_errhandler, win, handler);
    RP(Errhandler_free, &handler);
    if (rp_draw_own(p, 2))
        RP(Put, &value, -1, MPI_INT, next, 0, 1, MPI_INT, win);
}

static void rp_act_window(struct rp *p)
{
    struct rp_slot *slot = rp_draw_intra(p);
    struct rp_buffers b;
    MPI_Win win;
    int got[2] = {-1, -1};

    if (slot->comm == MPI_COMM_NULL || slot->poisoned) /* a window duplicates the communicator */
        return;
    b = rp_make_buffers(0, 4 * sizeof(int), false);
    memset(b.out, 0, 4 * sizeof(int));
    if (RP(Win_create, b.out, 4 * sizeof(int), sizeof(int), MPI_INFO_NULL, slot->comm, &win) ==
        MPI_SUCCESS) {
        rp_epoch(p, slot, win, got);
        RP(Win_free, &win);
    }
    rp_note(p, "window: %d %d", got[0], got[1]);
    rp_keep_buffers(p, &b, "window", false, MPI_REQUEST_NULL, false);
}

/* ---- generalized requests ---- */

/* State owned by the request. */
struct rp_general {
    struct rp *program;
    int step, queries, cancels;
};

static int rp_general_query(void *state, MPI_Status *status)
{
    struct rp_general *g = state;

    rp_callback();
    g->queries++;
    MPI_Status_set_elements(status, MPI_BYTE, 40 + g->step);
    MPI_Status_set_cancelled(status, g->cancels > 0);
    status->MPI_SOURCE = 7;
    status->MPI_TAG = 9;
    return MPI_SUCCESS;
}

static int rp_general_free(void *state)
{
    struct rp_general *g = state;
    struct rp *p = rp_callback();

    if (p)
        rp_note_at(p, g->step, "a generalized request ends: queried %d, cancelled %d",
                   g->queries > 0, g->cancels);
    free(g);
    return MPI_SUCCESS;
}

static int rp_general_cancel(void *state, int complete)
{
    struct rp_general *g = state;

    rp_callback();
    g->cancels += complete ? 100 : 1;
    return MPI_SUCCESS;
}

/* Starts a request, or completes the first one. */
static void rp_act_general(struct rp *p)
{
    struct rp_general *g;
    struct rp_pending *kept;

    for (int i = 0; i < p->waiting; i++)
        if (p->pending[i].general && rp_draw_own(p, 3)) {
            RP(Grequest_complete, p->pending[i].request);
            p->pending[i].general = false;
            return;
        }
    g = input_alloc(sizeof *g);
    *g = (struct rp_general){.program = p, .step = p->step};
    kept = rp_keep(p, "a generalized request");
    kept->message = kept->general = true;
    RP(Grequest_start, rp_general_query, rp_general_free, rp_general_cancel, g, &kept->request);
    if (rp_draw_own(p, 4) == 0)
        RP(Cancel, &kept->request);
}

static void rp_end_general(struct rp *p)
{
    for (int i = 0; i < p->waiting; i++)
        if (p->pending[i].general) {
            RP(Grequest_complete, p->pending[i].request);
            p->pending[i].general = false;
        }
}

#endif
