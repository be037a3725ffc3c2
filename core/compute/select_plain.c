#include "core/compute/select_impl.h"
#include "core/compute/vector.h"

#define SS_TABLE_NAME "plain"
enum { SS_VECTOR_BYTES = 16, SS_WIDTH_32 = 4, SS_WIDTH_64 = 2 };

struct seen {
    uint64_t largest, any;
};

struct sums {
    double g[SS_PARTIALS], a[SS_PARTIALS];
};

SS_INLINE struct seen seen_load(const struct ss_pass *pass)
{
    return (struct seen){pass->out.largest, pass->any_input};
}

SS_INLINE struct sums sums_load(const struct ss_pass *pass)
{
    struct sums sums;
    memcpy(sums.g, pass->input_square, sizeof sums.g);
    memcpy(sums.a, pass->sum_square, sizeof sums.a);
    return sums;
}

SS_INLINE void sums_store(const struct sums *sums, struct ss_pass *pass)
{
    memcpy(pass->input_square, sums->g, sizeof sums->g);
    memcpy(pass->sum_square, sums->a, sizeof sums->a);
}

/* The square stands alone: added in the same expression a compiler may fuse the two. */
#define DEFINE_ELEMENT(B)                                                                          \
    SS_INLINE ss_bits##B bits_of_##B(ss_float##B x)                                                \
    {                                                                                              \
        ss_bits##B bits;                                                                           \
        memcpy(&bits, &x, sizeof bits);                                                            \
        return bits;                                                                               \
    }                                                                                              \
    SS_INLINE ss_float##B element_##B(enum source source, const ss_float##B *g,                    \
                                      const ss_float##B *r, size_t i)                              \
    {                                                                                              \
        return source == BOTH ? g[i] + r[i] : source == INPUT ? g[i] : r[i];                       \
    }                                                                                              \
    SS_INLINE void add_square_##B(double *sum, ss_float##B x)                                      \
    {                                                                                              \
        double square = (double)x * (double)x;                                                     \
        *sum += square;                                                                            \
    }                                                                                              \
    SS_INLINE void seen_store_##B(const struct seen *seen, struct ss_pass *pass)                   \
    {                                                                                              \
        pass->out.largest = seen->largest;                                                         \
        pass->any_input = seen->any;                                                               \
    }                                                                                              \
    SS_INLINE bool is_finite_##B(const struct seen *seen)                                          \
    {                                                                                              \
        return seen->largest < SS_INF##B;                                                          \
    }

DEFINE_ELEMENT(32)
DEFINE_ELEMENT(64)

SS_INLINE enum source source_of(const void *g, const void *r)
{
    return g && r ? BOTH : g ? INPUT : RESIDUAL;
}

/* A finite g whose sum with the residual is not finite ends the pass: `undo` can tell an untouched
 * residual from a sum by g alone, and here it could not. */
#define DEFINE_SOME(B)                                                                             \
    static size_t not_finite_##B(const ss_float##B *g, const ss_float##B *r, size_t n)             \
    {                                                                                              \
        size_t count = 0;                                                                          \
        for (size_t i = 0; i < n; i++)                                                             \
            count +=                                                                               \
                (bits_of_##B(element_##B(source_of(g, r), g, r, i)) & SS_ABS##B) >= SS_INF##B;     \
        return count;                                                                              \
    }                                                                                              \
    void ss_select_some_##B(struct ss_pass *pass, const ss_float##B *g, ss_float##B *r,            \
                            size_t from, size_t to)                                                \
    {                                                                                              \
        struct ss_selection *out = &pass->out;                                                     \
        ss_bits##B *val = pass->val;                                                               \
        for (size_t i = from; i < to; i++) {                                                       \
            ss_float##B a = element_##B(source_of(g, r), g, r, i);                                 \
            ss_bits##B magnitude = bits_of_##B(a) & SS_ABS##B;                                     \
            if (magnitude >= SS_INF##B) {                                                          \
                out->not_finite++;                                                                 \
                if (!g || !r || (bits_of_##B(g[i]) & SS_ABS##B) >= SS_INF##B)                      \
                    continue;                                                                      \
                out->stop = i;                                                                     \
                out->not_finite += not_finite_##B(g + i + 1, r + i + 1, pass->n - i - 1);          \
                return;                                                                            \
            }                                                                                      \
            out->largest = magnitude > out->largest ? magnitude : out->largest;                    \
            if (g) {                                                                               \
                pass->any_input |= bits_of_##B(g[i]) & SS_ABS##B;                                  \
                add_square_##B(&pass->input_square[i % SS_PARTIALS], g[i]);                        \
            }                                                                                      \
            add_square_##B(&pass->sum_square[i % SS_PARTIALS], a);                                 \
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
                r[i] = claim && magnitude >= pass->leave ? 0 : a;                                  \
        }                                                                                          \
    }                                                                                              \
    size_t ss_gather_some_##B(const ss_float##B *g, const ss_float##B *r, size_t n,                \
                              ss_magnitude low, ss_magnitude high, ss_magnitude *out,              \
                              size_t capacity)                                                     \
    {                                                                                              \
        size_t found = 0;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                           \
            ss_magnitude magnitude =                                                               \
                bits_of_##B(element_##B(source_of(g, r), g, r, i)) & SS_ABS##B;                    \
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

size_t ss_vector_not_finite(enum ss_type type, const void *g, const void *r, size_t n)
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
        ss_bits##B largest = 0, any = 0;                                                           \
        for (size_t i = 0; i < SS_BLOCK; i++)                                                      \
            a[i] = bits_of_##B(element_##B(source, g, r, i));                                      \
        for (size_t i = 0; i < SS_BLOCK; i++) {                                                    \
            ss_bits##B magnitude = a[i] & SS_ABS##B;                                               \
            largest = magnitude > largest ? magnitude : largest;                                   \
            claims |= (uint64_t)(magnitude >= threshold) << i;                                     \
        }                                                                                          \
        if (source != RESIDUAL)                                                                    \
            for (size_t i = 0; i < SS_BLOCK; i++)                                                  \
                any |= bits_of_##B(g[i]) & SS_ABS##B;                                              \
        seen->largest = largest > seen->largest ? largest : seen->largest;                         \
        seen->any |= any;                                                                          \
        return claims;                                                                             \
    }                                                                                              \
    SS_INLINE void add_block_##B(enum source source, const ss_float##B *g, const ss_bits##B *a,    \
                                 struct sums *sums)                                                \
    {                                                                                              \
        const ss_float##B *sum = (const void *)a;                                                  \
        for (size_t i = 0; i < SS_BLOCK; i++) {                                                    \
            if (source != RESIDUAL)                                                                \
                add_square_##B(&sums->g[i % SS_PARTIALS], g[i]);                                   \
            add_square_##B(&sums->a[i % SS_PARTIALS], sum[i]);                                     \
        }                                                                                          \
    }                                                                                              \
    SS_INLINE void keep_block_##B(ss_float##B *r, const ss_bits##B *a, ss_bits##B threshold)       \
    {                                                                                              \
        ss_bits##B *to = (void *)r;                                                                \
        for (size_t i = 0; i < SS_BLOCK; i++)                                                      \
            to[i] = (a[i] & SS_ABS##B) >= threshold ? 0 : a[i];                                    \
    }                                                                                              \
    SS_INLINE uint64_t range_block_##B(enum source source, const ss_float##B *g,                   \
                                       const ss_float##B *r, ss_bits##B low, ss_bits##B high,      \
                                       ss_bits##B *m)                                              \
    {                                                                                              \
        uint64_t mask = 0;                                                                         \
        for (size_t i = 0; i < SS_BLOCK; i++) {                                                    \
            m[i] = bits_of_##B(element_##B(source, g, r, i)) & SS_ABS##B;                          \
            mask |= (uint64_t)((m[i] >= low) & (m[i] <= high)) << i;                               \
        }                                                                                          \
        return mask;                                                                               \
    }                                                                                              \
    SS_INLINE size_t reach_vector_##B(const ss_bits##B *val, ss_bits##B least)                     \
    {                                                                                              \
        size_t reached = 0;                                                                        \
        for (size_t i = 0; i < SS_WIDTH_##B; i++)                                                  \
            reached += (val[i] & SS_ABS##B) >= least;                                              \
        return reached;                                                                            \
    }                                                                                              \
    SS_DEFINE_TAKE_BLOCK(B)

DEFINE_BLOCK(32)
DEFINE_BLOCK(64)
SS_DEFINE_TABLE(ss_selectors_plain)
