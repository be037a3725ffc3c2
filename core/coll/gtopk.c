/* gTop-k (Shi et al., "A Distributed Synchronous SGD Algorithm with Global Top-k Sparsification",
 * ICDCS 2019, Algorithm 3), for any number of ranks. Recursive doubling in which each merge keeps
 * the k largest sums only: log2 P exchanges of at most k entries. If P is not a power of two, the
 * ranks beyond it hand their stream to a neighbour first and get the result last.
 *
 * All ranks of a group compute the same bits, hence cut the same entries. The groups of the rounds
 * are the subtrees of one tree over the claims: each claim travels upwards, alone or in a sum,
 * until it is cut or arrives. No claim is lost:
 *
 * - If an index did not arrive at all, every claim on it returns to its originator.
 * - If an index arrived through another subtree, the entry that was cut goes to the residual of one
 *   rank of the group that cut it. In round t this is the rank whose position mod 2^(t+1) is 2^t -
 *   1, so that each rank serves one round and keeps one list.
 * - A cut of own claims, or of a fold, happens on one rank only, which keeps it in the same list.
 * - Rounding errors go to that list as well. An input is rounded when it first travels alone; sums
 *   are not rounded.
 *
 * Cost on the wire: log2 P (alpha + beta e k), e being the bytes of an entry; two rounds more if
 * ranks fold.
 */
#include <string.h>

#include "core/coll/algorithms.h"
#include "core/coll/coll.h"
#include "core/plan/cost.h"

struct state {
    struct ss_doubling doubling;
    size_t k;                 /* entries that a merge keeps */
    struct ss_stream current; /* the largest entries of this rank's group */
    struct ss_stream received;
    struct ss_stream spare; /* room for the next merge */
    /* entries that this rank cut, and its rounding errors: ascending lists, one after the other,
     * each index at most once in each */
    struct ss_stream left;
    ss_magnitude *magnitudes; /* room for the magnitudes of one merge */
};
_Static_assert(sizeof(struct state) <= SS_COLL_STATE, "room for the state");

static void take_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                       const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct state *s = ss_coll_of(x)->state;

    (void)in, (void)msg, (void)len;
    ss_stream_append(x, src, &s->received, chunk);
}

static void append(const struct ss_coll *c, struct ss_stream *s, uint32_t idx, const void *val)
{
    s->idx[s->nnz] = idx;
    memcpy(ss_at(s->val, s->nnz, c->x.esize), val, c->x.esize);
    s->nnz++;
}

/* Keeps the k largest entries of the current stream; among equal ones those of the lowest indices.
 * Inf and NaN are larger than all others. If `keep`, appends the cut entries to `left`. */
static void cut(struct ss_coll *c, bool keep)
{
    struct state *s = c->state;
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

/* Removes zeros from a rounded stream, since they would only displace other entries. */
static void drop_zeros(const struct ss_coll *c, struct ss_stream *rounded)
{
    size_t nnz = rounded->nnz;

    rounded->nnz = 0;
    for (size_t i = 0; i < nnz; i++)
        if (ss_magnitude_at(c->x.type, rounded->val, i) > 0)
            append(c, rounded, rounded->idx[i], ss_at(rounded->val, i, c->x.esize));
}

/* Merges both groups into the current stream. `keep` says that this rank keeps the cut entries. */
static void merge(struct ss_coll *c, bool keep)
{
    struct state *s = c->state;
    struct ss_stream merged = s->spare;

    if (c->x.failed < 0 || s->received.nnz == 0)
        return;
    double begin = ss_span_begin(&c->x, SS_SPAN_MERGE);
    merged.nnz = c->kernels->merge(c->x.type, c->op, s->current.idx, s->current.val, s->current.nnz,
                                   s->received.idx, s->received.val, s->received.nnz, merged.idx,
                                   merged.val);
    s->spare = s->current;
    s->current = merged;
    s->received.nnz = 0;
    cut(c, keep);
    ss_span_end(&c->x, SS_SPAN_MERGE, begin);
}

/* Returns true if this rank keeps the entries that its group cuts in this round. */
static bool serves(const struct state *s)
{
    int low = 1 << s->doubling.round;

    return (s->doubling.fold.position & (2 * low - 1)) == low - 1;
}

/* Sends the current stream to one rank. If no other rank has added to it, the stream is rounded and
 * the errors go to `left`. */
static void send(struct ss_coll *c, enum ss_phase phase, unsigned round, int dst, bool initial)
{
    struct state *s = c->state;
    struct ss_stream *left = &s->left;
    struct ss_out *out = &s->doubling.out;

    c->x.arena_used = 0; /* the sends of the round before are done */
    ss_out_stream(out, s->current, phase, round, dst, 1);
    if (!initial || c->x.failed < 0 || c->rounding.values == SS_VALUES_SAME || s->current.nnz == 0)
        return;
    ss_out_round(out, &c->rounding, ss_at(left->val, left->nnz, c->x.esize));
    memcpy(left->idx + left->nnz, s->current.idx, s->current.nnz * sizeof *left->idx);
    memset(ss_at(left->val, left->nnz, c->x.esize), 0, s->current.nnz * c->x.esize);
    left->nnz += s->current.nnz;
}

/* Removes zeros of rounding after the first message between two ranks: from each of the two streams
 * that no other rank had added to. Both ranks remove the same. */
static void drop_rounded(struct ss_coll *c)
{
    struct state *s = c->state;
    const struct ss_in *in = &s->doubling.in;

    if (c->x.failed < 0 || c->rounding.values == SS_VALUES_SAME || in->count == 0)
        return;
    bool fold_in = in->phase == SS_PHASE_FOLD_IN;
    if (!fold_in && s->doubling.fold.partner < 0)
        drop_zeros(c, &s->current);
    if (fold_in || ss_fold_of(in->src, c->x.t->size).partner < 0)
        drop_zeros(c, &s->received);
}

/* Makes room for `left` and for magnitudes, one after the other. */
static int reserve_left(struct ss_coll *c, size_t merged)
{
    struct state *s = c->state;
    struct ss_buf *buf = &c->x.work->part_error;
    size_t magnitudes = merged > c->own.nnz ? merged : c->own.nnz;
    size_t left = c->own.nnz + merged; /* own claims cut or rounded; one fold and one round */

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
    struct state *s = c->state;
    const struct ss_voted *b = &c->voted;
    size_t limit = (size_t)(b->k_max < b->nnz_sum ? b->k_max : b->nnz_sum);
    size_t merged = 2 * limit < c->own.nnz ? c->own.nnz : 2 * limit;

    s->k = limit;
    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, ss_arena_bound(c->x.type, limit)) !=
            SS_OK ||
        ss_stream_reserve(&c->x, &s->received, 0, limit) != SS_OK ||
        ss_stream_reserve(&c->x, &s->current, 1, merged) != SS_OK ||
        ss_stream_reserve(&c->x, &s->spare, 2, merged) != SS_OK || reserve_left(c, merged) != SS_OK)
        return SS_ERR_MEMORY;
    s->received.capacity = limit;
    c->claims.own_error = NULL; /* the own stream itself is not rounded */
    if (c->own.nnz > 0) {       /* an empty stream has no memory */
        memcpy(s->current.idx, c->own.idx, c->own.nnz * sizeof *c->own.idx);
        memcpy(s->current.val, c->own.val, c->own.nnz * c->x.esize);
    }
    s->current.nnz = c->own.nnz;
    cut(c, true);
    return SS_OK;
}

/* Books the entries of `left` whose index arrived; the claims on all other indices return whole.
 * Leaves out partial sums that overflowed. */
static void book(struct ss_coll *c)
{
    struct state *s = c->state;
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

static void combine(struct ss_coll *c)
{
    const struct state *s = c->state;
    bool round = s->doubling.in.phase == SS_PHASE_REDUCE;

    if (!round || s->doubling.round == 0)
        drop_rounded(c);
    merge(c, !round || serves(s));
}

static void forget(struct ss_coll *c)
{
    struct state *s = c->state;

    s->current.nnz = 0;
}

static void finish(struct ss_coll *c)
{
    const struct state *s = c->state;

    if (s->doubling.fold.position < 0)
        merge(c, false); /* receives the result */
    if (c->x.failed < 0)
        return;
    ss_claims_find_global(c, s->current.idx, s->current.nnz);
    book(c);
    ss_result_set_stream(c, &s->current);
    c->result_nnz = s->current.nnz;
}

static const struct ss_doubling_parts parts = {start,   take_chunk, take_chunk, send,
                                               combine, forget,     finish};

static int step(struct ss_coll *c)
{
    struct state *s = c->state;

    return ss_doubling_step(c, &s->doubling, &parts);
}

/* ---- the definition ---- */

/* Estimates rounds of recursive doubling with at most k entries. Finding the k largest sums takes
 * about as long as adding them. */
static struct ss_estimate cost_gtopk(const struct ss_shape *s, const struct ss_history *h)
{
    struct ss_estimate e = {0};
    struct ss_fold fold = ss_fold_of(0, s->size);
    int rounds = ss_fold_rounds(&fold) + (fold.rem > 0 ? 2 : 0);
    double nnz = ss_min((double)s->k, (double)s->nnz_sum);

    (void)h;
    for (int i = 0; i < rounds; i++) {
        bool fold_in = fold.rem > 0 && i == 0;
        enum ss_values values = i == 0 ? s->values : SS_VALUES_SAME; /* sums are not rounded */
        double bytes = ss_cost_bytes_as(s, values, nnz, (double)s->n);
        e.bytes += fold_in ? 0 : bytes;
        e.wire += s->alpha + s->beta * bytes * (fold_in && fold.rem % 2 ? 2 : 1);
        e.serial += (2 * s->code + 4 * s->merge) * nnz;
    }
    e.serial += ss_cost_put(s, nnz);
    return e;
}

/* Counts messages, the received stream, two merged streams, magnitudes and `left`. */
static double memory(const struct ss_shape *s)
{
    double entry = 4 + (double)ss_type_size(s->type), most = (double)s->nnz_max;
    /* entries of a stream before it is cut */
    double kept = ss_min((double)s->k, (double)s->nnz_sum);
    double merged = ss_max(2 * kept, most);

    return ss_memory_own(s) + (1.1 + 1 + 2 * 2) * kept * entry + merged * 8 +
           (most + merged) * entry + ss_memory_claims(s, SS_VALUES_SAME, 0, true);
}

const struct ss_algorithm_def ss_algorithm_gtopk = {
    .global = true,
    .cost = cost_gtopk,
    .memory = memory,
    .state = sizeof(struct state),
    .step = step,
};
