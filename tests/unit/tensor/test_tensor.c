/* Each gradient is one tensor, and residuals stay with theirs. */
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
        at(job, 0, 7, 64 * step);
    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        count++;
    assert_true(count <= 1024);
    job_close(job);
}

static void an_orphan_is_handed_to_its_successor(void **state)
{
    struct job *job = job_open(1, "site=*:calls=1");
    double sum[N] = {0}, size[N] = {0};

    (void)state;
    for (int step = 0; step < 5; step++)
        at(job, 0, 7, 64);
    struct ss_tensor *old = at(job, 0, 7, 64);
    fill_residual(job, old, sum, size);
    struct ss_tensor *heir = at(job, 0, 8, 64); /* called from elsewhere from now on */
    assert_ptr_not_equal(old, heir);
    fill_residual(job, heir, sum, size);
    at(job, 0, 8, 64);
    assert_int_equal(residuals_of(job), 2);
    heir->rest = SS_RESTS_EMPTY;
    for (int step = 0; step < 80; step++)
        at(job, 0, 8, 64);
    assert_int_equal(residuals_of(job), 1);
    assert_int_equal(heir->rest, SS_RESTS);
    assert_null(old->residual.values.data);
    assert_int_equal(old->state, SS_TENSOR_CANDIDATE);
    assert_conserved(job, sum, size, 1);
    job_close(job);
}

/* The first of two tensors is an orphan. Its residual stays while an operation of either is in
 * flight: claims may return to it, and a share that has joined an input leaves it. */
static void residuals_stay_while_an_operation_is_in_flight(void **state)
{
    (void)state;
    for (int busy = 0; busy < 2; busy++) {
        struct job *job = job_open(1, "site=*:calls=1");
        struct ss_tensor *t[] = {at(job, 0, 7, 64), at(job, 0, 8, 64)};
        ss_tensor_begin(t[busy]);
        for (int step = 0; step < 200; step++)
            at(job, 0, 8, 64);
        assert_non_null(t[0]->residual.values.data);
        ss_tensor_end(t[busy]);
        at(job, 0, 8, 64);
        assert_null(t[0]->residual.values.data);
        job_close(job);
    }
}

/* Makes a call of another lane first, so that there is no step. */
static void on_lane_0(struct job *job, uint64_t site)
{
    at(job, (uint32_t)(8 + 3 * noise(job)), 7, 64);
    at(job, 0, site, 64);
}

/* The residual of a tensor that came once, as the first of its lane, is made when that call is
 * voted on, so many calls later: in which of them it goes to the successor, which came all the
 * while. */
static int orphaned_at(int later)
{
    struct job *job = job_open(1, "site=*:calls=1");
    struct ss_rule_subject subject = {.count = N, .type = SS_F32, .site = "app+0x10"};
    struct ss_tensor_call c = {
        .site = 7, .address = job, .type = SS_F32, .op = SS_SUM, .n = N, .subject = &subject};
    struct ss_tensor_found found;
    struct ss_tensor *t = ss_tensor_find(job->tensors[0], &c, &found);
    int call = 0;

    ss_tensor_take(t, &c, &found);
    ss_tensor_begin(t);
    ss_residual_drop(t);
    while (call++ < later)
        on_lane_0(job, 9);
    assert_true(ss_residual_make(t));
    ss_tensor_end(t);
    for (; t->residual.values.data && call < 1000; call++)
        on_lane_0(job, 9);
    job_close(job);
    return call - later - 1;
}

static void a_residual_made_late_goes_to_its_successor_at_once(void **state)
{
    (void)state;
    for (int later = 70; later < 250; later += 9)
        assert_int_equal(orphaned_at(later), 1);
}

static void layers_of_a_long_step_are_no_orphans(void **state)
{
    struct job *job = job_open(1, "count=1000:calls=101");

    (void)state;
    for (int call = 0; call < 100 * 101; call++)
        at(job, 0, 7, 64);
    assert_int_equal(residuals_of(job), 101);
    for (const struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        assert_true(t->registered_calls >= 96);
    job_close(job);
}

/* The last of four equal layers does not come any more, and then again. A mark ends each step. */
static void the_residual_of_a_frozen_layer_goes_to_no_other(void **state)
{
    struct job *job = job_open(1, "count=1000");
    const struct shape loss = {.lane = 1, .site = 9, .address = {job}, .n = 1, .type = SS_F32};
    const struct ss_tensor *last = NULL;
    const void *residual = NULL;

    (void)state;
    for (int step = 0; step < 300; step++) {
        const int layers = step < 50 || step >= 250 ? 4 : 3;
        for (int k = 0; k < layers; k++) {
            const struct ss_tensor *t = at(job, 0, 7, 64);
            if (step == 49 && k == 3) {
                last = t;
                residual = t->residual.values.data;
            }
        }
        go(job, &loss);
        if (step > 49) {
            assert_non_null(residual);
            assert_ptr_equal(last->residual.values.data, residual);
        }
    }
    assert_int_equal(last->state, SS_TENSOR_REGISTERED);
    assert_true(last->registered_calls >= 90);
    job_close(job);
}

/* Shapes that come three times each, in lanes that are given to others later. */
static void what_does_not_recur_goes_away(void **state)
{
    struct job *job = job_open(1, "*:calls=1");
    struct shape call = {.site = 7, .address = {job}, .type = SS_F32};

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

static void a_tensor_called_now_and_then_is_no_orphan(void **state)
{
    struct job *job = job_open(1, "site=*:calls=1");

    (void)state;
    for (uint64_t step = 0; step < 300; step++) {
        at(job, 0, 7, 64);
        if (step % 40 == 39)
            at(job, 0, 8, 64);
    }
    assert_int_equal(residuals_of(job), 2);
    for (const struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        assert_int_equal(t->registered_calls, t->label == 1 ? 300 : 7);
    job_close(job);
}

/* The lane has many calls of another site between two steps. */
static void layers_of_a_rare_step_keep_their_residuals(void **state)
{
    struct job *job = job_open(1, "site=*:calls=2");
    struct ss_tensor *layers[2];

    (void)state;
    for (int step = 0; step < 8; step++) {
        for (int k = 0; k < 2; k++)
            layers[k] = at(job, 0, 7, 64);
        for (int i = 0; i < (step > 0 ? 100 : 2); i++)
            at(job, 0, 8, 64);
        for (int k = 0; k < 2; k++) {
            const float *residual = layers[k]->residual.values.data;
            assert_non_null(residual);
            assert_true(residual[k] == (float)step && residual[1 - k] == 0);
            ((float *)layers[k]->residual.values.data)[k] += 1;
        }
    }
    job_close(job);
}

/* Two networks with rules of their own, one of which trains first and is then rare. */
static void gradients_of_two_rules_keep_their_residuals(void **state)
{
    struct job *job = job_open(1, "site=first:calls=1;site=second:calls=1");
    const struct shape first = {
        .site = 7, .place = "first", .address = {job}, .n = N, .type = SS_F32};
    const struct shape second = {
        .site = 8, .place = "second", .address = {job}, .n = N, .type = SS_F32};
    const struct ss_tensor *t = go(job, &first);

    (void)state;
    for (int step = 0; step < 200; step++)
        assert_ptr_not_equal(go(job, &second), t);
    assert_non_null(t->residual.values.data);
    job_close(job);
}

/* A successor that stays exact sends what it is handed in its dense calls, if it is a gradient. */
static void an_orphan_is_handed_to_a_gradient_that_stays_exact(void **state)
{
    static const struct {
        enum ss_tensor_reason reason;
        bool inherits;
    } cases[] = {
        {SS_TENSOR_MEMORY, true},   {SS_TENSOR_OTHERS, true},     {SS_TENSOR_GUARDED, true},
        {SS_TENSOR_NO_RULE, false}, {SS_TENSOR_WITHDRAWN, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct job *job = job_open(1, "site=*:calls=1");
        double sum[N] = {0}, size[N] = {0};
        struct ss_tensor *old = NULL, *heir;
        for (int step = 0; step < 5; step++)
            old = at(job, 0, 7, 64);
        fill_residual(job, old, sum, size);
        heir = at(job, 0, 8, 64);
        ss_tensor_settle(heir, false, cases[i].reason);
        ss_residual_drop(heir); /* its own is sent: zeros */
        for (int step = 0; step < 200; step++)
            at(job, 0, 8, 64);
        assert_int_equal(heir->state, SS_TENSOR_EXACT);
        assert_int_equal(heir->residual.values.data != NULL, cases[i].inherits);
        assert_int_equal(old->residual.values.data != NULL, !cases[i].inherits);
        assert_conserved(job, sum, size, 1);
        job_close(job);
    }
}

static void a_lane_is_of_interest_while_a_tensor_of_it_is(void **state)
{
    struct job *job = job_open(1, "site=*");
    struct ss_tensor *exact = at(job, 0, 7, 64);

    (void)state;
    ss_tensor_settle(exact, false, SS_TENSOR_TYPE);
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
    assert_false(ss_tensor_lane_interest(exact)); /* nothing was claimed yet */
    candidate->rest = SS_AWAKE;
    assert_true(ss_tensor_lane_interest(exact)); /* as long as it may be called again */
    ss_tensor_settle(candidate, false, SS_TENSOR_GUARDED);
    assert_false(ss_tensor_lane_interest(exact));
    job_close(job);
}

static void a_sum_of_residuals_stays_finite(void **state)
{
    struct job *job = job_open(1, "site=*:calls=1");
    struct ss_tensor *a = at(job, 0, 7, 64), *b = at(job, 0, 8, 64);

    (void)state;
    ((float *)a->residual.values.data)[0] = FLT_MAX;
    ((float *)b->residual.values.data)[0] = FLT_MAX;
    ((float *)a->residual.values.data)[1] = -FLT_MAX;
    ((float *)b->residual.values.data)[1] = -FLT_MAX;
    for (int step = 0; step < 200; step++)
        at(job, 0, 8, 64);
    assert_null(a->residual.values.data);
    assert_true(((float *)b->residual.values.data)[0] == FLT_MAX);
    assert_true(((float *)b->residual.values.data)[1] == -FLT_MAX);
    job_close(job);
}

static void past_the_memory_limit_tensors_stay_exact_everywhere(void **state)
{
    struct job *job = job_open(2, "site=*:calls=1");

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
    struct job *job = job_open(2, "*");
    struct ss_tensor *t[3] = {NULL};

    (void)state;
    for (int call = 0; call < 60; call++) {
        struct ss_tensor *now = by(job, 1 + (uint64_t)(call % 3));
        assert_true(call < 3 || now == t[call % 3]);
        t[call % 3] = now;
    }
    for (int k = 0; k < 3; k++)
        assert_true(ss_tensor_lossy(t[k]));
    assert_int_equal(residuals_of(job), 3);
    job_close(job);
}

static void a_program_in_its_next_phase_keeps_its_residual(void **state)
{
    struct job *job = job_open(1, "site=*:calls=1");
    double sum[N] = {0}, size[N] = {0};

    (void)state;
    for (uint64_t call = 0; call < 500; call++) {
        struct ss_tensor *t = by(job, 1 + call / 100);
        if (ss_tensor_lossy(t))
            fill_residual(job, t, sum, size);
        assert_true(residuals_of(job) <= 2);
    }
    assert_int_equal(residuals_of(job), 1);
    assert_conserved(job, sum, size, 500);
    job_close(job);
}

static void sites_that_come_and_go_stop_counting(void **state)
{
    struct job *job = job_open(2, "site=*:calls=1");
    double sum[N] = {0}, size[N] = {0};
    struct ss_tensor *t = NULL;

    (void)state;
    for (uint64_t call = 1; call < 2000; call++) {
        t = by(job, call);
        if (ss_tensor_lossy(t))
            fill_residual(job, t, sum, size);
    }
    assert_true(ss_tensor_lossy(t));
    assert_int_equal(residuals_of(job), 1);
    assert_conserved(job, sum, size, 2000);
    job_close(job);
}

/* A rank that calls from elsewhere now and then, as to write a log. */
static void a_site_that_one_rank_alone_sees_splits_nothing(void **state)
{
    struct job *job = job_open(3, "site=*:calls=1");
    struct shape call = {.site = 7, .address = {job}, .n = N, .type = SS_F32};
    const struct ss_tensor *t = NULL;

    (void)state;
    for (int step = 0; step < 200; step++) {
        call.other_site = step % 10 == 9 ? 8 : 0;
        t = go(job, &call);
        assert_true(step < 40 || ss_tensor_lossy(t));
    }
    assert_int_equal(residuals_of(job), 1);
    job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_without_residual_make_way),
        cmocka_unit_test(an_orphan_is_handed_to_its_successor),
        cmocka_unit_test(residuals_stay_while_an_operation_is_in_flight),
        cmocka_unit_test(a_residual_made_late_goes_to_its_successor_at_once),
        cmocka_unit_test(layers_of_a_long_step_are_no_orphans),
        cmocka_unit_test(the_residual_of_a_frozen_layer_goes_to_no_other),
        cmocka_unit_test(what_does_not_recur_goes_away),
        cmocka_unit_test(a_tensor_called_now_and_then_is_no_orphan),
        cmocka_unit_test(layers_of_a_rare_step_keep_their_residuals),
        cmocka_unit_test(gradients_of_two_rules_keep_their_residuals),
        cmocka_unit_test(layers_that_share_a_wrapper_are_told_apart_by_their_callers),
        cmocka_unit_test(a_sum_of_residuals_stays_finite),
        cmocka_unit_test(past_the_memory_limit_tensors_stay_exact_everywhere),
        cmocka_unit_test(an_orphan_is_handed_to_a_gradient_that_stays_exact),
        cmocka_unit_test(a_lane_is_of_interest_while_a_tensor_of_it_is),
        cmocka_unit_test(a_program_in_its_next_phase_keeps_its_residual),
        cmocka_unit_test(sites_that_come_and_go_stop_counting),
        cmocka_unit_test(a_site_that_one_rank_alone_sees_splits_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
