/* The selection in AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "core/compute/select_impl.h"

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

SS_INLINE __m512i set1_32(ss_bits32 x)
{
    return _mm512_set1_epi32((int)x);
}

SS_INLINE __m512i set1_64(ss_bits64 x)
{
    return _mm512_set1_epi64((long long)x);
}

typedef __m512 floats_32;
typedef __m512d floats_64;
typedef __mmask16 mask_32;
typedef __mmask8 mask_64;

/* An intrinsic named for numbers of the width. */
#define SUFFIX_32 ps
#define SUFFIX_64 pd
#define FLOATS(x) SS_JOIN(x, NAME(SUFFIX))

#define WIDTH 32
#include "core/compute/select_avx512.inc"
#define WIDTH 64
#include "core/compute/select_avx512.inc"

/* Unrolled by hand, so that the residual is stored from the registers that hold a. */
SS_INLINE uint64_t select_block_32(enum source source, const ss_float32 *g, const ss_float32 *r,
                                   ss_bits32 threshold, struct seen *seen, ss_bits32 *a)
{
    const __m512i least = set1_32(threshold);
    uint64_t claims = select_vector_32(source, g, r, 0, least, seen, a);
    claims |= select_vector_32(source, g, r, 16, least, seen, a);
    claims |= select_vector_32(source, g, r, 32, least, seen, a);
    return claims | select_vector_32(source, g, r, 48, least, seen, a);
}

SS_INLINE uint64_t select_block_64(enum source source, const ss_float64 *g, const ss_float64 *r,
                                   ss_bits64 threshold, struct seen *seen, ss_bits64 *a)
{
    const __m512i least = set1_64(threshold);
    uint64_t claims = select_vector_64(source, g, r, 0, least, seen, a);
    claims |= select_vector_64(source, g, r, 8, least, seen, a);
    claims |= select_vector_64(source, g, r, 16, least, seen, a);
    claims |= select_vector_64(source, g, r, 24, least, seen, a);
    claims |= select_vector_64(source, g, r, 32, least, seen, a);
    claims |= select_vector_64(source, g, r, 40, least, seen, a);
    claims |= select_vector_64(source, g, r, 48, least, seen, a);
    return claims | select_vector_64(source, g, r, 56, least, seen, a);
}

SS_INLINE void keep_block_32(ss_float32 *r, const ss_bits32 *a, ss_bits32 threshold)
{
    const __m512i least = set1_32(threshold);
    keep_vector_32(r, a, least);
    keep_vector_32(r + 16, a + 16, least);
    keep_vector_32(r + 32, a + 32, least);
    keep_vector_32(r + 48, a + 48, least);
}

SS_INLINE void keep_block_64(ss_float64 *r, const ss_bits64 *a, ss_bits64 threshold)
{
    const __m512i least = set1_64(threshold);
    keep_vector_64(r, a, least);
    keep_vector_64(r + 8, a + 8, least);
    keep_vector_64(r + 16, a + 16, least);
    keep_vector_64(r + 24, a + 24, least);
    keep_vector_64(r + 32, a + 32, least);
    keep_vector_64(r + 40, a + 40, least);
    keep_vector_64(r + 48, a + 48, least);
    keep_vector_64(r + 56, a + 56, least);
}

SS_INLINE uint64_t range_block_32(enum source source, const ss_float32 *g, const ss_float32 *r,
                                  ss_bits32 low, ss_bits32 high, ss_bits32 *m)
{
    const __m512i least = set1_32(low), span = set1_32(high - low);
    uint64_t mask = range_vector_32(source, g, r, 0, least, span, m);
    mask |= range_vector_32(source, g, r, 16, least, span, m);
    mask |= range_vector_32(source, g, r, 32, least, span, m);
    return mask | range_vector_32(source, g, r, 48, least, span, m);
}

SS_INLINE uint64_t range_block_64(enum source source, const ss_float64 *g, const ss_float64 *r,
                                  ss_bits64 low, ss_bits64 high, ss_bits64 *m)
{
    const __m512i least = set1_64(low), span = set1_64(high - low);
    uint64_t mask = 0;
    for (size_t i = 0; i < SS_BLOCK; i += 8)
        mask |= range_vector_64(source, g, r, i, least, span, m);
    return mask;
}

/* Compresses in a register and stores whole vectors, since compressing straight to memory is
 * microcode on AMD. The next vector overwrites the lanes behind the entries. */
SS_INLINE void take_block_32(const ss_bits32 *a, uint64_t claims, uint32_t base, uint32_t *idx,
                             ss_bits32 *val)
{
    __m512i position = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    position = _mm512_add_epi32(position, _mm512_set1_epi32((int)base));
    for (int i = 0; i < SS_BLOCK; i += 16) {
        __mmask16 lanes = (__mmask16)(claims >> i);
        __m512i x = _mm512_maskz_compress_epi32(lanes, _mm512_load_si512(a + i));
        _mm512_storeu_si512(idx, _mm512_maskz_compress_epi32(lanes, position));
        _mm512_storeu_si512(val, x);
        idx += (unsigned)__builtin_popcount(lanes);
        val += (unsigned)__builtin_popcount(lanes);
        position = _mm512_add_epi32(position, _mm512_set1_epi32(16));
    }
}

SS_INLINE void take_block_64(const ss_bits64 *a, uint64_t claims, uint32_t base, uint32_t *idx,
                             ss_bits64 *val)
{
    __m256i position = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    position = _mm256_add_epi32(position, _mm256_set1_epi32((int)base));
    for (int i = 0; i < SS_BLOCK; i += 8) {
        __mmask8 lanes = (__mmask8)(claims >> i);
        __m512i x = _mm512_maskz_compress_epi64(lanes, _mm512_load_si512(a + i));
        _mm256_storeu_si256((void *)idx, _mm256_maskz_compress_epi32(lanes, position));
        _mm512_storeu_si512(val, x);
        idx += (unsigned)__builtin_popcount(lanes);
        val += (unsigned)__builtin_popcount(lanes);
        position = _mm256_add_epi32(position, _mm256_set1_epi32(8));
    }
}

#define TABLE      ss_selectors_avx512
#define TABLE_NAME "avx512"
#include "core/compute/select_table.inc"
#else
typedef int ss_selectors_avx512_needs_x86;
#endif
