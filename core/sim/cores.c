#include "core/sim/cores.h"

#include <stdlib.h>
#include <string.h>

static const double STRETCH = 1e-4;

enum { MOST_STRETCHES = 1 << 24 };

/* Returns the seconds taken in a stretch, on all cores together. Returns NULL, for a stretch that
 * is free, if it is too far away or memory is short. */
static double *taken(struct ss_cores *c, size_t at)
{
    const size_t more = 2 * at + 1024;
    double *grown;

    if (at < c->stretches)
        return &c->taken[at];
    if (at >= MOST_STRETCHES || !(grown = realloc(c->taken, more * sizeof *grown)))
        return NULL;
    memset(grown + c->stretches, 0, (more - c->stretches) * sizeof *grown);
    c->taken = grown;
    c->stretches = more;
    return &c->taken[at];
}

double ss_cores_take(struct ss_cores *c, double clock, double seconds)
{
    const double all = STRETCH * c->count, first = clock / STRETCH;
    size_t at = first < MOST_STRETCHES ? (size_t)first : MOST_STRETCHES;

    for (double *here; c->count > 0 && (here = taken(c, at)); at++) {
        double end = (double)(at + 1) * STRETCH, free = end - clock;
        free = all - *here < free ? all - *here : free;
        if (seconds <= free) {
            *here += seconds;
            break;
        }
        *here += free > 0 ? free : 0;
        seconds -= free > 0 ? free : 0;
        clock = end;
    }
    return clock + seconds;
}

void ss_cores_restart(struct ss_cores *c)
{
    if (c->taken)
        memset(c->taken, 0, c->stretches * sizeof *c->taken);
}

void ss_cores_free(struct ss_cores *c)
{
    free(c->taken);
    c->taken = NULL;
    c->stretches = 0;
}
