/* Quantized vectors: what is coded plus the error is the value, what is decoded is what the coder
 * said, in every table to the same bits; values that no level reaches wait or show. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/compute/quantize.h"

enum { MOST = 1300, BYTES = 4 * MOST };

/* Vectors with room for doubles. */
struct vectors {
    _Alignas(8) unsigned char g[8 * MOST], r[8 * MOST], v[8 * MOST], coded[BYTES];
    double square;
};

static double get(enum ss_type type, const void *v, size_t i)
{
    return type == SS_F32 ? (double)((const float *)v)[i] : ((const double *)v)[i];
}

static bool is_finite(double x)
{
    return x - x == 0;
}

static void put(enum ss_type type, void *v, size_t i, double x)
{
    if (type == SS_F32)
        ((float *)v)[i] = (float)x;
    else
        ((double *)v)[i] = x;
}

/* Draws a gradient and a residual: heavy-tailed, with zeros, and with one value that dominates. */
static void draw(struct vectors *t, enum ss_type type, size_t n, uint64_t seed)
{
    memset(t, 0, sizeof *t);
    for (size_t i = 0; i < n; i++) {
        const uint64_t word = ss_mix(seed, i);
        const double x = ldexp((double)(int64_t)word, -63);
        const double scale = word % 11 == 0 ? 0 : word % 7 == 0 ? 30 : 1;
        put(type, t->g, i, (word % 3 ? x * x * x : x) * scale);
        put(type, t->r, i, 0.1 * ldexp((double)(int64_t)ss_mix(word, 1), -63));
    }
}

static const enum ss_type types[] = {SS_F32, SS_F64};
static const size_t lengths[] = {1, 2, 63, 127, 128, 129, 255, 256, 777, 1280, 1299};

/* Calls check for each type, coding and length. */
static void each(void (*check)(enum ss_type type, enum ss_values values, size_t n))
{
    for (size_t t = 0; t < 2; t++)
        for (enum ss_values values = SS_VALUES_BF16; values < SS_VALUE_TYPES; values++)
            for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
                check(types[t], values, lengths[l]);
}

static void check_sums(enum ss_type type, enum ss_values values, size_t n)
{
    static struct vectors t, before;

    for (size_t q = 0; ss_quantizers_at(q); q++) {
        const struct ss_quantizers *table = ss_quantizers_at(q);
        double square = 0;
        draw(&t, type, n, n + (size_t)values);
        before = t;
        t.square = table->join(type, values, t.g, t.r, n, t.coded);
        table->decode(type, values, t.coded, t.v, n);
        assert_true(ss_quantized_finite(type, values, t.coded, n));
        for (size_t i = 0; i < n; i++) {
            double sum = get(type, before.g, i) + get(type, before.r, i);
            sum = type == SS_F32 ? (double)((float)sum) : sum;
            assert_true(get(type, t.v, i) + get(type, t.r, i) == sum); /* exact */
            square += get(type, t.r, i) * get(type, t.r, i);
        }
        assert_true(square <= t.square);
        before = t; /* adds the levels to what is there */
        table->add(type, values, t.coded, t.v, n);
        for (size_t i = 0; i < n; i++)
            assert_true(get(type, t.v, i) == 2 * get(type, before.v, i));
    }
}

static void what_is_coded_and_its_error_are_the_value(void **state)
{
    (void)state;
    each(check_sums);
}

static void check_round(enum ss_type type, enum ss_values values, size_t n)
{
    static struct vectors t, before;
    unsigned char decoded[8 * MOST];

    for (size_t q = 0; ss_quantizers_at(q); q++) {
        draw(&t, type, n, 3 * n + (size_t)values);
        before = t;
        ss_quantizers_at(q)->round(type, values, t.g, t.r, n, t.coded);
        ss_quantizers_at(q)->decode(type, values, t.coded, decoded, n);
        assert_memory_equal(t.g, decoded, n * ss_type_size(type));
        for (size_t i = 0; i < n; i++) /* the former residual is overwritten */
            assert_true(get(type, t.g, i) + get(type, t.r, i) == get(type, before.g, i));
    }
}

static void rounding_in_place_is_what_the_others_decode(void **state)
{
    (void)state;
    each(check_round);
}

/* The way back inside hosts relies on it. */
static void check_again(enum ss_type type, enum ss_values values, size_t n)
{
    static struct vectors t, before;

    if (!ss_levels_recode(values))
        return;
    for (size_t q = 0; ss_quantizers_at(q); q++) {
        draw(&t, type, n, 5 * n + (size_t)values);
        ss_quantizers_at(q)->round(type, values, t.g, t.r, n, t.coded);
        memset(t.r, 0, sizeof t.r);
        before = t;
        ss_quantizers_at(q)->round(type, values, t.g, t.r, n, t.coded);
        assert_memory_equal(t.g, before.g, sizeof t.g);
        assert_memory_equal(t.coded, before.coded, sizeof t.coded);
        for (size_t i = 0; i < n; i++)
            assert_true(get(type, t.r, i) == 0);
    }
}

static void levels_that_are_coded_again_keep_their_bits(void **state)
{
    (void)state;
    each(check_again);
}

static void check_tables(enum ss_type type, enum ss_values values, size_t n)
{
    static struct vectors first, other;

    for (size_t q = 0; ss_quantizers_at(q); q++) {
        struct vectors *t = q == 0 ? &first : &other;
        draw(t, type, n, 7 * n);
        t->square = ss_quantizers_at(q)->join(type, values, t->g, t->r, n, t->coded);
        ss_quantizers_at(q)->decode(type, values, t->coded, t->v, n);
        ss_quantizers_at(q)->round(type, values, t->g, t->r, n, t->coded);
        if (q > 0)
            assert_memory_equal(&first, &other, sizeof first);
    }
}

static void all_tables_give_the_same_bits(void **state)
{
    (void)state;
    each(check_tables);
}

/* Tables code several buckets at once, in which one bucket may be odd. */
static void an_odd_bucket_among_others_has_the_same_bits_in_all_tables(void **state)
{
    static struct vectors first, other;
    static const double odd[] = {
        0, -0.0, 1e-30, 1e-27, 1e-22, 1e-300, 1e-24, 3e38, (double)INFINITY, -(double)NAN};

    (void)state;
    for (enum ss_values values = SS_VALUES_BF16; values < SS_VALUE_TYPES; values++)
        for (size_t o = 0; o < sizeof odd / sizeof odd[0]; o++)
            for (size_t q = 0; ss_quantizers_at(q); q++) {
                const struct ss_quantizers *table = ss_quantizers_at(q);
                struct vectors *t = q == 0 ? &first : &other;
                draw(t, SS_F32, MOST, o);
                for (size_t i = 256; i < 384; i++) {
                    put(SS_F32, t->g, i, i % 3 ? odd[o] : -0.5 * odd[o]);
                    put(SS_F32, t->r, i, -0.0);
                }
                t->square = table->join(SS_F32, values, t->g, t->r, MOST, t->coded);
                table->add(SS_F32, values, t->coded, t->v, MOST);
                if (is_finite(odd[o]))
                    table->round(SS_F32, values, t->v, t->r, MOST, t->coded);
                table->add(SS_F32, values, t->coded, t->g, 256);
                assert_memory_equal(t->coded, first.coded, sizeof first.coded);
                assert_memory_equal(t->r, first.r, sizeof first.r);
                assert_memory_equal(t->g, first.g, sizeof first.g);
                for (size_t i = 0; i < MOST; i++)
                    assert_true(get(SS_F32, t->v, i) == get(SS_F32, first.v, i) ||
                                !is_finite(get(SS_F32, first.v, i)));
                assert_true(t->square == first.square);
            }
}

static void check_norm(enum ss_type type, enum ss_values values, size_t n)
{
    static struct vectors t;
    double square = 0;

    draw(&t, type, n, n + (size_t)values);
    for (size_t i = 0; i < n; i++)
        square += get(type, t.g, i) * get(type, t.g, i);
    for (size_t q = 0; ss_quantizers_at(q); q++) {
        const double found = ss_quantizers_at(q)->square(type, t.g, n);
        assert_true(fabs(found - square) <= ldexp(square, -20));
        assert_true(found == ss_quantizers_at(0)->square(type, t.g, n));
        put(type, t.g, n / 2, (double)NAN);
        assert_false(is_finite(ss_quantizers_at(q)->square(type, t.g, n)));
        draw(&t, type, n, n + (size_t)values);
    }
}

static void norms_are_the_same_in_all_tables_and_show_what_is_not_finite(void **state)
{
    (void)state;
    each(check_norm);
}

/* The largest value of a bucket has a level, up to the precision of the scale. */
static void the_largest_value_travels_at_once(void **state)
{
    static struct vectors t;

    (void)state;
    for (enum ss_values values = SS_VALUES_Q8; values <= SS_VALUES_Q2; values++)
        for (int minus = 0; minus < 2; minus++) {
            memset(&t, 0, sizeof t);
            put(SS_F32, t.g, 5, minus ? -1.5 : 1.5); /* 8 significant bits are enough */
            put(SS_F32, t.g, 6, 0.001);
            ss_quantizers()->join(SS_F32, values, t.g, t.r, 128, t.coded);
            assert_true(get(SS_F32, t.r, 5) == 0);
        }
}

static void tiny_buckets_wait_and_huge_values_saturate(void **state)
{
    static struct vectors t;

    (void)state;
    for (size_t y = 0; y < 2; y++)
        for (enum ss_values values = SS_VALUES_Q8; values <= SS_VALUES_Q2; values++) {
            const enum ss_type type = types[y];
            const double tiny = type == SS_F32 ? 1e-38 : 1e-300;
            const double huge = type == SS_F32 ? (double)FLT_MAX : DBL_MAX;
            memset(&t, 0, sizeof t);
            for (size_t i = 0; i < 128; i++)
                put(type, t.g, i, tiny);
            put(type, t.g, 128, huge);
            put(type, t.g, 129, -huge);
            ss_quantizers()->join(type, values, t.g, t.r, 256, t.coded);
            ss_quantizers()->decode(type, values, t.coded, t.v, 256);
            for (size_t i = 0; i < 256; i++)
                assert_true(is_finite(get(type, t.v, i)) &&
                            get(type, t.v, i) + get(type, t.r, i) == get(type, t.g, i));
            assert_true(get(type, t.v, 0) == 0 && get(type, t.v, 128) > 0.4 * huge);
            assert_true(get(type, t.v, 129) < 0);
        }
}

static void a_value_that_is_not_finite_shows_and_leaves_no_error(void **state)
{
    static struct vectors t;
    static const double odd[] = {(double)INFINITY, -(double)INFINITY, (double)NAN};

    (void)state;
    for (size_t y = 0; y < 2; y++)
        for (enum ss_values values = SS_VALUES_BF16; values <= SS_VALUES_Q2; values++)
            for (size_t o = 0; o < 3; o++) {
                const enum ss_type type = types[y];
                memset(&t, 0, sizeof t);
                for (size_t i = 0; i < 300; i++)
                    put(type, t.g, i, 1);
                put(type, t.g, 130, odd[o]);
                ss_quantizers()->round(type, values, t.g, t.r, 300, t.coded);
                ss_quantizers()->decode(type, values, t.coded, t.v, 300);
                assert_false(ss_quantized_finite(type, values, t.coded, 300));
                assert_false(is_finite(get(type, t.v, 130)));
                assert_true(odd[o] != odd[o] || get(type, t.v, 130) == odd[o]);
                for (size_t i = 0; i < 300; i++)
                    assert_true(is_finite(get(type, t.r, i)));
                assert_true(is_finite(get(type, t.v, 0)) && is_finite(get(type, t.v, 299)));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_coded_and_its_error_are_the_value),
        cmocka_unit_test(rounding_in_place_is_what_the_others_decode),
        cmocka_unit_test(levels_that_are_coded_again_keep_their_bits),
        cmocka_unit_test(all_tables_give_the_same_bits),
        cmocka_unit_test(an_odd_bucket_among_others_has_the_same_bits_in_all_tables),
        cmocka_unit_test(norms_are_the_same_in_all_tables_and_show_what_is_not_finite),
        cmocka_unit_test(the_largest_value_travels_at_once),
        cmocka_unit_test(tiny_buckets_wait_and_huge_values_saturate),
        cmocka_unit_test(a_value_that_is_not_finite_shows_and_leaves_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
