/* Sums in which each element comes from one rank. */
#ifndef TESTS_GRADIENTS_NEGATIVE_GATHERS_H
#define TESTS_GRADIENTS_NEGATIVE_GATHERS_H

#include "tests/gradients/negatives.h"

/* A random walk of n particles, each driven by its neighbours and by noise of its own: every rank
 * works out the steps of those that it adds and all sum them up. They have both signs, are new in
 * every call and alike in energy wherever one looks. */
static void walk(bool (*adds)(int i))
{
    int n = job.n;
    double *x = zeros((size_t)n), *d = zeros((size_t)n);

    for (int i = 0; i < n; i++)
        x[i] = normal(40, (uint64_t)i, 0);
    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < n; i++) {
            double pull = x[(i + 1) % n] + x[(i + n - 1) % n] - 2 * x[i];
            d[i] = adds(i) ? 0.1 * pull + 0.3 * normal(41, (uint64_t)step, (uint64_t)i) : 0;
        }
        reduce(d, n);
        add(x, 1, d, n);
    }
}

static bool by_small_blocks(int i)
{
    return i / 24 % job.ranks == job.rank;
}

static bool by_lot(int i)
{
    return (int)(word(42, (uint64_t)i, 0) % (uint64_t)job.ranks) == job.rank;
}

static void gather_blocks(void)
{
    walk(by_small_blocks);
}

static void gather_random(void)
{
    walk(by_lot);
}

#endif
