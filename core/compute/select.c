/* Chooses the selection that this processor runs; converts magnitudes; finds the k-th largest. */
#include "core/compute/select.h"

#include "core/compute/select_impl.h"

#include <stdatomic.h>

#include "core/compute/kernels.h"

/* Follows the choice of the kernels. */
const struct ss_selectors *ss_selectors_at(size_t i)
{
    const struct ss_kernels *kernels = ss_kernels_at(i);
    if (!kernels)
        return NULL;
#if defined(__x86_64__)
    if (strcmp(kernels->name, ss_selectors_avx512.name) == 0)
        return &ss_selectors_avx512;
    if (strcmp(kernels->name, ss_selectors_avx2.name) == 0)
        return &ss_selectors_avx2;
#endif
    return &ss_selectors_plain;
}

const struct ss_selectors *ss_selectors(void)
{
    static _Atomic(const struct ss_selectors *) best;
    const struct ss_selectors *selectors = atomic_load_explicit(&best, memory_order_relaxed);
    if (!selectors) {
        selectors = ss_selectors_at(0); /* racing threads find the same table */
        atomic_store_explicit(&best, selectors, memory_order_relaxed);
    }
    return selectors;
}

ss_magnitude ss_magnitude_none(enum ss_type type)
{
    return type == SS_F32 ? SS_INF32 : SS_INF64;
}

ss_magnitude ss_magnitude_of(enum ss_type type, double x)
{
    if (type == SS_F32) {
        float narrow = (float)x;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        return bits & SS_ABS32;
    }
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & SS_ABS64;
}

double ss_magnitude_value(enum ss_type type, ss_magnitude magnitude)
{
    if (type == SS_F32) {
        uint32_t bits = (uint32_t)magnitude;
        float x;
        memcpy(&x, &bits, sizeof x);
        return (double)x;
    }
    double x;
    memcpy(&x, &magnitude, sizeof x);
    return x;
}

static void swap(ss_magnitude *a, ss_magnitude *b)
{
    ss_magnitude t = *a;
    *a = *b;
    *b = t;
}

/* Runs quickselect in descending order with the median of three as pivot. */
ss_magnitude ss_kth_largest(ss_magnitude *m, size_t count, size_t k)
{
    size_t left = 0, right = count - 1;
    const size_t target = k - 1;
    while (left < right) {
        size_t middle = left + (right - left) / 2;
        if (m[middle] > m[left])
            swap(&m[middle], &m[left]);
        if (m[right] > m[left])
            swap(&m[right], &m[left]);
        if (m[right] > m[middle])
            swap(&m[right], &m[middle]);
        const ss_magnitude pivot = m[middle];
        size_t i = left, j = right;
        for (;;) {
            while (m[i] > pivot)
                i++;
            while (m[j] < pivot)
                j--;
            if (i >= j)
                break;
            swap(&m[i++], &m[j--]);
        }
        size_t end = m[j] < pivot ? j - 1 : j; /* [left, end] >= pivot >= all others */
        if (target <= end)
            right = end;
        else
            left = end + 1;
    }
    return m[target];
}
