/* Quantizes dense vectors: every element in few bits, with a scale per bucket of SS_QUANT_BUCKET
 * consecutive elements (MODE=quant). Plain C, AVX2 and AVX-512 give the same bits; one of them is
 * chosen at run time.
 *
 *     scale    the value of the largest magnitude, with its sign, in the upper 16 bits of the type,
 *              rounded away from zero
 *     level    -c * scale / L, for -L <= c < L and L = 2^(b-1), b bits
 *     code     the c of the nearest level; between two levels the even c
 *
 * The largest value has a level, and levels are exact in the type. With bf16 a value becomes the
 * upper half of its float, and there are no scales.
 *
 * Every value travels coded: error feedback sends later what a scale cannot express. Values of a
 * bucket below a tiny scale (2^-100, for doubles 2^-900) become zero. If a value is not finite, its
 * bucket is not finite, and leaves no error.
 *
 *     coded    u16 scales[buckets], zeros up to a multiple of 8 bytes (none for bf16), then codes
 *     codes    of a bucket: byte j holds the codes c + L of the elements j, j + B, j + 2 B, ...,
 *              from the lowest bits on; B is the bytes of a bucket. Zeros fill the last bucket.
 *
 * Sources: Alistarh et al. 2017 (buckets); Markov et al. 2021 (CGX: scatter, reduce, allgather).
 */
#ifndef CORE_COMPUTE_QUANTIZE_H
#define CORE_COMPUTE_QUANTIZE_H

#include "core/base/types.h"

/* Elements of a bucket. */
enum { SS_QUANT_BUCKET = 128 };

/* Returns the bits of one code. */
static inline unsigned ss_quant_bits(enum ss_values values)
{
    static const unsigned char bits[SS_VALUE_TYPES] = {
        [SS_VALUES_BF16] = 16, [SS_VALUES_Q8] = 8, [SS_VALUES_Q4] = 4, [SS_VALUES_Q2] = 2};
    return bits[values];
}

/* Returns the bytes of the scales of n elements. */
static inline size_t ss_quant_scales(enum ss_values values, size_t n)
{
    const size_t buckets = (n + SS_QUANT_BUCKET - 1) / SS_QUANT_BUCKET;

    return values == SS_VALUES_BF16 ? 0 : (buckets * sizeof(uint16_t) + 7) / 8 * 8;
}

/* Returns the bytes of n coded elements, a multiple of 8. values is not SS_VALUES_SAME. */
static inline size_t ss_quantized_bytes(enum ss_values values, size_t n)
{
    const size_t buckets = (n + SS_QUANT_BUCKET - 1) / SS_QUANT_BUCKET;

    return ss_quant_scales(values, n) + buckets * SS_QUANT_BUCKET * ss_quant_bits(values) / 8;
}

/* Returns true if levels that are coded again keep their bits. The largest level of a bucket then
 * is its scale. Codes of 8 bits are finer than scales, so that it may be the level before. */
static inline bool ss_levels_recode(enum ss_values values)
{
    return values != SS_VALUES_Q8;
}

/* Returns true if all of n coded values are finite. */
bool ss_quantized_finite(enum ss_type type, enum ss_values values, const void *from, size_t n);

struct ss_quantizers {
    const char *name; /* as in struct ss_kernels */

    /* The functions take n values of type SS_F32 or SS_F64. `to` and `from` are 8-byte aligned. No
     * two arrays overlap.
     *
     * join codes g[i] + r[i], round codes v[i]. r[i] becomes the error, the value minus its level;
     * round sets v[i] to the level. The result is a bound of the sum of squared errors. */
    double (*join)(enum ss_type type, enum ss_values values, const void *g, void *r, size_t n,
                   void *to);
    double (*round)(enum ss_type type, enum ss_values values, void *v, void *r, size_t n, void *to);

    /* Returns the sum of squares of v, to a relative error of 2^-20. If a value is not finite or a
     * square exceeds the type, the sum is not finite. */
    double (*square)(enum ss_type type, const void *v, size_t n);

    /* Set v[i] to its level; add the level to v[i]. */
    void (*decode)(enum ss_type type, enum ss_values values, const void *from, void *v, size_t n);
    void (*add)(enum ss_type type, enum ss_values values, const void *from, void *v, size_t n);
};

/* Returns the best table that this processor runs. Thread-safe. */
const struct ss_quantizers *ss_quantizers(void);

/* Returns table i in the order of ss_kernels_at; NULL past the last. */
const struct ss_quantizers *ss_quantizers_at(size_t i);

#endif
