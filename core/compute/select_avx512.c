/* The selection in AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "core/compute/select_impl.h"
#include "core/compute/vectors_avx512.h"

enum { SS_VECTOR_BYTES = 64, LANES_32 = 16, LANES_64 = 8 };

struct seen {
    __m512i largest, any;
};

struct sums {
    __m512d g[2], a[2];
};

/* Loads `largest` and `any`, which are numbers in memory and lanes of either width in registers. */
SS_INLINE struct seen seen_load(const struct ss_pass *pass)
{
    __m128i largest = _mm_cvtsi64_si128((long long)pass->out.largest);
    __m128i any = _mm_cvtsi64_si128((long long)pass->any_input);
    return (struct seen){_mm512_zextsi128_si512(largest), _mm512_zextsi128_si512(any)};
}

SS_INLINE struct sums sums_load(const struct ss_pass *pass)
{
    return (struct sums){
        .g = {_mm512_loadu_pd(pass->input_square), _mm512_loadu_pd(pass->input_square + 8)},
        .a = {_mm512_loadu_pd(pass->sum_square), _mm512_loadu_pd(pass->sum_square + 8)},
    };
}

SS_INLINE void sums_store(const struct sums *sums, struct ss_pass *pass)
{
    _mm512_storeu_pd(pass->input_square, sums->g[0]);
    _mm512_storeu_pd(pass->input_square + 8, sums->g[1]);
    _mm512_storeu_pd(pass->sum_square, sums->a[0]);
    _mm512_storeu_pd(pass->sum_square + 8, sums->a[1]);
}

SS_INLINE __m512d add_square(__m512d sum, __m512d x)
{
    return _mm512_add_pd(sum, _mm512_mul_pd(x, x));
}

/* Adds squares of floats: exact in double, so that fused or not the sum is the same. */
SS_INLINE __m512d add_exact_square(__m512d sum, const ss_float32 *p)
{
    __m512d x = _mm512_cvtps_pd(_mm256_loadu_ps(p));
    return _mm512_fmadd_pd(x, x, sum);
}

/* Adds the squares of sixteen elements. */
SS_INLINE void add_row_32(__m512d *sums, const ss_float32 *p)
{
    sums[0] = add_exact_square(sums[0], p);
    sums[1] = add_exact_square(sums[1], p + 8);
}

SS_INLINE void add_row_64(__m512d *sums, const ss_float64 *p)
{
    sums[0] = add_square(sums[0], _mm512_loadu_pd(p));
    sums[1] = add_square(sums[1], _mm512_loadu_pd(p + 8));
}

SS_INLINE __m512i bits_32(__m512 x)
{
    return _mm512_castps_si512(x);
}

SS_INLINE __m512i bits_64(__m512d x)
{
    return _mm512_castpd_si512(x);
}

typedef __m512 floats_32;
typedef __m512d floats_64;
typedef __mmask16 mask_32;
typedef __mmask8 mask_64;

/* An intrinsic named for numbers of the width. */
#define SUFFIX_32 ps
#define SUFFIX_64 pd
#define FLOATS(x) SS_PASTE(x, NAME(SUFFIX))

#define WIDTH 32
#include "core/compute/select_avx512.inc"
#define WIDTH 64
#include "core/compute/select_avx512.inc"

#define TABLE      ss_selectors_avx512
#define TABLE_NAME "avx512"
#include "core/compute/select_table.inc"
#else
typedef int ss_selectors_avx512_needs_x86;
#endif
