#include "core/select_impl.h"

#include <stdatomic.h>

#include "core/kernels.h"
#include "core/threshold.h"

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

/* A call of ss_select_buckets: what stays the same from bucket to bucket. */
struct buckets {
    const struct ss_selectors *selectors;
    enum ss_type type;
    size_t k;
    ss_magnitude guess; /* likely below the threshold of the next bucket; 0: none yet */
};

/* A range of elements. */
struct range {
    const char *g;
    char *r;
    size_t n;
};

static struct range part(enum ss_type type, const struct range *range, size_t from, size_t n)
{
    size_t bytes = from * ss_type_size(type);
    return (struct range){range->g ? range->g + bytes : NULL, range->r ? range->r + bytes : NULL,
                          n};
}

/* Exact threshold of a bucket. Few of its entries reach half an octave below the threshold of the
 * bucket before; where that guess takes too few or too many, the radix select. */
static struct ss_exact bucket_threshold(struct buckets *b, const struct range *bucket)
{
    enum { MOST = 1024 };
    const ss_magnitude none = ss_magnitude_none(b->type);
    const ss_magnitude half_octave = (ss_magnitude)1 << (b->type == SS_F32 ? 22 : 51);
    ss_magnitude list[MOST];
    struct ss_exact exact = {0};
    size_t count = 0;
    if (b->guess > 0)
        count = b->selectors->gather(b->type, bucket->g, bucket->r, bucket->n, b->guess, none - 1,
                                     list, MOST);
    if (count >= b->k && count <= MOST) {
        exact.threshold = ss_kth_largest(list, count, b->k);
        for (size_t j = 0; j < count; j++) {
            exact.above += list[j] > exact.threshold;
            exact.count += list[j] >= exact.threshold;
        }
    } else {
        ss_exact_threshold(b->selectors, b->type, bucket->g, bucket->r, bucket->n, b->k, &exact);
    }
    b->guess = exact.threshold > half_octave ? exact.threshold - half_octave : SS_LEAST_MAGNITUDE;
    return exact;
}

/* Elements up to and with the last tie that is taken: the fewest that hold `ties` of them. */
static size_t end_of_ties(const struct buckets *b, const struct range *bucket,
                          ss_magnitude magnitude, size_t ties)
{
    size_t low = 0, high = bucket->n; /* the answer is in (low, high] */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        size_t found = b->selectors->gather(b->type, bucket->g, bucket->r, middle, magnitude,
                                            magnitude, NULL, 0);
        if (found >= ties)
            high = middle;
        else
            low = middle;
    }
    return high;
}

static void add_selection(struct ss_selection *to, const struct ss_selection *from, size_t n)
{
    to->claimed += from->claimed;
    to->over += from->over;
    to->not_finite += from->not_finite;
    to->stop += from->stop < n ? from->stop : n;
    to->largest = from->largest > to->largest ? from->largest : to->largest;
    to->zero_input &= from->zero_input;
    to->input_square += from->input_square;
    to->sum_square += from->sum_square;
}

void ss_select_buckets(const struct ss_selectors *selectors, enum ss_type type, const void *g,
                       void *r, size_t n, uint32_t base, size_t k, size_t bucket, uint32_t *idx,
                       void *val, struct ss_selection *out)
{
    const size_t size = ss_type_size(type), capacity = k * ((n + bucket - 1) / bucket);
    const struct range all = {g, r, n};
    struct buckets b = {.selectors = selectors, .type = type, .k = k};
    *out = (struct ss_selection){.zero_input = true};
    for (size_t at = 0; at < n; at += bucket) {
        struct range whole = part(type, &all, at, n - at < bucket ? n - at : bucket);
        struct ss_exact exact = bucket_threshold(&b, &whole);
        size_t with_ties = whole.n;
        if (exact.count > k)
            with_ties = end_of_ties(&b, &whole, exact.threshold, k - exact.above);
        struct range parts[2] = {part(type, &whole, 0, with_ties),
                                 part(type, &whole, with_ties, whole.n - with_ties)};
        for (size_t j = 0; j < 2 && parts[j].n > 0; j++) {
            struct ss_selection found;
            size_t from = out->stop;
            selectors->select(type, parts[j].g, parts[j].r, parts[j].n, base + (uint32_t)from,
                              exact.threshold + j, idx + out->claimed,
                              (char *)val + out->claimed * size, capacity - out->claimed, &found);
            add_selection(out, &found, parts[j].n);
            if (found.stop < parts[j].n) {
                from += parts[j].n;
                struct range rest = part(type, &all, from, n - from);
                out->not_finite += ss_count_not_finite(type, rest.g, rest.r, rest.n);
                return;
            }
        }
    }
}
