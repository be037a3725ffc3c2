/* What `sparseshim report` makes of reports. */
#ifndef SHIM_CLI_REPORT_FORMS_H
#define SHIM_CLI_REPORT_FORMS_H

#include "shim/cli/report_read.h"

/* Takes what the emitter writes: standard output; ctx is not used. */
int cli_write_stdout(void *ctx, const char *text, size_t len);

/* The legend of all columns and keys; roff: as sections of a manual page. */
void cli_legend_print(bool roff);

#endif
