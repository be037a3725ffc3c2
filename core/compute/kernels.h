/* The loops over elements, in plain C, AVX2 and AVX-512, bit for bit equal, picked at run time.
 *
 * This is the compute interface: a GPU backend implements the same table. Zero tests are on integer
 * bits, so that subnormals count as values and -0.0 counts as zero whatever the floating-point
 * environment says. Arithmetic expects the default MXCSR (core/base/fpenv.h). All ranges are
 * elements; arrays need only their type's natural alignment.
 */
#ifndef CORE_COMPUTE_KERNELS_H
#define CORE_COMPUTE_KERNELS_H

#include "core/base/types.h"

/* What a scan saw. */
struct ss_scan {
    size_t nnz;         /* entries that are not zero (all of the range, also past the capacity) */
    size_t stored;      /* entries written to idx and val */
    size_t stop;        /* first element that was not extracted: n when all fit */
    bool negative_zero; /* some element is -0.0 */
    bool not_finite;    /* some element is Inf or NaN (floats only) */
};

struct ss_kernels {
    const char *name; /* "avx512", "avx2", "plain" */

    /* Extracts the non-zero entries of src[0..n) in ascending order: idx[j] = base + position,
     * val[j] = the element (for SS_LOR and SS_LXOR the value 1). Writes at most `capacity` entries
     * (idx and val hold at least `capacity`; a vector kernel must not write past them). When the
     * capacity is reached, `stop` is the position of the first non-zero element not stored and the
     * rest is only counted; not_finite and negative_zero always cover the whole range. n < 2^32. */
    void (*scan)(enum ss_type type, enum ss_op op, const void *src, size_t n, uint32_t base,
                 uint32_t *idx, void *val, size_t capacity, struct ss_scan *out);

    /* dst[idx[j] - base] = val[j]; idx ascending and unique. */
    void (*scatter)(enum ss_type type, void *dst, uint32_t base, const uint32_t *idx,
                    const void *val, size_t nnz);

    /* dst[idx[j] - base] = dst[...] op val[j]; idx ascending and unique. Integer sums wrap. */
    void (*accumulate)(enum ss_type type, enum ss_op op, void *dst, uint32_t base,
                       const uint32_t *idx, const void *val, size_t nnz);

    /* dst[i] = dst[i] op src[i] over n elements. */
    void (*reduce)(enum ss_type type, enum ss_op op, void *dst, const void *src, size_t n);

    /* Merges two streams with ascending unique indices into out (room for a_nnz + b_nnz; must not
     * overlap the inputs): entries in both are combined as a op b. Returns the entries written. */
    size_t (*merge)(enum ss_type type, enum ss_op op, const uint32_t *a_idx, const void *a_val,
                    size_t a_nnz, const uint32_t *b_idx, const void *b_val, size_t b_nnz,
                    uint32_t *out_idx, void *out_val);
};

/* The best table this processor runs. Thread safe. */
const struct ss_kernels *ss_kernels(void);

/* All tables this processor runs, for tests: NULL past the last. */
const struct ss_kernels *ss_kernels_at(size_t i);

/* Number of entries of ascending idx[0..nnz) that are < bound. */
size_t ss_lower_bound(const uint32_t *idx, size_t nnz, uint32_t bound);

#endif
