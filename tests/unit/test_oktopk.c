/* The O(k) sparse allreduce: what it computes, what it sends, and that nothing is lost in it. */
#define SIM_JOB_RANKS 1024
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/sim_job.h"

enum { MAX_P = 9, N = 6007, STEPS = 30, DRAIN = 400 };

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

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static double get(enum ss_type type, const void *v, size_t i)
{
    return type == SS_F32 ? (double)((const float *)v)[i] : ((const double *)v)[i];
}

static void put(enum ss_type type, void *v, size_t i, double x)
{
    if (type == SS_F32)
        ((float *)v)[i] = (float)x;
    else
        ((double *)v)[i] = x;
}

static struct ss_settings settings_of(double density)
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

static void training_open(struct training *t, int size, enum ss_type type, size_t n, uint64_t seed,
                          struct ss_settings settings)
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

static void training_close(struct training *t)
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
static double emphasis(const struct training *t, int rank, size_t i)
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
static void draw(struct training *t, double scale)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++) {
            uint64_t h = mix(t->steps * 1000003 + (uint64_t)r * 7919 + i * 104729 + 1);
            double x = (double)(int64_t)h / 9.3e18, y = (double)(mix(h) >> 40) / 16777216.0;
            double value = t->place == CONSTANT ? 0.25 : x * (0.01 + y * y * y * y);
            put(t->type, t->gradient[r], i, scale * emphasis(t, r, i) * value);
        }
}

static const struct ss_call *call_of(const struct training *t, int rank)
{
    return ss_comm_call(t->job.comm[rank]);
}

static void step(struct training *t, bool in_place)
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

static struct ss_tensor *tensor_of(const struct training *t, int rank)
{
    return ss_tensors_first(t->job.comm[rank]->tensors);
}

static const void *residual(const struct training *t, int rank)
{
    const struct ss_tensor *tensor = tensor_of(t, rank);

    return tensor ? tensor->residual.data : NULL;
}

/* Sum of results = sum of inputs - residuals, per element within (S + P + 2) eps sum |in|. */
static void expect_conservation(const struct training *t)
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

static void no_gradient_is_lost(void **state)
{
    static struct training t;

    (void)state;
    for (int place = 0; place < PLACES; place++)
        for (int size = 2; size <= MAX_P; size++)
            for (int form = 0; form < 4; form++) {
                struct ss_settings settings = settings_of(0.01);
                settings.partition = (enum ss_partition)(form % 3);
                training_open(&t, size, form & 1 ? SS_F64 : SS_F32, N, form == 3 ? 5 : 0, settings);
                t.place = (enum place)place;
                for (int s = 0; s < STEPS; s++) {
                    draw(&t, s % 7 == 3 ? 1e-30 : 1);
                    step(&t, s & 1);
                }
                assert_true(t.sparse >= STEPS - 1);
                assert_int_equal(call_of(&t, 0)->plan.algorithm, SS_OKTOPK);
                expect_conservation(&t);
                training_close(&t);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_gradient_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
