/* Residuals outside of sparse calls: kept elements, dense calls, buffers that become exact, changes
 * of the loss scale. */
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
            settings.value_type = (enum ss_values)v;
            check_kept("count=1::calls=1:keep=last:5", N - 5, 5, settings);
            check_kept("count=1::calls=1:keep=first:70", 0, 70, settings);
        }
    }
    struct ss_settings buckets = settings_of(SS_SPLIT_ALLGATHER);
    buckets.k = 4;
    buckets.bucket = 512;
    check_kept("count=1::calls=1:keep=last:1", N - 1, 1, buckets);
}

static void a_kept_element_that_is_not_finite_passes(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, "count=1::calls=1:keep=last:1", settings_of(SS_SPLIT_ALLGATHER));
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
    training_open(
        &t, "count=6007:calls=1:algorithm=ring;count=6107:calls=1:algorithm=dsar;count=1::calls=1",
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
    training_open(&t, "count=1:,site=*:calls=1", settings_of(SS_SPLIT_ALLGATHER));
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
    training_open(&t, "count=1:,site=*:calls=1", settings_of(SS_RING));
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
    training_open(&t, "count=1:,site=*:calls=1", settings_of(SS_SPLIT_ALLGATHER));
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

enum { SCALED = 32 };

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

static void the_first_inf_says_what_to_do_about_a_loss_scale(void **state)
{
    static struct training t;
    char text[400];

    (void)state;
    training_open(&t, "count=1:,site=*:calls=1", settings_of(SS_SPLIT_ALLGATHER));
    for (int step = 0; step < SCALED; step++) {
        draw(&t, 0, (uint64_t)step, step < 12 ? 2 : 1);
        if (step % 8 == 4)
            overflow_call(&t, 0);
        else
            assert_int_equal(call(&t, 0, false), SS_OK);
        bool told = ss_comm_warning(t.job.comm[0], text, sizeof text, &(bool){false});
        assert_int_equal(told, step == 4);
        assert_true(!told || strstr(text, "sparseshim_scale_residual"));
    }
    expect_conservation(&t, SCALED);
    training_close(&t);
}

static void a_residual_scaled_by_hand_is_in_the_new_unit(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);
    double half = 0.5;

    (void)state;
    training_open(&t, "count=1:,site=*:calls=1", settings);
    for (int step = 0; step < SCALED; step++) {
        if (step == 12)
            for (int r = 0; r < P; r++)
                ss_residual_scale(tensor_of(&t, r, 0), half);
        t.unit = step < 12 ? 1 : 1 / half;
        draw(&t, 0, (uint64_t)step, step < 12 ? 1 : half);
        call(&t, 0, false);
    }
    expect_conservation(&t, SCALED);
    training_close(&t);
}

static void ranks_of_which_one_keeps_everything_go_native(void **state)
{
    static struct training t;
    struct ss_rules *all = NULL;
    char error[200];

    (void)state;
    training_open(&t, "count=1:,site=*:calls=1", settings_of(SS_SPLIT_ALLGATHER));
    assert_int_equal(
        ss_rules_parse("count=1::calls=1:keep=last:6007", true, &all, error, sizeof error), SS_OK);
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
        cmocka_unit_test(the_first_inf_says_what_to_do_about_a_loss_scale),
        cmocka_unit_test(a_residual_scaled_by_hand_is_in_the_new_unit),
        cmocka_unit_test(ranks_of_which_one_keeps_everything_go_native),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
