/* The tensor of a call where marks and addresses disagree, and where steps differ. */
#include "tests/unit/support/identity_job.h"

/* ---- layers that freeze ---- */

static void test_frozen_and_unfrozen(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 120; i++) {
        unsigned layers = i / 20 % 2 ? LAYERS - 2 : LAYERS;
        step(&job, layers, false);
        mark(&job);
        if (i == 0)
            count_anew(&job);
        if (i % 20 > 3)
            assert_true(job.lossy);
    }
    assert_int_equal(ordinals(&job), LAYERS);
    close_job(&job);
}

/* The first layers freeze: the first short step cannot be told from a whole one before its end, the
 * next one is exact. */
static void test_the_first_layers_freeze(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 40; i++) {
        unsigned first = i >= 20 ? 2 : 0;
        count_anew(&job);
        for (unsigned k = first; k < LAYERS; k++)
            layer(&job, k, 100);
        mark(&job);
        if (i > 3)
            assert_int_equal(job.lossy_calls, i == 21 ? 0 : LAYERS - first);
        if (i == 20)
            memset(job.ordinal, 0, sizeof job.ordinal);
        if (i == 20)
            job.moved = 0;
    }
    assert_int_equal(job.moved, 0);
    close_job(&job);
}

/* ---- marks beside addresses ---- */

static void test_one_sum_before_the_training(void **state)
{
    struct job scratch = open_job(LAYERS, false), flat = open_job(0, false);

    (void)state;
    mark(&scratch);
    mark(&flat);
    for (int i = 0; i < 20; i++) {
        step(&scratch, LAYERS, false);
        at(&flat, 1);
    }
    assert_int_equal(scratch.first, 3 * LAYERS);
    assert_int_equal(flat.first, 3);
    close_job(&scratch);
    close_job(&flat);
}

/* Later than that it delays the lossy calls by three steps at most. */
static void test_one_sum_in_the_training(void **state)
{
    struct job job = open_job(LAYERS, false);

    (void)state;
    for (int i = 0; i < 20; i++) {
        step(&job, LAYERS, false);
        if (i == 1)
            mark(&job);
    }
    assert_int_equal(job.first, 6 * LAYERS);
    assert_int_equal(job.lossy_calls, 14 * LAYERS + 1);
    close_job(&job);
}

static void test_a_loss_every_few_steps(void **state)
{
    (void)state;
    for (int every = 1; every < 70; every++) {
        struct job flat = open_job(0, false), own = open_job(0, false);
        for (int i = 0; i < 200; i++) {
            call(&flat, &(struct made){.site = 7, .address = 1, .from = 2});
            step(&own, LAYERS, true);
            if (i % every == 0) {
                mark(&flat);
                mark(&own);
            }
        }
        assert_int_equal(flat.first, 3);
        assert_int_equal(flat.lossy_calls, 198);
        assert_int_equal(flat.at.period, 1);
        assert_true(own.lossy_calls >= 170 * LAYERS);
        assert_int_equal(own.moved, 0);
        assert_int_equal(own.at.period, LAYERS);
        close_job(&flat);
        close_job(&own);
    }
}

/* Layers through one receive buffer wait for the first mark, 64 calls at most. */
static void test_scratch_with_other_send_buffers(void **state)
{
    struct job marked = open_job(0, false), unmarked = open_job(0, false);

    (void)state;
    for (int i = 0; i < 100; i++) {
        for (unsigned k = 0; k < LAYERS; k++) {
            call(&marked, &(struct made){.site = 7, .address = 1, .from = 100 + k});
            assert_true(!marked.lossy || marked.at.ordinal == k);
        }
        mark(&marked);
        call(&unmarked, &(struct made){.site = 7, .address = 1, .from = 100 + (uintptr_t)i});
    }
    assert_int_equal(marked.first, 3 * LAYERS + 1);
    assert_int_equal(marked.lossy_calls, 97 * LAYERS);
    assert_int_equal(unmarked.first, SS_MARKS_APART + 1);
    close_job(&marked);
    close_job(&unmarked);
}

/* Two or four layers in turn through one buffer more than there are layers, as numpy allocates
 * them: a buffer serves all layers, and each layer is still told from the others. */
static void test_rotating_buffers(void **state)
{
    (void)state;
    for (unsigned layers = 2; layers <= 4; layers++) {
        struct job job = open_job(0, false);
        unsigned layer_of[MOST] = {0}, n = 0;
        for (int i = 0; i < 60; i++) {
            for (unsigned k = 0; k < layers; k++) {
                at(&job, 100 + n++ % (layers + 1));
                if (!job.lossy)
                    continue;
                assert_in_range(job.at.ordinal, 0, MOST - 1);
                assert_true(layer_of[job.at.ordinal] == 0 || layer_of[job.at.ordinal] == k + 1);
                layer_of[job.at.ordinal] = k + 1;
            }
            mark(&job);
        }
        assert_true(job.lossy_calls >= 50 * layers);
        close_job(&job);
    }
}

/* With calls=N and marks, arrays allocated anew may lie at any address. */
static void test_fresh_arrays_by_calls(void **state)
{
    struct job job = open_job(2, false);
    uint64_t x = 1;

    (void)state;
    for (int i = 0; i < 60; i++) {
        for (unsigned k = 0; k < 2; k++) {
            x = x * 6364136223846793005ULL + 1442695040888963407ULL;
            layer(&job, k, 100 + (x >> 62));
        }
        mark(&job);
    }
    assert_int_equal(job.moved, 0);
    assert_int_equal(job.lossy_calls, 57 * 2);
    close_job(&job);
}

/* ---- steps of other lengths ---- */

static void test_extra_and_missing_calls_with_marks(void **state)
{
    struct job job = open_job(LAYERS, false);

    (void)state;
    for (int i = 0; i < 40; i++) {
        count_anew(&job);
        if (i == 20) {
            step(&job, LAYERS, false);
            at(&job, 100);
            assert_false(job.lossy); /* and all behind it, up to the mark */
            at(&job, 100);
            assert_false(job.lossy);
        } else {
            step(&job, i == 30 ? LAYERS - 1 : LAYERS, false);
        }
        if (i > 3)
            assert_int_equal(job.lossy_calls, i == 30 ? LAYERS - 1 : i == 31 ? 0 : LAYERS);
        mark(&job);
    }
    assert_int_equal(job.moved, 0);
    assert_int_equal(ordinals(&job), LAYERS);
    close_job(&job);
}

/* Where each layer has its buffer, the calls behind a missing or additional one are exact. */
static void test_a_missing_call_among_own_buffers(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= LAYERS; n += LAYERS)
        for (unsigned odd = 0; odd < LAYERS; odd++) {
            struct job job = open_job(n, false);
            for (unsigned i = 0; i < 50; i++) {
                count_anew(&job);
                if (i == 40)
                    at(&job, 999);
                for (unsigned k = 0; k < LAYERS; k++)
                    if (i != 20 || k != odd)
                        layer(&job, k, 100 + k);
                if (i > 3)
                    assert_int_equal(job.lossy_calls, i == 20              ? odd
                                                      : i == 21 || i == 40 ? 0
                                                                           : LAYERS);
                mark(&job);
            }
            assert_int_equal(job.moved, 0);
            assert_int_equal(ordinals(&job), LAYERS);
            close_job(&job);
        }
}

/* With calls=N marks change no ordinal, wherever in the step and whenever they begin or end. */
static void test_marks_begin_and_end_in_a_step(void **state)
{
    (void)state;
    for (unsigned behind = 0; behind < LAYERS; behind++)
        for (int own = 0; own < 2; own++) {
            struct job job = open_job(LAYERS, false);
            for (int i = 0; i < 60; i++)
                for (unsigned k = 0; k < LAYERS; k++) {
                    layer(&job, k, own ? 100 + k : 100);
                    if (k == behind && i / 15 % 2 > 0)
                        mark(&job);
                }
            assert_int_equal(job.moved, 0);
            assert_int_equal(ordinals(&job), LAYERS);
            assert_true(job.lossy_calls >= 50 * LAYERS);
            close_job(&job);
        }
}

/* Without marks calls=N is the user's word. */
static void test_extra_call_without_marks(void **state)
{
    struct job job = open_job(LAYERS, false);

    (void)state;
    for (int i = 0; i < 10; i++)
        step(&job, LAYERS, false);
    at(&job, 100);
    count_anew(&job);
    for (int i = 0; i < 10; i++)
        step(&job, LAYERS, false);
    assert_int_equal(job.lossy_calls, 10 * LAYERS);
    assert_int_equal(job.moved, LAYERS);
    close_job(&job);
}

static void test_extra_call_among_own_buffers(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 10; i++)
        step(&job, LAYERS, true);
    at(&job, 999);
    assert_false(job.lossy);
    count_anew(&job);
    for (int i = 0; i < 10; i++)
        step(&job, LAYERS, true);
    assert_int_equal(job.first, 3 * LAYERS);
    assert_int_equal(job.moved, 0); /* addresses keep their ordinals */
    assert_int_equal(ordinals(&job), LAYERS);
    close_job(&job);
}

static void test_irregular_marks_are_ignored(void **state)
{
    struct job job = open_job(0, false);
    uint64_t x = 1;

    (void)state;
    for (int i = 0; i < 400; i++) {
        step(&job, LAYERS, true);
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        if (x >> 62 == 0)
            mark(&job);
        if (i == 100)
            count_anew(&job);
    }
    assert_true(job.lossy_calls >= 299 * LAYERS * 9 / 10);
    close_job(&job);
}

/* Layers of own buffers, one of which is missing in every tenth step: the rest of the step
 * and the next step are exact. */
static void test_own_buffers_and_a_missing_call(void **state)
{
    (void)state;
    for (uint32_t calls = 0; calls <= LAYERS; calls += LAYERS) {
        struct job job = open_job(calls, false);
        for (int i = 0; i < 60; i++) {
            for (unsigned k = 0; k < LAYERS; k++)
                if (i % 10 < 9 || k != 1)
                    layer(&job, k, 100 + k);
            mark(&job);
        }
        assert_int_equal(job.moved, 0);
        assert_true(job.lossy_calls >= 46 * LAYERS);
        close_job(&job);
    }
}

/* ---- steps of other orders ---- */

/* Layers of own buffers, whose order changes from step to step, are exact. */
static void test_own_buffers_in_changing_order(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        for (unsigned j = 0; j < LAYERS; j++) {
            unsigned k = i % 2 ? LAYERS - 1 - j : j;
            layer(&job, k, 100 + k);
        }
        mark(&job);
    }
    assert_int_equal(job.moved, 0);
    close_job(&job);
}

/* Own buffers, and a mark behind each layer, such as its norm. */
static void test_own_buffers_and_a_mark_each(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 60; i++)
        for (unsigned k = 0; k < 4; k++) {
            layer(&job, k, 100 + k);
            mark(&job);
        }
    assert_int_equal(job.moved, 0);
    assert_true(job.lossy_calls >= 57 * 4);
    close_job(&job);
}

/* An additional call moves the places of all layers: they wait until their addresses return. */
static void test_an_additional_call_and_a_mark_each(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 100; i++)
        for (unsigned k = 0; k < 4; k++) {
            if (i % 20 == 19 && k == 2) {
                at(&job, 999 + (uintptr_t)i);
                assert_false(job.lossy);
            }
            layer(&job, k, 100 + k);
            mark(&job);
        }
    assert_int_equal(job.moved, 0);
    assert_true(job.lossy_calls >= 80 * 4);
    close_job(&job);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_frozen_and_unfrozen),
    cmocka_unit_test(test_the_first_layers_freeze),
    cmocka_unit_test(test_one_sum_before_the_training),
    cmocka_unit_test(test_one_sum_in_the_training),
    cmocka_unit_test(test_a_loss_every_few_steps),
    cmocka_unit_test(test_scratch_with_other_send_buffers),
    cmocka_unit_test(test_rotating_buffers),
    cmocka_unit_test(test_fresh_arrays_by_calls),
    cmocka_unit_test(test_extra_and_missing_calls_with_marks),
    cmocka_unit_test(test_marks_begin_and_end_in_a_step),
    cmocka_unit_test(test_a_missing_call_among_own_buffers),
    cmocka_unit_test(test_extra_call_without_marks),
    cmocka_unit_test(test_extra_call_among_own_buffers),
    cmocka_unit_test(test_irregular_marks_are_ignored),
    cmocka_unit_test(test_own_buffers_and_a_missing_call),
    cmocka_unit_test(test_own_buffers_in_changing_order),
    cmocka_unit_test(test_own_buffers_and_a_mark_each),
    cmocka_unit_test(test_an_additional_call_and_a_mark_each),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
