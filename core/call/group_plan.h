/* Which calls of a step go together. The step is a period of the sequence of calls that may merge,
 * which is the same on all ranks; how far apart they begin is measured, agreed on beside the vote
 * of one call in many steps, and planned for alike everywhere. With MERGE=<bytes> parts have so
 * many from the step's begin on. With MERGE=auto core/plan/merging.h plans; what a model says of
 * hosts that it has not seen is tried: several plans in turn, of which the one stays whose steps
 * end soonest, by the slowest rank. */
#ifndef CORE_CALL_GROUP_PLAN_H
#define CORE_CALL_GROUP_PLAN_H

#include "core/call/call_impl.h"
#include "core/plan/merging.h"

struct ss_group_plan;

/* NULL without memory. */
struct ss_group_plan *ss_group_plan_create(const struct ss_comm *comm);
void ss_group_plan_free(struct ss_group_plan *p);

struct ss_group_cut {
    bool planned;      /* a plan holds */
    bool begins, ends; /* a part begins, or ends, with the call */
};
/* The next call that may merge has got its number; one that plans begins a part and has call->plans
 * set. */
struct ss_group_cut ss_group_plan_next(struct ss_group_plan *p, struct ss_call *call);
/* It has been selected from; it has been voted on. */
void ss_group_plan_selected(struct ss_group_plan *p, const struct ss_call *call);
void ss_group_plan_voted(struct ss_group_plan *p, const struct ss_call *call);

/* Where a report is written: its vote is cast, which sets call->timed; one with that is over. */
void ss_group_plan_cast(struct ss_group_plan *p, struct ss_call *call);
void ss_group_plan_over(struct ss_group_plan *p, const struct ss_call *call);

/* What the planner is told of a call that was voted on, in its communicator. */
struct ss_merging_costs ss_group_costs(const struct ss_call *call);

/* The agreement of a call that plans, after its vote. Step: SS_PENDING or SS_OK. */
void ss_group_plan_start(struct ss_group_plan *p, const struct ss_call *call,
                         struct ss_exchange *x);
int ss_group_plan_step(struct ss_group_plan *p, struct ss_exchange *x);

#endif
