/* SSAR_Split_allgather (SparCML section 5.3.2): split and reduce, then allgather of the sparse
 * parts. */
#include "core/coll/coll.h"

enum { START, REDUCE, GATHER = 3 };

int ss_split_allgather_step(struct ss_coll *c)
{
    switch (c->step) {
    case START:
        if (ss_split_reserve(c, false) != SS_OK)
            ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
        /* fall through */
    case REDUCE:
        if (ss_split_reduce_step(c) == SS_PENDING)
            return SS_PENDING;
        ss_split_harvest(c);
        ss_gather_start(c, false);
        c->step = GATHER;
        /* fall through */
    default:
        return ss_gather_step(c);
    }
}
