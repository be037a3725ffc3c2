/* Cores that the ranks of a host share in simulated time. A rank that computes while all cores are
 * taken computes later, whichever rank was simulated first. */
#ifndef CORE_SIM_CORES_H
#define CORE_SIM_CORES_H

#include <stddef.h>

struct ss_cores {
    unsigned count; /* 0: each rank has its own */
    double *taken;  /* seconds taken on all cores, per stretch of time */
    size_t stretches;
};

/* Lets a rank compute for `seconds` from `clock` on. Returns when it is done. */
double ss_cores_take(struct ss_cores *c, double clock, double seconds);

/* Restarts time at 0. */
void ss_cores_restart(struct ss_cores *c);
void ss_cores_free(struct ss_cores *c);

#endif
