/* SSAR_Split_allgather (SparCML section 5.3.2): split and reduce, then allgather of the sparse
 * parts. */
#include "core/call_impl.h"

/* The reduced part lies dense in the result: its non-zero entries become the stream to send. */
static void harvest(struct ss_call *c)
{
    uint64_t lo = ss_call_part(c, c->t->rank), hi = ss_call_part(c, c->t->rank + 1);
    struct ss_stream *part = &c->u.split.part;
    struct ss_scan seen;
    double begin = ss_call_now(c);

    part->nnz = 0;
    if (c->failed < 0 || lo == hi)
        return;
    c->kernels->scan(c->type, SS_SUM, c->out + lo * c->esize, (size_t)(hi - lo), (uint32_t)lo,
                     part->idx, part->val, part->capacity, &seen);
    part->nnz = seen.stored;
    if (seen.stored < seen.nnz) /* more than the vote announced */
        ss_fail(c, SS_ERR_MESSAGE, c->t->rank, SS_PHASE_REDUCE);
    c->times.merge += ss_call_now(c) - begin;
}

enum { START, REDUCE, GATHER = 3 };

int ss_split_allgather_step(struct ss_call *c)
{
    switch (c->step) {
    case START:
        if (ss_split_reserve(c, false) != SS_OK)
            ss_fail(c, SS_ERR_MEMORY, c->t->rank, SS_PHASE_REDUCE);
        /* fall through */
    case REDUCE:
        if (ss_split_reduce_step(c) == SS_PENDING)
            return SS_PENDING;
        harvest(c);
        ss_gather_start(c, false);
        c->step = GATHER;
        /* fall through */
    default:
        return ss_gather_step(c);
    }
}
