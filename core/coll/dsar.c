/* DSAR_Split_allgather (SparCML section 5.3.3): split and reduce as sparse streams, then allgather
 * of the parts as dense vectors. */
#include "core/coll/coll.h"

enum { START, REDUCE, GATHER = 3 };

int ss_dsar_step(struct ss_coll *c)
{
    switch (c->step) {
    case START:
        if (ss_split_reserve(c, true) != SS_OK)
            ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
        /* fall through */
    case REDUCE:
        if (ss_split_reduce_step(c) == SS_PENDING)
            return SS_PENDING;
        ss_gather_start(c, true);
        c->step = GATHER;
        /* fall through */
    default:
        return ss_gather_step(c);
    }
}
