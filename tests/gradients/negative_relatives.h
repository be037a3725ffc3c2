/* Broadcasts and assemblies by a sum, consensus; and sums of
 * random sketches and of signals, which nothing tells from a gradient. */
#ifndef TESTS_GRADIENTS_NEGATIVE_RELATIVES_H
#define TESTS_GRADIENTS_NEGATIVE_RELATIVES_H

#include "tests/gradients/negative_gathers.h"
#include "tests/gradients/negatives.h"

/* A broadcast by a sum: one rank has a batch, new in each step, the others zeros. */
static void broadcast_root(void)
{
    int n = job.n;
    double *v = zeros((size_t)n);

    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < n; i++)
            v[i] = job.rank == 0 ? normal(60, (uint64_t)step, (uint64_t)i) : 0;
        reduce(v, n);
    }
}

/* Gradients, in every 25th step followed by the weights of rank 0 through the same buffer, of twice
 * their norm: the others bring zeros. */
static void weights_broadcast(void)
{
    int n = job.n;
    double *v = zeros((size_t)n), *w = zeros((size_t)n);

    for (int step = 0; step < 150; step++) {
        for (int i = 0; i < n; i++)
            v[i] = normal(64, (uint64_t)step, (uint64_t)i) +
                   normal(65 + (uint64_t)job.rank, (uint64_t)step, (uint64_t)i);
        add(w, 0.5, v, n);
        reduce(v, n);
        if (step % 25 != 24)
            continue;
        double norm = sqrt(dot(w, w, n) / n);
        for (int i = 0; i < n; i++)
            v[i] = job.rank == 0 ? 3 * w[i] / norm : 0;
        reduce(v, n);
        memcpy(w, v, (size_t)n * sizeof *w);
    }
}

/* Consensus ADMM: the sum of x + u of each rank's least squares. */
static void admm(void)
{
    int n = job.n, rows = 32;
    double *a = data(rows, n, 0.2), *b = zeros((size_t)rows), *x = zeros((size_t)n),
           *u = zeros((size_t)n), *z = zeros((size_t)n), *v = zeros((size_t)n);

    for (int i = 0; i < rows; i++)
        b[i] = normal(61, (uint64_t)(job.rank * rows + i), 0);
    for (int step = 0; step < job.steps; step++) {
        for (int inner = 0; inner < 2; inner++)
            for (int i = 0; i < rows; i++) {
                const double *row = a + (size_t)i * (size_t)n;
                double s = (b[i] - dot(row, x, n)) / (dot(row, row, n) + 1);
                add(x, 0.5 * s, row, n);
            }
        for (int i = 0; i < n; i++) {
            x[i] += 0.3 * (z[i] - u[i] - x[i]);
            v[i] = x[i] + u[i];
        }
        reduce(v, n);
        for (int i = 0; i < n; i++) {
            double t = v[i] / job.ranks;
            z[i] = fabs(t) < 1e-4 ? 0 : t - copysign(1e-4, t);
            u[i] += x[i] - z[i];
        }
    }
}

/* Columns of a random sketch of A^T A, of fresh random vectors that all ranks share. */
static void sketch(void)
{
    int n = job.n, rows = 128;
    double *a = data(rows, n, 0.3), *v = zeros((size_t)n), *w = zeros((size_t)n);

    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < n; i++)
            w[i] = normal(62, (uint64_t)step, (uint64_t)i);
        normal_operator(a, rows, n, 0, w, v);
        reduce(v, n);
    }
}

/* Signals of receivers, mixed: one source for all, and noise of each. */
static void signals(void)
{
    int n = job.n;
    double *v = zeros((size_t)n);

    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < n; i++)
            v[i] = normal(63, (uint64_t)step, (uint64_t)i) +
                   normal(64 + (uint64_t)job.rank, (uint64_t)step, (uint64_t)i);
        reduce(v, n);
    }
}

static bool in_my_domain(int i)
{
    int border = job.n / job.ranks / 10;

    return i >= first_row(job.rank) - border && i < first_row(job.rank + 1) + border;
}

/* Assembly of domains that overlap by a tenth. */
static void assembly(void)
{
    walk(in_my_domain);
}

#endif
