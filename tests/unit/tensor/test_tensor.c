/* Each gradient is one tensor, and residuals stay with theirs. */
#include "core/call/tensor_access.h"
#include "core/tensor/residual.h"
#include "core/tensor/tensor_impl.h"
#include "tests/unit/support/tensor_job.h"

/* ---- residuals ---- */

static void fill_residual(struct job *job, struct ss_tensor *t, double *sum, double *size)
{
    assert_int_equal(t->state, SS_TENSOR_REGISTERED);
    for (size_t i = 0; i < t->n; i++) {
        float x = (float)noise(job);
        ((float *)t->residual.values.data)[i] += x;
        sum[i] += (double)x;
        size[i] += fabs((double)x);
    }
}

static void sum_residuals(const struct job *job, double *sum)
{
    memset(sum, 0, N * sizeof *sum);
    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        for (size_t i = 0; t->residual.values.data && i < t->n; i++)
            sum[i] += (double)((float *)t->residual.values.data)[i];
}

static void assert_conserved(const struct job *job, const double *sum, const double *size,
                             double roundings)
{
    double now[N];

    sum_residuals(job, now);
    for (size_t i = 0; i < N; i++)
        assert_true(fabs(now[i] - sum[i]) <= roundings * (double)FLT_EPSILON * size[i]);
}

static unsigned residuals_of(const struct job *job)
{
    unsigned count = 0;

    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        count += t->residual.values.data != NULL;
    return count;
}

static void tensors_without_residual_make_way(void **state)
{
    struct job *job = job_open(1, "site=*");
    size_t count = 0;

    (void)state;
    for (uintptr_t step = 1; step < 5000; step++)
        at(job, 0, 64 * step);
    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        count++;
    assert_true(count <= 1024);
    job_close(job);
}

static void each_layer_of_a_long_step_has_its_residual(void **state)
{
    struct job *job = job_open(1, "count=1000:calls=101");

    (void)state;
    for (int call = 0; call < 100 * 101; call++)
        at(job, 0, 64);
    assert_int_equal(residuals_of(job), 101);
    for (const struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        assert_true(t->registered_calls >= 96);
    job_close(job);
}

/* Shapes that come three times each, in lanes that are given to others later. */
static void what_does_not_recur_goes_away(void **state)
{
    struct job *job = job_open(1, "*:calls=1");
    struct shape call = {.address = {job}, .type = SS_F32};

    (void)state;
    for (uint32_t i = 0; i < 6000; i++) {
        call.lane = 1 + i / 3 % 100;
        call.n = 1000 + i / 3;
        for (uint32_t lane = 1; i % 300 == 0 && lane <= 100; lane++)
            ss_tensors_forget_lane(job->tensors[0], lane);
        go(job, &call);
        assert_true(atomic_load(&job->mem[0].used) < (size_t)4 << 20);
        assert_true(residuals_of(job) <= 100);
    }
    job_close(job);
}

/* Layers that are frozen for long, and then come again. */
static void the_residual_of_a_frozen_layer_goes_to_no_other(void **state)
{
    struct job *job = job_open(1, "count=1000");
    const struct ss_tensor *layers[4] = {NULL};
    double sum[N] = {0}, size[N] = {0};

    (void)state;
    for (int step = 0; step < 300; step++)
        for (uintptr_t k = step >= 50 && step < 250 ? 2 : 0; k < 4; k++) {
            struct ss_tensor *t = at(job, 0, 64 * (k + 1));
            if (!ss_tensor_lossy(t))
                continue;
            assert_true(!layers[k] || layers[k] == t);
            layers[k] = t;
            fill_residual(job, t, sum, size);
            assert_conserved(job, sum, size, 300);
        }
    assert_int_equal(residuals_of(job), 4);
    for (int k = 0; k < 4; k++)
        assert_int_equal(layers[k]->state, SS_TENSOR_REGISTERED);
    job_close(job);
}

/* As in the next phase of a program. */
static void a_tensor_may_be_called_from_anywhere(void **state)
{
    struct job *job = job_open(1, "site=app*:calls=1");
    struct shape call = {.place = "app+0x10", .address = {job}, .n = N, .type = SS_F32};
    const struct ss_tensor *t = go(job, &call);

    (void)state;
    for (int step = 0; step < 100; step++) {
        call.place = step % 3 ? "app+0x20" : "app+0x10";
        assert_ptr_equal(go(job, &call), t);
    }
    assert_int_equal(residuals_of(job), 1);
    job_close(job);
}

/* Two networks with rules of their own, one of which trains first and is then rare. */
static void gradients_of_two_rules_keep_their_residuals(void **state)
{
    struct job *job = job_open(1, "site=first:calls=1;site=second:calls=1");
    const struct shape first = {.place = "first", .address = {job}, .n = N, .type = SS_F32};
    const struct shape second = {.place = "second", .address = {job}, .n = N, .type = SS_F32};
    const struct ss_tensor *t = go(job, &first);

    (void)state;
    for (int step = 0; step < 200; step++)
        assert_ptr_not_equal(go(job, &second), t);
    assert_non_null(t->residual.values.data);
    job_close(job);
}

static void a_lane_is_of_interest_while_a_tensor_of_it_is(void **state)
{
    struct job *job = job_open(1, "site=first;site=second");
    const struct shape first = {.place = "first", .address = {job}, .n = N, .type = SS_F32};
    const struct shape second = {.place = "second", .address = {job}, .n = N, .type = SS_F32};
    struct ss_tensor *exact = go(job, &first);

    (void)state;
    ss_tensor_settle(exact, false, SS_TENSOR_TYPE);
    assert_false(ss_tensor_lane_interest(exact));
    struct ss_tensor *candidate = go(job, &second);
    assert_int_equal(candidate->state, SS_TENSOR_CANDIDATE);
    assert_true(ss_tensor_lane_interest(exact));
    for (int call = 0; call < 64; call++)
        go(job, &first);
    assert_true(ss_tensor_lane_interest(exact));
    for (int call = 0; call < 200; call++)
        go(job, &first);
    assert_false(ss_tensor_lane_interest(exact)); /* the candidate is called no more */
    ss_tensor_settle(candidate, true, SS_TENSOR_NONE);
    assert_false(ss_tensor_lane_interest(exact)); /* nothing was claimed yet */
    candidate->rest = SS_AWAKE;
    assert_true(ss_tensor_lane_interest(exact)); /* as long as it may be called again */
    ss_tensor_settle(candidate, false, SS_TENSOR_GUARDED);
    assert_false(ss_tensor_lane_interest(exact));
    job_close(job);
}

static void past_the_memory_limit_tensors_stay_exact_everywhere(void **state)
{
    struct job *job = job_open(2, "site=*:calls=1");

    (void)state;
    job->mem[0].limit = N * 4 + 64;
    struct ss_tensor *fits = at(job, 0, 64), *late = at(job, 1, 128);
    assert_int_equal(fits->state, SS_TENSOR_REGISTERED);
    assert_int_equal(late->state, SS_TENSOR_EXACT);
    assert_int_equal(late->reason, SS_TENSOR_MEMORY);
    for (int step = 0; step < 10; step++)
        at(job, 1, 128);
    struct ss_tensor *other = ss_tensors_first(job->tensors[1]);
    assert_int_equal(other->lane, 1);
    assert_int_equal(other->state, SS_TENSOR_EXACT);
    assert_int_equal(other->reason, SS_TENSOR_OTHERS);
    job_close(job);
}

static const struct ss_tensor *at_identified(struct job *job, uint32_t position, bool same_memory)
{
    static float memory[2][2];
    struct shape call = {.n = N, .type = SS_F32};

    for (size_t r = 0; r < 2; r++) {
        call.address[r] = &memory[r][same_memory ? 0 : position % 2];
        ss_registry_add(
            job->settings.registry,
            &(struct ss_registered){.buffer = call.address[r], .count = N, .position = position});
    }
    return go(job, &call);
}

static void identified_buffers_are_tensors_by_their_positions(void **state)
{
    struct job *job = job_open(2, "ddp");
    struct ss_registry registry;
    static float other[1];

    (void)state;
    ss_registry_init(&registry);
    job->settings.registry = &registry;
    const struct ss_tensor *first = at_identified(job, 1, false);
    assert_int_equal(first->state, SS_TENSOR_REGISTERED);
    assert_ptr_not_equal(at_identified(job, 2, false), first);
    assert_ptr_equal(at_identified(job, 1, false), first);
    assert_ptr_equal(at_identified(job, 1, true), first); /* wherever it lies */
    const struct ss_tensor *third = at_identified(job, 3, true);
    assert_ptr_not_equal(third, first); /* in the memory of another */
    assert_int_equal(third->state, SS_TENSOR_REGISTERED);
    assert_int_equal(at(job, 0, (uintptr_t)other)->reason, SS_TENSOR_NO_RULE);
    assert_int_equal(residuals_of(job), 3);
    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        assert_int_equal(ss_tensor_withdraw(t, NULL), SS_OK);
    assert_int_equal(residuals_of(job), 0);
    job_close(job);
    free(registry.list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_without_residual_make_way),
        cmocka_unit_test(each_layer_of_a_long_step_has_its_residual),
        cmocka_unit_test(what_does_not_recur_goes_away),
        cmocka_unit_test(the_residual_of_a_frozen_layer_goes_to_no_other),
        cmocka_unit_test(a_tensor_may_be_called_from_anywhere),
        cmocka_unit_test(gradients_of_two_rules_keep_their_residuals),
        cmocka_unit_test(past_the_memory_limit_tensors_stay_exact_everywhere),
        cmocka_unit_test(identified_buffers_are_tensors_by_their_positions),
        cmocka_unit_test(a_lane_is_of_interest_while_a_tensor_of_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
