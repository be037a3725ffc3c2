/* Allgather of slices, as in SparCML's coordinate descent (section 8.2): each rank sends the
 * entries of its dense slice to all others. The own slice is copied when the result is cleared.
 *
 * Cost on the wire: A + beta e k (P-1), with
 *
 *     A    alpha (1 + 0.1 (P-2)), for P - 1 messages at once
 *     e    bytes of an entry
 *     k    entries of the fullest slice
 */
#include "core/coll/algorithms.h"
#include "core/coll/coll.h"
#include "core/plan/cost.h"

struct state {
    bool started;
    struct ss_gather gather;
};
_Static_assert(sizeof(struct state) <= SS_COLL_STATE, "room for the state");

static void start(struct ss_coll *c, struct ss_gather *g)
{
    size_t arena = ss_arena_bound(c->x.type, c->own.nnz);

    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, arena) != SS_OK)
        ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_GATHER);
    ss_gather_start(c, g, &c->own);
}

static int step(struct ss_coll *c)
{
    struct state *s = c->state;

    if (!s->started)
        start(c, &s->gather);
    s->started = true;
    return ss_gather_step(c, &s->gather);
}

/* ---- the definition ---- */

/* Each rank sends its slice to all others without rounding. */
static struct ss_estimate cost_slices(const struct ss_shape *s, const struct ss_history *h)
{
    int others = s->size - 1;
    double slice = ss_max((double)s->n / s->size, (double)s->nnz_max);
    double bytes = others * ss_cost_stream_bytes(s, (double)s->nnz_max, slice);

    (void)h;
    return (struct ss_estimate){.wire = ss_cost_fan(s, others) + s->beta * bytes,
                                .overlap = ss_cost_take(s, (double)s->nnz_sum, others),
                                .serial = s->code * (double)s->nnz_max,
                                .bytes = bytes};
}

/* Counts the own stream and its messages. */
static double memory(const struct ss_shape *s)
{
    return ss_memory_own(s) + ss_memory_sent(s);
}

const struct ss_algorithm_def ss_algorithm_slices = {
    .cost = cost_slices,
    .memory = memory,
    .state = sizeof(struct state),
    .step = step,
};
