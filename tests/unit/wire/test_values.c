/* Values in fewer bits: nearest levels with exact errors, the unbiased stochastic form, what
 * travels as it is, and what a decoder must refuse. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support/value_trip.h"

static const enum ss_type types[] = {SS_F32, SS_F64};

/* Encodes, decodes a copy that ends where its memory ends, and compares. */
static void travel(struct trip *t)
{
    size_t bytes = t->count * ss_type_size(t->type);

    encode(t);
    unsigned char *copy = test_malloc(t->length);
    memcpy(copy, t->coded, t->length);
    assert_int_equal(
        ss_values_decode(t->type, t->how.values, copy, t->length, t->decoded, t->count), t->length);
    assert_memory_equal(t->decoded, t->is, bytes);
    test_free(copy);
}

/* was = is + error without any rounding: the difference of the two is exact in the wider type as
 * long as one is zero or they are within a factor of two. */
static void expect_exact_errors(const struct trip *t)
{
    for (size_t i = 0; i < t->count; i++) {
        double was = get(t, t->was, i), is = get(t, t->is, i), error = get(t, t->error, i);
        if ((long double)was - (long double)is != (long double)error)
            fail_msg("%zu of %zu: was %a, is %a, error %a", i, t->count, was, is, error);
        if (fabs(error) > fabs(was))
            fail_msg("%zu: the error %a is more than %a was", i, error, was);
    }
}

/* The largest magnitude of the bucket that i lies in. */
static double scale_at(const struct trip *t, size_t i)
{
    size_t first = i - i % t->how.bucket, end = first + t->how.bucket;
    double most = 0;

    for (size_t j = first; j < end && j < t->count; j++)
        most = fmax(most, fabs(get(t, t->was, j)));
    return most;
}

static void expect_nearest(const struct trip *t)
{
    double eps = t->type == SS_F32 ? (double)FLT_EPSILON : DBL_EPSILON, scale = 0;
    int levels = levels_of(t->how.values);

    for (size_t i = 0; i < t->count; i++) {
        if (i % t->how.bucket == 0)
            scale = scale_at(t, i);
        double half = scale / levels / 2, error = fabs(get(t, t->error, i));
        if (error > half + 2 * eps * scale + DBL_TRUE_MIN)
            fail_msg("%zu: error %a, half a step %a, scale %a", i, error, half, scale);
    }
}

static void the_nearest_level_is_taken_and_the_error_is_exact(void **state)
{
    static struct trip t;
    const size_t counts[] = {1, 2, 63, 64, 65, 1000, 4096, MOST};
    const uint32_t buckets[] = {64, 100, 1024, 32768};

    (void)state;
    for (int type = 0; type < 2; type++)
        for (int values = SS_VALUES_Q8; values < SS_VALUE_TYPES; values++)
            for (int pattern = 0; pattern < PATTERNS; pattern++)
                for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                    t.type = types[type];
                    t.how = (struct ss_rounding){.values = (enum ss_values)values,
                                                 .bucket = buckets[c % 4]};
                    t.count = counts[c];
                    fill(&t, (enum pattern)pattern);
                    travel(&t);
                    expect_exact_errors(&t);
                    expect_nearest(&t);
                }
}

/* Where rounding could take the wrong side, the first level would be more than twice the value. */
static void errors_are_exact_next_to_the_middle_between_levels(void **state)
{
    static struct trip t;

    (void)state;
    for (int type = 0; type < 2; type++)
        for (int values = SS_VALUES_Q8; values < SS_VALUE_TYPES; values++)
            for (int round = 0; round < 2000; round++) {
                t.type = types[type];
                t.how = (struct ss_rounding){.values = (enum ss_values)values, .bucket = 64};
                t.count = 64;
                double scale = (1 + random_unit()) * (round % 2 ? 1 : 0x1p-126);
                if (round < 200) /* the first level is next to a power of two */
                    scale = levels_of(t.how.values) *
                            (1 + (round - 100) / 4 * (type == 0 ? 0x1p-24 : 0x1p-53));
                scale = type == 0 ? (double)(float)scale : scale;
                put(&t, 0, scale);
                double middle = scale / levels_of(t.how.values) / 2;
                for (int i = 1; i < 64; i++) {
                    put(&t, (size_t)i, middle);
                    if (type == 0)
                        ((int32_t *)(void *)t.was)[i] += i - 32;
                    else
                        ((int64_t *)(void *)t.was)[i] += i - 32;
                }
                travel(&t);
                expect_exact_errors(&t);
            }
}

static void the_largest_and_zero_stay_what_they_are(void **state)
{
    static struct trip t;

    (void)state;
    for (int type = 0; type < 2; type++)
        for (int values = SS_VALUES_Q8; values < SS_VALUE_TYPES; values++) {
            t = (struct trip){.type = types[type], .count = 1000};
            t.how = (struct ss_rounding){.values = (enum ss_values)values, .bucket = 64};
            fill(&t, FEW);
            put(&t, 3, -7.7);
            travel(&t);
            assert_true(get(&t, t.error, 3) == 0);
            for (size_t i = 0; i < t.count; i++)
                if (get(&t, t.was, i) == 0)
                    assert_true(get(&t, t.is, i) == 0 && !signbit(get(&t, t.is, i)));
        }
}

static void bf16_rounds_to_nearest_ties_to_even(void **state)
{
    static const struct {
        double was, is;
    } cases[] = {
        {1, 1},
        {1 + 0x1p-8, 1},
        {1 + 0x3p-8, 1 + 0x2p-7},
        {-1 - 0x1p-8, -1},
        {-1 - 0x3p-8, -1 - 0x2p-7},
        {1 + 0x1p-8 + 0x1p-23, 1 + 0x1p-7},
        {2 - 0x1p-8, 2},
        {2 - 0x1p-8 - 0x1p-23, 2 - 0x1p-7},
        {0x1.fep127, 0x1.fep127},
        {0x1.fdp127, 0x1.fcp127},
        {0x1p-126, 0x1p-126},
        {0x1p-133, 0x1p-133},
        {0x1p-134, 0},
        {0x1.8p-133, 0x1p-132},
        {0x1.8p-134, 0x1p-133},
        {0x1.fcp-127, 0x1.fcp-127},
        {0x1.fep-127, 0x1p-126},
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    static struct trip t;

    (void)state;
    for (int type = 0; type < 2; type++) {
        t.type = types[type];
        t.how = (struct ss_rounding){.values = SS_VALUES_BF16, .bucket = 64};
        t.count = CASES + 70;
        for (size_t i = 0; i < t.count; i++)
            put(&t, i, cases[i % CASES].was);
        travel(&t);
        expect_exact_errors(&t);
        for (size_t i = 0; i < t.count; i++)
            if (get(&t, t.is, i) != cases[i % CASES].is)
                fail_msg("%a became %a", cases[i % CASES].was, get(&t, t.is, i));
    }
}

/* By way of float the first would be a tie and become 1. */
static void doubles_become_bf16_at_once(void **state)
{
    static struct trip t;

    (void)state;
    t.type = SS_F64;
    t.how = (struct ss_rounding){.values = SS_VALUES_BF16, .bucket = 64};
    t.count = 3;
    put(&t, 0, 1 + 0x1p-8 + 0x1p-40);
    put(&t, 1, 0x1p-134 + 0x1p-170);
    put(&t, 2, 1e-300);
    travel(&t);
    expect_exact_errors(&t);
    assert_true(get(&t, t.is, 0) == 1 + 0x1p-7);
    assert_true(get(&t, t.is, 1) == 0x1p-133);
    assert_true(get(&t, t.is, 2) == 0);
}

static void bf16_keeps_eight_bits_of_every_magnitude(void **state)
{
    static struct trip t;

    (void)state;
    for (int type = 0; type < 2; type++)
        for (int pattern = 0; pattern < PATTERNS; pattern++) {
            t.type = types[type];
            t.how = (struct ss_rounding){.values = SS_VALUES_BF16, .bucket = 100};
            t.count = MOST;
            fill(&t, (enum pattern)pattern);
            travel(&t);
            expect_exact_errors(&t);
            for (size_t i = 0; i < t.count; i++) {
                double was = fabs(get(&t, t.was, i)), error = fabs(get(&t, t.error, i));
                assert_true(error <= fmax(was * 0x1p-8, 0x1p-134));
            }
        }
}

/* The second of three buckets travels as it is, or not. */
static void expect_raw(struct trip *t, bool raw)
{
    size_t size = ss_type_size(t->type);

    travel(t);
    bool same = memcmp((char *)t->was + 64 * size, (char *)t->is + 64 * size, 64 * size) == 0;
    if (same != raw)
        fail_msg("%s, %s, first of the bucket %a: %s", ss_type_name(t->type),
                 ss_value_type_name(t->how.values), get(t, t->was, 64),
                 same ? "unchanged" : "changed");
    for (size_t i = 0; i < t->count; i++) {
        double error = get(t, t->error, i);
        assert_true(isfinite(error) && (!raw || i / 64 != 1 || error == 0));
    }
}

static void a_bucket_without_a_normal_scale_travels_as_it_is(void **state)
{
    static const struct {
        double x;
        bool with_others; /* that are larger than it */
        bool raw[2][2];   /* by type; levels, bf16 */
    } cases[] = {
        {1.7, true, {{false, false}, {false, false}}},
        {INFINITY, true, {{true, true}, {true, true}}},
        {-INFINITY, true, {{true, true}, {true, true}}},
        {NAN, true, {{true, true}, {true, true}}},
        {0x1p-127, true, {{false, false}, {false, false}}},
        {0x1p-127, false, {{true, true}, {false, true}}},
        {DBL_MIN / 2, false, {{false, false}, {true, true}}}, /* zero as a float */
        {(double)FLT_MAX, true, {{false, true}, {false, true}}},
        {1e300, true, {{true, true}, {false, true}}},
    };
    static struct trip t;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int type = 0; type < 2; type++)
            for (int values = SS_VALUES_BF16; values < SS_VALUE_TYPES; values++)
                for (int stochastic = 0; stochastic < (values > SS_VALUES_BF16 ? 2 : 1);
                     stochastic++) {
                    if (cases[i].x == DBL_MIN / 2 && type == 0)
                        continue;
                    t.type = types[type];
                    t.count = 192;
                    t.how = (struct ss_rounding){.values = (enum ss_values)values,
                                                 .bucket = 64,
                                                 .stochastic = stochastic > 0};
                    for (size_t j = 0; j < t.count; j++)
                        put(&t, j,
                            j / 64 == 1 && !cases[i].with_others ? cases[i].x * random_unit()
                                                                 : draw(UNIFORM, j));
                    put(&t, 64, cases[i].x);
                    if (fabs(cases[i].x) == (double)FLT_MAX && stochastic && type == 0)
                        put(&t, 65, (double)FLT_MAX); /* a norm past the largest number */
                    bool raw = cases[i].raw[type][values == SS_VALUES_BF16];
                    if (fabs(cases[i].x) == (double)FLT_MAX && stochastic && type == 0)
                        raw = true;
                    expect_raw(&t, raw);
                }
}

static void zeros_take_a_byte_a_bucket(void **state)
{
    static struct trip t;

    (void)state;
    for (int values = SS_VALUES_BF16; values < SS_VALUE_TYPES; values++) {
        t.type = SS_F32;
        t.how = (struct ss_rounding){.values = (enum ss_values)values, .bucket = 64};
        t.count = 1000;
        memset(t.was, 0, sizeof t.was);
        put(&t, 17, -0.0);
        travel(&t);
        assert_int_equal(t.length, 8 + 16);
        for (size_t i = 0; i < t.count; i++)
            assert_true(get(&t, t.is, i) == 0 && !signbit(get(&t, t.is, i)));
    }
}

static void lengths_are_those_expected(void **state)
{
    static struct trip t;

    (void)state;
    for (int type = 0; type < 2; type++)
        for (int values = SS_VALUES_BF16; values < SS_VALUE_TYPES; values++)
            for (uint32_t bucket = 64; bucket <= 32768; bucket *= 8) {
                t.type = types[type];
                t.how = (struct ss_rounding){.values = (enum ss_values)values, .bucket = bucket};
                t.count = 32768;
                fill(&t, UNIFORM);
                travel(&t);
                double bytes = 32768 * ss_values_bytes(t.type, (enum ss_values)values, bucket) + 8;
                assert_true(fabs((double)t.length - bytes) <= 8);
            }
    assert_true(ss_values_bytes(SS_F64, SS_VALUES_SAME, 64) == 8);
}

static void samples(struct trip *t, unsigned which)
{
    t->type = types[which % 2];
    t->how = (struct ss_rounding){
        .values = (enum ss_values)(SS_VALUES_BF16 + which / 2 % (SS_VALUE_TYPES - 1)),
        .bucket = 64 + which % 3};
    t->count = 150 + which % 7;
    fill(t, UNIFORM);
    for (size_t i = 0; i < 70 && which % 5 == 0; i++)
        put(t, i, 0);
    if (which % 4 == 0)
        put(t, 100, INFINITY);
    encode(t);
}

static size_t decode_copy(struct trip *t, size_t length)
{
    unsigned char *copy = test_malloc(length ? length : 1);

    memcpy(copy, t->coded, length);
    size_t used = ss_values_decode(t->type, t->how.values, copy, length, t->decoded, t->count);
    test_free(copy);
    assert_true(used <= length);
    return used;
}

static void malformed_values_are_refused(void **state)
{
    static struct trip t;
    unsigned accepted = 0, refused = 0;

    (void)state;
    for (unsigned which = 0; which < 40; which++) {
        samples(&t, which);
        for (size_t length = 0; length < t.length; length++) {
            assert_int_equal(decode_copy(&t, length), 0);
            if (length < 8)
                continue;
            uint32_t kept, claimed = (uint32_t)length - 8; /* a length that agrees with the cut */
            memcpy(&kept, t.coded + 4, sizeof kept);
            if (claimed >= kept)
                continue;
            memcpy(t.coded + 4, &claimed, sizeof claimed);
            assert_int_equal(decode_copy(&t, length), 0);
            memcpy(t.coded + 4, &kept, sizeof kept);
        }
        for (int round = 0; round < 200; round++) {
            size_t bit = random64() % (8 * t.length);
            t.coded[bit / 8] ^= (unsigned char)(1u << bit % 8);
            size_t used = decode_copy(&t, t.length);
            assert_true(used == 0 || used == t.length);
            accepted += used > 0;
            refused += used == 0;
            t.coded[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        t.count++; /* more or fewer values than were encoded */
        assert_int_equal(decode_copy(&t, t.length), 0);
        t.count -= 2;
        assert_int_equal(decode_copy(&t, t.length), 0);
        t.count++;
        assert_int_equal(decode_copy(&t, t.length), t.length);
        assert_int_equal(
            ss_values_decode(SS_I32, t.how.values, t.coded, t.length, t.decoded, t.count), 0);
        assert_int_equal(
            ss_values_decode(t.type, SS_VALUES_SAME, t.coded, t.length, t.decoded, t.count), 0);
        assert_int_equal(
            ss_values_decode(t.type, SS_VALUE_TYPES, t.coded, t.length, t.decoded, t.count), 0);
    }
    assert_true(accepted > 100 && refused > 100);
}

/* One bucket of 64 floats whose first bytes are given; the rest is as it was encoded. */
static size_t decode_changed(struct trip *t, size_t at, const void *bytes, size_t n)
{
    unsigned char kept[16];

    memcpy(kept, t->coded + at, n);
    memcpy(t->coded + at, bytes, n);
    size_t used = decode_copy(t, t->length);
    memcpy(t->coded + at, kept, n);
    return used;
}

static void what_the_encoder_never_writes_is_refused(void **state)
{
    static struct trip t;
    const float scales[] = {0, -1, 0x1p-127f, INFINITY, NAN, 2};
    const uint32_t buckets[] = {0, 63, 32769, UINT32_MAX, 64, 1024};
    const unsigned char none = 0, padding = 1;

    (void)state;
    for (int values = SS_VALUES_Q8; values < SS_VALUE_TYPES; values++) {
        t.type = SS_F32;
        t.how = (struct ss_rounding){.values = (enum ss_values)values, .bucket = 64};
        t.count = 64;
        fill(&t, UNIFORM);
        encode(&t);
        for (unsigned char form = 3; form != 0; form++)
            assert_int_equal(decode_changed(&t, 8, &form, 1), 0);
        for (int i = 0; i < 6; i++)
            assert_int_equal(decode_changed(&t, 9, &scales[i], 4), i == 5 ? t.length : 0);
        for (int i = 0; i < 6; i++)
            assert_int_equal(decode_changed(&t, 0, &buckets[i], 4), i >= 4 ? t.length : 0);
        assert_int_equal(decode_changed(&t, 13, &none, 1), 0); /* no code */
        assert_int_equal(decode_changed(&t, t.length - 1, &padding, 1), 0);
    }
    t.how.values = SS_VALUES_BF16;
    fill(&t, UNIFORM);
    encode(&t);
    const uint16_t infinite = 0x7f80;
    assert_int_equal(decode_changed(&t, 11, &infinite, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_level_is_taken_and_the_error_is_exact),
        cmocka_unit_test(errors_are_exact_next_to_the_middle_between_levels),
        cmocka_unit_test(the_largest_and_zero_stay_what_they_are),
        cmocka_unit_test(bf16_rounds_to_nearest_ties_to_even),
        cmocka_unit_test(doubles_become_bf16_at_once),
        cmocka_unit_test(bf16_keeps_eight_bits_of_every_magnitude),
        cmocka_unit_test(a_bucket_without_a_normal_scale_travels_as_it_is),
        cmocka_unit_test(zeros_take_a_byte_a_bucket),
        cmocka_unit_test(lengths_are_those_expected),
        cmocka_unit_test(malformed_values_are_refused),
        cmocka_unit_test(what_the_encoder_never_writes_is_refused),
    };
    return cmocka_run_group_tests_name("values", tests, NULL, NULL);
}
