/* What the parts of merged reports share: report_merge.c the job, merge_rows.c lanes and tensors.
 */
#ifndef SHIM_CLI_REPORT_MERGE_H
#define SHIM_CLI_REPORT_MERGE_H

#include "shim/cli/report_join.h"

struct merging {
    const struct cli_job *job;
    struct cli_join lanes, tensors;
    struct cli_value *values; /* one per report */
    struct ss_emit_value sentence[12];
    char missing[160]; /* ranks that do not report, "" = none */
};

/* "-" where there is none. */
struct ss_emit_value merging_rank(int rank);

void merging_rows(struct ss_emit *emit, struct merging *m);
extern const struct ss_emit_group merging_lanes_group, merging_tensors_group;

#endif
