/* SSAR_Split_allgather (SparCML section 5.3.2): splits and reduces, then gathers the sparse parts.
 *
 * Cost on the wire: 2 A + beta e (k (P-1)/P + U(P) (P-1)/P), with
 *
 *     A    alpha (1 + 0.1 (P-2)), for P - 1 messages at once
 *     e    bytes of an entry
 *     k    entries of an input
 *     U(P) entries of the union of all inputs
 *
 * If entries crowd in some parts, the ranks divide the index space by its entries first
 * (core/coll/balanced_parts.c).
 */
#include "core/coll/algorithms.h"
#include "core/coll/coll.h"
#include "core/plan/cost.h"

static int step(struct ss_coll *c)
{
    return ss_split_gather_step(c, c->state, SS_GATHER_SPARSE);
}

/* ---- the definition ---- */

static struct ss_estimate cost_split_allgather(const struct ss_shape *s, const struct ss_history *h)
{
    const struct ss_shape even = ss_cost_divided(s);
    struct ss_estimate e = ss_cost_split(&even);
    int others = s->size - 1;
    double whole = ss_plan_union(s, h, s->size), part_n = (double)s->n / s->size;
    double part = ss_min(part_n, whole / s->size * ss_cost_skew(&even));
    double bytes = others * ss_cost_stream_bytes(s, part, part_n);

    e.bytes += bytes;
    e.wire += ss_cost_fan(s, others) + s->beta * bytes + (s->balanced ? ss_cost_balance(s) : 0);
    e.overlap = ss_cost_take(s, whole, others) + ss_cost_rounding_there(s, s->values, 0, whole);
    e.serial += ss_cost_compact(s, part, part_n);
    return e;
}

static double memory(const struct ss_shape *s)
{
    double entry = 4 + (double)ss_type_size(s->type), reduced = ss_memory_part(s);

    return ss_memory_own(s) + ss_memory_sent(s) + 2.1 * reduced * entry +
           ss_memory_claims(s, s->values, reduced, false);
}

const struct ss_algorithm_def ss_algorithm_split_allgather = {
    .elementwise = true,
    .in_backend = true,
    .cost = cost_split_allgather,
    .memory = memory,
    .state = sizeof(struct ss_split_gather),
    .step = step,
};
