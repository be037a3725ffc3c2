/* The reports that the ranks of a job write into a directory made for it. */
#ifndef SHIM_CLI_JOB_REPORTS_H
#define SHIM_CLI_JOB_REPORTS_H

#include <limits.h>
#include <stdint.h>

#include "shim/cli/report_read.h"

/* Whether a file has the name of a report: sparseshim-*.json. */
bool cli_is_report(const char *name);

struct cli_job_reports {
    const char *verb; /* in messages */
    char directory[PATH_MAX];
    struct cli_report *report; /* of ranks that differ in the tensors they saw; owned */
    size_t reports, read;      /* kept and read */
    uint64_t least_calls;      /* least over the ranks of the most calls of a tensor */

    /* Sees each report that is read; NULL: nobody. */
    void (*seen)(void *ctx, const struct cli_report *report);
    void *ctx;
};

/* Makes the directory: `place`, absolute, with a name of its own behind it, such as
 * "/home/me/sparseshim-learn-". False with errno set. */
bool cli_job_reports_make(struct cli_job_reports *r, const char *place);

/* Sets the environment, here or in the job's process, so that all ranks report into it. */
int cli_job_reports_set(const struct cli_job_reports *r);

/* Reads what is there now, in place of what was read before. False where one cannot be read, after
 * saying so. */
bool cli_job_reports_read(struct cli_job_reports *r);

/* Of all ranks of the job. */
bool cli_job_reports_all(const struct cli_job_reports *r);

void cli_job_reports_forget(struct cli_job_reports *r);

/* Removes the reports, and the directory too: what in it begins with "sparseshim-". */
void cli_job_reports_clear(const struct cli_job_reports *r);
void cli_job_reports_sweep(const struct cli_job_reports *r);

#endif
