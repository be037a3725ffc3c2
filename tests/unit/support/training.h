/* A training in the simulator: steps of one registered tensor, with the balance of invariant 3,
 * results + residuals = inputs. */
#ifndef TESTS_UNIT_TRAINING_H
#define TESTS_UNIT_TRAINING_H

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/sim_job.h"

struct training {
    struct sim_job job;
    struct ss_rules *rules;
    enum ss_type type;
    size_t n;
    int pattern;                       /* pattern of the gradients, a number of the test */
    void *gradient[SIM_JOB_RANKS];     /* gradient of the next step, per rank */
    long double *in, *magnitude, *out; /* per element: sums over ranks and steps */
    int steps, sparse, native;
};

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static inline double get(enum ss_type type, const void *v, size_t i)
{
    return type == SS_F32 ? (double)((const float *)v)[i] : ((const double *)v)[i];
}

static inline void put(enum ss_type type, void *v, size_t i, double x)
{
    if (type == SS_F32)
        ((float *)v)[i] = (float)x;
    else
        ((double *)v)[i] = x;
}

static inline struct ss_settings training_settings(enum ss_algorithm algorithm)
{
    return (struct ss_settings){.algorithm = algorithm,
                                .alpha = 1e-5,
                                .beta = 1e-9,
                                .hash = 1,
                                .topk = true,
                                .density = 0.01,
                                .quant_bucket = 64,
                                .repartition_period = 4,
                                .tensors = {.threshold_period = 8}};
}

/* As assert_memory_equal, which compares byte after byte. */
static inline void expect_equal_bytes(const void *a, const void *b, size_t size)
{
    if (memcmp(a, b, size) != 0)
        assert_memory_equal(a, b, size);
}

/* `seed` determines the order of delivery, 0: by the clock. */
static inline void training_open(struct training *t, int size, enum ss_type type, size_t n,
                                 uint64_t seed, struct ss_settings settings)
{
    char error[200];

    memset(&t->rules, 0,
           sizeof *t - offsetof(struct training, rules)); /* job_open clears the job */
    assert_int_equal(ss_rules_parse("site=second:calls=1;count=1:,site=*:calls=1", true, &t->rules,
                                    error, sizeof error),
                     SS_OK);
    settings.tensors.include = t->rules;
    job_open(&t->job, size, 1e-5, 1e-9, seed, &settings);
    t->type = type;
    t->n = n;
    t->in = calloc(n, sizeof *t->in);
    t->magnitude = calloc(n, sizeof *t->in);
    t->out = calloc(n, sizeof *t->in);
    for (int r = 0; r < size; r++) {
        t->gradient[r] = calloc(n, 8);
        t->job.out[r] = calloc(n, 8);
    }
}

static inline void training_close(struct training *t)
{
    for (int r = 0; r < t->job.size; r++) {
        free(t->gradient[r]);
        free(t->job.out[r]);
    }
    free(t->in);
    free(t->magnitude);
    free(t->out);
    job_close(&t->job);
    ss_rules_free(t->rules);
}

/* Makes the call alone; inputs are those of the next step. */
static inline void training_call(struct training *t, bool in_place)
{
    for (int r = 0; r < t->job.size; r++) {
        t->job.in[r] = in_place ? NULL : t->gradient[r];
        if (in_place)
            memcpy(t->job.out[r], t->gradient[r], t->n * ss_type_size(t->type));
    }
    assert_true(job_call(&t->job, t->type, SS_SUM, t->n));
    for (int r = 1; r < t->job.size; r++)
        assert_int_equal(t->job.status[r], t->job.status[0]);
}

/* Adds a vector of each rank to a sum, and its absolute values to another unless that is NULL. */
static inline void training_add(const struct training *t, const void *const *v, long double *sum,
                                long double *magnitude)
{
    for (size_t i = 0; i < t->n; i++) {
        long double x = sum[i], m = magnitude ? magnitude[i] : 0;
        for (int r = 0; r < t->job.size; r++) {
            double y = get(t->type, v[r], i);
            x += (long double)y;
            m += (long double)fabs(y);
        }
        sum[i] = x;
        if (magnitude)
            magnitude[i] = m;
    }
}

/* Makes the MPI library's call without rounding, on the input or what has joined it. */
static inline void training_sum_native(struct training *t)
{
    const void *in[SIM_JOB_RANKS];

    for (int r = 0; r < t->job.size; r++)
        in[r] = ss_call_joined(ss_comm_call(t->job.comm[r])) ? t->job.out[r] : t->gradient[r];
    training_add(t, in, t->out, NULL);
}

static inline void training_step(struct training *t, bool in_place)
{
    int size = t->job.size;

    training_add(t, (const void *const *)t->gradient, t->in, t->magnitude);
    t->steps++;
    training_call(t, in_place);
    if (t->job.status[0] == SS_NATIVE) {
        t->native++;
        training_sum_native(t);
        return;
    }
    assert_int_equal(t->job.status[0], SS_OK);
    t->sparse++;
    for (int r = 1; r < size; r++)
        expect_equal_bytes(t->job.out[r], t->job.out[0], t->n * ss_type_size(t->type));
    for (size_t i = 0; i < t->n; i++)
        t->out[i] += (long double)get(t->type, t->job.out[0], i);
}

static inline const void *training_residual(const struct training *t, int rank)
{
    const struct ss_tensor *tensor = ss_tensors_first(t->job.comm[rank]->tensors);

    const char *values = tensor ? tensor->residual.values.data : NULL;
    bool remote = values && tensor->residual.backend->ops->remote;
    return remote ? values - t->job.far : values;
}

/* The elements of the residual that a rank holds; n = 0: none. */
struct training_part {
    const void *values;
    size_t first, n;
};

static inline struct training_part training_part(const struct training *t, int rank)
{
    const struct ss_tensor *tensor = ss_tensors_first(t->job.comm[rank]->tensors);
    const void *values = training_residual(t, rank);

    if (!values)
        return (struct training_part){.n = 0};
    return (struct training_part){
        .values = values, .first = (size_t)tensor->range.first, .n = (size_t)tensor->range.n};
}

/* Returns element i of the residual on a rank; 0 if another rank holds it for the host. */
static inline double training_kept(const struct training *t, int rank, size_t i)
{
    const struct training_part part = training_part(t, rank);

    return i - part.first < part.n ? get(t->type, part.values, i - part.first) : 0;
}

static inline long double training_left(const struct training *t, size_t i)
{
    long double left = 0;

    for (int r = 0; r < t->job.size; r++) {
        const struct training_part part = training_part(t, r);
        if (i - part.first < part.n)
            left += (long double)get(t->type, part.values, i - part.first);
    }
    return left;
}

/* Checks that the sum of results equals the sum of inputs minus the residuals, per element within
 * (S + P + 2) eps sum |in|. */
static inline void expect_conservation(const struct training *t, const char *what)
{
    long double eps = t->type == SS_F32 ? (long double)FLT_EPSILON : (long double)DBL_EPSILON;

    for (size_t i = 0; i < t->n; i++) {
        long double left = training_left(t, i);
        long double error = fabsl(t->in[i] - left - t->out[i]);
        if (error > (t->steps + t->job.size + 2) * eps * t->magnitude[i])
            fail_msg("%s, P = %d, %s, element %zu: in %Lg, residuals %Lg, out %Lg, |in| %Lg", what,
                     t->job.size, ss_type_name(t->type), i, t->in[i], left, t->out[i],
                     t->magnitude[i]);
    }
}

/* Checks the same to the last bit. */
static inline void expect_balance(const struct training *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->in[i] != training_left(t, i) + t->out[i])
            fail_msg("element %zu: in %Lg, residuals %Lg, out %Lg", i, t->in[i],
                     training_left(t, i), t->out[i]);
}

/* Checks that two trainings ended alike: the same sums of results, and the same residual on each
 * rank. */
static inline void expect_same_bits(const struct training *a, const struct training *b)
{
    expect_equal_bytes(a->out, b->out, a->n * sizeof *a->out);
    for (int r = 0; r < a->job.size; r++)
        expect_equal_bytes(training_residual(a, r), training_residual(b, r),
                           a->n * ss_type_size(a->type));
}

static inline bool training_drained(const struct training *t)
{
    for (int r = 0; r < t->job.size; r++) {
        const struct training_part part = training_part(t, r);
        for (size_t i = 0; i < part.n; i++)
            if (get(t->type, part.values, i) != 0)
                return false;
    }
    return true;
}

/* Feeds zeros until nothing is left, or for `most` steps. Returns the number of steps. */
static inline int training_drain(struct training *t, int most)
{
    int steps = 0;

    for (int r = 0; r < t->job.size; r++)
        memset(t->gradient[r], 0, t->n * ss_type_size(t->type));
    for (; steps < most && !training_drained(t); steps++)
        training_step(t, false);
    return steps;
}

#endif
