/* The sample of MODE=learn: sketches add up, energies are whole, zeros and what is not finite are
 * noticed. */
#include "core/learn/learn_record.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 40000 };

static float number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(*state >> 32) / 2147483648.0f;
}

static struct ss_learn_record sampled(enum ss_type type, const void *in, size_t n)
{
    struct ss_learn_record r = {.count = n};

    ss_learn_sample(&r, type, in, n);
    assert_int_equal(r.head.kind, SS_LEARN_SAMPLED);
    return r;
}

static void test_sketches_add_up(void **state)
{
    static float a[N], b[N], sum[N];
    uint64_t draw = 1;

    (void)state;
    for (int i = 0; i < N; i++) {
        a[i] = number(&draw);
        b[i] = 2 * number(&draw);
        sum[i] = a[i] + b[i];
    }
    struct ss_learn_record x = sampled(SS_F32, a, N), y = sampled(SS_F32, b, N),
                           s = sampled(SS_F32, sum, N);
    assert_int_equal(x.elements, SS_LEARN_LEAST);
    for (int i = 0; i < SS_LEARN_SKETCH; i++) {
        double parts = x.sketch[i] * sqrt(x.energy) + y.sketch[i] * sqrt(y.energy);
        assert_true(fabs(parts - s.sketch[i] * sqrt(s.energy)) < 2 * sqrt(s.energy));
    }
}

static void test_energies(void **state)
{
    static double in[N];
    double energy = 0, above = 0, blocks = 0, groups = 0;
    uint64_t draw = 2;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        in[i] = i % 10 == 0 ? 0 : (double)number(&draw);
        energy += in[i] * in[i];
        above += in[i] > 0 ? in[i] * in[i] : 0;
    }
    struct ss_learn_record r = sampled(SS_F64, in, 1000); /* all of it */
    assert_int_equal(r.elements, 1000);
    assert_int_equal(r.zeros, 100);
    assert_true(fabs(r.energy - energy) < 1e-9 && fabs(r.above - above) < 1e-9);
    for (int i = 0; i < SS_LEARN_BLOCKS; i++) {
        blocks += r.blocks[i];
        groups += r.groups[i];
    }
    assert_true(fabs(blocks - SS_LEARN_SHARE) < 64 && fabs(groups - SS_LEARN_SHARE) < 64);
}

static void test_not_finite(void **state)
{
    static float in[100];

    (void)state;
    assert_true(sampled(SS_F32, in, 100).energy == 0);
    in[7] = NAN;
    assert_int_equal(sampled(SS_F32, in, 100).flags, SS_LEARN_NOT_FINITE);
    in[7] = INFINITY;
    assert_int_equal(sampled(SS_F32, in, 100).flags, SS_LEARN_NOT_FINITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sketches_add_up),
        cmocka_unit_test(test_energies),
        cmocka_unit_test(test_not_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
