/* Decides what becomes of an allreduce, and of an eligible call of any kind by the state of its
 * communicator. */
#include "shim/entry/route.h"

#include "shim/entry/callbacks.h"
#include "shim/entry/calls.h"
#include "shim/entry/learn.h"
#include "shim/job/job.h"
#include "shim/mpi/handles.h"
#include "shim/task/task.h"

struct shim_verdict shim_route_on(const struct shim_call *call, struct shim_comm *comm,
                                  enum ss_type type, enum ss_op op, const void *request)
{
    struct shim_verdict v = {.act = SHIM_ACT_SERVE, .comm = comm, .type = type, .op = op};

    if (comm->state == SHIM_COMM_FAILED) {
        v.act = SHIM_ACT_REFUSE;
    } else if (comm->state == SHIM_COMM_PASSES && !call->on_device) {
        v.act = SHIM_ACT_PASS_THERE;
        v.reason = SS_WHY_COMMUNICATOR;
    } else if (request && comm->state == SHIM_COMM_SERVED &&
               !comm->first.agreed[SHIM_EXCHANGE_NONBLOCKING]) {
        v.act = SHIM_ACT_PASS_THERE;
        v.reason = SS_WHY_NONBLOCKING;
    } else if (request && atomic_load(&comm->queue.native_now) && !call->on_device) {
        v.act = SHIM_ACT_PASS_AFTER;
    }
    return v;
}

/* Returns true if a call is eligible, by properties that are equal on all ranks. The communicator
 * is looked at later. */
static bool is_eligible(const struct shim_call *call, enum ss_type *type, enum ss_op *op,
                        enum ss_reason *reason)
{
    *reason = SS_WHY_SMALL;
    if (call->count < shim.min_count)
        return false;
    *reason = SS_WHY_TYPE;
    if (!shim_operation_asked(call, type, op))
        return false;
    *reason = SS_WHY_BUFFER;
    return shim_buffers(call, *type);
}

/* With MERGE, returns true if a call below MIN_COUNT is merged with larger ones: a nonblocking sum
 * whose count a rule of REGISTER names. Ranks whose rules differ have found that out in the first
 * exchange. */
static bool is_merged(const struct shim_call *call, enum ss_type *type, enum ss_op *op)
{
    struct shim_comm *comm;
    bool same;

    if (call->count < shim.least_named || !shim_takes_requests() ||
        !shim_operation_asked(call, type, op) || !ss_type_is_float(*type) ||
        !ss_rules_name(shim.settings.tensors.include, (uint64_t)call->count, *type) ||
        !shim_buffers(call, *type) || !(comm = shim_comm_agreed(call->comm)))
        return false;
    same = comm->state == SHIM_COMM_SERVED && comm->first.same_settings;
    shim_comm_put(comm);
    return same;
}

/* Records a small call, for a report that says which MIN_COUNT would have taken it. */
static void note_small(const struct shim_call *call, bool nonblocking)
{
    enum ss_type type;
    enum ss_op op;

    if (call->count > 0 && (!nonblocking || shim.requests.taken) &&
        shim_operation(call, &type, &op) && shim_buffers(call, type))
        *call->small =
            (struct shim_small){(uint64_t)call->count, (uint64_t)call->count * ss_type_size(type)};
}

/* Records a call that is not eligible: for MODE=learn, and for a report on calls below MIN_COUNT.
 */
static void note_ineligible(const struct shim_call *call, enum ss_reason reason,
                            const void *request)
{
    if (shim_learns() && !request && call->count <= SHIM_LEARN_SCALARS)
        shim_learn_scalar(call);
    if (reason == SS_WHY_SMALL && call->small)
        note_small(call, request != NULL);
}

struct shim_verdict shim_route_allreduce(const struct shim_call *call, const void *request)
{
    struct shim_verdict v = {.act = SHIM_ACT_FIRST_EXCHANGE};
    bool eligible;

    shim_job_start_if_up();
    eligible = is_eligible(call, &v.type, &v.op, &v.reason);
    shim_callbacks_operator(call->op);
    if (!eligible && request && v.reason == SS_WHY_SMALL)
        eligible = is_merged(call, &v.type, &v.op);
    if (!eligible)
        note_ineligible(call, v.reason, request);
    if (call->user)
        return (struct shim_verdict){.act = SHIM_ACT_USER_OPERATOR, .reason = v.reason};
    if (!eligible)
        return shim_pass_because(v.reason);
    if (shim_learns()) {
        v.act = SHIM_ACT_RECORD;
        return v;
    }
    if (request && !shim_takes_requests())
        return shim_pass_because(SS_WHY_NONBLOCKING);
    if (shim.stats.timed)
        ss_stats_reduced(&shim.stats, (uint64_t)call->count * ss_type_size(v.type));
    if (atomic_load_explicit(&shim.table.dropped, memory_order_relaxed))
        shim_comm_sweep();
    v.comm = shim_comm_agreed(call->comm);
    return v.comm ? shim_route_on(call, v.comm, v.type, v.op, request) : v;
}
