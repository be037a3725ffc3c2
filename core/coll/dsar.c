/* DSAR_Split_allgather (SparCML section 5.3.3): splits and reduces sparse streams, then gathers the
 * parts as dense vectors.
 *
 * Cost on the wire: 2 A + beta (e k (P-1)/P + b N (P-1)/P), with
 *
 *     A    alpha (1 + 0.1 (P-2)), for P - 1 messages at once
 *     e    bytes of an entry
 *     k    entries of an input
 *     b    bytes of a dense value
 */
#include "core/coll/algorithms.h"
#include "core/coll/coll.h"
#include "core/plan/cost.h"

static int step(struct ss_coll *c)
{
    return ss_split_gather_step(c, c->state, SS_GATHER_DENSE);
}

/* ---- the definition ---- */

static struct ss_estimate cost_dsar(const struct ss_shape *s, const struct ss_history *h)
{
    struct ss_estimate e = ss_cost_split(s);
    int others = s->size - 1;
    double part_n = (double)s->n / s->size;
    double elements = others * part_n;
    double bytes = elements * ss_values_bytes(s->type, s->values, s->bucket);

    (void)h;
    e.bytes += bytes;
    e.wire += ss_cost_fan(s, others) + s->beta * bytes;
    e.serial += ss_cost_cross(s, part_n * (double)ss_type_size(s->type));
    e.overlap = (2 * s->fill + s->backend.cross) * elements * (double)ss_type_size(s->type) +
                ss_cost_rounding(s, s->values, part_n, elements);
    return e;
}

static double memory(const struct ss_shape *s)
{
    double entry = 4 + (double)ss_type_size(s->type), part = (double)s->n / s->size + 16;

    return ss_memory_own(s) + ss_memory_sent(s) + 1.1 * part * entry +
           ss_memory_claims(s, s->values, part, false);
}

const struct ss_algorithm_def ss_algorithm_dsar = {
    .elementwise = true,
    .in_backend = true,
    .cost = cost_dsar,
    .memory = memory,
    .state = sizeof(struct ss_split_gather),
    .step = step,
};
