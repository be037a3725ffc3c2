/* Shared by the tests of selection and threshold: random arrays that end at an unreadable page, so
 * that reading one byte too many faults, and exact sums of their elements. Include after
 * cmocka.h. */
#ifndef TESTS_UNIT_SELECT_DATA_H
#define TESTS_UNIT_SELECT_DATA_H

#include "core/select/threshold.h"
#include "tests/unit/support/random_numbers.h"

enum { MOST = 300000, KINDS = 7 };

/* Kinds of random elements. */
enum kind { NORMAL, TIES, SPARSE, TINY, SUBNORMAL, HEAVY, ZERO };

struct room {
    char *g, *r, *idx, *val; /* first byte of the faulting page, for each array */
    void *start, *want_r, *want_val;
    uint32_t *want_idx;
    ss_magnitude *sorted;
};

static const enum ss_type types[] = {SS_F32, SS_F64};

static size_t random_below(size_t n)
{
    return (size_t)(random64() >> 11) % n;
}

static char *guarded_end(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), length = (bytes + page - 1) / page * page;
    char *map =
        mmap(NULL, length + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map + length, page, PROT_NONE), 0);
    return map + length;
}

static int set_up(void **state)
{
    struct room *room = test_malloc(sizeof *room);
    room->g = guarded_end((MOST + 64) * sizeof(double));
    room->r = guarded_end((MOST + 64) * sizeof(double));
    room->val = guarded_end((MOST + 64) * sizeof(double));
    room->idx = guarded_end((MOST + 64) * sizeof(uint32_t));
    room->start = test_malloc(MOST * sizeof(double));
    room->want_r = test_malloc(MOST * sizeof(double));
    room->want_val = test_malloc(MOST * sizeof(double));
    room->want_idx = test_malloc(MOST * sizeof(uint32_t));
    room->sorted = test_malloc(MOST * sizeof(ss_magnitude));
    *state = room;
    return 0;
}

static int tear_down(void **state)
{
    struct room *room = *state;
    test_free(room->start);
    test_free(room->want_r);
    test_free(room->want_val);
    test_free(room->want_idx);
    test_free(room->sorted);
    test_free(room);
    return 0;
}

/* Returns n elements that end `slack` elements before the faulting page. Slack 0 is right before
 * it; other values shift the alignment. */
static void *before(char *end, enum ss_type type, size_t n, size_t slack)
{
    return end - (n + slack) * ss_type_size(type);
}

static double get(enum ss_type type, const void *p, size_t i)
{
    return type == SS_F32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static void put(enum ss_type type, void *p, size_t i, double x)
{
    if (type == SS_F32)
        ((float *)p)[i] = (float)x;
    else
        ((double *)p)[i] = x;
}

static uint64_t bits(enum ss_type type, const void *p, size_t i)
{
    uint64_t x = 0;
    memcpy(&x, (const char *)p + i * ss_type_size(type), ss_type_size(type));
    return x;
}

/* Returns the bits of g + r as the type adds; g or r may be NULL. */
static uint64_t sum_bits(enum ss_type type, const void *g, const void *r, size_t i)
{
    if (!g || !r)
        return bits(type, g ? g : r, i);
    if (type == SS_F32) {
        float sum = ((const float *)g)[i] + ((const float *)r)[i];
        return bits(type, &sum, 0);
    }
    double sum = ((const double *)g)[i] + ((const double *)r)[i];
    return bits(type, &sum, 0);
}

static ss_magnitude magnitude(enum ss_type type, uint64_t x)
{
    return type == SS_F32 ? x & 0x7fffffffu : x & 0x7fffffffffffffffu;
}

static double random_element(enum ss_type type, enum kind kind)
{
    double sign = random64() & 1 << 20 ? 1 : -1, unit = random_unit();
    double least = type == SS_F32 ? 0x1p-149 : 0x1p-1074;
    switch (kind) {
    case NORMAL:
        return sign * unit;
    case TIES:
        return sign * (double)(1 + random_below(4)) * 0.25;
    case SPARSE:
        return unit < 0.9 ? (unit < 0.1 ? -0.0 : 0.0) : sign * unit;
    case TINY:
        return sign * unit * 1e-30;
    case SUBNORMAL:
        return sign * (double)random_below(1000) * least;
    case HEAVY:
        return sign * pow(unit + 1e-9, -2);
    case ZERO:
        break;
    }
    return 0;
}

static void fill(enum ss_type type, void *p, size_t n, enum kind kind)
{
    for (size_t i = 0; i < n; i++)
        put(type, p, i, random_element(type, kind));
}

static void spoil(enum ss_type type, void *p, size_t n, size_t count)
{
    const double odd[] = {INFINITY, -INFINITY, NAN};
    for (size_t j = 0; n > 0 && j < count; j++)
        put(type, p, random_below(n), odd[random_below(3)]);
}

static size_t naive_gather(enum ss_type type, const void *g, const void *r, size_t n,
                           ss_magnitude low, ss_magnitude high, ss_magnitude *out)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        ss_magnitude m = magnitude(type, sum_bits(type, g, r, i));
        if (m >= low && m <= high)
            out[count++] = m;
    }
    return count;
}

static int descending(const void *a, const void *b)
{
    ss_magnitude x = *(const ss_magnitude *)a, y = *(const ss_magnitude *)b;
    return x > y ? -1 : x < y;
}

/* Lists the finite non-zero magnitudes, largest first. */
static inline size_t sort_magnitudes(const struct room *room, enum ss_type type, const void *g,
                                     const void *r, size_t n)
{
    size_t count = naive_gather(type, g, r, n, 1, ss_magnitude_none(type) - 1, room->sorted);
    qsort(room->sorted, count, sizeof *room->sorted, descending);
    return count;
}

#endif
