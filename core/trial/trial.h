/* One allreduce over P ranks in virtual time: whole calls, from scan to result, with the code of
 * the preloaded library, in the simulator (core/sim/sim.h) and over drawn inputs
 * (core/trial/entries.h). Computing takes no time unless asked for; a vote is part of the call. */
#ifndef CORE_TRIAL_TRIAL_H
#define CORE_TRIAL_TRIAL_H

#include "core/base/types.h"
#include "core/net/host_layout.h"
#include "core/trial/entries.h"

enum { SS_TRIAL_CORES = 256 };

struct ss_trial {
    int ranks; /* 2 to SS_TRIAL_RANKS */
    struct ss_entries entries;
    /* SS_AUTO: the plan's choice in MODE=exact. Algorithms that keep the global top-k run in
     * MODE=topk, with the entries as claims. SS_DENSE: only the messages of the MPI library. */
    enum ss_algorithm algorithm;
    int per_host;       /* ranks of each host, 0: 1; the last host has fewer */
    double alpha, beta; /* seconds per message, per byte of a host's link */
    double gap;         /* seconds that a message holds a link beyond its bytes */
    double burst;       /* bytes that an idle link lets pass at once */
    double compute;     /* seconds that pass for one second of computing; > 0: of a second call */
    /* processors that all ranks share, up to SS_TRIAL_CORES; 0: each rank has its own */
    unsigned cores;
    /* Calls before the measured one, for state between calls: oktopk's parts and threshold, the
     * bursts that links save up. */
    unsigned warm;
};

struct ss_trial_result {
    double seconds;                      /* seconds of the slowest rank */
    uint64_t bytes_max, bytes_sum;       /* bytes sent by the busiest rank, by all ranks */
    uint64_t outside_max;                /* bytes of the busiest host to other hosts */
    uint64_t messages_max, messages_sum; /* messages of the busiest rank, of all ranks */
    uint64_t rounds;                     /* longest chain of messages */
    uint64_t memory;                     /* work space and residual, most of any rank */
    uint64_t result_nnz;                 /* elements of the result that are not zero */
    uint64_t checksum;                   /* checksum of the result; 0 for SS_DENSE */
    enum ss_algorithm ran;               /* other than asked for under SS_AUTO */
};

/* Costs of messages inside a host. */
#define SS_TRIAL_ALPHA_INSIDE 1e-6
#define SS_TRIAL_BETA_INSIDE  2e-10

/* Seconds of a processor per byte of a vector that MPICH 4.0.2 adds inside a host (2.7e-9) and
 * gives back (5e-10), measured; they count as computing. */
#define SS_TRIAL_ADD 3.2e-9

/* Returns the layout of a trial's ranks, owned by the caller; NULL if memory is short. */
struct ss_layout *ss_trial_layout(const struct ss_trial *trial);

/* Runs a trial and writes *result, of virtual quantities only: the same in every run if compute is
 * 0. Returns SS_OK, SS_ERR_MEMORY, the error of a call, or SS_ERR_DIFFERENT. The latter means that
 * the ranks' results differ, or that an exact algorithm's result is not the sum of the inputs. */
int ss_trial_run(const struct ss_trial *trial, struct ss_trial_result *result);

/* Predictions of the cost model for a trial (core/plan/cost.h): seconds on the wire and of the
 * vote; bytes of the busiest rank; elements of the result. */
struct ss_trial_estimate {
    double seconds, bytes, result_nnz;
};
void ss_trial_predict(const struct ss_trial *trial, struct ss_trial_estimate *estimate);

#endif
