/* MERGE: what a planned step takes, as measured beside what the plan predicts. Times are of
 * the transport's clock, in seconds. */
#ifndef CORE_CALL_GROUP_TIMES_H
#define CORE_CALL_GROUP_TIMES_H

#include "core/report/stats.h"

enum { SS_PERIODS_KEPT = 16 };

/* Of a communicator. Zero: nothing is measured. */
struct ss_group_times {
    double begun;       /* the step under way, 0: none */
    double ended;       /* the last of its calls that has */
    unsigned under_way; /* calls between their vote and their end, */
    double since;       /* where there are any */
    uint64_t waited;    /* when the first step began: as struct ss_stats has it */
    struct ss_measured_step sum;
    double periods[SS_PERIODS_KEPT];
    double communication; /* in which some call was under way, of those steps; */
    double of_step;       /* of the one under way */
};

/* A plan takes effect with a call that begins at `now`. Stop: none holds any more. */
void ss_group_times_start(struct ss_group_times *t, struct ss_stats *stats, double now);
void ss_group_times_stop(struct ss_group_times *t);
/* A call begins: the program's own time since the one before, and selection in that. */
void ss_group_times_next(struct ss_group_times *t, struct ss_stats *stats, double now, double gap,
                         double selected, bool first_of_step);
/* Seconds from one step to the next, the median of the last SS_PERIODS_KEPT; 0: none is measured
 * yet. What the program waits for is in them, whatever it does between steps. */
double ss_group_times_period(const struct ss_group_times *t);
/* The vote of a call is cast; the call is over. */
void ss_group_times_cast(struct ss_group_times *t, double now);
void ss_group_times_over(struct ss_group_times *t, double now);

#endif
