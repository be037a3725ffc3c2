/* The kernels in AVX-512. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "core/compute/kernels_impl.h"

enum { SS_VECTOR_BYTES = 64, SS_FEW = 2 };

/* Largest magnitude as unsigned, which Inf and NaN exceed; least element as signed, which is -0.0
 * if there is one. */
struct flags {
    __m512i largest, least;
};

SS_INLINE struct flags flags_none(void)
{
    return (struct flags){_mm512_setzero_si512(), _mm512_setzero_si512()};
}

SS_INLINE __m512i load(const void *p)
{
    return _mm512_loadu_si512(p);
}

SS_INLINE __m512i set1_32(ss_bits32 x)
{
    return _mm512_set1_epi32((int)x);
}

SS_INLINE __m512i set1_64(ss_bits64 x)
{
    return _mm512_set1_epi64((long long)x);
}

/* -0.0 as a signed integer. */
static const int32_t minus_zero_32 = INT32_MIN;
static const int64_t minus_zero_64 = INT64_MIN;

#define WIDTH 32
#include "core/compute/kernels_avx512.inc"
#define WIDTH 64
#include "core/compute/kernels_avx512.inc"

/* Compresses in a register and stores whole vectors, since compressing straight to memory is
 * microcode on AMD. The next vector overwrites the lanes behind the entries. */
SS_INLINE void block_store_32(const ss_bits32 *p, uint64_t mask, uint32_t base, uint32_t *idx,
                              ss_bits32 *val, bool logical)
{
    __m512i position = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    position = _mm512_add_epi32(position, _mm512_set1_epi32((int)base));
    for (int i = 0; i < SS_BLOCK; i += 16) {
        __mmask16 lanes = (__mmask16)(mask >> i);
        __m512i x = _mm512_maskz_compress_epi32(lanes, load(p + i));
        _mm512_storeu_si512(idx, _mm512_maskz_compress_epi32(lanes, position));
        _mm512_storeu_si512(val, logical ? _mm512_set1_epi32(1) : x);
        idx += (unsigned)__builtin_popcount(lanes);
        val += (unsigned)__builtin_popcount(lanes);
        position = _mm512_add_epi32(position, _mm512_set1_epi32(16));
    }
}

SS_INLINE void block_store_64(const ss_bits64 *p, uint64_t mask, uint32_t base, uint32_t *idx,
                              ss_bits64 *val, bool logical)
{
    __m256i position = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    position = _mm256_add_epi32(position, _mm256_set1_epi32((int)base));
    for (int i = 0; i < SS_BLOCK; i += 8) {
        __mmask8 lanes = (__mmask8)(mask >> i);
        __m512i x = _mm512_maskz_compress_epi64(lanes, load(p + i));
        _mm256_storeu_si256((void *)idx, _mm256_maskz_compress_epi32(lanes, position));
        _mm512_storeu_si512(val, logical ? _mm512_set1_epi64(1) : x);
        idx += (unsigned)__builtin_popcount(lanes);
        val += (unsigned)__builtin_popcount(lanes);
        position = _mm256_add_epi32(position, _mm256_set1_epi32(8));
    }
}

#define TABLE      ss_kernels_avx512
#define TABLE_NAME "avx512"
#include "core/compute/kernels_table.inc"
#else
typedef int ss_kernels_avx512_needs_x86;
#endif
