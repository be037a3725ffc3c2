/* Counts calls, and times them if a report wants it. */
#include "shim/entry/calls.h"
#include "shim/job/job.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/real.h"
#include "shim/task/staged_call.h"
#include "shim/task/task.h"
#include "shim/task/task_words.h"

/* Counts the bytes of a call that passed without a lane. Called after the MPI library has accepted
 * the call, so that its handles are valid. Calls between two groups are not counted: a rank whose
 * root is MPI_PROC_NULL may pass no datatype. */
static void count_bytes(const struct shim_call *call)
{
    size_t size = shim_handle_size(call->type);
    int derived = 0, ranks = 1, inter = 0;

    if (call->kind != SS_KIND_ALLREDUCE &&
        (shim_real.Comm_test_inter((MPI_Comm)call->comm, &inter) != MPI_SUCCESS || inter))
        return;
    if (size == 0 && shim_real.Type_size((MPI_Datatype)call->type, &derived) == MPI_SUCCESS &&
        derived > 0)
        size = (size_t)derived;
    if (call->kind == SS_KIND_ALLREDUCE)
        atomic_fetch_add(&shim.stats.small_bytes, (uint64_t)call->count * size);
    else if (shim_real.Comm_size((MPI_Comm)call->comm, &ranks) == MPI_SUCCESS)
        atomic_fetch_add(&shim.stats.small_bytes, shim_bytes(call, ranks));
}

int shim_pass_for(const struct shim_call *call, enum ss_reason reason, void *request)
{
    struct shim_call passed = *call;
    int err;

    if (call->on_device)
        return shim_refuse_nonblocking(call);
    if (!shim_staged_fill(&passed, false))
        return MPI_ERR_OTHER; /* act.c raises it */
    if (call->made)
        err = MPI_SUCCESS;
    else
        err = request ? shim_ipass(&passed, request) : shim_pass(&passed);
    atomic_fetch_add(&shim.stats.passed[reason], 1);
    if (request)
        atomic_fetch_add(&shim.stats.not_timed, 1);
    if (err == MPI_SUCCESS) {
        shim_job_start(call->comm);
        if (shim.stats.timed)
            count_bytes(call);
        shim_book_synchronous(call);
    }
    return err;
}

double shim_timing_begin(struct shim_call *call, struct shim_small *small)
{
    atomic_fetch_add_explicit(&shim.stats.seen, 1, memory_order_relaxed);
    if (!shim.stats.timed)
        return 0;
    if (call->kind == SS_KIND_ALLREDUCE)
        atomic_fetch_add_explicit(&shim.stats.allreduces, 1, memory_order_relaxed);
    call->small = small;
    return shim_now();
}

void shim_timing_end(const struct shim_call *call, double begin, int err)
{
    const double end = shim_now();
    const struct shim_small *small = call->small;

    shim_stats_time(end - begin);
    if (small->count > 0 && err == MPI_SUCCESS && shim_comm_size_of(call->comm) > 1)
        ss_stats_small(&shim.stats, small->count, small->bytes, end - begin);
    shim_report_while_running(end);
}
