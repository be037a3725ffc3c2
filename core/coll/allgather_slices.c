/* Allgather of slices: what SparCML's coordinate descent sends (section 8.2), the entries of each
 * rank's dense slice to all others. The own slice enters the result as it is cleared. */
#include "core/coll/coll.h"

enum { START, GATHER };

int ss_slices_step(struct ss_coll *c)
{
    if (c->step == START) {
        size_t arena = ss_arena_bound(c->x.type, c->own.nnz);
        if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, arena) != SS_OK)
            ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_GATHER);
        c->u.split.part = c->own;
        ss_gather_start(c, false);
        c->step = GATHER;
    }
    return ss_gather_step(c);
}
