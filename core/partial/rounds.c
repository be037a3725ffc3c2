/* Runs one round after the other: a call of this rank or an activation begins it, this rank
 * contributes, its algorithm runs, and the result goes to its call or is kept for it. */
#include "core/partial/rounds.h"

#include <stdlib.h>
#include <string.h>

#include "core/partial/rounds_impl.h"

/* ---- failure ---- */

static void note(struct ss_rounds *r, int status, int peer, enum ss_phase phase)
{
    if (r->status < 0)
        return;
    r->status = status;
    r->failed_peer = peer;
    r->failed_phase = phase;
}

/* Marks the tensor of a round without a call as busy, as in a call. */
static void pin(struct ss_rounds *r)
{
    ss_tensors_lock(r->member->tensor->owner);
    ss_tensor_begin(r->member->tensor);
    ss_tensors_unlock(r->member->tensor->owner);
    r->pinned = true;
}

static void unpin(struct ss_rounds *r)
{
    if (!r->pinned || !r->member)
        return;
    ss_tensors_lock(r->member->tensor->owner);
    ss_tensor_end(r->member->tensor);
    ss_tensors_unlock(r->member->tensor->owner);
    r->pinned = false;
}

void ss_rounds_fail(struct ss_rounds *r, int status)
{
    note(r, status, -1, SS_PHASE_ACTIVATE);
}

void ss_rounds_abandon(struct ss_rounds *r, int status)
{
    enum ss_phase phase;
    int peer = ss_rounds_waits_for(r, &phase);

    note(r, status, peer, phase);
    if (r->stage == SS_ROUND_RECIPE || r->stage == SS_ROUND_DRAIN) {
        ss_exchange_cancel(&r->c.x);
        if (r->member)
            ss_member_return(r, r->member);
        unpin(r);
    } else if (r->calling && r->claims) {
        ss_member_return(r, r->caller);
    }
    r->claims = false;
    ss_activation_close(&r->activation);
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

    *phase = SS_PHASE_ACTIVATE;
    if (r->stage == SS_ROUND_RECIPE || r->stage == SS_ROUND_DRAIN)
        *phase = ss_exchange_waiting(&r->c.x, &peer);
    return peer;
}

/* ---- the beginning of a round ---- */

/* Returns true for the first tensor of a step: a tensor that has had its round in this step begins
 * another step. */
static bool is_first(const struct ss_rounds *r, const struct ss_member *m)
{
    return r->step == 0 || m->step == r->step;
}

/* Returns the rank that starts a round under MAJORITY. The rank depends on nothing but the seed,
 * the tensor and the round. */
static int drawn(const struct ss_rounds *r, const struct ss_member *m, uint32_t round)
{
    uint64_t h = ss_mix(ss_mix(ss_mix(0x9e3779b97f4a7c15ULL, r->s.seed), m->code), round);

    return (int)((ss_mix(h, 0x2545f4914f6cdd1dULL) >> 32) * (uint64_t)r->t->size >> 32);
}

static bool starts(const struct ss_rounds *r)
{
    if (!is_first(r, r->caller))
        return r->was_in;
    return r->s.quorum == SS_QUORUM_SOLO || drawn(r, r->caller, r->done + 1) == r->t->rank;
}

/* Returns true if a round that other ranks have started may go on without a call of this rank. A
 * rank that has failed keeps no results. */
static bool goes_without(const struct ss_rounds *r, const struct ss_member *m)
{
    if (r->status < 0 || !m)
        return true;
    return ss_outcomes_room(r, m) && (is_first(r, m) || !r->was_in);
}

/* ---- contributions ---- */

/* Writes the words of the initiator. */
static void describe(const struct ss_member *m, uint64_t words[SS_ACTIVATION_WORDS])
{
    words[0] = m->code;
    words[1] = m->n << 8 | (uint64_t)m->type;
}

static void set_step(struct ss_rounds *r, struct ss_member *m, bool own)
{
    if (is_first(r, m)) {
        r->step++;
        r->was_in = own;
    }
    m->step = r->step;
}

/* Contributes entries of late gradients. If memory is short, they wait for a later round. */
static void contribute_left(struct ss_rounds *r, struct ss_member *m)
{
    r->c.own = (struct ss_stream){0};
    if (r->status < 0 || (m->late == 0 && m->strays.count == 0))
        return;
    ss_trace_begin(&r->c.x, SS_SPAN_SELECT, NULL, -1);
    if (ss_member_claim(r, m, NULL) == SS_OK) {
        r->stats.left++;
        ss_member_selected(r, m);
    } else {
        ss_member_return(r, m);
        r->c.own = (struct ss_stream){0};
    }
    ss_trace_end(&r->c.x, SS_SPAN_SELECT);
}

/* Sets c->own to the contribution, which was claimed when the call came, or is claimed now. The
 * gradient of a call that is not in joins the residual afterwards. */
static int contribute(struct ss_rounds *r, struct ss_member *m, bool own)
{
    m->rounds++;
    if (own && r->claims) {
        r->claims = false;
        r->stats.in++;
        ss_member_selected(r, m);
        return r->claim_status;
    }
    if (own && r->call.silent)
        r->c.own = (struct ss_stream){0};
    else
        contribute_left(r, m);
    return own ? ss_member_join(r, m, r->call.in) : SS_OK;
}

static uint64_t most_elements(const struct ss_rounds *r)
{
    uint64_t most = 1;

    for (const struct ss_member *m = r->members; m; m = m->next)
        most = m->n > most ? m->n : most;
    return most;
}

/* Prepares the exchange; m NULL: with room for whatever other ranks send. */
static void set_exchange(struct ss_rounds *r, const struct ss_member *m, uint32_t round)
{
    struct ss_coll *c = &r->c;
    struct ss_exchange *x = &c->x;
    struct ss_stream own = c->own;
    struct ss_spans spans = x->spans;

    memset(c, 0, sizeof *c);
    memset(r->state, 0, r->s.row->state);
    c->own = own;
    c->state = r->state;
    c->op = SS_SUM;
    c->kernels = ss_kernels();
    x->t = r->t;
    x->work = &r->work;
    x->mem = r->mem;
    x->place = &ss_host;
    x->coding = r->s.coding;
    x->type = m ? m->type : SS_F64;
    x->esize = ss_type_size(x->type);
    x->n = c->in_n = c->out_n = m ? m->n : most_elements(r);
    x->number = round;
    x->spans = spans;
}

/* Prepares the rounding of the contribution. Its errors return to the residual at the end. */
static void set_rounding(struct ss_rounds *r)
{
    struct ss_coll *c = &r->c;
    size_t bytes = (c->own.nnz + 1) * c->x.esize;

    if (r->s.rounding.values == SS_VALUES_SAME || c->own.nnz == 0 || !r->member ||
        ss_buf_reserve(&r->work.own_error, r->mem, bytes) != SS_OK)
        return;
    c->rounding = r->s.rounding;
    c->claims.own_error = r->work.own_error.data;
    memset(c->claims.own_error, 0, bytes);
}

/* Sets the place of the sum. The landing holds at most this rank's own entries. */
static void set_result(struct ss_rounds *r, bool own)
{
    struct ss_coll *c = &r->c;

    r->direct = own;
    c->out = own ? r->call.out : r->landing.data;
    c->in = c->out;
    c->in_place = !own;
    c->scan = (struct ss_scan){.nnz = c->own.nnz, .stored = c->own.nnz, .stop = (size_t)c->x.n};
    /* nothing was voted on: these bounds always hold */
    c->voted.nnz_max = c->x.n;
    c->voted.nnz_sum = c->x.n * (uint64_t)r->t->size;
    c->voted.k_max = r->member ? r->member->k : 0;
    ss_fill_start(c, !own);
}

/* Begins a round that this rank does not know, or that a rank has started to announce its failure:
 * its messages are received and answered by errors. */
static void begin_unknown(struct ss_rounds *r, uint64_t code)
{
    ss_fail(&r->c.x, code == 0 ? SS_ERR_PEER : SS_ERR_DIFFERENT, -1, SS_PHASE_ACTIVATE);
    r->c.out_n = 0;
}

/* Makes room for the messages of a round that this rank does not know. */
static int room_for_unknown(struct ss_rounds *r, struct ss_mem *mem)
{
    set_exchange(r, NULL, r->done + 1);
    r->c.x.mem = mem;
    return ss_in_reserve(&r->c.x, r->s.rounding.values != SS_VALUES_SAME);
}

/* Returns true if there is room. Room was made when the tensor was admitted, but a later admission
 * that found none may have lost it. */
static bool has_room(struct ss_rounds *r, const struct ss_member *m)
{
    if (!m)
        return room_for_unknown(r, r->mem) == SS_OK || room_for_unknown(r, &r->promised) == SS_OK;
    return ss_member_room(r, m, r->mem) == SS_OK || ss_member_room(r, m, &r->promised) == SS_OK;
}

static void begin_round(struct ss_rounds *r, struct ss_member *m, bool own, const uint64_t *words)
{
    struct ss_exchange *x = &r->c.x;
    uint32_t round = r->done + 1;
    int status = SS_OK;

    r->member = m;
    r->begun = r->t->ops->now(r->t);
    ss_trace_end(x, SS_SPAN_ACTIVATE);
    if (m && !own && r->status == SS_OK)
        pin(r);
    if (m)
        status = contribute(r, m, own);
    set_exchange(r, m, round);
    if (status != SS_OK)
        ss_fail(x, status, r->t->rank, SS_PHASE_ACTIVATE);
    if (r->status < 0)
        ss_fail(x, r->status, r->failed_peer, r->failed_phase);
    if (m)
        set_step(r, m, own);
    else
        begin_unknown(r, words[0]);
    set_result(r, own);
    set_rounding(r);
    r->stage = SS_ROUND_RECIPE;
}

/* Returns claims that no round took. */
static void drop_claims(struct ss_rounds *r)
{
    if (r->claims)
        ss_member_return(r, r->caller);
    r->claims = false;
}

/* Announces the failure of this rank, once. */
static void announce(struct ss_rounds *r, uint64_t words[SS_ACTIVATION_WORDS])
{
    words[0] = words[1] = 0;
    r->announced = true;
}

/* Returns true if a round must begin; sets *m to its tensor (NULL if unknown) and `words` to the
 * initiator's. */
static bool is_due(struct ss_rounds *r, bool own, struct ss_member **m,
                   uint64_t words[SS_ACTIVATION_WORDS])
{
    const struct ss_activation_message *seen = ss_activation_seen(&r->activation);

    *m = own ? r->caller : seen ? ss_member_coded(r, seen->words[0]) : NULL;
    if (!own && !seen) {
        if (r->status == SS_OK || r->status == SS_ERR_PEER || r->announced)
            return false;
        announce(r, words);
        return true;
    }
    if (own ? !seen && !starts(r) : !goes_without(r, *m))
        return false;
    if (*m)
        describe(*m, words);
    if (*m && seen && memcmp(words, seen->words, SS_ACTIVATION_WORDS * sizeof *words) != 0)
        ss_rounds_fail(r, seen->words[0] == 0 ? SS_ERR_PEER : SS_ERR_DIFFERENT);
    if (!own)
        memcpy(words, seen->words, SS_ACTIVATION_WORDS * sizeof *words);
    return true;
}

static bool begin(struct ss_rounds *r)
{
    uint64_t words[SS_ACTIVATION_WORDS];
    struct ss_member *m;
    bool own;
    int status;

    if (r->status < 0)
        drop_claims(r);
    own = r->calling && r->calls == r->done + 1 && r->status == SS_OK;
    if (r->held && r->status == SS_OK)
        return false;
    if (ss_round_is_traced(r))
        ss_round_spans_asked(r, own);
    if (!is_due(r, own, &m, words))
        return false;
    status = ss_activation_pass(&r->activation, words);
    if (status == SS_PENDING)
        return false;
    if (status != SS_OK)
        note(r, status, -1, SS_PHASE_ACTIVATE);
    if (has_room(r, m))
        begin_round(r, m, own, words);
    else
        ss_rounds_abandon(r, SS_ERR_MEMORY); /* no message can be received */
    return r->stage != SS_ROUND_ABANDONED;
}

/* ---- the round ---- */

static void end_failed(struct ss_rounds *r)
{
    const struct ss_exchange *x = &r->c.x;

    note(r, x->failed, x->failed_peer, x->failed_phase);
    if (r->member)
        ss_member_return(r, r->member);
    if (!r->landed && r->landing.data)
        memset(r->landing.data, 0, r->landing.size);
}

static void end_round(struct ss_rounds *r)
{
    r->stage = SS_ROUND_NONE;
    r->done++;
    r->stats.rounds++;
    r->stats.bytes += r->c.x.bytes_sent;
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

static bool step_recipe(struct ss_rounds *r)
{
    struct ss_coll *c = &r->c;

    if (r->s.row->step(c) == SS_OK) {
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
        status = ss_activation_step(&r->activation);
    if (status != SS_OK)
        note(r, status, -1, SS_PHASE_ACTIVATE);
    while (again) {
        again = r->stage == SS_ROUND_NONE     ? begin(r)
                : r->stage == SS_ROUND_RECIPE ? step_recipe(r)
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
    return r->stage == SS_ROUND_RECIPE || r->stage == SS_ROUND_DRAIN;
}

void ss_rounds_hold(struct ss_rounds *r, bool held)
{
    r->held = held;
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
        r->stats.behind += lag - r->lag;
    r->lag = lag;
}

/* Returns true if the round of a call has not begun on this rank: the rank will be in, unless it
 * was not in for an earlier round of the step. */
static bool will_be_in(const struct ss_rounds *r)
{
    return r->stage == SS_ROUND_NONE && r->done + 1 == r->calls && !r->call.silent &&
           (is_first(r, r->caller) || r->was_in);
}

void ss_rounds_call(struct ss_rounds *r, const struct ss_round_call *call)
{
    r->call = *call;
    r->caller = ss_member_of(r, call->tensor);
    r->calls++;
    r->calling = true;
    r->claims = r->in = false;
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
        r->in = r->claims = true;
        r->claim_status = ss_member_claim(r, r->caller, call->in);
    } else if (r->stage != SS_ROUND_NONE || r->done + 1 != r->calls) {
        if (ss_member_join(r, r->caller, call->in) != SS_OK)
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
        r->stats.waited += r->t->ops->now(r->t) - r->called;
    if (r->status < 0 && r->direct && ss_rounds_under_way(r))
        return SS_PENDING; /* the round may still write there */
    if (r->status < 0)
        drop_claims(r);
    r->calling = false;
    return r->status;
}

uint32_t ss_rounds_call_number(const struct ss_rounds *r)
{
    return r->calls;
}

bool ss_rounds_call_was_in(const struct ss_rounds *r)
{
    return r->in;
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
    r->failed_phase = SS_PHASE_ACTIVATE;
    r->c.x.t = t; /* for the spans before the first round */
    ss_activation_open(&r->activation, t);
    return r;
}

bool ss_rounds_settled(const struct ss_rounds *r)
{
    return r->stage == SS_ROUND_ABANDONED || r->status < 0 ||
           (r->stage == SS_ROUND_NONE && ss_activation_settled(&r->activation));
}

void ss_rounds_pause(struct ss_rounds *r)
{
    ss_round_spans_over(r, false);
    if (ss_rounds_settled(r))
        ss_activation_pause(&r->activation);
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

    seen.steps = r->step;
    for (const struct ss_member *m = r->members; m; m = m->next)
        seen.pending += m->late;
    return seen;
}

uint64_t ss_rounds_not_asked_for(const struct ss_rounds *r)
{
    const struct ss_activation_message *seen = ss_activation_seen(&r->activation);
    uint64_t count = seen && seen->words[0] != 0 ? 1 : 0;

    if (ss_rounds_under_way(r) && !r->direct)
        count++;
    for (const struct ss_member *m = r->members; m; m = m->next)
        count += m->queued;
    return count;
}
