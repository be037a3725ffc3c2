/* What the parts of the planner of merged calls share: merging.c the model and the simple policies,
 * merging_algorithm1.c the paper's, merging_search.c the optimum. */
#ifndef CORE_PLAN_MERGING_IMPL_H
#define CORE_PLAN_MERGING_IMPL_H

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
double ss_merging_extra(const struct ss_merging_costs *costs, double elements);

/* The same with them. */
double ss_merging_select(const struct ss_merging_costs *costs, double calls, double elements);

/* Begin of the data on the link and with it the end of an exchange of `entries` that is ready,
 * after the one that ends at `last` and the one, `flight` before it, that ends at `slot`. */
double ss_merging_exchange(const struct ss_merging_costs *costs, double ready, double slot,
                           double last, double entries);

/* Fill plan->ends and plan->groups. The search begins with what is in the plan and leaves it where
 * nothing ends earlier; its return value is the bound. */
void ss_merging_algorithm1(const struct ss_merging_step *step, const struct ss_merging_work *work,
                           struct ss_merging_plan *plan);
double ss_merging_search(const struct ss_merging_step *step, const struct ss_merging_work *work,
                         struct ss_merging_plan *plan);

#endif
