/* Shared by the files of the summary that a job prints at its end. */
#ifndef CORE_REPORT_SUMMARY_H
#define CORE_REPORT_SUMMARY_H

#include "core/report/report.h"

/* Adds a line if it fits; `sparseshim report` shows the others. */
void ss_summary_say(struct ss_summary *s, const char *key, const char *label, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));

/* Writes "count float sum", or the collective in place of or before the operator. */
void ss_summary_lane(const struct ss_lane_record *r, char *text, size_t size);

/* Adds the lines of MODE=observe: what each mode would gain, and what to do next. */
void ss_summary_observed(struct ss_summary *s, const struct ss_stats *stats);

#endif
