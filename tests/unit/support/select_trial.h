/* Random selections for the tests of selection, and their comparison. Include after cmocka.h. */
#ifndef TESTS_UNIT_SELECT_TRIAL_H
#define TESTS_UNIT_SELECT_TRIAL_H

#include "tests/unit/support/select_data.h"

static inline bool is_finite(enum ss_type type, uint64_t x)
{
    return magnitude(type, x) < ss_magnitude_none(type);
}

static inline double largest_number(enum ss_type type)
{
    return type == SS_F32 ? (double)FLT_MAX : DBL_MAX;
}

static inline double epsilon(enum ss_type type)
{
    return type == SS_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
}

static inline void assert_same_selection(const struct ss_selection *a, const struct ss_selection *b)
{
    assert_int_equal(a->claimed, b->claimed);
    assert_int_equal(a->over, b->over);
    assert_int_equal(a->not_finite, b->not_finite);
    assert_int_equal(a->stop, b->stop);
    assert_int_equal(a->largest, b->largest);
    assert_int_equal(a->zero_input, b->zero_input);
    assert_memory_equal(&a->input_square, &b->input_square, sizeof a->input_square);
    assert_memory_equal(&a->sum_square, &b->sum_square, sizeof a->sum_square);
}

/* A selection that all tables must make alike. */
struct trial {
    enum ss_type type;
    size_t n, slack, capacity;
    bool has_g, has_r;
    ss_magnitude threshold;
};

static inline struct trial random_trial(struct room *room, enum ss_type type, size_t n)
{
    struct trial t = {.type = type, .n = n, .slack = random_below(17)};
    size_t source = random_below(4);
    t.has_g = source != 2;
    t.has_r = source != 3;
    void *g = before(room->g, type, n, t.slack), *r = before(room->r, type, n, t.slack / 2);
    fill(type, g, n, (enum kind)random_below(KINDS));
    fill(type, r, n, (enum kind)random_below(KINDS));
    if (random_below(4) == 0 && t.has_g)
        spoil(type, g, n, 1 + random_below(3));
    size_t pick = n > 0 ? random_below(n) : 0;
    t.threshold = n > 0 ? magnitude(type, sum_bits(type, g, r, pick)) : 1;
    if (t.threshold == 0 || random_below(16) == 0)
        t.threshold = SS_LEAST_MAGNITUDE;
    if (t.threshold > ss_magnitude_none(type) || random_below(16) == 0)
        t.threshold = ss_magnitude_none(type);
    t.capacity = random_below(2) ? n : random_below(n + 1);
    return t;
}

#endif
