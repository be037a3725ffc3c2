/* A record of a tensor's lossy calls: at most SS_SERIES_POINTS points at even distances. When the
 * record is full, every second point is removed and the distance doubles. */
#ifndef CORE_TENSOR_SERIES_H
#define CORE_TENSOR_SERIES_H

#include <stddef.h>
#include <stdint.h>

enum { SS_SERIES_POINTS = 128 };

/* A call; norms are those of this rank. */
struct ss_series_point {
    double call;      /* number of the tensor's own call, from 1 */
    double density;   /* selected / elements */
    double threshold; /* least magnitude selected; NaN where there is none */
    double residual;  /* norm of the residual after the call */
    double input;     /* norm of the input */
};

/* Zero-initialise. */
struct ss_series {
    uint64_t seen;  /* calls */
    uint64_t every; /* calls from a point to the next, a power of two; 0: none seen */
    size_t n;
    struct ss_series_point point[SS_SERIES_POINTS];
};

/* Returns true if the next call is a point, for ss_series_add; else ss_series_skip counts it. */
static inline int ss_series_due(const struct ss_series *s)
{
    return s->every == 0 || (s->seen & (s->every - 1)) == 0;
}
static inline void ss_series_skip(struct ss_series *s)
{
    s->seen++;
}
void ss_series_add(struct ss_series *s, const struct ss_series_point *point);

/* Returns a copy without room for more points, for the caller to free; NULL if there are no points
 * or memory is short. */
struct ss_series *ss_series_copy(const struct ss_series *s);

#endif
