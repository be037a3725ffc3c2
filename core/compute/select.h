/* Selection with error feedback: the large entries of gradient + residual are claimed, the others
 * stay in the residual. In plain C, AVX2 and AVX-512, bit for bit equal, chosen at run time.
 *
 * Conventions: type is SS_F32 or SS_F64. g is the gradient, never written. r is the residual,
 * finite in every entry. a = g + r with one rounding. Arrays have n elements, n <= SS_WINDOW, need
 * only the natural alignment of their type, and do not overlap. If g or r is NULL, a is the other.
 * Arithmetic expects the default MXCSR (core/base/fpenv.h). Comparisons look at bits: subnormals
 * are ordinary values, and an a of +-0 is never selected.
 *
 * Sources: Ok-Topk (Li and Hoefler, PPoPP'22), section 3.1 and Algorithm 2; SparCML (Renggli et
 * al., SC'19), Algorithm 1 and section 8.3 (k of each bucket of 512).
 */
#ifndef CORE_COMPUTE_SELECT_H
#define CORE_COMPUTE_SELECT_H

#include "core/base/types.h"

/* The bits of |x|. As unsigned integers they order like the numbers. */
typedef uint64_t ss_magnitude;

/* magnitude of the smallest subnormal: every non-zero value reaches it */
enum { SS_LEAST_MAGNITUDE = 1 };

/* Returns the magnitude of infinity, which selects nothing as a threshold. */
ss_magnitude ss_magnitude_none(enum ss_type type);
/* Returns the magnitude of x rounded to the type. */
ss_magnitude ss_magnitude_of(enum ss_type type, double x);
double ss_magnitude_value(enum ss_type type, ss_magnitude magnitude);

/* Returns the number of mantissa bits; a difference of 1 << this number is an octave. */
static inline unsigned ss_mantissa_bits(enum ss_type type)
{
    return type == SS_F32 ? 23 : 52;
}

/* Results of a pass. The fields from `largest` on cover the finite entries before `stop`. */
struct ss_selection {
    size_t claimed; /* entries written to idx and val */
    /* entries at or above the threshold beyond the capacity, which stay in the residual */
    size_t over;
    size_t not_finite;    /* elements whose g or a is not finite */
    size_t stop;          /* first element with g finite and g + r not; n if there is none */
    ss_magnitude largest; /* largest |a|, 0 if all are zero */
    bool zero_input;      /* every g is zero, or g is NULL */
    double input_square;  /* sum of g * g, in double */
    double sum_square;    /* sum of a * a, in double */
};

struct ss_selectors {
    const char *name; /* as in struct ss_kernels */

    /* Claims in one pass over memory.
     *
     * - Each finite a with |a| >= threshold (at least SS_LEAST_MAGNITUDE) is claimed in ascending
     *   order: idx[j] = base + position, val[j] = a, and its residual becomes +0.0. Beyond
     *   `capacity` entries nothing is claimed, so that ties are cut at the highest indices.
     * - The residual of every other finite a becomes a. If g is not finite, the residual stays.
     * - The first g + r that overflows ends the pass; elements from `stop` on are counted in
     *   not_finite only.
     * - If r is NULL, only idx and val are written. Their entries between `claimed` and `capacity`
     *   are undefined.
     *
     * All tables add up in the same order: partial sum j of 16 takes elements j, j + 16, ...; the
     * partials are added pairwise, j with j + 8, then + 4, + 2, + 1.
     */
    void (*select)(enum ss_type type, const void *g, void *r, size_t n, uint32_t base,
                   ss_magnitude threshold, uint32_t *idx, void *val, size_t capacity,
                   struct ss_selection *out);

    /* Writes each |a| with low <= |a| <= high in order, at most `capacity` of them, and returns
     * their number. 1 <= low, high < ss_magnitude_none. out may be NULL if capacity is 0. */
    size_t (*gather)(enum ss_type type, const void *g, const void *r, size_t n, ss_magnitude low,
                     ss_magnitude high, ss_magnitude *out, size_t capacity);

    /* Undoes a select, before the gradient goes native: adds the claims to the residual, then
     * subtracts g wherever it is finite. n is `stop` of the select; idx, val and claimed are its
     * results with the same base. Afterwards r differs from its former value by at most eps (|g| +
     * |r|) per element (eps = FLT_EPSILON or DBL_EPSILON). r is finite, and untouched where g is
     * not finite or from `stop` on. Only adds, saturating at the largest finite number, so that
     * operations in flight on one residual commute up to rounding. */
    void (*undo)(enum ss_type type, const void *g, void *r, size_t n, uint32_t base,
                 const uint32_t *idx, const void *val, size_t claimed);

    const struct ss_bucket_parts *bucket_parts; /* for ss_select_buckets; core/compute/pass.h */
};

/* Returns the best table that this processor runs. Thread-safe. */
const struct ss_selectors *ss_selectors(void);

/* Returns table i in the order of ss_kernels_at; NULL past the last. */
const struct ss_selectors *ss_selectors_at(size_t i);

/* Returns |v[i]|; Inf and NaN are larger than all others. */
static inline ss_magnitude ss_magnitude_at(enum ss_type type, const void *v, size_t i)
{
    return type == SS_F32 ? ((const uint32_t *)v)[i] & INT32_MAX
                          : ((const uint64_t *)v)[i] & INT64_MAX;
}

/* Returns the k-th largest of m[0..count), 1 <= k <= count. Reorders m. */
ss_magnitude ss_kth_largest(ss_magnitude *m, size_t count, size_t k);

/* Selects the exact k largest |a| of each bucket of `bucket` consecutive elements (the last may be
 * shorter), among equals those of the lowest indices. Takes one pass over memory if a bucket fits
 * in the cache and is similar to its neighbours. A bucket gives fewer than k entries only if it has
 * fewer non-zeros; a bucket with a value that is not finite gives none, since the call will be
 * undone. idx and val hold k * ceil(n / bucket) entries; k, bucket >= 1. Partial sum j takes
 * elements j, j + 16, ... of the first bucket, then of the next, and so on. */
void ss_select_buckets(const struct ss_selectors *selectors, enum ss_type type, const void *g,
                       void *r, size_t n, uint32_t base, size_t k, size_t bucket, uint32_t *idx,
                       void *val, struct ss_selection *out);

#endif
