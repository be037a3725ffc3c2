/* The same lane or tensor in several reports, and what one number is in all of them. */
#ifndef SHIM_CLI_REPORT_JOIN_H
#define SHIM_CLI_REPORT_JOIN_H

#include "shim/cli/report_files.h"

/* Rows of records that are the same in all but their numbers, one cell per report, NULL where it
 * has none. Lanes are the same by communicator, ranks, count, type and operator; tensors by
 * communicator, ranks, count, type, call site and place in the step. Loose, for jobs that differ:
 * ranks and call sites do not count. Of several alike in a report the first meets the first of the
 * others. */
struct cli_join {
    size_t reports, rows, room;
    bool loose;
    const void **cell; /* owned */
};
/* False where memory is short. */
bool cli_join_lanes(struct cli_join *join, const struct cli_job *job, bool loose);
bool cli_join_tensors(struct cli_join *join, const struct cli_job *job, bool loose);
void cli_join_free(struct cli_join *join);

static inline const void *cli_joined(const struct cli_join *join, size_t row, size_t report)
{
    return join->cell[row * join->reports + report];
}
/* The first report's that has it. */
const void *cli_joined_any(const struct cli_join *join, size_t row);

/* A number of each rank that has it; NaN is left out. */
struct cli_value {
    double value;
    int rank;
};
struct cli_spread {
    size_t n;
    double least, median, most, sum; /* NaN where n = 0 */
    int rank_least, rank_most;       /* -1 where n = 0 */
};
struct cli_spread cli_spread_of(struct cli_value *values, size_t n); /* sorts them */

/* Means of a lane's calls in a report; NaN where there are none. */
double cli_lane_density(const struct ss_lane_record *lane);
double cli_lane_seconds(const struct ss_lane_record *lane); /* of all calls, all phases */
struct ss_tensor_record;
double cli_tensor_density(const struct ss_tensor_record *tensor);
double cli_tensor_ratio(const struct ss_tensor_record *tensor); /* residual to input */

#endif
