/* Allgather of the sparse inputs (TopkA of the Ok-Topk paper, section 2). Every rank adds them up
 * in the result, in rank order.
 *
 * Cost on the wire: A + beta e k (P-1), with
 *
 *     A    alpha (1 + 0.1 (P-2)), for P - 1 messages at once
 *     e    bytes of an entry
 *     k    entries of the largest input
 *
 * If all ranks share memory, they use core/coll/shared_allgather.c instead of messages.
 */
#include "core/coll/algorithms.h"
#include "core/coll/coll.h"
#include "core/plan/cost.h"

static void add_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                      const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);

    (void)in, (void)src, (void)msg, (void)len;
    ss_result_add(c, chunk);
}

static void add_own(struct ss_exchange *x)
{
    struct ss_coll *c = ss_coll_of(x);
    ss_result_add_stream(c, &c->own);
}

struct state {
    bool started;
    struct ss_gather gather;
    struct ss_sharing sharing;
};
_Static_assert(sizeof(struct state) <= SS_COLL_STATE, "room for the state");

static void start(struct ss_coll *c, struct ss_gather *g)
{
    int rank = c->x.t->rank, size = c->x.t->size;
    size_t arena = ss_arena_bound(c->x.type, c->own.nnz);

    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, arena) != SS_OK)
        ss_fail(&c->x, SS_ERR_MEMORY, rank, SS_PHASE_GATHER);
    ss_in_start_ordered(&c->x, &g->in, SS_PHASE_GATHER, add_chunk, add_own);
    g->in.coded_too = true;
    ss_out_stream(&g->out, c->own, SS_PHASE_GATHER, 0, (rank + 1) % size, size - 1);
    ss_claims_round_own(c, &g->out);
    if (g->out.rounding) /* before its own turn, so that all ranks add the rounded values */
        ss_out_encode_ahead(&c->x, &g->out);
}

static int step(struct ss_coll *c)
{
    struct state *s = c->state;

    if (c->shared)
        return ss_sharing_step(c, &s->sharing);
    if (!s->started)
        start(c, &s->gather);
    s->started = true;
    return ss_gather_step(c, &s->gather);
}

/* ---- the definition ---- */

/* Returns the estimate in shared memory, where all work is the ranks' own. Without measured times
 * (s->learn) the plan counts on messages: runs then repeat even if one of them has no such
 * memory. */
static struct ss_estimate cost_shared(const struct ss_shape *s)
{
    const double bytes = (double)s->nnz_max * (4 + (double)ss_type_size(s->type));

    return (struct ss_estimate){.wire = 2 * s->alpha_inside,
                                .serial = s->merge * (double)(s->nnz_max + s->nnz_sum),
                                .bytes = bytes};
}

static struct ss_estimate cost_allgather(const struct ss_shape *s, const struct ss_history *h)
{
    int others = s->size - 1;
    double bytes = others * ss_cost_stream_bytes(s, (double)s->nnz_max, (double)s->n);

    (void)h;
    if (s->shared && s->learn)
        return cost_shared(s);
    return (struct ss_estimate){
        .wire = ss_cost_fan(s, others) + s->beta * bytes,
        .overlap = ss_cost_take(s, (double)s->nnz_sum, s->size) +
                   ss_cost_rounding_there(s, s->values, 0, (double)s->nnz_sum),
        .serial = ss_cost_leave(s, (double)s->nnz_max) +
                  ss_cost_rounding_there(s, s->values, (double)s->nnz_max, 0),
        .bytes = bytes};
}

static double memory(const struct ss_shape *s)
{
    return ss_memory_own(s) + ss_memory_sent(s) + ss_memory_claims(s, SS_VALUES_SAME, 0, false);
}

const struct ss_algorithm_def ss_algorithm_allgather = {
    .elementwise = true,
    .in_backend = true,
    .cost = cost_allgather,
    .memory = memory,
    .state = sizeof(struct state),
    .step = step,
};
