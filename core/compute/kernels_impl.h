/* Shared by the kernel files. kernels_plain.c, kernels_avx2.c and kernels_avx512.c each define the
 * functions that kernels_scan.inc takes, with their instructions, and get the loops around them
 * from kernels_table.inc. */
#ifndef CORE_COMPUTE_KERNELS_IMPL_H
#define CORE_COMPUTE_KERNELS_IMPL_H

#include <string.h>

#include "core/compute/kernels.h"
#include "core/compute/width.h"

extern const struct ss_kernels ss_kernels_plain;
#if defined(__x86_64__)
extern const struct ss_kernels ss_kernels_avx2, ss_kernels_avx512;
#endif

/* Plain kernels that every table shares, since memory latency and branches bound them. */
void ss_plain_scatter(enum ss_type type, void *dst, uint32_t base, const uint32_t *idx,
                      const void *val, size_t nnz);
void ss_plain_accumulate(enum ss_type type, enum ss_op op, void *dst, uint32_t base,
                         const uint32_t *idx, const void *val, size_t nnz);
size_t ss_plain_merge(enum ss_type type, enum ss_op op, const uint32_t *a_idx, const void *a_val,
                      size_t a_nnz, const uint32_t *b_idx, const void *b_val, size_t b_nnz,
                      uint32_t *out_idx, void *out_val);

/* Initialises a table [SS_TYPES][SS_OPS] with the functions that a file has defined through
 * each_combination.inc. Floats have sums only. */
#define SS_COMBINATION_TABLE(function)                                                             \
    {                                                                                              \
        [SS_F32] = {[SS_SUM] = function##_f32_sum}, [SS_F64] = {[SS_SUM] = function##_f64_sum},    \
        [SS_I32] = {function##_u32_sum, function##_u32_bor, function##_u32_bxor,                   \
                    function##_u32_lor, function##_u32_lxor},                                      \
        [SS_I64] = {function##_u64_sum, function##_u64_bor, function##_u64_bxor,                   \
                    function##_u64_lor, function##_u64_lxor},                                      \
    }

#endif
