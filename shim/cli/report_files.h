/* Reports that a command line names: files, and folders that ranks of a job have reported into. */
#ifndef SHIM_CLI_REPORT_FILES_H
#define SHIM_CLI_REPORT_FILES_H

#include "shim/cli/report_read.h"

struct cli_file {
    char *path;   /* owned */
    int argument; /* index of the argument that named it, or its folder */
    bool folder;
    struct cli_report *report; /* owned */
};

struct cli_files {
    struct cli_file *file; /* owned; those of a folder in order of rank */
    size_t n;
};

/* Reads the reports of `n` arguments; of a folder all sparseshim-*.json in it. False where one
 * cannot be read, after saying so for each; the others are there. */
bool cli_files_read(struct cli_files *files, int n, char **arguments);
void cli_files_free(struct cli_files *files);

/* Reports of one job: borrowed, in order of rank. */
struct cli_job {
    const struct cli_file *file;
    size_t n;
};

/* Why two reports cannot be of two ranks of one job, as a sentence in `why`, and true; or false. */
bool cli_jobs_differ(const struct cli_report *a, const struct cli_report *b, char *why,
                     size_t size);

/* Sorts `n` files by rank. False, after saying so, where they are not of one job. */
bool cli_job_of(struct cli_file *file, size_t n, struct cli_job *job);

#endif
