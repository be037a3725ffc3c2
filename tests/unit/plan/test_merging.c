/* Plans of merged calls against all groupings, and the experiment of tests/bench/groupings.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/types.h"
#include "tests/bench/groupings.h"

enum { SMALL = 13 };

static struct ss_merging_call calls[SS_MERGED];
static struct ss_merging_work work;
static struct ss_merging_plan plan;
static uint64_t seed;

static double uniform(void)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return ((double)(ss_mix(1, seed) >> 11) + 0.5) / 0x1p53;
}

static double spread(double least, double most)
{
    return least * pow(most / least, uniform());
}

/* Returns a step whose sizes are spread over six decades, some zero, and whose arrivals are equal
 * now and then: neither computation, latency, data nor selection dominates in all steps. */
static struct grouping_step step_of(uint32_t count, bool sorts, uint64_t number)
{
    seed = number * 77 + 1;
    double at = spread(1e-3, 1), gap = spread(1e-5, 1e-2);
    for (uint32_t i = 0; i < count; i++) {
        at += uniform() < 0.2 ? 0 : 2 * gap * uniform();
        uint64_t elements = uniform() < 0.05 ? 0 : (uint64_t)spread(10, 1e7);
        calls[i] = (struct ss_merging_call){elements, (elements + 999) / 1000, at};
    }
    return (struct grouping_step){.calls = calls,
                                  .count = count,
                                  .costs = {.element = spread(1e-10, 1e-8),
                                            .group = number % 2 ? spread(1e-5, 1e-2) : 0,
                                            .exchange = spread(1e-5, 3e-2),
                                            .entry = spread(1e-9, 1e-5),
                                            .sort = sorts ? spread(1e-11, 1e-9) : 0}};
}

static void make(const struct grouping_step *step)
{
    const struct ss_merging_costs costs = {.element = step->costs.element,
                                           .group = step->costs.group,
                                           .exchange = step->costs.exchange,
                                           .entry = step->costs.entry};

    ss_merging_make(step->calls, step->count, &costs, &work, &plan);
}

/* Returns the plan as a grouping, with the times that the equations give it. */
static struct grouping planned(const struct grouping_step *step)
{
    struct grouping g = {.groups = plan.groups};

    memcpy(g.ends, plan.ends, plan.groups * sizeof *plan.ends);
    grouping_evaluate(step, &g);
    return g;
}

static void assert_about(double a, double b)
{
    if (fabs(a - b) > 1e-9 * (fabs(a) + fabs(b)))
        fail_msg("%.12g, expected %.12g", a, b);
}

static void no_grouping_ends_before_the_plan(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 3000; number++) {
        const uint32_t count = 1 + (uint32_t)(number % (number % 50 ? 9 : SMALL));
        const struct grouping_step step = step_of(count, false, number);
        struct grouping best, g;

        make(&step);
        grouping_exhaustive(&step, &best);
        g = planned(&step);
        assert_about(plan.seconds, best.seconds);
        assert_about(g.seconds, best.seconds);
    }
}

/* Where there are too many groupings to try all: the experiment's search, which is exact there. */
static void long_steps_are_planned_as_well(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 40; number += 2) {
        const struct grouping_step step = step_of(SS_MERGED - (uint32_t)number, false, number);
        struct grouping best;

        make(&step);
        assert_true(grouping_optimum(&step, &best));
        assert_about(plan.seconds, best.seconds);
        assert_int_equal(plan.ends[plan.groups - 1], step.count);
    }
}

/* Three calls that arrive at 1, 2 and 3 s: one second to select each, two of latency, one of data.
 * Alone they are ready at 2, 4 and 6 and exchanged from 2 to 5, 5 to 8 and 8 to 11 (eq. 8). */
static void times_are_those_of_the_equations(void **state)
{
    const struct ss_merging_call three[] = {{1, 1, 1}, {1, 1, 2}, {1, 1, 3}};
    struct grouping_step step = {
        .calls = three, .count = 3, .costs = {.element = 1, .exchange = 2, .entry = 1}};
    struct grouping g;

    (void)state;
    grouping_by_threshold(&step, 0, &g);
    assert_int_equal(g.groups, 3);
    assert_about(g.seconds, 11);
    assert_about(g.exposed, 5);
    grouping_by_threshold(&step, 2, &g);
    assert_int_equal(g.groups, 2);
    assert_about(g.seconds, 11);
    make(&step);
    assert_int_equal(plan.groups, 2);
    assert_int_equal(plan.ends[0], 1);
    assert_about(plan.seconds, 10);
    step.costs.exchange = step.costs.entry = 0; /* all groupings end at 6 */
    make(&step);
    assert_int_equal(plan.groups, 1);
}

static void equal_input_gives_equal_plans(void **state)
{
    struct ss_merging_plan before;

    (void)state;
    for (uint64_t number = 0; number < 20; number++) {
        const struct grouping_step step = step_of(60, false, number);
        make(&step);
        before = plan;
        memset(&work, 0xab, sizeof work);
        make(&step);
        assert_int_equal(plan.groups, before.groups);
        assert_memory_equal(plan.ends, before.ends, plan.groups * sizeof *plan.ends);
    }
}

/* With the paper's n log n. */
static void the_experiments_optimum_is_one_and_algorithm_1_is_not(void **state)
{
    unsigned missed = 0;

    (void)state;
    for (uint64_t number = 0; number < 600; number++) {
        const struct grouping_step step = step_of(2 + (uint32_t)(number % 8), true, number);
        struct grouping best, found, printed;

        grouping_exhaustive(&step, &best);
        assert_true(grouping_optimum(&step, &found));
        grouping_algorithm1(&step, &printed);
        assert_about(found.seconds, best.seconds);
        missed += printed.seconds > best.seconds * (1 + 1e-9);
    }
    assert_true(missed > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_grouping_ends_before_the_plan),
        cmocka_unit_test(long_steps_are_planned_as_well),
        cmocka_unit_test(times_are_those_of_the_equations),
        cmocka_unit_test(equal_input_gives_equal_plans),
        cmocka_unit_test(the_experiments_optimum_is_one_and_algorithm_1_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
