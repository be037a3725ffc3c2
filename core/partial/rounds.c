/* Runs one round after the other: a call of this rank or the start from another one begins it
 * (round_begin.c), its algorithm runs, and the result goes to its call or is kept for it. */
#include "core/partial/rounds.h"

#include <stdlib.h>
#include <string.h>

#include "core/partial/rounds_impl.h"

/* ---- failure ---- */

void ss_round_note(struct ss_rounds *r, int status, int peer, enum ss_phase phase)
{
    if (r->status < 0)
        return;
    r->status = status;
    r->failed_peer = peer;
    r->failed_phase = phase;
}

static void unpin(struct ss_rounds *r)
{
    if (!r->pinned || !r->member)
        return;
    ss_tensors_lock(r->member->tensor->set);
    ss_tensor_end(r->member->tensor);
    ss_tensors_unlock(r->member->tensor->set);
    r->pinned = false;
}

void ss_rounds_fail(struct ss_rounds *r, int status)
{
    ss_round_note(r, status, -1, SS_PHASE_START);
}

void ss_rounds_abandon(struct ss_rounds *r, int status)
{
    enum ss_phase phase;
    int peer = ss_rounds_waits_for(r, &phase);

    ss_round_note(r, status, peer, phase);
    if (r->stage == SS_ROUND_ALGORITHM || r->stage == SS_ROUND_DRAIN) {
        ss_exchange_cancel(&r->c.x);
        if (r->member)
            ss_member_return(r, r->member);
        unpin(r);
    } else if (r->calling && r->claims) {
        ss_member_return(r, r->caller);
    }
    r->claims = false;
    ss_start_exchange_close(&r->start);
    ss_round_spans_over(r, false);
    r->stage = SS_ROUND_ABANDONED;
}

int ss_rounds_failure(const struct ss_rounds *r, int *peer, enum ss_phase *phase)
{
    *peer = r->failed_peer;
    *phase = r->failed_phase;
    return r->status;
}

int ss_rounds_waits_for(const struct ss_rounds *r, enum ss_phase *phase)
{
    int peer = -1;

    *phase = SS_PHASE_START;
    if (r->stage == SS_ROUND_ALGORITHM || r->stage == SS_ROUND_DRAIN)
        *phase = ss_exchange_waiting(&r->c.x, &peer);
    return peer;
}

/* ---- the round ---- */

static void end_failed(struct ss_rounds *r)
{
    const struct ss_exchange *x = &r->c.x;

    ss_round_note(r, x->failed, x->failed_peer, x->failed_phase);
    if (r->member)
        ss_member_return(r, r->member);
    if (!r->landed && r->landing.data)
        memset(r->landing.data, 0, r->landing.size);
}

static void end_round(struct ss_rounds *r)
{
    r->stage = SS_ROUND_NONE;
    r->done++;
    r->stats.sum.rounds++;
    r->stats.bytes += r->c.x.bytes_sent;
    r->stats.inside += r->c.x.bytes_inside;
    if (r->c.x.failed < 0) {
        end_failed(r);
    } else {
        ss_member_sent(r);
        if (!r->direct)
            ss_outcomes_keep(r);
        else
            r->delivered = r->done;
    }
    ss_round_spans_over(r, true);
    unpin(r);
    r->claimed = 0;
    r->member = NULL;
}

static bool step_drain(struct ss_rounds *r)
{
    struct ss_coll *c = &r->c;

    if (c->x.failed == 0)
        ss_fill_range(c, c->out_first, c->out_first + c->out_n);
    if (ss_sends_reap(&c->x) == SS_PENDING)
        return false;
    end_round(r);
    return true;
}

static bool step_algorithm(struct ss_rounds *r)
{
    struct ss_coll *c = &r->c;

    if (r->s.algorithm->step(c) == SS_OK) {
        r->stage = SS_ROUND_DRAIN;
        return true;
    }
    if (!c->x.moved && c->x.failed == 0)
        ss_fill_idle(c);
    return false;
}

bool ss_rounds_step(struct ss_rounds *r)
{
    bool moved = false, again = r->stage != SS_ROUND_ABANDONED;
    int status;

    if (!again)
        return false;
    r->c.x.moved = false;
    status = r->t->ops->poll(r->t);
    if (status == SS_OK)
        status = ss_start_exchange_step(&r->start);
    if (status != SS_OK)
        ss_round_note(r, status, -1, SS_PHASE_START);
    while (again) {
        again = r->stage == SS_ROUND_NONE        ? ss_round_begin(r)
                : r->stage == SS_ROUND_ALGORITHM ? step_algorithm(r)
                                                 : step_drain(r);
        moved = moved || again;
    }
    moved = moved || r->c.x.moved;
    if (r->c.x.spans.trace)
        ss_round_spans_stepped(r, moved);
    return moved;
}

bool ss_rounds_under_way(const struct ss_rounds *r)
{
    return r->stage == SS_ROUND_ALGORITHM || r->stage == SS_ROUND_DRAIN;
}

void ss_rounds_block(struct ss_rounds *r, bool blocked)
{
    r->blocked = blocked;
}

/* ---- calls ---- */

/* Measures by how much more the call is behind its round than the call before. */
static void measure_lag(struct ss_rounds *r)
{
    const struct ss_member *m = r->caller;
    double lag = 0;

    if (m->queued > 0)
        lag = r->called - m->queue[m->first].begun;
    else if (ss_rounds_under_way(r))
        lag = r->called - r->begun;
    if (lag > r->lag)
        r->stats.sum.lag += lag - r->lag;
    r->lag = lag;
}

/* Returns true if the round of a call has not begun on this rank: the rank will be in, unless it
 * was not in for an earlier round of the step. */
static bool will_be_in(const struct ss_rounds *r)
{
    return r->stage == SS_ROUND_NONE && r->done + 1 == r->calls && !r->call.silent &&
           (ss_round_is_first(r, r->caller) || r->was_in);
}

void ss_rounds_call(struct ss_rounds *r, const struct ss_round_call *call)
{
    r->call = *call;
    r->caller = ss_member_of(r, call->tensor);
    r->calls++;
    r->calling = true;
    r->claims = false;
    r->claim_status = SS_OK;
    if (!r->caller)
        ss_rounds_fail(r, SS_ERR_DIFFERENT);
    if (r->status < 0)
        return;
    r->called = r->t->ops->now(r->t);
    measure_lag(r);
    r->caller->calls++;
    r->caller->k = call->k;
    r->caller->bucket = call->bucket;
    if (will_be_in(r)) {
        r->claims = true;
        r->claim_status = ss_member_claim(r, r->caller, call->in);
    } else if (r->stage != SS_ROUND_NONE || r->done + 1 != r->calls) {
        if (ss_member_accumulate(r, r->caller, call->in) != SS_OK)
            ss_rounds_fail(r, SS_ERR_MEMORY);
    }
}

int ss_rounds_call_status(struct ss_rounds *r)
{
    if (!r->calling)
        return r->status;
    if (r->status == SS_OK && (int32_t)(r->done - r->calls) < 0)
        return SS_PENDING;
    if (r->status == SS_OK && r->delivered != r->calls) {
        ss_outcomes_deliver(r);
        r->delivered = r->calls;
    }
    if (r->status == SS_OK)
        r->stats.sum.waited += r->t->ops->now(r->t) - r->called;
    if (r->status < 0 && r->direct && ss_rounds_under_way(r))
        return SS_PENDING; /* the round may still write there */
    if (r->status < 0)
        ss_round_drop_claims(r);
    r->calling = false;
    return r->status;
}

uint32_t ss_rounds_call_number(const struct ss_rounds *r)
{
    return r->calls;
}

/* ---- all rounds ---- */

struct ss_rounds *ss_rounds_create(struct ss_transport *t,
                                   const struct ss_rounds_settings *settings, struct ss_mem *mem)
{
    struct ss_rounds *r = calloc(1, sizeof *r);

    if (!r)
        return NULL;
    r->t = t;
    r->s = *settings;
    r->mem = mem;
    r->failed_peer = -1;
    r->failed_phase = SS_PHASE_START;
    r->c.x.t = t; /* for the spans before the first round */
    ss_start_exchange_open(&r->start, t);
    return r;
}

bool ss_rounds_settled(const struct ss_rounds *r)
{
    return r->stage == SS_ROUND_ABANDONED || r->status < 0 ||
           (r->stage == SS_ROUND_NONE && ss_start_exchange_settled(&r->start));
}

void ss_rounds_pause(struct ss_rounds *r)
{
    ss_round_spans_over(r, false);
    if (ss_rounds_settled(r))
        ss_start_exchange_pause(&r->start);
}

void ss_rounds_close(struct ss_rounds *r)
{
    if (r->stage != SS_ROUND_ABANDONED)
        ss_rounds_abandon(r, SS_ERR_PEER);
}

void ss_rounds_free(struct ss_rounds *r)
{
    if (!r)
        return;
    while (r->members)
        ss_member_free(r, r->members);
    ss_buf_free(&r->landing);
    ss_buf_free(&r->mixed_idx);
    ss_buf_free(&r->mixed_val);
    ss_work_free(&r->work);
    free(r);
}

struct ss_rounds_stats ss_rounds_seen(const struct ss_rounds *r)
{
    struct ss_rounds_stats seen = r->stats;

    seen.sum.steps = r->step;
    for (const struct ss_member *m = r->members; m; m = m->next)
        seen.pending += m->late;
    return seen;
}

uint64_t ss_rounds_not_asked_for(const struct ss_rounds *r)
{
    const struct ss_start_message *seen = ss_start_exchange_seen(&r->start);
    uint64_t count = seen && seen->words[0] != 0 ? 1 : 0;

    if (ss_rounds_under_way(r) && !r->direct)
        count++;
    for (const struct ss_member *m = r->members; m; m = m->next)
        count += m->queued;
    return count;
}
