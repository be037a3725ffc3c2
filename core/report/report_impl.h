/* What the parts of the report share: report_job.c the job, report_numbers.c the numbers
 * behind its summary, report_lanes.c the lanes, report_rounds.c partial calls, report_observe.c
 * what mode observe tells of other settings, report_tensors.c the tensors, report_legend.c what all
 * of them mean. */
#ifndef CORE_REPORT_REPORT_IMPL_H
#define CORE_REPORT_REPORT_IMPL_H

#include "core/report/report.h"

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

/* Lines of the summary. */
enum ss_report_line {
    SS_LINE_HEADLINE,
    SS_LINE_STATE,
    SS_LINE_CALLS,
    SS_LINE_REQUESTS,
    SS_LINE_BYTES,
    SS_LINE_CALIBRATION,
    SS_LINE_TOPK,
    SS_LINE_PARTIAL,
    SS_LINE_PACE,
    SS_LINE_UNSENT,
    SS_LINE_SYNCHRONOUS,
    SS_LINE_QUORUM,
    SS_LINE_MERGED,
    SS_LINE_STEP,
    SS_LINE_BLOCKING,
    SS_LINE_TIME,
    SS_LINE_PHASES,
    SS_LINE_MEMORY,
    SS_LINE_TENSOR,
    SS_LINE_OUTSIDE,
    SS_LINE_MPI,
    SS_LINE_TRY,
    SS_LINE_LOSSY,
    SS_LINES
};
void ss_report_line(struct ss_emit *emit, enum ss_report_line line, struct ss_emit_value value);

/* One line of the summary from values in brackets. */
#define SAY(emit, line, ...)                                                                       \
    ss_report_line(emit, line,                                                                     \
                   ss_v_sentence((const struct ss_emit_value[]){__VA_ARGS__},                      \
                                 sizeof((const struct ss_emit_value[]){__VA_ARGS__}) /             \
                                     sizeof(struct ss_emit_value)))

/* The objects of JSON that hold the numbers behind the summary. */
void ss_report_numbers(struct ss_emit *emit, struct ss_stats *stats,
                       const struct ss_report_job *job, const struct ss_report_totals *totals);

/* What ss_report_legend lists. */
extern const struct ss_emit_group ss_report_document_group, ss_report_summary_group,
    ss_report_job_group, ss_report_calls_group, ss_report_bytes_group, ss_report_times_group,
    ss_report_rounds_group, ss_report_stretches_group, ss_report_synchronous_group,
    ss_report_merged_group, ss_report_blocking_group, ss_report_notes_group, ss_report_passed_group,
    ss_report_lanes_group, ss_report_advice_group, ss_report_predictions_group,
    ss_report_topk_group, ss_report_small_group, ss_report_tensors_group, ss_report_series_group,
    ss_report_options_group;

/* Partial calls: lines of the summary and numbers, where there are any, and the table of calls that
 * wait beside them. */
void ss_report_rounds_lines(struct ss_emit *emit, const struct ss_stats *stats);
void ss_report_rounds_numbers(struct ss_emit *emit, const struct ss_rounds_record *rounds);
void ss_report_synchronous(struct ss_emit *emit, struct ss_rounds_record *rounds);

/* The tables by lane; in mode observe predictions and advice too. */
void ss_report_lanes(struct ss_emit *emit, const struct ss_stats *stats, bool observe);

/* Mode observe: what top-k and a lower MIN_COUNT would bring. */
void ss_report_observed(struct ss_emit *emit, const struct ss_stats *stats);

/* The tables of tensors; a line of the summary, where there are any. */
void ss_report_tensors(struct ss_emit *emit, const struct ss_stats *stats);
void ss_report_topk(struct ss_emit *emit, const struct ss_stats *stats);

#endif
