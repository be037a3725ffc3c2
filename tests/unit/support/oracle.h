/* Inputs of every kind, and their allreduce. */
#ifndef TESTS_ORACLE_H
#define TESTS_ORACLE_H

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"
#include "core/net/ranks.h"

/* Positions of a rank's entries. */
enum place { UNIFORM, IDENTICAL, DISJOINT, CLUSTERED, AT_END, OPPOSITE, PLACES };

/* Values of the entries. Only HUGE_VALUES may overflow. */
enum values { ORDINARY, SUBNORMAL, NEGATIVE_ZERO, TINY, HUGE_VALUES, CANCELLING, MIXED, VALUES };

struct input {
    int size;
    enum ss_type type;
    enum ss_op op;
    size_t n;
    double density; /* < 0: one element on one rank */
    enum place place;
    enum values values;
    uint64_t seed;
    /* Of sums that the MPI library may have made: they may be -0.0, and so far off more. */
    bool native;
    double slack;
};

/* An array of n elements between two guards; its first element has no more than its type's
 * alignment. */
enum { GUARD_ELEMENTS = 5, GUARD_BYTE = 0xa5, POISON_BYTE = 0xcb };

struct array {
    unsigned char *base;
    unsigned char *data;
    size_t bytes;
    size_t guard;
};

static inline struct array array_make(size_t n, size_t esize)
{
    struct array a = {.bytes = n * esize, .guard = GUARD_ELEMENTS * esize};

    a.base = malloc(a.bytes + 2 * a.guard);
    if (!a.base)
        abort();
    memset(a.base, GUARD_BYTE, a.bytes + 2 * a.guard);
    a.data = a.base + a.guard;
    return a;
}

static inline bool array_guards_hold(const struct array *a)
{
    for (size_t i = 0; i < a->guard; i++)
        if (a->base[i] != GUARD_BYTE || a->data[a->bytes + i] != GUARD_BYTE)
            return false;
    return true;
}

static inline uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

static inline double unit(uint64_t h)
{
    return (double)(h >> 11) * 0x1p-53;
}

/* Returns the first element of a part, as ss_part_first. */
static inline size_t part_first(const struct input *in, int part)
{
    size_t first = (in->n + 15) / 16 * (size_t)part / (size_t)in->size * 16;

    return first < in->n ? first : in->n;
}

/* Returns true if rank r holds an entry at i. */
static inline bool input_has(const struct input *in, int r, size_t i)
{
    uint64_t h = mix(in->seed ^ mix(i ^ (uint64_t)(r + 1) << 40));
    int part = r;

    if (in->density < 0)
        return r == (int)(in->seed % (uint64_t)in->size) && i == in->seed % in->n;
    switch (in->place) {
    case IDENTICAL:
        return unit(mix(in->seed ^ mix(i))) < in->density;
    case DISJOINT:
        return (int)(i % (size_t)in->size) == r && unit(h) < in->density * in->size;
    case AT_END:
        return (double)(in->n - i) <= ceil(in->density * (double)in->n);
    case CLUSTERED:
        part = in->size / 2;
        break;
    case OPPOSITE:
        part = in->size - 1 - r;
        break;
    default:
        return unit(h) < in->density;
    }
    return i >= part_first(in, part) && i < part_first(in, part + 1) &&
           unit(h) < in->density * in->size;
}

static inline double float_value(const struct input *in, int r, size_t i, uint64_t h)
{
    enum values kind = in->values == MIXED ? (enum values)(h % MIXED) : in->values;
    double v = unit(mix(h)) * 2 - 1, least = in->type == SS_F32 ? 0x1p-149 : 0x1p-1074;

    switch (kind) {
    case SUBNORMAL:
        return least * (double)(1 + h % 1000) * (h & 4096 ? 1 : -1);
    case NEGATIVE_ZERO:
        return h & 4096 ? -0.0 : v;
    case TINY:
        return 1e-30 * v;
    case HUGE_VALUES:
        return (in->type == SS_F32 ? (double)FLT_MAX : DBL_MAX) * 0.9 * v;
    case CANCELLING:
        v = unit(mix(in->seed + i)) + 0.5;
        return (r & 1) ? -v : v;
    default:
        return v != 0 ? v : 1;
    }
}

static inline uint64_t integer_value(const struct input *in, int r, size_t i, uint64_t h)
{
    switch (in->values) {
    case TINY:
        return 1 + h % 3;
    case HUGE_VALUES:
        return 0x8000000080000000ULL | h;
    case CANCELLING:
        h = mix(in->seed + i) | 1;
        return (r & 1) ? 0 - h : h;
    default:
        return h | 1;
    }
}

static inline void input_put(const struct input *in, void *data, size_t i, double f, uint64_t u)
{
    if (in->type == SS_F32)
        ((float *)data)[i] = (float)f;
    else if (in->type == SS_F64)
        ((double *)data)[i] = f;
    else if (in->type == SS_I32)
        ((uint32_t *)data)[i] = (uint32_t)u;
    else
        ((uint64_t *)data)[i] = u;
}

static inline void input_fill(const struct input *in, int r, void *data)
{
    memset(data, 0, in->n * ss_type_size(in->type));
    for (size_t i = 0; i < in->n; i++) {
        bool has = input_has(in, r, i);
        if (!has && in->values != NEGATIVE_ZERO)
            continue;
        uint64_t h = mix(in->seed + 77 * (uint64_t)r + i * 1000003);
        double f = has && ss_type_is_float(in->type) ? float_value(in, r, i, h) : 0;
        uint64_t u = has && !ss_type_is_float(in->type) ? integer_value(in, r, i, h) : 0;

        /* zeros of either sign around the entries */
        if (!has && h % 7 == 0)
            f = -0.0;
        input_put(in, data, i, f, u);
    }
}

static inline uint64_t integer_at(enum ss_type type, const void *data, size_t i)
{
    return type == SS_I32 ? ((const uint32_t *)data)[i] : ((const uint64_t *)data)[i];
}

static inline uint64_t integer_result(enum ss_op op, uint64_t a, uint64_t b)
{
    switch (op) {
    case SS_SUM:
        return a + b;
    case SS_BOR:
        return a | b;
    case SS_BXOR:
        return a ^ b;
    case SS_LOR:
        return a || b;
    default:
        return !a != !b;
    }
}

static inline bool integer_is_right(const struct input *in, const struct array *sent, size_t i,
                                    const void *result)
{
    uint64_t want = 0, got = integer_at(in->type, result, i);

    for (int r = 0; r < in->size; r++)
        want = integer_result(in->op, want, integer_at(in->type, sent[r].data, i));
    return in->type == SS_I32 ? (uint32_t)want == (uint32_t)got : want == got;
}

/* Checks |result - true sum| <= (P-1) eps sum|x|. If partial sums may overflow, the result must be
 * finite, or infinite for a reason. */
static inline bool float_is_right(const struct input *in, const struct array *sent, size_t i,
                                  const void *result)
{
    bool single = in->type == SS_F32;
    long double sum = 0, magnitude = 0, most = single ? (long double)FLT_MAX : (long double)DBL_MAX;
    long double eps = single ? (long double)FLT_EPSILON : (long double)DBL_EPSILON;
    double got = single ? (double)((const float *)result)[i] : ((const double *)result)[i];

    for (int r = 0; r < in->size; r++) {
        long double x = single ? (long double)((const float *)sent[r].data)[i]
                               : (long double)((const double *)sent[r].data)[i];
        sum += x;
        magnitude += fabsl(x);
    }
    if (magnitude > most && !isfinite(got))
        return true;
    if (fabsl(sum) > most * (1 + eps))
        return false; /* is finite and must not be */
    if (got == 0 && signbit(got) && !in->native)
        return false;
    return fabsl((long double)got - sum) <=
           (in->size - 1) * eps * magnitude + (long double)in->slack;
}

/* Returns the first wrong element of a result, or n. */
static inline size_t oracle_first_wrong(const struct input *in, const struct array *sent,
                                        const void *result)
{
    for (size_t i = 0; i < in->n; i++)
        if (ss_type_is_float(in->type) ? !float_is_right(in, sent, i, result)
                                       : !integer_is_right(in, sent, i, result))
            return i;
    return in->n;
}

static inline void input_print(const struct input *in)
{
    printf("# P=%d %s %s n=%zu density=%g place=%d values=%d seed=%llu\n", in->size,
           ss_type_name(in->type), ss_op_name(in->op), in->n, in->density, in->place, in->values,
           (unsigned long long)in->seed);
}

#endif
