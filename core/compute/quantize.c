/* Chooses the quantizers that this processor runs. */
#include "core/compute/quantize.h"

#include <stdatomic.h>

#include "core/compute/kernels.h"
#include "core/compute/quantize_impl.h"

bool ss_quantized_finite(enum ss_type type, enum ss_values values, const void *from, size_t n)
{
    const uint16_t *words = from;
    const bool bf16 = values == SS_VALUES_BF16;
    const size_t count = bf16 ? n : (n + SS_QUANT_BUCKET - 1) / SS_QUANT_BUCKET;
    const uint16_t infinite = bf16 || type == SS_F32 ? 0x7f80 : 0x7ff0;
    uint16_t most = 0;

    for (size_t i = 0; i < count; i++) {
        const uint16_t magnitude = words[i] & INT16_MAX;
        most = magnitude > most ? magnitude : most;
    }
    return most < infinite;
}

/* Follows the choice of the kernels. */
const struct ss_quantizers *ss_quantizers_at(size_t i)
{
    const struct ss_kernels *kernels = ss_kernels_at(i);

    if (!kernels)
        return NULL;
#if defined(__x86_64__)
    if (strcmp(kernels->name, ss_quantizers_avx512.name) == 0)
        return &ss_quantizers_avx512;
    if (strcmp(kernels->name, ss_quantizers_avx2.name) == 0)
        return &ss_quantizers_avx2;
#endif
    return &ss_quantizers_plain;
}

const struct ss_quantizers *ss_quantizers(void)
{
    static _Atomic(const struct ss_quantizers *) best;
    const struct ss_quantizers *quantizers = atomic_load_explicit(&best, memory_order_relaxed);

    if (!quantizers) {
        quantizers = ss_quantizers_at(0); /* racing threads find the same table */
        atomic_store_explicit(&best, quantizers, memory_order_relaxed);
    }
    return quantizers;
}
