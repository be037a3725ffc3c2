#if defined(__x86_64__)
#include <immintrin.h>

#include "core/compute/select_impl.h"

#define SS_TABLE_NAME "avx2"
enum { SS_VECTOR_BYTES = 32, SS_WIDTH_32 = 8, SS_WIDTH_64 = 4 };

struct seen {
    __m256i largest, any;
};

struct sums {
    __m256d g[4], a[4];
};

/* Largest and any are kept per lane of either width; in memory they are one number. */
SS_INLINE struct seen seen_load(const struct ss_pass *pass)
{
    __m128i largest = _mm_cvtsi64_si128((long long)pass->out.largest);
    __m128i any = _mm_cvtsi64_si128((long long)pass->any_input);
    return (struct seen){_mm256_zextsi128_si256(largest), _mm256_zextsi128_si256(any)};
}

SS_INLINE void load_four(__m256d *to, const double *from)
{
    to[0] = _mm256_loadu_pd(from);
    to[1] = _mm256_loadu_pd(from + 4);
    to[2] = _mm256_loadu_pd(from + 8);
    to[3] = _mm256_loadu_pd(from + 12);
}

SS_INLINE void store_four(double *to, const __m256d *from)
{
    _mm256_storeu_pd(to, from[0]);
    _mm256_storeu_pd(to + 4, from[1]);
    _mm256_storeu_pd(to + 8, from[2]);
    _mm256_storeu_pd(to + 12, from[3]);
}

SS_INLINE struct sums sums_load(const struct ss_pass *pass)
{
    struct sums sums = {0};
    load_four(sums.g, pass->input_square);
    load_four(sums.a, pass->sum_square);
    return sums;
}

SS_INLINE void sums_store(const struct sums *sums, struct ss_pass *pass)
{
    store_four(pass->input_square, sums->g);
    store_four(pass->sum_square, sums->a);
}

SS_INLINE __m256d add_square(__m256d sum, __m256d x)
{
    return _mm256_add_pd(sum, _mm256_mul_pd(x, x));
}

/* The square of a float is exact in double: fused or not, the sum is the same. */
SS_INLINE __m256d add_exact_square(__m256d sum, const ss_float32 *p)
{
    __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(p));
    return _mm256_fmadd_pd(x, x, sum);
}

/* Sixteen elements. */
SS_INLINE void add_row_32(__m256d *sums, const ss_float32 *p)
{
    sums[0] = add_exact_square(sums[0], p);
    sums[1] = add_exact_square(sums[1], p + 4);
    sums[2] = add_exact_square(sums[2], p + 8);
    sums[3] = add_exact_square(sums[3], p + 12);
}

SS_INLINE void add_row_64(__m256d *sums, const ss_float64 *p)
{
    sums[0] = add_square(sums[0], _mm256_loadu_pd(p));
    sums[1] = add_square(sums[1], _mm256_loadu_pd(p + 4));
    sums[2] = add_square(sums[2], _mm256_loadu_pd(p + 8));
    sums[3] = add_square(sums[3], _mm256_loadu_pd(p + 12));
}

SS_INLINE __m256i bits_32(__m256 x)
{
    return _mm256_castps_si256(x);
}

SS_INLINE __m256i bits_64(__m256d x)
{
    return _mm256_castpd_si256(x);
}

/* Of magnitudes, whose sign is clear. */
SS_INLINE __m256i larger_32(__m256i a, __m256i b)
{
    return _mm256_max_epi32(a, b);
}

SS_INLINE __m256i larger_64(__m256i a, __m256i b)
{
    return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(b, a));
}

#define SET1_32(x)     _mm256_set1_epi32((int)(x))
#define SET1_64(x)     _mm256_set1_epi64x((long long)(x))
#define MOVEMASK_32(x) (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(x))
#define MOVEMASK_64(x) (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(x))

#define DEFINE_VECTOR(B, VECTOR, PX, LANES)                                                        \
    SS_INLINE VECTOR sum_##B(enum source source, const ss_float##B *g, const ss_float##B *r,       \
                             size_t i)                                                             \
    {                                                                                              \
        if (source == BOTH)                                                                        \
            return _mm256_add_##PX(_mm256_loadu_##PX(g + i), _mm256_loadu_##PX(r + i));            \
        return _mm256_loadu_##PX((source == INPUT ? g : r) + i);                                   \
    }                                                                                              \
    SS_INLINE __m256i magnitude_##B(VECTOR x)                                                      \
    {                                                                                              \
        return _mm256_and_si256(bits_##B(x), SET1_##B(SS_ABS##B));                                 \
    }                                                                                              \
    SS_INLINE void seen_store_##B(const struct seen *seen, struct ss_pass *pass)                   \
    {                                                                                              \
        ss_bits##B lanes[LANES];                                                                   \
        pass->any_input = !_mm256_testz_si256(seen->any, SET1_##B(SS_ABS##B));                     \
        _mm256_storeu_si256((void *)lanes, seen->largest);                                         \
        pass->out.largest = 0;                                                                     \
        for (size_t j = 0; j < LANES; j++)                                                         \
            pass->out.largest = lanes[j] > pass->out.largest ? lanes[j] : pass->out.largest;       \
    }                                                                                              \
    SS_INLINE bool is_finite_##B(const struct seen *seen)                                          \
    {                                                                                              \
        __m256i odd = _mm256_cmpgt_epi##B(seen->largest, SET1_##B(SS_INF##B - 1));                 \
        return _mm256_testz_si256(odd, odd);                                                       \
    }                                                                                              \
    SS_INLINE uint64_t select_vector_##B(enum source source, const ss_float##B *g,                 \
                                         const ss_float##B *r, size_t i, __m256i below,            \
                                         struct seen *seen, ss_bits##B *a)                         \
    {                                                                                              \
        VECTOR x = sum_##B(source, g, r, i);                                                       \
        __m256i magnitude = magnitude_##B(x);                                                      \
        seen->largest = larger_##B(seen->largest, magnitude);                                      \
        if (source != RESIDUAL) {                                                                  \
            VECTOR input = _mm256_loadu_##PX(g + i);                                               \
            seen->any = _mm256_or_si256(seen->any, bits_##B(input));                               \
        }                                                                                          \
        _mm256_store_si256((void *)(a + i), bits_##B(x));                                          \
        return (uint64_t)MOVEMASK_##B(_mm256_cmpgt_epi##B(magnitude, below)) << i;                 \
    }                                                                                              \
    SS_INLINE uint64_t select_block_##B(enum source source, const ss_float##B *g,                  \
                                        const ss_float##B *r, ss_bits##B threshold,                \
                                        struct seen *seen, ss_bits##B *a)                          \
    {                                                                                              \
        const __m256i below = SET1_##B(threshold - 1);                                             \
        uint64_t claims = 0;                                                                       \
        _Pragma("GCC unroll 16") for (size_t i = 0; i < SS_BLOCK; i += LANES) claims |=            \
            select_vector_##B(source, g, r, i, below, seen, a);                                    \
        return claims;                                                                             \
    }                                                                                              \
    SS_INLINE void add_block_##B(enum source source, const ss_float##B *g, const ss_bits##B *a,    \
                                 struct sums *sums)                                                \
    {                                                                                              \
        _Pragma("GCC unroll 4") for (size_t i = 0; i < SS_BLOCK; i += 16)                          \
        {                                                                                          \
            if (source != RESIDUAL)                                                                \
                add_row_##B(sums->g, g + i);                                                       \
            add_row_##B(sums->a, (const ss_float##B *)(const void *)a + i);                        \
        }                                                                                          \
    }                                                                                              \
    SS_INLINE void keep_block_##B(ss_float##B *r, const ss_bits##B *a, ss_bits##B threshold)       \
    {                                                                                              \
        const __m256i below = SET1_##B(threshold - 1), magnitude = SET1_##B(SS_ABS##B);            \
        _Pragma("GCC unroll 16") for (size_t i = 0; i < SS_BLOCK; i += LANES)                      \
        {                                                                                          \
            __m256i x = _mm256_load_si256((const void *)(a + i));                                  \
            __m256i claimed = _mm256_cmpgt_epi##B(_mm256_and_si256(x, magnitude), below);          \
            _mm256_storeu_si256((void *)(r + i), _mm256_andnot_si256(claimed, x));                 \
        }                                                                                          \
    }                                                                                              \
    SS_INLINE uint64_t range_block_##B(enum source source, const ss_float##B *g,                   \
                                       const ss_float##B *r, ss_bits##B low, ss_bits##B high,      \
                                       ss_bits##B *m)                                              \
    {                                                                                              \
        const __m256i below = SET1_##B(low - 1), above = SET1_##B(high + 1);                       \
        uint64_t mask = 0;                                                                         \
        for (size_t i = 0; i < SS_BLOCK; i += LANES) {                                             \
            __m256i x = magnitude_##B(sum_##B(source, g, r, i));                                   \
            __m256i in =                                                                           \
                _mm256_and_si256(_mm256_cmpgt_epi##B(x, below), _mm256_cmpgt_epi##B(above, x));    \
            _mm256_store_si256((void *)(m + i), x);                                                \
            mask |= (uint64_t)MOVEMASK_##B(in) << i;                                               \
        }                                                                                          \
        return mask;                                                                               \
    }                                                                                              \
    SS_INLINE size_t reach_vector_##B(const ss_bits##B *val, ss_bits##B least)                     \
    {                                                                                              \
        __m256i x = _mm256_and_si256(_mm256_loadu_si256((const void *)val), SET1_##B(SS_ABS##B));  \
        __m256i reach = _mm256_cmpgt_epi##B(x, SET1_##B(least - 1));                               \
        return (size_t)__builtin_popcount(MOVEMASK_##B(reach));                                    \
    }                                                                                              \
    SS_DEFINE_TAKE_BLOCK(B)

DEFINE_VECTOR(32, __m256, ps, 8)
DEFINE_VECTOR(64, __m256d, pd, 4)
SS_DEFINE_TABLE(ss_selectors_avx2)
#else
typedef int ss_selectors_avx2_needs_x86;
#endif
