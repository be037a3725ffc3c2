/* Shared by the files of two_level. */
#ifndef CORE_COLL_TWO_LEVEL_H
#define CORE_COLL_TWO_LEVEL_H

#include "core/plan/plan.h"

/* core/coll/two_level_cost.c: cost and memory of struct ss_algorithm_def. */
struct ss_estimate ss_two_level_cost(const struct ss_shape *shape,
                                     const struct ss_history *history);
double ss_two_level_memory(const struct ss_shape *shape);

#endif
