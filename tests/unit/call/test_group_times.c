/* What a planned step takes, as it is measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/call/group_times.h"

#define NEAR 1e-9

/* A step of two calls that begins at `at`: 0.3 s between them, of which 0.1 are selection; the
 * second is cast while the first is under way, and waited for over 0.2 s. */
static void two_calls(struct ss_group_times *t, struct ss_stats *stats, double at)
{
    ss_group_times_cast(t, at + 0.1);
    ss_group_times_next(t, stats, at + 0.3, 0.2, 0.1, false);
    ss_group_times_cast(t, at + 0.4);
    ss_group_times_over(t, at + 0.5);
    atomic_fetch_add(&stats->waited_ns, 200000000);
    ss_group_times_over(t, at + 0.6);
}

static void calls_that_overlap_count_once_and_waits_are_not_hidden(void **state)
{
    (void)state;
    struct ss_group_times t = {.begun = 0};
    struct ss_stats stats = {.lock = PTHREAD_MUTEX_INITIALIZER, .waited_ns = 12345};
    const struct ss_measured_step *m = &stats.merged.measured;

    ss_group_times_start(&t, &stats, 5);
    two_calls(&t, &stats, 5);
    assert_int_equal(m->steps, 0); /* it may go on */
    ss_group_times_next(&t, &stats, 6, 0.4, 0.05, true);
    two_calls(&t, &stats, 6);
    ss_group_times_next(&t, &stats, 8, 1.4, 0.05, true);
    assert_int_equal(m->steps, 2);
    assert_float_equal(m->period, 1.5, NEAR);
    assert_float_equal(m->step, 0.6, NEAR);
    assert_float_equal(m->backward, 0.2, NEAR);
    assert_float_equal(m->selection, 0.15, NEAR);
    assert_float_equal(m->hidden, 0.3, NEAR); /* 0.1 to 0.6, less the wait */
    assert_float_equal(m->exposed, 0.2, NEAR);
}

/* A call of the step before is still under way when the next begins, and ends when no plan holds.
 */
static void calls_may_outlast_their_step_and_their_plan(void **state)
{
    (void)state;
    struct ss_group_times t = {.begun = 0};
    struct ss_stats stats = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const struct ss_measured_step *m = &stats.merged.measured;

    ss_group_times_cast(&t, 1);
    ss_group_times_next(&t, &stats, 1.5, 0.5, 0, true); /* no plan holds */
    assert_int_equal(m->steps, 0);
    ss_group_times_start(&t, &stats, 2);
    ss_group_times_next(&t, &stats, 3, 1, 0, true);
    assert_int_equal(m->steps, 1);
    assert_float_equal(m->hidden, 1, NEAR);
    assert_float_equal(m->step, 0, NEAR); /* none of its calls has ended */
    ss_group_times_over(&t, 3.5);
    ss_group_times_stop(&t);
    ss_group_times_next(&t, &stats, 9, 6, 0, true);
    assert_int_equal(m->steps, 1);
    ss_group_times_start(&t, &stats, 10);
    ss_group_times_next(&t, &stats, 11, 1, 0, true);
    assert_int_equal(m->steps, 1); /* of the new plan */
    assert_float_equal(m->hidden, 0, NEAR);
}

/* Waits for other calls are more than what these have under way. */
static void what_is_hidden_is_never_negative(void **state)
{
    (void)state;
    struct ss_group_times t = {.begun = 0};
    struct ss_stats stats = {.lock = PTHREAD_MUTEX_INITIALIZER};

    ss_group_times_start(&t, &stats, 1);
    atomic_fetch_add(&stats.waited_ns, 3000000000);
    ss_group_times_next(&t, &stats, 5, 1, 0, true);
    assert_float_equal(stats.merged.measured.exposed, 3, NEAR);
    assert_float_equal(stats.merged.measured.hidden, 0, NEAR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_overlap_count_once_and_waits_are_not_hidden),
        cmocka_unit_test(calls_may_outlast_their_step_and_their_plan),
        cmocka_unit_test(what_is_hidden_is_never_negative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
