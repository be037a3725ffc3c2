/* What is measured of a rank, all its lanes together: what ranks and jobs are compared by. */
#ifndef SHIM_CLI_REPORT_MEASURES_H
#define SHIM_CLI_REPORT_MEASURES_H

#include "shim/cli/report_read.h"

enum cli_measured {
    CLI_ELAPSED,
    CLI_ALLREDUCE,
    CLI_SHARE,
    CLI_SCAN,
    CLI_VOTE,
    CLI_EXCHANGE,
    CLI_MERGE,
    CLI_CODING,
    CLI_NATIVE,
    CLI_WORK,
    CLI_WAITS,
    CLI_DENSE,
    CLI_SENT,
    CLI_MEMORY,
    CLI_CALLS_SPARSE,
    CLI_CALLS_PASSED,
    CLI_CALLS_ERRORS,
    CLI_RESIDUAL,
    /* of partial calls; the last ones */
    CLI_ROUNDS,
    CLI_ROUNDS_IN,
    CLI_ROUNDS_LATE,
    CLI_ROUNDS_WAITED,
    CLI_ROUNDS_BEHIND,
    CLI_ROUNDS_THREAD,
    CLI_MEASURES
};

struct cli_measure {
    const char *key, *text;                        /* in JSON, in text */
    enum ss_emit_kind kind;                        /* of its numbers */
    bool adds;                                     /* the sum over ranks means something */
    double (*of)(const struct cli_report *report); /* NaN where it has none */
};
extern const struct cli_measure cli_measures[CLI_MEASURES];

/* A number of a measure; a count is one where it is whole. */
struct ss_emit_value cli_measure_value(const struct cli_measure *measure, double number);

#endif
