/* Calls that vote and are exchanged together (MERGE) give the bits that they give alone, whatever
 * the ranks post when. */
#include <math.h>

#include "tests/unit/support/beside_job.h"

static struct beside_job alone, together;

static struct ss_settings fixed(enum ss_algorithm algorithm)
{
    return (struct ss_settings){.algorithm = algorithm,
                                .alpha = 1e-5,
                                .beta = 1e-8,
                                .hash = 1,
                                .topk = true,
                                .density = 0.02,
                                .quant_bucket = 64,
                                .repartition_period = 16,
                                .tensors = {.register_after = 0, .threshold_period = 8}};
}

static struct beside_plan plan_of(int size, int steps, uint64_t seed, uint64_t merge)
{
    return (struct beside_plan){.size = size,
                                .calls = steps * LAYERS,
                                .seed = seed,
                                .inputs = 5,
                                .type = SS_F32,
                                .density = 1,
                                .in_flight = SS_BESIDE,
                                .merge = merge};
}

struct seen {
    double votes, calls, exchanges, merged;
};

static struct seen seen_of(struct beside_job *b)
{
    struct ss_merging_seen s = ss_comm_merging_seen(b->job.comm[0]);

    for (int r = 1; r < b->plan->size; r++) {
        struct ss_merging_seen o = ss_comm_merging_seen(b->job.comm[r]);
        assert_int_equal(s.votes, o.votes);
        assert_int_equal(s.calls, o.calls);
        assert_int_equal(s.exchanges, o.exchanges);
        assert_int_equal(s.merged, o.merged);
    }
    return (struct seen){(double)s.votes, (double)s.calls, (double)s.exchanges, (double)s.merged};
}

static void parse(struct ss_rules **rules)
{
    char error[200];

    assert_int_equal(ss_rules_parse("count=1:", true, rules, error, sizeof error), SS_OK);
}

/* Runs the plan with MERGE, and without, one after the other: all bits are the same. */
static struct seen compare(struct beside_plan plan, struct ss_settings settings)
{
    struct beside_plan serial = plan;
    struct ss_rules *rules;

    serial.in_flight = 1;
    serial.seed = plan.seed + 17;
    serial.merge = 0;
    parse(&rules);
    settings.tensors.include = rules;
    beside_open_job(&alone, &serial, settings);
    beside_open_job(&together, &plan, settings);
    beside_run(&alone);
    beside_run(&together);
    beside_agrees(&alone);
    beside_agrees(&together);
    beside_same(&alone, &together);
    struct seen seen = seen_of(&together);
    beside_close_job(&alone);
    beside_close_job(&together);
    ss_rules_free(rules);
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
                compare(plan_of(size, 6, (uint64_t)size, limit), fixed(elementwise[a]));
            assert_true(seen.calls == 6 * LAYERS);
            assert_true(seen.merged > 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_calls_have_the_bits_of_single_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
