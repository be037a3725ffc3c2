/* Trainings in the simulator with values in fewer bits. */
#ifndef TESTS_ROUNDING_JOB_H
#define TESTS_ROUNDING_JOB_H

#include <stdio.h>

#include "tests/unit/support/training.h"

enum { MOST_P = 9, N = 2003, STEPS = 12 };

enum pattern { HEAVY, SPREAD, CANCELLING, FLAT, PATTERNS };

/* A collective and its rounding. */
struct form {
    enum ss_algorithm algorithm;
    enum ss_values values;
};

#define ROUNDED(id, word)                                                                          \
    {id, SS_VALUES_BF16}, {id, SS_VALUES_Q8}, {id, SS_VALUES_Q4}, {id, SS_VALUES_Q2},
static const struct form forms[] = {{SS_AUTO, SS_VALUES_BF16},
                                    SS_ONE_LEVEL_LIST(ROUNDED) SS_WHOLE_LIST(ROUNDED)};
enum { FORMS = sizeof forms / sizeof forms[0] };

static inline double unit(uint64_t x)
{
    return (double)(mix(x) >> 11) * 0x1p-53;
}

static inline struct ss_settings settings_of(const struct form *form)
{
    return (struct ss_settings){.algorithm = form->algorithm,
                                .alpha = 1e-5,
                                .beta = 1e-9,
                                .hash = 1,
                                .topk = true,
                                .density = SS_WHOLE_ALGORITHMS >> form->algorithm & 1 ? 1 : 0.05,
                                .value_type = form->values,
                                .quant_bucket = 64,
                                .repartition_period = 64,
                                .tensors = {.threshold_period = 8}};
}

/* A magnitude from 1e-30 to 1e30 for each element. */
static inline double spread(size_t i)
{
    static double known[N];

    if (i >= N)
        return pow(10, 60 * unit(i) - 30);
    if (known[i] == 0)
        known[i] = pow(10, 60 * unit(i) - 30);
    return known[i];
}

static inline double sample(enum pattern pattern, uint64_t step, int rank, size_t i)
{
    uint64_t h = mix(step * 1000003 + (uint64_t)rank * 7919 + i * 104729 + 1);
    double x = 2 * unit(h) - 1, y = unit(h + 1);

    switch (pattern) {
    case SPREAD:
        return x * spread(i);
    case CANCELLING: /* ranks in pairs nearly cancel each other's gradients */
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

/* Parameters of the check of conservation. */
static inline const char *form_name(const struct form *form)
{
    static char text[80];

    snprintf(text, sizeof text, "%s, values %s", ss_algorithm_name(form->algorithm),
             ss_value_type_name(form->values));
    return text;
}

#endif
