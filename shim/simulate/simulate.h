/* Inside of `sparseshim simulate`: what is asked for, and one row of the table. */
#ifndef SHIM_SIMULATE_SIMULATE_H
#define SHIM_SIMULATE_SIMULATE_H

#include "core/trial/trial.h"

enum { SIM_LIST = 4096 }; /* most values of an option */

struct sim_asked {
    size_t ranks, counts, densities, algorithms; /* how many of each */
    int rank[SIM_LIST];
    uint64_t count[SIM_LIST];
    double density[SIM_LIST];
    enum ss_algorithm algorithm[SS_ALGORITHMS];
    double alpha, beta; /* seconds, seconds per byte */
    double compute;     /* times the processor time spent */
    double overlap;
    uint64_t memory; /* bytes of a run */
    double seconds;  /* real ones, of a run */
};

enum sim_exit { SIM_OK = 0, SIM_WRONG = 1, SIM_USAGE = 2 };

/* Reads the command line. Returns SIM_OK, or SIM_USAGE after printing why not. */
int sim_read_options(struct sim_asked *asked, int argc, char **argv);

/* What one run in a process of its own came to. */
enum sim_end { SIM_RAN, SIM_OVER_TIME, SIM_OVER_MEMORY, SIM_FAILED };
struct sim_run {
    enum sim_end end;
    int status; /* of ss_trial_run; or below -99: the process could not be started, or died */
    struct ss_trial_result result;
    double seconds;  /* of a processor */
    uint64_t memory; /* most bytes that it had in memory */
};

/* shim/simulate/simulate_run.c */
void sim_run(const struct ss_trial *trial, uint64_t memory, double seconds, struct sim_run *run);

/* The runs of one algorithm, count and density, in order of ranks. */
struct sim_family {
    struct ss_trial last; /* of the largest run */
    struct sim_run run;   /* which is this one; ranks 0: there is none */
    int before;           /* ranks of the one before, 0: there is none; what it took */
    double before_seconds;
    uint64_t before_memory;
    char why[120]; /* not "": no larger one is to be tried */
};

enum sim_source { SIM_SIMULATED, SIM_EXTRAPOLATED, SIM_REFUSED };
struct sim_row {
    enum sim_source source;
    int status; /* simulated: as above */
    double seconds, bytes_max, bytes_mean, messages, rounds, memory, result_nnz;
    uint64_t checksum;
    enum ss_algorithm ran;
    double dense_seconds; /* of the best dense allreduce at the limit of the link */
    char note[160];
};

/* Runs a trial, after smaller ones that say what it will take; what would take too much is
 * extrapolated from the largest run, or refused where there is none. */
void sim_row_make(const struct sim_asked *asked, const struct ss_trial *trial,
                  struct sim_family *family, struct sim_row *row);

#endif
