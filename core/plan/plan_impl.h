/* What the parts of the plan share: plan.c the cost model, plan_choice.c the choice. */
#ifndef CORE_PLAN_PLAN_IMPL_H
#define CORE_PLAN_PLAN_IMPL_H

#include "core/plan/plan.h"

/* Fills seconds and bytes of all algorithms; returns whether memory rules one out that is predicted
 * to be faster than dense. */
bool ss_plan_predict(const struct ss_shape *shape, const struct ss_history *history,
                     struct ss_plan *plan);

#endif
