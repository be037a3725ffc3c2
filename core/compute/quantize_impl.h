/* Shared by the files of the quantizers. */
#ifndef CORE_COMPUTE_QUANTIZE_IMPL_H
#define CORE_COMPUTE_QUANTIZE_IMPL_H

#include <string.h>

#include "core/compute/quantize.h"
#include "core/compute/width.h"

extern const struct ss_quantizers ss_quantizers_plain;
#if defined(__x86_64__)
extern const struct ss_quantizers ss_quantizers_avx2, ss_quantizers_avx512;
#endif

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

#endif
