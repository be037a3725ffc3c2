/* Handles calls that are not below MIN_COUNT: asks for the verdict on a call and acts on it by one
 * switch. Timing, and copies of buffers in device memory, stand around that. */
#include "core/base/fpenv.h"
#include "shim/device/span.h"
#include "shim/entry/calls.h"
#include "shim/entry/learn.h"
#include "shim/entry/route.h"
#include "shim/job/job.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"
#include "shim/task/staged_call.h"
#include "shim/task/task.h"

/* ---- what passes ---- */

/* Counts a call on its communicator that went to the MPI library without a task. */
static void count_native(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                         enum ss_reason reason, double begin)
{
    struct ss_fpenv_full saved;
    uint64_t number;

    pthread_mutex_lock(&comm->lock);
    number = ++comm->queue.calls;
    pthread_mutex_unlock(&comm->lock);
    if (shim.options.debug < CFG_DEBUG_TRACE)
        return;
    ss_fpenv_enter_full(&saved);
    shim_say(CFG_DEBUG_TRACE,
             "communicator \"%s\", call %llu: %lld %s, native: %s, density not looked at, %.3f ms",
             comm->name, (unsigned long long)number, (long long)call->count, ss_type_name(type),
             ss_reason_name(reason), 1e3 * (shim_now() - begin));
    ss_fpenv_leave_full(&saved);
}

static int pass_counted(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                        enum ss_reason reason, void *request)
{
    double begin = shim_now();
    int err = shim_pass_for(call, reason, request);

    if (call->staged && call->staged->failed) {
        pthread_mutex_lock(&comm->lock);
        shim_native_fail_comm(comm);
        pthread_mutex_unlock(&comm->lock);
    }
    count_native(call, comm, type, reason, begin);
    return err;
}

static void count_first(const struct shim_call *call, enum ss_type type, double begin)
{
    struct shim_comm *comm = shim_comm_get(call->comm);

    if (!comm)
        return;
    count_native(call, comm, type, SS_WHY_FIRST, begin);
    shim_comm_put(comm);
}

/* ---- first exchange ---- */

/* Counts a gather or reduce_scatter that could not have been served as what it is. */
static bool is_too_late(const struct shim_call *call)
{
    enum ss_reason reason = SS_WHY_COMMUNICATOR;
    enum ss_type type;
    enum ss_op op;
    const int size = shim_comm_size_of(call->comm);

    if (size > 0 && shim_slices_are_eligible(call, size, &type, &op, &reason))
        return false;
    atomic_fetch_sub(&shim.stats.passed[SS_WHY_FIRST], 1);
    atomic_fetch_add(&shim.stats.passed[reason], 1);
    return true;
}

/* Handles a call on a communicator whose ranks have not agreed: the MPI library's. Then they make
 * it, if the call is blocking: they may wait for each other. The size of a communicator, which
 * decides whether slices are eligible, can be asked for after the MPI library has accepted the
 * call. */
static int make_first_exchange(const struct shim_call *call, enum ss_type type, void *request)
{
    const double begin = shim_now();
    int err = shim_pass_for(call, request ? shim_before_blocking() : SS_WHY_FIRST, request);

    if (err != MPI_SUCCESS)
        return err;
    if (request)
        return shim_comm_raise_settings(call->comm);
    if (call->kind == SS_KIND_ALLREDUCE) {
        err = shim_comm_first_exchange(call->comm);
        count_first(call, type, begin);
        return err;
    }
    return !shim_comm_exists(call->comm) || is_too_late(call)
               ? err
               : shim_comm_first_exchange(call->comm);
}

/* ---- the switch ---- */

/* Passes a call to the MPI library on the private communicator, after the calls taken over there,
 * because a rank has callbacks. */
static int pass_after(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                      void *request)
{
    struct shim_call there = *call;
    int err;

    there.comm = (uintptr_t)comm->private;
    err = pass_counted(&there, comm, type, SS_WHY_CALLBACKS, request);
    if (err != MPI_SUCCESS && !(call->staged && call->staged->failed))
        shim_real.Comm_call_errhandler(comm->handle, err);
    return err;
}

static int act(const struct shim_call *call, const struct shim_verdict *v, void *request)
{
    int err = MPI_SUCCESS;

    switch (v->act) {
    case SHIM_ACT_USER_OPERATOR:
        return shim_user_reduction(call, (int)v->reason, request);
    case SHIM_ACT_RECORD:
        return shim_learn(call, v->type, v->op, request);
    case SHIM_ACT_FIRST_EXCHANGE:
        return make_first_exchange(call, v->type, request);
    case SHIM_ACT_SERVE: /* the call in progress holds the reference */
        return shim_serve(call, v->comm, v->type, v->op, request);
    case SHIM_ACT_PASS:
        err = shim_pass_for(call, v->reason, request);
        break;
    case SHIM_ACT_PASS_THERE:
        err = pass_counted(call, v->comm, v->type, v->reason, request);
        break;
    case SHIM_ACT_PASS_AFTER:
        err = pass_after(call, v->comm, v->type, request);
        break;
    case SHIM_ACT_REFUSE:
        err = shim_refuse(v->comm);
        break;
    }
    if (v->comm)
        shim_comm_put(v->comm);
    return err;
}

static int route_and_act(const struct shim_call *call, void *request)
{
    const struct shim_verdict v = call->kind == SS_KIND_ALLREDUCE
                                      ? shim_route_allreduce(call, request)
                                      : shim_route_slices(call, request);

    return act(call, &v, request);
}

/* ---- from the entry points ---- */

/* Runs a blocking call with a buffer in device memory, with copies on the host. Whoever needs
 * copies makes and fills them: shim_pass_for, and the operation of a call that is served. The error
 * handler of the program may not return: it comes last. */
static int enter_staged(const struct shim_call *call)
{
    struct shim_call with = *call;
    struct shim_staged s;
    int err;

    shim_job_start_if_up();
    if (!shim_staged_begin(&s, call))
        return route_and_act(call, NULL);
    with.staged = &s;
    err = route_and_act(&with, NULL);
    if (!s.failed && err == MPI_SUCCESS && s.copies == SHIM_COPIES_FILLED) {
        shim_staged_store(&s, call);
        s.failed = !shim_staged_finish(&s);
    }
    shim_staged_free(&s);
    if (s.failed)
        return shim_staged_failed(call->comm, &s);
    if (err == MPI_SUCCESS)
        shim_staged_learn(&s);
    return err;
}

static int enter(const struct shim_call *call, void *request)
{
    const bool device = shim_lies_on_device(call);
    struct shim_call timed = *call;
    struct shim_small small = {0, 0};
    const double begin = shim_timing_begin(&timed, &small);
    int err;

    timed.on_device = device && request;
    err = device && !request ? enter_staged(&timed) : route_and_act(&timed, request);
    if (shim.stats.timed)
        shim_timing_end(&timed, begin, err);
    return err;
}

int shim_allreduce(const struct shim_call *call)
{
    return shim_prepare() ? enter(call, NULL) : shim_pass(call);
}

/* A call without room for the request goes to the MPI library, which reports it. */
int shim_iallreduce(const struct shim_call *call, void *request)
{
    struct shim_call known = *call;

    if (!shim_prepare() || !request)
        return shim_ipass(call, request);
    known.user = shim_is_user_operator(call->op) ? SHIM_USER_IALLREDUCE : SHIM_USER_NONE;
    return enter(&known, request);
}

int shim_collective(const struct shim_call *call)
{
    if (shim_prepare())
        return enter(call, NULL);
    return call->made ? MPI_SUCCESS : shim_pass(call);
}

/* As shim_iallreduce. */
int shim_icollective(const struct shim_call *call, void *request)
{
    if (shim_prepare() && request)
        return enter(call, request);
    return call->made ? MPI_SUCCESS : shim_ipass(call, request);
}
