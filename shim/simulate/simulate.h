/* Shared by the files of `sparseshim simulate`: the options and one row of the table. */
#ifndef SHIM_SIMULATE_SIMULATE_H
#define SHIM_SIMULATE_SIMULATE_H

#include "core/trial/trial.h"

enum { SIM_LIST = 4096 }; /* most values of an option */

struct sim_asked {
    size_t ranks, counts, densities, algorithms; /* numbers of values */
    int rank[SIM_LIST];
    uint64_t count[SIM_LIST];
    double density[SIM_LIST];
    enum ss_algorithm algorithm[SS_ALGORITHMS];
    int per_host;       /* ranks of a host */
    double alpha, beta; /* seconds, seconds per byte */
    double compute;     /* factor for the processor time that the run spends */
    double overlap;
    uint64_t memory; /* bytes of a run */
    double seconds;  /* real seconds of a run */
};

enum sim_exit { SIM_OK = 0, SIM_WRONG = 1, SIM_USAGE = 2 };

/* Reads the command line. Returns SIM_OK, or SIM_USAGE after printing why not. */
int sim_read_options(struct sim_asked *asked, int argc, char **argv);

/* Result of one run in a process of its own. */
enum sim_end { SIM_RAN, SIM_OVER_TIME, SIM_OVER_MEMORY, SIM_FAILED };
struct sim_run {
    enum sim_end end;
    int status; /* result of ss_trial_run; -100: the process could not be started, or died */
    struct ss_trial_result result;
    double seconds;  /* seconds of a processor */
    uint64_t memory; /* most bytes that the process had in memory */
};

/* shim/simulate/simulate_run.c: runs a trial in a process of its own, which is killed if it takes
 * more than `memory` bytes or `seconds` of a processor. */
void sim_run(const struct ss_trial *trial, uint64_t memory, double seconds, struct sim_run *run);

/* The runs of one algorithm, count and density, in order of ranks. */
struct sim_family {
    struct ss_trial last; /* of the largest run */
    struct sim_run run;   /* result of `last`; none if last.ranks is 0 */
    int before;           /* ranks of the run before `last`; 0: none */
    double before_seconds;
    uint64_t before_memory;
    char why[120]; /* reason why no larger run is to be tried; "": none */
};

enum sim_source { SIM_SIMULATED, SIM_EXTRAPOLATED, SIM_REFUSED };
struct sim_row {
    enum sim_source source;
    int status; /* SIM_SIMULATED: sim_run's status */
    double seconds, bytes_max, bytes_mean, messages, rounds, memory, result_nnz;
    double bytes_host; /* of the busiest host to other hosts; of simulated rows */
    uint64_t checksum;
    enum ss_algorithm ran;
    double dense_seconds; /* seconds of the best dense allreduce at the limit of the link */
    char note[160];
};

/* Makes the row of a trial. First runs smaller trials, which tell the time and memory of the trial.
 * If the trial would take too much, extrapolates from the largest run; without a run, refuses. */
void sim_row_make(const struct sim_asked *asked, const struct ss_trial *trial,
                  struct sim_family *family, struct sim_row *row);

#endif
