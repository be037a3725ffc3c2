/* Allgather of the sparse inputs (TopkA of the Ok-Topk paper, section 2), summed by every rank in
 * rank order in the result. */
#include "core/coll/coll.h"

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

enum { START, EXCHANGE };

int ss_allgather_step(struct ss_coll *c)
{
    struct ss_gather_state *g = &c->u.gather;
    int rank = c->x.t->rank, size = c->x.t->size;

    if (c->step == START) {
        size_t arena = ss_arena_bound(c->x.type, c->own.nnz);
        if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, arena) != SS_OK)
            ss_fail(&c->x, SS_ERR_MEMORY, rank, SS_PHASE_GATHER);
        ss_in_start_ordered(&c->x, &g->in, SS_PHASE_GATHER, add_chunk, add_own);
        ss_out_stream(&g->out, c->own, SS_PHASE_GATHER, 0, (rank + 1) % size, size - 1);
        ss_claims_round_own(c, &g->out);
        if (g->out.rounding) /* before its own turn: all add the rounded values */
            ss_out_encode_ahead(&c->x, &g->out);
        c->step = EXCHANGE;
    }
    return ss_gather_step(c);
}
