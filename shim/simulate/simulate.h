/* Shared by the files of `sparseshim simulate`: the options, and one row of the table. */
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
    double alpha, beta, gap; /* seconds, seconds per byte, seconds */
    uint64_t burst;          /* bytes */
    double compute;          /* factor on the processor time spent */
    unsigned cores;          /* processors that all ranks share; 0: each has its own */
    double overlap;
    uint64_t seed, memory; /* bytes of memory for a run */
    double seconds;        /* real seconds for a run */
    unsigned warm;
    uint64_t jobs; /* rows at a time */
    bool csv;
};

enum sim_exit { SIM_OK = 0, SIM_WRONG = 1, SIM_USAGE = 2 };

/* Reads the command line. Returns SIM_OK, or SIM_USAGE after printing why not. */
int sim_read_options(struct sim_asked *asked, int argc, char **argv);

/* Outcome of a run in a process of its own. */
enum sim_end { SIM_RAN, SIM_OVER_TIME, SIM_OVER_MEMORY, SIM_FAILED };
struct sim_run {
    enum sim_end end;
    int status; /* result of ss_trial_run; below -99: the process could not be started, or died */
    struct ss_trial_result result;
    double seconds;  /* processor seconds */
    uint64_t memory; /* most bytes in memory */
};

/* shim/simulate/simulate_run.c */
void sim_run(const struct ss_trial *trial, uint64_t memory, double seconds, struct sim_run *run);

/* The runs of one algorithm, count and density, in order of ranks. */
struct sim_family {
    struct ss_trial last;   /* trial of the largest run */
    struct sim_run run;     /* result of the largest run; ranks 0: none */
    int before;             /* ranks of the run before, 0: none */
    double before_seconds;  /* its processor seconds */
    uint64_t before_memory; /* its memory in bytes */
    char why[120];          /* reason not to try larger runs; "": none */
};

enum sim_source { SIM_SIMULATED, SIM_EXTRAPOLATED, SIM_REFUSED };
struct sim_row {
    enum sim_source source;
    int status; /* simulated: status of the run */
    double seconds, bytes_max, bytes_mean, messages, rounds, memory, result_nnz;
    uint64_t checksum;
    enum ss_algorithm ran;
    double dense_seconds; /* seconds of the best dense allreduce at the bandwidth limit */
    char note[160];
};

/* Runs a trial, after smaller ones that predict what it will take. If it would take too much, the
 * row is extrapolated from the largest run, or refused if there is none. */
void sim_row_make(const struct sim_asked *asked, const struct ss_trial *trial,
                  struct sim_family *family, struct sim_row *row);

/* shim/simulate/simulate_jobs.c: makes a row for each algorithm, several at a time. */
void sim_rows_make(const struct sim_asked *asked, const struct ss_trial *trial,
                   struct sim_family *families, struct sim_row *rows);

#endif
