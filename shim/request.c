#define _GNU_SOURCE 1
/* Requests of nonblocking calls: MPICH's extended generalized requests, which every completion call
 * polls (MPIX_Grequest_start; seen in MPICH 4.0.2: MPI_Wait calls poll_fn in a loop, MPI_Waitall
 * wait_fn, both without a lock of the library's). */
#include <sched.h>
#include <stdlib.h>

#include "shim/job.h"
#include "shim/op.h"
#include "shim/progress.h"
#include "shim/real.h"

enum { IDLE_POLLS = 32 };

enum shim_completion { PENDING, COMPLETING, FREED };

static void release(struct shim_op *op)
{
    if (atomic_fetch_sub(&op->holders, 1) > 1)
        return;
    pthread_mutex_lock(&shim.requests_lock);
    *op->before = op->after;
    if (op->after)
        op->after->before = op->before;
    atomic_fetch_sub(&shim.request_count, 1);
    pthread_mutex_unlock(&shim.requests_lock);
    shim_comm_put_later(op->comm); /* MPICH calls on_free with its lock held */
    shim_op_close(op);
    free(op);
}

static void enter(struct shim_op *op)
{
    pthread_mutex_lock(&shim.requests_lock);
    op->after = shim.requests;
    op->before = &shim.requests;
    if (op->after)
        op->after->before = &op->after;
    shim.requests = op;
    atomic_fetch_add(&shim.request_count, 1);
    pthread_mutex_unlock(&shim.requests_lock);
}

/* With requests_lock held. */
static struct shim_op *find(uintptr_t request)
{
    struct shim_op *op;

    for (op = shim.requests; op && (op->let_go || op->request != (MPI_Request)request);
         op = op->after)
        ;
    return op;
}

bool shim_request_is_ours(uintptr_t request)
{
    bool is;

    if (!atomic_load_explicit(&shim.request_count, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&shim.requests_lock);
    is = find(request) != NULL;
    pthread_mutex_unlock(&shim.requests_lock);
    return is;
}

/* Where the application has freed the request (possible in mpi_f08 only), it is gone. */
static void complete(struct shim_op *op)
{
    int pending = PENDING;

    if (atomic_compare_exchange_strong(&op->completion, &pending, COMPLETING))
        shim_real.Grequest_complete(op->request);
    atomic_store(&op->completed, true);
}

/* An error is left to the application's own poll: its handler is to run in its own thread, and not
 * under MPI's lock, as it does where MPI itself asks for the status (on_query). */
void shim_request_deliver(struct shim_op *finished)
{
    while (finished) {
        struct shim_op *op = finished;

        finished = op->next;
        shim_layout_let_go(op);
        if (op->status < 0 || op->err != MPI_SUCCESS)
            atomic_store(&op->failed, true);
        else {
            complete(op);
            release(op);
        }
    }
}

/* The handler may not return: it comes last. The request, which is being polled, holds the
 * operation meanwhile. */
static void raise_failed(struct shim_op *op)
{
    if (atomic_exchange(&op->failed, false)) {
        complete(op);
        atomic_fetch_sub(&op->holders, 1);
        shim_op_code(op);
    }
}

/* As the status of a request of the MPI library's own collectives: no message is behind it. */
static int on_query(void *state, MPI_Status *status)
{
    shim_real.Status_set_elements(status, MPI_BYTE, 0);
    shim_real.Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return shim_op_code(state);
}

static int on_free(void *state)
{
    struct shim_op *op = state;
    int pending = PENDING;

    pthread_mutex_lock(&shim.requests_lock); /* another request may get the handle now */
    op->let_go = true;
    pthread_mutex_unlock(&shim.requests_lock);
    atomic_compare_exchange_strong(&op->completion, &pending, FREED);
    if (atomic_exchange(&op->failed, false))
        atomic_fetch_sub(&op->holders, 1); /* nobody polls it any more */
    release(op);
    return MPI_SUCCESS;
}

/* A collective cannot be cancelled. */
static int on_cancel(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_ERR_REQUEST;
}

static void turn(struct shim_op *op)
{
    double begin = shim.stats.timed ? shim_now() : 0;

    if (!shim_progress() && ++op->polls % IDLE_POLLS == 0)
        sched_yield();
    if (shim.stats.timed)
        shim_stats_time(shim_now() - begin);
}

/* The status is that of the call that polls: MPI fills it. */
static int on_poll(void *state, MPI_Status *status)
{
    struct shim_op *op = state;

    (void)status;
    if (!atomic_load(&op->completed))
        turn(op);
    raise_failed(op);
    return MPI_SUCCESS;
}

static int on_wait(int count, void **states, double timeout, MPI_Status *status)
{
    (void)timeout, (void)status;
    for (int i = 0; i < count; i++) {
        struct shim_op *op = states[i];

        while (!atomic_load(&op->completed)) {
            turn(op);
            raise_failed(op);
        }
    }
    return MPI_SUCCESS;
}

struct shim_op *shim_request_start(const struct shim_call *call, struct shim_comm *comm,
                                   enum ss_type type, enum ss_op sum, MPI_Request *request)
{
    struct shim_op *op = malloc(sizeof *op);

    if (!op)
        return NULL;
    if (!shim_op_init(op, call, comm, type, sum, false) ||
        shim_real_grequest_start(on_query, on_free, on_cancel, on_poll, on_wait, op,
                                 &op->request) != MPI_SUCCESS) {
        shim_layout_let_go(op);
        shim_op_close(op);
        free(op);
        return NULL;
    }
    atomic_store(&op->holders, 2);
    enter(op);
    *request = op->request;
    return op;
}

int shim_request_get_status(shim_request_get_status_fn *next, uintptr_t request, int *flag,
                            void *status)
{
    struct shim_op *op = NULL;

    if (!shim_progress_idle())
        shim_progress(); /* the library's own does not poll */
    if (atomic_load_explicit(&shim.request_count, memory_order_relaxed)) {
        pthread_mutex_lock(&shim.requests_lock);
        op = find(request);
        pthread_mutex_unlock(&shim.requests_lock);
    }
    if (op)
        raise_failed(op);
    return next(request, flag, status);
}

/* Neither can be done to a collective under way. What the library says of it, and to which handler,
 * it says of one of its own. */
static int native_objection(bool cancel)
{
    MPI_Request request;
    int err = shim_real.Ibarrier(MPI_COMM_SELF, &request);

    if (err != MPI_SUCCESS)
        return err;
    err = cancel ? shim_real.Cancel(&request) : shim_real.Request_free(&request);
    if (request != MPI_REQUEST_NULL)
        shim_real.Wait(&request, MPI_STATUS_IGNORE);
    return err;
}

int shim_request_call(shim_request_fn *next, void *request, bool cancel)
{
    int err;

    if (!request || atomic_load(&shim.phase) != SHIM_READY ||
        !shim_request_is_ours((uintptr_t) * (MPI_Request *)request))
        return next(request);
    err = native_objection(cancel);
    /* MPICH 5 frees the request of a collective under way, which then runs to its end unseen. */
    return err == MPI_SUCCESS && !cancel ? next(request) : err;
}
