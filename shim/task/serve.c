/* Serves calls: makes a task of each, and runs a blocking one to its end in its caller, who waits
 * here and makes the MPI library's call. */
#include <sched.h>
#include <stdlib.h>

#include "shim/comm/progress.h"
#include "shim/mpi/real.h"
#include "shim/task/staged_call.h"
#include "shim/task/task_impl.h"

/* Steps without a result after which the caller yields the processor: on a host with more ranks
 * than cores, another rank may have to send the message. */
enum { IDLE_STEPS = 128 };

/* ---- the MPI library's call of a blocking task, by its caller ---- */

/* Takes the task, which lies on the caller's stack, out of the queue while the MPI library's call
 * runs: an error handler of the application may jump out of the call, or make calls itself. Returns
 * the number of core calls started until then. */
static uint64_t leave_queue(struct shim_task *task)
{
    struct shim_comm *comm = task->comm;
    struct shim_queue *queue = &comm->queue;
    uint64_t started;

    pthread_mutex_lock(&comm->lock);
    queue->first = task->next;
    if (!queue->first)
        queue->last = NULL;
    started = queue->started;
    pthread_mutex_unlock(&comm->lock);
    return started;
}

/* Ends the window, unless core has started another call since `started`, and puts the task in front
 * of the waiting ones for its next window. Called under the lock. */
static void come_back(struct shim_task *task, uint64_t started, double spent)
{
    struct shim_queue *queue = &task->comm->queue;

    shim_task_set_stage(task, SHIM_TASK_CORE);
    if (task->core && queue->started == started)
        shim_task_end_window(task, SS_NATIVE, spent);
    else
        shim_task_set_stage(task, SHIM_TASK_DONE);
    if (shim_task_stage(task) == SHIM_TASK_DONE)
        return;
    task->next = queue->first;
    queue->first = task;
    if (!queue->last)
        queue->last = task;
}

static void run_native(struct shim_task *task)
{
    double spent = -1; /* until the call has succeeded */
    struct shim_left left = {.finished = NULL};
    const uint64_t started = leave_queue(task);
    const bool filled = shim_native_fill(task);

    if (!filled) {
        task->err = MPI_ERR_OTHER; /* act.c raises it */
    } else if (!task->core) {      /* the communicator passes */
        task->err = shim_pass(&task->call);
    } else if (shim_comm_assemble(task->comm) == SS_OK) {
        shim_native_make_room(task);
        double begin = shim_now();

        task->err = shim_native_window(task);
        if (task->err == MPI_SUCCESS)
            spent = shim_now() - begin;
    }
    pthread_mutex_lock(&task->comm->lock);
    come_back(task, started, spent);
    if (!filled)
        shim_native_fail_comm(task->comm);
    shim_task_step(task->comm, &left);
    pthread_mutex_unlock(&task->comm->lock);
    shim_task_leave(&left);
}

/* ---- a blocking call, to its end ---- */

/* Makes one round for the caller of a blocking call. Other communicators are stepped only if they
 * have calls in progress, and less often, since their own threads step them too. */
static void wait_once(struct shim_task *task, unsigned round)
{
    struct shim_left left = {.finished = NULL};

    if (pthread_mutex_trylock(&task->comm->lock) == 0) {
        shim_task_step(task->comm, &left);
        pthread_mutex_unlock(&task->comm->lock);
        shim_task_leave(&left);
    }
    if (round % 4 == 0 && !shim_progress_idle())
        shim_progress();
    if (round % IDLE_STEPS == 0)
        sched_yield();
}

/* Steps a task until it is done. Returns the MPI code; an error of this library has been raised. */
static int run_to_end(struct shim_task *task)
{
    enum shim_stage stage;

    for (unsigned round = 1; (stage = shim_task_stage(task)) != SHIM_TASK_DONE; round++) {
        if (stage == SHIM_TASK_YOURS)
            run_native(task);
        else
            wait_once(task, round);
    }
    /* The thread that finished it has then taken it out of the queue. */
    pthread_mutex_lock(&task->comm->lock);
    pthread_mutex_unlock(&task->comm->lock);
    if (task->posted.environment)
        shim_progress_round_as_before();
    shim_task_raise(task);
    return shim_task_code(task);
}

/* Runs a blocking call. If its buffers could not be copied to the host, it fails on all ranks. */
static int run(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
               enum ss_op op, bool at_once)
{
    struct shim_staged *s = call->staged;
    struct shim_task task;
    int err;

    shim_task_init(&task, call, comm, type, op, true);
    task.at_once = at_once;
    if (s && s->failed) {
        s->failed = false; /* the task raises it */
        s->copies = SHIM_COPIES_NONE;
        shim_task_fail_for_device(&task);
    }
    shim_task_post(&task);
    err = run_to_end(&task);
    shim_task_close(&task);
    return err;
}

static int run_staged(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                      enum ss_op op)
{
    struct shim_call with = *call;

    shim_staged_backend(call->staged, call, type);
    if (!call->staged->backend)
        (void)shim_staged_fill(&with, false);
    return run(&with, comm, type, op, false);
}

/* ---- a nonblocking call ---- */

/* Runs a call to its end, without memory for a task of its own, and gives the application a request
 * that is complete. */
static int run_at_once(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                       enum ss_op op, void *request)
{
    int err = shim_real.Ibarrier(MPI_COMM_SELF, request);

    pthread_mutex_lock(&comm->lock);
    comm->queue.polled = true; /* as on ranks where it is nonblocking */
    pthread_mutex_unlock(&comm->lock);
    return err == MPI_SUCCESS ? run(call, comm, type, op, true) : err;
}

/* Starts a nonblocking call where its buffers lie, or with copies that are under way when this
 * returns. NULL: no memory. */
static struct shim_task *start_staged(const struct shim_call *call, struct shim_staged *s,
                                      struct shim_comm *comm, enum ss_type type, enum ss_op op,
                                      void *request)
{
    struct shim_call with = *call;
    struct shim_task *task;

    if (!shim_staged_begin(s, call))
        return NULL;
    if (comm->state != SHIM_COMM_PASSES &&
        !atomic_load(&comm->queue.native_now)) /* else the MPI library's */
        shim_staged_backend(s, call, type);
    if (!s->backend)
        (void)shim_staged_make(s, &with);
    with.on_device = false;
    task = shim_request_start(&with, comm, type, op, request);
    if (!task) {
        shim_staged_free(s);
        return NULL;
    }
    task->call.staged = s; /* owned by the task from here on */
    if (s->failed)
        shim_task_fail_for_device(task);
    else if (!s->backend)
        shim_staged_fetch(s, false);
    return task;
}

static int serve_staged(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                        enum ss_op op, void *request)
{
    static const struct shim_staged no_memory = {.why = "no memory"};
    struct shim_staged *s = malloc(sizeof *s);
    struct shim_task *task = s ? start_staged(call, s, comm, type, op, request) : NULL;
    int err;

    if (task) {
        atomic_fetch_add(&shim.stats.nonblocking, 1);
        shim_task_post(task);
        return MPI_SUCCESS;
    }
    shim_comm_put(comm);
    err = shim_staged_failed(call->comm, s && s->why[0] ? s : &no_memory);
    free(s);
    return err;
}

/* ---- a call of either form ---- */

int shim_serve(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
               enum ss_op op, void *request)
{
    struct shim_task *task;
    int err;

    if (call->on_device) {
        return serve_staged(call, comm, type, op, request);
    } else if (call->staged) {
        err = run_staged(call, comm, type, op);
    } else if (!request) {
        err = run(call, comm, type, op, false);
    } else if ((task = shim_request_start(call, comm, type, op, request))) {
        atomic_fetch_add(&shim.stats.nonblocking, 1);
        shim_task_post(task);
        return MPI_SUCCESS;
    } else {
        err = run_at_once(call, comm, type, op, request);
    }
    shim_comm_put(comm);
    return err;
}
