/* Each gradient is one tensor, residuals stay with theirs, and only gradients are registered. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/tensor.h"

enum { MOST = 4, N = 1000 };

/* Some ranks of one communicator, voting by hand. */
struct job {
    int size;
    struct ss_tensor_settings settings;
    struct ss_mem mem[MOST];
    struct ss_steps *steps[MOST];
    struct ss_tensors *tensors[MOST];
    uint32_t seed;
};

static struct job *job_open(int size, enum ss_identity identity, uint64_t after,
                            const char *include)
{
    struct job *job = calloc(1, sizeof *job);
    struct ss_rules *rules;
    char error[256];

    assert_non_null(job);
    assert_int_equal(ss_rules_parse(include, true, &rules, error, sizeof error), SS_OK);
    job->size = size;
    job->settings = (struct ss_tensor_settings){
        .identity = identity, .register_after = after, .include = rules, .threshold_period = 32};
    for (int r = 0; r < size; r++) {
        job->steps[r] = calloc(1, sizeof *job->steps[r]);
        job->tensors[r] = ss_tensors_create(&job->settings, &job->mem[r]);
        assert_non_null(job->steps[r]);
        assert_non_null(job->tensors[r]);
    }
    job->seed = 1;
    return job;
}

static void job_close(struct job *job)
{
    for (int r = 0; r < job->size; r++) {
        ss_tensors_free(job->tensors[r]);
        free(job->steps[r]);
        assert_int_equal(atomic_load(&job->mem[r].used), 0);
    }
    ss_rules_free((struct ss_rules *)(uintptr_t)job->settings.include);
    ss_rules_free((struct ss_rules *)(uintptr_t)job->settings.exclude);
    free(job);
}

static double noise(struct job *job)
{
    double sum = 0;

    for (int i = 0; i < 4; i++) {
        job->seed = job->seed * 1664525u + 1013904223u;
        sum += (double)(job->seed >> 8) / (1 << 24) - 0.5;
    }
    return sum;
}

/* A call of the application. */
struct shape {
    uint32_t lane;
    uint64_t site;
    const void *address[MOST]; /* NULL: that of rank 0 */
    size_t n;
    enum ss_type type;
    enum ss_op op;
    bool in_place;
    const void *in[MOST]; /* NULL: nothing is watched */
    const void *out;
};

static struct ss_tensor_ballot combine(struct ss_tensor_ballot a, struct ss_tensor_ballot b)
{
    return (struct ss_tensor_ballot){.unregistered = a.unregistered || b.unregistered,
                                     .registered = a.registered || b.registered,
                                     .not_ready = a.not_ready || b.not_ready,
                                     .not_gradient = a.not_gradient || b.not_gradient,
                                     .differs = a.differs || b.differs,
                                     .refused = a.refused || b.refused};
}

static void show(struct ss_tensor *t, const struct shape *call, int rank)
{
    if (!ss_tensor_watching(t) || !call->out)
        return;
    if (call->in_place)
        ss_tensor_watch_input(t, call->in[rank]);
    ss_tensor_watch(t, call->in_place ? NULL : call->in[rank], call->out);
}

/* Goes through one call on all ranks; the tensor of rank 0. */
static struct ss_tensor *go(struct job *job, const struct shape *call)
{
    struct ss_tensor *t[MOST];
    struct ss_tensor_ballot all = {0};

    for (int r = 0; r < job->size; r++) {
        struct ss_rule_subject subject = {.count = call->n, .type = call->type, .site = "app+0x10"};
        struct ss_tensor_call c = {.lane = call->lane,
                                   .place = ss_steps_next(job->steps[r], call->lane),
                                   .site = call->site,
                                   .address =
                                       call->address[r] ? call->address[r] : call->address[0],
                                   .type = call->type,
                                   .op = call->op,
                                   .n = call->n,
                                   .subject = &subject};
        t[r] = ss_tensor_find(job->tensors[r], &c);
        assert_non_null(t[r]);
        all = combine(all, ss_tensor_ballot(t[r]));
        ss_tensor_begin(t[r]);
    }
    for (int r = 0; r < job->size; r++) {
        ss_tensor_vote(t[r], &all);
        show(t[r], call, r);
        ss_tensor_end(t[r]);
    }
    return t[0];
}

static struct ss_tensor *at(struct job *job, uint32_t lane, uint64_t site, uintptr_t address)
{
    struct shape call = {
        .lane = lane, .site = site, .address = {(const void *)address}, .n = N, .type = SS_F32};

    return go(job, &call);
}

static size_t tensors_of(const struct job *job, uint32_t lane)
{
    size_t count = 0;

    for (const struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        count += t->lane == lane;
    return count;
}

/* ---- identity ---- */

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
        struct job *job = job_open(1, cases[i].identity, 3, NULL);
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
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, NULL);
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
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, NULL);
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

static void buffers_in_rotation_are_one_tensor(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");

    (void)state;
    for (uintptr_t step = 0; step < 3; step++)
        at(job, 0, 7, 64 * (1 + step % 3));
    struct ss_tensor *third = at(job, 0, 7, 64 * 3);
    assert_int_equal(third->state, SS_TENSOR_CANDIDATE);
    assert_int_equal(third->reason, SS_TENSOR_CROWDED);
    for (uintptr_t step = 0; step < 30; step++)
        at(job, 0, 7, 64 * (1 + step % 3));
    assert_int_equal(tensors_of(job, 0), 1);
    assert_int_equal(at(job, 0, 7, 64)->state, SS_TENSOR_REGISTERED);
    job_close(job);
}

static void many_layers_with_buffers_of_their_own_stay_apart(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, NULL);
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
    struct job *job = job_open(1, SS_IDENTITY_ADDRESS, 3, NULL);
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

static void an_operation_in_flight_keeps_its_residual(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");

    (void)state;
    struct ss_tensor *old = at(job, 0, 7, 64);
    ss_tensor_begin(old);
    for (int step = 0; step < 200; step++)
        at(job, 0, 7, 128);
    assert_non_null(old->residual.data);
    ss_tensor_end(old);
    at(job, 0, 7, 128);
    assert_null(old->residual.data);
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
    for (int step = 0; step < 300; step++) {
        at(job, 0, 7, 64);
        if (step % 10 == 9)
            assert_int_equal(at(job, 0, 7, 128)->state, SS_TENSOR_REGISTERED);
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

/* ---- registration ---- */

struct data {
    size_t n;
    enum ss_type type;
    void *in[MOST];
    void *out;
};

static struct data data_make(enum ss_type type, size_t n)
{
    struct data d = {.n = n, .type = type};

    for (int r = 0; r < MOST; r++)
        d.in[r] = calloc(n, 8);
    d.out = calloc(n, 8);
    return d;
}

static void data_free(struct data *d)
{
    for (int r = 0; r < MOST; r++)
        free(d->in[r]);
    free(d->out);
}

static void set(struct data *d, int rank, size_t i, double x)
{
    if (d->type == SS_F32)
        ((float *)d->in[rank])[i] = (float)x;
    else
        ((double *)d->in[rank])[i] = x;
}

static void sum_up(struct data *d, int size)
{
    for (size_t i = 0; i < d->n; i++) {
        double sum = 0;
        for (int r = 0; r < size; r++)
            sum += d->type == SS_F32 ? (double)((float *)d->in[r])[i] : ((double *)d->in[r])[i];
        if (d->type == SS_F32)
            ((float *)d->out)[i] = (float)sum;
        else
            ((double *)d->out)[i] = sum;
    }
}

static struct ss_tensor *call_with(struct job *job, struct data *d, uint32_t lane, bool in_place)
{
    struct shape call = {.lane = lane,
                         .site = 7,
                         .address = {(const void *)(uintptr_t)(64 * (lane + 1))},
                         .n = d->n,
                         .type = d->type,
                         .in_place = in_place,
                         .out = d->out};

    for (int r = 0; r < job->size; r++)
        call.in[r] = d->in[r];
    sum_up(d, job->size);
    return go(job, &call);
}

/* Part of the gradient is common to all ranks, most of it is not. */
static void new_gradient(struct job *job, struct data *d)
{
    for (size_t i = 0; i < d->n; i++) {
        double common = noise(job);
        for (int r = 0; r < job->size; r++)
            set(d, r, i, common + 2 * noise(job));
    }
}

static void a_gradient_is_registered_on_all_ranks_in_one_call(void **state)
{
    static const size_t sizes[] = {N, 200001};

    (void)state;
    for (int c = 0; c < 8; c++) {
        struct job *job = job_open(3, SS_IDENTITY_AUTO, 3, NULL);
        struct data d = data_make(c & 1 ? SS_F64 : SS_F32, sizes[c >> 2]);
        int registered = 0;
        for (int step = 0; step < 30; step++) {
            new_gradient(job, &d);
            struct ss_tensor *t = call_with(job, &d, 0, c & 2);
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
        assert_null(t->watch.input.data);
        assert_null(t->watch.last.data);
        for (size_t i = 0; i < d.n * ss_type_size(d.type); i++)
            assert_int_equal(((unsigned char *)t->residual.data)[i], 0);
        job_close(job);
        data_free(&d);
    }
}

static void a_step_of_many_lanes_is_registered_in_its_fourth_step(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, NULL);
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (uint32_t step = 0; step < 5; step++)
        for (uint32_t lane = 0; lane < 20; lane++) {
            new_gradient(job, &d);
            struct ss_tensor *t = call_with(job, &d, lane, true);
            assert_int_equal(t->state, step < 3 ? SS_TENSOR_CANDIDATE : SS_TENSOR_REGISTERED);
            assert_int_equal(t->registered_calls, step < 4 ? 0 : step - 3);
        }
    job_close(job);
    data_free(&d);
}

static void assert_exact(const struct job *job, uint32_t lane, enum ss_tensor_reason reason)
{
    for (int r = 0; r < job->size; r++) {
        const struct ss_tensor *t = ss_tensors_first(job->tensors[r]);
        while (t->lane != lane)
            t = t->next;
        assert_int_equal(t->state, SS_TENSOR_EXACT);
        assert_int_equal(t->reason, reason);
        assert_null(t->residual.data);
        char rule[64];
        ss_tensor_override(t, rule, sizeof rule);
        assert_string_equal(rule, "count=1000,site=app+0x10");
    }
}

static void averaged_weights_stay_exact(void **state)
{
    struct job *job = job_open(3, SS_IDENTITY_AUTO, 3, NULL);
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (int step = 0; step < 30; step++) {
        for (size_t i = 0; i < N; i++) {
            double weight = noise(job); /* so that only the input tells */
            for (int r = 0; r < 3; r++)
                set(&d, r, i, weight + 0.01 * noise(job));
        }
        call_with(job, &d, 0, step % 2);
    }
    assert_exact(job, 0, SS_TENSOR_AVERAGE);
    job_close(job);
    data_free(&d);
}

static void one_rank_that_differs_makes_a_gradient(void **state)
{
    struct job *job = job_open(3, SS_IDENTITY_AUTO, 3, NULL);
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (int step = 0; step < 30; step++) { /* ranks 1 and 2 have small or no parts of their own */
        for (size_t i = 0; i < N; i++) {
            set(&d, 0, i, 100 * noise(job));
            set(&d, 1, i, noise(job));
            set(&d, 2, i, noise(job));
        }
        call_with(job, &d, 0, true);
    }
    assert_true(ss_tensors_first(job->tensors[0])->state == SS_TENSOR_REGISTERED);
    job_close(job);
    data_free(&d);
}

static void constant_statistics_stay_exact(void **state)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        struct job *job = job_open(3, SS_IDENTITY_AUTO, 3, NULL);
        struct data d = data_make(SS_F32, N);
        double base[MOST][N];

        (void)state;
        for (int r = 0; r < 3; r++)
            for (size_t i = 0; i < N; i++)
                base[r][i] = noise(job);
        for (int step = 0; step < 30; step++) {
            for (int r = 0; r < 3; r++)
                for (size_t i = 0; i < N; i++)
                    set(&d, r, i, (step % 2 ? sign : 1) * (base[r][i] + 0.02 * noise(job)));
            call_with(job, &d, 0, true);
        }
        assert_exact(job, 0, SS_TENSOR_CONSTANT);
        job_close(job);
        data_free(&d);
    }
}

static void a_metric_every_tenth_step_stays_exact(void **state)
{
    static const uint32_t lanes[] = {1, 3, 60};

    (void)state;
    for (size_t c = 0; c < sizeof lanes / sizeof lanes[0]; c++) {
        struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, NULL);
        struct data d = data_make(SS_F32, N);
        const struct ss_tensor *t;
        for (int step = 0; step < 100; step++) {
            for (uint32_t lane = 0; lane < lanes[c]; lane++) {
                new_gradient(job, &d);
                call_with(job, &d, lane, true);
            }
            if (step % 10 == 9) {
                new_gradient(job, &d);
                t = call_with(job, &d, 99, true);
                assert_int_not_equal(t->state, SS_TENSOR_REGISTERED);
                if (step > 50)
                    assert_true(t->reason == SS_TENSOR_SELDOM || t->reason == SS_TENSOR_OUTSIDE);
            }
        }
        for (t = ss_tensors_first(job->tensors[0]); t; t = t->next)
            if (t->lane != 99 && t->ordinal == 0)
                assert_int_equal(t->state, SS_TENSOR_REGISTERED);
        job_close(job);
        data_free(&d);
    }
}

static void weights_averaged_beside_gradients_of_their_lane_stay_exact(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, NULL);
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (int step = 0; step < 200; step++) {
        new_gradient(job, &d);
        call_with(job, &d, 0, true);
        if (step % 10 != 9)
            continue;
        struct shape weights = {.site = 8,
                                .address = {(const void *)(uintptr_t)4096},
                                .n = N,
                                .type = SS_F32,
                                .in = {d.out, d.out},
                                .out = d.out};
        assert_int_not_equal(go(job, &weights)->state, SS_TENSOR_REGISTERED);
    }
    for (struct ss_tensor *t = ss_tensors_first(job->tensors[0]); t; t = t->next)
        assert_int_equal(t->state, t->site == 7 ? SS_TENSOR_REGISTERED : SS_TENSOR_EXACT);
    job_close(job);
    data_free(&d);
}

static void what_never_repeats_is_not_registered(void **state)
{
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, NULL);
    struct data d = data_make(SS_F32, N);

    (void)state;
    for (int call = 0; call < 200; call++) {
        uint32_t lane = (uint32_t)(fabs(noise(job)) * 50);
        new_gradient(job, &d);
        struct ss_tensor *t = call_with(job, &d, lane, true);
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

    job = job_open(2, SS_IDENTITY_AUTO, 5, "site=app+*");
    for (int call = 0; call < 8; call++) {
        t = at(job, 0, 7, 64);
        assert_int_equal(t->state, call < 5 ? SS_TENSOR_CANDIDATE : SS_TENSOR_REGISTERED);
        assert_false(ss_tensor_watching(t));
    }
    job_close(job);

    job = job_open(2, SS_IDENTITY_AUTO, 0, "count=1");
    t = at(job, 0, 7, 64);
    assert_int_equal(t->reason, SS_TENSOR_NO_RULE);
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
    struct job *job = job_open(2, SS_IDENTITY_AUTO, 3, NULL);
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
                             .in = {d.in[0], d.in[1]},
                             .out = d.out};
        go(job, &call);
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
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, NULL);
    struct data d = data_make(SS_F32, N);

    (void)state;
    assert_int_equal(call_with(job, &d, 0, true)->watch.calls, 0);
    set(&d, 0, 5, (double)NAN);
    assert_int_equal(call_with(job, &d, 0, true)->watch.calls, 0);
    set(&d, 0, 5, 1);
    assert_int_equal(call_with(job, &d, 0, true)->watch.calls, 1);
    set(&d, 0, 5, (double)INFINITY);
    assert_int_equal(call_with(job, &d, 0, true)->watch.calls, 1);
    job_close(job);
    data_free(&d);
}

static void the_norm_of_a_residual_is_right(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 0, "*");
    struct ss_tensor *t = at(job, 0, 7, 64);
    double square = 0;

    (void)state;
    assert_true(ss_tensor_residual_norm(t) == 0);
    for (size_t i = 0; i < N; i++) {
        ((float *)t->residual.data)[i] = (float)noise(job);
        square += pow((double)((float *)t->residual.data)[i], 2);
    }
    assert_true(fabs(ss_tensor_residual_norm(t) / sqrt(square) - 1) < 1e-14);
    memset(t->residual.data, 0, N * 4);
    ((float *)t->residual.data)[3] = -1e-30f;
    assert_true(fabs(ss_tensor_residual_norm(t) / (double)1e-30f - 1) < 1e-14);
    job_close(job);
}

/* ---- block profile ---- */

static void one_tensor_resembles_its_past_and_two_in_turn_do_not(void **state)
{
    struct job *job = job_open(1, SS_IDENTITY_AUTO, 3, NULL);

    (void)state;
    for (int c = 0; c < 8; c++) {
        size_t n = c & 1 ? 300000 : 20000, nnz;
        float *g = calloc(n, sizeof *g), *val = calloc(n, sizeof *val);
        uint32_t *idx = calloc(n, sizeof *idx);
        struct ss_profile profile = {.seen = 0};
        bool turns = c & 2, sparse = c & 4, unlike = false;
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
            if (sparse)
                ss_profile_sparse(&now, SS_F32, idx, val, nnz, n);
            else
                ss_profile_dense(&now, SS_F32, g, n);
            unlike = ss_profile_watch(&profile, &now) || unlike;
        }
        assert_int_equal(unlike, turns);
        free(g);
        free(val);
        free(idx);
    }
    job_close(job);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_identity_counts_what_it_says),
        cmocka_unit_test(twelve_equal_layers_through_one_buffer_are_twelve_tensors),
        cmocka_unit_test(two_alternating_buffers_are_two_tensors),
        cmocka_unit_test(a_fresh_address_each_step_is_one_tensor),
        cmocka_unit_test(buffers_in_rotation_are_one_tensor),
        cmocka_unit_test(many_layers_with_buffers_of_their_own_stay_apart),
        cmocka_unit_test(lost_calls_use_no_residual),
        cmocka_unit_test(tensors_without_residual_make_way),
        cmocka_unit_test(an_orphan_is_handed_to_its_successor),
        cmocka_unit_test(an_operation_in_flight_keeps_its_residual),
        cmocka_unit_test(an_orphan_goes_to_the_tensor_of_its_address),
        cmocka_unit_test(a_tensor_called_now_and_then_is_no_orphan),
        cmocka_unit_test(no_ordinal_has_more_than_two_residuals),
        cmocka_unit_test(merging_adds_the_residuals),
        cmocka_unit_test(a_sum_of_residuals_stays_finite),
        cmocka_unit_test(past_the_memory_limit_tensors_stay_exact_everywhere),
        cmocka_unit_test(a_gradient_is_registered_on_all_ranks_in_one_call),
        cmocka_unit_test(a_step_of_many_lanes_is_registered_in_its_fourth_step),
        cmocka_unit_test(averaged_weights_stay_exact),
        cmocka_unit_test(one_rank_that_differs_makes_a_gradient),
        cmocka_unit_test(constant_statistics_stay_exact),
        cmocka_unit_test(a_metric_every_tenth_step_stays_exact),
        cmocka_unit_test(weights_averaged_beside_gradients_of_their_lane_stay_exact),
        cmocka_unit_test(what_never_repeats_is_not_registered),
        cmocka_unit_test(rules_override_the_test),
        cmocka_unit_test(what_is_excluded_or_no_sum_of_floats_stays_exact),
        cmocka_unit_test(ranks_whose_addresses_differ_register_together),
        cmocka_unit_test(zero_and_not_finite_results_are_not_counted),
        cmocka_unit_test(the_norm_of_a_residual_is_right),
        cmocka_unit_test(one_tensor_resembles_its_past_and_two_in_turn_do_not),
        cmocka_unit_test(too_few_entries_say_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
