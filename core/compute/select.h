/* Selection with error feedback: the large entries of gradient + residual are claimed, the rest
 * stays in the residual. Plain C, AVX2 and AVX-512, bit for bit equal, picked at run time; a GPU
 * backend implements the same table.
 *
 * Everywhere: type is SS_F32 or SS_F64; g is the gradient, never written; r the residual, finite in
 * every entry; a = g + r, one rounding; arrays of n elements, n <= SS_WINDOW, that need only their
 * type's natural alignment and do not overlap. Either g or r may be NULL: then a is the other.
 * Arithmetic expects the default MXCSR (core/base/fpenv.h); comparisons are on bits, subnormals are
 * ordinary values and an a of +-0 is never selected.
 *
 * Sources: Ok-Topk (Li and Hoefler, PPoPP'22), section 3.1 and Algorithm 2; SparCML (Renggli et
 * al., SC'19), Algorithm 1 and section 8.3 (k of each bucket of 512).
 */
#ifndef CORE_COMPUTE_SELECT_H
#define CORE_COMPUTE_SELECT_H

#include "core/base/types.h"

/* The bits of |x|, sign cleared. As unsigned integers they order as the numbers do. */
typedef uint64_t ss_magnitude;

enum { SS_LEAST_MAGNITUDE = 1 }; /* of the smallest subnormal: all that is not zero reaches it */

/* That of infinity: as a threshold it selects nothing. */
ss_magnitude ss_magnitude_none(enum ss_type type);
ss_magnitude ss_magnitude_of(enum ss_type type, double x); /* x as the type holds it */
double ss_magnitude_value(enum ss_type type, ss_magnitude magnitude);

/* Of the bits of a magnitude those below the exponent: 1 << this is an octave. */
static inline unsigned ss_mantissa_bits(enum ss_type type)
{
    return type == SS_F32 ? 23 : 52;
}

/* What a pass saw. The fields from largest on cover the finite entries before `stop`. */
struct ss_selection {
    size_t claimed;    /* entries written to idx and val */
    size_t over;       /* at or above the threshold but past the capacity: still in the residual */
    size_t not_finite; /* entries of the range whose g or a is not finite */
    size_t stop;       /* first element with g finite and g + r not: n when there is none */
    ss_magnitude largest; /* largest |a|, 0 when all are zero */
    bool zero_input;      /* every g is zero, or g was NULL */
    double input_square;  /* sum of g * g, in double */
    double sum_square;    /* sum of a * a, in double */
};

struct ss_selectors {
    const char *name; /* as in struct ss_kernels */

    /* One pass over memory. Ascending, each finite a with |a| >= threshold (which is at least
     * SS_LEAST_MAGNITUDE) is claimed while there is room: idx[j] = base + position, val[j] = a, its
     * residual becomes +0.0. Past `capacity` entries nothing is claimed, so that ties are cut at
     * the highest indices. The residual of every other finite a becomes a. Where g is not finite
     * the residual is left alone. The first g + r that overflows ends the pass: elements from
     * `stop` on are counted in not_finite only. Without r nothing is written but idx and val, of
     * which entries past `claimed` and before `capacity` are undefined afterwards.
     *
     * The sums have one order in every table: partial sum j of 16 takes elements j, j + 16, ...;
     * the partials are added pairwise, j with j + 8, then + 4, + 2, + 1. */
    void (*select)(enum ss_type type, const void *g, void *r, size_t n, uint32_t base,
                   ss_magnitude threshold, uint32_t *idx, void *val, size_t capacity,
                   struct ss_selection *out);

    /* Writes |a| of those with low <= |a| <= high, in order, at most `capacity` of them, and
     * returns how many there are. 1 <= low, high < ss_magnitude_none. out may be NULL when
     * capacity is 0. */
    size_t (*gather)(enum ss_type type, const void *g, const void *r, size_t n, ss_magnitude low,
                     ss_magnitude high, ss_magnitude *out, size_t capacity);

    /* Takes a select back, before the gradient goes native as it is: claims are added to the
     * residual, then g is subtracted wherever it is finite. n is `stop` of the select; idx, val and
     * claimed are its results with the same base. Then |r - what it was| <= eps (|g| + |r|) per
     * element (eps = FLT_EPSILON or DBL_EPSILON), r is finite, and untouched where g is not finite
     * or from `stop` on. Only adds, saturating at the largest finite number, so operations in
     * flight on one residual commute up to rounding. */
    void (*undo)(enum ss_type type, const void *g, void *r, size_t n, uint32_t base,
                 const uint32_t *idx, const void *val, size_t claimed);

    const struct ss_bucket_parts *bucket_parts; /* of ss_select_buckets; core/compute/pass.h */
};

/* The best table this processor runs. Thread safe. */
const struct ss_selectors *ss_selectors(void);

/* All tables this processor runs, in the order of ss_kernels_at: NULL past the last. */
const struct ss_selectors *ss_selectors_at(size_t i);

/* |v[i]|; Inf and NaN are larger than all others. */
static inline ss_magnitude ss_magnitude_at(enum ss_type type, const void *v, size_t i)
{
    return type == SS_F32 ? ((const uint32_t *)v)[i] & INT32_MAX
                          : ((const uint64_t *)v)[i] & INT64_MAX;
}

/* The k-th largest of m[0..count), 1 <= k <= count. Reorders m. */
ss_magnitude ss_kth_largest(ss_magnitude *m, size_t count, size_t k);

/* select with the exact k largest |a| of each bucket of `bucket` consecutive elements (the last may
 * be shorter) instead of a threshold, in one pass over memory where a bucket fits in the cache and
 * its neighbours are like it; of equal ones the lowest indices. Fewer than k only where a bucket
 * has fewer that are not zero; of one in which something is not finite nothing is claimed, the call
 * is to be undone. idx and val hold k * ceil(n / bucket) entries. k, bucket >= 1. Partial sum j
 * takes elements j, j + 16, ... of the first bucket, then of the next, and so on. */
void ss_select_buckets(const struct ss_selectors *selectors, enum ss_type type, const void *g,
                       void *r, size_t n, uint32_t base, size_t k, size_t bucket, uint32_t *idx,
                       void *val, struct ss_selection *out);

#endif
