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

static void each_identity_counts_what_it_says(void **state)
{
    static const struct {
        enum ss_identity identity;
        bool address, site, ordinal;
    } cases[] = {{SS_IDENTITY_AUTO, false, true, true},
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

/* Two sets of buffers in turn, a pool, arrays made anew: one gradient, one residual. */
static void wherever_its_buffers_lie_a_gradient_is_one_tensor(void **state)
{
    static const uintptr_t counts[] = {1, 2, 3, 6, 1000};

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uintptr_t buffers = counts[i];
        struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, "*");
        const struct ss_tensor *t = at(job, 0, 7, 64);
        for (uintptr_t step = 1; step < 200; step++)
            assert_ptr_equal(at(job, 0, 7, 64 * (1 + step % buffers)), t);
        assert_int_equal(t->state, SS_TENSOR_REGISTERED);
        assert_int_equal(tensors_of(job, 0), 1);
        job_close(job);
    }
}

/* Eight or 96 of them, by a rule: not one is lossy before the step is known. */
static void equal_layers_are_registered_when_the_step_is_known(void **state)
{
    static const uint32_t counts[] = {2, 8, 15};

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, "*");
        uint32_t layers = counts[i];
        for (uint32_t step = 0; step < 20; step++)
            for (uint32_t call = 0; call <= layers; call++) {
                const struct ss_tensor *t = at(job, call == layers, 7, 64);
                assert_true(!ss_tensor_lossy(t) || step >= 3);
                assert_true(ss_tensor_lossy(t) || step < 8);
                assert_true(step < 3 || t->ordinal == (call < layers ? call : 0));
            }
        assert_int_equal(residuals_of(job), layers + 1);
        job_close(job);
    }
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
    assert_null(lost->residual.values.data);
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

static void an_orphan_is_handed_to_its_successor(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
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
    heir->rest.emptied = true;
    for (int step = 0; step < 8; step++)
        at(job, 0, 8, 64);
    assert_int_equal(residuals_of(job), 1);
    assert_false(heir->rest.emptied);
    assert_null(old->residual.values.data);
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

/* One of another lane, too, so that there is no step. */
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
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
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

/* The last of four equal layers does not come any more, and then again. */
static void the_residual_of_a_frozen_layer_goes_to_no_other(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    const struct ss_tensor *last = NULL;
    const void *residual = NULL;

    (void)state;
    for (uint32_t step = 0; step < 300; step++) {
        uint32_t layers = step < 50 || step >= 250 ? 4 : 3;
        for (uint32_t k = 0; k < layers; k++) {
            const struct ss_tensor *t = at(job, 0, 7, 64);
            if (step == 49 && k == 3) {
                last = t;
                residual = t->residual.values.data;
            }
        }
        at(job, 1, 7, 64);
        if (step > 49) {
            assert_non_null(residual);
            assert_ptr_equal(last->residual.values.data, residual);
        }
    }
    assert_int_equal(last->state, SS_TENSOR_REGISTERED);
    job_close(job);
}

static void a_tensor_called_now_and_then_is_no_orphan(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");

    (void)state;
    for (uint64_t step = 0; step < 300; step++) {
        at(job, 0, 7, 64);
        if (step % 40 == 39)
            at(job, 0, 8, 64);
    }
    assert_int_equal(residuals_of(job), 2);
    for (const struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        assert_int_equal(t->registered_calls, t->label == 0 ? 300 : 7);
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
    assert_false(ss_tensor_lane_interest(exact)); /* nothing was claimed yet */
    candidate->rest.resting = false;
    assert_true(ss_tensor_lane_interest(exact)); /* as long as it may be called again */
    ss_tensor_settle(candidate, false, SS_TENSOR_GUARDED);
    assert_false(ss_tensor_lane_interest(exact));
    job_close(job);
}

static void a_sum_of_residuals_stays_finite(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
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
        struct job *job = job_open(2, identities[i], 3, "*");
        struct ss_tensor *t[3] = {NULL};

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
}

static void a_program_in_its_next_phase_keeps_its_residual(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, "*");
    double sum[N] = {0}, size[N] = {0};

    (void)state;
    for (uint64_t call = 0; call < 200; call++) {
        struct ss_tensor *t = by(job, 1 + call / 40);
        if (ss_tensor_lossy(t))
            fill_residual(job, t, sum, size);
        assert_true(residuals_of(job) <= 2);
    }
    assert_int_equal(residuals_of(job), 1);
    assert_conserved(job, sum, size, 200);
    job_close(job);
}

/* A call of one buffer that is voted with the norm of its input. */
static const struct ss_tensor *of_norm(struct job *job, uint64_t path, double norm)
{
    const struct ss_tensor *t = by(job, path);

    for (int r = 0; r < job->size; r++)
        ss_tensors_level(job->tensors[r], norm * norm, NULL, 0);
    return t;
}

/* The compiler has made two call sites of one, or the program takes now this branch, now that. */
static void one_gradient_from_two_sites_in_irregular_turn_is_one_tensor(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "*");
    const struct ss_tensor *t = NULL;

    (void)state;
    for (int call = 0; call < 80; call++) {
        job->seed = job->seed * 1664525u + 1013904223u;
        t = of_norm(job, 1 + (job->seed >> 20) % 2, 1);
        assert_true(call < 20 || ss_tensor_lossy(t));
    }
    assert_int_equal(residuals_of(job), 1);
    job_close(job);
}

/* Two gradients of one count in irregular turn: their norms say that they are two. */
static void two_gradients_in_irregular_turn_are_never_one_tensor(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "*");
    uint64_t first = 0;

    (void)state;
    for (int call = 0; call < 400; call++) {
        job->seed = job->seed * 1664525u + 1013904223u;
        uint64_t path = 1 + (job->seed >> 20) % 2;
        first = call == 0 ? path : first;
        assert_int_equal(of_norm(job, path, path == 1 ? 1 : 4)->label, path != first);
    }
    job_close(job);
}

/* A rule makes the only call of a step lossy in the seventh that is voted on, several in the fourth
 * step. */
static void a_rule_takes_even_inputs_from_the_seventh_call_or_the_fourth_step(void **state)
{
    (void)state;
    for (uint32_t lanes = 1; lanes <= 8; lanes++) {
        struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "*");
        for (uint32_t call = 0; call < 8 * lanes + 8; call++) {
            bool lossy = ss_tensor_lossy(at(job, call % lanes, 7, 64));
            uint8_t parts[SS_STEP_PARTS];
            memset(parts, UINT8_MAX - 5 * SS_STEP_OCTAVE, sizeof parts);
            for (int r = 0; r < 2; r++)
                ss_tensors_level(job->tensors[r], 1, parts, lanes == 1);
            assert_int_equal(lossy, call >= 6 && call >= 3 * lanes);
        }
        assert_int_equal(residuals_of(job), lanes);
        job_close(job);
    }
}

static void sites_that_come_and_go_stop_counting(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, "*");
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
    struct job *job = job_open(3, SS_IDENTITY_AUTO, 3, "*");
    struct shape call = {.site = 7, .address = {job}, .n = N, .type = SS_F32};
    const struct ss_tensor *t = NULL;

    (void)state;
    for (int step = 0; step < 60; step++) {
        call.other_site = step % 10 == 9 ? 8 : 0;
        t = go(job, &call);
        assert_true(step < 40 || ss_tensor_lossy(t));
    }
    assert_int_equal(residuals_of(job), 1);
    for (int r = 0; r < 3; r++)
        for (const struct ss_tensor *o = ss_tensors_first(job->tensors[r]); o; o = o->next)
            assert_int_equal(ss_tensor_lossy(o), o->calls > 6);
    job_close(job);
}

/* 2,000 shapes of 64 Ki floats, each called three times, and a gradient between them. */
static void what_does_not_recur_goes_away(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, NULL);
    static float data[2 * SS_SAMPLE];
    struct shape call = {.site = 7, .address = {data}, .type = SS_F32, .in = {data}};

    (void)state;
    for (uint32_t i = 0; i < 6000; i++) {
        for (size_t j = 0; j < 2 * SS_SAMPLE; j++)
            data[j] = (float)noise(job);
        call.lane = 1 + i / 3 % 1000;
        call.n = SS_SAMPLE + call.lane;
        if (i % 3000 == 0)
            for (uint32_t lane = 1; lane <= 1000; lane++)
                ss_tensors_forget_lane(job->tensors[0], lane);
        go(job, &call);
        assert_true(atomic_load(&job->mem[0].used) < (size_t)100 << 20);
    }
    job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_identity_counts_what_it_says),
        cmocka_unit_test(twelve_equal_layers_through_one_buffer_are_twelve_tensors),
        cmocka_unit_test(lost_calls_use_no_residual),
        cmocka_unit_test(tensors_without_residual_make_way),
        cmocka_unit_test(an_orphan_is_handed_to_its_successor),
        cmocka_unit_test(residuals_stay_while_an_operation_is_in_flight),
        cmocka_unit_test(the_residual_of_a_frozen_layer_goes_to_no_other),
        cmocka_unit_test(a_residual_made_late_goes_to_its_successor_at_once),
        cmocka_unit_test(a_tensor_called_now_and_then_is_no_orphan),
        cmocka_unit_test(layers_that_share_a_wrapper_are_told_apart_by_their_callers),
        cmocka_unit_test(a_sum_of_residuals_stays_finite),
        cmocka_unit_test(past_the_memory_limit_tensors_stay_exact_everywhere),
        cmocka_unit_test(layers_of_a_long_step_are_no_orphans),
        cmocka_unit_test(an_orphan_is_handed_to_a_gradient_that_stays_exact),
        cmocka_unit_test(a_lane_is_of_interest_while_a_tensor_of_it_is),
        cmocka_unit_test(wherever_its_buffers_lie_a_gradient_is_one_tensor),
        cmocka_unit_test(equal_layers_are_registered_when_the_step_is_known),
        cmocka_unit_test(a_program_in_its_next_phase_keeps_its_residual),
        cmocka_unit_test(one_gradient_from_two_sites_in_irregular_turn_is_one_tensor),
        cmocka_unit_test(two_gradients_in_irregular_turn_are_never_one_tensor),
        cmocka_unit_test(a_rule_takes_even_inputs_from_the_seventh_call_or_the_fourth_step),
        cmocka_unit_test(sites_that_come_and_go_stop_counting),
        cmocka_unit_test(a_site_that_one_rank_alone_sees_splits_nothing),
        cmocka_unit_test(what_does_not_recur_goes_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
