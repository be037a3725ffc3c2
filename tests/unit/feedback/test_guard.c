/* GUARD: results that have come apart from the dense sum are found, others left alone. */
#include "tests/unit/support/feedback_job.h"

/* Returns the settings of top-k, or, if `quant`, of MODE=quant. */
static struct ss_settings settings_in(bool quant)
{
    struct ss_settings s = settings_of(quant ? SS_QUANTIZED : SS_SPLIT_ALLGATHER);

    if (quant)
        s.density = 1;
    s.value_type = quant ? SS_VALUES_Q4 : SS_VALUES_SAME;
    return s;
}

static void the_guard_leaves_a_healthy_tensor_alone(void **state)
{
    static struct training t;
    char text[400];

    (void)state;
    for (int run = 0; run < 4; run++) {
        const enum ss_guard g = run % 2 == 0 ? SS_GUARD_WARN : SS_GUARD_EXACT;
        struct ss_settings settings = settings_in(run >= 2);
        settings.guard = g;
        training_open(&t, "count=1:,site=*:calls=1", settings);
        for (int step = 0; step < 520; step++) {
            draw(&t, 0, (uint64_t)step, 1);
            assert_int_equal(call(&t, 0, step % 2), SS_OK);
        }
        for (int r = 0; r < P; r++) {
            assert_int_equal(tensor_of(&t, r, 0)->guarding.checks, 7);
            assert_true(tensor_of(&t, r, 0)->guarding.cosine > 0);
            assert_false(ss_comm_warning(t.job.comm[r], text, sizeof text, &(bool){false}));
        }
        training_close(&t);
    }
}

static void the_guard_does_not_mind_zero_input(void **state)
{
    static struct training t;
    char text[400];
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);

    (void)state;
    settings.guard = SS_GUARD_WARN;
    training_open(&t, "count=1:,site=*:calls=1", settings);
    for (int step = 0; step < 256; step++) {
        draw(&t, 0, (uint64_t)step, step < 250 ? 1 : 0);
        assert_int_equal(call(&t, 0, false), SS_OK);
    }
    assert_int_equal(tensor_of(&t, 0, 0)->guarding.checks, 6);
    assert_false(ss_comm_warning(t.job.comm[0], text, sizeof text, &(bool){false}));
    training_close(&t);
}

static void the_guard_finds_a_residual_that_points_the_other_way(void **state)
{
    static struct training t;
    char text[400];

    (void)state;
    for (int run = 0; run < 4; run++) {
        const enum ss_guard g = run % 2 == 0 ? SS_GUARD_WARN : SS_GUARD_EXACT;
        struct ss_settings settings = settings_in(run >= 2);
        settings.guard = g;
        training_open(&t, "count=1:,site=*:calls=1", settings);
        for (int step = 0; step < 256; step++) {
            draw(&t, 0, (uint64_t)step, 1);
            if (step == 255)
                for (int r = 0; r < P; r++) {
                    float *residual = tensor_of(&t, r, 0)->residual.values.data;
                    for (size_t i = 0; i < N; i++)
                        residual[i] = -100 * t.gradient[0][r][i];
                }
            assert_int_equal(call(&t, 0, false), SS_OK);
        }
        for (int r = 0; r < P; r++) {
            assert_true(tensor_of(&t, r, 0)->guarding.cosine < -0.1);
            assert_true(ss_comm_warning(t.job.comm[r], text, sizeof text, &(bool){false}));
            assert_non_null(strstr(text, "6007 float"));
            assert_int_equal(tensor_of(&t, r, 0)->state,
                             g == SS_GUARD_EXACT ? SS_TENSOR_EXACT : SS_TENSOR_REGISTERED);
        }
        training_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_guard_leaves_a_healthy_tensor_alone),
        cmocka_unit_test(the_guard_does_not_mind_zero_input),
        cmocka_unit_test(the_guard_finds_a_residual_that_points_the_other_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
