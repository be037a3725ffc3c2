/* One allreduce over P ranks in virtual time: whole calls, from scan to result, by the code that
 * the preloaded library runs, in the simulator (core/sim/sim.h) and over inputs that are drawn
 * (core/trial/entries.h). Computing takes no time unless asked for; a vote is part of the call. */
#ifndef CORE_TRIAL_TRIAL_H
#define CORE_TRIAL_TRIAL_H

#include "core/base/types.h"
#include "core/trial/entries.h"

enum { SS_TRIAL_CORES = 256 };

struct ss_trial {
    int ranks; /* 2 to SS_TRIAL_RANKS */
    struct ss_entries entries;
    /* SS_AUTO: the plan's choice in MODE=exact. Those that keep the global top-k run in MODE=topk,
     * the entries being the claims. SS_DENSE: the messages of the MPI library's alone. */
    enum ss_algorithm algorithm;
    double alpha, beta; /* seconds per message, per byte */
    double gap;         /* seconds that a message holds a link beside its bytes */
    double burst;       /* bytes that an idle link lets pass at once */
    double compute;     /* seconds that pass for one of computing here, on so many */
    unsigned cores;     /* processors that all share, up to SS_TRIAL_CORES, 0: own ones */
    /* Calls before the one that is measured, for those that keep something between calls: oktopk
     * its regions and its threshold, links what they save up. */
    unsigned warm;
};

struct ss_trial_result {
    double seconds;                      /* of the slowest rank */
    uint64_t bytes_max, bytes_sum;       /* sent by the busiest rank, by all */
    uint64_t messages_max, messages_sum; /* likewise */
    uint64_t rounds;                     /* longest chain of messages */
    uint64_t memory;                     /* work space and residual, most of any rank */
    uint64_t result_nnz;                 /* elements of the result that are not zero */
    uint64_t checksum;                   /* of these; 0 of messages alone */
    enum ss_algorithm ran;               /* other than asked for under SS_AUTO */
};

/* Writes *result, of virtual quantities only, the same in every run where compute is 0. SS_OK;
 * SS_ERR_MEMORY; SS_ERR_DIFFERENT where a rank's result is another one's than the others', or, of
 * an exact algorithm, not the sum of the inputs; or what a call ended with. */
int ss_trial_run(const struct ss_trial *trial, struct ss_trial_result *result);

/* What the cost model says of a trial (core/plan/cost.h): seconds on the wire and of the vote;
 * bytes of the busiest rank; bytes of work space and residual; elements of the result. */
struct ss_trial_estimate {
    double seconds, bytes, result_nnz;
};
void ss_trial_predict(const struct ss_trial *trial, struct ss_trial_estimate *estimate);

#endif
