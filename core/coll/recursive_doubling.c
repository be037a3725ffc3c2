/* SSAR_Recursive_double (SparCML section 5.3.1) for any number of ranks: log2 P exchanges of whole
 * streams with the rank at distance 1, 2, 4, ... A stream that would exceed delta entries becomes
 * dense in the result (section 5.1). If P is not a power of two, the ranks beyond it hand their
 * stream to a neighbour first and get the result last.
 *
 * Inputs are rounded by their owner when they first travel; partial sums are not rounded.
 *
 * Both partners of an exchange compute lower group + higher group. The operators commute bit for
 * bit, so each partner adds the received stream to its own.
 *
 * Cost on the wire: the sum over the rounds i = 0 .. log2 P - 1 of alpha + beta e U(2^i), or of
 * alpha + 4 or 8 beta N once dense; two rounds more if ranks fold. Here
 *
 *     e    bytes of an entry
 *     U(r) entries of the union of r inputs
 */
#include "core/coll/algorithms.h"
#include "core/coll/coll.h"
#include "core/plan/cost.h"

struct state {
    struct ss_doubling doubling;
    bool dense;
    size_t delta;
    struct ss_stream current;
    struct ss_stream received;
    struct ss_stream spare; /* room for the next merge */
    struct ss_stream third;
};
_Static_assert(sizeof(struct state) <= SS_COLL_STATE, "room for the state");

static uint64_t stream_limit(const struct ss_coll *c)
{
    const struct state *s = c->state;
    uint64_t sum = c->voted.nnz_sum;

    return sum < s->delta ? sum : s->delta;
}

/* Moves the partial sum into the result, and the entries received so far; later ones follow. */
static void become_dense(struct ss_coll *c)
{
    struct state *s = c->state;

    s->dense = true;
    ss_fill_range(c, 0, c->x.n);
    ss_result_add_stream(c, &s->current);
    ss_result_add_stream(c, &s->received);
    s->current.nnz = s->received.nnz = 0;
}

static void take_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                       const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);

    struct state *s = c->state;

    (void)in, (void)msg, (void)len;
    /* If the vote promised at most delta entries in all, a longer stream is an error, which append
     * reports. */
    if (!s->dense && c->voted.nnz_sum > s->delta &&
        s->current.nnz + s->received.nnz + chunk->nnz > s->delta)
        become_dense(c);
    if (s->dense)
        ss_result_add(c, chunk);
    else
        ss_stream_append(&c->x, src, &s->received, chunk);
}

static void set_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                      const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);

    (void)in, (void)src, (void)msg, (void)len;
    ss_result_set(c, chunk);
}

/* Sends the partial sum to one rank. A stream that only this rank has added to is rounded before
 * received entries are added to it. A dense partial sum is encoded first, since received entries
 * are added to it meanwhile. */
static void send(struct ss_coll *c, enum ss_phase phase, unsigned round, int dst, bool initial)
{
    struct state *s = c->state;
    struct ss_out *out = &s->doubling.out;

    c->x.arena_used = 0; /* the sends of the round before are done */
    if (s->dense)
        ss_out_result(c, out, 0, c->x.n, phase, round, dst, 1);
    else
        ss_out_stream(out, s->current, phase, round, dst, 1);
    if (initial && !s->dense)
        ss_claims_round_own(c, out);
    if (out->rounding || (s->dense && phase == SS_PHASE_REDUCE))
        ss_out_encode_ahead(&c->x, out);
}

/* Sets current to current + received; the three stream buffers change roles. */
static void merge(struct ss_coll *c)
{
    struct state *s = c->state;
    struct ss_stream merged = s->spare;

    if (c->x.failed < 0 || s->dense || s->received.nnz == 0)
        return;
    if (s->current.nnz + s->received.nnz > merged.capacity) {
        ss_fail(&c->x, SS_ERR_MESSAGE, s->doubling.in.peers[0].rank, SS_PHASE_REDUCE);
        return;
    }
    double begin = ss_span_begin(&c->x, SS_SPAN_MERGE);
    merged.nnz = c->kernels->merge(c->x.type, c->op, s->current.idx, s->current.val, s->current.nnz,
                                   s->received.idx, s->received.val, s->received.nnz, merged.idx,
                                   merged.val);
    s->spare = s->current.idx == c->own.idx ? s->third : s->current;
    s->current = merged;
    s->received.nnz = 0;
    ss_span_end(&c->x, SS_SPAN_MERGE, begin);
}

static int start(struct ss_coll *c)
{
    struct state *s = c->state;
    uint64_t n = c->x.n;
    uint64_t limit;

    s->delta = (size_t)ss_plan_delta(n, c->x.type);
    s->current = c->own;
    limit = stream_limit(c);
    uint64_t largest = limit < c->own.nnz ? c->own.nnz : limit;
    size_t arena = ss_arena_bound(c->x.type, largest);
    if (c->voted.nnz_sum > s->delta) { /* a round may be dense */
        size_t dense = ss_arena_bound(c->x.type, n);
        if (dense > arena)
            arena = dense;
    }
    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, arena) != SS_OK ||
        ss_stream_reserve(&c->x, &s->received, 0, limit) != SS_OK ||
        ss_stream_reserve(&c->x, &s->spare, 1, limit) != SS_OK ||
        ss_stream_reserve(&c->x, &s->third, 2, limit) != SS_OK)
        return SS_ERR_MEMORY;
    if (c->own.nnz > s->delta)
        become_dense(c);
    return SS_OK;
}

/* Drops the partial sum. The result comes from the rank that took it over. */
static void forget(struct ss_coll *c)
{
    struct state *s = c->state;

    s->dense = false;
    s->current.nnz = 0;
}

static void finish(struct ss_coll *c)
{
    const struct state *s = c->state;

    if (c->x.failed < 0)
        return;
    ss_result_set_stream(c, &s->current);
    c->result_nnz += s->current.nnz;
}

static const struct ss_doubling_parts parts = {start, take_chunk, set_chunk, send,
                                               merge, forget,     finish};

static int step(struct ss_coll *c)
{
    struct state *s = c->state;

    return ss_doubling_step(c, &s->doubling, &parts);
}

/* ---- the definition ---- */

/* If ranks fold, a rank that stays sends most, but not the first message. If the number of folds is
 * odd, one of these ranks exchanges with a rank that did not fold and whose stream comes over the
 * same link at the same time. */
static struct ss_estimate cost_recursive_doubling(const struct ss_shape *s,
                                                  const struct ss_history *h)
{
    struct ss_estimate e = {0};
    struct ss_fold fold = ss_fold_of(0, s->size);
    double n = (double)s->n, delta = (double)ss_plan_delta(s->n, s->type);
    double largest = (double)s->nnz_max * s->size / ss_max(1, (double)s->nnz_sum);
    int rounds = ss_fold_rounds(&fold) + (fold.rem > 0 ? 2 : 0), group = 1;
    bool dense = (double)s->nnz_max > delta;

    for (int i = 0; i < rounds; i++) {
        bool fold_in = fold.rem > 0 && i == 0, fold_out = fold.rem > 0 && i == rounds - 1;
        double nnz = ss_plan_union(s, h, fold_out ? s->size : group);
        double bytes = n * (double)ss_type_size(s->type);
        if (i == 0)
            nnz = ss_min(n, nnz * largest);
        if (dense)
            e.serial += 3 * s->fill * bytes + 2 * ss_cost_cross(s, bytes);
        else
            e.serial += (2 * s->code + 2 * s->merge) * nnz;
        if (!dense) /* partial sums are not rounded */
            bytes = ss_cost_bytes_as(s, i == 0 ? s->values : SS_VALUES_SAME, nnz, n);
        e.bytes += fold_in ? 0 : bytes;
        e.wire += s->alpha + s->beta * bytes * (fold_in && fold.rem % 2 ? 2 : 1);
        dense = dense || 2 * nnz > delta;
        group = group * 2 < s->size ? group * 2 : s->size;
    }
    e.serial += ss_cost_put(s, ss_plan_union(s, h, s->size));
    return e;
}

static double memory(const struct ss_shape *s)
{
    double entry = 4 + (double)ss_type_size(s->type), n = (double)s->n, sum = (double)s->nnz_sum;
    double delta = (double)ss_plan_delta(s->n, s->type);

    return ss_memory_own(s) + 3 * ss_min(delta, sum) * entry +
           1.1 * (sum > delta ? n : sum) * entry + ss_memory_claims(s, SS_VALUES_SAME, 0, false);
}

const struct ss_algorithm_def ss_algorithm_recursive_doubling = {
    .elementwise = true,
    .cost = cost_recursive_doubling,
    .memory = memory,
    .state = sizeof(struct state),
    .step = step,
};
