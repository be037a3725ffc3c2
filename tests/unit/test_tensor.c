/* Each gradient is one tensor, and residuals stay with theirs. */
#include "core/tensor_impl.h"
#include "tests/unit/tensor_job.h"

static void each_identity_counts_what_it_says(void **state)
{
    static const struct {
        enum ss_identity identity;
        bool address, site, ordinal;
    } cases[] = {{SS_IDENTITY_AUTO, true, true, true},
                 {SS_IDENTITY_ADDRESS, true, false, false},
                 {SS_IDENTITY_SITE, false, true, false},
                 {SS_IDENTITY_ORDINAL, false, false, true}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job *job = job_open(1, cases[i].identity, 3, "auto");
        for (int step = 0; step < 3; step++) { /* a step of three calls: two of lane 0 */
            at(job, 0, 7, 64);
            at(job, 0, 7, 64);
            at(job, 1, 7, 64);
        }
        struct ss_tensor *first = at(job, 0, 7, 64), *second = at(job, 0, 7, 64);
        assert_int_equal(first != second, cases[i].ordinal);
        assert_ptr_not_equal(at(job, 1, 7, 64), first);
        assert_int_equal(at(job, 0, 7, 128) != first, cases[i].address);
        at(job, 0, 7, 64);
        at(job, 1, 7, 64);
        assert_int_equal(at(job, 0, 8, 64) != first, cases[i].site);
        job_close(job);
    }
}

static void twelve_equal_layers_through_one_buffer_are_twelve_tensors(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, "auto");
    struct ss_tensor *layers[12];

    (void)state;
    for (int step = 0; step < 3; step++)
        for (uint32_t call = 0; call < 13; call++)
            at(job, call == 12, 7, 64);
    for (int step = 0; step < 20; step++) {
        for (int layer = 0; layer < 12; layer++) {
            struct ss_tensor *t = at(job, 0, 7, 64);
            if (step == 0)
                layers[layer] = t;
            assert_ptr_equal(t, layers[layer]);
            for (int other = 0; other < layer; other++)
                assert_ptr_not_equal(t, layers[other]);
        }
        at(job, 1, 7, 64);
    }
    assert_int_equal(tensors_of(job, 0), 12);
    job_close(job);
}

static void two_alternating_buffers_are_two_tensors(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");

    (void)state;
    struct ss_tensor *even = at(job, 0, 7, 64), *odd = at(job, 0, 7, 128);
    assert_ptr_not_equal(even, odd);
    for (int step = 0; step < 200; step++)
        assert_ptr_equal(at(job, 0, 7, step % 2 ? 128 : 64), step % 2 ? odd : even);
    assert_int_equal(even->state, SS_TENSOR_REGISTERED);
    assert_int_equal(odd->state, SS_TENSOR_REGISTERED);
    assert_non_null(even->residual.data);
    assert_non_null(odd->residual.data);
    job_close(job);
}

static void a_fresh_address_each_step_is_one_tensor(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, "auto");
    struct ss_tensor *t = NULL;

    (void)state;
    for (uintptr_t step = 1; step <= SS_ADDRESSES + 1; step++)
        t = at(job, 0, 7, 64 * step);
    assert_int_equal(tensors_of(job, 0), 1);
    assert_int_equal(t->calls, SS_ADDRESSES + 1);
    for (uintptr_t step = 100; step < 200; step++)
        assert_ptr_equal(at(job, 0, 7, 64 * step), t);
    assert_ptr_not_equal(at(job, 0, 8, 64), t); /* another site counts its own */
    job_close(job);
}

static void of_buffers_in_rotation_two_are_registered(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");

    (void)state;
    for (uintptr_t step = 0; step < 3; step++)
        at(job, 0, 7, 64 * (1 + step % 3));
    struct ss_tensor *third = at(job, 0, 7, 64 * 3);
    assert_int_equal(third->state, SS_TENSOR_CANDIDATE);
    assert_int_equal(third->reason, SS_TENSOR_CROWDED);
    for (uintptr_t step = 0; step < 300; step++) {
        const struct ss_tensor *t = at(job, 0, 7, 64 * (1 + step % 3));
        assert_int_equal(t->state == SS_TENSOR_REGISTERED, step % 3 < 2);
    }
    assert_int_equal(tensors_of(job, 0), 3);
    job_close(job);
}

static void many_layers_with_buffers_of_their_own_stay_apart(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, "auto");
    struct ss_tensor *layers[12];

    (void)state;
    for (int step = 0; step < 20; step++) {
        for (uintptr_t layer = 0; layer < 12; layer++) {
            struct ss_tensor *t = at(job, 0, 7, 64 * (layer + 1));
            if (step == 4)
                layers[layer] = t;
            if (step >= 4) {
                assert_ptr_equal(t, layers[layer]);
                assert_ptr_equal(t->address, (const void *)(64 * (layer + 1)));
            }
        }
        at(job, 1, 7, 64);
    }
    job_close(job);
}

static void lost_calls_use_no_residual(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");

    (void)state;
    for (int call = 0; call < 4 * 13; call++)
        at(job, call % 13 == 12, 7, 64);
    for (int call = 0; call < 12; call++)
        at(job, 0, 7, 64);
    struct ss_tensor *lost = at(job, 0, 7, 64); /* the 13th of a lane that has twelve */
    assert_int_equal(lost->ordinal, SS_ORDINAL_LOST);
    assert_int_equal(lost->state, SS_TENSOR_EXACT);
    assert_int_equal(lost->reason, SS_TENSOR_OUTSIDE);
    assert_null(lost->residual.data);
    job_close(job);
}

static void tensors_without_residual_make_way(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_ADDRESS, 3, "auto");
    size_t count = 0;

    (void)state;
    for (uintptr_t step = 1; step < 5000; step++)
        at(job, 0, 7, 64 * step);
    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        count++;
    assert_true(count <= 1024);
    job_close(job);
}

/* ---- residuals ---- */

static void fill_residual(struct job *job, struct ss_tensor *t, double *sum, double *size)
{
    assert_int_equal(t->state, SS_TENSOR_REGISTERED);
    for (size_t i = 0; i < t->n; i++) {
        float x = (float)noise(job);
        ((float *)t->residual.data)[i] += x;
        sum[i] += (double)x;
        size[i] += fabs((double)x);
    }
}

static void sum_residuals(const struct job *job, double *sum)
{
    memset(sum, 0, N * sizeof *sum);
    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        for (size_t i = 0; t->residual.data && i < t->n; i++)
            sum[i] += (double)((float *)t->residual.data)[i];
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
        count += t->residual.data != NULL;
    return count;
}

static void an_orphan_is_handed_to_its_successor(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    double sum[N] = {0}, size[N] = {0};

    (void)state;
    for (int step = 0; step < 5; step++)
        at(job, 0, 7, 64);
    struct ss_tensor *old = at(job, 0, 7, 64);
    fill_residual(job, old, sum, size);
    struct ss_tensor *heir = at(job, 0, 7, 128); /* the buffer was allocated anew */
    assert_ptr_not_equal(old, heir);
    fill_residual(job, heir, sum, size);
    at(job, 0, 7, 128);
    assert_int_equal(residuals_of(job), 2);
    for (int step = 0; step < 3; step++)
        at(job, 0, 7, 128);
    assert_int_equal(residuals_of(job), 1);
    assert_null(old->residual.data);
    assert_int_equal(old->state, SS_TENSOR_CANDIDATE);
    assert_conserved(job, sum, size, 1);
    job_close(job);
}

/* Of two tensors the first is an orphan. What an operation in flight has claimed may return to its
 * residual; what it has joined to its input leaves it. */
static void residuals_stay_while_an_operation_is_in_flight(void **state)
{
    (void)state;
    for (int busy = 0; busy < 2; busy++) {
        struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
        struct ss_tensor *t[] = {at(job, 0, 7, 64), at(job, 0, 7, 128)};
        ss_tensor_begin(t[busy]);
        for (int step = 0; step < 200; step++)
            at(job, 0, 7, 128);
        assert_non_null(t[0]->residual.data);
        ss_tensor_end(t[busy]);
        at(job, 0, 7, 128);
        assert_null(t[0]->residual.data);
        job_close(job);
    }
}

static void layers_of_a_long_step_are_no_orphans(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "count=1000");
    struct ss_tensor *t;

    (void)state;
    for (uint32_t call = 0; call < 100 * 101; call++)
        at(job, call % 101 < 80 ? 0 : call % 101, 7, 64);
    assert_int_equal(residuals_of(job), 101);
    for (t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        if (t->state == SS_TENSOR_REGISTERED)
            assert_true(t->registered_calls >= 96);
    job_close(job);
}

static void an_orphan_goes_to_the_tensor_of_its_address(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    double sum[N] = {0}, size[N] = {0};

    (void)state;
    for (uintptr_t call = 0; call < 200; call++) { /* registered before the step was known */
        struct ss_tensor *t = at(job, call % 13 == 12, 7, 64 * (1 + call % 13));
        if (call < 39 && t->state == SS_TENSOR_REGISTERED && t->lane == 0)
            fill_residual(job, t, sum, size);
    }
    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        if (t->residual.data && t->lane == 0)
            assert_int_equal((uintptr_t)t->address, 64 * (1 + t->ordinal));
        else if (t->residual.data)
            ss_tensor_settle(t, false, SS_TENSOR_GUARDED);
    assert_conserved(job, sum, size, 2);
    job_close(job);
}

static void a_tensor_called_now_and_then_is_no_orphan(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");

    (void)state;
    for (uint64_t step = 0; step < 300; step++) {
        at(job, 0, 7, 64);
        if (step % 10 == 9) {
            const struct ss_tensor *t = at(job, 0, 7, 128);
            assert_int_equal(t->registered_calls, step / 10 + 1);
        }
    }
    assert_int_equal(residuals_of(job), 2);
    job_close(job);
}

static void no_ordinal_has_more_than_two_residuals(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    double sum[N] = {0}, size[N] = {0};

    (void)state;
    for (int call = 0; call < 3000; call++) {
        uintptr_t address = 64 * (1 + (uintptr_t)(fabs(noise(job)) * 6));
        uint64_t site = 7 + (uint64_t)(call % 200 == 17);
        struct ss_tensor *t = at(job, 0, site, address);
        if (t->state == SS_TENSOR_REGISTERED)
            fill_residual(job, t, sum, size);
        assert_true(residuals_of(job) <= 2);
    }
    assert_conserved(job, sum, size, 3000);
    job_close(job);
}

/* Two buffers that took turns are allocated anew: those that come for them find two residuals. */
static void buffers_that_came_for_two_others_get_their_residuals(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    double sum[N] = {0}, size[N] = {0};
    const struct ss_tensor *t[2];

    (void)state;
    for (uintptr_t step = 0; step < 20; step++)
        fill_residual(job, at(job, 0, 7, 64 * (1 + step % 2)), sum, size);
    for (uintptr_t step = 0; step < 200; step++)
        t[step % 2] = at(job, 0, 7, 64 * (3 + step % 2));
    for (int i = 0; i < 2; i++)
        assert_int_equal(t[i]->state, SS_TENSOR_REGISTERED);
    assert_int_equal(residuals_of(job), 2);
    for (struct ss_tensor *o = ss_tensors_first(job->tensors[0]); o; o = o->next)
        assert_int_equal(o->residual.data != NULL, o == t[0] || o == t[1]);
    assert_conserved(job, sum, size, 1);
    job_close(job);
}

/* A successor that stays exact sends what it is handed in its dense calls, if it is a gradient. */
static void an_orphan_is_handed_to_a_gradient_that_stays_exact(void **state)
{
    static const struct {
        enum ss_tensor_reason reason;
        bool inherits;
    } cases[] = {
        {SS_TENSOR_MEMORY, true},   {SS_TENSOR_OTHERS, true},    {SS_TENSOR_GUARDED, true},
        {SS_TENSOR_AVERAGE, false}, {SS_TENSOR_CONSTANT, false}, {SS_TENSOR_WITHDRAWN, false},
        {SS_TENSOR_PROFILE, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
        double sum[N] = {0}, size[N] = {0};
        struct ss_tensor *old = NULL, *heir;
        for (int step = 0; step < 5; step++)
            old = at(job, 0, 7, 64);
        fill_residual(job, old, sum, size);
        heir = at(job, 0, 7, 128);
        ss_tensor_settle(heir, false, cases[i].reason);
        ss_tensor_drop_residual(heir); /* its own is sent: zeros */
        for (int step = 0; step < 200; step++)
            at(job, 0, 7, 128);
        assert_int_equal(heir->state, SS_TENSOR_EXACT);
        assert_int_equal(heir->residual.data != NULL, cases[i].inherits);
        assert_int_equal(old->residual.data != NULL, !cases[i].inherits);
        assert_conserved(job, sum, size, 1);
        job_close(job);
    }
}

static void a_lane_is_of_interest_while_a_tensor_of_it_is(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, "auto");
    struct ss_tensor *exact = at(job, 0, 7, 64);

    (void)state;
    ss_tensor_settle(exact, false, SS_TENSOR_PROFILE);
    assert_false(ss_tensor_lane_interest(exact));
    struct ss_tensor *candidate = at(job, 0, 8, 128);
    assert_int_equal(candidate->state, SS_TENSOR_CANDIDATE);
    assert_true(ss_tensor_lane_interest(exact));
    for (int call = 0; call < 64; call++)
        at(job, 0, 7, 64);
    assert_true(ss_tensor_lane_interest(exact));
    for (int call = 0; call < 200; call++)
        at(job, 0, 7, 64);
    assert_false(ss_tensor_lane_interest(exact)); /* the candidate is called no more */
    ss_tensor_settle(candidate, true, SS_TENSOR_NONE);
    assert_true(ss_tensor_lane_interest(exact)); /* as long as it may be called again */
    ss_tensor_settle(candidate, false, SS_TENSOR_GUARDED);
    assert_false(ss_tensor_lane_interest(exact));
    job_close(job);
}

static void merging_adds_the_residuals(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    double sum[N] = {0}, size[N] = {0};

    (void)state;
    fill_residual(job, at(job, 0, 7, 64), sum, size);
    fill_residual(job, at(job, 0, 7, 128), sum, size);
    for (uintptr_t step = 3; step <= SS_ADDRESSES + 1; step++)
        at(job, 0, 7, 64 * step);
    assert_int_equal(tensors_of(job, 0), 1);
    assert_int_equal(residuals_of(job), 1);
    assert_conserved(job, sum, size, 1);
    job_close(job);
}

static void a_sum_of_residuals_stays_finite(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    struct ss_tensor *a = at(job, 0, 7, 64), *b = at(job, 0, 7, 128);

    (void)state;
    ((float *)a->residual.data)[0] = FLT_MAX;
    ((float *)b->residual.data)[0] = FLT_MAX;
    ((float *)a->residual.data)[1] = -FLT_MAX;
    ((float *)b->residual.data)[1] = -FLT_MAX;
    for (int step = 0; step < 200; step++)
        at(job, 0, 7, 128);
    assert_null(a->residual.data);
    assert_true(((float *)b->residual.data)[0] == FLT_MAX);
    assert_true(((float *)b->residual.data)[1] == -FLT_MAX);
    job_close(job);
}

static void past_the_memory_limit_tensors_stay_exact_everywhere(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 0, "*");

    (void)state;
    job->mem[0].limit = N * 4 + 64;
    struct ss_tensor *fits = at(job, 0, 7, 64), *late = at(job, 1, 7, 128);
    assert_int_equal(fits->state, SS_TENSOR_REGISTERED);
    assert_int_equal(late->state, SS_TENSOR_EXACT);
    assert_int_equal(late->reason, SS_TENSOR_MEMORY);
    for (int step = 0; step < 10; step++)
        at(job, 1, 7, 128);
    struct ss_tensor *other = ss_tensors_first(job->tensors[1]);
    assert_int_equal(other->lane, 1);
    assert_int_equal(other->state, SS_TENSOR_EXACT);
    assert_int_equal(other->reason, SS_TENSOR_OTHERS);
    job_close(job);
}

static void layers_that_share_a_wrapper_are_told_apart_by_their_callers(void **state)
{
    static const enum ss_identity identities[] = {SS_IDENTITY_AUTO, SS_IDENTITY_SITE};

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct job *job = job_open(1, identities[i], 0, "*");
        struct ss_tensor *t[3] = {NULL};

        for (int call = 0; call < 15; call++)
            t[call % 3] = by(job, 1 + (uint64_t)(call % 3));
        assert_int_equal(tensors_of(job, 0), 3);
        for (int call = 0; call < 30; call++) {
            assert_ptr_equal(by(job, 1 + (uint64_t)(call % 3)), t[call % 3]);
            assert_int_equal(t[call % 3]->state, SS_TENSOR_REGISTERED);
        }
        assert_int_equal(residuals_of(job), 3);
        job_close(job);
    }
}

static void a_program_in_its_next_phase_keeps_its_tensors(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    struct ss_tensor *t = by(job, 1);

    (void)state;
    for (uint64_t call = 0; call < 200; call++)
        assert_ptr_equal(by(job, 1 + call / 8 % 3), t);
    assert_int_equal(tensors_of(job, 0), 1);
    job_close(job);
}

static void a_loop_that_was_unrolled_is_one_tensor(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    struct ss_tensor *t = by(job, 1000);

    (void)state;
    for (uint64_t call = 0; call < 12; call++)
        assert_ptr_equal(by(job, 1 + call), t);
    for (uint64_t call = 0; call < 20; call++)
        assert_ptr_equal(by(job, 1000), t);
    job_close(job);
}

static void paths_that_come_and_go_stop_counting(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    double sum[N] = {0}, size[N] = {0};

    (void)state;
    for (uint64_t call = 1; call < 2000; call++) {
        struct ss_tensor *t = by(job, call);
        if (t->state == SS_TENSOR_REGISTERED)
            fill_residual(job, t, sum, size);
        assert_true(tensors_of(job, 0) <= SS_PATHS);
    }
    assert_int_equal(tensors_of(job, 0), 1);
    assert_int_equal(residuals_of(job), 1);
    assert_conserved(job, sum, size, 2000);
    job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_identity_counts_what_it_says),
        cmocka_unit_test(twelve_equal_layers_through_one_buffer_are_twelve_tensors),
        cmocka_unit_test(two_alternating_buffers_are_two_tensors),
        cmocka_unit_test(a_fresh_address_each_step_is_one_tensor),
        cmocka_unit_test(of_buffers_in_rotation_two_are_registered),
        cmocka_unit_test(many_layers_with_buffers_of_their_own_stay_apart),
        cmocka_unit_test(lost_calls_use_no_residual),
        cmocka_unit_test(tensors_without_residual_make_way),
        cmocka_unit_test(an_orphan_is_handed_to_its_successor),
        cmocka_unit_test(residuals_stay_while_an_operation_is_in_flight),
        cmocka_unit_test(an_orphan_goes_to_the_tensor_of_its_address),
        cmocka_unit_test(a_tensor_called_now_and_then_is_no_orphan),
        cmocka_unit_test(layers_that_share_a_wrapper_are_told_apart_by_their_callers),
        cmocka_unit_test(a_program_in_its_next_phase_keeps_its_tensors),
        cmocka_unit_test(a_loop_that_was_unrolled_is_one_tensor),
        cmocka_unit_test(paths_that_come_and_go_stop_counting),
        cmocka_unit_test(no_ordinal_has_more_than_two_residuals),
        cmocka_unit_test(merging_adds_the_residuals),
        cmocka_unit_test(a_sum_of_residuals_stays_finite),
        cmocka_unit_test(past_the_memory_limit_tensors_stay_exact_everywhere),
        cmocka_unit_test(layers_of_a_long_step_are_no_orphans),
        cmocka_unit_test(buffers_that_came_for_two_others_get_their_residuals),
        cmocka_unit_test(an_orphan_is_handed_to_a_gradient_that_stays_exact),
        cmocka_unit_test(a_lane_is_of_interest_while_a_tensor_of_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
