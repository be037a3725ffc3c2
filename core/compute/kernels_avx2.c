/* The kernels in AVX2. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "core/compute/kernels_impl.h"
#include "core/compute/vectors_avx2.h"

enum { SS_VECTOR_BYTES = 32, SS_FEW = 12 };

/* Maps a mask of four lanes to the set lanes in order, followed by arbitrary ones: as dwords of a
 * 16-byte vector, and as pairs of dwords of a 32-byte vector. */
#define DWORD(lane) 4 * (lane), 4 * (lane) + 1, 4 * (lane) + 2, 4 * (lane) + 3
#define ROW(a, b, c, d)                                                                            \
    {                                                                                              \
        {DWORD(a), DWORD(b), DWORD(c), DWORD(d)},                                                  \
        {                                                                                          \
            2 * (a), 2 * (a) + 1, 2 * (b), 2 * (b) + 1, 2 * (c), 2 * (c) + 1, 2 * (d), 2 * (d) + 1 \
        }                                                                                          \
    }

static const struct {
    uint8_t bytes[16];
    uint32_t dwords[8];
} pack[16] = {
    ROW(0, 0, 0, 0), ROW(0, 0, 0, 0), ROW(1, 0, 0, 0), ROW(0, 1, 0, 0),
    ROW(2, 0, 0, 0), ROW(0, 2, 0, 0), ROW(1, 2, 0, 0), ROW(0, 1, 2, 0),
    ROW(3, 0, 0, 0), ROW(0, 3, 0, 0), ROW(1, 3, 0, 0), ROW(0, 1, 3, 0),
    ROW(2, 3, 0, 0), ROW(0, 2, 3, 0), ROW(1, 2, 3, 0), ROW(0, 1, 2, 3),
};

/* Nonzero lanes say that an Inf or NaN, or a -0.0, was seen. */
struct flags {
    __m256i not_finite, negative_zero;
};

SS_INLINE struct flags flags_none(void)
{
    return (struct flags){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

SS_INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

SS_INLINE void pack_values_32(void *to, const void *from, unsigned lanes, bool logical)
{
    __m128i x = _mm_loadu_si128(from);
    x = _mm_shuffle_epi8(x, _mm_loadu_si128((const void *)pack[lanes].bytes));
    _mm_storeu_si128(to, logical ? _mm_set1_epi32(1) : x);
}

SS_INLINE void pack_values_64(void *to, const void *from, unsigned lanes, bool logical)
{
    __m256i x = _mm256_permutevar8x32_epi32(load(from), load(pack[lanes].dwords));
    _mm256_storeu_si256(to, logical ? _mm256_set1_epi64x(1) : x);
}

#define WIDTH 32
#include "core/compute/kernels_avx2.inc"
#define WIDTH 64
#include "core/compute/kernels_avx2.inc"

#define TABLE      ss_kernels_avx2
#define TABLE_NAME "avx2"
#include "core/compute/kernels_table.inc"
#else
typedef int ss_kernels_avx2_needs_x86;
#endif
