/* Only gradients are registered, on all ranks in the same call. */
#include "core/tensor/residual.h"
#include "tests/unit/support/tensor_data.h"

static void a_gradient_is_registered_on_all_ranks_in_one_call(void **state)
{
    static const size_t sizes[] = {N, 200001};

    (void)state;
    for (int c = 0; c < 4; c++) {
        struct job *job = job_open(3, SS_IDENTITY_AUTO, 3, c & 1 ? "count=1; auto" : "auto");
        struct data d = data_make(SS_F32, sizes[c >> 1]);
        int registered = 0;
        for (int step = 0; step < 30; step++) {
            new_gradient(job, &d);
            struct ss_tensor *t = call_with(job, &d, 0);
            for (int r = 0; r < job->size; r++)
                assert_int_equal(ss_tensors_first(job->tensors[r])->state, t->state);
            registered += t->state == SS_TENSOR_REGISTERED;
            if (step < 3)
                assert_int_equal(t->state, SS_TENSOR_CANDIDATE);
        }
        struct ss_tensor *t = ss_tensors_first(job->tensors[0]);
        assert_int_equal(t->state, SS_TENSOR_REGISTERED);
        assert_true(registered >= 13);
        assert_int_equal(t->threshold.period, 32);
        for (size_t i = 0; i < d.n * ss_type_size(d.type); i++)
            assert_int_equal(((unsigned char *)t->residual.values.data)[i], 0);
        job_close(job);
        data_free(&d);
    }
}

/* Thirty steps of a gradient; the tensor of rank 0. */
static void train(struct job *job, struct data *d, enum ss_tensor_reason expected)
{
    for (int step = 0; step < 30; step++) {
        new_gradient(job, d);
        assert_int_not_equal(call_with(job, d, 0)->state, SS_TENSOR_REGISTERED);
    }
    for (int r = 0; r < job->size; r++) {
        const struct ss_tensor *t = ss_tensors_first(job->tensors[r]);
        assert_int_equal(t->state, SS_TENSOR_EXACT);
        assert_int_equal(t->reason, expected);
        assert_null(t->residual.values.data);
    }
}

static void with_no_rule_nothing_is_registered_and_a_gradient_is_named(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, NULL);
    struct data d = data_make(SS_F32, N);
    char rule[64];

    (void)state;
    train(job, &d, SS_TENSOR_OFFERED);
    ss_tensor_override(ss_tensors_first(job->tensors[0]), rule, sizeof rule);
    assert_string_equal(rule, "count=1000");
    job_close(job);
    data_free(&d);
}

static void auto_takes_no_doubles(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "auto");
    struct data d = data_make(SS_F64, N);
    char rule[64];

    (void)state;
    train(job, &d, SS_TENSOR_DOUBLE);
    ss_tensor_override(ss_tensors_first(job->tensors[0]), rule, sizeof rule);
    assert_string_equal(rule, "count=1000,type=double");
    job_close(job);
    job = job_open(2, SS_IDENTITY_AUTO, 3, rule);
    for (int step = 0; step < 30; step++) {
        new_gradient(job, &d);
        call_with(job, &d, 0);
    }
    assert_int_equal(ss_tensors_first(job->tensors[0])->state, SS_TENSOR_REGISTERED);
    job_close(job);
    data_free(&d);
}

static void a_step_of_many_lanes_is_registered_in_its_ninth_step(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "auto");
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (uint32_t step = 0; step < 11; step++)
        for (uint32_t lane = 0; lane < 20; lane++) {
            new_gradient(job, &d);
            struct ss_tensor *t = call_with(job, &d, lane);
            assert_int_equal(t->state, step < 8 ? SS_TENSOR_CANDIDATE : SS_TENSOR_REGISTERED);
            assert_int_equal(t->registered_calls, step < 9 ? 0 : step - 8);
        }
    job_close(job);
    data_free(&d);
}

static void layers_are_not_registered_as_one(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "auto");
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (uint64_t call = 0; call < 13 * 20; call++) { /* twelve through one buffer, and another */
        new_gradient(job, &d);
        struct ss_tensor *t = call_with(job, &d, call % 13 == 12);
        if (call < 39)
            assert_int_equal(t->state, SS_TENSOR_CANDIDATE);
    }
    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        assert_int_equal(t->state, SS_TENSOR_REGISTERED);
    job_close(job);
    data_free(&d);
}

static void averaged_weights_stay_exact(void **state)
{
    struct job *job = job_open(3, SS_IDENTITY_AUTO, 3, "auto");
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (int step = 0; step < 30; step++) {
        for (size_t i = 0; i < N; i++) {
            double weight = noise(job); /* so that only the input tells */
            for (int r = 0; r < 3; r++)
                set(&d, r, i, weight + 0.01 * noise(job));
        }
        call_with(job, &d, 0);
    }
    assert_exact(job, 0, SS_TENSOR_AVERAGE);
    job_close(job);
    data_free(&d);
}

static void one_rank_that_differs_makes_a_gradient(void **state)
{
    struct job *job = job_open(3, SS_IDENTITY_AUTO, 3, "auto");
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (int step = 0; step < 30; step++) { /* ranks 1 and 2 hardly count in the sum */
        for (size_t i = 0; i < N; i++) {
            double common = noise(job);
            set(&d, 0, i, 100 * (common + 2 * noise(job)));
            set(&d, 1, i, common + 2 * noise(job));
            set(&d, 2, i, common + 2 * noise(job));
        }
        call_with(job, &d, 0);
    }
    assert_true(ss_tensors_first(job->tensors[0])->state == SS_TENSOR_REGISTERED);
    job_close(job);
    data_free(&d);
}

static void constant_statistics_stay_exact(void **state)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        struct job *job = job_open(3, SS_IDENTITY_AUTO, 3, "auto");
        struct data d = data_make(SS_F32, N);
        double base[MOST][N];

        (void)state;
        for (int r = 0; r < 3; r++)
            for (size_t i = 0; i < N; i++)
                base[r][i] = noise(job);
        for (int step = 0; step < 40; step++) {
            for (int r = 0; r < 3; r++)
                for (size_t i = 0; i < N; i++)
                    set(&d, r, i, (step % 2 ? sign : 1) * (base[r][i] + 0.02 * noise(job)));
            call_with(job, &d, 0);
        }
        assert_exact(job, 0, SS_TENSOR_CONSTANT);
        job_close(job);
        data_free(&d);
    }
}

static void a_metric_every_ten_steps_or_so_stays_exact(void **state)
{
    static const uint32_t lanes[] = {3, 60};

    (void)state;
    for (size_t c = 0; c < sizeof lanes / sizeof lanes[0]; c++) {
        struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "auto");
        struct data d = data_make(SS_F32, N);
        const struct ss_tensor *t;
        int next = 9;
        for (int step = 0; step < 100; step++) {
            for (uint32_t lane = 0; lane < lanes[c]; lane++) {
                new_gradient(job, &d);
                call_with(job, &d, lane);
            }
            if (step == next) {
                next += 7 + (int)(fabs(noise(job)) * 4) * 2 + step % 3;
                new_gradient(job, &d);
                t = call_with(job, &d, 99);
                assert_int_not_equal(t->state, SS_TENSOR_REGISTERED);
                if (step > 50)
                    assert_true(t->reason == SS_TENSOR_SELDOM || t->reason == SS_TENSOR_OUTSIDE ||
                                t->reason == SS_TENSOR_NO_STEP || t->reason == SS_TENSOR_WATCHED);
            }
        }
        for (t = ss_tensors_first(job->tensors[0]); t; t = t->next)
            if (t->lane != 99 && t->ordinal == 0)
                assert_int_equal(t->state, SS_TENSOR_REGISTERED);
        job_close(job);
        data_free(&d);
    }
}

static void a_metric_every_tenth_step_stays_exact(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "auto");
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (int step = 0; step < 100; step++) {
        for (uint32_t lane = 0; lane < 60; lane++) {
            new_gradient(job, &d);
            call_with(job, &d, lane);
        }
        if (step % 10 == 9)
            assert_int_not_equal(call_with(job, &d, 99)->state, SS_TENSOR_REGISTERED);
    }
    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        assert_int_equal(t->state, t->lane == 99 ? SS_TENSOR_CANDIDATE : SS_TENSOR_REGISTERED);
    job_close(job);
    data_free(&d);
}

static void weights_averaged_beside_gradients_of_their_lane_stay_exact(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "auto");
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (int step = 0; step < 200; step++) {
        new_gradient(job, &d);
        call_with(job, &d, 0);
        if (step % 10 != 9)
            continue;
        struct shape weights = {.site = 8,
                                .address = {(const void *)(uintptr_t)4096},
                                .n = N,
                                .type = SS_F32,
                                .in = {d.out, d.out}};
        assert_int_not_equal(go(job, &weights)->state, SS_TENSOR_REGISTERED);
    }
    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        assert_int_equal(t->state == SS_TENSOR_REGISTERED, t->label == 0);
    job_close(job);
    data_free(&d);
}

static void what_never_repeats_is_not_registered(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "auto");
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (int call = 0; call < 200; call++) {
        uint32_t lane = (uint32_t)(fabs(noise(job)) * 50);
        new_gradient(job, &d);
        struct ss_tensor *t = call_with(job, &d, lane);
        assert_int_not_equal(t->state, SS_TENSOR_REGISTERED);
        if (t->watch.calls >= 3 && call > 100)
            assert_true(t->reason == SS_TENSOR_NO_STEP || t->reason == SS_TENSOR_OUTSIDE ||
                        t->reason == SS_TENSOR_WATCHED);
    }
    job_close(job);
    data_free(&d);
}

static void rules_override_the_test(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 0, "count=1000:density=0.5");

    (void)state;
    struct ss_tensor *t = at(job, 0, 7, 64);
    assert_int_equal(t->state, SS_TENSOR_REGISTERED);
    assert_int_equal(t->registered_calls, 1);
    assert_true(t->rule->density == 0.5);
    job_close(job);

    job = job_open(2, SS_IDENTITY_AUTO, 3, "site=app+*");
    for (int call = 0; call < 20; call++) { /* a step of one call is trusted after 16 */
        t = at(job, 0, 7, 64);
        if (call < 15)
            assert_int_equal(t->state, SS_TENSOR_CANDIDATE);
        assert_false(ss_tensor_watching(t));
    }
    assert_int_equal(t->state, SS_TENSOR_REGISTERED);
    job_close(job);

    job = job_open(2, SS_IDENTITY_AUTO, 0, "count=1");
    t = at(job, 0, 7, 64);
    assert_int_equal(t->reason, SS_TENSOR_NO_RULE);
    job_close(job);
}

/* Twelve layers that pass through one buffer: before the step is known they would be one tensor. */
static void layers_that_a_rule_names_never_share_a_residual(void **state)
{
    enum { LAYERS = 12, STEPS = 8 };
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "count=1000");
    int registered = 0;

    (void)state;
    for (int step = 0; step < STEPS; step++)
        for (int layer = 0; layer <= LAYERS; layer++) {
            struct ss_tensor *t = at(job, layer == LAYERS, 7, 0x1000);

            if (layer < LAYERS && t->state == SS_TENSOR_REGISTERED)
                assert_int_equal(t->ordinal, layer);
        }
    for (const struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        registered += t->lane == 0 && t->state == SS_TENSOR_REGISTERED && t->residual.values.data;
    assert_int_equal(registered, LAYERS);
    job_close(job);
}

/* Calls of equal count in changing order, which nothing tells apart. */
static void what_no_step_tells_apart_stays_exact_under_a_rule_and_says_so(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "count=1000");
    struct ss_tensor *t = NULL;
    uint32_t lane = 1;

    (void)state;
    for (int call = 1; call <= 400; call++) {
        t = at(job, 0, 7, 0x1000);
        assert_false(ss_tensor_lossy(t));
        for (int i = 0; i < call % 7; i++) /* never the same twice, so that no step is found */
            at(job, lane++, 8, 0x2000);
    }
    assert_int_equal(t->reason, SS_TENSOR_NO_STEP);
    job_close(job);
}

static void what_is_excluded_or_no_sum_of_floats_stays_exact(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    struct ss_rules *exclude;
    struct shape call = {.address = {job}, .n = N, .type = SS_I32};
    char error[64];

    (void)state;
    assert_int_equal(ss_rules_parse("count=1000", false, &exclude, error, sizeof error), SS_OK);
    assert_int_equal(go(job, &call)->reason, SS_TENSOR_TYPE);
    call = (struct shape){.lane = 1, .address = {job}, .n = N, .type = SS_F32, .op = SS_BOR};
    assert_int_equal(go(job, &call)->reason, SS_TENSOR_TYPE);
    job->settings.exclude = exclude;
    assert_int_equal(at(job, 2, 7, 64)->reason, SS_TENSOR_EXCLUDED);
    job_close(job);
}

static void ranks_whose_addresses_differ_register_together(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "auto");
    struct data d = data_make(SS_F32, N);
    uint64_t goes[2] = {0, 0};

    (void)state;
    for (uintptr_t step = 1; step < 120; step++) {
        new_gradient(job, &d);
        sum_up(&d, 2);
        struct shape call = {.site = 7,
                             .address = {(const void *)64, (const void *)(64 * step)},
                             .n = N,
                             .type = SS_F32,
                             .in = {d.in[0], d.in[1]}};
        const struct ss_tensor *t = go(job, &call);
        assert_int_equal(t->residual.values.data != NULL, t->state == SS_TENSOR_REGISTERED);
    }
    for (int r = 0; r < 2; r++) {
        assert_int_equal(ss_tensors_first(job->tensors[r])->state, SS_TENSOR_REGISTERED);
        goes[r] = ss_tensors_first(job->tensors[r])->registered_calls;
    }
    assert_true(goes[0] > 50);
    assert_int_equal(goes[0], goes[1]);
    job_close(job);
    data_free(&d);
}

static void zero_and_not_finite_results_are_not_counted(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, "auto");
    struct data d = data_make(SS_F32, N);

    (void)state;
    assert_int_equal(call_with(job, &d, 0)->watch.calls, 0);
    set(&d, 0, 5, (double)NAN);
    assert_int_equal(call_with(job, &d, 0)->watch.calls, 0);
    set(&d, 0, 5, 1);
    set(&d, 0, 6, -1);
    assert_int_equal(call_with(job, &d, 0)->watch.calls, 1);
    set(&d, 0, 5, (double)INFINITY);
    assert_int_equal(call_with(job, &d, 0)->watch.calls, 1);
    job_close(job);
    data_free(&d);
}

static void the_norm_of_a_residual_is_right(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    struct ss_tensor *t = at(job, 0, 7, 64);
    double square = 0;

    (void)state;
    assert_true(ss_residual_norm(t) == 0);
    for (size_t i = 0; i < N; i++) {
        ((float *)t->residual.values.data)[i] = (float)noise(job);
        square += pow((double)((float *)t->residual.values.data)[i], 2);
    }
    assert_true(fabs(ss_residual_norm(t) / sqrt(square) - 1) < 1e-14);
    memset(t->residual.values.data, 0, N * 4);
    ((float *)t->residual.values.data)[3] = -1e-30f;
    assert_true(fabs(ss_residual_norm(t) / (double)1e-30f - 1) < 1e-14);
    job_close(job);
}

/* ---- block profile ---- */

static void one_tensor_resembles_its_past_and_two_in_turn_do_not(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, "auto");

    (void)state;
    for (int c = 0; c < 4; c++) {
        size_t n = c & 1 ? 300000 : 20000, nnz;
        float *g = calloc(n, sizeof *g), *val = calloc(n, sizeof *val);
        uint32_t *idx = calloc(n, sizeof *idx);
        struct ss_profile profile = {.seen = 0};
        bool turns = c & 2, unlike = false;
        for (int call = 0; call < 60; call++) {
            nnz = 0;
            for (size_t i = 0; i < n; i++) {
                bool own = (i / (n / 8) + (turns ? (size_t)call / 5 * 3 : 0)) % 8 < 2;
                g[i] = (float)(noise(job) * (own ? 1 : 0.01));
                idx[nnz] = (uint32_t)i;
                val[nnz] = g[i];
                nnz += fabsf(g[i]) > 0.5f;
            }
            struct ss_profile_now now;
            ss_profile_sparse(&now, SS_F32, idx, val, nnz, n);
            unlike = ss_profile_watch(&profile, &now) || unlike;
        }
        assert_int_equal(unlike, turns);
        free(g);
        free(val);
        free(idx);
    }
    job_close(job);
}

static void the_past_is_a_mean(void **state)
{
    struct ss_profile profile = {.seen = 0};
    struct ss_profile_now first = {.entries = 1000}, both = {.entries = 1000};

    (void)state;
    first.norm[0] = 3;
    both.norm[0] = both.norm[1] = 5;
    for (int call = 0; call < 3; call++)
        assert_false(ss_profile_watch(&profile, &first));
    assert_true(fabs(ss_profile_cosine(&profile, &both) - sqrt(0.5)) < 1e-12);
    assert_false(ss_profile_watch(&profile, &both));
    double x = 0.75 + 0.25 * sqrt(0.5), y = 0.25 * sqrt(0.5);
    assert_true(fabs(ss_profile_cosine(&profile, &first) - x / sqrt(x * x + y * y)) < 1e-12);
}

static void too_few_entries_say_nothing(void **state)
{
    struct ss_profile profile = {.seen = 0};
    uint32_t idx[SS_PROFILE_ENTRIES];
    float val[SS_PROFILE_ENTRIES];

    (void)state;
    for (uint32_t call = 0; call < 50; call++) {
        struct ss_profile_now now;
        for (uint32_t i = 0; i < SS_PROFILE_ENTRIES - 1; i++) {
            idx[i] = call % 2 * 500000 + i;
            val[i] = 1;
        }
        ss_profile_sparse(&now, SS_F32, idx, val, SS_PROFILE_ENTRIES - 1, 1000000);
        assert_true(ss_profile_cosine(&profile, &now) == -1);
        assert_false(ss_profile_watch(&profile, &now));
    }
}

static void every_reason_has_a_rule_or_says_what_helps_instead(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, NULL);
    struct ss_tensor *t = at(job, 0, 7, 64);
    char rule[192];

    (void)state;
    t->state = SS_TENSOR_EXACT;
    for (int r = SS_TENSOR_NONE + 1; r < SS_TENSOR_REASONS; r++) {
        t->reason = (enum ss_tensor_reason)r;
        ss_tensor_override(t, rule, sizeof rule);
        if (r == SS_TENSOR_WATCHED) /* passes */
            continue;
        assert_true((rule[0] != '\0') != (ss_tensor_remedy(t->reason) != NULL));
    }
    job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_is_registered_on_all_ranks_in_one_call),
        cmocka_unit_test(with_no_rule_nothing_is_registered_and_a_gradient_is_named),
        cmocka_unit_test(auto_takes_no_doubles),
        cmocka_unit_test(a_step_of_many_lanes_is_registered_in_its_ninth_step),
        cmocka_unit_test(averaged_weights_stay_exact),
        cmocka_unit_test(one_rank_that_differs_makes_a_gradient),
        cmocka_unit_test(constant_statistics_stay_exact),
        cmocka_unit_test(a_metric_every_ten_steps_or_so_stays_exact),
        cmocka_unit_test(a_metric_every_tenth_step_stays_exact),
        cmocka_unit_test(weights_averaged_beside_gradients_of_their_lane_stay_exact),
        cmocka_unit_test(what_never_repeats_is_not_registered),
        cmocka_unit_test(rules_override_the_test),
        cmocka_unit_test(layers_that_a_rule_names_never_share_a_residual),
        cmocka_unit_test(what_no_step_tells_apart_stays_exact_under_a_rule_and_says_so),
        cmocka_unit_test(what_is_excluded_or_no_sum_of_floats_stays_exact),
        cmocka_unit_test(ranks_whose_addresses_differ_register_together),
        cmocka_unit_test(zero_and_not_finite_results_are_not_counted),
        cmocka_unit_test(the_norm_of_a_residual_is_right),
        cmocka_unit_test(one_tensor_resembles_its_past_and_two_in_turn_do_not),
        cmocka_unit_test(too_few_entries_say_nothing),
        cmocka_unit_test(layers_are_not_registered_as_one),
        cmocka_unit_test(the_past_is_a_mean),
        cmocka_unit_test(every_reason_has_a_rule_or_says_what_helps_instead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
