/* gTop-k (Shi et al., "A Distributed Synchronous SGD Algorithm with Global Top-k Sparsification",
 * ICDCS 2019, Algorithm 3), for any number of ranks: recursive doubling in which each merge keeps
 * the k largest sums only; log2 P exchanges of at most k entries. Ranks beyond the largest power of
 * two hand their stream to a neighbour first and get the result last.
 *
 * All ranks of a group compute the same bits, hence cut the same, and the groups of the rounds are
 * the subtrees of one tree over the claims: each claim travels upwards, alone or in a sum, until it
 * is cut or arrives. Nothing is lost: where the index did not arrive at all, every claim returns to
 * its originator; where it did, by another subtree, what was cut underway goes to the residual of
 * one of the ranks that cut it. That is one rank in each group: of the positions of a group of 2^(t
 * + 1) the one that ends in t ones, so that each rank serves one round and keeps one list. A cut of
 * its own claims, or of a fold, is seen by one rank only. The same list takes what rounding took
 * away: an input is rounded when it first travels alone, sums travel at full width. */
#include <string.h>

#include "core/coll/coll.h"
#include "core/select/threshold.h"

enum { START, FOLD_IN, ROUND, ROUND_EXCHANGE, FOLD_OUT, FINISH };

static void take_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                       const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);

    (void)in, (void)msg, (void)len;
    ss_stream_append(&c->x, src, &c->u.gtopk.received, chunk);
}

static void append(const struct ss_coll *c, struct ss_stream *s, uint32_t idx, const void *val)
{
    s->idx[s->nnz] = idx;
    memcpy(ss_at(s->val, s->nnz, c->x.esize), val, c->x.esize);
    s->nnz++;
}

/* Leaves the k largest of the current stream, of equal ones those of the lowest indices; Inf and
 * NaN are larger than all others. */
static void cut(struct ss_coll *c, bool keep)
{
    struct ss_gtopk_state *s = &c->u.gtopk;
    size_t nnz = s->current.nnz, ties = s->k;

    if (nnz <= s->k)
        return;
    for (size_t i = 0; i < nnz; i++)
        s->magnitudes[i] = ss_magnitude_at(c->x.type, s->current.val, i);
    ss_magnitude least = ss_kth_largest(s->magnitudes, nnz, s->k);
    for (size_t i = 0; i < nnz; i++)
        ties -= s->magnitudes[i] > least;
    s->current.nnz = 0;
    for (size_t i = 0; i < nnz; i++) {
        const void *val = ss_at(s->current.val, i, c->x.esize);
        ss_magnitude magnitude = ss_magnitude_at(c->x.type, s->current.val, i);
        if (magnitude > least || (magnitude == least && ties > 0)) {
            ties -= magnitude == least;
            append(c, &s->current, s->current.idx[i], val);
        } else if (keep) {
            append(c, &s->left, s->current.idx[i], val);
        }
    }
}

/* Of a stream as it was rounded: what became zero would only take the place of others. */
static void drop_zeros(const struct ss_coll *c, struct ss_stream *rounded)
{
    size_t nnz = rounded->nnz;

    rounded->nnz = 0;
    for (size_t i = 0; i < nnz; i++)
        if (ss_magnitude_at(c->x.type, rounded->val, i) > 0)
            append(c, rounded, rounded->idx[i], ss_at(rounded->val, i, c->x.esize));
}

/* The sum of both groups becomes the current stream. keep: this rank keeps what is cut. */
static void merge(struct ss_coll *c, bool keep)
{
    struct ss_gtopk_state *s = &c->u.gtopk;
    struct ss_stream merged = s->spare;
    double begin = ss_now(&c->x);

    if (c->x.failed < 0 || s->received.nnz == 0)
        return;
    merged.nnz = c->kernels->merge(c->x.type, c->op, s->current.idx, s->current.val, s->current.nnz,
                                   s->received.idx, s->received.val, s->received.nnz, merged.idx,
                                   merged.val);
    s->spare = s->current;
    s->current = merged;
    s->received.nnz = 0;
    cut(c, keep);
    c->x.times.merge += ss_now(&c->x) - begin;
}

static bool serves(const struct ss_gtopk_state *s)
{
    int low = 1 << s->round;

    return (s->fold.position & (2 * low - 1)) == low - 1;
}

static void start_out(struct ss_coll *c, enum ss_phase phase, unsigned round, int dst)
{
    struct ss_gtopk_state *s = &c->u.gtopk;

    c->x.arena_used = 0; /* the former round's sends are done: see ROUND */
    ss_out_stream(&s->out, s->current, phase, round, dst, 1);
}

/* As start_out, for what no other rank has added to. */
static void start_own_out(struct ss_coll *c, enum ss_phase phase, int dst)
{
    struct ss_gtopk_state *s = &c->u.gtopk;
    struct ss_stream *left = &s->left;

    start_out(c, phase, 0, dst);
    if (c->x.failed < 0 || c->rounding.values == SS_VALUES_SAME || s->current.nnz == 0)
        return;
    ss_out_round(&s->out, &c->rounding, ss_at(left->val, left->nnz, c->x.esize));
    memcpy(left->idx + left->nnz, s->current.idx, s->current.nnz * sizeof *left->idx);
    memset(ss_at(left->val, left->nnz, c->x.esize), 0, s->current.nnz * c->x.esize);
    left->nnz += s->current.nnz;
}

/* The first message between two ranks has come: of streams that no other rank had added to, what
 * rounding left over is dropped, on both sides alike. */
static void drop_rounded(struct ss_coll *c)
{
    struct ss_gtopk_state *s = &c->u.gtopk;

    if (c->x.failed < 0 || c->rounding.values == SS_VALUES_SAME || s->in.count == 0)
        return;
    bool fold_in = s->in.phase == SS_PHASE_FOLD_IN;
    if (!fold_in && s->fold.partner < 0)
        drop_zeros(c, &s->current);
    if (fold_in || ss_fold_of(s->in.src, c->x.t->size).partner < 0)
        drop_zeros(c, &s->received);
}

/* Room for what is left and for magnitudes, one behind the other. */
static int reserve_left(struct ss_coll *c, size_t merged)
{
    struct ss_gtopk_state *s = &c->u.gtopk;
    struct ss_buf *buf = &c->x.work->part_error;
    size_t magnitudes = merged > c->own.nnz ? merged : c->own.nnz;
    size_t left = c->own.nnz + merged; /* own: cut or rounded; one fold and one round */

    if (ss_buf_reserve_voted(buf, c->x.mem,
                             magnitudes * sizeof(ss_magnitude) +
                                 left * (c->x.esize + sizeof(uint32_t))) != SS_OK)
        return SS_ERR_MEMORY;
    s->magnitudes = buf->data;
    s->left.val = s->magnitudes + magnitudes;
    s->left.idx = ss_at(s->left.val, left, c->x.esize);
    return SS_OK;
}

static int start(struct ss_coll *c)
{
    struct ss_gtopk_state *s = &c->u.gtopk;
    const struct ss_voted *b = &c->voted;
    size_t limit = (size_t)(b->k_max < b->nnz_sum ? b->k_max : b->nnz_sum);
    size_t merged = 2 * limit < c->own.nnz ? c->own.nnz : 2 * limit;

    s->fold = ss_fold_of(c->x.t->rank, c->x.t->size);
    s->k = limit;
    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, ss_arena_bound(c->x.type, limit)) !=
            SS_OK ||
        ss_stream_reserve(&c->x, &s->received, 0, limit) != SS_OK ||
        ss_stream_reserve(&c->x, &s->current, 1, merged) != SS_OK ||
        ss_stream_reserve(&c->x, &s->spare, 2, merged) != SS_OK || reserve_left(c, merged) != SS_OK)
        return SS_ERR_MEMORY;
    s->received.capacity = limit;
    c->claims.own_error = NULL; /* the own stream itself is not rounded */
    memcpy(s->current.idx, c->own.idx, c->own.nnz * sizeof *c->own.idx);
    memcpy(s->current.val, c->own.val, c->own.nnz * c->x.esize);
    s->current.nnz = c->own.nnz;
    cut(c, true);
    return SS_OK;
}

/* Of what this rank keeps, that whose index arrived: the rest returns with its claims. A partial
 * sum that overflowed leaves no trace. */
static void book(struct ss_coll *c)
{
    struct ss_gtopk_state *s = &c->u.gtopk;
    size_t count = s->left.nnz, j = 0;
    uint32_t last = 0;

    s->left.nnz = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t idx = s->left.idx[i];
        if (idx < last)
            j = 0;
        last = idx;
        while (j < s->current.nnz && s->current.idx[j] < idx)
            j++;
        if (j < s->current.nnz && s->current.idx[j] == idx &&
            ss_magnitude_at(c->x.type, s->left.val, i) < ss_magnitude_none(c->x.type))
            append(c, &s->left, idx, ss_at(s->left.val, i, c->x.esize));
    }
    ss_claims_book(c, s->left.idx, 0, s->left.val, s->left.nnz);
}

static void finish(struct ss_coll *c)
{
    struct ss_gtopk_state *s = &c->u.gtopk;

    if (c->x.failed < 0)
        return;
    ss_claims_mark(c, s->current.idx, s->current.nnz);
    book(c);
    ss_result_set_stream(c, &s->current);
    c->result_nnz = s->current.nnz;
}

int ss_gtopk_step(struct ss_coll *c)
{
    struct ss_gtopk_state *s = &c->u.gtopk;
    const struct ss_fold *f = &s->fold;
    int sent, received;

    for (;;) {
        switch (c->step) {
        case START:
            if (start(c) != SS_OK)
                ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
            s->out.done = true;
            if (f->partner >= 0 && f->position < 0)
                start_own_out(c, SS_PHASE_FOLD_IN, f->partner);
            else if (f->partner >= 0)
                ss_in_start(&c->x, &s->in, SS_PHASE_FOLD_IN, 0, f->partner, 1, take_chunk);
            c->step = FOLD_IN;
            break;
        case FOLD_IN:
            if (ss_out_step(&c->x, &s->out) == SS_PENDING ||
                ss_in_step(&c->x, &s->in) == SS_PENDING)
                return SS_PENDING;
            drop_rounded(c);
            merge(c, true);
            c->step = f->position < 0 ? FOLD_OUT : ROUND;
            break;
        case ROUND:
            if (ss_sends_reap(&c->x) == SS_PENDING) /* their messages lie in the arena */
                return SS_PENDING;
            if (s->round == ss_fold_rounds(f)) {
                c->step = FOLD_OUT;
                break;
            }
            if (s->round == 0 && f->partner < 0)
                start_own_out(c, SS_PHASE_REDUCE, ss_fold_peer(f, 0));
            else
                start_out(c, SS_PHASE_REDUCE, (unsigned)s->round, ss_fold_peer(f, s->round));
            ss_in_start(&c->x, &s->in, SS_PHASE_REDUCE, (unsigned)s->round,
                        ss_fold_peer(f, s->round), 1, take_chunk);
            c->step = ROUND_EXCHANGE;
            break;
        case ROUND_EXCHANGE:
            sent = ss_out_step(&c->x, &s->out);
            received = ss_in_step(&c->x, &s->in);
            if (sent == SS_PENDING || received == SS_PENDING)
                return SS_PENDING;
            if (s->round == 0)
                drop_rounded(c);
            merge(c, serves(s));
            s->round++;
            c->step = ROUND;
            break;
        case FOLD_OUT:
            s->out.done = true;
            s->in = (struct ss_in){0};
            if (f->partner >= 0 && f->position >= 0) {
                start_out(c, SS_PHASE_FOLD_OUT, 0, f->partner);
            } else if (f->partner >= 0) {
                s->current.nnz = 0;
                ss_in_start(&c->x, &s->in, SS_PHASE_FOLD_OUT, 0, f->partner, 1, take_chunk);
            }
            c->step = FINISH;
            break;
        default:
            sent = ss_out_step(&c->x, &s->out);
            received = ss_in_step(&c->x, &s->in);
            if (sent == SS_PENDING || received == SS_PENDING)
                return SS_PENDING;
            if (f->position < 0)
                merge(c, false);
            finish(c);
            return SS_OK;
        }
    }
}
