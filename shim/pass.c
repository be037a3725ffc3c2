/* Calls handed on to the next function, in all their forms. */
#include "shim/handles.h"
#include "shim/job.h"
#include "shim/op.h"
#include "shim/real.h"

static int allgather(const struct shim_call *c)
{
    if (c->large)
        return shim.next.allgather_c(c->send, c->send_count, c->send_type, c->recv, c->count,
                                     c->type, c->comm);
    return shim.next.allgather(c->send, (int)c->send_count, c->send_type, c->recv, (int)c->count,
                               c->type, c->comm);
}

static int allgatherv(const struct shim_call *c)
{
    if (c->large)
        return shim.next.allgatherv_c(c->send, c->send_count, c->send_type, c->recv, c->counts,
                                      c->displs, c->type, c->comm);
    return shim.next.allgatherv(c->send, (int)c->send_count, c->send_type, c->recv, c->counts,
                                c->displs, c->type, c->comm);
}

static int reduce_scatter(const struct shim_call *c)
{
    if (c->large)
        return shim.next.reduce_scatter_c(c->send, c->recv, c->count, c->type, c->op, c->comm);
    return shim.next.reduce_scatter(c->send, c->recv, (int)c->count, c->type, c->op, c->comm);
}

static int reduce(const struct shim_call *c)
{
    if (c->large)
        return shim.next.reduce_c(c->send, c->recv, c->count, c->type, c->op, c->root, c->comm);
    return shim.next.reduce(c->send, c->recv, (int)c->count, c->type, c->op, c->root, c->comm);
}

int shim_pass(const struct shim_call *c)
{
    switch (c->kind) {
    case SS_KIND_ALLGATHER:
        return c->counts ? allgatherv(c) : allgather(c);
    case SS_KIND_REDUCE_SCATTER:
        return reduce_scatter(c);
    case SS_KIND_REDUCE:
        return reduce(c);
    default:
        break;
    }
    if (c->large)
        return shim.next.allreduce_c(c->send, c->recv, c->count, c->type, c->op, c->comm);
    return shim.next.allreduce(c->send, c->recv, (int)c->count, c->type, c->op, c->comm);
}

static int iallgather(const struct shim_call *c, void *request)
{
    if (c->large)
        return shim.next.iallgather_c(c->send, c->send_count, c->send_type, c->recv, c->count,
                                      c->type, c->comm, request);
    return shim.next.iallgather(c->send, (int)c->send_count, c->send_type, c->recv, (int)c->count,
                                c->type, c->comm, request);
}

static int iallgatherv(const struct shim_call *c, void *request)
{
    if (c->large)
        return shim.next.iallgatherv_c(c->send, c->send_count, c->send_type, c->recv, c->counts,
                                       c->displs, c->type, c->comm, request);
    return shim.next.iallgatherv(c->send, (int)c->send_count, c->send_type, c->recv, c->counts,
                                 c->displs, c->type, c->comm, request);
}

/* Reduce_scatter and reduce are intercepted in their blocking forms only. */
int shim_ipass(const struct shim_call *c, void *request)
{
    if (c->kind == SS_KIND_ALLGATHER)
        return c->counts ? iallgatherv(c, request) : iallgather(c, request);
    if (c->large)
        return shim.next.iallreduce_c(c->send, c->recv, c->count, c->type, c->op, c->comm, request);
    return shim.next.iallreduce(c->send, c->recv, (int)c->count, c->type, c->op, c->comm, request);
}

/* Bytes of a call that passed without a lane. Only asked after the MPI library accepted the call:
 * the handles are valid. */
static void count_bytes(const struct shim_call *call)
{
    size_t size = shim_handle_size(call->type);
    int derived = 0, ranks = 1, inter = 1;

    if (size == 0 && shim_real.Type_size((MPI_Datatype)call->type, &derived) == MPI_SUCCESS &&
        derived > 0)
        size = (size_t)derived;
    if (call->kind == SS_KIND_ALLREDUCE)
        atomic_fetch_add(&shim.stats.small_bytes, (uint64_t)call->count * size);
    else if (shim_real.Comm_test_inter((MPI_Comm)call->comm, &inter) == MPI_SUCCESS && !inter &&
             shim_real.Comm_size((MPI_Comm)call->comm, &ranks) == MPI_SUCCESS)
        atomic_fetch_add(&shim.stats.small_bytes, shim_bytes(call, ranks));
}

int shim_pass_for(const struct shim_call *call, enum ss_reason reason, void *request)
{
    int err = request ? shim_ipass(call, request) : shim_pass(call);

    atomic_fetch_add(&shim.stats.passed[reason], 1);
    if (request)
        atomic_fetch_add(&shim.stats.not_timed, 1);
    if (err == MPI_SUCCESS) {
        shim_job_start(call->comm);
        if (shim.stats.timed)
            count_bytes(call);
    }
    return err;
}

void shim_stats_time(double seconds)
{
    pthread_mutex_lock(&shim.stats.lock);
    shim.stats.allreduce_seconds += seconds;
    pthread_mutex_unlock(&shim.stats.lock);
}

int shim_timed(shim_route_fn *route, const struct shim_call *call, void *request)
{
    struct shim_small small = {0, 0};
    struct shim_call timed = *call;
    double begin, end;
    int err;

    atomic_fetch_add_explicit(&shim.stats.seen, 1, memory_order_relaxed);
    if (!shim.stats.timed)
        return route(call, request);
    if (call->kind == SS_KIND_ALLREDUCE)
        atomic_fetch_add_explicit(&shim.stats.allreduces, 1, memory_order_relaxed);
    timed.small = &small;
    begin = shim_now();
    err = route(&timed, request);
    end = shim_now();
    shim_stats_time(end - begin);
    if (small.count > 0)
        ss_stats_small(&shim.stats, small.count, small.bytes, end - begin);
    shim_report_while_running(end);
    return err;
}
