/* Requests of nonblocking calls: MPICH's extended generalized requests, which every completion call
 * polls (MPIX_Grequest_start; in MPICH 4.0.2, MPI_Wait calls poll_fn in a loop and MPI_Waitall
 * calls wait_fn, both without a lock of the library). Where there are none, as in Open MPI, plain
 * generalized requests, which shim/entry/completion.c polls. */
#include "shim/task/request.h"

#include <sched.h>
#include <stdlib.h>

#include "shim/comm/progress.h"
#include "shim/mpi/real.h"
#include "shim/task/staged_call.h"
#include "shim/task/task.h"

enum { IDLE_POLLS = 32 };

enum shim_completion {
    PENDING,
    COMPLETING,
    COMPLETED, /* MPI knows that it is complete, or that nobody waits for it */
    FREED
};

static void release(struct shim_task *task)
{
    struct shim_request *r = &task->request;

    if (atomic_fetch_sub(&r->holders, 1) > 1)
        return;
    pthread_mutex_lock(&shim.requests.lock);
    *r->before = r->after;
    if (r->after)
        r->after->request.before = r->before;
    atomic_fetch_sub(&shim.requests.count, 1);
    pthread_mutex_unlock(&shim.requests.lock);
    shim_comm_put_later(task->comm); /* MPICH calls on_free with its lock held */
    shim_task_close(task);
    free(task);
}

static void enter(struct shim_task *task)
{
    struct shim_request *r = &task->request;

    pthread_mutex_lock(&shim.requests.lock);
    r->after = shim.requests.list;
    r->before = &shim.requests.list;
    if (r->after)
        r->after->request.before = &r->after;
    shim.requests.list = task;
    atomic_fetch_add(&shim.requests.count, 1);
    pthread_mutex_unlock(&shim.requests.lock);
}

/* Finds the task of a request. Called under the lock of the requests. */
static struct shim_task *find(uintptr_t request)
{
    struct shim_task *task;

    for (task = shim.requests.list;
         task && (task->request.let_go || task->request.handle != (MPI_Request)request);
         task = task->request.after)
        ;
    return task;
}

bool shim_request_is_ours(uintptr_t request)
{
    bool is;

    if (!atomic_load_explicit(&shim.requests.count, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&shim.requests.lock);
    is = find(request) != NULL;
    pthread_mutex_unlock(&shim.requests.lock);
    return is;
}

static bool is_completed(const struct shim_task *task)
{
    return atomic_load(&task->request.completion) == COMPLETED;
}

/* Completes the request, unless the application has freed it (possible in mpi_f08 only). */
static void complete(struct shim_task *task)
{
    int pending = PENDING;

    if (atomic_compare_exchange_strong(&task->request.completion, &pending, COMPLETING))
        shim_real.Grequest_complete(task->request.handle);
    atomic_store(&task->request.completion, COMPLETED);
}

/* Completes finished tasks. A task with an error is left to the application's own poll: its handler
 * must run in the application's thread, and not under MPI's lock, as it would if MPICH asked for
 * the status (on_query). Open MPI asks in the application's thread without a lock. */
void shim_request_deliver(struct shim_task *finished)
{
    while (finished) {
        struct shim_task *task = finished;

        finished = task->next;
        if (task->posted.environment)
            shim_progress_round_as_before();
        shim_layout_let_go(&task->content);
        if (task->call.staged)
            shim_staged_free(task->call.staged);
        if (shim_real_grequest_start && (task->status < 0 || task->err != MPI_SUCCESS))
            atomic_store(&task->request.failed, true);
        else {
            complete(task);
            release(task);
        }
    }
}

/* Raises the error of a task at last, since the handler may not return. Meanwhile the request,
 * which is being polled, holds the task. */
static void raise_failed(struct shim_task *task)
{
    if (atomic_exchange(&task->request.failed, false)) {
        complete(task);
        atomic_fetch_sub(&task->request.holders, 1);
        shim_task_code(task);
    }
}

/* This thread's innermost call of the MPI library that completes requests. */
static _Thread_local struct shim_ended completion;

struct shim_ended shim_request_begin_end(void)
{
    const struct shim_ended outer = completion;

    completion = (struct shim_ended){.inside = true, .code = MPI_SUCCESS};
    return outer;
}

int shim_request_end_end(struct shim_ended outer, int err)
{
    const int code = completion.code;

    completion = outer;
    return err == MPI_SUCCESS ? code : err;
}

/* Returns what the MPI library hears of the code of a task. Open MPI would raise it on
 * MPI_COMM_WORLD: the caller of the library returns it instead. */
static int code_for_library(int code)
{
    if (!completion.inside || code == MPI_SUCCESS)
        return code;
    completion.code = code;
    return MPI_SUCCESS;
}

/* Fills in the status of the MPI library's own collectives: no message is behind it. */
static int on_query(void *state, MPI_Status *status)
{
    shim_real.Status_set_elements(status, MPI_BYTE, 0);
    shim_real.Status_set_cancelled(status, 0);
    shim_abi_no_message(status, MPI_UNDEFINED);
    shim_task_raise(state);
    return code_for_library(shim_task_code(state));
}

static int on_free(void *state)
{
    struct shim_task *task = state;
    int pending = PENDING;

    pthread_mutex_lock(&shim.requests.lock); /* another request may get the handle now */
    task->request.let_go = true;
    pthread_mutex_unlock(&shim.requests.lock);
    atomic_compare_exchange_strong(&task->request.completion, &pending, FREED);
    if (atomic_exchange(&task->request.failed, false))
        atomic_fetch_sub(&task->request.holders, 1); /* nothing polls it any more */
    release(task);
    return MPI_SUCCESS;
}

/* Refuses: a collective cannot be cancelled. */
static int on_cancel(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_ERR_REQUEST;
}

/* MERGE: makes the call wait for no other call from now on. */
static void await(struct shim_task *task)
{
    if (shim.settings.merge > 0)
        atomic_store(&task->request.waited_for, true);
}

static void poll_task(struct shim_task *task)
{
    double begin = shim.stats.timed ? shim_now() : 0;

    await(task);
    if (!shim_progress() && ++task->request.polls % IDLE_POLLS == 0)
        sched_yield();
    if (shim.stats.timed)
        shim_stats_time(shim_now() - begin);
}

/* Polls. MPI fills in the status, which belongs to the polling call. */
static int on_poll(void *state, MPI_Status *status)
{
    struct shim_task *task = state;

    (void)status;
    if (!is_completed(task))
        poll_task(task);
    raise_failed(task);
    return MPI_SUCCESS;
}

static int on_wait(int count, void **states, double timeout, MPI_Status *status)
{
    (void)timeout, (void)status;
    for (int i = 0; i < count; i++)
        await(states[i]);
    for (int i = 0; i < count; i++) {
        struct shim_task *task = states[i];

        while (!is_completed(task)) {
            poll_task(task);
            raise_failed(task);
        }
    }
    return MPI_SUCCESS;
}

bool shim_request_poll(const void *request)
{
    struct shim_task *task;

    pthread_mutex_lock(&shim.requests.lock);
    task = find(shim_abi_load(request));
    pthread_mutex_unlock(&shim.requests.lock);
    if (!task || is_completed(task))
        return false;
    poll_task(task);
    return true;
}

static int start_request(struct shim_task *task)
{
    if (shim_real_grequest_start)
        return shim_real_grequest_start(on_query, on_free, on_cancel, on_poll, on_wait, task,
                                        &task->request.handle);
    return shim_real.Grequest_start(on_query, on_free, on_cancel, task, &task->request.handle);
}

struct shim_task *shim_request_start(const struct shim_call *call, struct shim_comm *comm,
                                     enum ss_type type, enum ss_op sum, void *request)
{
    struct shim_task *task = malloc(sizeof *task);

    if (!task)
        return NULL;
    if (!shim_task_init(task, call, comm, type, sum, false) || start_request(task) != MPI_SUCCESS) {
        shim_layout_let_go(&task->content);
        shim_task_close(task);
        free(task);
        return NULL;
    }
    atomic_store(&task->request.holders, 2);
    enter(task);
    shim_abi_store(request, (uintptr_t)task->request.handle);
    return task;
}

int shim_request_get_status(shim_request_get_status_fn *next, uintptr_t request, int *flag,
                            void *status)
{
    struct shim_task *task = NULL;

    if (atomic_load_explicit(&shim.requests.count, memory_order_relaxed)) {
        pthread_mutex_lock(&shim.requests.lock);
        task = find(shim_abi_word(request));
        if (task)
            await(task);
        pthread_mutex_unlock(&shim.requests.lock);
    }
    if (!shim_progress_idle())
        shim_progress(); /* the library's own function does not poll */
    if (task)
        raise_failed(task);
    return next(request, flag, status);
}

/* Returns the MPI library's own refusal: neither cancelling nor freeing works on an active
 * collective. An own collective provides the code, and its handler hears of it. */
static int native_objection(bool cancel)
{
    MPI_Request request = 0;
    int err;

    if (shim_abi.kind == SHIM_ABI_OPEN_MPI) { /* where a barrier of one rank has ended at once */
        shim_real.Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_REQUEST);
        return MPI_ERR_REQUEST;
    }
    err = shim_real.Ibarrier(MPI_COMM_SELF, &request);
    if (err != MPI_SUCCESS)
        return err;
    err = cancel ? shim_real.Cancel(&request) : shim_real.Request_free(&request);
    if (request != MPI_REQUEST_NULL)
        shim_real.Wait(&request, MPI_STATUS_IGNORE);
    return err;
}

int shim_request_call(shim_cancel_fn *next, void *request, bool cancel)
{
    int err;

    if (!request || atomic_load(&shim.process.phase) != SHIM_READY ||
        !shim_request_is_ours(shim_abi_load(request)))
        return next(request);
    err = native_objection(cancel);
    /* MPICH 5 frees the request of an active collective, which then runs to its end unseen. */
    return err == MPI_SUCCESS && !cancel ? next(request) : err;
}
