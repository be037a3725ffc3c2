/* The selection in AVX2. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "core/compute/select_impl.h"
#include "core/compute/vectors_avx2.h"

enum { SS_VECTOR_BYTES = 32, LANES_32 = 8, LANES_64 = 4 };

struct seen {
    __m256i largest, any;
};

struct sums {
    __m256d g[4], a[4];
};

/* Loads `largest` and `any`, which are numbers in memory and lanes of either width in registers. */
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

/* Adds squares of floats: exact in double, so that fused or not the sum is the same. */
SS_INLINE __m256d add_exact_square(__m256d sum, const ss_float32 *p)
{
    __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(p));
    return _mm256_fmadd_pd(x, x, sum);
}

/* Adds the squares of sixteen elements. */
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

/* Returns the larger lanes of magnitudes, whose signs are clear. */
SS_INLINE __m256i larger_32(__m256i a, __m256i b)
{
    return _mm256_max_epi32(a, b);
}

SS_INLINE __m256i larger_64(__m256i a, __m256i b)
{
    return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(b, a));
}

typedef __m256 floats_32;
typedef __m256d floats_64;

/* An intrinsic named for numbers of the width. */
#define SUFFIX_32 ps
#define SUFFIX_64 pd
#define FLOATS(x) SS_PASTE(x, NAME(SUFFIX))

#define WIDTH 32
#include "core/compute/select_take.inc"
#define WIDTH 64
#include "core/compute/select_take.inc"

#define WIDTH 32
#include "core/compute/select_avx2.inc"
#define WIDTH 64
#include "core/compute/select_avx2.inc"

#define TABLE      ss_selectors_avx2
#define TABLE_NAME "avx2"
#include "core/compute/select_table.inc"
#else
typedef int ss_selectors_avx2_needs_x86;
#endif
