/* What the parts of the report share: report.c the job, report_lanes.c the lanes,
 * report_observe.c what mode observe tells of other settings, report_tensors.c the tensors. */
#ifndef CORE_REPORT_REPORT_IMPL_H
#define CORE_REPORT_REPORT_IMPL_H

#include <math.h>

#include "core/report/report.h"

/* NaN where there is nothing to divide by. */
static inline double ss_ratio(double part, double whole)
{
    return whole > 0 && isfinite(whole) ? part / whole : NAN;
}

/* Short forms for sentences. */
static inline struct ss_emit_value ss_v_seconds(double v)
{
    return ss_v_number(SS_V_SECONDS, v);
}

static inline struct ss_emit_value ss_v_share(double v)
{
    return ss_v_number(SS_V_SHARE, v);
}

static inline struct ss_emit_value ss_v_factor(double v)
{
    return ss_v_number(SS_V_FACTOR, v);
}

/* Calls of the lane that the MPI library did. */
static inline uint64_t ss_lane_passed(const struct ss_lane_record *lane)
{
    uint64_t sum = 0;

    for (int i = 0; i < SS_REASONS; i++)
        sum += lane->passed[i];
    return sum;
}

/* Sorts a list of lanes by bytes_dense, largest first; equal ones keep their order. Returns the new
 * head. */
struct ss_lane_record *ss_lanes_sorted(struct ss_lane_record *list);

/* The tables by lane; in mode observe predictions and advice too. */
void ss_report_lanes(struct ss_emit *emit, const struct ss_stats *stats, bool observe);

/* Mode observe: what top-k and a lower MIN_COUNT would bring. */
void ss_report_observed(struct ss_emit *emit, const struct ss_stats *stats);

/* The tables of tensors; a line of the summary, where there are any. */
void ss_report_tensors(struct ss_emit *emit, const struct ss_stats *stats);
void ss_report_topk(struct ss_emit *emit, const struct ss_stats *stats);

#endif
