/* Decides which allreduces are eligible, and routes eligible calls of any kind by the state of
 * their communicator. */
#include <stdlib.h>

#include "core/base/fpenv.h"
#include "shim/comm/comm.h"
#include "shim/device/memory.h"
#include "shim/device/span.h"
#include "shim/entry/callbacks.h"
#include "shim/entry/calls.h"
#include "shim/entry/learn.h"
#include "shim/job/job.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"
#include "shim/task/staged_call.h"
#include "shim/task/task.h"

/* ---- on a communicator ---- */

static int run(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
               enum ss_op op, bool at_once)
{
    struct shim_task operation;
    int err;

    shim_task_init(&operation, call, comm, type, op, true);
    operation.at_once = at_once;
    shim_task_post(&operation);
    err = shim_task_run(&operation);
    shim_task_close(&operation);
    return err;
}

/* The buffers of a blocking call cannot be copied to the host: it fails on all ranks. */
static int run_unread(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                      enum ss_op op)
{
    struct shim_task operation;
    int err;

    shim_task_init(&operation, call, comm, type, op, true);
    call->staged->failed = false; /* the operation raises it */
    call->staged->copies = SHIM_COPIES_NONE;
    shim_task_fail_for_device(&operation);
    shim_task_post(&operation);
    err = shim_task_run(&operation);
    shim_task_close(&operation);
    return err;
}

/* Runs a call to its end, without memory for a task of its own, and gives the application a request
 * that is complete. */
static int run_at_once(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                       enum ss_op op, void *request)
{
    int err = shim_real.Ibarrier(MPI_COMM_SELF, request);

    pthread_mutex_lock(&comm->lock);
    comm->polled = true; /* as on ranks where it is nonblocking */
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
    struct shim_task *operation;

    if (!shim_staged_begin(s, call))
        return NULL;
    if (comm->state != SHIM_COMM_PASSES &&
        !atomic_load(&comm->natively)) /* else the MPI library's */
        shim_staged_backend(s, call, type);
    if (!s->backend)
        (void)shim_staged_make(s, &with);
    with.on_device = false;
    operation = shim_request_start(&with, comm, type, op, request);
    if (!operation) {
        shim_staged_free(s);
        return NULL;
    }
    operation->call.staged = s; /* owned by the operation from here on */
    if (s->failed)
        shim_task_fail_for_device(operation);
    else if (!s->backend)
        shim_staged_fetch(s, false);
    return operation;
}

static int serve_staged(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                        enum ss_op op, void *request)
{
    static const struct shim_staged no_memory = {.why = "no memory"};
    struct shim_staged *s = malloc(sizeof *s);
    struct shim_task *operation = s ? start_staged(call, s, comm, type, op, request) : NULL;
    int err;

    if (operation) {
        atomic_fetch_add(&shim.stats.nonblocking, 1);
        shim_task_post(operation);
        return MPI_SUCCESS;
    }
    shim_comm_put(comm);
    err = shim_staged_failed(call->comm, s && s->why[0] ? s : &no_memory);
    free(s);
    return err;
}

/* A blocking call. */
static int run_staged(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                      enum ss_op op)
{
    struct shim_call with = *call;

    shim_staged_backend(call->staged, call, type);
    if (call->staged->backend || shim_staged_fill(&with, false))
        return run(&with, comm, type, op, false);
    return run_unread(call, comm, type, op);
}

static int serve(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                 enum ss_op op, void *request)
{
    struct shim_task *operation;
    int err;

    if (call->on_device) {
        return serve_staged(call, comm, type, op, request);
    } else if (call->staged) {
        err = run_staged(call, comm, type, op);
    } else if (!request) {
        err = run(call, comm, type, op, false);
    } else if ((operation = shim_request_start(call, comm, type, op, request))) {
        atomic_fetch_add(&shim.stats.nonblocking, 1);
        shim_task_post(operation);
        return MPI_SUCCESS;
    } else {
        err = run_at_once(call, comm, type, op, request);
    }
    shim_comm_put(comm);
    return err;
}

/* Counts a call on its communicator that went to the MPI library without a task. */
static void count_native(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                         enum ss_reason reason, double begin)
{
    struct ss_fpenv_full saved;
    uint64_t number;

    pthread_mutex_lock(&comm->lock);
    number = ++comm->calls;
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

/* Handles a call on a communicator without an entry. Ranks that meet may wait for each other, which
 * only a blocking call may. */
static int first_contact(const struct shim_call *call, void *request)
{
    int err = shim_pass_for(call, request ? shim_unmet() : SS_WHY_FIRST, request);

    if (err != MPI_SUCCESS)
        return err;
    return request ? shim_comm_raise_settings(call->comm) : shim_comm_contact(call->comm);
}

/* Passes a call to the MPI library on the private communicator, after the calls taken over there,
 * because a rank has callbacks. */
static int pass_natively(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                         void *request)
{
    struct shim_call natively = *call;
    int err;

    natively.comm = (uintptr_t)comm->private;
    err = pass_counted(&natively, comm, type, SS_WHY_CALLBACKS, request);
    if (err != MPI_SUCCESS && !(call->staged && call->staged->failed))
        shim_real.Comm_call_errhandler(comm->handle, err);
    return err;
}

int shim_on_known(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                  enum ss_op op, void *request)
{
    int err;

    if (comm->state == SHIM_COMM_FAILED)
        err = shim_refuse(comm);
    else if (comm->state == SHIM_COMM_PASSES && !call->on_device)
        err = pass_counted(call, comm, type, SS_WHY_COMMUNICATOR, request);
    else if (request && comm->state == SHIM_COMM_SERVED && !comm->nonblocking)
        err = pass_counted(call, comm, type, SS_WHY_NONBLOCKING, request);
    else if (request && atomic_load(&comm->natively) && !call->on_device)
        err = pass_natively(call, comm, type, request);
    else
        return serve(call, comm, type, op, request);
    shim_comm_put(comm);
    return err;
}

static int on_comm(const struct shim_call *call, enum ss_type type, enum ss_op op, void *request)
{
    struct shim_comm *comm = shim_comm_met(call->comm);
    double begin;
    int err;

    if (comm)
        return shim_on_known(call, comm, type, op, request);
    begin = shim_now();
    err = first_contact(call, request);
    count_first(call, type, begin);
    return err;
}

/* ---- the allreduce ---- */

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

/* With MERGE, returns true if a call below MIN_COUNT joins larger calls: a nonblocking sum whose
 * count a rule of REGISTER names. Ranks whose rules differ have found that out at first contact. */
static bool joins(const struct shim_call *call, enum ss_type *type, enum ss_op *op)
{
    struct shim_comm *comm;
    bool joins;

    if (call->count < shim.least_named || !shim_takes_requests() ||
        !shim_operation_asked(call, type, op) || !ss_type_is_float(*type) ||
        !ss_rules_name(shim.settings.tensors.include, (uint64_t)call->count, *type) ||
        !shim_buffers(call, *type) || !(comm = shim_comm_met(call->comm)))
        return false;
    joins = comm->state == SHIM_COMM_SERVED && comm->same_settings;
    shim_comm_put(comm);
    return joins;
}

/* Records a small call, for a report that says which MIN_COUNT would have taken it. */
static void note_small(const struct shim_call *call, bool nonblocking)
{
    enum ss_type type;
    enum ss_op op;

    if (call->count > 0 && (!nonblocking || shim.takes_requests) &&
        shim_operation(call, &type, &op) && shim_buffers(call, type))
        *call->small =
            (struct shim_small){(uint64_t)call->count, (uint64_t)call->count * ss_type_size(type)};
}

static int route(const struct shim_call *call, void *request)
{
    enum ss_reason reason;
    enum ss_type type;
    enum ss_op op;
    bool eligible;

    shim_job_start_if_up();
    eligible = is_eligible(call, &type, &op, &reason);
    shim_callbacks_operator(call->op);
    if (!eligible && request && reason == SS_WHY_SMALL)
        eligible = joins(call, &type, &op);
    if (reason == SS_WHY_SMALL && !eligible && !request)
        shim_count_small(call->count, call->comm);
    if (shim_learns() && !eligible && !request && call->count <= SHIM_MARK_COUNT)
        shim_learn_mark(call);
    if (!eligible && reason == SS_WHY_SMALL && call->small)
        note_small(call, request != NULL);
    if (call->own)
        return shim_own_reduction(call, (int)reason, request);
    if (!eligible)
        return shim_pass_for(call, reason, request);
    if (shim_learns())
        return shim_learn(call, type, op, request);
    if (request && !shim_takes_requests())
        return shim_pass_for(call, SS_WHY_NONBLOCKING, request);
    if (shim.stats.timed)
        ss_stats_reduced(&shim.stats, (uint64_t)call->count * ss_type_size(type));
    if (atomic_load_explicit(&shim.dropped, memory_order_relaxed))
        shim_comm_sweep();
    return on_comm(call, type, op, request);
}

static int staged(const struct shim_call *call, void *request)
{
    (void)request;
    return shim_staged_call(route, call);
}

int shim_allreduce(const struct shim_call *call)
{
    if (!shim_prepare())
        return shim_pass(call);
    return shim_timed(shim_lies_on_device(call) ? staged : route, call, NULL);
}

/* Handles a nonblocking allreduce. A call without room for the request goes to the MPI library,
 * which reports it. */
int shim_iallreduce(const struct shim_call *call, void *request)
{
    struct shim_call placed = *call;

    if (!shim_prepare() || !request)
        return shim_ipass(call, request);
    placed.on_device = shim_lies_on_device(call);
    placed.own = shim_is_own_operator(call->op) ? SHIM_OWN_IALLREDUCE : SHIM_OWN_NONE;
    return shim_timed(route, &placed, request);
}
