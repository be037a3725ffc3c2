/* Splits and reduces, then gathers the reduced parts: shared by split_allgather, dsar and
 * reduce. */
#include "core/coll/coll.h"

_Static_assert(sizeof(struct ss_split_gather) <= SS_COLL_STATE, "room for the state");

enum { BALANCE, START, REDUCE, COMPACT, GATHER };

/* Sets the borders of balanced parts. If the call has failed, the parts stay equal: only error
 * headers are sent. */
static void set_parts(struct ss_coll *c, const struct ss_balance *b)
{
    const int rank = c->x.t->rank;

    if (c->x.failed < 0)
        return;
    c->bounds = b->bounds;
    c->part_most = ss_balance_room(b, ss_coll_part(c, rank), ss_coll_part(c, rank + 1)) + 1;
}

static void start_gather(struct ss_coll *c, struct ss_split_gather *s, enum ss_gathering how)
{
    if (s->compact.seen.stored < s->compact.seen.nnz) /* more than the vote announced */
        ss_fail(&c->x, SS_ERR_MESSAGE, c->x.t->rank, SS_PHASE_REDUCE);
    if (how == SS_GATHER_TO_ROOT)
        ss_gather_start_to(c, &s->gather, &s->part, c->root);
    else
        ss_gather_start(c, &s->gather, how == SS_GATHER_DENSE ? NULL : &s->part);
}

int ss_split_gather_step(struct ss_coll *c, struct ss_split_gather *s, enum ss_gathering how)
{
    switch (s->step) {
    case BALANCE:
        if (how == SS_GATHER_SPARSE && c->voted.balanced) {
            if (ss_balance_step(c, &s->balance, c->x.t->size) == SS_PENDING)
                return SS_PENDING;
            set_parts(c, &s->balance);
        }
        s->step = START;
        /* fall through */
    case START:
        if (ss_split_reserve(c, how == SS_GATHER_DENSE ? NULL : &s->part) != SS_OK)
            ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
        s->step = REDUCE;
        /* fall through */
    case REDUCE:
        if (ss_split_step(c, &s->split) == SS_PENDING)
            return SS_PENDING;
        if (how != SS_GATHER_DENSE)
            ss_compact_start(c, &s->compact, &s->part);
        s->step = COMPACT;
        /* fall through */
    case COMPACT:
        if (how != SS_GATHER_DENSE && !ss_compact_step(c, &s->compact, &s->part))
            return SS_PENDING;
        start_gather(c, s, how);
        s->step = GATHER;
        /* fall through */
    default:
        return ss_gather_step(c, &s->gather);
    }
}
