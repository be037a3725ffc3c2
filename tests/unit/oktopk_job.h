/* A training with oktopk in the simulator: gradients in several patterns, and what must balance
 * (invariant 3): results + residuals = inputs. */
#ifndef TESTS_OKTOPK_JOB_H
#define TESTS_OKTOPK_JOB_H

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/sim_job.h"

enum { MAX_P = 9, N = 6007, STEPS = 30 };

/* Where the large gradients of a rank lie. */
enum place { UNIFORM, FRONT, OPPOSITE, MOVING, CONSTANT, PLACES };

struct training {
    struct sim_job job;
    struct ss_rules *rules;
    enum ss_type type;
    enum place place;
    size_t n;
    uint64_t steps;
    void *gradient[SIM_JOB_RANKS];
    double *in, *magnitude, *out; /* per element: sums over ranks and steps */
    int sparse, native;
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

static inline struct ss_settings settings_of(double density)
{
    return (struct ss_settings){.algorithm = SS_OKTOPK,
                                .alpha = 1e-5,
                                .beta = 1e-9,
                                .hash = 1,
                                .topk = true,
                                .density = density,
                                .repartition_period = 16,
                                .tensors = {.register_after = 0, .threshold_period = 8}};
}

static inline void training_open(struct training *t, int size, enum ss_type type, size_t n,
                                 uint64_t seed, struct ss_settings settings)
{
    char error[200];

    memset(t, 0, sizeof *t);
    assert_int_equal(ss_rules_parse("count=1:", true, &t->rules, error, sizeof error), SS_OK);
    settings.tensors.include = t->rules;
    job_open(&t->job, size, 1e-5, 1e-9, seed, &settings);
    t->type = type;
    t->n = n;
    t->in = calloc(n, sizeof *t->in);
    t->magnitude = calloc(n, sizeof *t->in);
    t->out = calloc(n, sizeof *t->in);
    for (int r = 0; r < size; r++) {
        t->gradient[r] = calloc(n, ss_type_size(type));
        t->job.out[r] = calloc(n, ss_type_size(type));
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

/* 1 where the pattern has its large gradients, else a thousandth. */
static inline double emphasis(const struct training *t, int rank, size_t i)
{
    size_t size = (size_t)t->job.size, tenth = t->n / 10 + 1;
    size_t begin = 0;

    if (t->place == OPPOSITE)
        begin = (size - 1 - (size_t)rank) * t->n / size;
    else if (t->place == MOVING)
        begin = (size_t)(t->steps / 8 * 7) * tenth % t->n;
    else if (t->place != FRONT)
        return 1;
    return i >= begin && i < begin + tenth ? 1 : 1e-3;
}

/* Heavy-tailed values; a power of two scales them all. */
static inline void draw(struct training *t, double scale)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++) {
            uint64_t h = mix(t->steps * 1000003 + (uint64_t)r * 7919 + i * 104729 + 1);
            double x = (double)(int64_t)h / 9.3e18, y = (double)(mix(h) >> 40) / 16777216.0;
            double value = t->place == CONSTANT ? 0.25 : x * (0.01 + y * y * y * y);
            put(t->type, t->gradient[r], i, scale * emphasis(t, r, i) * value);
        }
}

static inline const struct ss_call *call_of(const struct training *t, int rank)
{
    return ss_comm_call(t->job.comm[rank]);
}

static inline void step(struct training *t, bool in_place)
{
    int size = t->job.size;

    t->steps++;
    for (int r = 0; r < size; r++) {
        for (size_t i = 0; i < t->n; i++) {
            t->in[i] += get(t->type, t->gradient[r], i);
            t->magnitude[i] += fabs(get(t->type, t->gradient[r], i));
        }
        t->job.in[r] = in_place ? NULL : t->gradient[r];
        if (in_place)
            memcpy(t->job.out[r], t->gradient[r], t->n * ss_type_size(t->type));
    }
    assert_true(job_call(&t->job, t->type, SS_SUM, t->n));
    for (int r = 1; r < size; r++)
        assert_int_equal(t->job.status[r], t->job.status[0]);
    if (t->job.status[0] == SS_NATIVE) { /* the MPI library's turn: in double here */
        t->native++;
        for (size_t i = 0; i < t->n; i++)
            for (int r = 0; r < size; r++)
                t->out[i] += get(t->type, t->gradient[r], i);
        return;
    }
    assert_int_equal(t->job.status[0], SS_OK);
    t->sparse++;
    for (int r = 1; r < size; r++)
        assert_memory_equal(t->job.out[r], t->job.out[0], t->n * ss_type_size(t->type));
    for (size_t i = 0; i < t->n; i++)
        t->out[i] += get(t->type, t->job.out[0], i);
}

static inline struct ss_tensor *tensor_of(const struct training *t, int rank)
{
    return ss_tensors_first(t->job.comm[rank]->tensors);
}

static inline const void *residual(const struct training *t, int rank)
{
    const struct ss_tensor *tensor = tensor_of(t, rank);

    return tensor ? tensor->residual.data : NULL;
}

static inline size_t selected(const struct training *t)
{
    size_t count = 0;

    for (size_t i = 0; i < t->n; i++)
        count += get(t->type, t->job.out[0], i) != 0;
    return count;
}

/* Sum of results = sum of inputs - residuals, per element within (S + P + 2) eps sum |in|. */
static inline void expect_conservation(const struct training *t)
{
    double eps = t->type == SS_F32 ? (double)FLT_EPSILON : DBL_EPSILON;

    for (size_t i = 0; i < t->n; i++) {
        double left = 0;
        for (int r = 0; r < t->job.size; r++)
            left += residual(t, r) ? get(t->type, residual(t, r), i) : 0;
        double error = fabs(t->in[i] - left - t->out[i]);
        if (error > ((double)t->steps + t->job.size + 2) * eps * t->magnitude[i])
            fail_msg("element %zu: in %g, residuals %g, out %g", i, t->in[i], left, t->out[i]);
    }
}

#endif
