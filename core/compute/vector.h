/* Operations on dense vectors of n floats or doubles: inputs, results and residuals. type is SS_F32
 * or SS_F64. Sums are in double. */
#ifndef CORE_COMPUTE_VECTOR_H
#define CORE_COMPUTE_VECTOR_H

#include "core/base/types.h"

/* Returns the sum of v[i] * v[i]. */
double ss_vector_square(enum ss_type type, const void *v, size_t n);

/* Elements first, first + 1, ... of a vector. */
struct ss_run {
    size_t first, count;
};

/* Returns the number of elements with g[i] + r[i] not finite; either array may be NULL. */
size_t ss_vector_not_finite(enum ss_type type, const void *g, const void *r, size_t n);

/* Returns the exceptions of a sum of finite inputs (core/base/fpenv.h): SS_OVERFLOW if an element
 * is not finite, SS_INVALID as well if one is NaN. */
unsigned ss_vector_exceptions(enum ss_type type, const void *v, size_t n);

/* Returns true if every byte is zero: +0.0 in every element. */
bool ss_vector_is_clear(enum ss_type type, const void *v, size_t n);
void ss_vector_clear(enum ss_type type, void *v, size_t n);

/* Adds val[j] to r[idx[j] - base], saturating at the largest finite number. idx may be in any order
 * and repeat; val is finite. */
void ss_vector_add_at(enum ss_type type, void *r, uint32_t base, const uint32_t *idx,
                      const void *val, size_t count);
/* Adds val[i] to r[i], saturating; skips values that are not finite. */
void ss_vector_add(enum ss_type type, void *r, const void *val, size_t n);

/* Sets out[i] = in[i] + share * r[i], in the precision of the type. */
void ss_vector_join(enum ss_type type, const void *in, const void *r, void *out, size_t n,
                    double share);
/* Subtracts share * r[i] from r[i]. */
void ss_vector_leave(enum ss_type type, void *r, size_t n, double share);
/* Multiplies r[i] by factor, rounded once, saturating. */
void ss_vector_scale(enum ss_type type, void *r, size_t n, double factor);

#endif
