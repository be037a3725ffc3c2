/* The tensor of a call: by calls=N, or by the receive buffer. No two layers share one. */
#include "tests/unit/support/identity_job.h"

static unsigned random_below(uint64_t *x, unsigned n)
{
    *x = *x * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(*x >> 33) % n;
}

/* ---- without calls=N: own buffers ---- */

static void own_buffers_are_lossy_from_the_third_step_on(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    steps(&job, 20, true);
    assert_int_equal(job.first, 2 * LAYERS + 1);
    assert_int_equal(job.lossy_calls, 18 * LAYERS);
    assert_int_equal(job.ordinals, LAYERS);
    assert_int_equal(job.shared, 0);
    close_job(&job);
}

static void own_buffers_may_come_in_any_order(void **state)
{
    struct job job = open_job(0, false), lanes = open_job(0, false);

    (void)state;
    for (unsigned i = 0; i < 40; i++)
        for (unsigned j = 0; j < LAYERS; j++) {
            unsigned k = i % 3 ? LAYERS - 1 - j : j;
            layer(&job, k, 100 + k);
            call(&lanes, &(struct made){.lane = (i % 3) ^ j, .address = 100 + ((i % 3) ^ j)});
            assert_int_equal(lanes.lossy, i >= 2);
        }
    assert_int_equal(job.shared, 0);
    assert_int_equal(job.ordinals, LAYERS);
    assert_true(job.lossy_calls >= 20 * LAYERS);
    close_job(&job);
    close_job(&lanes);
}

/* Frozen layers, an evaluation in a buffer of its own, missing and additional calls. */
static void own_buffers_keep_their_layers_in_steps_of_any_length(void **state)
{
    struct job job = open_job(0, false);
    uint64_t x = 1;

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        step(&job, i / 50 % 2 ? 3 : 0, i / 30 % 2 ? LAYERS - 1 : LAYERS, true);
        if (i % 7 == 0)
            call(&job, &(struct made){.address = 999 + i});
        if (i % 11 == 0) {
            unsigned k = random_below(&x, LAYERS);
            layer(&job, k, 100 + k);
        }
    }
    assert_int_equal(job.shared, 0);
    assert_int_equal(job.ordinals, LAYERS);
    assert_true(job.lossy_calls >= 9 * job.calls / 10);
    close_job(&job);
}

/* Accumulated gradients come several times before the weights move. */
static void accumulated_gradients_keep_their_layers(void **state)
{
    struct job job = open_job(0, false), counted = open_job(LAYERS, false);

    (void)state;
    for (int i = 0; i < 40; i++)
        for (int micro = 0; micro < 1 + i % 4; micro++) {
            step(&job, 0, LAYERS, true);
            step(&counted, 0, LAYERS, i / 20 > 0);
        }
    assert_int_equal(job.shared, 0);
    assert_int_equal(counted.shared, 0);
    assert_int_equal(job.ordinals, LAYERS);
    close_job(&job);
    close_job(&counted);
}

/* ---- without calls=N: shared buffers ---- */

static void one_buffer_stays_exact_and_the_user_hears_of_calls(void **state)
{
    struct job scratch = open_job(0, false), sent = open_job(0, false), lanes = open_job(0, false);

    (void)state;
    for (int i = 0; i < 100; i++)
        for (unsigned k = 0; k < LAYERS; k++) {
            layer(&scratch, k, 100);
            layer_of(&sent, k, &(struct made){.address = 100, .from = 200 + k});
            call(&lanes, &(struct made){.lane = k, .address = 100});
        }
    assert_int_equal(scratch.lossy_calls + sent.lossy_calls + lanes.lossy_calls, 0);
    assert_int_equal(scratch.told, 1);
    assert_int_equal(sent.told, 1);
    close_job(&scratch);
    close_job(&sent);
    close_job(&lanes);
}

/* Two or three buffers in turn, with the layers' own send buffers. */
static void buffers_in_turn_never_mix_layers(void **state)
{
    (void)state;
    for (unsigned buffers = 2; buffers < LAYERS; buffers++) {
        struct job job = open_job(0, false);
        for (unsigned i = 0; i < 100 * LAYERS; i++)
            layer_of(&job, i % LAYERS,
                     &(struct made){.address = 100 + i % buffers, .from = 200 + i % LAYERS});
        assert_int_equal(job.lossy_calls, 0);
        assert_int_equal(job.told, 1);
        close_job(&job);
    }
}

static void fresh_arrays_stay_exact(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (uintptr_t i = 0; i < 3000; i++)
        call(&job, &(struct made){.address = 1 + i});
    assert_int_equal(job.lossy_calls, 0);
    assert_int_equal(job.told, 1);
    close_job(&job);
}

/* The buffer of the first layer is freed, and another layer receives in it from then on. */
static void a_reused_buffer_is_another_position(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (unsigned i = 0; i < 60; i++)
        for (unsigned k = 0; k < LAYERS; k++) {
            unsigned place = i < 30 ? k : (k + 3) % LAYERS;
            layer_of(&job, k, &(struct made){.address = 100 + place, .from = 200 + k});
            assert_true(i < 30 || i > 31 || !job.lossy);
        }
    assert_int_equal(job.shared, 0);
    assert_int_equal(job.ordinals, 2 * LAYERS);
    assert_true(job.lossy);
    close_job(&job);
}

/* ---- without calls=N: ranks ---- */

static void ranks_whose_buffers_differ_are_exact_where_they_mean_other_layers(void **state)
{
    struct job fresh = open_job(0, false), turn = open_job(0, false), apart = open_job(0, false);

    (void)state;
    for (unsigned i = 0; i < 100; i++)
        for (unsigned k = 0; k < LAYERS; k++) {
            const unsigned n = i * LAYERS + k;
            layer_of(&fresh, k, &(struct made){.address = 100 + k, .other_address = 1000 + n});
            layer_of(&turn, k,
                     &(struct made){.address = 100 + k, .other_address = 200 + n % (LAYERS - 1)});
            layer_of(&apart, k, &(struct made){.address = 100 + k, .other_address = 200 - k});
        }
    assert_int_equal(fresh.lossy_calls, 0);
    assert_int_equal(turn.shared, 0);
    assert_int_equal(apart.shared, 0);
    assert_int_equal(apart.lossy_calls, 98 * LAYERS);
    close_job(&fresh);
    close_job(&turn);
    close_job(&apart);
}

/* A buffer that comes once on one rank shifts no number. */
static void a_first_call_from_elsewhere_on_one_rank_shifts_nothing(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    call(&job, &(struct made){.address = 100, .other_address = 999});
    steps(&job, 20, true);
    assert_int_equal(job.shared, 0);
    assert_true(job.lossy_calls >= 17 * LAYERS);
    close_job(&job);
}

/* ---- calls=N: the count ---- */

static void calls_through_one_buffer_are_counted(void **state)
{
    struct job job = open_job(LAYERS, false), fresh = open_job(LAYERS, false);

    (void)state;
    steps(&job, 20, false);
    assert_int_equal(job.first, 3 * LAYERS);
    assert_int_equal(job.lossy_calls, 17 * LAYERS + 1);
    assert_int_equal(job.shared, 0);
    assert_int_equal(job.ordinals, LAYERS);
    for (unsigned i = 0; i < 20 * LAYERS; i++)
        layer(&fresh, i % LAYERS, 1000 + i);
    assert_int_equal(fresh.lossy_calls, 17 * LAYERS + 1);
    assert_int_equal(fresh.shared, 0);
    assert_int_equal(job.told + fresh.told, 0);
    close_job(&job);
    close_job(&fresh);
}

/* Arrays allocated anew may lie at any of a few addresses, or in turn. */
static void fresh_arrays_are_counted(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= 4; n++) {
        struct job job = open_job(n, false), turn = open_job(n, false);
        uint64_t x = n;
        for (unsigned i = 0; i < 200 * n; i++) {
            layer(&job, i % n, 100 + random_below(&x, n + 2));
            layer(&turn, i % n, 100 + i % (n + 1));
        }
        assert_int_equal(job.shared + turn.shared, 0);
        assert_int_equal(job.lossy_calls, 197 * n + 1);
        assert_int_equal(turn.lossy_calls, 197 * n + 1);
        close_job(&job);
        close_job(&turn);
    }
}

/* Of a signature that one rule takes; other calls of the lane do not count. */
static void each_call_obeys_its_own_rule(void **state)
{
    const struct ss_call_rule none = {.excluded = false}, excluded = {.excluded = true};
    const struct ss_call_rule other = {.takes = true, .calls = 1, .number = 2};

    (void)state;
    for (int by_rule = 0; by_rule < 2; by_rule++) {
        struct job job = open_job(2, by_rule);
        for (unsigned i = 0; i < 60; i++) {
            layer(&job, i % 2, 100);
            assert_int_equal(job.lossy, i >= 5);
            call(&job, &(struct made){.address = 100, .rule = &none});
            assert_false(job.lossy);
            call(&job, &(struct made){.address = 100, .buffer = i % 3, .rule = &excluded});
            assert_false(job.lossy);
            call(&job, &(struct made){.address = 100, .rule = &other});
            assert_int_equal(job.at.rule_code, 2);
        }
        assert_int_equal(job.shared, 0);
        close_job(&job);
    }
}

static void without_a_rule_nothing_is_lossy(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    job.rule.takes = false;
    steps(&job, 100, true);
    assert_int_equal(job.lossy_calls + job.told, 0);
    close_job(&job);
}

static void registered_buffers_need_no_rule(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    job.rule.takes = false;
    for (uint32_t i = 0; i < 20; i++) {
        call(&job, &(struct made){.address = 1, .buffer = 1 + i % 2});
        assert_true(job.lossy);
        assert_int_equal(job.at.ordinal, 0);
        assert_int_equal(job.at.rule_code & 0xffff, 1 + i % 2);
    }
    close_job(&job);
}

static void with_quorum_the_rule_alone_counts(void **state)
{
    struct job job = open_job(0, true), ruled = open_job(LAYERS, true);

    (void)state;
    for (unsigned i = 0; i < 100; i++)
        for (unsigned k = 0; k < LAYERS; k++) {
            call(&job, &(struct made){.address = 100 + k, .buffer = 1});
            layer_of(&ruled, k, &(struct made){.address = 100 + (i < 50 ? k : (k + 1) % LAYERS)});
        }
    assert_int_equal(job.lossy_calls, 0);
    assert_int_equal(job.told, 1);
    assert_int_equal(ruled.lossy_calls, 97 * LAYERS + 1);
    assert_int_equal(ruled.shared, 0);
    close_job(&job);
    close_job(&ruled);
}

/* ---- calls=N: own buffers correct the count ---- */

/* Returns the lossy calls of the next step. */
static unsigned lossy_of_step(struct job *job)
{
    const unsigned before = job->lossy_calls;

    step(job, 0, LAYERS, true);
    return job->lossy_calls - before;
}

static void a_missing_call_is_exact_until_corrected(void **state)
{
    (void)state;
    for (unsigned odd = 0; odd < LAYERS; odd++) {
        struct job job = open_job(LAYERS, false);
        steps(&job, 10, true);
        count_anew(&job);
        for (unsigned k = 0; k < LAYERS; k++)
            if (k != odd)
                layer(&job, k, 100 + k);
        assert_int_equal(job.lossy_calls, odd);
        assert_in_range(lossy_of_step(&job), 1, LAYERS);
        for (int i = 0; i < 10; i++)
            assert_int_equal(lossy_of_step(&job), LAYERS);
        assert_int_equal(job.shared, 0);
        assert_int_equal(job.ordinals, LAYERS);
        assert_int_equal(job.told, 0);
        close_job(&job);
    }
}

/* From a buffer of its own, or from that of any layer; one, or a whole evaluation. */
static void additional_calls_are_exact_until_corrected(void **state)
{
    (void)state;
    for (unsigned before = 0; before < LAYERS; before++)
        for (unsigned of = 0; of <= LAYERS; of++)
            for (unsigned many = 1; many < 2 * LAYERS; many += 6) {
                struct job job = open_job(LAYERS, false);
                steps(&job, 10, true);
                step(&job, 0, before, true);
                for (unsigned i = 0; i < many; i++) {
                    const uintptr_t address = of < LAYERS ? 100 + of : 999;
                    call(&job, &(struct made){.address = address});
                    assert_true(!job.lossy || (i == 0 && of == before));
                }
                step(&job, before, LAYERS, true);
                steps(&job, 1, true);
                for (int i = 0; i < 10; i++)
                    assert_int_equal(lossy_of_step(&job), LAYERS);
                assert_int_equal(job.shared, 0);
                assert_int_equal(job.ordinals, LAYERS);
                close_job(&job);
            }
}

/* Layers that are frozen and come back, the first ones or the last. */
static void frozen_layers_leave_the_others_their_own(void **state)
{
    (void)state;
    for (unsigned first = 0; first < LAYERS; first++)
        for (unsigned end = first + 1; end <= LAYERS; end++) {
            struct job job = open_job(LAYERS, false);
            for (unsigned i = 0; i < 200; i++) {
                bool frozen = i / 20 % 2 > 0;
                step(&job, frozen ? first : 0, frozen ? end : LAYERS, true);
            }
            assert_int_equal(job.shared, 0);
            assert_int_equal(job.ordinals, LAYERS);
            assert_true(job.lossy_calls >= 50 * LAYERS);
            close_job(&job);
        }
}

static void the_user_hears_of_a_frozen_layer(void **state)
{
    struct job job = open_job(LAYERS, false);

    (void)state;
    steps(&job, 20, true);
    for (int i = 0; i < 50; i++)
        step(&job, 1, LAYERS, true);
    assert_int_equal(job.told, 1);
    assert_int_equal(job.shared, 0);
    close_job(&job);
}

/* All buffers are allocated anew, some at addresses that another layer had. */
static void moved_buffers_keep_their_layers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 60; seed++) {
        struct job job = open_job(LAYERS, false);
        unsigned place[LAYERS];
        uint64_t x = seed;
        for (unsigned k = 0; k < LAYERS; k++)
            place[k] = k;
        for (unsigned i = 0; i < 100; i++) {
            if (i % 20 == 19) {
                unsigned a = random_below(&x, LAYERS), b = random_below(&x, LAYERS);
                unsigned was = place[a];
                place[a] = place[b];
                place[b] = was;
                place[random_below(&x, LAYERS)] = LAYERS + i;
            }
            for (unsigned k = 0; k < LAYERS; k++)
                layer(&job, k, 100 + place[k]);
        }
        assert_int_equal(job.shared, 0);
        assert_int_equal(job.ordinals, LAYERS);
        assert_true(job.lossy_calls >= 80 * LAYERS);
        close_job(&job);
    }
}

/* One rank sees from its buffers that a call was missing, the other does not. */
static void a_correction_on_one_rank_is_exact(void **state)
{
    struct job job = open_job(LAYERS, false);

    (void)state;
    for (unsigned i = 0; i < 60; i++)
        for (unsigned k = i == 20; k < LAYERS; k++)
            layer_of(&job, k,
                     &(struct made){.address = 100 + k, .other_address = i < 20 ? 0 : 999});
    assert_int_equal(job.shared, 0);
    assert_false(job.lossy);
    close_job(&job);
}

/* ---- anything ---- */

static void random_calls_have_an_ordinal_below_n(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct job job = open_job(seed % 3 ? 0 : (uint32_t)(seed % 9), seed % 7 == 0);
        uint64_t x = seed;
        for (int i = 0; i < 500; i++) {
            unsigned bits = random_below(&x, 1u << 30);
            call(&job, &(struct made){.lane = bits % 3,
                                      .address = 1 + (bits >> 4) % (1 + seed % 5),
                                      .other_address = bits % 89 == 0 ? 77 : 0,
                                      .buffer = bits % 13 == 0});
            assert_true(!job.lossy || job.rule.calls == 0 || job.at.ordinal < job.rule.calls);
            if (bits % 83 == 0)
                for (int r = 0; r < RANKS; r++) {
                    ss_lane_rules_free(&job.lanes[r][bits % 4]);
                    job.lanes[r][bits % 4] = (struct ss_lane_rules){0};
                }
        }
        close_job(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_buffers_are_lossy_from_the_third_step_on),
        cmocka_unit_test(own_buffers_may_come_in_any_order),
        cmocka_unit_test(own_buffers_keep_their_layers_in_steps_of_any_length),
        cmocka_unit_test(accumulated_gradients_keep_their_layers),
        cmocka_unit_test(one_buffer_stays_exact_and_the_user_hears_of_calls),
        cmocka_unit_test(buffers_in_turn_never_mix_layers),
        cmocka_unit_test(fresh_arrays_stay_exact),
        cmocka_unit_test(a_reused_buffer_is_another_position),
        cmocka_unit_test(ranks_whose_buffers_differ_are_exact_where_they_mean_other_layers),
        cmocka_unit_test(a_first_call_from_elsewhere_on_one_rank_shifts_nothing),
        cmocka_unit_test(calls_through_one_buffer_are_counted),
        cmocka_unit_test(fresh_arrays_are_counted),
        cmocka_unit_test(each_call_obeys_its_own_rule),
        cmocka_unit_test(without_a_rule_nothing_is_lossy),
        cmocka_unit_test(registered_buffers_need_no_rule),
        cmocka_unit_test(with_quorum_the_rule_alone_counts),
        cmocka_unit_test(a_missing_call_is_exact_until_corrected),
        cmocka_unit_test(additional_calls_are_exact_until_corrected),
        cmocka_unit_test(frozen_layers_leave_the_others_their_own),
        cmocka_unit_test(the_user_hears_of_a_frozen_layer),
        cmocka_unit_test(moved_buffers_keep_their_layers),
        cmocka_unit_test(a_correction_on_one_rank_is_exact),
        cmocka_unit_test(random_calls_have_an_ordinal_below_n),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
