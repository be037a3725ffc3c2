/* Passes nonblocking reductions with an operator of the program to the MPI library. */
#include "shim/comm/progress.h"
#include "shim/entry/callbacks.h"
#include "shim/entry/calls.h"
#include "shim/job/job.h"
#include "shim/mpi/errors.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/real.h"
#include "shim/task/request.h"
#include "shim/task/task.h"

static int post(const struct shim_call *call, int reason, void *request)
{
    if (reason == SHIM_NOT_COUNTED)
        return shim_ipass(call, request);
    return shim_pass_for(call, (enum ss_reason)reason, request);
}

/* Posts a reduction here, with threads of the shim stopped until it has ended. A single rank has
 * nothing to reduce: its operator never runs. */
static int post_stopped(const struct shim_call *call, int reason, void *request)
{
    int err;

    shim_progress_stop();
    err = post(call, reason, request);
    if (err != MPI_SUCCESS || shim_comm_size_of(call->comm) == 1)
        shim_progress_resume();
    else
        (void)shim_user_adopt(call, request); /* without memory they stay stopped */
    return err;
}

static int post_privately(const struct shim_call *call, const struct shim_comm *comm, int reason,
                          void *request)
{
    struct shim_call privately = *call;
    int err;

    privately.comm = (uintptr_t)comm->private;
    err = post_stopped(&privately, reason, request);
    if (err != MPI_SUCCESS)
        shim_real.Comm_call_errhandler(comm->handle, err);
    return err;
}

static int queue(const struct shim_call *call, struct shim_comm *comm, int reason, void *request)
{
    if (!shim_user_queue(call, comm, request)) {
        shim_comm_put(comm);
        return shim_raise((MPI_Comm)call->comm, SS_ERR_MEMORY,
                          "out of memory in a nonblocking reduction with an operator of the "
                          "program's");
    }
    if (reason != SHIM_NOT_COUNTED) {
        atomic_fetch_add(&shim.stats.passed[reason], 1);
        atomic_fetch_add(&shim.stats.not_timed, 1);
    }
    return MPI_SUCCESS;
}

int shim_user_reduction(const struct shim_call *call, int reason, void *request)
{
    struct shim_comm *comm;
    int err;

    shim_callbacks_operator(call->op);
    if (!request || call->on_device || !shim_threads_may_come())
        return post(call, reason, request);
    shim_job_start_if_up();       /* requests.taken is known after this */
    if (!shim_takes_requests()) { /* there may be partial calls */
        shim_progress_keep_out();
        return post(call, reason, request);
    }
    if (atomic_load_explicit(&shim.table.dropped, memory_order_relaxed))
        shim_comm_sweep();
    comm = shim_comm_get(call->comm);
    if (!comm || comm->state != SHIM_COMM_SERVED || !comm->first.agreed[SHIM_EXCHANGE_NONBLOCKING])
        err = post_stopped(call, reason, request);
    else if (shim_user_is_at_once(comm))
        err = post_privately(call, comm, reason, request);
    else
        return queue(call, comm, reason, request);
    if (comm)
        shim_comm_put(comm);
    return err;
}

/* Stops the threads at the start of any persistent request, which does not show its operator. */
void shim_user_start(void)
{
    if (shim_prepare() && shim_real_persistent && shim_threads_may_come())
        shim_progress_keep_out();
}

int shim_op_free(shim_op_free_fn *next, void *op)
{
    if (op && atomic_load(&shim.callbacks.user_waiting) > 0 &&
        shim_is_user_operator(shim_abi_load(op)))
        return shim_user_op_free(next, op);
    return next(op);
}
