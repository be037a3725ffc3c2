/* Reduce_scatter: the first phase of split_allgather (SparCML section 5.3.2). Reduce: the same, and
 * each reduced part goes to the root, as in Rabenseifner 2004. */
#include "core/coll/coll.h"

enum { START, REDUCE, GATHER = 3 };

int ss_reduce_scatter_step(struct ss_coll *c)
{
    if (c->step == START && ss_split_reserve_slices(c) != SS_OK)
        ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
    return ss_split_reduce_step(c);
}

int ss_reduce_step(struct ss_coll *c)
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
        ss_gather_start_to(c, c->root);
        c->step = GATHER;
        /* fall through */
    default:
        return ss_gather_step(c);
    }
}
