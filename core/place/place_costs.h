/* What the work of a call costs on the host and in a place, for the plan: measured once for each
 * place, in what the recipes ask of it. */
#ifndef CORE_PLACE_PLACE_COSTS_H
#define CORE_PLACE_PLACE_COSTS_H

#include <stdatomic.h>

#include "core/place/place.h"

/* Work between the host's streams and vectors of the place. On the host itself nothing crosses, and
 * a message costs no more than its entries. */
struct ss_place_costs {
    double encode;  /* seconds per entry that has stayed there, until its message is the host's */
    double decode;  /* per entry of a message, until it is in a vector */
    double put;     /* per entry of the host's arrays, until it is in a vector */
    double fill;    /* per byte cleared */
    double cross;   /* per byte of elements that the host reads or writes; 0: the host's own */
    double message; /* for each message handed over */
    double wait;    /* until the host hears that work is done */
};

/* The host's own work, by whichever place a call is in. */
struct ss_host_costs {
    double code;  /* seconds per entry encoded or decoded */
    double merge; /* seconds per entry added to the result */
    double fill;  /* seconds per byte cleared */
};

static inline struct ss_place_costs ss_costs_of_host(double code, double merge, double fill)
{
    return (struct ss_place_costs){
        .encode = code, .decode = code + merge, .put = merge, .fill = fill};
}

/* What a place keeps of its costs (ss_place_ops.record): as its maker puts them, and as measured
 * once. */
struct ss_place_record {
    struct ss_place_costs expected, seen;
    atomic_int state;
    atomic_uint tries;
};

/* Measured at first use, in two or three milliseconds. */
const struct ss_host_costs *ss_host_costs(void);

/* Those known by now; of a place without a record the host's. Never waits. */
const struct ss_place_costs *ss_place_costs(struct ss_place *p);

/* Measures a place with a record, once: some milliseconds, if it has nothing else to do, during
 * which other threads find what was expected; also where it is slow beyond that or has no memory.
 * No lock may be held that others wait for. Where it is busy nothing is done; the next call tries
 * again, a few times. True: what costs are known from here on was settled by
 * this call, which measured them or found the place too slow for that. */
bool ss_place_measure(struct ss_place *p);

#endif
