/* The events of calls: spans lie properly inside each other on every lane, whatever the calls do,
 * and what is traced computes the same. */
#include <math.h>

#include "tests/unit/support/in_flight_job.h"
#include "tests/unit/support/strict_trace.h"

static struct strict sinks[MOST_RANKS];

static void sinks_set(struct beside_job *b)
{
    for (int r = 0; r < b->plan->size; r++) {
        strict_set(&sinks[r]);
        b->job.settings[r].trace = &sinks[r].sink;
    }
}

/* Every call has its end; nothing is left open. */
static void sinks_check(const struct beside_plan *plan)
{
    for (int r = 0; r < plan->size; r++) {
        assert_int_equal(sinks[r].calls, plan->calls);
        assert_int_equal(sinks[r].at_once, 0);
    }
}

static struct beside_plan plan_of(int size, uint64_t seed)
{
    return (struct beside_plan){.size = size,
                                .calls = 4 * LAYERS,
                                .seed = seed,
                                .inputs = 5,
                                .type = SS_F32,
                                .density = 0.03,
                                .in_flight = 1 + (unsigned)(seed % SS_IN_FLIGHT)};
}

/* Runs it without and with a trace: the same bits, the same times. */
static void compare(const struct beside_plan *plan, const struct ss_settings *settings)
{
    beside_open_job(&one, plan, *settings);
    beside_open_job(&many, plan, *settings);
    sinks_set(&many);
    beside_run(&one);
    beside_run(&many);
    beside_same(&one, &many);
    sinks_check(plan);
    for (int r = 0; r < plan->size; r++) {
        const struct ss_lane_record *a = one.job.stats[r].lanes;
        for (const struct ss_lane_record *b = many.job.stats[r].lanes; b; b = b->next) {
            assert_non_null(a);
            assert_memory_equal(&a->times, &b->times, sizeof a->times);
            a = a->next;
        }
    }
    beside_close_both();
}

static void exact_calls_nest_with_each_collective(void **state)
{
    static const enum ss_algorithm tried[] = {
        SS_AUTO, SS_RECURSIVE_DOUBLING, SS_SPLIT_ALLGATHER, SS_DSAR, SS_RING, SS_ALLGATHER};

    (void)state;
    for (size_t a = 0; a < sizeof tried / sizeof tried[0]; a++)
        for (int size = 2; size <= 5; size++) {
            struct ss_settings s = beside_fixed(tried[a]);
            struct beside_plan plan = plan_of(size, (uint64_t)size + 10 * a);
            compare(&plan, &s);
            assert_true(sinks[1].begun[SS_SPAN_SCAN] > 0 && sinks[1].begun[SS_SPAN_VOTE] > 0);
            assert_true(sinks[1].begun[SS_SPAN_ROUND] > 0 && sinks[1].begun[SS_SPAN_MERGE] > 0);
            assert_true(sinks[1].begun[SS_SPAN_WAIT] > 0 && sinks[1].begun[SS_SPAN_ENCODE] > 0);
        }
}

static void lossy_calls_nest_with_each_collective(void **state)
{
    static const enum ss_algorithm tried[] = {SS_AUTO, SS_DSAR, SS_OKTOPK, SS_GTOPK};
    (void)state;
    for (size_t a = 0; a < sizeof tried / sizeof tried[0]; a++)
        for (int size = 2; size <= 5; size++) {
            struct ss_settings s = beside_fixed(tried[a]);
            struct beside_plan plan = plan_of(size, (uint64_t)size + 10 * a);
            s = beside_lossy(s);
            s.guard = SS_GUARD_WARN;
            s.value_type = a == 1 ? SS_VALUES_Q8 : SS_VALUES_SAME;
            plan.density = 1;
            compare(&plan, &s);
            assert_true(sinks[1].begun[SS_SPAN_SELECT] > 0);
        }
}

/* The sum inside a host is a span of its own between two votes. */
static void calls_with_one_residual_per_host_nest(void **state)
{
    (void)state;
    for (int run = 0; run < 2; run++) {
        struct ss_settings s = beside_fixed(run == 0 ? SS_DSAR : SS_AUTO);
        struct beside_plan plan = plan_of(5, 3 + (uint64_t)run);
        s = beside_lossy(s);
        s.aggregation = SS_AGGREGATION_ON;
        plan.hosts = "11231";
        plan.density = 1;
        plan.not_finite = run == 0 ? 20 : 0;
        compare(&plan, &s);
        assert_true(sinks[1].begun[SS_SPAN_SELECT] > 0);
    }
}

static void measured_costs_are_calibrated_in_a_span(void **state)
{
    struct ss_settings s = beside_fixed(SS_AUTO);
    struct beside_plan plan = plan_of(3, 1);

    (void)state;
    s.alpha = s.beta = -1;
    compare(&plan, &s);
    assert_true(sinks[0].begun[SS_SPAN_CALIBRATE] > 0);
}

static void native_calls_and_those_beside_them_nest(void **state)
{
    struct ss_settings s = beside_fixed(SS_AUTO);
    struct beside_plan plan = plan_of(4, 7);

    (void)state;
    plan.off = 20;
    plan.callbacks = 30;
    plan.not_finite = 9;
    compare(&plan, &s);
    assert_true(sinks[2].begun[SS_SPAN_NATIVE] >= 14);
    assert_true(sinks[2].most_at_once > 1);
}

/* Messages that are refused, lost or damaged: no call ends without its spans. */
static void calls_that_fail_end_their_spans(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++)
        for (uint64_t when = 3; when < 120; when += 13) {
            struct ss_settings s = beside_fixed(when % 2 ? SS_RING : SS_SPLIT_ALLGATHER);
            struct beside_plan plan = plan_of(4, 3);
            if (when % 3 == 0) { /* with one residual per host */
                s = beside_lossy(s);
                s.aggregation = SS_AGGREGATION_ON;
                plan.hosts = "1122";
            }
            plan.fault = (struct ss_sim_fault){.rank = 1};
            *(what == 0   ? &plan.fault.fail_send
              : what == 1 ? &plan.fault.lose_send
                          : &plan.fault.corrupt_send) = when;
            s.timeout = 1;
            beside_open_job(&many, &plan, s);
            sinks_set(&many);
            beside_run(&many);
            sinks_check(&plan);
            beside_close_job(&many);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_calls_nest_with_each_collective),
        cmocka_unit_test(lossy_calls_nest_with_each_collective),
        cmocka_unit_test(calls_with_one_residual_per_host_nest),
        cmocka_unit_test(measured_costs_are_calibrated_in_a_span),
        cmocka_unit_test(native_calls_and_those_beside_them_nest),
        cmocka_unit_test(calls_that_fail_end_their_spans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
