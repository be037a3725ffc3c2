/* What `sparseshim report` makes of reports. */
#ifndef SHIM_CLI_REPORT_FORMS_H
#define SHIM_CLI_REPORT_FORMS_H

#include "shim/cli/report_files.h"

/* What the emitter writes, to standard output; ctx is not used. */
int cli_write_stdout(void *ctx, const char *text, size_t len);

/* The same into memory; zero-initialise, free `text`. Ends in a null byte. */
struct cli_page {
    char *text;
    size_t len, size;
};
int cli_page_write(void *page, const char *text, size_t len);

/* The legend of all columns and keys; roff: as sections of a manual page. */
void cli_legend_print(bool roff);

/* Rows of CSV (RFC 4180) to standard output: the file, the rank, and the columns that have a key,
 * under a line that names them. The cells are those of JSON; null is empty, and of an object
 * "name=number name=number". A series has a row for each point, under the number of its tensor.
 * Each returns 0, or -1 after saying why. */
enum cli_csv { CLI_CSV_LANES, CLI_CSV_TENSORS, CLI_CSV_SUMMARY, CLI_CSV_SERIES, CLI_CSVS };
int cli_csv_print(enum cli_csv table, const struct cli_files *files);

/* The reports of a job in one, as text or JSON; 0, what `write` says, or -1 after saying why. */
int cli_merge_write(const struct cli_job *job, enum ss_emit_form form, ss_emit_write *write,
                    void *ctx);
size_t cli_merge_legend(const struct ss_emit_group *const **groups);

/* Two jobs side by side, by the ranks that both report, or by one report each; likewise. */
int cli_compare_write(const struct cli_job *a, const struct cli_job *b, enum ss_emit_form form,
                      ss_emit_write *write, void *ctx);
size_t cli_compare_legend(const struct ss_emit_group *const **groups);

/* --trace: the arguments behind it. Returns the exit status. */
int cli_trace_report(int argc, char **argv);

/* A page of HTML about a job, to standard output; likewise. */
int cli_html_print(const struct cli_job *job);

#endif
