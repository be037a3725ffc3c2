/* Trainings on ranks whose buffers lie in backends that the host cannot access, together with a
 * training on ordinary buffers, which must be equal to the last bit. */
#ifndef TESTS_UNIT_BACKEND_TRAINING_H
#define TESTS_UNIT_BACKEND_TRAINING_H

#define mix training_mix
#include "core/tensor/residual.h"
#include "tests/unit/support/training.h"
#undef mix

enum { N = 3001 };

/* A kind of backend: makes a backend for each rank and memory in it as the test sees it, `far`
 * bytes before its address, and ends them all. */
struct backend_kind {
    struct ss_backend *(*backend)(int rank);
    void *(*make)(int rank, size_t bytes);
    void (*end)(void);
    ptrdiff_t far;
};

struct form {
    const char *name;
    enum ss_algorithm algorithm;
    enum ss_values values;
    uint64_t k, bucket;
    const char *rule;
    bool guard;
    double density;
};

#define EACH_ALGORITHM(id, word)                                                                   \
    {#word, id, .density = 0.02}, {#word ", bf16", id, .values = SS_VALUES_BF16, .density = 0.05},
static const struct form forms[] = {
    {"recursive_doubling, dense", SS_RECURSIVE_DOUBLING, .density = 0.6},
    {"oktopk, guard", SS_OKTOPK, .density = 0.02, .guard = true},
    {"split_allgather, guard", SS_SPLIT_ALLGATHER, .density = 0.02, .guard = true},
    {"split_allgather, q8", SS_SPLIT_ALLGATHER, .values = SS_VALUES_Q8, .density = 0.04},
    {"split_allgather, q4", SS_SPLIT_ALLGATHER, .values = SS_VALUES_Q4, .density = 0.04},
    {"dsar, q4", SS_DSAR, .values = SS_VALUES_Q4, .density = 0.05},
    {"ring, q8", SS_RING, .values = SS_VALUES_Q8, .density = 0.02},
    {"allgather, q8", SS_ALLGATHER, .values = SS_VALUES_Q8, .density = 0.3},
    {"auto, q8", SS_AUTO, .values = SS_VALUES_Q8, .density = 0.02},
    {"K of B", SS_SPLIT_ALLGATHER, .k = 4, .bucket = 64, .density = 0.02},
    {"keep", SS_ALLGATHER, .rule = "count=1::calls=1:keep=last:7", .density = 0.02},
    {"auto", SS_AUTO, .density = 0.02},
    {"auto, dense", SS_AUTO, .density = 0.9},
    SS_ONE_LEVEL_LIST(EACH_ALGORITHM)};

static inline void backend_ranks(struct sim_job *job, const struct backend_kind *kind,
                                 unsigned hosts)
{
    job->far = kind->far;
    ss_sim_set_idle(job->sim, 1e-6); /* a rank that waits for its backend moves nothing */
    for (int r = 0; r < job->size; r++)
        job->backend[r] = hosts >> r & 1 ? NULL : kind->backend(r);
}

static inline void open_form_of(struct training *t, const struct form *f, int size,
                                enum ss_type type, size_t n)
{
    struct ss_settings settings = training_settings(f->algorithm);
    char error[200];

    settings.value_type = f->values;
    settings.density = f->density;
    settings.k = f->k;
    settings.bucket = f->bucket;
    settings.guard = f->guard ? SS_GUARD_WARN : SS_GUARD_OFF;
    training_open(t, size, type, n, 0, settings);
    if (!f->rule)
        return;
    ss_rules_free(t->rules);
    assert_int_equal(ss_rules_parse(f->rule, true, &t->rules, error, sizeof error), SS_OK);
    for (int r = 0; r < size; r++)
        t->job.settings[r].tensors.include = t->rules;
}

static inline void open_form(struct training *t, const struct form *f, int size)
{
    open_form_of(t, f, size, SS_F32, N);
}

/* `hosts` has a bit for each rank whose buffers stay ordinary. */
static inline void backend_training(struct training *t, const struct backend_kind *kind,
                                    unsigned hosts)
{
    backend_ranks(&t->job, kind, hosts);
    for (int r = 0; r < t->job.size; r++) {
        if (hosts >> r & 1)
            continue;
        free(t->gradient[r]);
        free(t->job.out[r]);
        t->gradient[r] = kind->make(r, (size_t)N * 8);
        t->job.out[r] = kind->make(r, (size_t)N * 8);
    }
}

static inline void close_backends(struct training *t, const struct backend_kind *kind,
                                  unsigned hosts)
{
    for (int r = 0; r < t->job.size; r++)
        if (!(hosts >> r & 1))
            t->gradient[r] = t->job.out[r] = NULL;
    training_close(t);
    kind->end();
}

static inline void draw(struct training *t, uint64_t step)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < N; i++) {
            uint64_t h = training_mix(step * 1000003 + (uint64_t)r * 7919 + i + 1);
            double x = (double)(h >> 11) * 0x1p-53 - 0.5;
            put(SS_F32, t->gradient[r], i, i % 5 && step > 30 ? 0 : x * x * x);
        }
}

/* Makes one gradient not finite, which undoes the claims, and one all zeros. */
static inline void spoil(struct training *t, uint64_t step)
{
    if (step == 12)
        put(SS_F32, t->gradient[t->job.size - 1], 77, (double)INFINITY);
    for (int r = 0; step == 20 && r < t->job.size; r++)
        memset(t->gradient[r], 0, (size_t)N * 4);
}

/* Compares the results of the same step of both trainings. */
static inline void step_alike(struct training *near, struct training *placed, uint64_t step)
{
    draw(near, step);
    draw(placed, step);
    spoil(near, step);
    spoil(placed, step);
    training_call(near, step & 1);
    training_call(placed, step & 1);
    assert_int_equal(near->job.status[0], placed->job.status[0]);
    for (int r = 0; near->job.status[0] == SS_OK && r < near->job.size; r++)
        assert_memory_equal(near->job.out[r], placed->job.out[r], (size_t)N * 4);
}

static inline void expect_same_residuals(const struct training *near, const struct training *placed)
{
    for (int r = 0; r < near->job.size; r++) {
        assert_true(!training_residual(near, r) == !training_residual(placed, r));
        if (training_residual(near, r))
            assert_memory_equal(training_residual(near, r), training_residual(placed, r),
                                (size_t)N * 4);
    }
}

/* ---- a unit that changes ---- */

static const struct form scaled_forms[] = {
    {"allgather", SS_ALLGATHER, .density = 0.02},
    {"split_allgather, q4", SS_SPLIT_ALLGATHER, .values = SS_VALUES_Q4, .density = 0.05},
};

/* From step 13 on gradients are a quarter of what they were, and so are the residuals. */
static inline void scaled_step_alike(struct training *near, struct training *placed, uint64_t step)
{
    struct training *both[] = {near, placed};

    for (int i = 0; i < 2; i++) {
        draw(both[i], step);
        for (int r = 0; step > 12 && r < both[i]->job.size; r++)
            for (size_t j = 0; j < N; j++)
                ((float *)both[i]->gradient[r])[j] *= 0.25F;
        for (int r = 0; step == 13 && r < both[i]->job.size; r++)
            ss_residual_scale(ss_tensors_first(both[i]->job.comm[r]->tensors), 0.25);
        training_call(both[i], step & 1);
    }
    assert_int_equal(near->job.status[0], placed->job.status[0]);
    for (int r = 0; near->job.status[0] == SS_OK && r < near->job.size; r++)
        assert_memory_equal(near->job.out[r], placed->job.out[r], (size_t)N * 4);
}

/* ---- vectors of any length ---- */

static const struct form sized_forms[] = {
    {"allgather", SS_ALLGATHER, .density = 0.3},
    {"allgather, q8", SS_ALLGATHER, .values = SS_VALUES_Q8, .density = 0.3},
    {"split_allgather", SS_SPLIT_ALLGATHER, .density = 0.1},
    {"split_allgather, bf16", SS_SPLIT_ALLGATHER, .values = SS_VALUES_BF16, .density = 0.6},
    {"dsar", SS_DSAR, .density = 0.2},
    {"K of B", SS_SPLIT_ALLGATHER, .k = 1, .bucket = 64, .density = 0.02},
    {"auto", SS_AUTO, .density = 0.05},
};
static const size_t sizes_of_vectors[] = {1, 2, 3, 5, 31, 64, 257, 1025};

/* Makes some elements subnormal; gives some ranks zeros alone. */
static inline void sized_step_alike(struct training *near, struct training *placed, uint64_t step)
{
    struct training *both[] = {near, placed};
    const size_t bytes = near->n * ss_type_size(near->type);

    for (int i = 0; i < 2; i++) {
        struct training *t = both[i];
        for (int r = 0; r < t->job.size; r++)
            for (size_t j = 0; j < t->n; j++) {
                uint64_t h = training_mix(step * 1000003 + (uint64_t)r * 7919 + j + 1);
                double x = (double)(h >> 11) * 0x1p-53 - 0.5;
                x = j % 7 == 3 ? x * (t->type == SS_F32 ? 0x1p-130 : 0x1p-1060) : x * x * x;
                put(t->type, t->gradient[r], j, (step + (uint64_t)r) % 5 == 2 ? 0 : x);
            }
        if (step == 4)
            put(t->type, t->gradient[t->job.size - 1], t->n - 1, (double)INFINITY);
        training_call(t, step & 1);
    }
    assert_int_equal(near->job.status[0], placed->job.status[0]);
    for (int r = 0; near->job.status[0] == SS_OK && r < near->job.size; r++)
        assert_memory_equal(near->job.out[r], placed->job.out[r], bytes);
}

static inline void expect_same_residuals_of(const struct training *near,
                                            const struct training *placed)
{
    for (int r = 0; r < near->job.size; r++) {
        assert_true(!training_residual(near, r) == !training_residual(placed, r));
        if (training_residual(near, r))
            assert_memory_equal(training_residual(near, r), training_residual(placed, r),
                                near->n * ss_type_size(near->type));
    }
}

#endif
