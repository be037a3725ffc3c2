#include "core/select_impl.h"

#define SS_TABLE_NAME "plain"
enum { SS_VECTOR_BYTES = 16 };

struct seen {
    uint64_t largest, any;
    double g[SS_PARTIALS], a[SS_PARTIALS];
};

SS_INLINE struct seen seen_load(const struct ss_pass *pass)
{
    struct seen seen = {.largest = pass->out.largest, .any = pass->any_input};
    memcpy(seen.g, pass->input_square, sizeof seen.g);
    memcpy(seen.a, pass->sum_square, sizeof seen.a);
    return seen;
}

SS_INLINE void store_sums(const struct seen *seen, struct ss_pass *pass)
{
    pass->out.largest = seen->largest;
    pass->any_input = seen->any;
    memcpy(pass->input_square, seen->g, sizeof seen->g);
    memcpy(pass->sum_square, seen->a, sizeof seen->a);
}

/* The square stands alone: added in the same expression a compiler may fuse the two. */
#define DEFINE_ELEMENT(B)                                                                          \
    SS_INLINE ss_bits##B bits_of_##B(ss_float##B x)                                                \
    {                                                                                              \
        ss_bits##B bits;                                                                           \
        memcpy(&bits, &x, sizeof bits);                                                            \
        return bits;                                                                               \
    }                                                                                              \
    SS_INLINE ss_float##B element_##B(const ss_float##B *g, const ss_float##B *r, size_t i)        \
    {                                                                                              \
        return g && r ? g[i] + r[i] : g ? g[i] : r[i];                                             \
    }                                                                                              \
    SS_INLINE void see_##B(ss_float##B gx, ss_float##B ax, uint64_t *largest, uint64_t *any,       \
                           double *g_square, double *a_square)                                     \
    {                                                                                              \
        uint64_t magnitude = bits_of_##B(ax) & SS_ABS##B;                                          \
        double g2 = (double)gx * (double)gx, a2 = (double)ax * (double)ax;                         \
        *largest = magnitude > *largest ? magnitude : *largest;                                    \
        *any |= bits_of_##B(gx) & SS_ABS##B;                                                       \
        *g_square += g2;                                                                           \
        *a_square += a2;                                                                           \
    }                                                                                              \
    SS_INLINE void seen_store_##B(const struct seen *seen, struct ss_pass *pass)                   \
    {                                                                                              \
        store_sums(seen, pass);                                                                    \
    }                                                                                              \
    SS_INLINE bool is_finite_##B(const struct seen *seen)                                          \
    {                                                                                              \
        return seen->largest < SS_INF##B;                                                          \
    }

DEFINE_ELEMENT(32)
DEFINE_ELEMENT(64)

/* A whole g whose sum with the residual is not finite ends the pass: `undo` can tell an untouched
 * residual from a sum by g alone, and here it could not. */
#define DEFINE_SOME(B)                                                                             \
    static size_t not_finite_##B(const ss_float##B *g, const ss_float##B *r, size_t n)             \
    {                                                                                              \
        size_t count = 0;                                                                          \
        for (size_t i = 0; i < n; i++)                                                             \
            count += (bits_of_##B(element_##B(g, r, i)) & SS_ABS##B) >= SS_INF##B;                 \
        return count;                                                                              \
    }                                                                                              \
    void ss_select_some_##B(struct ss_pass *pass, const ss_float##B *g, ss_float##B *r,            \
                            size_t from, size_t to)                                                \
    {                                                                                              \
        struct ss_selection *out = &pass->out;                                                     \
        ss_bits##B *val = pass->val;                                                               \
        for (size_t i = from; i < to; i++) {                                                       \
            ss_float##B a = element_##B(g, r, i);                                                  \
            ss_bits##B magnitude = bits_of_##B(a) & SS_ABS##B;                                     \
            if (magnitude >= SS_INF##B) {                                                          \
                out->not_finite++;                                                                 \
                if (!g || !r || (bits_of_##B(g[i]) & SS_ABS##B) >= SS_INF##B)                      \
                    continue;                                                                      \
                out->stop = i;                                                                     \
                out->not_finite += not_finite_##B(g + i + 1, r + i + 1, pass->n - i - 1);          \
                return;                                                                            \
            }                                                                                      \
            see_##B(g ? g[i] : 0, a, &out->largest, &pass->any_input,                              \
                    &pass->input_square[i % SS_PARTIALS], &pass->sum_square[i % SS_PARTIALS]);     \
            bool chosen = magnitude >= pass->threshold, claim = chosen;                            \
            if (chosen && out->claimed == pass->capacity) {                                        \
                out->over++;                                                                       \
                claim = false;                                                                     \
            }                                                                                      \
            if (claim) {                                                                           \
                pass->idx[out->claimed] = pass->base + (uint32_t)i;                                \
                val[out->claimed++] = bits_of_##B(a);                                              \
            }                                                                                      \
            if (r)                                                                                 \
                r[i] = claim ? 0 : a;                                                              \
        }                                                                                          \
    }                                                                                              \
    size_t ss_gather_some_##B(const ss_float##B *g, const ss_float##B *r, size_t n,                \
                              ss_magnitude low, ss_magnitude high, ss_magnitude *out,              \
                              size_t capacity)                                                     \
    {                                                                                              \
        size_t found = 0;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            ss_magnitude magnitude = bits_of_##B(element_##B(g, r, i)) & SS_ABS##B;                \
            if (magnitude < low || magnitude > high)                                               \
                continue;                                                                          \
            if (found < capacity)                                                                  \
                out[found] = magnitude;                                                            \
            found++;                                                                               \
        }                                                                                          \
        return found;                                                                              \
    }

DEFINE_SOME(32)
DEFINE_SOME(64)

size_t ss_count_not_finite(enum ss_type type, const void *g, const void *r, size_t n)
{
    return type == SS_F32 ? not_finite_32(g, r, n) : not_finite_64(g, r, n);
}

void ss_pass_end(struct ss_pass *pass, struct ss_selection *out)
{
    for (size_t half = SS_PARTIALS / 2; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++) {
            pass->input_square[j] += pass->input_square[j + half];
            pass->sum_square[j] += pass->sum_square[j + half];
        }
    *out = pass->out;
    out->zero_input = pass->any_input == 0;
    out->input_square = pass->input_square[0];
    out->sum_square = pass->sum_square[0];
}

#define DEFINE_BLOCK(B)                                                                            \
    SS_INLINE uint64_t select_block_##B(enum source source, const ss_float##B *g,                  \
                                        const ss_float##B *r, ss_bits##B threshold,                \
                                        struct seen *seen, ss_bits##B *a)                          \
    {                                                                                              \
        uint64_t claims = 0;                                                                       \
        g = source == RESIDUAL ? NULL : g;                                                         \
        r = source == INPUT ? NULL : r;                                                            \
        for (size_t i = 0; i < SS_BLOCK; i++) {                                                    \
            ss_float##B x = element_##B(g, r, i);                                                  \
            a[i] = bits_of_##B(x);                                                                 \
            claims |= (uint64_t)((a[i] & SS_ABS##B) >= threshold) << i;                            \
            see_##B(g ? g[i] : 0, x, &seen->largest, &seen->any, &seen->g[i % SS_PARTIALS],        \
                    &seen->a[i % SS_PARTIALS]);                                                    \
        }                                                                                          \
        return claims;                                                                             \
    }                                                                                              \
    SS_INLINE void keep_block_##B(ss_float##B *r, const ss_bits##B *a, ss_bits##B threshold)       \
    {                                                                                              \
        ss_bits##B *to = (ss_bits##B *)r;                                                          \
        for (size_t i = 0; i < SS_BLOCK; i++)                                                      \
            to[i] = (a[i] & SS_ABS##B) >= threshold ? 0 : a[i];                                    \
    }                                                                                              \
    SS_INLINE uint64_t range_block_##B(enum source source, const ss_float##B *g,                   \
                                       const ss_float##B *r, ss_bits##B low, ss_bits##B high,      \
                                       ss_bits##B *m)                                              \
    {                                                                                              \
        uint64_t mask = 0;                                                                         \
        g = source == RESIDUAL ? NULL : g;                                                         \
        r = source == INPUT ? NULL : r;                                                            \
        for (size_t i = 0; i < SS_BLOCK; i++) {                                                    \
            m[i] = bits_of_##B(element_##B(g, r, i)) & SS_ABS##B;                                  \
            mask |= (uint64_t)((m[i] >= low) & (m[i] <= high)) << i;                               \
        }                                                                                          \
        return mask;                                                                               \
    }                                                                                              \
    SS_DEFINE_TAKE_BLOCK(B)

DEFINE_BLOCK(32)
DEFINE_BLOCK(64)
SS_DEFINE_TABLE(ss_selectors_plain)
