/* Trainings with oktopk in the simulator: gradients in several patterns. */
#ifndef TESTS_OKTOPK_JOB_H
#define TESTS_OKTOPK_JOB_H

#include "tests/unit/support/training.h"

enum { MAX_P = 9, N = 6007, STEPS = 30 };

/* Positions of a rank's large gradients. */
enum place { UNIFORM, FRONT, OPPOSITE, MOVING, CONSTANT, PLACES };

static inline struct ss_settings settings_of(double density)
{
    return (struct ss_settings){.algorithm = SS_OKTOPK,
                                .alpha = 1e-5,
                                .beta = 1e-9,
                                .hash = 1,
                                .topk = true,
                                .density = density,
                                .repartition_period = 16,
                                .tensors = {.threshold_period = 8}};
}

/* Returns 1 where the pattern has large gradients, otherwise 0.001. */
static inline double emphasis(const struct training *t, int rank, size_t i)
{
    size_t size = (size_t)t->job.size, tenth = t->n / 10 + 1;
    size_t begin = 0;

    if (t->pattern == OPPOSITE)
        begin = (size - 1 - (size_t)rank) * t->n / size;
    else if (t->pattern == MOVING)
        begin = (size_t)(t->steps / 8 * 7) * tenth % t->n;
    else if (t->pattern != FRONT)
        return 1;
    return i >= begin && i < begin + tenth ? 1 : 1e-3;
}

/* Draws heavy-tailed values, scaled by a power of two. */
static inline void draw(struct training *t, double scale)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++) {
            uint64_t h = mix((uint64_t)t->steps * 1000003 + (uint64_t)r * 7919 + i * 104729 + 1);
            double x = (double)(int64_t)h / 9.3e18, y = (double)(mix(h) >> 40) / 16777216.0;
            double value = t->pattern == CONSTANT ? 0.25 : x * (0.01 + y * y * y * y);
            put(t->type, t->gradient[r], i, scale * emphasis(t, r, i) * value);
        }
}

static inline const struct ss_call *call_of(const struct training *t, int rank)
{
    return ss_comm_call(t->job.comm[rank]);
}

static inline struct ss_tensor *tensor_of(const struct training *t, int rank)
{
    return ss_tensors_first(t->job.comm[rank]->tensors);
}

static inline size_t selected(const struct training *t)
{
    size_t count = 0;

    for (size_t i = 0; i < t->n; i++)
        count += get(t->type, t->job.out[0], i) != 0;
    return count;
}

#endif
