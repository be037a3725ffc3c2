/* Algorithm 1 of the OMGS-SGD paper as printed: from the first call to arrive to the last but one,
 * merge a call into the next where that lets the next one's exchange end earlier (Q3 and Q5: eq.
 * 24, 25, from the gains of eq. 21 and 22 and of case C3; eq. 20 rules the fourth case out where
 * costs per group grow faster than the elements). It minimises the end of the next exchange, not of
 * the last, and looks at two calls at a time; so it is not always the optimum that Theorem 1
 * promises.
 *
 * The print works all times out anew after each merge (lines 10 and 12); here a layer's are worked
 * out when it is looked at, from those of the layer before, which no later merge changes. Where it
 * leaves a choice: a merged layer costs nothing (eq. 13), although line 22 gives it alpha by line
 * 18; Q3 is that of section IV.A (with the paper's costs, Q5 implies it). */
#include "core/plan/merging_impl.h"

/* The layer at hand with those merged into it. The paper's d is elements and entries here. */
struct layer {
    double tau_b, t_b; /* begin of its gradients' computation, how long that takes */
    double calls, elements, entries;
};

static double tkpm(const struct ss_merging_costs *costs, const struct layer *l)
{
    return ss_merging_select(costs, l->calls, l->elements);
}

static double agpm(const struct ss_merging_costs *costs, const struct layer *l)
{
    return costs->exchange + costs->entry * l->entries;
}

/* Call i alone; it begins where the layer before left off. */
static struct layer layer_of(const struct ss_merging_step *step, uint32_t i, double tau_b)
{
    const struct ss_merging_call *call = &step->calls[i];

    return (struct layer){.tau_b = tau_b,
                          .t_b = call->arrival - (i > 0 ? call[-1].arrival : 0),
                          .calls = 1,
                          .elements = (double)call->elements,
                          .entries = (double)call->entries};
}

/* Lines 37 to 41: eq. 13 to 15. */
static struct layer merge(const struct layer *l, const struct layer *next)
{
    return (struct layer){.tau_b = l->tau_b,
                          .t_b = l->t_b + next->t_b,
                          .calls = l->calls + next->calls,
                          .elements = l->elements + next->elements,
                          .entries = l->entries + next->entries};
}

/* Lines 5 to 8; tau_c: when the exchange of l would begin. */
static bool is_merged_layer(const struct ss_merging_costs *costs, const struct layer *l,
                            const struct layer *next, double tau_c)
{
    const struct layer both = merge(l, next);
    double mu = l->tau_b + l->t_b + next->t_b;
    bool q3 = mu + tkpm(costs, l) + tkpm(costs, next) < tau_c + agpm(costs, l);
    bool q5 = tau_c + costs->exchange > mu + tkpm(costs, &both);

    return q3 && q5;
}

void ss_merging_algorithm1(const struct ss_merging_step *step, struct ss_merging_plan *plan)
{
    const struct ss_merging_costs *costs = &step->costs;
    struct layer l = layer_of(step, 0, 0);
    double exchanged = 0; /* tau_c + t_c of the layer before */

    plan->groups = 0;
    for (uint32_t i = 0; i < step->count; i++) {
        double selected = l.tau_b + l.t_b + tkpm(costs, &l);
        double tau_c = ss_merging_max(exchanged, selected);
        if (i + 1 < step->count) {
            struct layer next = layer_of(step, i + 1, selected);
            if (is_merged_layer(costs, &l, &next, tau_c)) {
                l = merge(&l, &next);
                continue;
            }
            exchanged = tau_c + agpm(costs, &l);
            l = next;
        }
        plan->ends[plan->groups++] = i + 1;
    }
}
