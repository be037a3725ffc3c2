#include "core/compute/kernels_impl.h"

enum { SS_VECTOR_BYTES = 16, SS_FEW = SS_BLOCK };

struct flags {
    bool negative_zero, not_finite;
};

SS_INLINE struct flags flags_none(void)
{
    return (struct flags){false, false};
}

/* Zeros, the common case, cost one branch for 8 elements. */
#define DEFINE_BLOCK(B)                                                                            \
    SS_INLINE void flags_tell_##B(const struct flags *flags, struct ss_scan *out)                  \
    {                                                                                              \
        out->negative_zero = flags->negative_zero;                                                 \
        out->not_finite = flags->not_finite;                                                       \
    }                                                                                              \
    SS_INLINE uint64_t block_mask_##B(const ss_bits##B *p, bool is_float, struct flags *flags)     \
    {                                                                                              \
        uint64_t mask = 0;                                                                         \
        for (int i = 0; i < SS_BLOCK; i += 8) {                                                    \
            const ss_bits##B *q = p + i;                                                           \
            if ((q[0] | q[1] | q[2] | q[3] | q[4] | q[5] | q[6] | q[7]) == 0)                      \
                continue;                                                                          \
            for (int j = 0; j < 8; j++) {                                                          \
                ss_bits##B magnitude = is_float ? q[j] & SS_ABS##B : q[j];                         \
                mask |= (uint64_t)(magnitude != 0) << (i + j);                                     \
                flags->negative_zero |= (magnitude == 0) & (q[j] != 0);                            \
                flags->not_finite |= magnitude >= SS_INF##B;                                       \
            }                                                                                      \
        }                                                                                          \
        return mask;                                                                               \
    }                                                                                              \
    SS_INLINE void block_store_##B(const ss_bits##B *p, uint64_t mask, uint32_t base,              \
                                   uint32_t *idx, ss_bits##B *val, bool logical)                   \
    {                                                                                              \
        for (; mask; mask &= mask - 1) {                                                           \
            unsigned bit = (unsigned)__builtin_ctzll(mask);                                        \
            *idx++ = base + bit;                                                                   \
            *val++ = logical ? 1 : p[bit];                                                         \
        }                                                                                          \
    }

DEFINE_BLOCK(32)
DEFINE_BLOCK(64)
SS_DEFINE_SCANS(scan)
SS_DEFINE_REDUCES(reduce)

void ss_plain_scatter(enum ss_type type, void *dst, uint32_t base, const uint32_t *idx,
                      const void *val, size_t nnz)
{
    if (ss_type_size(type) == 4) {
        ss_bits32 *to = dst;
        const ss_bits32 *from = val;
        for (size_t j = 0; j < nnz; j++)
            to[idx[j] - base] = from[j];
    } else {
        ss_bits64 *to = dst;
        const ss_bits64 *from = val;
        for (size_t j = 0; j < nnz; j++)
            to[idx[j] - base] = from[j];
    }
}

#define DEFINE_ACCUMULATE(NAME, T, EXPR)                                                           \
    static void accumulate_##NAME(void *dst, uint32_t base, const uint32_t *idx, const void *val,  \
                                  size_t nnz)                                                      \
    {                                                                                              \
        T *d = dst;                                                                                \
        const T *v = val;                                                                          \
        for (size_t j = 0; j < nnz; j++)                                                           \
            d[idx[j] - base] = EXPR(T, d[idx[j] - base], v[j]);                                    \
    }

SS_EACH_COMBINATION(DEFINE_ACCUMULATE)

void ss_plain_accumulate(enum ss_type type, enum ss_op op, void *dst, uint32_t base,
                         const uint32_t *idx, const void *val, size_t nnz)
{
    static void (*const table[SS_TYPES][SS_OPS])(void *, uint32_t, const uint32_t *, const void *,
                                                 size_t) = SS_COMBINATION_TABLE(accumulate);
    table[type][op](dst, base, idx, val, nnz);
}

/* As ss_lower_bound, in O(log of the answer). */
static size_t gallop(const uint32_t *idx, size_t nnz, uint32_t bound)
{
    size_t high = 1;
    while (high < nnz && idx[high - 1] < bound)
        high *= 2;
    size_t low = high / 2;
    return low + ss_lower_bound(idx + low, (high < nnz ? high : nnz) - low, bound);
}

/* One side this many times longer than the other: search and copy runs instead of stepping. */
enum { LOPSIDED = 32 };

/* A merge under way: positions in a, b and out. Two run at once, of the lower and the upper half of
 * the indices, since each step waits for the one before it. */
struct merge {
    size_t a, a_end, b, b_end, out;
};

/* The operators commute, so the long side may be either operand. */
#define DEFINE_MERGE(NAME, T, EXPR)                                                                \
    static size_t merge_runs_##NAME(const uint32_t *long_idx, const T *l, size_t l_nnz,            \
                                    const uint32_t *short_idx, const T *s, size_t s_nnz,           \
                                    uint32_t *out_idx, T *out)                                     \
    {                                                                                              \
        size_t i = 0, o = 0;                                                                       \
        for (size_t j = 0; j < s_nnz; j++) {                                                       \
            size_t run = gallop(long_idx + i, l_nnz - i, short_idx[j]);                            \
            memcpy(out_idx + o, long_idx + i, run * sizeof *out_idx);                              \
            memcpy(out + o, l + i, run * sizeof *out);                                             \
            i += run;                                                                              \
            o += run;                                                                              \
            bool both = i < l_nnz && long_idx[i] == short_idx[j];                                  \
            out_idx[o] = short_idx[j];                                                             \
            out[o++] = both ? EXPR(T, l[i], s[j]) : s[j];                                          \
            i += both;                                                                             \
        }                                                                                          \
        memcpy(out_idx + o, long_idx + i, (l_nnz - i) * sizeof *out_idx);                          \
        memcpy(out + o, l + i, (l_nnz - i) * sizeof *out);                                         \
        return o + l_nnz - i;                                                                      \
    }                                                                                              \
    /* One entry of the union; which side it comes from is data, not a branch. */                  \
    SS_INLINE void merge_step_##NAME(const uint32_t *a_idx, const T *a, const uint32_t *b_idx,     \
                                     const T *b, uint32_t *out_idx, T *out, struct merge *m)       \
    {                                                                                              \
        uint32_t x = a_idx[m->a], y = b_idx[m->b];                                                 \
        T choice[3] = {b[m->b], a[m->a], EXPR(T, a[m->a], b[m->b])};                               \
        out_idx[m->out] = x < y ? x : y;                                                           \
        out[m->out++] = choice[(x <= y) + (x == y)];                                               \
        m->a += x <= y;                                                                            \
        m->b += y <= x;                                                                            \
    }                                                                                              \
    /* What is left when one side has ended. */                                                    \
    SS_INLINE void merge_rest_##NAME(const uint32_t *a_idx, const T *a, const uint32_t *b_idx,     \
                                     const T *b, uint32_t *out_idx, T *out, struct merge *m)       \
    {                                                                                              \
        while (m->a < m->a_end && m->b < m->b_end)                                                 \
            merge_step_##NAME(a_idx, a, b_idx, b, out_idx, out, m);                                \
        size_t a_left = m->a_end - m->a, b_left = m->b_end - m->b;                                 \
        memcpy(out_idx + m->out, a_idx + m->a, a_left * sizeof *out_idx);                          \
        memcpy(out + m->out, a + m->a, a_left * sizeof *out);                                      \
        m->out += a_left;                                                                          \
        memcpy(out_idx + m->out, b_idx + m->b, b_left * sizeof *out_idx);                          \
        memcpy(out + m->out, b + m->b, b_left * sizeof *out);                                      \
        m->out += b_left;                                                                          \
    }                                                                                              \
    static size_t merge_##NAME(const uint32_t *a_idx, const void *a_val, size_t a_nnz,             \
                               const uint32_t *b_idx, const void *b_val, size_t b_nnz,             \
                               uint32_t *out_idx, void *out_val)                                   \
    {                                                                                              \
        const T *a = a_val, *b = b_val;                                                            \
        T *out = out_val;                                                                          \
        if (a_nnz / LOPSIDED > b_nnz)                                                              \
            return merge_runs_##NAME(a_idx, a, a_nnz, b_idx, b, b_nnz, out_idx, out);              \
        if (b_nnz / LOPSIDED > a_nnz)                                                              \
            return merge_runs_##NAME(b_idx, b, b_nnz, a_idx, a, a_nnz, out_idx, out);              \
        size_t a_half = a_nnz / 2;                                                                 \
        size_t b_half = ss_lower_bound(b_idx, b_nnz, a_idx[a_half]);                               \
        struct merge low = {0, a_half, 0, b_half, 0};                                              \
        struct merge high = {a_half, a_nnz, b_half, b_nnz, a_half + b_half};                       \
        while (low.a < a_half && low.b < b_half && high.a < a_nnz && high.b < b_nnz) {             \
            merge_step_##NAME(a_idx, a, b_idx, b, out_idx, out, &low);                             \
            merge_step_##NAME(a_idx, a, b_idx, b, out_idx, out, &high);                            \
        }                                                                                          \
        merge_rest_##NAME(a_idx, a, b_idx, b, out_idx, out, &low);                                 \
        merge_rest_##NAME(a_idx, a, b_idx, b, out_idx, out, &high);                                \
        size_t above = a_half + b_half, entries = high.out - above;                                \
        memmove(out_idx + low.out, out_idx + above, entries * sizeof *out_idx);                    \
        memmove(out + low.out, out + above, entries * sizeof *out);                                \
        return low.out + entries;                                                                  \
    }

SS_EACH_COMBINATION(DEFINE_MERGE)

size_t ss_plain_merge(enum ss_type type, enum ss_op op, const uint32_t *a_idx, const void *a_val,
                      size_t a_nnz, const uint32_t *b_idx, const void *b_val, size_t b_nnz,
                      uint32_t *out_idx, void *out_val)
{
    static size_t (*const table[SS_TYPES][SS_OPS])(
        const uint32_t *, const void *, size_t, const uint32_t *, const void *, size_t, uint32_t *,
        void *) = SS_COMBINATION_TABLE(merge);
    if (a_nnz == 0 || b_nnz == 0) { /* whose arrays may be null */
        size_t nnz = a_nnz + b_nnz;
        if (nnz > 0) {
            memcpy(out_idx, a_nnz ? a_idx : b_idx, nnz * sizeof *out_idx);
            memcpy(out_val, a_nnz ? a_val : b_val, nnz * ss_type_size(type));
        }
        return nnz;
    }
    return table[type][op](a_idx, a_val, a_nnz, b_idx, b_val, b_nnz, out_idx, out_val);
}

const struct ss_kernels ss_kernels_plain = {
    .name = "plain",
    .scan = scan,
    .scatter = ss_plain_scatter,
    .accumulate = ss_plain_accumulate,
    .reduce = reduce,
    .merge = ss_plain_merge,
};
