/* What becomes of residuals beside sparse calls: kept elements, dense calls, buffers that turn out
 * to be no gradient, changes of the loss scale. */
#include "core/tensor/residual.h"
#include "tests/unit/support/feedback_job.h"

/* ---- kept elements ---- */

static void check_kept(const char *rules, size_t first, size_t count, struct ss_settings settings)
{
    static struct training t;

    training_open(&t, rules, settings);
    for (int step = 0; step < 12; step++) {
        draw(&t, 0, (uint64_t)step, 1);
        for (int r = 0; r < P; r++)
            for (size_t i = first; i < first + count; i++)
                t.gradient[0][r][i] *= 1e-3f; /* far below what is selected */
        assert_int_equal(call(&t, 0, step % 2), SS_OK);
        for (size_t i = first; i < first + count; i++) {
            float sum = 0;
            for (int r = 0; r < P; r++)
                sum += t.gradient[0][r][i];
            assert_true(t.out[0][0][i] == sum);
        }
    }
    expect_conservation(&t, 12);
    training_close(&t);
}

static void kept_elements_arrive_exactly(void **state)
{
    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_DENSE; a++) {
        for (int v = SS_VALUES_SAME; v < SS_VALUE_TYPES; v++) {
            struct ss_settings settings = settings_of((enum ss_algorithm)a);
            settings.values = (enum ss_values)v;
            check_kept("count=1::keep=last:5", N - 5, 5, settings);
            check_kept("count=1::keep=first:70", 0, 70, settings);
        }
    }
    struct ss_settings buckets = settings_of(SS_SPLIT_ALLGATHER);
    buckets.k = 4;
    buckets.bucket = 512;
    check_kept("count=1::keep=last:1", N - 1, 1, buckets);
}

static void a_kept_element_that_is_not_finite_passes(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, "count=1::keep=last:1", settings_of(SS_SPLIT_ALLGATHER));
    draw(&t, 0, 1, 1);
    t.gradient[0][2][N - 1] = INFINITY;
    assert_int_equal(call(&t, 0, false), SS_NATIVE);
    assert_true(isinf(t.out[0][1][N - 1]));
    training_close(&t);
}

static void a_rule_names_the_collective(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, "count=6007:algorithm=ring;count=6107:algorithm=dsar;count=1:",
                  settings_of(SS_ALLGATHER));
    static const enum ss_algorithm expected[] = {SS_RING, SS_DSAR, SS_ALLGATHER};
    for (int i = 0; i < MOST_TENSORS; i++) {
        draw(&t, i, 1, 1);
        assert_int_equal(call(&t, i, false), SS_OK);
        assert_int_equal(ss_call_algorithm(ss_comm_call(t.job.comm[1])), expected[i]);
    }
    training_close(&t);
}

/* ---- dense calls ---- */

static void set_algorithm(struct training *t, enum ss_algorithm algorithm)
{
    for (int r = 0; r < P; r++)
        t->job.settings[r].algorithm = algorithm;
}

static double residual_norm(const struct training *t, int tensor)
{
    double most = 0;

    for (int r = 0; r < P; r++) {
        double norm = ss_residual_norm(tensor_of(t, r, tensor));
        most = norm > most ? norm : most;
    }
    return most;
}

static void a_dense_call_lets_a_large_residual_go_slowly(void **state)
{
    static struct training t;
    int steps = 0;

    (void)state;
    training_open(&t, "count=1:", settings_of(SS_SPLIT_ALLGATHER));
    for (; steps < 40; steps++) {
        draw(&t, 0, (uint64_t)steps, 1);
        assert_int_equal(call(&t, 0, false), SS_OK);
    }
    double norm = residual_norm(&t, 0);
    set_algorithm(&t, SS_DENSE);
    for (; norm > 0 && steps < 400; steps++) {
        draw(&t, 0, (uint64_t)steps, 1);
        double input = 0;
        for (size_t i = 0; i < N; i++)
            input += pow((double)t.gradient[0][0][i], 2);
        assert_int_equal(call(&t, 0, steps % 2), SS_NATIVE);
        double after = residual_norm(&t, 0);
        if (after > 0)
            assert_true(fabs(after - norm * 15 / 16) < 1e-4 * norm);
        else
            assert_true(norm < 1.3 * sqrt(input)); /* each rank has its own input's norm */
        norm = after;
        expect_conservation(&t, steps + 1);
    }
    assert_true(norm == 0);
    training_close(&t);
}

static void a_tensor_that_turns_exact_sends_its_residual(void **state)
{
    static struct training t;
    int steps = 0;

    (void)state;
    training_open(&t, "count=1:", settings_of(SS_RING));
    for (; steps < 30; steps++) {
        draw(&t, 0, (uint64_t)steps, 1);
        call(&t, 0, false);
    }
    for (int r = 0; r < P; r++)
        ss_tensor_settle(tensor_of(&t, r, 0), false, SS_TENSOR_GUARDED);
    for (; tensor_of(&t, 0, 0)->residual.values.data && steps < 300; steps++) {
        draw(&t, 0, (uint64_t)steps, 1);
        assert_int_equal(call(&t, 0, false), SS_NATIVE);
        expect_conservation(&t, steps + 1);
    }
    for (int r = 0; r < P; r++)
        assert_null(tensor_of(&t, r, 0)->residual.values.data);
    draw(&t, 0, (uint64_t)steps, 1);
    call(&t, 0, false);
    expect_conservation(&t, steps + 1);
    training_close(&t);
}

static void buffers_that_hold_different_tensors_in_turn_go_exact(void **state)
{
    static struct training t;
    int steps = 0;
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);

    (void)state;
    settings.density = 0.1;
    training_open(&t, "count=1:", settings);
    for (; steps < 60; steps++) {
        draw(&t, 0, (uint64_t)steps, 1);
        for (int r = 0; r < P; r++)
            for (size_t i = 0; i < N; i++)
                if ((i < N / 2) == (steps % 2 == 0)) /* the one large where the other is small */
                    t.gradient[0][r][i] *= 1e-3f;
        call(&t, 0, false);
        expect_conservation(&t, steps + 1);
    }
    for (int r = 0; r < P; r++) {
        assert_int_equal(tensor_of(&t, r, 0)->state, SS_TENSOR_EXACT);
        assert_int_equal(tensor_of(&t, r, 0)->reason, SS_TENSOR_PROFILE);
    }
    training_close(&t);
}

static void set_network(struct training *t, double alpha, double beta, double density)
{
    for (int r = 0; r < P; r++) {
        t->job.settings[r].density = density;
        t->job.settings[r].algorithm = SS_AUTO;
        t->job.settings[r].alpha = alpha;
        t->job.settings[r].beta = beta;
    }
}

static unsigned backed_off(const struct training *t)
{
    return ss_comm_call(t->job.comm[0])->reason == SS_WHY_BACKED_OFF;
}

/* A network so fast, and a density so high, that dense is faster for good; then one so slow that
 * top-k is. */
static void where_dense_is_faster_the_residual_drains_and_the_lane_backs_off(void **state)
{
    static struct training t;
    unsigned off = 0, last = 0;
    int step = 0, sparse = 0;

    (void)state;
    training_open(&t, "count=1:", settings_of(SS_SPLIT_ALLGATHER));
    for (; step < 20; step++) {
        draw(&t, 0, (uint64_t)step, 1);
        assert_int_equal(call(&t, 0, false), SS_OK);
    }
    assert_true(residual_norm(&t, 0) > 0);
    set_network(&t, 0, 0, 0.9);
    for (; step < 220; step++) {
        draw(&t, 0, (uint64_t)step, 1);
        assert_int_equal(call(&t, 0, step % 2), SS_NATIVE);
        off += backed_off(&t);
        last += step >= 120 && backed_off(&t);
        assert_true(!backed_off(&t) || residual_norm(&t, 0) == 0);
        expect_conservation(&t, step + 1);
    }
    assert_true(off > 100);
    assert_true(last >= 97);
    assert_int_equal(tensor_of(&t, 0, 0)->state, SS_TENSOR_REGISTERED);
    set_network(&t, 1e-5, 1e-6, 0.01);
    for (; step < 400; step++) {
        draw(&t, 0, (uint64_t)step, 1);
        sparse += call(&t, 0, step % 2) == SS_OK;
        expect_conservation(&t, step + 1);
    }
    assert_true(sparse > 100);
    training_close(&t);
}

/* ---- loss scale ---- */

static void scaled_training(struct training *t, const int *exponent, const bool *overflow,
                            int steps, int tensors)
{
    for (int step = 0; step < steps; step++)
        for (int i = 0; i < tensors; i++) {
            double scale = ldexp(1, exponent[step]);
            t->unit = 1 / scale;
            draw(t, i, (uint64_t)step, scale);
            if (overflow[step]) {
                double unit = t->unit;
                t->unit = 0;
                t->gradient[i][1][17] = INFINITY;
                for (int r = 0; r < P; r++)
                    t->job.in[r] = t->gradient[i][r];
                for (int r = 0; r < P; r++)
                    t->job.out[r] = t->out[i][r];
                assert_true(job_call(&t->job, SS_F32, SS_SUM, t->n[i]));
                assert_int_equal(t->job.status[0], SS_NATIVE);
                t->unit = unit;
                continue;
            }
            assert_int_equal(call(t, i, false), SS_OK);
        }
}

enum { SCALED = 32 };

static void a_halved_loss_scale_takes_the_residual_along(void **state)
{
    static struct training t, plain;
    int exponent[SCALED];
    bool overflow[SCALED] = {false};
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);

    (void)state;
    settings.residual_scale = true;
    for (int i = 0; i < SCALED; i++)
        exponent[i] = i < 10 ? 12 : i < 15 ? 11 : 9;
    overflow[9] = overflow[14] = true;
    for (int tensors = 1; tensors <= MOST_TENSORS; tensors++) {
        training_open(&t, "count=1:", settings);
        training_open(&plain, "count=1:", settings);
        scaled_training(&t, exponent, overflow, SCALED, tensors);
        for (int i = 0; i < SCALED; i++) /* the same without the calls that were skipped */
            if (!overflow[i])
                for (int k = 0; k < tensors; k++) {
                    draw(&plain, k, (uint64_t)i, 1);
                    assert_int_equal(call(&plain, k, false), SS_OK);
                }
        for (int k = 0; k < tensors; k++)
            for (int r = 0; r < P; r++) {
                const float *a = tensor_of(&t, r, k)->residual.values.data;
                const float *b = tensor_of(&plain, r, k)->residual.values.data;
                for (size_t i = 0; i < t.n[k]; i++)
                    assert_float_equal(a[i] / 512, b[i], 1e-5);
            }
        expect_conservation(&t, SCALED);
        training_close(&t);
        training_close(&plain);
    }
}

/* Norms may do what they like as long as all is finite. */
static void without_an_overflow_no_residual_is_scaled(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);

    (void)state;
    settings.residual_scale = true;
    training_open(&t, "count=1:", settings);
    for (int step = 0; step < SCALED; step++)
        for (int k = 0; k < 2; k++) {
            draw(&t, k, (uint64_t)step, step < 8 ? 4 : step < 16 ? 2 : 8);
            assert_int_equal(call(&t, k, false), SS_OK);
        }
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < P; r++)
            assert_int_equal(tensor_of(&t, r, k)->scale.by, 0);
    expect_conservation(&t, SCALED);
    training_close(&t);
}

/* An input whose norm fluctuates by about `spread`. */
static void draw_fluctuating(struct training *t, int tensor, int step, double spread, double scale)
{
    double u = (double)(mix((uint64_t)(step * 31 + tensor)) >> 11) / 9007199254740992.0;

    draw(t, tensor, (uint64_t)step, scale * pow(1 + spread, 2 * u - 1));
}

static void overflow_call(struct training *t, int tensor)
{
    t->gradient[tensor][2][5] = INFINITY;
    for (int r = 0; r < P; r++) {
        t->job.in[r] = t->gradient[tensor][r];
        t->job.out[r] = t->out[tensor][r];
    }
    assert_true(job_call(&t->job, SS_F32, SS_SUM, t->n[tensor]));
    assert_int_equal(t->job.status[0], SS_NATIVE);
}

/* Tensor 0 has one loss scaler, the others another; that of tensor `over` overflows now and then
 * and halves its scale, a quarter once. */
static void check_two_scalers(int over, double spread)
{
    enum { LONG = 60 };
    static struct training t;
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);
    int exponent[2] = {9, 13}, begin = exponent[over > 0];

    settings.residual_scale = true;
    training_open(&t, "count=1:", settings);
    for (int step = 0; step < LONG; step++) {
        bool overflows = step % 20 == 15;
        for (int k = 0; k < MOST_TENSORS; k++) {
            double scale = ldexp(1, exponent[k > 0]);
            t.unit = 1 / scale;
            draw_fluctuating(&t, k, step, spread, scale);
            if (overflows && k == over)
                overflow_call(&t, k);
            else
                call(&t, k, false);
        }
        if (overflows)
            exponent[over > 0] -= step == 35 ? 2 : 1;
    }
    for (int k = 0; k < MOST_TENSORS; k++)
        for (int r = 0; r < P; r++)
            assert_int_equal(tensor_of(&t, r, k)->scale.by,
                             (k > 0) == (over > 0) ? exponent[over > 0] - begin : 0);
    t.unit = ldexp(1, -exponent[0]);
    expect_conservation(&t, LONG);
    training_close(&t);
}

static void with_two_loss_scalers_each_tensor_follows_its_own(void **state)
{
    (void)state;
    for (int over = 0; over < MOST_TENSORS; over++) {
        check_two_scalers(over, 0.02);
        check_two_scalers(over, 0.2);
    }
}

/* It fluctuates more than a halving shows: nothing is scaled, and nothing is lost. */
static void what_cannot_be_told_is_not_scaled(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);
    char text[400];

    (void)state;
    settings.residual_scale = true;
    training_open(&t, "count=1:", settings);
    for (int step = 0; step < SCALED; step++) {
        draw_fluctuating(&t, 0, step, 30, 1);
        if (step == 11)
            overflow_call(&t, 0);
        else
            call(&t, 0, false);
    }
    assert_int_equal(t.native, SS_LEVELS);
    assert_int_equal(tensor_of(&t, 0, 0)->scale.by, 0);
    expect_conservation(&t, SCALED);
    assert_true(ss_comm_warning(t.job.comm[0], text, sizeof text, &(bool){false}));
    assert_non_null(strstr(text, "fluctuate"));
    training_close(&t);
}

static void the_first_inf_under_off_names_the_option(void **state)
{
    static struct training t;
    char text[400];

    (void)state;
    training_open(&t, "count=1:", settings_of(SS_SPLIT_ALLGATHER));
    for (int step = 0; step < SCALED; step++) {
        draw(&t, 0, (uint64_t)step, step < 12 ? 2 : 1);
        if (step % 8 == 4)
            overflow_call(&t, 0);
        else
            assert_int_equal(call(&t, 0, false), SS_OK);
        bool told = ss_comm_warning(t.job.comm[0], text, sizeof text, &(bool){false});
        assert_int_equal(told, step == 4);
        assert_true(!told || strstr(text, "SPARSESHIM_RESIDUAL_SCALE=auto"));
    }
    expect_conservation(&t, SCALED);
    training_close(&t);
}

static void one_tensor_that_jumps_alone_keeps_its_residual(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);

    (void)state;
    settings.residual_scale = true;
    training_open(&t, "count=1:", settings);
    for (int step = 0; step < SCALED; step++) {
        draw(&t, 0, (uint64_t)step, step < 12 ? 1 : 2);
        call(&t, 0, false);
        draw(&t, 1, (uint64_t)step, 1);
        call(&t, 1, false);
    }
    assert_int_equal(tensor_of(&t, 0, 0)->scale.by, 0);
    expect_conservation(&t, SCALED);
    training_close(&t);
}

static void a_tensor_that_joins_after_an_overflow_leaves_the_others_alone(void **state)
{
    static struct training t;
    int exponent[SCALED];
    bool overflow[SCALED] = {false};
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);

    (void)state;
    settings.residual_scale = true;
    for (int i = 0; i < SCALED; i++)
        exponent[i] = i < 10 ? 12 : 11;
    overflow[9] = true;
    training_open(&t, "count=1:", settings);
    scaled_training(&t, exponent, overflow, 14, 2);
    for (int k = 0; k < 2; k++)
        assert_int_equal(tensor_of(&t, 0, k)->scale.by, -1);
    scaled_training(&t, exponent + 14, overflow + 14, 6, 3);
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < P; r++)
            assert_int_equal(tensor_of(&t, r, k)->scale.by, -1);
    expect_conservation(&t, 20);
    training_close(&t);
}

static void a_residual_scaled_by_hand_is_not_scaled_again(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);
    double half = 0.5;

    (void)state;
    settings.residual_scale = true;
    training_open(&t, "count=1:", settings);
    for (int step = 0; step < SCALED; step++) {
        if (step == 12)
            for (int r = 0; r < P; r++)
                ss_residual_scale(tensor_of(&t, r, 0), half);
        t.unit = step < 12 ? 1 : 1 / half;
        draw(&t, 0, (uint64_t)step, step < 12 ? 1 : half);
        call(&t, 0, false);
    }
    assert_int_equal(tensor_of(&t, 0, 0)->scale.by, 0);
    expect_conservation(&t, SCALED);
    training_close(&t);
}

static void one_rank_that_is_off_does_not_stop_the_others(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);

    (void)state;
    settings.residual_scale = true;
    training_open(&t, "count=1:", settings);
    for (int step = 0; step < SCALED; step++) {
        double scale = step < 12 ? 2 : 1;
        t.unit = 1 / scale;
        draw(&t, 0, (uint64_t)step, scale);
        if (step >= 12)
            for (size_t i = 0; i < N; i++)
                t.gradient[0][1][i] *= 0.6f; /* its batches have become easier as well */
        if (step == 11)
            t.gradient[0][2][5] = INFINITY;
        if (step == 11) {
            t.unit = 0;
            for (int r = 0; r < P; r++) {
                t.job.in[r] = t.gradient[0][r];
                t.job.out[r] = t.out[0][r];
            }
            assert_true(job_call(&t.job, SS_F32, SS_SUM, N));
            assert_int_equal(t.job.status[0], SS_NATIVE);
            continue;
        }
        call(&t, 0, false);
    }
    for (int r = 0; r < P; r++)
        assert_int_equal(tensor_of(&t, r, 0)->scale.by, -1);
    expect_conservation(&t, SCALED);
    training_close(&t);
}

static void ranks_of_which_one_keeps_everything_go_native(void **state)
{
    static struct training t;
    struct ss_rules *all = NULL;
    char error[200];

    (void)state;
    training_open(&t, "count=1:", settings_of(SS_SPLIT_ALLGATHER));
    assert_int_equal(ss_rules_parse("count=1::keep=last:6007", true, &all, error, sizeof error),
                     SS_OK);
    t.job.settings[1].tensors.include = all;
    for (int step = 0; step < 3; step++) {
        draw(&t, 0, (uint64_t)step, 1);
        assert_int_equal(call(&t, 0, false), SS_NATIVE);
    }
    expect_conservation(&t, 3);
    training_close(&t);
    ss_rules_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_elements_arrive_exactly),
        cmocka_unit_test(a_kept_element_that_is_not_finite_passes),
        cmocka_unit_test(a_rule_names_the_collective),
        cmocka_unit_test(a_dense_call_lets_a_large_residual_go_slowly),
        cmocka_unit_test(a_tensor_that_turns_exact_sends_its_residual),
        cmocka_unit_test(where_dense_is_faster_the_residual_drains_and_the_lane_backs_off),
        cmocka_unit_test(buffers_that_hold_different_tensors_in_turn_go_exact),
        cmocka_unit_test(a_halved_loss_scale_takes_the_residual_along),
        cmocka_unit_test(without_an_overflow_no_residual_is_scaled),
        cmocka_unit_test(with_two_loss_scalers_each_tensor_follows_its_own),
        cmocka_unit_test(what_cannot_be_told_is_not_scaled),
        cmocka_unit_test(the_first_inf_under_off_names_the_option),
        cmocka_unit_test(one_tensor_that_jumps_alone_keeps_its_residual),
        cmocka_unit_test(a_tensor_that_joins_after_an_overflow_leaves_the_others_alone),
        cmocka_unit_test(a_residual_scaled_by_hand_is_not_scaled_again),
        cmocka_unit_test(one_rank_that_is_off_does_not_stop_the_others),
        cmocka_unit_test(ranks_of_which_one_keeps_everything_go_native),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
