/* What the selection files share: each defines the parts below for its instruction set and gets
 * the same loops around them. Internal to core/compute/select*.c. B is 32 or 64, the width of an
 * element.
 *
 *   - struct seen: largest |a| and any bit of g. seen_load(pass), seen_store_B(seen, pass): from
 *     and to memory. is_finite_B(seen): no Inf or NaN among the |a| seen. struct sums: 16 partial
 *     sums of g * g and of a * a; sums_load, sums_store, add_block_B.
 *   - select_block_B: a[0..SS_BLOCK) of a block and, as a mask, the entries at or above the
 *     threshold; g or r may be NULL. keep_block_B: the residual of a block, a, but +0.0 at and
 *     above a threshold. take_block_B: extracts what a mask says, with room for SS_BLOCK.
 *   - range_block_B: |a| of a block and, as a mask, those in a range.
 *   - reach_vector_B: of SS_WIDTH_B values how many reach a threshold of at least
 *     SS_LEAST_MAGNITUDE.
 *   - SS_VECTOR_BYTES, SS_TABLE_NAME: width of a vector in undo, name of the table.
 */
#ifndef CORE_COMPUTE_SELECT_IMPL_H
#define CORE_COMPUTE_SELECT_IMPL_H

#include <string.h>

#include "core/compute/pass.h"
#include "core/compute/vector.h"

#define SS_INLINE static inline __attribute__((always_inline))

enum { SS_BLOCK = 64 };

/* What a is: g + r, or one of them. A constant where it is used. */
enum source { BOTH = 1, INPUT, RESIDUAL };

/* g + i and r + i; in place of an absent array the other one, which is not read as it. */
#define SS_INPUT_AT(i)    ((source == RESIDUAL ? r : g) + (i))
#define SS_RESIDUAL_AT(i) ((source == INPUT ? g : r) + (i))

/* An eighth of an octave. */
#define SS_STEP32 ((ss_bits32)1 << 20)
#define SS_STEP64 ((ss_bits64)1 << 49)

extern const struct ss_selectors ss_selectors_plain;
#if defined(__x86_64__)
extern const struct ss_selectors ss_selectors_avx2, ss_selectors_avx512;
#endif

/* Element by element, with every check: short ranges, blocks with something that is not finite or
 * too little room. Past an overflow it counts to the end of the range. `from` is a multiple of
 * SS_PARTIALS. */
void ss_select_some_32(struct ss_pass *pass, const ss_float32 *g, ss_float32 *r, size_t from,
                       size_t to);
void ss_select_some_64(struct ss_pass *pass, const ss_float64 *g, ss_float64 *r, size_t from,
                       size_t to);
size_t ss_gather_some_32(const ss_float32 *g, const ss_float32 *r, size_t n, ss_magnitude low,
                         ss_magnitude high, ss_magnitude *out, size_t capacity);
size_t ss_gather_some_64(const ss_float64 *g, const ss_float64 *r, size_t n, ss_magnitude low,
                         ss_magnitude high, ss_magnitude *out, size_t capacity);

/* A page ahead, which the processor does not do of itself; past the end of the array it never
 * faults. Measured on Zen 5: 0.9 to 1.05 times r += g for doubles, without it 1.0 to 1.15. */
SS_INLINE void fetch_ahead(const void *p, size_t bytes)
{
    enum { AHEAD = 4096, LINE = 64 };
    for (size_t at = 0; at < bytes; at += LINE)
        __builtin_prefetch((const void *)((uintptr_t)p + AHEAD + at));
}

/* Takes two claims whether they are there or not: most blocks have no more, and a branch that
 * depends on them would be guessed wrong every other time. */
#define SS_DEFINE_TAKE(B)                                                                          \
    SS_INLINE void take_##B(const ss_bits##B *a, uint64_t claims, size_t count, uint32_t base,     \
                            uint32_t *idx, ss_bits##B *val)                                        \
    {                                                                                              \
        if (count > 2) {                                                                           \
            take_block_##B(a, claims, base, idx, val);                                             \
            return;                                                                                \
        }                                                                                          \
        for (size_t j = 0; j < 2; j++, claims &= claims - 1) {                                     \
            unsigned bit = (unsigned)__builtin_ctzll(claims | (uint64_t)1 << (SS_BLOCK - 1));      \
            idx[j] = base + bit;                                                                   \
            val[j] = a[bit];                                                                       \
        }                                                                                          \
    }

#define SS_DEFINE_TAKE_BLOCK(B)                                                                    \
    SS_INLINE void take_block_##B(const ss_bits##B *a, uint64_t claims, uint32_t base,             \
                                  uint32_t *idx, ss_bits##B *val)                                  \
    {                                                                                              \
        for (; claims; claims &= claims - 1) {                                                     \
            unsigned bit = (unsigned)__builtin_ctzll(claims);                                      \
            *idx++ = base + bit;                                                                   \
            *val++ = a[bit];                                                                       \
        }                                                                                          \
    }

/* Without room for a block, one that claims something goes element by element; when there is none
 * left, claims are only counted. */
#define SS_DEFINE_SELECT(B)                                                                        \
    SS_INLINE void select_blocks_##B(struct ss_pass *pass, const ss_float##B *g, ss_float##B *r,   \
                                     enum source source)                                           \
    {                                                                                              \
        const size_t n = pass->n, blocks_end = n - n % SS_BLOCK;                                   \
        const ss_bits##B threshold = (ss_bits##B)pass->threshold;                                  \
        const ss_bits##B leave = (ss_bits##B)pass->leave;                                          \
        ss_bits##B *val = pass->val;                                                               \
        uint32_t *idx = pass->idx;                                                                 \
        size_t claimed = 0, room = pass->capacity;                                                 \
        struct seen seen = seen_load(pass);                                                        \
        struct sums sums = sums_load(pass);                                                        \
        for (size_t i = 0; i < blocks_end; i += SS_BLOCK) {                                        \
            ss_bits##B a[SS_BLOCK] __attribute__((aligned(64)));                                   \
            if (source != RESIDUAL)                                                                \
                fetch_ahead(g + i, sizeof a);                                                      \
            if (source != INPUT)                                                                   \
                fetch_ahead(r + i, sizeof a);                                                      \
            struct seen next = seen;                                                               \
            uint64_t claims =                                                                      \
                select_block_##B(source, SS_INPUT_AT(i), SS_RESIDUAL_AT(i), threshold, &next, a);  \
            size_t count = (size_t)__builtin_popcountll(claims);                                   \
            bool finite = is_finite_##B(&next);                                                    \
            const bool fits = room >= SS_BLOCK;                                                    \
            if (__builtin_expect(finite && (fits || room == 0 || claims == 0), 1)) {               \
                add_block_##B(source, SS_INPUT_AT(i), a, &sums);                                   \
                seen = next;                                                                       \
                if (source == BOTH || (source == RESIDUAL && fits && claims))                      \
                    keep_block_##B(r + i, a, fits ? leave : SS_INF##B);                            \
                if (!fits) {                                                                       \
                    pass->out.over += count;                                                       \
                    continue;                                                                      \
                }                                                                                  \
                take_##B(a, claims, count, pass->base + (uint32_t)i, idx + claimed,                \
                         val + claimed);                                                           \
                claimed += count;                                                                  \
                room -= count;                                                                     \
            } else {                                                                               \
                pass->out.claimed = claimed;                                                       \
                seen_store_##B(&seen, pass);                                                       \
                sums_store(&sums, pass);                                                           \
                ss_select_some_##B(pass, g, r, i, i + SS_BLOCK);                                   \
                if (pass->out.stop < n)                                                            \
                    return;                                                                        \
                claimed = pass->out.claimed;                                                       \
                room = pass->capacity - claimed;                                                   \
                seen = seen_load(pass);                                                            \
                sums = sums_load(pass);                                                            \
            }                                                                                      \
        }                                                                                          \
        pass->out.claimed = claimed;                                                               \
        seen_store_##B(&seen, pass);                                                               \
        sums_store(&sums, pass);                                                                   \
        ss_select_some_##B(pass, g, r, blocks_end, n);                                             \
    }                                                                                              \
    static void select_both_##B(struct ss_pass *pass, const void *g, void *r)                      \
    {                                                                                              \
        select_blocks_##B(pass, g, r, BOTH);                                                       \
    }                                                                                              \
    static void select_one_##B(struct ss_pass *pass, const void *g, void *r)                       \
    {                                                                                              \
        if (g)                                                                                     \
            select_blocks_##B(pass, g, r, INPUT);                                                  \
        else                                                                                       \
            select_blocks_##B(pass, g, r, RESIDUAL);                                               \
    }

#define SS_DEFINE_GATHER(B)                                                                        \
    SS_INLINE size_t gather_blocks_##B(const ss_float##B *g, const ss_float##B *r, size_t n,       \
                                       ss_magnitude low, ss_magnitude high, ss_magnitude *out,     \
                                       size_t capacity, enum source source)                        \
    {                                                                                              \
        const size_t blocks_end = n - n % SS_BLOCK;                                                \
        size_t found = 0;                                                                          \
        for (size_t i = 0; i < blocks_end; i += SS_BLOCK) {                                        \
            ss_bits##B m[SS_BLOCK] __attribute__((aligned(64)));                                   \
            uint64_t mask = range_block_##B(source, SS_INPUT_AT(i), SS_RESIDUAL_AT(i),             \
                                            (ss_bits##B)low, (ss_bits##B)high, m);                 \
            size_t count = (size_t)__builtin_popcountll(mask);                                     \
            for (size_t j = found; mask && j < capacity; mask &= mask - 1, j++)                    \
                out[j] = m[__builtin_ctzll(mask)];                                                 \
            found += count;                                                                        \
        }                                                                                          \
        size_t left = found < capacity ? capacity - found : 0;                                     \
        return found + ss_gather_some_##B(source == RESIDUAL ? NULL : g + blocks_end,              \
                                          source == INPUT ? NULL : r + blocks_end, n - blocks_end, \
                                          low, high, left ? out + found : NULL, left);             \
    }                                                                                              \
    static size_t gather_##B(const void *g, const void *r, size_t n, ss_magnitude low,             \
                             ss_magnitude high, ss_magnitude *out, size_t capacity)                \
    {                                                                                              \
        if (g && r)                                                                                \
            return gather_blocks_##B(g, r, n, low, high, out, capacity, BOTH);                     \
        if (g)                                                                                     \
            return gather_blocks_##B(g, r, n, low, high, out, capacity, INPUT);                    \
        return gather_blocks_##B(g, r, n, low, high, out, capacity, RESIDUAL);                     \
    }

/* r -= g where g is finite, saturating. */
#define SS_DEFINE_SUBTRACT(B)                                                                      \
    static void subtract_##B(ss_float##B *r, const ss_float##B *g, size_t n)                       \
    {                                                                                              \
        typedef ss_float##B floats __attribute__((vector_size(SS_VECTOR_BYTES)));                  \
        typedef ss_bits##B bits __attribute__((vector_size(SS_VECTOR_BYTES)));                     \
        const size_t lanes = sizeof(floats) / sizeof *r;                                           \
        for (size_t i = 0; i < n; i += lanes) {                                                    \
            size_t bytes = (n - i < lanes ? n - i : lanes) * sizeof *r;                            \
            floats gx = {0}, rx = {0};                                                             \
            if (bytes == sizeof gx) { /* a copy of known size is one instruction */                \
                memcpy(&gx, g + i, sizeof gx);                                                     \
                memcpy(&rx, r + i, sizeof rx);                                                     \
            } else {                                                                               \
                memcpy(&gx, g + i, bytes);                                                         \
                memcpy(&rx, r + i, bytes);                                                         \
            }                                                                                      \
            bits x = (bits)(rx - gx);                                                              \
            bits fits = (bits)((x & SS_ABS##B) < SS_INF##B);                                       \
            bits finite = (bits)(((bits)gx & SS_ABS##B) < SS_INF##B);                              \
            x = (x & fits) | (((x & ~SS_ABS##B) | (SS_INF##B - 1)) & ~fits);                       \
            x = (x & finite) | ((bits)rx & ~finite);                                               \
            if (bytes == sizeof x)                                                                 \
                memcpy(r + i, &x, sizeof x);                                                       \
            else                                                                                   \
                memcpy(r + i, &x, bytes);                                                          \
        }                                                                                          \
    }

#define SS_DEFINE_KTH(B)                                                                           \
    SS_INLINE size_t reach_##B(const ss_bits##B *val, size_t count, ss_bits##B least)              \
    {                                                                                              \
        size_t reached = 0;                                                                        \
        for (size_t i = 0; i < count; i += SS_WIDTH_##B)                                           \
            reached += reach_vector_##B(val + i, least);                                           \
        return reached;                                                                            \
    }                                                                                              \
    /* Up from low in steps that double, then by halves. */                                        \
    static ss_magnitude kth_##B(ss_bits##B *val, size_t count, size_t k, ss_bits##B low,           \
                                size_t *ties)                                                      \
    {                                                                                              \
        ss_bits##B high = SS_INF##B - 1, step = SS_STEP##B;                                        \
        for (size_t i = 0; i < SS_WIDTH_##B; i++)                                                  \
            val[count + i] = 0; /* reaches nothing */                                              \
        *ties = k;                                                                                 \
        while (low < high) {                                                                       \
            const ss_bits##B half = (high - low + 1) / 2;                                          \
            const ss_bits##B middle = low + (step < half ? step : half);                           \
            const size_t reached = reach_##B(val, count, middle);                                  \
            if (reached == k)                                                                      \
                return middle;                                                                     \
            if (reached < k)                                                                       \
                high = middle - 1;                                                                 \
            else                                                                                   \
                low = middle;                                                                      \
            step = reached < k || step >= half ? half : 2 * step;                                  \
        }                                                                                          \
        *ties -= reach_##B(val, count, low + 1);                                                   \
        return low;                                                                                \
    }

#define SS_DEFINE_TABLE(NAME)                                                                      \
    SS_DEFINE_TAKE(32)                                                                             \
    SS_DEFINE_TAKE(64)                                                                             \
    SS_DEFINE_SELECT(32)                                                                           \
    SS_DEFINE_SELECT(64)                                                                           \
    SS_DEFINE_GATHER(32)                                                                           \
    SS_DEFINE_GATHER(64)                                                                           \
    SS_DEFINE_SUBTRACT(32)                                                                         \
    SS_DEFINE_SUBTRACT(64)                                                                         \
    SS_DEFINE_KTH(32)                                                                              \
    SS_DEFINE_KTH(64)                                                                              \
    static void run_pass(enum ss_type type, struct ss_pass *pass, const void *g, void *r)          \
    {                                                                                              \
        if (type == SS_F32)                                                                        \
            (g && r ? select_both_32 : select_one_32)(pass, g, r);                                 \
        else                                                                                       \
            (g && r ? select_both_64 : select_one_64)(pass, g, r);                                 \
    }                                                                                              \
    static ss_magnitude kth(enum ss_type type, void *val, size_t count, size_t k,                  \
                            ss_magnitude low, size_t *ties)                                        \
    {                                                                                              \
        return type == SS_F32 ? kth_32(val, count, k, (ss_bits32)low, ties)                        \
                              : kth_64(val, count, k, low, ties);                                  \
    }                                                                                              \
    static void select_entries(enum ss_type type, const void *g, void *r, size_t n, uint32_t base, \
                               ss_magnitude threshold, uint32_t *idx, void *val, size_t capacity,  \
                               struct ss_selection *out)                                           \
    {                                                                                              \
        struct ss_pass pass = {.n = n,                                                             \
                               .capacity = capacity,                                               \
                               .threshold = threshold,                                             \
                               .leave = threshold,                                                 \
                               .base = base,                                                       \
                               .idx = idx,                                                         \
                               .val = val,                                                         \
                               .out = {.stop = n}};                                                \
        run_pass(type, &pass, g, r);                                                               \
        ss_pass_end(&pass, out);                                                                   \
    }                                                                                              \
    static size_t gather(enum ss_type type, const void *g, const void *r, size_t n,                \
                         ss_magnitude low, ss_magnitude high, ss_magnitude *out, size_t capacity)  \
    {                                                                                              \
        return (type == SS_F32 ? gather_32 : gather_64)(g, r, n, low, high, out, capacity);        \
    }                                                                                              \
    static void undo(enum ss_type type, const void *g, void *r, size_t n, uint32_t base,           \
                     const uint32_t *idx, const void *val, size_t claimed)                         \
    {                                                                                              \
        ss_vector_add_at(type, r, base, idx, val, claimed);                                        \
        if (type == SS_F32)                                                                        \
            subtract_32(r, g, n);                                                                  \
        else                                                                                       \
            subtract_64(r, g, n);                                                                  \
    }                                                                                              \
    static const struct ss_bucket_parts bucket_parts = {.pass = run_pass, .kth = kth};             \
    const struct ss_selectors NAME = {.name = SS_TABLE_NAME,                                       \
                                      .select = select_entries,                                    \
                                      .gather = gather,                                            \
                                      .undo = undo,                                                \
                                      .bucket_parts = &bucket_parts};

#endif
