/* Dynamic programming over groups and calls: end[g][j] is the earliest end of the exchanges of the
 * first j calls in g groups. A group's selection ends at a time that depends on g and j only. Later
 * exchanges end no sooner if earlier ones end later. The calls behind j thus need only the least
 * end[g][j]. */
#include "core/plan/merging.h"

#include <math.h>

/* Sets ready[j] to the end of computation and selection of the first j calls, without the costs per
 * group. */
static void sum_up(const struct ss_merging_call *calls, uint32_t count,
                   const struct ss_merging_costs *costs, struct ss_merging_work *w)
{
    double elements = 0;

    w->ready[0] = w->entries[0] = w->end[0][0] = 0;
    for (uint32_t j = 0; j < count; j++) {
        elements += (double)calls[j].elements;
        w->ready[j + 1] = calls[j].arrival + costs->element * elements;
        w->entries[j + 1] = w->entries[j] + (double)calls[j].entries;
        w->end[0][j + 1] = INFINITY; /* no calls go in no group */
    }
}

/* Adds group g, which ends with call j, to the best way of g - 1 groups. */
static void add_group(struct ss_merging_work *w, const struct ss_merging_costs *costs, uint32_t g,
                      uint32_t j)
{
    const double *before = w->end[(g - 1) % 2];
    const double selected = w->ready[j] + g * costs->group;
    double *best = &w->end[g % 2][j];

    for (uint32_t i = g - 1; i < j; i++) {
        double end = (before[i] > selected ? before[i] : selected) + costs->exchange +
                     costs->entry * (w->entries[j] - w->entries[i]);
        if (i > g - 1 && end >= *best)
            continue;
        *best = end;
        w->from[g][j] = (uint16_t)i;
    }
}

void ss_merging_make(const struct ss_merging_call *calls, uint32_t count,
                     const struct ss_merging_costs *costs, struct ss_merging_work *w,
                     struct ss_merging_plan *plan)
{
    plan->groups = 0;
    sum_up(calls, count, costs, w);
    for (uint32_t g = 1; g <= count; g++) {
        for (uint32_t j = g; j <= count; j++)
            add_group(w, costs, g, j);
        if (plan->groups > 0 && w->end[g % 2][count] >= plan->seconds)
            continue;
        plan->groups = g;
        plan->seconds = w->end[g % 2][count];
    }
    for (uint32_t g = plan->groups, j = count; g > 0; j = w->from[g][j], g--)
        plan->ends[g - 1] = j;
}
