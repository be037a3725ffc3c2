/* A job of four ranks in the simulator with up to three gradients. The job adds up the
 * results, native calls included. */
#ifndef TESTS_FEEDBACK_JOB_H
#define TESTS_FEEDBACK_JOB_H

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/sim_job.h"

enum { P = 4, N = 6007, MOST_TENSORS = 3 };

struct training {
    struct sim_job job;
    struct ss_rules *rules;
    size_t n[MOST_TENSORS];
    float *gradient[MOST_TENSORS][P];
    float *out[MOST_TENSORS][P];
    double *sum_in, *sum_out, *magnitude; /* sums of tensor 0, per element */
    double unit;                          /* weight of an input in those sums */
    int native, sparse;
};

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static inline struct ss_settings settings_of(enum ss_algorithm algorithm)
{
    return (struct ss_settings){.algorithm = algorithm,
                                .alpha = 1e-5,
                                .beta = 1e-9,
                                .hash = 1,
                                .topk = true,
                                .density = 0.01,
                                .quant_bucket = 1024,
                                .repartition_period = 64,
                                .tensors = {.threshold_period = 8}};
}

static inline void training_open(struct training *t, const char *rules, struct ss_settings settings)
{
    char error[200];

    memset(t, 0, sizeof *t);
    if (ss_rules_parse(rules, true, &t->rules, error, sizeof error) != SS_OK)
        fail_msg("%s: %s", rules, error);
    settings.tensors.include = t->rules;
    job_open(&t->job, P, 1e-5, 1e-9, 3, &settings);
    t->unit = 1;
    for (int i = 0; i < MOST_TENSORS; i++) {
        t->n[i] = N + 100 * (size_t)i;
        for (int r = 0; r < P; r++) {
            t->gradient[i][r] = calloc(t->n[i], sizeof(float));
            t->out[i][r] = calloc(t->n[i], sizeof(float));
        }
    }
    t->sum_in = calloc(N, sizeof(double));
    t->sum_out = calloc(N, sizeof(double));
    t->magnitude = calloc(N, sizeof(double));
}

static inline void training_close(struct training *t)
{
    for (int i = 0; i < MOST_TENSORS; i++)
        for (int r = 0; r < P; r++) {
            free(t->gradient[i][r]);
            free(t->out[i][r]);
        }
    free(t->sum_in);
    free(t->sum_out);
    free(t->magnitude);
    job_close(&t->job);
    ss_rules_free(t->rules);
}

static inline void draw(struct training *t, int tensor, uint64_t step, double scale)
{
    for (int r = 0; r < P; r++)
        for (size_t i = 0; i < t->n[tensor]; i++) {
            uint64_t h = mix(step * 1000003 + (uint64_t)r * 7919 + i * 104729 + 1);
            double x = (double)(int64_t)h / 9.3e18, y = (double)(mix(h) >> 40) / 16777216.0;
            t->gradient[tensor][r][i] = (float)(scale * x * (0.01 + y * y * y * y));
        }
}

static inline struct ss_tensor *tensor_of(const struct training *t, int rank, int tensor)
{
    struct ss_tensor *at = ss_tensors_first(t->job.comm[rank]->tensors);

    while (at && at->n != t->n[tensor])
        at = at->next;
    return at;
}

/* Makes one call, whose result is in out[tensor][*] whichever way it goes. Returns the status. */
static inline int call(struct training *t, int tensor, bool in_place)
{
    size_t n = t->n[tensor];

    for (int r = 0; r < P; r++) {
        t->job.in[r] = in_place ? NULL : t->gradient[tensor][r];
        t->job.out[r] = t->out[tensor][r];
        if (in_place)
            memcpy(t->job.out[r], t->gradient[tensor][r], n * sizeof(float));
        for (size_t i = 0; tensor == 0 && i < n; i++) {
            t->sum_in[i] += t->unit * (double)t->gradient[0][r][i];
            t->magnitude[i] += t->unit * fabs((double)t->gradient[0][r][i]);
        }
    }
    assert_true(job_call(&t->job, SS_F32, SS_SUM, n));
    for (int r = 1; r < P; r++)
        assert_int_equal(t->job.status[r], t->job.status[0]);
    if (t->job.status[0] == SS_NATIVE) {
        float *sum = calloc(n, sizeof *sum);
        for (int r = 0; r < P; r++)
            for (size_t i = 0; i < n; i++)
                sum[i] += ((const float *)job_native_input(&t->job, r))[i];
        for (int r = 0; r < P; r++)
            memcpy(t->out[tensor][r], sum, n * sizeof *sum);
        free(sum);
        t->native++;
    } else {
        assert_int_equal(t->job.status[0], SS_OK);
        t->sparse++;
    }
    for (int r = 1; r < P; r++)
        assert_memory_equal(t->out[tensor][r], t->out[tensor][0], n * sizeof(float));
    for (size_t i = 0; tensor == 0 && i < n; i++)
        t->sum_out[i] += t->unit * (double)t->out[0][0][i];
    return t->job.status[0];
}

static inline void expect_conservation(const struct training *t, int steps)
{
    for (size_t i = 0; i < t->n[0]; i++) {
        double left = 0;
        for (int r = 0; r < P; r++) {
            const struct ss_tensor *tensor = tensor_of(t, r, 0);
            if (tensor && tensor->residual.values.data)
                left += t->unit * (double)((const float *)tensor->residual.values.data)[i];
        }
        if (fabs(t->sum_in[i] - left - t->sum_out[i]) >
            (steps + P + 2) * (double)FLT_EPSILON * t->magnitude[i])
            fail_msg("element %zu: in %g, residuals %g, out %g", i, t->sum_in[i], left,
                     t->sum_out[i]);
    }
}

#endif
