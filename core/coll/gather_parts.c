/* Allgather of reduced parts: every rank sends its part to all others, to the next rank first, and
 * writes received parts into the result. The owner rounds its part and writes the rounded values
 * into its own result, so that all ranks have the same. */
#include "core/coll/coll.h"

static void set_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                      const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);

    (void)in, (void)msg, (void)len;
    if (ss_chunk_within(c, chunk, src))
        ss_result_set(c, chunk);
    else
        ss_fail(&c->x, SS_ERR_MESSAGE, src, SS_PHASE_GATHER);
}

void ss_gather_start(struct ss_coll *c, struct ss_gather *g, const struct ss_stream *part)
{
    int rank = c->x.t->rank, size = c->x.t->size;
    uint64_t lo = ss_coll_part(c, rank), hi = ss_coll_part(c, rank + 1);

    ss_in_start(&c->x, &g->in, SS_PHASE_GATHER, 0, (rank + size - 1) % size, size - 1, set_chunk);
    g->in.coded_too = true;
    if (!part) {
        ss_out_result(c, &g->out, lo, hi - lo, SS_PHASE_GATHER, 0, (rank + 1) % size, size - 1);
        ss_claims_round_part(c, &g->out); /* rounds in the result itself */
    } else {
        ss_out_stream(&g->out, *part, SS_PHASE_GATHER, 0, (rank + 1) % size, size - 1);
        c->result_nnz += part->nnz;
        ss_claims_round_part(c, &g->out);
        if (g->out.rounding) {
            ss_out_encode_ahead(&c->x, &g->out);
            ss_result_set_stream(c, part);
        }
    }
}

void ss_gather_start_quantized(struct ss_coll *c, struct ss_gather *g, const uint32_t *breaks,
                               void *zeros)
{
    const int rank = c->x.t->rank, size = c->x.t->size;
    const uint64_t lo = ss_coll_part(c, rank), n = ss_coll_part(c, rank + 1) - lo;

    ss_in_start(&c->x, &g->in, SS_PHASE_GATHER, 0, (rank + size - 1) % size, size - 1, set_chunk);
    g->in.quantized = true;
    ss_out_elements(&g->out, ss_out_at(c, lo), false, lo, n, SS_PHASE_GATHER, 0, (rank + 1) % size,
                    size - 1);
    ss_out_quantize_again(&g->out, c->whole.values, breaks, zeros, &g->square);
}

void ss_gather_start_to(struct ss_coll *c, struct ss_gather *g, const struct ss_stream *part,
                        int root)
{
    int rank = c->x.t->rank, size = c->x.t->size;
    bool here = rank == root;

    ss_in_start(&c->x, &g->in, SS_PHASE_GATHER, 0, (rank + size - 1) % size, here ? size - 1 : 0,
                set_chunk);
    g->in.coded_too = true;
    ss_out_stream(&g->out, *part, SS_PHASE_GATHER, 0, root, here ? 0 : 1);
    c->result_nnz += part->nnz;
}

int ss_gather_step(struct ss_coll *c, struct ss_gather *g)
{
    int sent = ss_out_step(&c->x, &g->out);
    int received = ss_in_step(&c->x, &g->in);

    return sent == SS_PENDING || received == SS_PENDING ? SS_PENDING : SS_OK;
}
