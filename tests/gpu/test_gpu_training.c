/* Trainings whose ranks have their buffers on devices, or some of them: results and residuals are
 * those of ranks with ordinary buffers, bit for bit. */
#include "tests/gpu/gpu_ranks.h"
#include "tests/unit/support/backend_training.h"

enum { STEPS = 24 };

static struct ss_backend *backend_of(int rank)
{
    return &gpu_rank(rank)->backend;
}

static struct backend_kind device_kind(void)
{
    gpu_ranks_driver();
    return (struct backend_kind){backend_of, gpu_rank_make, gpu_ranks_end, gpu_ranks.far};
}

/* Compares what GUARD and the threshold have seen. Sums of squares have an order of their own in
 * each backend. */
static void expect_like_sight(const struct training *near, const struct training *placed)
{
    const struct ss_tensor *t = ss_tensors_first(near->job.comm[0]->tensors),
                           *u = ss_tensors_first(placed->job.comm[0]->tensors);

    assert_true(!t == !u);
    if (!t)
        return;
    assert_int_equal(t->guarding.checks, u->guarding.checks);
    assert_true(fabs(t->guarding.cosine - u->guarding.cosine) <= 1e-9);
    assert_true(fabs(t->guarding.ratio - u->guarding.ratio) <= 1e-9 * t->guarding.ratio);
    assert_memory_equal(&t->threshold, &u->threshold, sizeof t->threshold);
}

static uint64_t train(const struct form *f, int size, unsigned hosts)
{
    static struct training near, placed;
    const struct backend_kind kind = device_kind();
    uint64_t checks;

    open_form(&near, f, size);
    open_form(&placed, f, size);
    backend_training(&placed, &kind, hosts);
    for (uint64_t s = 0; s < STEPS; s++) {
        step_alike(&near, &placed, s);
        expect_like_sight(&near, &placed);
    }
    gpu_ranks_finish();
    expect_same_residuals(&near, &placed);
    checks = ss_tensors_first(near.job.comm[0]->tensors)
                 ? ss_tensors_first(near.job.comm[0]->tensors)->guarding.checks
                 : 0;
    close_backends(&placed, &kind, hosts);
    training_close(&near);
    return checks;
}

static void trainings_are_the_same_bit_for_bit(void **state)
{
    const bool full = getenv("GPU_FULL"); /* else 2 and 3 ranks by turns */

    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        uint64_t checks = 0;
        if (full || f % 2 == 0)
            checks += train(&forms[f], 2, 0);
        if (full || f % 2 == 1)
            checks += train(&forms[f], 3, 2);
        assert_true(!forms[f].guard || checks > 0);
    }
}

static void a_residual_is_scaled_on_the_device(void **state)
{
    static struct training near, placed;

    (void)state;
    for (size_t f = 0; f < sizeof scaled_forms / sizeof scaled_forms[0]; f++) {
        const struct backend_kind kind = device_kind();
        open_form(&near, &scaled_forms[f], 2);
        open_form(&placed, &scaled_forms[f], 2);
        backend_training(&placed, &kind, 0);
        for (uint64_t s = 0; s < STEPS; s++)
            scaled_step_alike(&near, &placed, s);
        gpu_ranks_finish();
        expect_same_residuals(&near, &placed);
        close_backends(&placed, &kind, 0);
        training_close(&near);
    }
}

static void vectors_of_any_length_are_the_same_bit_for_bit(void **state)
{
    enum {
        FORMS = sizeof sized_forms / sizeof sized_forms[0],
        LENGTHS = sizeof sizes_of_vectors / sizeof sizes_of_vectors[0],
        SHORT_STEPS = 6
    };
    static struct training near, placed;

    (void)state;
    for (size_t c = 0; c < 2 * FORMS; c++) {
        const struct backend_kind kind = device_kind();
        const struct form *f = &sized_forms[c / 2];
        const size_t n = sizes_of_vectors[3 * c % LENGTHS];
        const enum ss_type type = c % 2 ? SS_F64 : SS_F32;
        const int size = 3 + (int)(c % 3);
        open_form_of(&near, f, size, type, n);
        open_form_of(&placed, f, size, type, n);
        backend_training(&placed, &kind, 2);
        for (uint64_t s = 0; s < SHORT_STEPS; s++)
            sized_step_alike(&near, &placed, s);
        gpu_ranks_finish();
        expect_same_residuals_of(&near, &placed);
        close_backends(&placed, &kind, 2);
        training_close(&near);
    }
}

/* Buffers that move from backend to backend, on one rank at other times than on others. */
static void a_residual_follows_its_buffers(void **state)
{
    static struct training near, moving;
    const struct backend_kind kind = device_kind();

    (void)state;
    open_form(&near, &forms[2], 3);
    open_form(&moving, &forms[2], 3);
    backend_training(&moving, &kind, 0);
    for (uint64_t s = 0; s < STEPS; s++) {
        for (int r = 0; r < 3; r++)
            moving.job.backend[r] = (s + (uint64_t)r) / 5 % 2 ? NULL : kind.backend(r);
        step_alike(&near, &moving, s);
    }
    gpu_ranks_finish();
    expect_same_residuals(&near, &moving);
    close_backends(&moving, &kind, 0);
    training_close(&near);
}

/* The rank whose device fails says so in its vote, or in the next one: then all ranks fail. */
static void a_device_that_fails_is_an_error_for_all(void **state)
{
    static struct training t;
    const struct backend_kind kind = device_kind();

    (void)state;
    for (unsigned at = 1; at < 200; at += 1 + at / 4) {
        char plan[100];
        bool over = false;
        open_form(&t, &forms[at % 3], 3);
        backend_training(&t, &kind, 5); /* rank 1 alone has one */
        (void)snprintf(plan, sizeof plan, "cuLaunchKernel:+%u:400", at);
        (void)setenv("TEST_CUDA_FAIL", plan, 1);
        for (uint64_t c = 0; c < 40 && !over; c++) {
            draw(&t, c);
            for (int r = 0; r < 3; r++)
                t.job.in[r] = t.gradient[r];
            assert_true(job_call(&t.job, SS_F32, SS_SUM, N));
            over = gpu_rank(1)->device.queue.error != 0;
            for (int r = 0; r < 3 && !over; r++)
                assert_true(t.job.status[r] >= 0);
        }
        assert_true(over);
        assert_true(job_call(&t.job, SS_F32, SS_SUM, N));
        for (int r = 0; r < 3; r++)
            assert_true(t.job.status[r] < 0);
        (void)unsetenv("TEST_CUDA_FAIL");
        close_backends(&t, &kind, 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainings_are_the_same_bit_for_bit),
        cmocka_unit_test(a_residual_is_scaled_on_the_device),
        cmocka_unit_test(vectors_of_any_length_are_the_same_bit_for_bit),
        cmocka_unit_test(a_residual_follows_its_buffers),
        cmocka_unit_test(a_device_that_fails_is_an_error_for_all),
    };
    return cmocka_run_group_tests_name("gpu_training", tests, NULL, NULL);
}
