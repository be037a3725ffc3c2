/* How a call goes on after a vote: by the combined ballot, then by the plan, alike on all ranks;
 * and what is set for the algorithm before its first step. */
#include <math.h>
#include <string.h>

#include "core/call/call_impl.h"
#include "core/coll/algorithms.h"

/* ---- ways to go on ---- */

/* Books how much memory would have done for a call that MAX_MEMORY has no room for. */
static void book_need(const struct ss_feedback *f)
{
    const struct ss_comm *comm = f->comm;
    size_t need = atomic_load(&comm->mem->used) + ss_in_flight_most_memory(&f->c.x);

    pthread_mutex_lock(&comm->stats->lock);
    if (need > comm->stats->memory_need)
        comm->stats->memory_need = need;
    pthread_mutex_unlock(&comm->stats->lock);
}

static enum ss_next to_native(struct ss_call *call, enum ss_reason reason)
{
    if (reason == SS_WHY_CANNOT && call->limited)
        reason = SS_WHY_LIMIT;
    if (reason == SS_WHY_LIMIT)
        book_need(&call->f);
    call->reason = reason;
    return SS_NEXT_NATIVE;
}

/* As to_native where most likely the lane's next calls will end so, too: they go there without a
 * vote, unless a tensor of the lane is watched or registered. */
static enum ss_next back_off(struct ss_call *call, enum ss_reason reason)
{
    if (!(call->f.vote.ballot.flags & SS_VOTE_INTEREST)) {
        ss_history_back_off(&call->f.lane->history);
        ss_in_flight_set_skip(&call->flight);
    }
    return to_native(call, reason);
}

static enum ss_next fail(struct ss_exchange *x, int status)
{
    ss_fail(x, status, -1, SS_PHASE_VOTE);
    return SS_NEXT_FAIL;
}

/* ---- the plan and its algorithm ---- */

static void book_predictions(const struct ss_feedback *f, const struct ss_plan *plan)
{
    struct ss_lane_record *r = f->lane->record;

    if (!r)
        return;
    pthread_mutex_lock(&f->comm->stats->lock);
    r->planned++;
    for (int a = 0; a < SS_ALGORITHMS; a++) {
        bool runs = plan->seconds[a] >= 0; /* one call that could not run it spoils the mean */
        r->predicted_seconds[a] += runs ? plan->seconds[a] : (double)INFINITY;
        r->predicted_bytes[a] += runs ? plan->bytes[a] : (double)INFINITY;
        r->predicted_inside[a] += plan->inside[a];
    }
    double densest = ss_kind_density_max(f);
    if (densest > r->density_max)
        r->density_max = densest;
    pthread_mutex_unlock(&f->comm->stats->lock);
}

/* Frees the work space of other collectives where their memory may be needed. */
static void make_room(struct ss_feedback *f, double bytes)
{
    struct ss_comm *comm = f->comm;
    size_t used = atomic_load(&comm->mem->used), limit = comm->mem->limit;

    if (limit == 0 || (limit > used && bytes <= (double)(limit - used)))
        return;
    ss_work_drop(f->c.x.work);
    ss_in_flight_drop_idle(comm);
}

/* A rank asks for the comparison: all take part. */
static void guard(struct ss_feedback *f)
{
    if (!(f->vote.ballot.flags & SS_VOTE_GUARD) || !ss_topk_claims(f) || f->guarded)
        return;
    f->guarded = true;
    ss_guard_take(f);
}

/* Hands the algorithm what it depends on. */
static void set_voted(struct ss_feedback *f)
{
    const struct ss_ballot *b = &f->vote.ballot;
    const struct ss_settings *s = f->comm->settings;

    f->c.voted = (struct ss_voted){.nnz_sum = b->nnz_sum,
                                   .nnz_max = b->nnz_max,
                                   .k_max = b->k_max,
                                   .same_state = b->state_sum == 0};
    f->c.layout = f->comm->layout;
    f->c.by_host = f->host.done;
    f->c.agreed = ss_topk_claims(f) ? &f->tensor->agreed : NULL;
    f->c.oktopk.repartition_period = s->repartition_period;
    f->c.oktopk.threshold_period = s->tensors.threshold_period;
}

/* What the ranks know of the lane's past. */
static void see_past(const struct ss_flight *flight)
{
    const struct ss_ballot *b = &flight->f->vote.ballot;
    struct ss_history *h = &flight->f->lane->history;

    h->result_nnz = b->result_max;
    h->result_sum = flight->past.sum;
    if (ss_ballot_same(b, SS_SAME_MEASURED) && flight->measured == flight->f->lane->planned_call)
        ss_history_measured(h, ss_bits_double(b->last_min));
}

static enum ss_next start_algorithm(struct ss_call *call)
{
    struct ss_feedback *f = &call->f;
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    struct ss_history *h = &f->lane->history;
    struct ss_shape shape = ss_ballot_shape(f, &call->member);
    bool observe = f->comm->settings->observe;

    see_past(&call->flight);
    ss_plan_make(&shape, h, &call->plan);
    if (f->state == SS_TOPK_RESTS && call->plan.algorithm != SS_DENSE) {
        ss_topk_wake(f); /* what it claims is voted on */
        return ss_host_sum_due(f) ? SS_NEXT_HOST_SUM : SS_NEXT_LOOK_INPUT;
    }
    if (call->plan.settled)
        ss_topk_planned(f, call->plan.algorithm == SS_DENSE);
    ss_history_planned(h, &call->plan, observe);
    f->lane->planned_call = x->number;
    f->lane->settled = call->plan.settled;
    book_predictions(f, &call->plan);
    if (observe) {
        ss_observe(call);
        return to_native(call, SS_WHY_OBSERVE);
    }
    ss_log_plan(call);
    if (f->state == SS_TOPK_RESTS && !call->plan.settled)
        return to_native(call, SS_WHY_DENSE); /* how long dense takes is to be known first */
    if (call->plan.algorithm == SS_DENSE)
        return back_off(call, call->plan.short_of_memory ? SS_WHY_LIMIT : SS_WHY_DENSE);
    call->algorithm = shape.algorithms[call->plan.algorithm];
    x->arena_used = 0;
    c->result_nnz = 0;
    memset(c->state, 0, call->algorithm->state);
    set_voted(f);
    if (call->algorithm->deep)
        c->voted.between = ss_two_level_between(&shape, h);
    c->shared = shape.shared && call->plan.algorithm == SS_ALLGATHER ? f->comm->shared : NULL;
    c->voted.balanced = shape.balanced;
    call->member.memory = ss_plan_memory(&shape, call->plan.algorithm);
    make_room(f, call->member.memory);
    ss_kind_prepare(f);
    if (shape.whole)
        c->fill = (struct ss_fill){0}; /* every element is written */
    else
        ss_fill_start(c, !c->scan.negative_zero && !ss_topk_claims(f));
    call->fetching = ss_topk_fetch(f, call->algorithm->in_backend);
    ss_topk_prepare(f, ss_topk_global(f, call->plan.algorithm));
    guard(f);
    call->stage_begin = ss_span_begin(x, SS_SPAN_EXCHANGE);
    return SS_NEXT_ALGORITHM;
}

/* ---- the vote ---- */

/* What sends a call to the MPI library before anything else is looked at. */
static const uint64_t NATIVE = SS_VOTE_OFF | SS_VOTE_CANNOT | SS_VOTE_LAYOUT | SS_VOTE_NOT_FINITE;

/* All ranks know that the communicator has failed. */
static void agree_on_failure(const struct ss_flight *flight)
{
    struct ss_comm *comm = flight->f->comm;

    ss_in_flight_set_from(flight, &comm->failure_from);
    comm->failure_agreed = comm->failure_agreed || !flight->f->nonblocking;
}

/* In the order of precedence. */
enum ss_next ss_call_decide(struct ss_call *call)
{
    struct ss_feedback *f = &call->f;
    struct ss_comm *comm = f->comm;
    const struct ss_ballot *b = &f->vote.ballot;
    const bool first = !call->revote;

    if (b->flags & SS_VOTE_BROKEN) {
        agree_on_failure(&call->flight);
        return comm->status < 0 ? SS_NEXT_FAIL_AGAIN : fail(&f->c.x, SS_ERR_PEER);
    }
    if (!ss_ballot_same(b, SS_SAME_SETTINGS)) {
        ss_in_flight_set_from(&call->flight, &comm->mismatch_from);
        return to_native(call, SS_WHY_SETTINGS);
    }
    if (!ss_ballot_same(b, SS_SAME_CALL) || !ss_ballot_same(b, SS_SAME_LANE)) {
        bool lane = ss_ballot_same(b, SS_SAME_CALL);

        agree_on_failure(&call->flight);
        return fail(&f->c.x, lane ? SS_ERR_DIFFERENT : SS_ERR_PROTOCOL);
    }
    if (!ss_ballot_is_sound(f)) {
        agree_on_failure(&call->flight);
        return fail(&f->c.x, SS_ERR_MESSAGE);
    }
    f->lane->has_residual = b->flags & SS_VOTE_HAS_RESIDUAL;
    if (first && ss_in_flight_is_skipped(&call->flight)) {
        f->lane->history.skip--;
        return to_native(call, comm->settings->observe ? SS_WHY_OBSERVE : SS_WHY_BACKED_OFF);
    }
    bool calibrate = (b->flags & SS_VOTE_UNKNOWN) && first;
    bool callbacks = f->nonblocking && (b->flags & SS_VOTE_CALLBACKS);
    bool native = callbacks || (b->flags & NATIVE);
    bool agreed = (calibrate && !native) || ss_topk_vote(f, b->flags);
    if ((b->flags & SS_VOTE_ENVIRONMENT) == SS_VOTE_ENVIRONMENT)
        return to_native(call, SS_WHY_ENVIRONMENT);
    if (b->flags & SS_VOTE_OFF)
        return to_native(call, SS_WHY_OFF);
    if (b->flags & SS_VOTE_CANNOT)
        return to_native(call, SS_WHY_CANNOT);
    if (callbacks)
        return to_native(call, SS_WHY_CALLBACKS);
    if (b->flags & SS_VOTE_LAYOUT)
        return back_off(call, SS_WHY_BUFFER);
    if (!ss_ballot_same(b, SS_SAME_FORM))
        return back_off(call, SS_WHY_TYPE);
    if (b->flags & SS_VOTE_NOT_FINITE) {
        ss_topk_not_finite(f);
        return to_native(call, SS_WHY_NOT_FINITE);
    }
    if (!agreed || !ss_ballot_same(b, SS_SAME_KEEP))
        return to_native(call, SS_WHY_UNREGISTERED);
    if (!calibrate) /* what is registered is decided in the vote that follows */
        call->between = ss_partial_agreed(f);
    if (b->flags & SS_VOTE_JOINS)
        return to_native(call, SS_WHY_DENSE);
    if (calibrate)
        return SS_NEXT_CALIBRATE;
    comm->costs_agreed = true;
    if (ss_host_sum_due(f))
        return SS_NEXT_HOST_SUM;
    return start_algorithm(call);
}
