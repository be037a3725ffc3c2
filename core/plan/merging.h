/* Groups of neighbouring calls that end a step soonest (merged gradient sparsification, Shi et al.,
 * "Communication-Efficient Distributed Deep Learning with Merged Gradient Sparsification on GPUs",
 * INFOCOM 2020: OMGS-SGD). The times of a group are the paper's equations 5 to 9: selection delays
 * the computation behind it, and an exchange begins when its group is selected and the exchange
 * before it is over. The paper numbers layers against their arrival: its layer L is the first call.
 * The planner is pure, so that equal input gives equal plans on all ranks. */
#ifndef CORE_PLAN_MERGING_H
#define CORE_PLAN_MERGING_H

#include <stdint.h>

#include "core/base/choices.h"

struct ss_merging_call {
    uint64_t elements; /* elements that selection reads: the paper's d */
    uint64_t entries;  /* most entries that a rank selects and sends: rho d */
    double arrival;    /* seconds from the begin of the step, less the selections before it */
};

/* Costs in seconds. */
struct ss_merging_costs {
    double element;  /* selection, per element */
    double group;    /* processor time of a vote and an exchange, per group */
    double exchange; /* per exchange: alpha of eq. 11 */
    double entry;    /* per entry: beta of eq. 11 times its bytes */
};

struct ss_merging_plan {
    uint32_t groups;
    uint32_t ends[SS_MERGED]; /* one past the last call of each group */
    double seconds;           /* to the end of the last exchange: eq. 17 */
};

struct ss_merging_work {
    double ready[SS_MERGED + 1], entries[SS_MERGED + 1];
    double end[2][SS_MERGED + 1];
    uint16_t from[SS_MERGED + 1][SS_MERGED + 1];
};

/* Fills the plan of 1 to SS_MERGED calls, whose arrivals do not fall. If several plans end at the
 * same time, takes one with the fewest groups. Does count^3 / 6 additions. */
void ss_merging_make(const struct ss_merging_call *calls, uint32_t count,
                     const struct ss_merging_costs *costs, struct ss_merging_work *work,
                     struct ss_merging_plan *plan);

#endif
