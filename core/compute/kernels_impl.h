/* What the kernel files share: each defines the parts below for its instruction set and gets the
 * same scan and reduce around them. Internal to core/kernels*.c. B is 32 or 64, the width of an
 * element.
 *
 *     struct flags, flags_none()             what was seen of -0.0, Inf and NaN
 *     flags_tell_B(flags, out)               sets negative_zero and not_finite of out
 *     block_mask_B(p, is_float, flags)       the elements of p[0..SS_BLOCK) that are not zero, as a
 * mask block_store_B(p, mask, base, idx, val, logical)   extracts many entries of a block, with
 * room for SS_BLOCK SS_FEW                                 up to so many entries of a block are
 * taken one by one SS_VECTOR_BYTES                        width of a vector in reduce
 */
#ifndef CORE_COMPUTE_KERNELS_IMPL_H
#define CORE_COMPUTE_KERNELS_IMPL_H

#include <string.h>

#include "core/compute/kernels.h"

#define SS_INLINE static inline __attribute__((always_inline))

/* Elements as bits, whatever type the application stored. */
typedef uint32_t __attribute__((may_alias)) ss_bits32;
typedef uint64_t __attribute__((may_alias)) ss_bits64;

enum { SS_BLOCK = 64 }; /* elements a scan takes at once: one bit each in a mask */

#define SS_ABS32 0x7fffffffu
#define SS_ABS64 0x7fffffffffffffffu
#define SS_INF32 0x7f800000u
#define SS_INF64 0x7ff0000000000000u

extern const struct ss_kernels ss_kernels_plain;
#if defined(__x86_64__)
extern const struct ss_kernels ss_kernels_avx2, ss_kernels_avx512;
#endif

/* Bound by memory latency and branches, not by arithmetic: one plain version serves every table. */
void ss_plain_scatter(enum ss_type type, void *dst, uint32_t base, const uint32_t *idx,
                      const void *val, size_t nnz);
void ss_plain_accumulate(enum ss_type type, enum ss_op op, void *dst, uint32_t base,
                         const uint32_t *idx, const void *val, size_t nnz);
size_t ss_plain_merge(enum ss_type type, enum ss_op op, const uint32_t *a_idx, const void *a_val,
                      size_t a_nnz, const uint32_t *b_idx, const void *b_val, size_t b_nnz,
                      uint32_t *out_idx, void *out_val);

/* a op b as an R, for scalars and vectors alike. Integers are unsigned here, so sums wrap. */
#define SS_EXPR_SUM(R, a, b)  ((R)((a) + (b)))
#define SS_EXPR_BOR(R, a, b)  ((R)((a) | (b)))
#define SS_EXPR_BXOR(R, a, b) ((R)((a) ^ (b)))
#define SS_EXPR_LOR(R, a, b)  ((R)((((a) | (b)) != 0) & 1))
#define SS_EXPR_LXOR(R, a, b) ((R)((((a) != 0) ^ ((b) != 0)) & 1))

/* X(name, type, expression) for each pair of type and operator that exists. */
#define SS_EACH_COMBINATION(X)                                                                     \
    X(f32_sum, float, SS_EXPR_SUM)                                                                 \
    X(f64_sum, double, SS_EXPR_SUM)                                                                \
    X(u32_sum, ss_bits32, SS_EXPR_SUM)                                                             \
    X(u32_bor, ss_bits32, SS_EXPR_BOR)                                                             \
    X(u32_bxor, ss_bits32, SS_EXPR_BXOR)                                                           \
    X(u32_lor, ss_bits32, SS_EXPR_LOR)                                                             \
    X(u32_lxor, ss_bits32, SS_EXPR_LXOR)                                                           \
    X(u64_sum, ss_bits64, SS_EXPR_SUM)                                                             \
    X(u64_bor, ss_bits64, SS_EXPR_BOR)                                                             \
    X(u64_bxor, ss_bits64, SS_EXPR_BXOR)                                                           \
    X(u64_lor, ss_bits64, SS_EXPR_LOR)                                                             \
    X(u64_lxor, ss_bits64, SS_EXPR_LXOR)

/* Initialiser of a table [SS_TYPES][SS_OPS] of functions named prefix_combination. Floats have sums
 * only. */
#define SS_COMBINATION_TABLE(prefix)                                                               \
    {                                                                                              \
        [SS_F32] = {[SS_SUM] = prefix##_f32_sum}, [SS_F64] = {[SS_SUM] = prefix##_f64_sum},        \
        [SS_I32] = {prefix##_u32_sum, prefix##_u32_bor, prefix##_u32_bxor, prefix##_u32_lor,       \
                    prefix##_u32_lxor},                                                            \
        [SS_I64] = {prefix##_u64_sum, prefix##_u64_bor, prefix##_u64_bxor, prefix##_u64_lor,       \
                    prefix##_u64_lxor},                                                            \
    }

/* Takes two entries of a block whether they are there or not, and most blocks of a sparse buffer
 * have no more: the loop runs without branches that depend on data, which a processor would have to
 * wait for memory to resolve. Needs room for SS_BLOCK entries. */
#define SS_DEFINE_TAKE(B)                                                                          \
    SS_INLINE void take_one_##B(const ss_bits##B *p, uint64_t mask, uint32_t base, uint32_t *idx,  \
                                ss_bits##B *val, bool logical)                                     \
    {                                                                                              \
        unsigned bit = (unsigned)__builtin_ctzll(mask | (uint64_t)1 << (SS_BLOCK - 1));            \
        *idx = base + bit;                                                                         \
        *val = logical ? 1 : p[bit];                                                               \
    }                                                                                              \
    SS_INLINE void take_##B(const ss_bits##B *p, uint64_t mask, size_t count, uint32_t base,       \
                            uint32_t *idx, ss_bits##B *val, bool logical)                          \
    {                                                                                              \
        if (count > SS_FEW) {                                                                      \
            block_store_##B(p, mask, base, idx, val, logical);                                     \
            return;                                                                                \
        }                                                                                          \
        for (size_t j = 0; j < 2; j++, mask &= mask - 1)                                           \
            take_one_##B(p, mask, base, idx + j, val + j, logical);                                \
        for (size_t j = 2; j < count; j++, mask &= mask - 1)                                       \
            take_one_##B(p, mask, base, idx + j, val + j, logical);                                \
    }                                                                                              \
    /* One by one while there is room; the position of the first entry without, or `unset`. */     \
    static size_t take_some_##B(const ss_bits##B *p, uint64_t mask, size_t position,               \
                                uint32_t base, uint32_t *idx, ss_bits##B *val, size_t capacity,    \
                                bool logical, size_t *stored, size_t unset)                        \
    {                                                                                              \
        for (; mask; mask &= mask - 1, (*stored)++) {                                              \
            if (*stored == capacity)                                                               \
                return position + (unsigned)__builtin_ctzll(mask);                                 \
            take_one_##B(p, mask, base + (uint32_t)position, idx + *stored, val + *stored,         \
                         logical);                                                                 \
        }                                                                                          \
        return unset;                                                                              \
    }

#define SS_DEFINE_SCAN(B)                                                                          \
    SS_DEFINE_TAKE(B)                                                                              \
    SS_INLINE void scan_##B(const ss_bits##B *src, size_t n, uint32_t base, uint32_t *idx,         \
                            ss_bits##B *val, size_t capacity, bool is_float, bool logical,         \
                            struct ss_scan *out)                                                   \
    {                                                                                              \
        size_t nnz = 0, stored = 0, stop = n;                                                      \
        struct flags flags = flags_none();                                                         \
        ss_bits##B tail[SS_BLOCK];                                                                 \
        for (size_t i = 0; i < n; i += SS_BLOCK) {                                                 \
            const ss_bits##B *p = src + i;                                                         \
            if (n - i < SS_BLOCK) {                                                                \
                memset(tail, 0, sizeof tail);                                                      \
                memcpy(tail, p, (n - i) * sizeof *p);                                              \
                p = tail;                                                                          \
            }                                                                                      \
            uint64_t mask = block_mask_##B(p, is_float, &flags);                                   \
            size_t count = (size_t)__builtin_popcountll(mask);                                     \
            nnz += count;                                                                          \
            if (stored + SS_BLOCK <= capacity) {                                                   \
                take_##B(p, mask, count, base + (uint32_t)i, idx + stored, val + stored, logical); \
                stored += count;                                                                   \
            } else if (stop == n) {                                                                \
                stop = take_some_##B(p, mask, i, base, idx, val, capacity, logical, &stored, n);   \
            }                                                                                      \
        }                                                                                          \
        *out = (struct ss_scan){.nnz = nnz, .stored = stored, .stop = stop};                       \
        if (is_float)                                                                              \
            flags_tell_##B(&flags, out);                                                           \
    }

/* The scan of the table. */
#define SS_DEFINE_SCANS(NAME)                                                                      \
    SS_DEFINE_SCAN(32)                                                                             \
    SS_DEFINE_SCAN(64)                                                                             \
    static void NAME(enum ss_type type, enum ss_op op, const void *src, size_t n, uint32_t base,   \
                     uint32_t *idx, void *val, size_t capacity, struct ss_scan *out)               \
    {                                                                                              \
        bool logical = op == SS_LOR || op == SS_LXOR;                                              \
        if (type == SS_F32)                                                                        \
            scan_32(src, n, base, idx, val, capacity, true, false, out);                           \
        else if (type == SS_F64)                                                                   \
            scan_64(src, n, base, idx, val, capacity, true, false, out);                           \
        else if (type == SS_I32)                                                                   \
            scan_32(src, n, base, idx, val, capacity, false, logical, out);                        \
        else                                                                                       \
            scan_64(src, n, base, idx, val, capacity, false, logical, out);                        \
    }

/* dst[i] = dst[i] op src[i] with vectors. */
#define SS_DEFINE_REDUCE(NAME, T, EXPR)                                                            \
    static void reduce_##NAME(void *dst, const void *src, size_t n)                                \
    {                                                                                              \
        typedef T vector __attribute__((vector_size(SS_VECTOR_BYTES)));                            \
        T *d = dst;                                                                                \
        const T *s = src;                                                                          \
        size_t i = 0;                                                                              \
        for (; i + sizeof(vector) / sizeof(T) <= n; i += sizeof(vector) / sizeof(T)) {             \
            vector a, b;                                                                           \
            memcpy(&a, d + i, sizeof a);                                                           \
            memcpy(&b, s + i, sizeof b);                                                           \
            a = EXPR(vector, a, b);                                                                \
            memcpy(d + i, &a, sizeof a);                                                           \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            d[i] = EXPR(T, d[i], s[i]);                                                            \
    }

#define SS_DEFINE_REDUCES(NAME)                                                                    \
    SS_EACH_COMBINATION(SS_DEFINE_REDUCE)                                                          \
    static void NAME(enum ss_type type, enum ss_op op, void *dst, const void *src, size_t n)       \
    {                                                                                              \
        static void (*const table[SS_TYPES][SS_OPS])(void *, const void *, size_t) =               \
            SS_COMBINATION_TABLE(reduce);                                                          \
        table[type][op](dst, src, n);                                                              \
    }

#endif
