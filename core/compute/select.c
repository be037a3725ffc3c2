#include "core/compute/select_impl.h"

#include <stdatomic.h>

#include "core/compute/kernels.h"

/* Which tables this processor runs is asked in one place: the kernels'. */
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
        selectors = ss_selectors_at(0); /* threads that race here find the same */
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

#define DEFINE_ADD(B)                                                                              \
    /* Saturates at the largest finite number. */                                                  \
    static ss_float##B sum_##B(ss_float##B a, ss_float##B b)                                       \
    {                                                                                              \
        ss_float##B sum = a + b;                                                                   \
        ss_bits##B bits;                                                                           \
        memcpy(&bits, &sum, sizeof bits);                                                          \
        if ((bits & SS_ABS##B) >= SS_INF##B) {                                                     \
            bits = (bits & ~SS_ABS##B) | (SS_INF##B - 1);                                          \
            memcpy(&sum, &bits, sizeof sum);                                                       \
        }                                                                                          \
        return sum;                                                                                \
    }                                                                                              \
                                                                                                   \
    static void add_##B(ss_float##B *r, uint32_t base, const uint32_t *idx,                        \
                        const ss_float##B *val, size_t count)                                      \
    {                                                                                              \
        for (size_t j = 0; j < count; j++)                                                         \
            r[idx[j] - base] = sum_##B(r[idx[j] - base], val[j]);                                  \
    }                                                                                              \
                                                                                                   \
    static void add_dense_##B(ss_float##B *r, const ss_float##B *val, size_t n)                    \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            if (ss_magnitude_at(SS_F##B, val, i) < SS_INF##B)                                      \
                r[i] = sum_##B(r[i], val[i]);                                                      \
    }

DEFINE_ADD(32)
DEFINE_ADD(64)

void ss_residual_add(enum ss_type type, void *r, uint32_t base, const uint32_t *idx,
                     const void *val, size_t count)
{
    if (type == SS_F32)
        add_32(r, base, idx, val, count);
    else
        add_64(r, base, idx, val, count);
}

void ss_residual_add_dense(enum ss_type type, void *r, const void *val, size_t n)
{
    if (type == SS_F32)
        add_dense_32(r, val, n);
    else
        add_dense_64(r, val, n);
}

double ss_square_sum(enum ss_type type, const void *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i += 4096) { /* short sums keep the error small */
        size_t end = n - i < 4096 ? n : i + 4096;
        double part = 0;
        if (type == SS_F32)
            for (size_t j = i; j < end; j++)
                part += (double)((const float *)v)[j] * (double)((const float *)v)[j];
        else
            for (size_t j = i; j < end; j++)
                part += ((const double *)v)[j] * ((const double *)v)[j];
        sum += part;
    }
    return sum;
}

/* The first element of run j: one run in each of as many equal parts, not all in few columns. */
static size_t run_at(size_t n, size_t runs, size_t j)
{
    size_t first = (size_t)((uint64_t)n * j / runs);
    size_t room = (size_t)((uint64_t)n * (j + 1) / runs) - first - SS_SAMPLE_RUN + 1;

    return first + (size_t)((ss_mix(j + 1, n) >> 32) * room >> 32);
}

/* Runs lie pages apart, which no processor fetches of itself. */
static void fetch_run(const char *run, size_t bytes)
{
    enum { LINE = 64 };
    for (size_t at = 0; at < bytes; at += LINE)
        __builtin_prefetch(run + at);
}

double ss_square_sample(enum ss_type type, const void *v, size_t n, size_t most)
{
    enum { AHEAD = 8 };
    const size_t runs = most / SS_SAMPLE_RUN, size = ss_type_size(type);
    const char *first = v;
    double sum = 0;

    if (n <= most)
        return ss_square_sum(type, v, n);
    for (size_t j = 0; j < runs; j++) {
        if (j + AHEAD < runs)
            fetch_run(first + run_at(n, runs, j + AHEAD) * size, SS_SAMPLE_RUN * size);
        sum += ss_square_sum(type, first + run_at(n, runs, j) * size, SS_SAMPLE_RUN);
    }
    return sum * ((double)n / (double)(runs * SS_SAMPLE_RUN));
}
