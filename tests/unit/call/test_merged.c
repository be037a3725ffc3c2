/* Calls that vote and are exchanged together (MERGE) give the bits that they give alone, whatever
 * the ranks post when. */
#include <math.h>

#include "tests/unit/support/in_flight_job.h"

static struct beside_plan plan_of(int size, int steps, uint64_t seed, uint64_t merge)
{
    return (struct beside_plan){.size = size,
                                .calls = steps * LAYERS,
                                .seed = seed,
                                .inputs = 5,
                                .type = SS_F32,
                                .density = 1,
                                .in_flight = SS_IN_FLIGHT,
                                .merge = merge};
}

struct seen {
    double votes, calls, exchanges, merged;
    unsigned groups; /* planned */
};

static unsigned planned_groups(struct beside_job *b)
{
    struct ss_merged_record first = b->job.stats[0].merged;

    for (int r = 1; r < b->plan->size; r++) {
        struct ss_merged_record o = b->job.stats[r].merged;
        assert_int_equal(o.groups, first.groups);
        assert_true(o.predicted == first.predicted && o.together == first.together);
    }
    assert_int_equal(first.planned, first.groups > 0 ? LAYERS : 0);
    return (unsigned)first.groups;
}

static struct seen seen_of(struct beside_job *b)
{
    struct ss_merged_record s = b->job.stats[0].merged;

    for (int r = 1; r < b->plan->size; r++) {
        struct ss_merged_record o = b->job.stats[r].merged;
        assert_int_equal(s.votes, o.votes);
        assert_int_equal(s.calls, o.calls);
        assert_int_equal(s.exchanges, o.exchanges);
        assert_int_equal(s.merged, o.merged);
    }
    return (struct seen){(double)s.votes, (double)s.calls, (double)s.exchanges, (double)s.merged,
                         planned_groups(b)};
}

/* Runs the plan with MERGE, and without, one after the other: all bits are the same. */
static struct seen compare(struct beside_plan plan, struct ss_settings settings)
{
    beside_run_both(&plan, plan.seed + 17, beside_lossy(settings));
    struct seen seen = seen_of(&many);
    beside_close_both();
    return seen;
}

static const enum ss_algorithm elementwise[] = {SS_RECURSIVE_DOUBLING, SS_SPLIT_ALLGATHER, SS_DSAR,
                                                SS_ALLGATHER};

static void merged_calls_have_the_bits_of_single_ones(void **state)
{
    (void)state;
    for (size_t a = 0; a < sizeof elementwise / sizeof elementwise[0]; a++)
        for (int size = 2; size <= MOST_RANKS; size++) {
            uint64_t limit = 1000ULL << (a + (size_t)size) % 6;
            struct seen seen =
                compare(plan_of(size, 6, (uint64_t)size, limit), beside_fixed(elementwise[a]));
            assert_true(seen.calls == 6 * LAYERS);
            assert_true(seen.merged > 0);
        }
}

/* Global selection, and sums whose order depends on n, are of one call; the votes are not. */
static void other_collectives_share_the_vote_alone(void **state)
{
    static const enum ss_algorithm others[] = {SS_RING, SS_OKTOPK, SS_GTOPK};

    (void)state;
    for (size_t a = 0; a < sizeof others / sizeof others[0]; a++)
        for (int size = 2; size <= MOST_RANKS; size += 3) {
            struct seen seen = compare(plan_of(size, 6, 30 + a, 20000), beside_fixed(others[a]));
            assert_true(seen.calls > seen.votes);
            assert_true(seen.merged == 0);
        }
}

/* Sums of the layer of 5 elements are marks: by calls= alone all calls are lossy from the first. */
static void rounded_values_and_guards_share_the_vote_alone(void **state)
{
    struct ss_settings s = beside_fixed(SS_DSAR);

    (void)state;
    s.tensors.identity.by_rule = true;
    s.value_type = SS_VALUES_Q8;
    s.guard = SS_GUARD_EXACT;
    struct seen seen = compare(plan_of(3, 20, 7, 20000), s);
    assert_true(seen.merged == 0);
    s.value_type = SS_VALUES_SAME;
    seen = compare(plan_of(3, 20, 8, 20000), s);
    assert_true(seen.merged > 0);
    s.value_type = SS_VALUES_Q4; /* whole calls */
    s.density = 1;
    s.algorithm = SS_QUANTIZED;
    s.guard = SS_GUARD_OFF;
    seen = compare(plan_of(4, 20, 9, 20000), s);
    assert_true(seen.merged == 0);
}

/* A rank whose program waits for some call or other cuts groups short on all. */
static void groups_that_are_cut_short_have_the_same_bits(void **state)
{
    double calls = 0, votes = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++)
        for (int size = 2; size <= MOST_RANKS; size += 2) {
            struct beside_plan plan = plan_of(size, 5, seed, 4000ULL << seed % 5);
            plan.hurries = 2 + (int)(seed % 7) * 8;
            plan.type = seed % 3 ? SS_F32 : SS_F64;
            plan.in_flight = 1 + (unsigned)seed % SS_IN_FLIGHT;
            struct seen seen = compare(plan, beside_fixed(elementwise[seed % 4]));
            calls += seen.calls;
            votes += seen.votes;
        }
    assert_true(votes < calls);
}

/* Nothing but what ranks have measured differs; most lanes end dense or settled. */
static void planned_calls_agree_on_all_ranks(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed <= 4; seed++)
        for (int size = 2; size <= 5; size++) {
            struct beside_plan plan = plan_of(size, 30, seed, 16000);
            struct ss_settings s = beside_fixed(SS_AUTO);
            if (seed % 2)
                s.alpha = s.beta = -1;
            beside_run_many(&plan, beside_lossy(s));
            beside_agrees(&many);
            seen_of(&many);
            beside_close_job(&many);
        }
}

/* A period of the calls is found, its pauses are agreed on, and groups are planned. */
static void steps_are_planned_alike_on_all_ranks(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++)
        for (uint64_t seed = 0; seed <= 2; seed++) {
            struct beside_plan plan = plan_of(size, 65, seed, SS_MERGE_AUTO);
            plan.hurries = seed == 2 ? 40 : 0;
            struct seen seen =
                compare(plan, beside_fixed(elementwise[((uint64_t)size + seed) % 4]));
            assert_true(seen.groups > 0);
            assert_true(seen.votes < seen.calls);
        }
}

/* A layer is left out, in the middle of all that: what was planned is dropped, and planned anew. */
static void a_step_that_is_unlike_the_others_ends_the_plan(void **state)
{
    (void)state;
    for (int at = 100; at < 500; at += 81) {
        struct beside_plan plan = plan_of(2 + at % 3, 69, (uint64_t)at, SS_MERGE_AUTO);
        beside_odd = at;
        struct seen seen = compare(plan, beside_fixed(elementwise[at % 4]));
        assert_true(at > 180 || seen.groups > 0); /* later there is no time for another */
    }
    beside_odd = 0;
}

static void a_call_that_is_not_finite_leaves_the_others_of_its_group(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (int size = 2; size <= 5; size++) {
            struct beside_plan plan = plan_of(size, 5, seed, 1 << 20);
            plan.not_finite = 2 * LAYERS + 4;
            struct seen seen = compare(plan, beside_fixed(SS_ALLGATHER));
            assert_true(seen.merged > 0);
        }
}

static void a_rank_that_is_off_sends_the_same_calls_native(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        struct beside_plan plan = plan_of(size, 5, 9, 1 << 20);
        plan.off = 2 * LAYERS + 4;
        compare(plan, beside_fixed(SS_ALLGATHER));
    }
}

/* From too little for a single call to plenty: the same calls are sparse or not on all ranks, and
 * in the end merged. */
static void where_memory_is_short_calls_go_alone(void **state)
{
    struct seen seen = {0};
    (void)state;
    for (size_t limit = 1 << 22; limit < (size_t)1 << 26; limit += limit / 4) {
        struct beside_plan plan = plan_of(3, 4, 3, 1 << 20);
        plan.limit = limit;
        beside_run_many(&plan, beside_lossy(beside_fixed(SS_RECURSIVE_DOUBLING)));
        beside_agrees(&many);
        seen = seen_of(&many);
        beside_close_job(&many);
    }
    assert_true(seen.merged > 0);
}

static void try_fault(int size, uint64_t seed, struct ss_sim_fault fault)
{
    struct beside_plan plan = plan_of(size, 8, seed, 4000ULL << seed % 6);
    struct ss_settings s = beside_fixed(elementwise[seed % 4]);

    plan.fault = fault;
    s.timeout = 0.5;
    beside_run_many(&plan, beside_lossy(s));
    beside_ends(&many, SS_MERGED);
    beside_close_job(&many);
}

static void a_fault_ends_all_calls_of_a_group_and_none_wrongly(void **state)
{
    (void)state;
    beside_faults(try_fault, 3, 120, 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_calls_have_the_bits_of_single_ones),
        cmocka_unit_test(other_collectives_share_the_vote_alone),
        cmocka_unit_test(rounded_values_and_guards_share_the_vote_alone),
        cmocka_unit_test(groups_that_are_cut_short_have_the_same_bits),
        cmocka_unit_test(planned_calls_agree_on_all_ranks),
        cmocka_unit_test(steps_are_planned_alike_on_all_ranks),
        cmocka_unit_test(a_step_that_is_unlike_the_others_ends_the_plan),
        cmocka_unit_test(a_call_that_is_not_finite_leaves_the_others_of_its_group),
        cmocka_unit_test(a_rank_that_is_off_sends_the_same_calls_native),
        cmocka_unit_test(where_memory_is_short_calls_go_alone),
        cmocka_unit_test(a_fault_ends_all_calls_of_a_group_and_none_wrongly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
