/* Of trainings, but not gradients. */
#ifndef TESTS_GRADIENTS_NEGATIVE_TRAININGS_H
#define TESTS_GRADIENTS_NEGATIVE_TRAININGS_H

#include "tests/gradients/negatives.h"

/* What looks like a gradient: a common part that changes, and noise. */
static double gradient(int rank, int step, int i)
{
    return 0.5 * normal(20, (uint64_t)(step / 8), (uint64_t)i) * cos(step * 0.7 + i) +
           normal(21 + (uint64_t)rank, (uint64_t)step, (uint64_t)i);
}

/* The output of a layer whose inputs are divided among the ranks. */
static void activations(void)
{
    int n = job.n, outputs = 64, batch = n / outputs, inputs = 32;
    double *y = zeros((size_t)n), *w = zeros((size_t)(outputs * inputs));

    for (int i = 0; i < outputs * inputs; i++)
        w[i] = normal(50 + (uint64_t)job.rank, (uint64_t)i, 0);
    for (int step = 0; step < job.steps; step++) {
        for (int b = 0; b < batch; b++)
            for (int o = 0; o < outputs; o++) {
                double v = 0;
                for (int i = 0; i < inputs; i++) {
                    double x =
                        normal(23, (uint64_t)(step * batch + b), (uint64_t)(job.rank * inputs + i));
                    v += w[o * inputs + i] * x;
                }
                y[b * outputs + o] = v;
            }
        reduce(y, n);
    }
}

static void moments(void)
{
    int n = job.n;
    double *m = zeros((size_t)n), *v = zeros((size_t)n), *g = zeros((size_t)n),
           *square = zeros((size_t)n);

    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < n; i++) {
            g[i] = gradient(job.rank, step, i);
            square[i] = g[i] * g[i];
        }
        follow(m, 0.9, g, n);
        follow(v, 0.99, square, n);
        reduce(m, n);
        reduce(v, n);
        for (int i = 0; i < n; i++) {
            m[i] /= job.ranks;
            v[i] /= job.ranks;
        }
    }
}

/* Means and squares of the channels of a batch, side by side. */
static void batchnorm(void)
{
    int n = job.n;
    double *s = zeros((size_t)n);

    for (int step = 0; step < job.steps; step++) {
        for (int c = 0; c < n / 2; c++) {
            double shift = normal(24, (uint64_t)c, 0), width = 0.2 + uniform(25, (uint64_t)c, 0);
            s[c] = s[n / 2 + c] = 0;
            for (int b = 0; b < 16; b++) {
                uint64_t id = (uint64_t)((step * 16 + b) * job.ranks + job.rank);
                double x = shift + width * normal(26, id, (uint64_t)c);
                s[c] += x;
                s[n / 2 + c] += x * x;
            }
        }
        reduce(s, n);
    }
}

/* Gradients of every step, of which nothing is made here, and weights averaged every so many steps
 * through the same buffer. */
static void averages(int every)
{
    int n = job.n;
    double *v = zeros((size_t)n), *w = zeros((size_t)n);

    for (int i = 0; i < n; i++)
        w[i] = 0.3 * normal(27, (uint64_t)i, 0);
    for (int step = 0; step < job.steps || step < 2 * every + 100; step++) {
        for (int i = 0; i < n; i++)
            v[i] = 0.01 * gradient(job.rank, step, i);
        add(w, -0.1, v, n);
        reduce(v, n);
        if (step % every != every - 1)
            continue;
        memcpy(v, w, (size_t)n * sizeof *w);
        reduce(v, n);
        for (int i = 0; i < n; i++)
            w[i] = v[i] / job.ranks;
    }
}

static void weights_1(void)
{
    averages(1);
}

static void weights_10(void)
{
    averages(10);
}

static void weights_600(void)
{
    averages(600);
}

#endif
