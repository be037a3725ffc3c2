/* Costs of a call's work on the host and in a backend, for the plan. The costs are measured once
 * for each backend, by the operations that algorithms use. */
#ifndef CORE_BACKEND_BACKEND_COSTS_H
#define CORE_BACKEND_BACKEND_COSTS_H

#include <stdatomic.h>

#include "core/backend/backend.h"

/* Costs of work between the host's streams and vectors of the backend. On the host nothing is
 * copied across, and a message costs no more than its entries. */
struct ss_backend_costs {
    /* seconds per entry that has stayed in the backend, until the host has its message */
    double encode;
    double decode; /* seconds per entry of a message, until it is in a vector */
    double put;    /* seconds per entry of the host's arrays, until it is in a vector */
    double fill;   /* seconds per byte cleared */
    /* seconds per byte of elements that the host reads or writes; 0: the host's own elements */
    double cross;
    double message; /* seconds per message handed over */
    double wait;    /* seconds until the host sees that work is done */
};

/* Costs of the host's own work, in whichever backend a call is. */
struct ss_host_costs {
    double code;  /* seconds per entry encoded or decoded */
    double merge; /* seconds per entry added to the result */
    double fill;  /* seconds per byte cleared */
};

static inline struct ss_backend_costs ss_costs_of_host(double code, double merge, double fill)
{
    return (struct ss_backend_costs){
        .encode = code, .decode = code + merge, .put = merge, .fill = fill};
}

/* The costs of a backend (ss_backend_ops.record): `expected` by its maker, and `seen` once
 * measured. */
struct ss_backend_record {
    struct ss_backend_costs expected, seen;
    atomic_int state;
    atomic_uint tries;
};

/* Returns the costs of the host. The first call measures them, in two or three milliseconds. */
const struct ss_host_costs *ss_host_costs(void);

/* Returns the costs of a backend that are known now; for a backend without a record, the host's.
 * Never waits. */
const struct ss_backend_costs *ss_backend_costs(struct ss_backend *p);

/* Measures a backend with a record, once. Takes some milliseconds, in which other threads get the
 * expected costs. Keeps the expected costs if the backend is too slow or has no memory. If the
 * backend is busy, does nothing; the next call tries again, a few times. Called without a lock that
 * other threads wait for. Returns true if this call has settled the costs. */
bool ss_backend_measure(struct ss_backend *p);

#endif
