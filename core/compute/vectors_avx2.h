/* Vectors of integers in AVX2, for the kernels and the selection. */
#ifndef CORE_COMPUTE_VECTORS_AVX2_H
#define CORE_COMPUTE_VECTORS_AVX2_H

#include <immintrin.h>

#include "core/compute/width.h"

SS_INLINE __m256i set1_32(ss_bits32 x)
{
    return _mm256_set1_epi32((int)x);
}

SS_INLINE __m256i set1_64(ss_bits64 x)
{
    return _mm256_set1_epi64x((long long)x);
}

SS_INLINE unsigned movemask_32(__m256i x)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(x));
}

SS_INLINE unsigned movemask_64(__m256i x)
{
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(x));
}

#endif
