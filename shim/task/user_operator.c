/* Nonblocking reductions with an operator of the program. The MPI library runs the operator in any
 * thread that makes progress, so that no thread of the shim calls MPI from the post of such a
 * reduction to its end. */
#include <stdlib.h>

#include "shim/comm/progress.h"
#include "shim/mpi/real.h"
#include "shim/task/request.h"
#include "shim/task/task_impl.h"

/* Operators that the program has freed while a reduction was waiting; under the lock of the
 * requests. */
struct freed {
    struct freed *next;
    uintptr_t op;
};
static struct freed *freed;

static bool needs_thread(const struct shim_task *task)
{
    const enum shim_stage stage = shim_task_stage(task);

    return stage != SHIM_TASK_DONE && !(stage == SHIM_TASK_NATIVE && task->native.whole);
}

bool shim_user_is_next(const struct shim_task *task)
{
    const struct shim_task *before = task->comm->queue.first;

    while (before != task && !needs_thread(before))
        before = before->next;
    return before == task;
}

/* Ends the wait of a reduction. After the last one, frees the operators that the program has freed
 * meanwhile. */
static void stop_waiting(struct shim_task *task)
{
    struct freed *list = NULL, *next;

    if (task->user != SHIM_USER_WAITS)
        return;
    task->user = SHIM_USER_IDLE;
    pthread_mutex_lock(&shim.requests.lock);
    if (atomic_fetch_sub(&shim.callbacks.user_waiting, 1) == 1) {
        list = freed;
        freed = NULL;
    }
    pthread_mutex_unlock(&shim.requests.lock);
    for (; list; list = next) {
        next = list->next;
        shim.pmpi.op_free(&list->op);
        free(list);
    }
}

static void post(struct shim_task *task)
{
    shim_native_whole(task);
    stop_waiting(task);
    task->user = SHIM_USER_RUNS;
}

bool shim_user_try_post(struct shim_task *task)
{
    if (!shim_progress_try_stop())
        return false;
    post(task);
    return true;
}

void shim_user_post(struct shim_task *task)
{
    shim_progress_stop();
    post(task);
}

void shim_user_end(struct shim_task *task)
{
    stop_waiting(task); /* it has failed before its post */
    if (task->user == SHIM_USER_RUNS)
        shim_progress_resume();
    task->user = SHIM_USER_IDLE;
}

bool shim_user_is_at_once(struct shim_comm *comm)
{
    struct shim_queue *queue = &comm->queue;
    const struct shim_task *task;
    bool at_once;

    pthread_mutex_lock(&comm->lock);
    for (task = queue->first; task && !needs_thread(task); task = task->next)
        ;
    at_once = comm->state == SHIM_COMM_SERVED && !task;
    if (at_once) {
        shim_queue_native_from(queue, ++queue->calls);
        atomic_store(&queue->native_now, true);
    }
    pthread_mutex_unlock(&comm->lock);
    return at_once;
}

bool shim_user_queue(const struct shim_call *call, struct shim_comm *comm, void *request)
{
    struct shim_task *task = shim_request_start(call, comm, SS_F32, SS_SUM, request);

    if (!task)
        return false;
    task->user = SHIM_USER_WAITS;
    pthread_mutex_lock(&shim.requests.lock);
    atomic_fetch_add(&shim.callbacks.user_waiting, 1);
    pthread_mutex_unlock(&shim.requests.lock);
    shim_task_post(task);
    return true;
}

/* Makes an entry that is in no table: it exists for the queue, which the program's threads step. */
bool shim_user_adopt(const struct shim_call *call, void *request)
{
    struct shim_comm *c = shim_comm_allocate();
    struct shim_call posted = *call;
    struct shim_task *task;
    MPI_Request native = (MPI_Request)shim_abi_load(request);

    if (!c)
        return false;
    posted.counts = NULL; /* the MPI library has copied what it needs of these */
    posted.type = (uintptr_t)MPI_DATATYPE_NULL;
    c->handle = (MPI_Comm)call->comm;
    c->in_table.refs = 1;
    c->state = SHIM_COMM_PASSES;
    task = shim_request_start(&posted, c, SS_F32, SS_SUM, request);
    if (!task) {
        shim_comm_put(c);
        return false;
    }
    task->native.request = native;
    task->posted.environment = false; /* it needs none: threads of the shim stay out */
    task->native.whole = true;
    task->user = SHIM_USER_RUNS;
    shim_task_set_stage(task, SHIM_TASK_NATIVE);
    c->queue.first = c->queue.last = task;
    c->queue.listed = true;
    shim_list_add(SHIM_ACTIVE, c);
    return true;
}

int shim_user_op_free(shim_op_free_fn *next, void *op)
{
    struct freed *put_off = malloc(sizeof *put_off);

    if (!put_off) /* leaks the operator */
        return MPI_SUCCESS;
    pthread_mutex_lock(&shim.requests.lock);
    if (atomic_load(&shim.callbacks.user_waiting) > 0) {
        *put_off = (struct freed){freed, shim_abi_load(op)};
        freed = put_off;
        put_off = NULL;
        shim_abi_store(op, (uintptr_t)MPI_OP_NULL);
    }
    pthread_mutex_unlock(&shim.requests.lock);
    if (!put_off)
        return MPI_SUCCESS;
    free(put_off);
    return next(op);
}
