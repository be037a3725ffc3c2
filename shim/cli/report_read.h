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
    void *storage; /* the parsed file: texts that job points to */
};

/* Reads len bytes of text; the text need not end in a null byte and is not kept. Unknown keys are
 * passed over; whole numbers go to 2^63 - 1. Returns 0, and the caller ends with cli_report_free;
 * or -1 with one sentence in error, and nothing to free. It begins with line and column where the
 * text is no JSON, or says a key twice, and with the value's place ("lanes[3].type") where that is
 * not what a report holds. */
int cli_report_read(struct cli_report *report, const char *text, size_t len, char *error,
                    size_t error_size);
void cli_report_free(struct cli_report *report);

#endif
