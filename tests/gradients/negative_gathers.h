/* Sums in which each element comes from one rank. */
#ifndef TESTS_GRADIENTS_NEGATIVE_GATHERS_H
#define TESTS_GRADIENTS_NEGATIVE_GATHERS_H

#include "tests/gradients/negatives.h"

/* A random walk of n particles, each driven by its neighbours and by noise of its own: every rank
 * works out the steps of those that are its own and all sum them up, so that each element comes
 * from one rank. They have both signs, are new in every call and alike in energy wherever one
 * looks. */
static void walk(int (*owner)(int i))
{
    int n = job.n;
    double *x = zeros((size_t)n), *d = zeros((size_t)n);

    for (int i = 0; i < n; i++)
        x[i] = normal(40, (uint64_t)i, 0);
    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < n; i++) {
            double pull = x[(i + 1) % n] + x[(i + n - 1) % n] - 2 * x[i];
            bool mine = owner(i) == job.rank;
            d[i] = mine ? 0.1 * pull + 0.3 * normal(41, (uint64_t)step, (uint64_t)i) : 0;
        }
        reduce(d, n);
        add(x, 1, d, n);
    }
    result_of(x, n, 1e-4);
}

static int by_turns(int i)
{
    return i % job.ranks;
}

static int by_small_blocks(int i)
{
    return i / 24 % job.ranks;
}

static int by_lot(int i)
{
    return (int)(word(42, (uint64_t)i, 0) % (uint64_t)job.ranks);
}

static int by_parts(int i)
{
    return (int)((int64_t)i * job.ranks / job.n);
}

static void gather_cyclic(void)
{
    walk(by_turns);
}

static void gather_blocks(void)
{
    walk(by_small_blocks);
}

static void gather_random(void)
{
    walk(by_lot);
}

static void gather_parts(void)
{
    walk(by_parts);
}

#endif
