/* Reduce_scatter is the first phase of split_allgather (SparCML section 5.3.2). Reduce does the
 * same, then sends each reduced part to the root, as in Rabenseifner 2004.
 *
 * Cost on the wire: A + beta e k (P-1)/P for reduce_scatter, beta e U(P) (P-1)/P more for reduce,
 * with
 *
 *     A    alpha (1 + 0.1 (P-2)), for P - 1 messages at once
 *     e    bytes of an entry
 *     k    entries of an input
 *     U(P) entries of the union of all inputs
 */
#include "core/coll/algorithms.h"
#include "core/coll/coll.h"
#include "core/plan/cost.h"

struct scatter {
    bool started;
    struct ss_split split;
};
_Static_assert(sizeof(struct scatter) <= SS_COLL_STATE, "room for the state");

static int step_reduce_scatter(struct ss_coll *c)
{
    struct scatter *s = c->state;

    if (!s->started && ss_split_reserve_slices(c) != SS_OK)
        ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
    s->started = true;
    return ss_split_step(c, &s->split);
}

static int step_reduce(struct ss_coll *c)
{
    return ss_split_gather_step(c, c->state, SS_GATHER_TO_ROOT);
}

/* ---- the definitions ---- */

static struct ss_estimate cost_reduce_scatter(const struct ss_shape *s, const struct ss_history *h)
{
    (void)h;
    return ss_cost_split(s);
}

/* All parts share the root's link. */
static struct ss_estimate cost_reduce(const struct ss_shape *s, const struct ss_history *h)
{
    struct ss_estimate e = ss_cost_split(s);
    int others = s->size - 1;
    double whole = ss_plan_union(s, h, s->size), part_n = (double)s->n / s->size;
    double part = ss_min(part_n, whole / s->size * ss_cost_skew(s));

    e.bytes += ss_cost_stream_bytes(s, part, part_n);
    e.wire += ss_cost_fan(s, others) +
              s->beta * others * ss_cost_stream_bytes(s, whole / s->size, part_n);
    e.overlap = ss_cost_take(s, whole, others);
    e.serial += ss_cost_compact(s, part, part_n);
    return e;
}

/* Counts the own stream and its messages. */
static double memory_reduce_scatter(const struct ss_shape *s)
{
    return ss_memory_own(s) + ss_memory_sent(s);
}

/* Counts the own stream, its messages, the reduced part (dense), its entries and their messages. */
static double memory_reduce(const struct ss_shape *s)
{
    double size = (double)ss_type_size(s->type), part = (double)s->part_n + 16;

    return memory_reduce_scatter(s) + part * size +
           2.1 * ss_min(part, (double)s->nnz_sum) * (4 + size);
}

const struct ss_algorithm_def ss_algorithm_reduce_scatter = {
    .cost = cost_reduce_scatter,
    .memory = memory_reduce_scatter,
    .state = sizeof(struct scatter),
    .step = step_reduce_scatter,
};

const struct ss_algorithm_def ss_algorithm_reduce = {
    .cost = cost_reduce,
    .memory = memory_reduce,
    .state = sizeof(struct ss_split_gather),
    .step = step_reduce,
};
