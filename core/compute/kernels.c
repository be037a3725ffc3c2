/* Chooses the kernels that this processor runs, by cpuid, once; searches indices. */
#include "core/compute/kernels.h"

#include <stdatomic.h>

#include "core/compute/kernels_impl.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Returns the registers that the operating system saves on a context switch (XCR0); other registers
 * may not be used. */
static uint64_t saved_state(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Returns 0 for plain, 1 for AVX2, 2 for AVX-512. Does not use __builtin_cpu_supports, which would
 * bring a constructor of libgcc into every process that the library is preloaded into. */
static int vector_level(void)
{
    enum { YMM_STATE = 0x6, ZMM_STATE = 0xe6 };
    const unsigned avx2 = bit_AVX2 | bit_BMI | bit_BMI2;
    const unsigned avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
    unsigned a, b, c, d, feature_b;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX) ||
        !(c & bit_POPCNT) || !(c & bit_FMA) || (saved_state() & YMM_STATE) != YMM_STATE)
        return 0;
    if (!__get_cpuid_count(7, 0, &a, &feature_b, &c, &d) || (feature_b & avx2) != avx2)
        return 0;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & bit_LZCNT))
        return 0;
    return (feature_b & avx512) == avx512 && (saved_state() & ZMM_STATE) == ZMM_STATE ? 2 : 1;
}

const struct ss_kernels *ss_kernels_at(size_t i)
{
    static const struct ss_kernels *const tables[] = {&ss_kernels_avx512, &ss_kernels_avx2,
                                                      &ss_kernels_plain};
    size_t first = (size_t)(2 - vector_level());
    return first + i < sizeof tables / sizeof tables[0] ? tables[first + i] : NULL;
}
#else
const struct ss_kernels *ss_kernels_at(size_t i)
{
    return i == 0 ? &ss_kernels_plain : NULL;
}
#endif

const struct ss_kernels *ss_kernels(void)
{
    static _Atomic(const struct ss_kernels *) best;
    const struct ss_kernels *kernels = atomic_load_explicit(&best, memory_order_relaxed);
    if (!kernels) {
        kernels = ss_kernels_at(0); /* racing threads find the same table */
        atomic_store_explicit(&best, kernels, memory_order_relaxed);
    }
    return kernels;
}

size_t ss_lower_bound(const uint32_t *idx, size_t nnz, uint32_t bound)
{
    size_t low = 0;
    while (nnz > 0) {
        size_t half = nnz / 2;
        bool right = idx[low + half] < bound;
        low += right ? half + 1 : 0;
        nnz = right ? nnz - half - 1 : half;
    }
    return low;
}
