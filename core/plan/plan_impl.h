/* Shared by the files of the plan: plan.c holds the cost model, plan_choice.c the choice. */
#ifndef CORE_PLAN_PLAN_IMPL_H
#define CORE_PLAN_PLAN_IMPL_H

#include "core/plan/plan.h"

/* Fills in seconds and bytes of all algorithms. Returns true if a lack of memory rules out an
 * algorithm that is predicted to be faster than dense. */
bool ss_plan_predict(const struct ss_shape *shape, const struct ss_history *history,
                     struct ss_plan *plan);

#endif
