/* What the parts of the planner of merged calls share: merging.c the model and the simple policies,
 * merging_algorithm1.c the paper's, merging_search.c the optimum. */
#ifndef CORE_PLAN_MERGING_IMPL_H
#define CORE_PLAN_MERGING_IMPL_H

#include "core/base/types.h"
#include "core/plan/merging.h"

/* Rows of count + 1 doubles of the work space. */
enum { SS_MERGING_ROWS = 13 };

/* A way to put the first `calls` calls into groups, the last of which follows the way `from`. */
struct ss_merging_way {
    double late;  /* seconds that costs per group have cost so far */
    double end;   /* of the last exchange */
    double least; /* end of the step, whatever follows */
    uint32_t from, calls;
};

struct ss_merging_work {
    double *rows[SS_MERGING_ROWS];
    struct ss_merging_way *ways; /* count * SS_MERGING_FRONT + 1 */
    uint32_t *live;              /* as many */
    uint32_t *ends;              /* count */
};

static inline double ss_merging_max(double a, double b)
{
    return a > b ? a : b;
}

/* Seconds that selection in a group takes beyond those of its calls and elements. */
static inline double ss_merging_extra(const struct ss_merging_costs *costs, double elements)
{
    double extra = costs->select_group;

    if (costs->select_sort > 0 && elements > 1)
        extra += costs->select_sort * elements * ss_log2(elements);
    return extra;
}

/* The same with them. */
static inline double ss_merging_select(const struct ss_merging_costs *costs, double calls,
                                       double elements)
{
    return costs->select_call * calls + costs->select_element * elements +
           ss_merging_extra(costs, elements);
}

/* End of an exchange that is ready, after one that ends at `last` and one, `flight` before it, that
 * ends at `slot`. */
static inline double ss_merging_exchange(const struct ss_merging_costs *costs, double ready,
                                         double slot, double last, double entries)
{
    double begin = ss_merging_max(ready, slot) + costs->exchange;

    return ss_merging_max(begin, last) + costs->entry * entries;
}

/* Fill plan->ends and plan->groups of a step of one call or more. The search begins with what is in
 * the plan and leaves it where nothing ends earlier; it returns the bound. */
void ss_merging_algorithm1(const struct ss_merging_step *step, struct ss_merging_plan *plan);
double ss_merging_search(const struct ss_merging_step *step, const struct ss_merging_work *work,
                         struct ss_merging_plan *plan);

#endif
