/* What one run of a job, a trial, shows: how fast it went, what it sent. */
#ifndef SHIM_CLI_TRY_TRIAL_H
#define SHIM_CLI_TRY_TRIAL_H

#include "shim/cli/job_reports.h"
#include "shim/cli/watched_job.h"

enum trial_form { TRIAL_OFF, TRIAL_OBSERVE, TRIAL_EXACT, TRIAL_TOPK, TRIAL_FORMS };
const char *trial_name(enum trial_form form);

/* What a report of one rank said. */
struct trial_sample {
    uint64_t calls; /* seen */
    double seconds; /* since the first of them */
    double inside;  /* of these, in allreduce; NaN where some calls are not timed */
    double sent;    /* bytes */
    double dense;   /* bytes a dense allreduce would have sent */
};

struct trial_rank {
    int rank;
    struct trial_sample
        *sample; /* in the order of time, each with more calls than the one before */
    size_t samples;
};

struct trial {
    enum trial_form form;
    bool run; /* it was started */
    struct cli_job_reports seen;
    struct trial_rank *rank;
    size_t ranks;
    bool memory_short;
    enum cli_ending ending;
    int status; /* of the command, where it ended by itself */
};

/* Reads the reports, which are noted as samples too. False where one could not be read. */
bool trial_read(struct trial *t);

/* Least calls of a rank, 0 where not all ranks have reported. */
uint64_t trial_calls(const struct trial *t);

/* Calls that make one step: those seen for each call of the tensor that carries most bytes. 1 where
 * there is no tensor. */
double trial_calls_per_step(const struct trial *t);

/* Per call, means over the ranks: between an early report and the last, so that the start of the
 * program does not count; NaN where not known. */
struct trial_rates {
    double seconds, inside, sent, dense;
};
struct trial_rates trial_rates(const struct trial *t);

/* What was lossy: tensors sent as top-k at least once, and their share of all bytes reduced. */
struct trial_lossy {
    size_t tensors, all; /* all: that were looked at */
    double share;
};
struct trial_lossy trial_lossy(const struct trial *t);

void trial_free(struct trial *t);

#endif
