#define _GNU_SOURCE 1
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "shim/comm.h"
#include "shim/handles.h"
#include "shim/job.h"
#include "shim/log.h"
#include "shim/real.h"

/* Steps without a result after which the processor is offered to others: on a host with more ranks
 * than cores the message waited for may be theirs to send. */
enum { IDLE_STEPS = 128 };

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

/* One window in the MPI library: the original arguments where the call is one window. */
/* joined: the input stands in the receive buffer already. */
static int native_window(const struct shim_call *call, size_t esize, uint64_t first, uint64_t n,
                         bool joined)
{
    struct shim_call part = *call;

    if (joined)
        part.send = MPI_IN_PLACE;
    if (first == 0 && n == (uint64_t)call->count)
        return shim_pass(&part);
    if (!shim_in_place(&part))
        part.send = (const char *)call->send + first * esize;
    part.recv = (char *)call->recv + first * esize;
    part.count = (int64_t)n;
    part.large = false; /* a window fits an int */
    return shim_pass(&part);
}

static int fail(const struct shim_call *call, const struct ss_call *c, int status, bool first)
{
    char text[400];

    ss_call_explain(c, text, sizeof text);
    if (first)
        shim_say(CFG_DEBUG_WARN, "%s", text);
    return shim_raise((MPI_Comm)call->comm, status, text);
}

/* Errors that did not come from core: a wait in here ran out, in this call or an earlier one. */
static int refuse(const struct shim_comm *comm, bool first)
{
    char text[200];

    snprintf(
        text, sizeof text,
        "rank %d: %s waiting for the other ranks of communicator \"%s\" (SPARSESHIM_TIMEOUT=%g s)",
        comm->rank, ss_status_text(comm->status), comm->name, shim.settings.timeout);
    if (first)
        shim_say(CFG_DEBUG_WARN, "%s", text);
    atomic_fetch_add(&shim.stats.errors, 1);
    return shim_raise(comm->handle, comm->status, text);
}

static void tell_mismatch(const struct shim_comm *comm)
{
    char differing[400];

    if (comm->rank != 0 || atomic_exchange(&shim.mismatch_told, true))
        return;
    shim_comm_differing(comm, differing, sizeof differing);
    shim_say(CFG_DEBUG_WARN,
             "communicator \"%s\" of %d ranks: %s must be equal on all ranks and is not; its calls "
             "pass through",
             comm->name, comm->size, differing);
}

/* What all ranks have found is told by the first. */
static void tell_warning(struct shim_comm *comm)
{
    char text[400];

    if (shim.settings.topk && ss_comm_warning(comm->core, text, sizeof text) && comm->rank == 0)
        shim_say(CFG_DEBUG_WARN, "%s", text);
}

/* In calls whose number is a power of two, so that it costs nothing. */
static void tell_refusals(struct shim_comm *comm)
{
    if (comm->calls >= 16 && (comm->calls & (comm->calls - 1)) == 0)
        shim_tell_refusals(comm->core);
}

/* How a call went, for the trace. */
struct outcome {
    const char *ran; /* an algorithm or "native" */
    const char *why; /* what made it so, "" for nothing */
    double density;  /* -1: not looked at */
};

static void trace(const struct shim_call *call, const struct shim_comm *comm, enum ss_type type,
                  const struct outcome *o, double seconds)
{
    char density[32] = "density not looked at";

    if (o->density >= 0)
        snprintf(density, sizeof density, "density %.4g", o->density);
    shim_say(CFG_DEBUG_TRACE, "communicator \"%s\", call %llu: %lld %s, %s%s%s, %s, %.3f ms",
             comm->name, (unsigned long long)comm->calls, (long long)call->count,
             ss_type_name(type), o->ran, *o->why ? ": " : "", o->why, density, 1e3 * seconds);
}

static struct outcome outcome_of(const struct ss_call *c, int status)
{
    if (status < 0)
        return (struct outcome){"failed", ss_status_text(status), -1};
    if (status == SS_NATIVE)
        return (struct outcome){"native", ss_reason_name(ss_call_reason(c)), ss_call_density(c)};
    return (struct outcome){ss_algorithm_name(ss_call_algorithm(c)), "", ss_call_density(c)};
}

static int run_window(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                      enum ss_op op, uint64_t first, uint64_t n, struct outcome *outcome)
{
    struct ss_call *c = ss_comm_call(comm->core);
    size_t esize = ss_type_size(type);
    const void *in = shim_in_place(call) ? NULL : (const char *)call->send + first * esize;
    void *out = (char *)call->recv + first * esize;
    double begin, spent = 0;
    int err = MPI_SUCCESS, assembled = SS_OK;
    struct shim_place place; /* texts of the site, until the call has started */
    struct ss_call_site site;
    int status;

    if (shim.settings.topk) {
        shim_site_find(call->site, &place, &site);
        ss_comm_set_site(comm->core, &site);
    }
    status = ss_call_start(c, comm->core, type, op, in, out, n, (unsigned)(first / SS_WINDOW));
    for (unsigned turn = 1; status == SS_PENDING; turn++) {
        status = ss_call_step(c);
        if (turn % IDLE_STEPS == 0)
            sched_yield();
    }
    if (status == SS_NATIVE)
        spent = -1; /* until it has succeeded */
    if (status == SS_NATIVE)
        assembled = shim_comm_assemble(comm);
    if (status == SS_NATIVE && assembled == SS_OK) {
        begin = shim_now();
        err = native_window(call, esize, first, n, ss_call_joined(c));
        spent = err == MPI_SUCCESS ? shim_now() - begin : -1;
    }
    ss_call_end(c, spent);
    tell_warning(comm);
    *outcome = outcome_of(c, assembled < 0 ? assembled : status);
    if (status == SS_NATIVE && ss_call_reason(c) == SS_WHY_SETTINGS)
        tell_mismatch(comm);
    if (status < 0)
        return fail(call, c, status, true);
    if (assembled < 0)
        return refuse(comm, true);
    return err;
}

static int serve(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                 enum ss_op op, struct outcome *outcome)
{
    uint64_t count = (uint64_t)call->count;
    int err = MPI_SUCCESS;

    if (ss_comm_status(comm->core) < 0) { /* what ended that call still stands in it */
        atomic_fetch_add(&shim.stats.errors, 1);
        return fail(call, ss_comm_call(comm->core), ss_comm_status(comm->core), false);
    }
    ss_comm_set_off(comm->core, atomic_load(&shim.off));
    for (uint64_t first = 0; first < count && err == MPI_SUCCESS; first += SS_WINDOW) {
        uint64_t n = count - first < SS_WINDOW ? count - first : SS_WINDOW;

        err = run_window(call, comm, type, op, first, n, outcome);
    }
    shim_comm_keep_costs(comm);
    if (shim.settings.topk)
        tell_refusals(comm);
    return err;
}

static int first_contact(const struct shim_call *call)
{
    int err = pass_for(call, SS_WHY_FIRST);

    return err == MPI_SUCCESS ? shim_comm_contact(call->comm) : err;
}

static int on_known(const struct shim_call *call, struct shim_comm *comm, enum ss_type type,
                    enum ss_op op, struct outcome *outcome)
{
    if (comm->state == SHIM_COMM_SERVED)
        return serve(call, comm, type, op, outcome);
    if (comm->state == SHIM_COMM_FAILED)
        return refuse(comm, false);
    *outcome = (struct outcome){"native", ss_reason_name(SS_WHY_COMMUNICATOR), -1};
    return pass_for(call, SS_WHY_COMMUNICATOR);
}

static int on_comm(const struct shim_call *call, enum ss_type type, enum ss_op op)
{
    struct shim_comm *comm = shim_comm_get(call->comm);
    struct outcome outcome = {"failed", "an earlier call failed", -1};
    double begin = shim.options.debug >= CFG_DEBUG_TRACE ? shim_now() : 0;
    int err;

    if (comm) {
        comm->calls++;
        err = on_known(call, comm, type, op, &outcome);
    } else {
        err = first_contact(call);
        outcome = (struct outcome){"native", ss_reason_name(SS_WHY_FIRST), -1};
        comm = err == MPI_SUCCESS ? shim_comm_get(call->comm) : NULL;
        if (!comm)
            return err;
        comm->calls++;
    }
    if (shim.options.debug >= CFG_DEBUG_TRACE)
        trace(call, comm, type, &outcome, shim_now() - begin);
    shim_comm_put(comm);
    return err;
}

static int route(const struct shim_call *call)
{
    enum ss_type type;
    enum ss_op op;

    if (call->count < shim.min_count)
        return pass_for(call, SS_WHY_SMALL);
    if (!shim_operation(call, &type, &op))
        return pass_for(call, SS_WHY_TYPE);
    if (!shim_buffers(call, type))
        return pass_for(call, SS_WHY_BUFFER);
    if (shim.stats.timed)
        ss_stats_reduced(&shim.stats, (uint64_t)call->count * ss_type_size(type));
    if (atomic_load_explicit(&shim.leavings, memory_order_relaxed))
        shim_comm_sweep();
    return on_comm(call, type, op);
}

int shim_allreduce(const struct shim_call *call)
{
    double begin, spent;
    int err;

    if (!shim_prepare())
        return shim_pass(call);
    atomic_fetch_add_explicit(&shim.stats.seen, 1, memory_order_relaxed);
    if (!shim.stats.timed)
        return route(call);
    begin = shim_now();
    err = route(call);
    spent = shim_now() - begin;
    pthread_mutex_lock(&shim.stats.lock);
    shim.stats.allreduce_seconds += spent;
    pthread_mutex_unlock(&shim.stats.lock);
    return err;
}
