#if defined(__x86_64__)
#include <immintrin.h>

#include "core/compute/kernels_impl.h"

enum { SS_VECTOR_BYTES = 32, SS_FEW = 12 };

/* Mask of four lanes -> the lanes set, in order, then don't-care: as dwords of a 16-byte vector and
 * as pairs of dwords of a 32-byte one. */
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

/* Bits set where an Inf or NaN, or a -0.0, was seen. */
struct flags {
    __m256i not_finite, negative_zero;
};

SS_INLINE struct flags flags_none(void)
{
    return (struct flags){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

SS_INLINE void flags_tell_32(const struct flags *flags, struct ss_scan *out)
{
    out->not_finite = !_mm256_testz_si256(flags->not_finite, flags->not_finite);
    out->negative_zero = !_mm256_testz_si256(flags->negative_zero, flags->negative_zero);
}

SS_INLINE void flags_tell_64(const struct flags *flags, struct ss_scan *out)
{
    flags_tell_32(flags, out);
}

SS_INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

#define MOVEMASK_32(x) (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(x))
#define MOVEMASK_64(x) (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(x))

#define DEFINE_BLOCK_MASK(B, SET1)                                                                 \
    SS_INLINE uint64_t block_mask_##B(const ss_bits##B *p, bool is_float, struct flags *flags)     \
    {                                                                                              \
        const __m256i magnitude = SET1(INT##B##_MAX), finite = SET1(SS_INF##B - 1);                \
        const __m256i zero = _mm256_setzero_si256();                                               \
        uint64_t zeros = 0;                                                                        \
        for (int i = 0; i < SS_BLOCK; i += 256 / B) {                                              \
            __m256i bits = load(p + i), x = bits;                                                  \
            if (is_float)                                                                          \
                x = _mm256_and_si256(bits, magnitude);                                             \
            __m256i is_zero = _mm256_cmpeq_epi##B(x, zero);                                        \
            if (is_float) {                                                                        \
                __m256i odd = _mm256_cmpgt_epi##B(x, finite);                                      \
                __m256i minus = _mm256_and_si256(is_zero, bits);                                   \
                flags->not_finite = _mm256_or_si256(flags->not_finite, odd);                       \
                flags->negative_zero = _mm256_or_si256(flags->negative_zero, minus);               \
            }                                                                                      \
            zeros |= (uint64_t)MOVEMASK_##B(is_zero) << i;                                         \
        }                                                                                          \
        return ~zeros;                                                                             \
    }

DEFINE_BLOCK_MASK(32, _mm256_set1_epi32)
DEFINE_BLOCK_MASK(64, _mm256_set1_epi64x)

/* Writes four lanes per step, the unused ones beyond the entries. */
#define DEFINE_BLOCK_STORE(B, PACK_VALUES)                                                         \
    SS_INLINE void block_store_##B(const ss_bits##B *p, uint64_t mask, uint32_t base,              \
                                   uint32_t *idx, ss_bits##B *val, bool logical)                   \
    {                                                                                              \
        __m128i position = _mm_add_epi32(_mm_set1_epi32((int)base), _mm_setr_epi32(0, 1, 2, 3));   \
        for (int i = 0; i < SS_BLOCK; i += 4) {                                                    \
            unsigned lanes = (unsigned)(mask >> i) & 0xf;                                          \
            __m128i bytes = _mm_loadu_si128((const void *)pack[lanes].bytes);                      \
            _mm_storeu_si128((void *)idx, _mm_shuffle_epi8(position, bytes));                      \
            PACK_VALUES(val, p + i, lanes, logical);                                               \
            idx += (unsigned)__builtin_popcount(lanes);                                            \
            val += (unsigned)__builtin_popcount(lanes);                                            \
            position = _mm_add_epi32(position, _mm_set1_epi32(4));                                 \
        }                                                                                          \
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

DEFINE_BLOCK_STORE(32, pack_values_32)
DEFINE_BLOCK_STORE(64, pack_values_64)
SS_DEFINE_SCANS(scan)
SS_DEFINE_REDUCES(reduce)

const struct ss_kernels ss_kernels_avx2 = {
    .name = "avx2",
    .scan = scan,
    .scatter = ss_plain_scatter,
    .accumulate = ss_plain_accumulate,
    .reduce = reduce,
    .merge = ss_plain_merge,
};
#else
typedef int ss_kernels_avx2_needs_x86;
#endif
