/* What trials of a job say to people. */
#ifndef SHIM_CLI_TRY_TABLE_H
#define SHIM_CLI_TRY_TABLE_H

#include "core/report/emit.h"
#include "shim/cli/try_trial.h"

struct trial_table {
    const struct trial *trial; /* TRIAL_FORMS */
    double calls_per_step;
    char **options; /* "NAME=VALUE" of those set for all trials */
    size_t option_count;
    const char *rules; /* REGISTER as given; NULL: "auto" */
};

/* The table, what was lossy, and the lines to set, to standard output. False where no trial was
 * served a call: nothing can be set. */
bool trial_table_print(const struct trial_table *table);

extern const struct ss_emit_group trial_group; /* its columns */

#endif
