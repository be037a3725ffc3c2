/* Dense vectors of floats or doubles, n elements: inputs, results and residuals as wholes. type is
 * SS_F32 or SS_F64. Sums are in double. */
#ifndef CORE_COMPUTE_VECTOR_H
#define CORE_COMPUTE_VECTOR_H

#include "core/base/types.h"

/* Sum of v[i] * v[i]. */
double ss_vector_square(enum ss_type type, const void *v, size_t n);

/* Elements first, first + 1, ... of a vector. */
struct ss_run {
    size_t first, count;
};

/* A sample of n elements, at most `most` (a multiple of SS_SAMPLE_RUN, 1 or more): runs of
 * SS_SAMPLE_RUN at places that n and most alone say, so that all ranks, and all calls of n
 * elements, look at the same ones; one run of all where n is no more. Returns how many: at most
 * most / SS_SAMPLE_RUN. */
enum { SS_SAMPLE_RUN = 64 };
size_t ss_sample_runs(size_t n, size_t most, struct ss_run *runs);

/* Elements i where g[i] + r[i] is not finite; either may be NULL. */
size_t ss_vector_not_finite(enum ss_type type, const void *g, const void *r, size_t n);

/* Returns the exceptions of a sum of finite inputs (core/base/fpenv.h): SS_OVERFLOW if an element
 * is not finite, SS_INVALID as well if one is NaN. */
unsigned ss_vector_exceptions(enum ss_type type, const void *v, size_t n);

/* Whether every byte is zero: +0.0 in every element. */
bool ss_vector_is_clear(enum ss_type type, const void *v, size_t n);
void ss_vector_clear(enum ss_type type, void *v, size_t n);

/* r[idx[j] - base] += val[j], saturating at the largest finite number. One after the other: idx in
 * any order, again and again; val finite. */
void ss_vector_add_at(enum ss_type type, void *r, uint32_t base, const uint32_t *idx,
                      const void *val, size_t count);
/* r[i] += val[i], saturating likewise; val that is not finite is left out. */
void ss_vector_add(enum ss_type type, void *r, const void *val, size_t n);

/* out[i] = in[i] + share * r[i], in the type's precision. */
void ss_vector_join(enum ss_type type, const void *in, const void *r, void *out, size_t n,
                    double share);
/* r[i] -= share * r[i] */
void ss_vector_leave(enum ss_type type, void *r, size_t n, double share);
/* r[i] *= factor, rounded once, saturating. */
void ss_vector_scale(enum ss_type type, void *r, size_t n, double factor);

#endif
