/* Runs a blocking call in its caller, which waits here and makes the MPI library's call itself. */
#include <sched.h>

#include "shim/comm/progress.h"
#include "shim/mpi/real.h"
#include "shim/task/task_impl.h"

/* Steps without a result after which the caller yields the processor: on a host with more ranks
 * than cores, another rank may have to send the message. */
enum { IDLE_STEPS = 128 };

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

int shim_task_run(struct shim_task *task)
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
