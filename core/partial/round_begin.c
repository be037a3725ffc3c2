/* Begins a round: decides when it is due, contributes, and prepares the exchange, the rounding and
 * the result. */
#include <string.h>

#include "core/partial/rounds_impl.h"

/* Marks the tensor of a round without a call as busy, as in a call. */
static void pin(struct ss_rounds *r)
{
    ss_tensors_lock(r->member->tensor->set);
    ss_tensor_begin(r->member->tensor);
    ss_tensors_unlock(r->member->tensor->set);
    r->pinned = true;
}

/* ---- who begins ---- */

/* Returns the rank that starts a round under MAJORITY. The rank depends on nothing but the tensor
 * and the round. */
static int drawn(const struct ss_rounds *r, const struct ss_member *m, uint32_t round)
{
    uint64_t h = ss_mix(ss_mix(0x9e3779b97f4a7c15ULL, m->code), round);

    return (int)((ss_mix(h, 0x2545f4914f6cdd1dULL) >> 32) * (uint64_t)r->t->size >> 32);
}

static bool starts(const struct ss_rounds *r)
{
    if (!ss_round_is_first(r, r->caller))
        return r->was_in;
    return r->s.quorum == SS_QUORUM_SOLO || drawn(r, r->caller, r->done + 1) == r->t->rank;
}

/* Returns true if a round that other ranks have started may go on without a call of this rank. A
 * rank that has failed keeps no results. */
static bool goes_without(const struct ss_rounds *r, const struct ss_member *m)
{
    if (r->status < 0 || !m)
        return true;
    return ss_outcomes_room(r, m) && (ss_round_is_first(r, m) || !r->was_in);
}

/* ---- contributions ---- */

/* Writes the words of the initiator. */
static void describe(const struct ss_member *m, uint64_t words[SS_START_WORDS])
{
    words[0] = m->code;
    words[1] = m->n << 8 | (uint64_t)m->type;
}

static void set_step(struct ss_rounds *r, struct ss_member *m, bool by_call)
{
    if (ss_round_is_first(r, m)) {
        r->step++;
        r->was_in = by_call;
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
        r->stats.sum.left++;
        ss_member_selected(r, m);
    } else {
        ss_member_return(r, m);
        r->c.own = (struct ss_stream){0};
    }
    ss_trace_end(&r->c.x, SS_SPAN_SELECT);
}

/* Sets c->own to the contribution, which was claimed when the call came, or is claimed now. The
 * gradient of a call that is not in is added to the residual afterwards. */
static int contribute(struct ss_rounds *r, struct ss_member *m, bool by_call)
{
    m->rounds++;
    if (by_call && r->claims) {
        r->claims = false;
        r->stats.sum.in++;
        ss_member_selected(r, m);
        return r->claim_status;
    }
    if (by_call && r->call.silent)
        r->c.own = (struct ss_stream){0};
    else
        contribute_left(r, m);
    return by_call ? ss_member_accumulate(r, m, r->call.in) : SS_OK;
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
    memset(r->state, 0, r->s.algorithm->state);
    c->own = own;
    c->state = r->state;
    c->op = SS_SUM;
    c->kernels = ss_kernels();
    x->t = r->t;
    x->work = &r->work;
    x->mem = r->mem;
    x->backend = &ss_host;
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

/* Sets where the sum is. The landing holds at most this rank's own entries. */
static void set_result(struct ss_rounds *r, bool by_call)
{
    struct ss_coll *c = &r->c;

    r->direct = by_call;
    c->out = by_call ? r->call.out : r->landing.data;
    c->in = c->out;
    c->in_place = !by_call;
    c->scan = (struct ss_scan){.nnz = c->own.nnz, .stored = c->own.nnz, .stop = (size_t)c->x.n};
    /* nothing was voted on: these bounds always hold */
    c->voted.nnz_max = c->x.n;
    c->voted.nnz_sum = c->x.n * (uint64_t)r->t->size;
    c->voted.k_max = r->member ? r->member->k : 0;
    ss_fill_start(c, !by_call);
}

/* Begins a round that this rank does not know, or that a rank has started to announce its failure:
 * its messages are received and answered by errors. */
static void begin_unknown(struct ss_rounds *r, uint64_t code)
{
    ss_fail(&r->c.x, code == 0 ? SS_ERR_PEER : SS_ERR_DIFFERENT, -1, SS_PHASE_START);
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

static void begin_round(struct ss_rounds *r, struct ss_member *m, bool by_call,
                        const uint64_t *words)
{
    struct ss_exchange *x = &r->c.x;
    uint32_t round = r->done + 1;
    int status = SS_OK;

    r->member = m;
    r->begun = r->t->ops->now(r->t);
    ss_trace_end(x, SS_SPAN_START);
    if (m && !by_call && r->status == SS_OK)
        pin(r);
    if (m)
        status = contribute(r, m, by_call);
    set_exchange(r, m, round);
    if (status != SS_OK)
        ss_fail(x, status, r->t->rank, SS_PHASE_START);
    if (r->status < 0)
        ss_fail(x, r->status, r->failed_peer, r->failed_phase);
    if (m)
        set_step(r, m, by_call);
    else
        begin_unknown(r, words[0]);
    set_result(r, by_call);
    set_rounding(r);
    r->stage = SS_ROUND_ALGORITHM;
}

void ss_round_drop_claims(struct ss_rounds *r)
{
    if (r->claims)
        ss_member_return(r, r->caller);
    r->claims = false;
}

/* Announces the failure of this rank, once. */
static void announce(struct ss_rounds *r, uint64_t words[SS_START_WORDS])
{
    words[0] = words[1] = 0;
    r->announced = true;
}

/* Returns true if a round must begin; sets *m to its tensor (NULL if unknown) and `words` to the
 * initiator's. */
static bool is_due(struct ss_rounds *r, bool by_call, struct ss_member **m,
                   uint64_t words[SS_START_WORDS])
{
    const struct ss_start_message *seen = ss_start_exchange_seen(&r->start);

    *m = by_call ? r->caller : seen ? ss_member_coded(r, seen->words[0]) : NULL;
    if (!by_call && !seen) {
        if (r->status == SS_OK || r->status == SS_ERR_PEER || r->announced)
            return false;
        announce(r, words);
        return true;
    }
    if (by_call ? !seen && !starts(r) : !goes_without(r, *m))
        return false;
    if (*m)
        describe(*m, words);
    if (*m && seen && memcmp(words, seen->words, SS_START_WORDS * sizeof *words) != 0)
        ss_rounds_fail(r, seen->words[0] == 0 ? SS_ERR_PEER : SS_ERR_DIFFERENT);
    if (!by_call)
        memcpy(words, seen->words, SS_START_WORDS * sizeof *words);
    return true;
}

bool ss_round_begin(struct ss_rounds *r)
{
    uint64_t words[SS_START_WORDS];
    struct ss_member *m;
    bool by_call;
    int status;

    if (r->status < 0)
        ss_round_drop_claims(r);
    by_call = r->calling && r->calls == r->done + 1 && r->status == SS_OK;
    if (r->blocked && r->status == SS_OK)
        return false;
    if (ss_round_is_traced(r))
        ss_round_spans_asked(r, by_call);
    if (!is_due(r, by_call, &m, words))
        return false;
    status = ss_start_exchange_handle(&r->start, words);
    if (status == SS_PENDING)
        return false;
    if (status != SS_OK)
        ss_round_note(r, status, -1, SS_PHASE_START);
    if (has_room(r, m))
        begin_round(r, m, by_call, words);
    else
        ss_rounds_abandon(r, SS_ERR_MEMORY); /* no message can be received */
    return r->stage != SS_ROUND_ABANDONED;
}
