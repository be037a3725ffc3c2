/* Plans of groups. A step is a period of the sequence of calls that may merge, which is the same on
 * all ranks. The ranks measure the time between calls. After the vote of one call in many steps,
 * the ranks agree on these times, so that all ranks make the same plan.
 *
 * With MERGE=<bytes> each part has so many bytes, counted from the begin of the step. With
 * MERGE=auto some steps use the groups of core/plan/merging.h, and some steps send each call alone.
 * The faster way stays, by the times of the slowest rank.
 */
#ifndef CORE_CALL_GROUP_PLAN_H
#define CORE_CALL_GROUP_PLAN_H

#include "core/feedback/feedback.h"

struct ss_group_plan;

/* Returns NULL without memory. */
struct ss_group_plan *ss_group_plan_create(const struct ss_comm *comm);
void ss_group_plan_free(struct ss_group_plan *p);

struct ss_group_cut {
    bool planned;      /* a plan holds */
    bool begins, ends; /* a part begins, or ends, with the call */
    bool plans;        /* the call agrees on a plan after its vote */
    uint32_t position; /* position in the period, SS_MERGED: there is no period */
};
/* Takes in the next call that may merge, once it has its number. A call that plans begins a part
 * and agrees on a plan after its vote. */
struct ss_group_cut ss_group_plan_next(struct ss_group_plan *p, const struct ss_feedback *f);
/* Notes the seconds of a call's selection; the most entries of a rank, as the call's vote found
 * them. */
void ss_group_plan_selected(struct ss_group_plan *p, const struct ss_exchange *x);
void ss_group_plan_voted(struct ss_group_plan *p, uint32_t position, uint64_t entries);

/* Agree on a plan after the vote of a call that plans. ss_group_plan_step returns SS_PENDING or
 * SS_OK. */
void ss_group_plan_start(struct ss_group_plan *p, const struct ss_feedback *f,
                         struct ss_exchange *x);
int ss_group_plan_step(struct ss_group_plan *p, struct ss_exchange *x);

#endif
