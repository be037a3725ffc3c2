/* Broadcasts and assemblies by a sum, consensus, factors of a compressed gradient; and sums of
 * random sketches and of signals, which nothing tells from a gradient. */
#ifndef TESTS_GRADIENTS_NEGATIVE_RELATIVES_H
#define TESTS_GRADIENTS_NEGATIVE_RELATIVES_H

#include "tests/gradients/negative_gathers.h"
#include "tests/gradients/negatives.h"

/* A broadcast by a sum: one rank has a batch, new in each step, the others zeros. */
static void broadcasts(bool by_turns)
{
    int n = job.n;
    double *v = zeros((size_t)n), *all = zeros((size_t)n);

    for (int step = 0; step < job.steps; step++) {
        int root = by_turns ? step % job.ranks : 0;
        for (int i = 0; i < n; i++)
            v[i] = job.rank == root ? normal(60, (uint64_t)step, (uint64_t)i) : 0;
        reduce(v, n);
        follow(all, 0.5, v, n);
    }
    result_of(all, n, 1e-4);
}

static void broadcast_root(void)
{
    broadcasts(false);
}

static void broadcast_turns(void)
{
    broadcasts(true);
}

/* Gradients, in every 25th step followed by the weights of rank 0 through the same buffer, of twice
 * their norm: the others bring zeros. */
static void weights_broadcast(void)
{
    int n = job.n;
    double *v = zeros((size_t)n), *w = zeros((size_t)n), sum = 0;

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
        sum += mixed(v, n);
    }
    job.tolerance = 1e-4;
    result(sum);
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
    result_of(z, n, 1e-3);
}

/* Columns of a random sketch of A^T A, of fresh random vectors that all ranks share. */
static void sketch(void)
{
    int n = job.n, rows = 128;
    double *a = data(rows, n, 0.3), *v = zeros((size_t)n), *w = zeros((size_t)n), sum = 0;

    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < n; i++)
            w[i] = normal(62, (uint64_t)step, (uint64_t)i);
        normal_operator(a, rows, n, 0, w, v);
        reduce(v, n);
        sum += dot(v, w, n);
    }
    job.tolerance = 1e-4;
    result(sum);
    result(dot(v, v, n));
}

/* Signals of receivers, mixed: one source for all, and noise of each. */
static void signals(void)
{
    int n = job.n;
    double *v = zeros((size_t)n), sum = 0, square = 0;

    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < n; i++)
            v[i] = normal(63, (uint64_t)step, (uint64_t)i) +
                   normal(64 + (uint64_t)job.rank, (uint64_t)step, (uint64_t)i);
        reduce(v, n);
        sum += mixed(v, n);
        square += dot(v, v, n);
    }
    result_of_sums(sum, square);
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

/* Factors of PowerSGD, rank 16 of a gradient that is a matrix; n elements each. */
static void powersgd(void)
{
    int rank = 16, side = job.n / rank;
    double *q = zeros((size_t)job.n), *p = zeros((size_t)job.n), sum = 0;
    double *m = zeros((size_t)side * (size_t)side), *left = zeros((size_t)side * (size_t)side);

    for (int i = 0; i < job.n; i++)
        q[i] = normal(90, (uint64_t)i, 0);
    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < side; i++)
            for (int j = 0; j < side; j++) {
                double low = 0;
                for (uint64_t k = 0; k < 3; k++)
                    low += normal(91 + k, (uint64_t)i, 0) * normal(95 + k, (uint64_t)j, 0) *
                           cos(0.2 * step + (double)k);
                m[i * side + j] =
                    low +
                    normal(100 + (uint64_t)job.rank, (uint64_t)step, (uint64_t)(i * side + j)) +
                    left[i * side + j];
            }
        for (int i = 0; i < side; i++)
            for (int k = 0; k < rank; k++) {
                p[k * side + i] = 0;
                for (int j = 0; j < side; j++)
                    p[k * side + i] += m[i * side + j] * q[k * side + j];
            }
        reduce(p, job.n);
        for (int k = 0; k < rank; k++) {
            for (int l = 0; l < k; l++)
                add(p + k * side, -dot(p + k * side, p + l * side, side), p + l * side, side);
            double norm = sqrt(dot(p + k * side, p + k * side, side));
            for (int i = 0; i < side; i++)
                p[k * side + i] /= norm + 1e-9;
        }
        for (int k = 0; k < rank; k++)
            for (int j = 0; j < side; j++) {
                q[k * side + j] = 0;
                for (int i = 0; i < side; i++)
                    q[k * side + j] += m[i * side + j] * p[k * side + i] / job.ranks;
            }
        reduce(q, job.n);
        for (int i = 0; i < side; i++)
            for (int j = 0; j < side; j++) {
                double low = 0;
                for (int k = 0; k < rank; k++)
                    low += p[k * side + i] * q[k * side + j];
                left[i * side + j] = m[i * side + j] - low;
                sum += low * (double)(i + 2 * j);
            }
    }
    job.tolerance = 1e-2;
    result(sum);
    result(dot(q, q, job.n));
}

#endif
