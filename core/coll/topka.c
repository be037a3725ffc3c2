/* Allgather of the sparse inputs (TopkA of the Ok-Topk paper, section 2), summed by every rank in
 * rank order in the result. */
#include "core/call/call_impl.h"

static void add_chunk(struct ss_call *c, struct ss_in *in, int src, const struct ss_chunk *chunk,
                      const void *msg, size_t len)
{
    (void)in, (void)src, (void)msg, (void)len;
    ss_result_add(c, chunk);
}

static void add_own(struct ss_call *c)
{
    ss_result_add_stream(c, &c->own);
}

enum { START, EXCHANGE };

int ss_allgather_step(struct ss_call *c)
{
    struct ss_gather_state *g = &c->u.gather;
    int rank = c->t->rank, size = c->t->size;

    if (c->step == START) {
        size_t arena = ss_flow_arena_bound(c->type, c->own.nnz);
        if (ss_buf_reserve_voted(&c->work->arena, c->comm->mem, arena) != SS_OK)
            ss_fail(c, SS_ERR_MEMORY, rank, SS_PHASE_GATHER);
        ss_in_start_ordered(c, &g->in, SS_PHASE_GATHER, add_chunk, add_own);
        ss_out_stream(&g->out, c->own, SS_PHASE_GATHER, 0, (rank + 1) % size, size - 1);
        ss_out_round_own(c, &g->out);
        if (g->out.rounding) /* before its own turn: all add the rounded values */
            ss_out_encode_ahead(c, &g->out);
        c->step = EXCHANGE;
    }
    return ss_gather_step(c);
}
