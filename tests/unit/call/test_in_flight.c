/* Nonblocking calls of one communicator under way beside each other give what they give one after
 * another, whatever the ranks do meanwhile. */
#include <math.h>

#include "tests/unit/support/in_flight_job.h"

static struct ss_settings measured(void)
{
    struct ss_settings s = beside_fixed(SS_AUTO);

    s.alpha = s.beta = -1;
    return s;
}

static struct beside_plan plan_of(int size, int steps, uint64_t seed)
{
    return (struct beside_plan){.size = size,
                                .calls = steps * LAYERS,
                                .seed = seed,
                                .inputs = 5,
                                .type = SS_F32,
                                .density = 0.03,
                                .in_flight = SS_IN_FLIGHT};
}

/* Runs the plan with calls beside each other, and one after the other: all bits are the same. */
static void compare(struct beside_plan plan, struct ss_settings settings)
{
    int most = 0;

    beside_run_both(&plan, plan.seed + 17, settings);
    for (int r = 0; r < plan.size; r++) {
        assert_int_equal(one.most[r], 1);
        most = many.most[r] > most ? many.most[r] : most;
    }
    assert_true(most >= 3);
    beside_close_both();
}

static void compare_topk(struct ss_settings settings, struct beside_plan plan)
{
    plan.density = 1;
    compare(plan, beside_lossy(settings));
}

static void exact_calls_have_the_bits_of_one_after_another(void **state)
{
    static const enum ss_algorithm tried[] = {
        SS_AUTO, SS_RECURSIVE_DOUBLING, SS_SPLIT_ALLGATHER, SS_DSAR, SS_RING, SS_ALLGATHER};

    (void)state;
    for (size_t a = 0; a < sizeof tried / sizeof tried[0]; a++)
        for (int size = 2; size <= MOST_RANKS; size += a == 0 ? 1 : 3) {
            struct ss_settings s = beside_fixed(tried[a]);
            compare(plan_of(size, 4, 100 + (uint64_t)size), s);
        }
}

/* Densities at which some lanes back off. */
static void lanes_that_back_off_do_so_in_the_same_calls(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (int size = 2; size <= 5; size++) {
            struct ss_settings s = beside_fixed(SS_AUTO);
            struct beside_plan plan = plan_of(size, 12, seed);
            plan.density = 0.25 + 0.2 * (double)seed;
            compare(plan, s);
        }
}

static void lossy_calls_have_the_bits_of_one_after_another(void **state)
{
    static const enum ss_algorithm tried[] = {SS_AUTO, SS_SPLIT_ALLGATHER, SS_OKTOPK, SS_GTOPK};

    (void)state;
    for (size_t a = 0; a < sizeof tried / sizeof tried[0]; a++)
        for (int size = 2; size <= MOST_RANKS; size += a == 0 ? 1 : 3) {
            struct ss_settings s = beside_fixed(tried[a]);
            compare_topk(s, plan_of(size, 6, 200 + (uint64_t)size));
            s.tensors.identity.steps = 3; /* once the step is known */
            if (size == 5)
                compare_topk(s, plan_of(size, 24, 300));
        }
}

static void rounded_values_and_guards_do_too(void **state)
{
    struct ss_settings s = beside_fixed(SS_DSAR);

    (void)state;
    s.guard = SS_GUARD_EXACT;
    for (int feedback = 0; feedback < 2; feedback++) {
        s.value_type = feedback ? SS_VALUES_Q8 : SS_QSGD4;
        compare_topk(s, plan_of(3, 20, 7 + (uint64_t)feedback));
    }
}

static int served_on_two_levels(const struct beside_plan *plan)
{
    int served = 0;

    for (int c = 0; c < plan->calls; c++)
        served += many.ran[0][c] == SS_TWO_LEVEL && many.status[0][c] == SS_OK;
    return served;
}

/* The sums inside hosts come between two votes of a call. */
static void calls_with_one_residual_per_host_do_too(void **state)
{
    static const enum ss_algorithm tried[] = {SS_AUTO, SS_SPLIT_ALLGATHER, SS_DSAR};
    static const char *const layouts[] = {"112", "1212", "11123", "112233111"};

    (void)state;
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
        struct ss_settings s = beside_fixed(tried[l % 3]);
        struct beside_plan plan = plan_of((int)strlen(layouts[l]), 6, 400 + l);

        plan.hosts = layouts[l];
        s.aggregation = SS_AGGREGATION_ON;
        s.beta = 1e-6; /* sparse is faster */
        s.value_type = l == 1 ? SS_VALUES_Q8 : SS_VALUES_SAME;
        s.guard = l == 3 ? SS_GUARD_EXACT : SS_GUARD_OFF;
        plan.not_finite = 3 * LAYERS + 4;
        plan.callbacks = l == 1 ? 5 * LAYERS : 0;
        plan.off = l == 2 ? 5 * LAYERS : 0;
        compare_topk(s, plan);
        assert_true(served_on_two_levels(&plan) > plan.calls / 2);
    }
}

/* Nothing but the order of votes is fixed: what is measured differs between the ranks. */
static void measured_choices_are_the_same_on_all_ranks(void **state)
{
    static const enum ss_type types[] = {SS_F32, SS_F64, SS_I32};
    int most = 0;

    (void)state;
    for (uint64_t seed = 0; seed <= 4; seed++)
        for (int size = 2; size <= MOST_RANKS; size++) {
            struct beside_plan plan = plan_of(size, 12, seed);
            plan.small_integers = true;
            plan.type = types[seed % 3];
            plan.density = seed % 2 ? 0.02 : 0.4;
            beside_run_many(&plan, measured());
            beside_is_right(&many);
            most = many.most[0] > most ? many.most[0] : most;
            beside_close_job(&many);
        }
    assert_true(most >= 3);
}

static void a_call_that_is_not_finite_leaves_the_others_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (int size = 2; size <= 5; size++) {
            struct ss_settings s = beside_fixed(SS_AUTO);
            struct beside_plan plan = plan_of(size, 5, seed);
            plan.not_finite = 2 * LAYERS + 4;
            compare(plan, s);
            compare_topk(s, plan);
        }
}

static void a_rank_that_is_off_sends_the_same_calls_native(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++)
        for (int callbacks = 0; callbacks < 2; callbacks++) {
            struct ss_settings s = beside_fixed(SS_AUTO);
            struct beside_plan plan = plan_of(size, 5, 9);
            *(callbacks ? &plan.callbacks : &plan.off) = 2 * LAYERS + 4;
            compare(plan, s);
        }
}

/* From none to plenty: right, never past the limit, and in the end beside each other. */
static void where_memory_is_short_calls_follow_each_other(void **state)
{
    int most = 0;

    (void)state;
    for (size_t limit = 1 << 14; limit < (size_t)1 << 26; limit += limit / 2) {
        struct beside_plan plan = plan_of(3, 4, 3);
        plan.limit = limit;
        plan.small_integers = true;
        beside_run_many(&plan, beside_fixed(SS_AUTO));
        beside_is_right(&many);
        most = many.most[0];
        beside_close_job(&many);
    }
    assert_true(most >= 3);
}

/* Some ranks hold more slices than others, so that memory is short on some of them alone. */
static void where_memory_is_short_ranks_agree_with_one_residual_per_host(void **state)
{
    int served = 0;

    (void)state;
    for (size_t limit = 1 << 17; limit < (size_t)1 << 24; limit += limit / 2) {
        struct beside_plan plan = plan_of(5, 4, 3);
        struct ss_settings s = beside_fixed(SS_DSAR);
        s.aggregation = SS_AGGREGATION_ON;
        s.value_type = SS_VALUES_Q8;
        plan.limit = limit;
        plan.density = 1;
        plan.hosts = "11231";
        beside_run_many(&plan, beside_lossy(s));
        for (int r = 0; r < plan.size; r++)
            for (int c = 0; c < plan.calls; c++) {
                assert_int_equal(many.status[r][c], many.status[0][c]);
                assert_true(many.status[r][c] == SS_OK || many.status[r][c] == SS_NATIVE);
            }
        served = served_on_two_levels(&plan);
        beside_close_job(&many);
    }
    assert_true(served > 20);
}

/* By the simulator's clock, on links that are mostly idle. */
static void votes_and_latencies_of_calls_beside_each_other_overlap(void **state)
{
    (void)state;
    for (int size = 2; size <= MOST_RANKS; size++) {
        struct beside_plan plan = plan_of(size, 4, 0);
        beside_run_both(&plan, 0, beside_fixed(SS_AUTO));
        assert_true(ss_sim_clock(many.job.sim, 0) < 0.6 * ss_sim_clock(one.job.sim, 0));
        beside_close_both();
    }
}

static void try_fault(int size, uint64_t seed, struct ss_sim_fault fault)
{
    struct beside_plan plan = plan_of(size, 8, seed);
    struct ss_settings s = beside_fixed(seed % 2 ? SS_SPLIT_ALLGATHER : SS_AUTO);

    plan.small_integers = true;
    plan.fault = fault;
    s.timeout = 0.5;
    beside_run_many(&plan, s);
    beside_ends(&many, SS_IN_FLIGHT);
    for (int r = 0; r < size; r++)
        for (int c = 0; c < plan.calls; c++)
            if (many.status[r][c] == SS_OK)
                beside_is_sum(&many, r, c);
    beside_close_job(&many);
}

static void a_fault_in_one_call_ends_all_with_errors_and_none_wrongly(void **state)
{
    (void)state;
    beside_faults(try_fault, 30, 300, 37);
}

/* Lossy calls on two levels. */
static void try_fault_by_host(int size, uint64_t seed, struct ss_sim_fault fault)
{
    struct beside_plan plan = plan_of(size, 6, seed);
    struct ss_settings s = beside_fixed(seed % 2 ? SS_SPLIT_ALLGATHER : SS_DSAR);

    s.aggregation = SS_AGGREGATION_ON;
    s.timeout = 0.5;
    plan.density = 1;
    plan.hosts = "11231";
    plan.fault = fault;
    beside_run_many(&plan, beside_lossy(s));
    beside_ends(&many, SS_IN_FLIGHT);
    beside_close_job(&many);
}

static void a_fault_in_one_call_ends_all_with_one_residual_per_host(void **state)
{
    (void)state;
    beside_faults(try_fault_by_host, 30, 500, 101);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_calls_have_the_bits_of_one_after_another),
        cmocka_unit_test(lanes_that_back_off_do_so_in_the_same_calls),
        cmocka_unit_test(lossy_calls_have_the_bits_of_one_after_another),
        cmocka_unit_test(rounded_values_and_guards_do_too),
        cmocka_unit_test(calls_with_one_residual_per_host_do_too),
        cmocka_unit_test(measured_choices_are_the_same_on_all_ranks),
        cmocka_unit_test(a_call_that_is_not_finite_leaves_the_others_alone),
        cmocka_unit_test(a_rank_that_is_off_sends_the_same_calls_native),
        cmocka_unit_test(where_memory_is_short_calls_follow_each_other),
        cmocka_unit_test(where_memory_is_short_ranks_agree_with_one_residual_per_host),
        cmocka_unit_test(votes_and_latencies_of_calls_beside_each_other_overlap),
        cmocka_unit_test(a_fault_in_one_call_ends_all_with_errors_and_none_wrongly),
        cmocka_unit_test(a_fault_in_one_call_ends_all_with_one_residual_per_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
