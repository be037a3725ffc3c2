/* Reads the JSON form of a report (core/report/report.h) back, so that printing it again gives the
 * same text byte for byte. */
#ifndef SHIM_CLI_REPORT_READ_H
#define SHIM_CLI_REPORT_READ_H

#include "core/report/report.h"

/* A report read from a file. Print it with ss_report_write(&file.stats, &file.job, SS_EMIT_TEXT,
 * write, ctx). */
struct cli_report {
    struct ss_stats stats;
    struct ss_report_job job;
    void *storage; /* texts and arrays that job points to */
};

/* Reads len bytes of text; the text need not end in a null byte and is not kept. Unknown keys are
 * passed over. Returns 0, and the caller ends with cli_report_free; or -1 with one sentence (with
 * line and column) in error, and nothing to free. */
int cli_report_read(struct cli_report *report, const char *text, size_t len, char *error,
                    size_t error_size);
void cli_report_free(struct cli_report *report);

#endif
