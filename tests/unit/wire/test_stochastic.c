/* The stochastic form of values in fewer bits: unbiased, uncorrelated, a function of seed and
 * position. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/value_trip.h"

static const enum ss_type types[] = {SS_F32, SS_F64};

enum { ELEMENTS = 4096, DRAWS = 2000 };

/* Steps between two levels of the bucket i lies in. */
static void steps(const struct trip *t, double *step)
{
    for (size_t first = 0; first < t->count; first += t->how.bucket) {
        double square = 0;
        size_t end = first + t->how.bucket < t->count ? first + t->how.bucket : t->count;
        for (size_t i = first; i < end; i++)
            square += get(t, t->was, i) * get(t, t->was, i);
        for (size_t i = first; i < end; i++)
            step[i] = sqrt(square) / levels_of(t->how.values);
    }
}

/* Hoeffding: the mean of n draws that lie within one step is off by more than t steps with
 * probability 2 exp(-2 n t^2) at most. */
static double off(double n, double probability)
{
    return sqrt(log(2 / probability) / (2 * n));
}

/* Error probability 1e-9 for each of the three checks of each value type, over the choice of the
 * seed: the mean of each element, the mean of all, and how often small values were rounded up. */
static void the_stochastic_form_is_unbiased(void **state)
{
    static struct trip t;
    static double sum[ELEMENTS], step[ELEMENTS];

    (void)state;
    for (int type = 0; type < 2; type++)
        for (int values = SS_VALUES_Q8; values < SS_VALUE_TYPES; values++) {
            t.type = types[type];
            t.how = (struct ss_rounding){
                .values = (enum ss_values)values, .bucket = 512, .stochastic = true};
            t.count = ELEMENTS;
            fill(&t, HEAVY);
            steps(&t, step);
            memset(sum, 0, sizeof sum);
            for (int draws = 0; draws < DRAWS; draws++) {
                t.how.seed = (uint64_t)draws + 1;
                encode(&t);
                for (size_t i = 0; i < ELEMENTS; i++) {
                    double moved = (get(&t, t.is, i) - get(&t, t.was, i)) / step[i];
                    assert_true(fabs(moved) <= 1 + 1e-5);
                    sum[i] += moved;
                }
            }
            double all = 0, expected = 0, small = 0;
            for (size_t i = 0; i < ELEMENTS; i++) {
                double x = get(&t, t.was, i) / step[i];
                if (fabs(sum[i] / DRAWS) > off(DRAWS, 1e-9 / ELEMENTS) + 1e-5)
                    fail_msg("element %zu, %g steps: off by %g steps", i, x, sum[i] / DRAWS);
                all += sum[i] / DRAWS / ELEMENTS;
                if (fabs(x) < 0.01) { /* a rare event each: in all Poisson, nearly */
                    expected += DRAWS * fabs(x);
                    small += (x < 0 ? -1 : 1) * sum[i] + DRAWS * fabs(x);
                }
            }
            assert_true(fabs(all) <= off((double)DRAWS * ELEMENTS, 1e-9) + 1e-5);
            /* Bernstein: 2 exp(-t^2 / (2 (expected + t / 3))) is 1e-9 below this t. */
            if (fabs(small - expected) > 14.3 + 6.55 * sqrt(expected))
                fail_msg("%g small values were rounded up, %g expected", small, expected);
        }
}

/* Sample correlation of the moves of two runs, the second shifted by `shift` elements. */
static double correlation(uint64_t seed_a, uint64_t seed_b, size_t shift)
{
    static struct trip a, b;
    static double step[ELEMENTS];
    double product = 0, square_a = 0, square_b = 0;

    a.type = b.type = SS_F32;
    a.count = b.count = ELEMENTS;
    a.how = b.how = (struct ss_rounding){.values = SS_VALUES_Q4, .bucket = 512, .stochastic = true};
    random_state = 99;
    fill(&a, UNIFORM);
    memcpy(b.was, a.was, sizeof a.was);
    steps(&a, step);
    for (uint64_t draws = 0; draws < 200; draws++) {
        a.how.seed = seed_a + draws * 1000;
        b.how.seed = seed_b + draws * 1000;
        encode(&a);
        encode(&b);
        for (size_t i = 0; i + shift < ELEMENTS; i++) {
            double x = (get(&a, a.is, i) - get(&a, a.was, i)) / step[i];
            double y = (get(&b, b.is, i + shift) - get(&b, b.was, i + shift)) / step[i + shift];
            product += x * y;
            square_a += x * x;
            square_b += y * y;
        }
    }
    return product / sqrt(square_a * square_b);
}

/* Of n independent pairs the correlation has a standard deviation of 1/sqrt(n), 0.0011 here: past
 * 6.1 of them with probability 1e-9. */
static void draws_are_uncorrelated(void **state)
{
    const double limit = 6.1 / sqrt(200.0 * ELEMENTS);

    (void)state;
    assert_true(correlation(1, 1, 0) > 0.999);
    for (size_t shift = 1; shift <= 64; shift *= 2) /* elements */
        assert_true(fabs(correlation(1, 1, shift)) < limit);
    for (uint64_t seed = 2; seed < 10; seed++) /* ranks and calls */
        for (size_t shift = 0; shift < 2; shift++)
            assert_true(fabs(correlation(1, seed, shift)) < limit);
    assert_true(fabs(correlation(0x9e3779b97f4a7c15ULL, 0, 1)) < limit);
}

static void a_draw_depends_on_seed_and_position_alone(void **state)
{
    static struct trip whole, part;

    (void)state;
    whole.type = part.type = SS_F64;
    whole.count = ELEMENTS;
    whole.how =
        (struct ss_rounding){.values = SS_VALUES_Q8, .bucket = 512, .stochastic = true, .seed = 5};
    fill(&whole, HEAVY);
    encode(&whole);
    memcpy(part.is, whole.was + 1024, 1024 * sizeof *part.is);
    ss_values_encode(SS_F64, &whole.how, 1024, part.is, 1024, NULL, part.coded);
    assert_memory_equal(part.is, whole.is + 1024, 1024 * sizeof *part.is);
    ss_values_encode(SS_F64, &whole.how, 1025, part.is, 1024, NULL, part.coded);
    assert_memory_not_equal(part.is, whole.is + 1024, 1024 * sizeof *part.is);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stochastic_form_is_unbiased),
        cmocka_unit_test(draws_are_uncorrelated),
        cmocka_unit_test(a_draw_depends_on_seed_and_position_alone),
    };
    return cmocka_run_group_tests_name("stochastic", tests, NULL, NULL);
}
