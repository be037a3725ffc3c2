/* Trainings in the simulator whose values travel in fewer bits. */
#ifndef TESTS_ROUNDING_JOB_H
#define TESTS_ROUNDING_JOB_H

#include <float.h>
#include <math.h>

#include "tests/unit/sim_job.h"

enum { MOST_P = 9, N = 2003, STEPS = 12 };

enum pattern { HEAVY, SPREAD, CANCELLING, FLAT, PATTERNS };

/* What rounds: a collective and the options. */
struct form {
    enum ss_algorithm algorithm;
    enum ss_values values, quant;
};

static const struct form forms[] = {
    {SS_RECURSIVE_DOUBLING, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_RECURSIVE_DOUBLING, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_RECURSIVE_DOUBLING, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_RECURSIVE_DOUBLING, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_SPLIT_ALLGATHER, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_SPLIT_ALLGATHER, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_SPLIT_ALLGATHER, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_SPLIT_ALLGATHER, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_RING, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_RING, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_RING, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_RING, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_ALLGATHER, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_ALLGATHER, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_ALLGATHER, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_ALLGATHER, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_DSAR, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_DSAR, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_DSAR, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_DSAR, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_DSAR, SS_VALUES_SAME, SS_VALUES_Q8},
    {SS_DSAR, SS_VALUES_SAME, SS_VALUES_Q4},
    {SS_DSAR, SS_VALUES_SAME, SS_VALUES_Q2},
    {SS_DSAR, SS_VALUES_BF16, SS_VALUES_Q4},
    {SS_DSAR, SS_VALUES_Q2, SS_VALUES_Q8},
    {SS_OKTOPK, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_OKTOPK, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_OKTOPK, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_OKTOPK, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_GTOPK, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_GTOPK, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_GTOPK, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_GTOPK, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_AUTO, SS_VALUES_BF16, SS_VALUES_Q4},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

struct training {
    struct sim_job job;
    struct ss_rules *rules;
    enum ss_type type;
    size_t n;
    void *gradient[MOST_P];
    double *in, *magnitude, *out; /* per element: sums over ranks and steps */
    int sparse;
};

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static inline double unit(uint64_t x)
{
    return (double)(mix(x) >> 11) * 0x1p-53;
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

static inline struct ss_settings settings_of(const struct form *form)
{
    return (struct ss_settings){.algorithm = form->algorithm,
                                .alpha = 1e-5,
                                .beta = 1e-9,
                                .hash = 1,
                                .topk = true,
                                .density = 0.05,
                                .values = form->values,
                                .quant = form->quant,
                                .quant_feedback = true,
                                .quant_bucket = 64,
                                .repartition_period = 64,
                                .seed = 1,
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

static inline double sample(enum pattern pattern, uint64_t step, int rank, size_t i)
{
    uint64_t h = mix(step * 1000003 + (uint64_t)rank * 7919 + i * 104729 + 1);
    double x = 2 * unit(h) - 1, y = unit(h + 1);

    switch (pattern) {
    case SPREAD: /* each element at its own magnitude, from 1e-30 to 1e30 */
        return x * pow(10, 60 * unit(i) - 30);
    case CANCELLING: /* ranks in pairs take each other's gradient back, all but a little */
        h = mix(step * 1000003 + (uint64_t)(rank / 2) * 7919 + i * 104729 + 1);
        return (2 * unit(h) - 1) * (rank % 2 ? -1 : 1) + 1e-6 * x;
    case FLAT:
        return h & 1 ? 0.25 : -0.25;
    default:
        return x * (0.01 + y * y * y * y) * (step % 7 == 3 ? 1e-30 : 1);
    }
}

static inline void draw(struct training *t, enum pattern pattern, uint64_t step)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++)
            put(t->type, t->gradient[r], i, sample(pattern, step, r, i));
}

/* One call on the gradients: sparse, the same bits on all ranks. */
static inline void step(struct training *t, bool in_place)
{
    int size = t->job.size;

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
    for (int r = 0; r < size; r++)
        assert_int_equal(t->job.status[r], t->job.status[0]);
    if (t->job.status[0] == SS_NATIVE) { /* the MPI library's turn: in double here */
        for (size_t i = 0; i < t->n; i++)
            for (int r = 0; r < size; r++)
                t->out[i] += get(t->type, job_native_input(&t->job, r), i);
        return;
    }
    assert_int_equal(t->job.status[0], SS_OK);
    t->sparse++;
    for (int r = 1; r < size; r++)
        assert_memory_equal(t->job.out[r], t->job.out[0], t->n * ss_type_size(t->type));
    for (size_t i = 0; i < t->n; i++)
        t->out[i] += get(t->type, t->job.out[0], i);
}

static inline const void *residual(const struct training *t, int rank)
{
    const struct ss_tensor *tensor = ss_tensors_first(t->job.comm[rank]->tensors);

    return tensor ? tensor->residual.data : NULL;
}

static inline double residual_sum(const struct training *t, size_t i)
{
    double sum = 0;

    for (int r = 0; r < t->job.size; r++)
        sum += residual(t, r) ? get(t->type, residual(t, r), i) : 0;
    return sum;
}

/* Sum of results = sum of inputs - residuals, per element within (S + P + 2) eps sum |in|. */
static inline void expect_conservation(const struct training *t, const struct form *form, int steps)
{
    double eps = t->type == SS_F32 ? (double)FLT_EPSILON : DBL_EPSILON;

    for (size_t i = 0; i < t->n; i++) {
        double left = residual_sum(t, i);
        double error = fabs(t->in[i] - left - t->out[i]);
        if (error > (steps + t->job.size + 2) * eps * t->magnitude[i])
            fail_msg("%s, values %s, dense %s, P=%d, %s, element %zu: in %g, residuals %g, out %g",
                     ss_algorithm_name(form->algorithm), ss_values_name(form->values),
                     ss_values_name(form->quant), t->job.size, ss_type_name(t->type), i, t->in[i],
                     left, t->out[i]);
    }
}

#endif
