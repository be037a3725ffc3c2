/* Cores that the ranks of a host share, in simulated time: who computes while all are taken
 * computes later, whichever rank came first here. */
#ifndef CORE_SIM_CORES_H
#define CORE_SIM_CORES_H

#include <stddef.h>

struct ss_cores {
    unsigned count; /* 0: each rank has its own */
    double *taken;  /* seconds on all of them, by stretches of time */
    size_t stretches;
};

/* From `clock` on a rank computes for so many seconds: when it is done. */
double ss_cores_take(struct ss_cores *c, double clock, double seconds);

/* Time begins anew, at 0. */
void ss_cores_restart(struct ss_cores *c);
void ss_cores_free(struct ss_cores *c);

#endif
