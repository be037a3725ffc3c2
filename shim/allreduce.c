#define _GNU_SOURCE 1
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "shim/comm.h"
#include "shim/handles.h"
#include "shim/job.h"
#include "shim/log.h"
#include "shim/op.h"
#include "shim/real.h"

int shim_pass(const struct shim_call *call)
{
    if (call->large)
        return shim.next.allreduce_c(call->send, call->recv, call->count, call->type, call->op,
                                     call->comm);
    return shim.next.allreduce(call->send, call->recv, (int)call->count, call->type, call->op,
                               call->comm);
}

/* Bytes of a call that passed without a lane. Only asked after the MPI library accepted the call:
 * the handles are valid. */
static void count_bytes(const struct shim_call *call)
{
    size_t size = shim_handle_size(call->type);
    int derived = 0;

    if (size == 0 && shim_real.Type_size((MPI_Datatype)call->type, &derived) == MPI_SUCCESS &&
        derived > 0)
        size = (size_t)derived;
    atomic_fetch_add(&shim.stats.small_bytes, (uint64_t)call->count * size);
}

static int pass_for(const struct shim_call *call, enum ss_reason reason)
{
    int err = shim_pass(call);

    atomic_fetch_add(&shim.stats.passed[reason], 1);
    if (err == MPI_SUCCESS) {
        shim_job_start(call->comm);
        if (shim.stats.timed)
            count_bytes(call);
    }
    return err;
}

/* Blocking, on a communicator whose reference goes over to the operation. */
static int serve(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                 enum ss_op op)
{
    struct shim_op operation;

    shim_op_init(&operation, call, comm, type, op, true);
    shim_op_post(&operation);
    return shim_op_run(&operation);
}

static void trace_first(const struct shim_call *call, enum ss_type type)
{
    if (shim.options.debug >= CFG_DEBUG_TRACE)
        shim_say(CFG_DEBUG_TRACE, "%lld %s, native: %s", (long long)call->count, ss_type_name(type),
                 ss_reason_name(SS_WHY_FIRST));
}

static int first_contact(const struct shim_call *call)
{
    int err = pass_for(call, SS_WHY_FIRST);

    return err == MPI_SUCCESS ? shim_comm_contact(call->comm) : err;
}

static int on_comm(const struct shim_call *call, enum ss_type type, enum ss_op op)
{
    struct shim_comm *comm = shim_comm_get(call->comm);
    int err;

    if (!comm) {
        err = first_contact(call);
        trace_first(call, type);
        return err;
    }
    switch (comm->state) {
    case SHIM_COMM_FAILED:
        err = shim_refuse(comm, false);
        break;
    case SHIM_COMM_PASSES:
        err = pass_for(call, SS_WHY_COMMUNICATOR);
        break;
    default:
        err = serve(call, comm, type, op);
    }
    shim_comm_put(comm);
    return err;
}

/* Settled by what is equal on all ranks, before the communicator is looked at. */
static bool is_eligible(const struct shim_call *call, enum ss_type *type, enum ss_op *op,
                        enum ss_reason *reason)
{
    *reason = SS_WHY_SMALL;
    if (call->count < shim.min_count)
        return false;
    *reason = SS_WHY_TYPE;
    if (!shim_operation(call, type, op))
        return false;
    *reason = SS_WHY_BUFFER;
    return shim_buffers(call, *type);
}

static void note(const struct shim_call *call, enum ss_type type)
{
    if (shim.stats.timed)
        ss_stats_reduced(&shim.stats, (uint64_t)call->count * ss_type_size(type));
    if (atomic_load_explicit(&shim.leavings, memory_order_relaxed))
        shim_comm_sweep();
}

static int route(const struct shim_call *call)
{
    enum ss_reason reason;
    enum ss_type type;
    enum ss_op op;

    if (!is_eligible(call, &type, &op, &reason))
        return pass_for(call, reason);
    note(call, type);
    return on_comm(call, type, op);
}

/* ---- nonblocking ---- */

int shim_ipass(const struct shim_call *call, void *request)
{
    if (call->large)
        return shim.next.iallreduce_c(call->send, call->recv, call->count, call->type, call->op,
                                      call->comm, request);
    return shim.next.iallreduce(call->send, call->recv, (int)call->count, call->type, call->op,
                                call->comm, request);
}

static int ipass_for(const struct shim_call *call, enum ss_reason reason, void *request)
{
    int err = shim_ipass(call, request);

    atomic_fetch_add(&shim.stats.passed[reason], 1);
    if (err == MPI_SUCCESS) {
        shim_job_start(call->comm);
        if (shim.stats.timed)
            count_bytes(call);
    }
    return err;
}

/* No memory for an operation of its own: it runs to its end here, and the application gets a
 * request that is done. */
static int serve_at_once(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                         enum ss_op op, MPI_Request *request)
{
    int err = shim_real.Ibarrier(MPI_COMM_SELF, request);

    return err == MPI_SUCCESS ? serve(call, comm, type, op) : err;
}

/* Takes over the reference. */
static int iserve(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                  enum ss_op op, MPI_Request *request)
{
    struct shim_op *operation = shim_request_start(call, comm, type, op, request);
    int err;

    if (!operation) {
        err = serve_at_once(call, comm, type, op, request);
        shim_comm_put(comm);
        return err;
    }
    atomic_fetch_add(&shim.stats.nonblocking, 1);
    shim_op_post(operation);
    return MPI_SUCCESS;
}

static int on_comm_nonblocking(const struct shim_call *call, enum ss_type type, enum ss_op op,
                               void *request)
{
    struct shim_comm *comm = shim_comm_get(call->comm);
    int err;

    if (!comm) {
        err = ipass_for(call, SS_WHY_FIRST, request);
        return err == MPI_SUCCESS ? shim_comm_contact_nonblocking(call->comm) : err;
    }
    switch (comm->state) {
    case SHIM_COMM_FAILED:
        err = shim_refuse(comm, false);
        break;
    case SHIM_COMM_PASSES:
        err = ipass_for(call, SS_WHY_COMMUNICATOR, request);
        break;
    case SHIM_COMM_SERVED:
        if (!comm->nonblocking) {
            err = ipass_for(call, SS_WHY_NONBLOCKING, request);
            break;
        } /* fall through */
    default:
        return iserve(call, comm, type, op, request);
    }
    shim_comm_put(comm);
    return err;
}

static int iroute(const struct shim_call *call, void *request)
{
    enum ss_reason reason;
    enum ss_type type;
    enum ss_op op;

    if (!is_eligible(call, &type, &op, &reason))
        return ipass_for(call, reason, request);
    if (!shim.takes_requests || !request)
        return ipass_for(call, SS_WHY_NONBLOCKING, request);
    note(call, type);
    return on_comm_nonblocking(call, type, op, request);
}

int shim_iallreduce(const struct shim_call *call, void *request)
{
    double begin;
    int err;

    if (!shim_prepare())
        return shim_ipass(call, request);
    atomic_fetch_add_explicit(&shim.stats.seen, 1, memory_order_relaxed);
    if (!shim.stats.timed)
        return iroute(call, request);
    begin = shim_now();
    err = iroute(call, request);
    shim_stats_time(shim_now() - begin);
    return err;
}

int shim_allreduce(const struct shim_call *call)
{
    double begin;
    int err;

    if (!shim_prepare())
        return shim_pass(call);
    atomic_fetch_add_explicit(&shim.stats.seen, 1, memory_order_relaxed);
    if (!shim.stats.timed)
        return route(call);
    begin = shim_now();
    err = route(call);
    shim_stats_time(shim_now() - begin);
    return err;
}

void shim_persistent(int err)
{
    if (atomic_load(&shim.phase) != SHIM_READY || err != MPI_SUCCESS)
        return;
    atomic_fetch_add_explicit(&shim.stats.seen, 1, memory_order_relaxed);
    atomic_fetch_add(&shim.stats.passed[SS_WHY_PERSISTENT], 1);
}
