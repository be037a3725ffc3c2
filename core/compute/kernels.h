/* The loops over elements, in plain C, AVX2 and AVX-512, bit for bit equal, chosen at run time.
 *
 * Zero tests look at integer bits, so that subnormals count as values and -0.0 as zero in any
 * floating-point environment. Arithmetic expects the default MXCSR (core/base/fpenv.h). Sizes are
 * in elements; arrays need only the natural alignment of their type.
 */
#ifndef CORE_COMPUTE_KERNELS_H
#define CORE_COMPUTE_KERNELS_H

#include "core/base/types.h"

/* Results of a scan. */
struct ss_scan {
    size_t nnz;         /* entries of the whole range that are not zero, stored or not */
    size_t stored;      /* entries written to idx and val */
    size_t stop;        /* first element that was not extracted; n if all fit */
    bool negative_zero; /* an element is -0.0 */
    bool not_finite;    /* an element is Inf or NaN (floats only) */
};

struct ss_kernels {
    const char *name; /* "avx512", "avx2", "plain" */

    /* Extracts the non-zero entries of src[0..n) in ascending order: idx[j] = base + position,
     * val[j] = the element (for SS_LOR and SS_LXOR the value 1). Writes at most `capacity` entries;
     * idx and val hold at least as many. After that, `stop` is the position of the first non-zero
     * element not stored, and further entries are only counted. not_finite and negative_zero always
     * cover the whole range. n < 2^32. */
    void (*scan)(enum ss_type type, enum ss_op op, const void *src, size_t n, uint32_t base,
                 uint32_t *idx, void *val, size_t capacity, struct ss_scan *out);

    /* Sets dst[idx[j] - base] = val[j]; idx ascending and unique. */
    void (*scatter)(enum ss_type type, void *dst, uint32_t base, const uint32_t *idx,
                    const void *val, size_t nnz);

    /* Sets dst[idx[j] - base] = dst[...] op val[j]; idx ascending and unique. Integer sums wrap. */
    void (*accumulate)(enum ss_type type, enum ss_op op, void *dst, uint32_t base,
                       const uint32_t *idx, const void *val, size_t nnz);

    /* Sets dst[i] = dst[i] op src[i] for n elements. */
    void (*reduce)(enum ss_type type, enum ss_op op, void *dst, const void *src, size_t n);

    /* Merges two streams with ascending unique indices into out, which has room for a_nnz + b_nnz
     * entries and does not overlap the inputs. Entries with equal indices are combined as a op b.
     * Returns the number of entries written. */
    size_t (*merge)(enum ss_type type, enum ss_op op, const uint32_t *a_idx, const void *a_val,
                    size_t a_nnz, const uint32_t *b_idx, const void *b_val, size_t b_nnz,
                    uint32_t *out_idx, void *out_val);
};

/* Returns the best table that this processor runs. Thread-safe. */
const struct ss_kernels *ss_kernels(void);

/* Returns table i of those that this processor runs, for tests; NULL past the last. */
const struct ss_kernels *ss_kernels_at(size_t i);

/* Returns the number of entries of ascending idx[0..nnz) that are < bound. */
size_t ss_lower_bound(const uint32_t *idx, size_t nnz, uint32_t bound);

#endif
