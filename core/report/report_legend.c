/* What the words and numbers of a report mean: the legends that stand beside them, in one list. */
#include "core/report/report_impl.h"

static const struct ss_emit_group *const groups[] = {
    &ss_report_document_group,    &ss_report_summary_group,   &ss_report_job_group,
    &ss_report_calls_group,       &ss_report_bytes_group,     &ss_report_times_group,
    &ss_report_rounds_group,      &ss_report_stretches_group, &ss_report_synchronous_group,
    &ss_report_merged_group,      &ss_report_blocking_group,  &ss_report_notes_group,
    &ss_report_passed_group,      &ss_report_lanes_group,     &ss_report_advice_group,
    &ss_report_predictions_group, &ss_report_topk_group,      &ss_report_small_group,
    &ss_report_tensors_group,     &ss_report_series_group,    &ss_report_options_group,
};

size_t ss_report_legend(const struct ss_emit_group *const **list)
{
    *list = groups;
    return sizeof groups / sizeof *groups;
}
