/* Which calls of a step go together. A step is a period of the sequence of calls that may merge;
 * the sequence is the same on all ranks. The ranks measure how far apart calls begin and agree on
 * that beside the vote of one call in many steps, so that all of them make the same plan. With
 * MERGE=<bytes> each part has so many bytes, counted from the begin of the step. With MERGE=auto
 * some steps go in the groups of core/plan/merging.h and some with each call alone, and what the
 * slowest rank took less time for stays. */
#ifndef CORE_CALL_GROUP_PLAN_H
#define CORE_CALL_GROUP_PLAN_H

#include "core/call/call_impl.h"

struct ss_group_plan;

/* NULL without memory. */
struct ss_group_plan *ss_group_plan_create(const struct ss_comm *comm);
void ss_group_plan_free(struct ss_group_plan *p);

struct ss_group_cut {
    bool planned;      /* a plan holds */
    bool begins, ends; /* a part begins, or ends, with the call */
};
/* Takes in the next call that may merge, once it has its number. A call that plans begins a part
 * and has call->plans set. */
struct ss_group_cut ss_group_plan_next(struct ss_group_plan *p, struct ss_call *call);
/* Notes the seconds of the call's selection, and the entries that its vote found. */
void ss_group_plan_selected(struct ss_group_plan *p, const struct ss_call *call);
void ss_group_plan_voted(struct ss_group_plan *p, const struct ss_call *call);

/* The agreement of a call that plans, after its vote. Step returns SS_PENDING or SS_OK. */
void ss_group_plan_start(struct ss_group_plan *p, const struct ss_call *call,
                         struct ss_exchange *x);
int ss_group_plan_step(struct ss_group_plan *p, struct ss_exchange *x);

#endif
