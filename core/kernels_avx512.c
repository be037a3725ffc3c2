#if defined(__x86_64__)
#include <immintrin.h>

#include "core/kernels_impl.h"

#define SS_VECTOR_BYTES 64

SS_INLINE __m512i load(const void *p)
{
    return _mm512_loadu_si512(p);
}

SS_INLINE bool all_zero(const void *p, size_t bytes)
{
    __m512i any = load(p);
    for (size_t i = 64; i < bytes; i += 64)
        any = _mm512_or_si512(any, load((const char *)p + i));
    return _mm512_test_epi32_mask(any, any) == 0;
}

#define DEFINE_BLOCK_MASK(B)                                                                       \
    SS_INLINE uint64_t block_mask_##B(const ss_bits##B *p, bool is_float,                          \
                                      struct ss_scan_flags *flags)                                 \
    {                                                                                              \
        enum { LANES = 512 / B };                                                                  \
        if (all_zero(p, SS_BLOCK * sizeof *p))                                                     \
            return 0;                                                                              \
        const __m512i magnitude = SET1_##B(SS_ABS##B), infinity = SET1_##B(SS_INF##B);             \
        uint64_t mask = 0, signs = 0;                                                              \
        unsigned odd = 0;                                                                          \
        for (int i = 0; i < SS_BLOCK; i += LANES) {                                                \
            __m512i bits = load(p + i);                                                            \
            mask |= (uint64_t)TEST_##B(bits, is_float ? magnitude : bits) << i;                    \
            if (is_float) {                                                                        \
                signs |= (uint64_t)TEST_##B(bits, bits) << i;                                      \
                odd |= (unsigned)NOT_LESS_##B(_mm512_and_si512(bits, magnitude), infinity);        \
            }                                                                                      \
        }                                                                                          \
        if (is_float) {                                                                            \
            flags->negative_zero |= signs != mask;                                                 \
            flags->not_finite |= odd != 0;                                                         \
        }                                                                                          \
        return mask;                                                                               \
    }

#define SET1_32(x)        _mm512_set1_epi32((int)(x))
#define SET1_64(x)        _mm512_set1_epi64((long long)(x))
#define TEST_32(a, b)     _mm512_test_epi32_mask(a, b)
#define TEST_64(a, b)     _mm512_test_epi64_mask(a, b)
#define NOT_LESS_32(a, b) _mm512_cmpge_epu32_mask(a, b)
#define NOT_LESS_64(a, b) _mm512_cmpge_epu64_mask(a, b)

DEFINE_BLOCK_MASK(32)
DEFINE_BLOCK_MASK(64)

/* Compressed in a register, then stored whole: compressing straight to memory is microcode on AMD.
 * The lanes past the entries are garbage that the next vector overwrites; the caller has room for a
 * whole block. */
SS_INLINE size_t block_store_32(const ss_bits32 *p, uint64_t mask, uint32_t base, uint32_t *idx,
                                ss_bits32 *val, bool logical)
{
    __m512i position = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    position = _mm512_add_epi32(position, _mm512_set1_epi32((int)base));
    size_t stored = 0;
    for (int i = 0; i < SS_BLOCK; i += 16) {
        __mmask16 lanes = (__mmask16)(mask >> i);
        _mm512_storeu_si512(idx + stored, _mm512_maskz_compress_epi32(lanes, position));
        _mm512_storeu_si512(val + stored, logical
                                              ? _mm512_set1_epi32(1)
                                              : _mm512_maskz_compress_epi32(lanes, load(p + i)));
        stored += (unsigned)__builtin_popcount(lanes);
        position = _mm512_add_epi32(position, _mm512_set1_epi32(16));
    }
    return stored;
}

SS_INLINE size_t block_store_64(const ss_bits64 *p, uint64_t mask, uint32_t base, uint32_t *idx,
                                ss_bits64 *val, bool logical)
{
    __m256i position = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    position = _mm256_add_epi32(position, _mm256_set1_epi32((int)base));
    size_t stored = 0;
    for (int i = 0; i < SS_BLOCK; i += 8) {
        __mmask8 lanes = (__mmask8)(mask >> i);
        _mm256_storeu_si256((void *)(idx + stored), _mm256_maskz_compress_epi32(lanes, position));
        _mm512_storeu_si512(val + stored, logical
                                              ? _mm512_set1_epi64(1)
                                              : _mm512_maskz_compress_epi64(lanes, load(p + i)));
        stored += (unsigned)__builtin_popcount(lanes);
        position = _mm256_add_epi32(position, _mm256_set1_epi32(8));
    }
    return stored;
}

SS_DEFINE_SCANS(scan)
SS_DEFINE_REDUCES(reduce)

const struct ss_kernels ss_kernels_avx512 = {
    .name = "avx512",
    .scan = scan,
    .scatter = ss_plain_scatter,
    .accumulate = ss_plain_accumulate,
    .reduce = reduce,
    .merge = ss_plain_merge,
};
#else
typedef int ss_kernels_avx512_needs_x86;
#endif
