/* Values passed through the encoder, for the tests of core/wire/values.c. */
#ifndef TESTS_VALUE_TRIP_H
#define TESTS_VALUE_TRIP_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/values.h"
#include "tests/unit/support/random_numbers.h"

enum { MOST = 40000 };

/* Values before and after rounding, their errors, and their coded form. */
struct trip {
    enum ss_type type;
    struct ss_rounding how;
    size_t count;
    uint64_t was[MOST], is[MOST], error[MOST], decoded[MOST];
    unsigned char coded[MOST * 9 + 64];
    size_t length;
};

static inline double get(const struct trip *t, const void *v, size_t i)
{
    return t->type == SS_F32 ? (double)((const float *)v)[i] : ((const double *)v)[i];
}

static inline void put(struct trip *t, size_t i, double x)
{
    if (t->type == SS_F32)
        ((float *)(void *)t->was)[i] = (float)x;
    else
        ((double *)(void *)t->was)[i] = x;
}

static inline int levels_of(enum ss_values values)
{
    return values == SS_VALUES_Q8 ? 127 : values == SS_VALUES_Q4 ? 7 : 1;
}

static inline void encode(struct trip *t)
{
    size_t bytes = t->count * ss_type_size(t->type), bound;

    memcpy(t->is, t->was, bytes);
    memset(t->error, 0x55, bytes);
    memset(t->coded, 0x5c, sizeof t->coded);
    bound = ss_values_bound(t->type, &t->how, t->count);
    t->length = ss_values_encode(t->type, &t->how, 0, t->is, t->count, t->error, t->coded);
    assert_true(t->length <= bound && t->length % 8 == 0);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(t->coded[bound + i], 0x5c);
}

enum pattern { UNIFORM, HEAVY, SPREAD, EQUAL, TINY, FEW, ON_LEVELS, HALVES, PATTERNS };

static inline double draw(enum pattern pattern, size_t i)
{
    double x = 2 * random_unit() - 1, e = random_unit();

    switch (pattern) {
    case HEAVY:
        return x * x * x * x * x;
    case SPREAD: /* 1e-30 to 1e30 */
        return x * pow(10, 60 * e - 30);
    case EQUAL:
        return i % 3 == 0 ? -0.3 : 0.3;
    case TINY: /* down to the subnormals of float, with a normal scale */
        return i % 64 == 7 ? 0x1p-125 : x * 0x1p-126;
    case FEW:
        return i % 50 == 0 ? x : 0;
    case ON_LEVELS:
        return i % 64 == 0 ? 889 : (double)((int)(random64() % 1779) - 889);
    case HALVES: /* next to the middle of two levels */
        return i % 64 == 0 ? 1 : (i % 2 ? 0.5 : 1.5 / 7) * (1 + (e - 0.5) * 0x1p-21);
    default:
        return x;
    }
}

static inline void fill(struct trip *t, enum pattern pattern)
{
    for (size_t i = 0; i < t->count; i++)
        put(t, i, draw(pattern, i));
}

#endif
