/* The O(k) sparse allreduce: what it computes, and that nothing is lost in it. */
#include "tests/unit/support/oktopk_job.h"

/* The definition (section 3.1), densely: claims of |gradient + residual| >= local threshold, added
 * in the order of the ranks; those >= global threshold are the result; other claims return. */
static void a_call_computes_what_the_thresholds_say(void **state)
{
    static struct training t;
    static float claims[MAX_P][N], rest[MAX_P][N], sum[N];

    (void)state;
    for (int size = 2; size <= MAX_P; size++) {
        training_open(&t, size, SS_F32, N, 0, settings_of(0.02));
        for (int s = 0; s < STEPS; s++) {
            draw(&t, 1);
            for (int r = 0; r < size; r++)
                for (size_t i = 0; i < N; i++) {
                    const float *left = training_residual(&t, r);
                    rest[r][i] = ((float *)t.gradient[r])[i] + (left ? left[i] : 0);
                }
            training_step(&t, false);
            memset(sum, 0, sizeof sum);
            for (int r = 0; r < size; r++) {
                ss_magnitude local = tensor_of(&t, r)->threshold.magnitude;
                for (size_t i = 0; i < N; i++) {
                    claims[r][i] =
                        ss_magnitude_of(SS_F32, (double)rest[r][i]) >= local ? rest[r][i] : 0;
                    sum[i] += claims[r][i];
                }
            }
            ss_magnitude global = tensor_of(&t, 0)->agreed.global.magnitude;
            for (size_t i = 0; i < N; i++) {
                bool selected = sum[i] != 0 && ss_magnitude_of(SS_F32, (double)sum[i]) >= global;
                assert_true(((float *)t.job.out[0])[i] == (selected ? sum[i] : 0));
                for (int r = 0; r < size; r++) {
                    float left = selected && claims[r][i] != 0 ? 0 : rest[r][i];
                    assert_true(((const float *)training_residual(&t, r))[i] == left);
                }
            }
        }
        assert_int_equal(t.native, 0);
        training_close(&t);
    }
}

/* Found every 8 calls (tau'), in between it follows gradients that differ by up to two thirds;
 * one that grows more has it found anew in the same call. */
static void follow_and_find(enum ss_type type)
{
    enum { GROWING = 80, KEPT = 64 };
    static struct training t;
    const size_t n = 20000, k = 1000;
    uint64_t exact = 0;
    double off = 0;

    training_open(&t, 4, type, n, 0, settings_of(0.05));
    for (int s = 0; s < GROWING + KEPT; s++) {
        if (s == GROWING) /* by now the residuals have stopped growing */
            exact = tensor_of(&t, 0)->agreed.global.exact_calls;
        draw(&t, 0.75 + 0.0625 * (s * 5 % 9));
        training_step(&t, false);
        assert_in_range(selected(&t), s < 8 ? 1 : k / 2, 4 * k / 3);
        if (s >= GROWING)
            off += fabs((double)selected(&t) - (double)k) / (double)k / KEPT;
    }
    struct ss_threshold *global = &tensor_of(&t, 0)->agreed.global;
    print_message("# mean |selected - k| / k: %.3f, found %d times in %d calls\n", off,
                  (int)(global->exact_calls - exact), KEPT);
    assert_true(off < 0.11);
    assert_in_range(global->exact_calls - exact, KEPT / 8, KEPT / 4);

    while (ss_threshold_due(global, global->k)) {
        draw(&t, 1);
        training_step(&t, false);
    }
    exact = global->exact_calls;
    draw(&t, 64);
    training_step(&t, false);
    assert_int_equal(global->exact_calls, exact + 1);
    assert_int_equal(selected(&t), k);
    training_close(&t);
}

static void the_global_threshold_is_kept_and_found_anew(void **state)
{
    (void)state;
    follow_and_find(SS_F32);
    follow_and_find(SS_F64);
}

/* Small whole numbers, as counts of words are, or as many times the smallest number there is: of
 * the ties around the threshold as many are taken as there is room for. */
static void ties_around_the_kept_threshold_are_cut(void **state)
{
    static struct training t;
    const size_t n = 20000, k = 1000;

    (void)state;
    for (int form = 0; form < 12; form++) {
        const int size = 2 + form / 4 * 3;
        const enum ss_type type = form & 1 ? SS_F64 : SS_F32;
        const double unit = !(form & 2) ? 1 : type == SS_F32 ? 0x1p-149 : 0x1p-1074;
        struct ss_settings settings = settings_of(0.05);
        settings.tensors.threshold_period = 1000;
        training_open(&t, size, type, n, 0, settings);
        for (int s = 0; s < STEPS; s++) {
            for (int r = 0; r < size; r++)
                for (size_t i = 0; i < n; i++) {
                    uint64_t h = mix((uint64_t)s * 31 + (uint64_t)r * 7919 + i * 104729);
                    put(type, t.gradient[r], i, unit * ((double)(h % 5) - 2));
                }
            training_step(&t, false);
            if (s > 0)
                assert_in_range(selected(&t), k - k / 8, k + k / 8);
        }
        assert_true(tensor_of(&t, 0)->agreed.global.exact_calls < STEPS / 2);
        for (int r = 1; r < size; r++)
            assert_memory_equal(t.job.out[r], t.job.out[0], n * ss_type_size(type));
        expect_balance(&t);
        training_close(&t);
    }
}

/* Too few at the kept threshold and at those around it: all ranks know, and the next call finds it
 * anew. */
static void too_few_have_the_threshold_found_at_the_next_call(void **state)
{
    static struct training t;
    const float scales[10] = {1, 0x1p20F, 0x1p40F, 0x1p60F};

    (void)state;
    struct ss_settings settings = settings_of(0.01);
    settings.tensors.threshold_period = 1000;
    training_open(&t, 4, SS_F32, 60000, 0, settings);
    for (int s = 0; s < 4; s++) {
        for (int r = 0; r < 4; r++)
            for (size_t i = 0; i < t.n; i++)
                ((float *)t.gradient[r])[i] =
                    scales[i % 10] * (1 + (float)(i * 7919 % 65521) / 65521);
        training_step(&t, false);
    }
    memset(t.gradient[0], 0, t.n * sizeof(float));
    for (int r = 1; r < 4; r++)
        t.gradient[r] = memcpy(t.gradient[r], t.gradient[0], t.n * sizeof(float));
    struct ss_threshold *global = &tensor_of(&t, 0)->agreed.global;
    int few = 0;
    for (int s = 0; s < 60 && few < 3; s++) {
        bool due = global->reevaluate;
        uint64_t exact = global->exact_calls;
        training_step(&t, false);
        assert_int_equal(global->exact_calls > exact, due);
        if (due)
            assert_int_equal(selected(&t), 600);
        few += selected(&t) < 300;
        assert_int_equal(global->reevaluate, selected(&t) < 300);
    }
    assert_int_equal(few, 3);
    expect_conservation(&t, "oktopk");
    training_close(&t);
}

/* Equal values where no order can be told: the set takes k of them. */
static void of_equal_entries_too_many_the_first_are_taken(void **state)
{
    static struct training t;

    (void)state;
    for (int form = 0; form < 2 * (MAX_P - 1); form++) {
        const int size = 2 + form / 2;
        const enum ss_type type = size % 2 ? SS_F32 : SS_F64;
        const double value = form % 2 == 0 ? 0.5 : type == SS_F32 ? 0x1p-149 : 0x1p-1074;
        training_open(&t, size, type, N, 0, settings_of(0.01));
        size_t k = (size_t)(0.01 * N + 0.5);
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < N; i++)
                put(t.type, t.gradient[r], i, (int)(i % (size_t)size) == r ? value : 0);
        training_step(&t, false);
        assert_int_equal(selected(&t), k);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(get(t.type, t.job.out[0], i) != 0, i < k);
        for (int s = 0; s < 5; s++)
            training_step(&t, false);
        expect_balance(&t);
        training_close(&t);
    }
}

/* Fewer entries than k: all of them. */
static void few_entries_all_arrive(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, 5, SS_F32, N, 0, settings_of(0.01));
    for (int s = 0; s < 12; s++) {
        for (int r = 0; r < 5; r++) {
            memset(t.gradient[r], 0, N * sizeof(float));
            for (size_t i = 0; i < 7; i++)
                put(SS_F32, t.gradient[r], (i * 631 + (size_t)(s * r)) % N, 1.5);
        }
        training_step(&t, false);
        for (int r = 0; r < 5; r++)
            for (size_t i = 0; i < N; i++)
                assert_true(((const float *)training_residual(&t, r))[i] == 0);
    }
    training_close(&t);
}

/* Claims that cancel exactly, larger than all else, do not keep the rest from arriving. */
static void what_cancels_does_not_mask_the_rest(void **state)
{
    static struct training t;

    (void)state;
    for (size_t masks = 20; masks <= 200; masks += 60) {
        training_open(&t, 4, SS_F32, N, 0, settings_of(0.01));
        draw(&t, 1);
        for (int r = 0; r < 4; r++)
            for (size_t i = 0; i < masks; i++)
                put(SS_F32, t.gradient[r], i * 29, r % 2 ? 512 : -512);
        training_step(&t, false);
        draw(&t, 0);
        for (int s = 0; s < 1000; s++)
            training_step(&t, false);
        for (int r = 0; r < 4; r++)
            for (size_t i = 0; i < N; i++)
                assert_true(((const float *)training_residual(&t, r))[i] == 0);
        expect_conservation(&t, "oktopk");
        training_close(&t);
    }
}

static void a_first_call_without_entries_has_parts(void **state)
{
    static struct training t;

    (void)state;
    for (int size = 2; size <= MAX_P; size++) {
        training_open(&t, size, SS_F32, N, 0, settings_of(0.01));
        for (int s = 0; s < 4; s++) {
            draw(&t, s < 2 ? 0 : 1);
            training_step(&t, false);
            for (int r = 0; r < size; r++) {
                const uint32_t *bounds = tensor_of(&t, r)->agreed.bounds.data;
                assert_int_equal(bounds[0], 0);
                assert_int_equal(bounds[size], N);
                for (int i = 0; i < size; i++)
                    assert_true(bounds[i] <= bounds[i + 1]);
            }
        }
        expect_conservation(&t, "oktopk");
        training_close(&t);
    }
}

/* What all ranks share has come to differ, in any part: the vote sees it, all begin anew. */
static void state_that_differs_is_made_anew_by_all(void **state)
{
    static struct training t;

    (void)state;
    for (int what = 0; what < 4; what++) {
        training_open(&t, 5, SS_F32, N, 0, settings_of(0.02));
        for (int s = 0; s < 6; s++) {
            draw(&t, 1);
            training_step(&t, false);
        }
        struct ss_agreed *a = &tensor_of(&t, 3)->agreed;
        uint32_t *bounds = a->bounds.data;
        if (what == 0)
            bounds[2]++;
        else if (what == 1)
            a->calls += 3;
        else if (what == 2)
            a->global.magnitude++;
        else
            ss_agreed_forget(a);
        for (int s = 0; s < 3; s++) {
            draw(&t, 1);
            training_step(&t, false);
            for (int r = 0; r < 5; r++) {
                const struct ss_agreed *other = &tensor_of(&t, r)->agreed;
                assert_int_equal(other->calls, s + 1);
                assert_int_equal(other->partition_call, 1);
                assert_int_equal(ss_agreed_hash(other, 5), ss_agreed_hash(a, 5));
            }
        }
        expect_conservation(&t, "oktopk");
        training_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_call_without_entries_has_parts),
        cmocka_unit_test(a_call_computes_what_the_thresholds_say),
        cmocka_unit_test(the_global_threshold_is_kept_and_found_anew),
        cmocka_unit_test(ties_around_the_kept_threshold_are_cut),
        cmocka_unit_test(too_few_have_the_threshold_found_at_the_next_call),
        cmocka_unit_test(of_equal_entries_too_many_the_first_are_taken),
        cmocka_unit_test(few_entries_all_arrive),
        cmocka_unit_test(what_cancels_does_not_mask_the_rest),
        cmocka_unit_test(state_that_differs_is_made_anew_by_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
