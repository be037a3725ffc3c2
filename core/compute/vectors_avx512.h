/* Vectors of integers in AVX-512, for the kernels and the selection. */
#ifndef CORE_COMPUTE_VECTORS_AVX512_H
#define CORE_COMPUTE_VECTORS_AVX512_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/compute/width.h"

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

/* Stores the elements of a block in the mask, and their indices. Compresses in a register and
 * stores whole vectors, since compressing straight to memory is microcode on AMD. The next vector
 * overwrites the lanes behind the entries. */
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

#endif
