/* Drivers of a single call: its vote, calibration, the algorithm, and the steps behind it. The
 * group's drivers are in core/call/group.c, that of partial calls in core/call/partial.c. */
#include "core/call/call_impl.h"

void ss_call_drive(struct ss_call *call, const struct ss_driver *driver)
{
    call->driver = driver;
    call->stage = SS_STAGE_DRIVEN;
    if (driver->start)
        driver->start(call);
}

bool ss_call_is_driven_by(const struct ss_call *call, const struct ss_driver *driver)
{
    return call->stage == SS_STAGE_DRIVEN && call->driver == driver;
}

/* ---- the vote ---- */

static void start_vote(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;

    ss_ballot_fill(call);
    ss_vote_start(&call->f.vote, x->t, x->number);
    if (x->spans.trace) /* a look that failed */
        ss_spans_cut(&x->spans, ss_now(x));
    call->stage_begin = ss_span_begin(x, SS_SPAN_VOTE);
}

static int step_vote(struct ss_call *call)
{
    struct ss_feedback *f = &call->f;
    struct ss_exchange *x = &f->c.x;
    int status = ss_vote_step(&f->vote, &x->moved);

    if (status == SS_PENDING || (status == SS_OK && !ss_in_flight_may_decide(&call->flight)))
        return SS_PENDING;
    double seconds = ss_span_end(x, SS_SPAN_VOTE, call->stage_begin) - call->stage_begin;
    if (f->comm->cost_vote == 0 || seconds < f->comm->cost_vote)
        f->comm->cost_vote = seconds;
    x->bytes_sent += f->vote.bytes;
    x->bytes_inside += f->vote.inside;
    if (status == SS_OK)
        return SS_OK;
    ss_vote_cancel(&f->vote);
    ss_fail(x, status, f->vote.exchange.peer, SS_PHASE_VOTE);
    return x->failed;
}

static enum ss_phase vote_waits_for(const struct ss_call *call, int *peer)
{
    *peer = call->f.vote.exchange.peer;
    return SS_PHASE_VOTE;
}

static void cancel_vote(struct ss_call *call)
{
    ss_vote_cancel(&call->f.vote);
}

const struct ss_driver ss_vote_driver = {.then = SS_THEN_DECIDE,
                                         .start = start_vote,
                                         .step = step_vote,
                                         .waiting_for = vote_waits_for,
                                         .cancel = cancel_vote};

/* ---- calibration ---- */

static void start_calibration(struct ss_call *call)
{
    ss_calibrate_start(&call->calibrate, call->f.c.x.t, call->f.comm->layout);
    call->stage_begin = ss_span_begin(&call->f.c.x, SS_SPAN_CALIBRATE);
}

static void cancel_calibration(struct ss_call *call)
{
    ss_calibrate_cancel(&call->f.c.x, &call->calibrate);
}

static int step_calibration(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;
    int status = ss_calibrate_step(x, &call->calibrate);

    if (status == SS_PENDING)
        return SS_PENDING;
    ss_span_end(x, SS_SPAN_CALIBRATE, call->stage_begin);
    atomic_fetch_add(&call->f.comm->stats->calibration_bytes, call->calibrate.bytes);
    if (status == SS_OK) {
        call->f.comm->network = call->calibrate.costs;
        return SS_OK;
    }
    cancel_calibration(call);
    ss_fail(x, status, x->t->rank, SS_PHASE_CALIBRATE);
    return x->failed;
}

static enum ss_phase calibration_waits_for(const struct ss_call *call, int *peer)
{
    *peer = call->calibrate.previous;
    return SS_PHASE_CALIBRATE;
}

const struct ss_driver ss_calibrate_driver = {.then = SS_THEN_VOTE,
                                              .start = start_calibration,
                                              .step = step_calibration,
                                              .waiting_for = calibration_waits_for,
                                              .cancel = cancel_calibration};

/* ---- the sum of a host ---- */

static void start_host_sum(struct ss_call *call)
{
    call->stage_begin = ss_span_begin(&call->f.c.x, SS_SPAN_EXCHANGE);
    ss_host_sum_start(&call->f);
}

/* A failure is told in the vote that follows. */
static int step_host_sum(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;

    if (ss_host_sum_step(&call->f) == SS_PENDING)
        return SS_PENDING;
    call->f.host.seconds = ss_span_end(x, SS_SPAN_EXCHANGE, call->stage_begin) - call->stage_begin;
    if (x->failed < 0)
        ss_comm_fail(call->f.comm, x->failed, x->failed_peer, x->failed_phase, call->number);
    x->failed = 0;
    return SS_OK;
}

const struct ss_driver ss_host_sum_driver = {
    .then = SS_THEN_LOOK, .start = start_host_sum, .step = step_host_sum};

/* ---- the algorithm ---- */

static int step_algorithm(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;
    struct ss_exchange *x = &c->x;

    if (call->fetching && !ss_settled(x, SS_PHASE_REDUCE))
        return SS_PENDING;
    call->fetching = false;
    if (call->algorithm->step(c) == SS_OK)
        return SS_OK;
    /* In shared memory a piece is cleared when it is needed, so that it is in the cache then. */
    if (!x->moved && x->failed == 0 && !c->shared)
        ss_fill_idle(c);
    return SS_PENDING;
}

const struct ss_driver ss_algorithm_driver = {.then = SS_THEN_DRAIN, .step = step_algorithm};

/* ---- steps behind the collective ---- */

static int step_after(struct ss_call *call)
{
    return ss_after_step(&call->f);
}

const struct ss_driver ss_after_driver = {.then = SS_THEN_DRAIN, .step = step_after};
