#if defined(__x86_64__)
#include <immintrin.h>

#include "core/kernels_impl.h"

#define SS_VECTOR_BYTES 32

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

/* Fewer entries in a block than this are taken one by one. */
enum { FEW = 12 };

SS_INLINE __m256i load(const void *p)
{
    return _mm256_loadu_si256(p);
}

SS_INLINE bool all_zero(const void *p, size_t bytes)
{
    __m256i any = _mm256_setzero_si256();
    for (size_t i = 0; i < bytes; i += 32)
        any = _mm256_or_si256(any, load((const char *)p + i));
    return _mm256_testz_si256(any, any);
}

SS_INLINE uint64_t block_mask_32(const ss_bits32 *p, bool is_float, struct ss_scan_flags *flags)
{
    if (all_zero(p, SS_BLOCK * sizeof *p))
        return 0;
    const __m256i magnitude = _mm256_set1_epi32((int)SS_ABS32), zero = _mm256_setzero_si256();
    const __m256i largest = _mm256_set1_epi32((int)(SS_INF32 - 1));
    __m256i odd = zero, minus = zero;
    uint64_t mask = 0;
    for (int i = 0; i < SS_BLOCK; i += 8) {
        __m256i bits = load(p + i);
        __m256i x = is_float ? _mm256_and_si256(bits, magnitude) : bits;
        __m256i is_zero = _mm256_cmpeq_epi32(x, zero);
        if (is_float) {
            odd = _mm256_or_si256(odd, _mm256_cmpgt_epi32(x, largest));
            minus = _mm256_or_si256(minus, _mm256_and_si256(is_zero, bits));
        }
        unsigned zeros = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(is_zero));
        mask |= (uint64_t)(zeros ^ 0xff) << i;
    }
    flags->not_finite |= !_mm256_testz_si256(odd, odd);
    flags->negative_zero |= !_mm256_testz_si256(minus, minus);
    return mask;
}

SS_INLINE uint64_t block_mask_64(const ss_bits64 *p, bool is_float, struct ss_scan_flags *flags)
{
    if (all_zero(p, SS_BLOCK * sizeof *p))
        return 0;
    const __m256i magnitude = _mm256_set1_epi64x((long long)SS_ABS64);
    const __m256i zero = _mm256_setzero_si256();
    const __m256i largest = _mm256_set1_epi64x((long long)(SS_INF64 - 1));
    __m256i odd = zero, minus = zero;
    uint64_t mask = 0;
    for (int i = 0; i < SS_BLOCK; i += 4) {
        __m256i bits = load(p + i);
        __m256i x = is_float ? _mm256_and_si256(bits, magnitude) : bits;
        __m256i is_zero = _mm256_cmpeq_epi64(x, zero);
        if (is_float) {
            odd = _mm256_or_si256(odd, _mm256_cmpgt_epi64(x, largest));
            minus = _mm256_or_si256(minus, _mm256_and_si256(is_zero, bits));
        }
        unsigned zeros = (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(is_zero));
        mask |= (uint64_t)(zeros ^ 0xf) << i;
    }
    flags->not_finite |= !_mm256_testz_si256(odd, odd);
    flags->negative_zero |= !_mm256_testz_si256(minus, minus);
    return mask;
}

/* Writes four lanes per step, the unused ones beyond the entries: the caller has room for a whole
 * block. */
#define DEFINE_BLOCK_STORE(B, PACK_VALUES)                                                         \
    SS_INLINE size_t block_store_##B(const ss_bits##B *p, uint64_t mask, uint32_t base,            \
                                     uint32_t *idx, ss_bits##B *val, bool logical)                 \
    {                                                                                              \
        size_t stored = 0;                                                                         \
        if (__builtin_popcountll(mask) < FEW) {                                                    \
            for (; mask; mask &= mask - 1) {                                                       \
                unsigned bit = (unsigned)__builtin_ctzll(mask);                                    \
                idx[stored] = base + bit;                                                          \
                val[stored++] = logical ? 1 : p[bit];                                              \
            }                                                                                      \
            return stored;                                                                         \
        }                                                                                          \
        __m128i position = _mm_add_epi32(_mm_set1_epi32((int)base), _mm_setr_epi32(0, 1, 2, 3));   \
        for (int i = 0; i < SS_BLOCK; i += 4) {                                                    \
            unsigned lanes = (unsigned)(mask >> i) & 0xf;                                          \
            __m128i bytes = _mm_loadu_si128((const void *)pack[lanes].bytes);                      \
            _mm_storeu_si128((void *)(idx + stored), _mm_shuffle_epi8(position, bytes));           \
            PACK_VALUES(val + stored, p + i, lanes, logical);                                      \
            stored += (unsigned)__builtin_popcount(lanes);                                         \
            position = _mm_add_epi32(position, _mm_set1_epi32(4));                                 \
        }                                                                                          \
        return stored;                                                                             \
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
