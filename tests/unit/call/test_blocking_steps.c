/* What blocking calls of a step would take as nonblocking ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/call/blocking_steps.h"

#define NEAR 1e-9

static struct ss_blocking_steps steps;
static double now, entry; /* seconds; of an entry */

static int begin(void **state)
{
    (void)state;
    steps = (struct ss_blocking_steps){.count = 0};
    now = 100;
    entry = 0;
    return 0;
}

/* An exchange takes a second, and what its 10 entries do; the call took longer. */
static void call(uint64_t key, double gap, double took)
{
    const struct ss_merging_costs costs = {.exchange = 1, .entry = entry, .flight = 1};
    const struct ss_blocking_call c = {
        .key = key, .begun = now + gap, .over = now + gap + took, .elements = 100, .entries = 10};

    ss_blocking_note(&steps, &c, &costs);
    now = c.over;
}

static void two_calls_go_as_one_where_the_second_comes_during_the_first(void **state)
{
    (void)state;
    struct ss_blocking_record r;

    call(7, 50, 9); /* no part of the step */
    for (int i = 0; i < 4; i++) {
        call(1, 10, 2);
        call(2, 0.5, 3);
    }
    assert_true(ss_blocking_judge(&steps, &r));
    assert_int_equal(r.calls, 2);
    assert_float_equal(r.measured, 0.5 + 2 + 3, NEAR);
    assert_float_equal(r.now, 0.5 + 1 + 1, NEAR);
    assert_int_equal(r.groups, 1);
    assert_float_equal(r.then, 1.5, NEAR);
}

/* The step begins behind the longest pause, wherever the record does; communication of the first
 * is hidden. */
static void calls_far_apart_stay_alone(void **state)
{
    (void)state;
    struct ss_blocking_record r;

    entry = 0.0125;
    call(2, 4, 1);
    for (int i = 0; i < 600; i++) { /* more than are remembered */
        call(1, 10, 1);
        call(2, 4, 1);
    }
    assert_true(ss_blocking_judge(&steps, &r));
    assert_int_equal(r.groups, 2);
    assert_float_equal(r.now, 6.25, NEAR);
    assert_float_equal(r.then, 5.125, NEAR);
}

static void one_lane_is_no_step(void **state)
{
    (void)state;
    struct ss_blocking_record r;

    assert_false(ss_blocking_judge(&steps, &r));
    for (int i = 0; i < 100; i++)
        call(1, 1, 1);
    assert_false(ss_blocking_judge(&steps, &r));
    assert_int_equal(r.calls, 0);
}

static void what_has_not_come_three_times_is_no_step(void **state)
{
    (void)state;
    struct ss_blocking_record r;

    for (uint64_t i = 0; i < 20; i++)
        call(i % 10, 1, 1);
    assert_false(ss_blocking_judge(&steps, &r));
    for (uint64_t i = 20; i < 30; i++)
        call(i % 10, 1, 1);
    assert_true(ss_blocking_judge(&steps, &r));
    assert_int_equal(r.calls, 10);
    call(99, 1, 1); /* the steps are over */
    assert_false(ss_blocking_judge(&steps, &r));
}

/* Of more calls than a step may have nothing is said. */
static void long_steps_are_not_judged(void **state)
{
    (void)state;
    struct ss_blocking_record r;

    for (uint64_t i = 0; i < 5 * 257; i++)
        call(i % 257, 1, 1);
    assert_false(ss_blocking_judge(&steps, &r));
    for (uint64_t i = 0; i < 4 * 256; i++)
        call(i % 256, 1, 1);
    assert_true(ss_blocking_judge(&steps, &r));
    assert_int_equal(r.calls, 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(two_calls_go_as_one_where_the_second_comes_during_the_first, begin),
        cmocka_unit_test_setup(calls_far_apart_stay_alone, begin),
        cmocka_unit_test_setup(one_lane_is_no_step, begin),
        cmocka_unit_test_setup(what_has_not_come_three_times_is_no_step, begin),
        cmocka_unit_test_setup(long_steps_are_not_judged, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
