/* Solvers of linear systems and eigenproblems. */
#ifndef TESTS_GRADIENTS_NEGATIVE_SOLVERS_H
#define TESTS_GRADIENTS_NEGATIVE_SOLVERS_H

#include "tests/gradients/negatives.h"

/* Conjugate gradients; the operator is applied by rows, else by data. */
static void cg(bool rows)
{
    int n = job.n, m = 256;
    double *x = zeros((size_t)n), *r = zeros((size_t)n), *p = zeros((size_t)n),
           *q = zeros((size_t)n), *a = rows ? NULL : data(m, n, 0.3);

    for (int i = 0; i < n; i++)
        p[i] = r[i] = normal(2, (uint64_t)i, 0);
    double rho = dot(r, r, n), begin = rho;
    for (int step = 0; step < job.steps && rho > 1e-20 * begin; step++) {
        if (rows)
            band_part(p, q);
        else
            normal_operator(a, m, n, 200, p, q);
        reduce(q, n);
        double alpha = rho / dot(p, q, n), before = rho;
        add(x, alpha, p, n);
        add(r, -alpha, q, n);
        rho = dot(r, r, n);
        for (int i = 0; i < n; i++)
            p[i] = r[i] + rho / before * p[i];
    }
    result_of(x, n, 1e-3);
}

static void cg_rows(void)
{
    cg(true);
}

static void cg_data(void)
{
    cg(false);
}

/* Conjugate gradients for one right-hand side after the other, each to a tolerance of the squared
 * residual. */
static void cg_again(double shift, double tolerance)
{
    int n = job.n, m = 256;
    double *x = zeros((size_t)n), *r = zeros((size_t)n), *p = zeros((size_t)n),
           *q = zeros((size_t)n), *a = data(m, n, 0.3), sum = 0;
    double rho = 0, begin = 0;

    for (int step = 0, solve = 0; step < job.steps; step++) {
        if (rho <= tolerance * begin) {
            solve++;
            memset(x, 0, (size_t)n * sizeof *x);
            for (int i = 0; i < n; i++)
                p[i] = r[i] = normal(70, (uint64_t)solve, (uint64_t)i);
            begin = rho = dot(r, r, n);
        }
        normal_operator(a, m, n, shift, p, q);
        reduce(q, n);
        double alpha = rho / dot(p, q, n), before = rho;
        add(x, alpha, p, n);
        add(r, -alpha, q, n);
        rho = dot(r, r, n);
        for (int i = 0; i < n; i++)
            p[i] = r[i] + rho / before * p[i];
        sum += dot(x, x, n);
    }
    job.tolerance = 1e-2;
    result(sum);
}

static void cg_restarted(void)
{
    cg_again(200, 1e-10);
}

static void cg_rough(void)
{
    cg_again(200, 1e-2);
}

static void cg_slow(void)
{
    cg_again(2, 1e-6);
}

static void cgls(void)
{
    int n = job.n, m = 512;
    double *a = data(m, n, 0.3), *x = zeros((size_t)n), *r = zeros((size_t)m),
           *s = zeros((size_t)n), *p = zeros((size_t)n), *q = zeros((size_t)m);
    double gamma = 0;

    for (int i = 0; i < m; i++)
        r[i] = normal(3, (uint64_t)(job.rank * m + i), 0);
    for (int step = 0; step < job.steps; step++) {
        memset(s, 0, (size_t)n * sizeof *s);
        for (int i = 0; i < m; i++)
            add(s, r[i], a + (size_t)i * (size_t)n, n);
        reduce(s, n);
        add(s, -50, x, n);
        double now = dot(s, s, n), qq = 0;
        for (int j = 0; j < n; j++)
            p[j] = s[j] + (step ? now / gamma : 0) * p[j];
        gamma = now;
        for (int i = 0; i < m; i++)
            q[i] = dot(a + (size_t)i * (size_t)n, p, n), qq += q[i] * q[i];
        reduce(&qq, 1);
        double alpha = gamma / (qq + 50 * dot(p, p, n));
        add(x, alpha, p, n);
        add(r, -alpha, q, m);
    }
    result_of(x, n, 1e-2);
}

static void lanczos(void)
{
    int n = job.n, m = 256, k = job.steps < 60 ? job.steps : 60;
    double *a = data(m, n, 0.5), *v = zeros((size_t)n * (size_t)(k + 1)), *w = zeros((size_t)n);
    double trace = 0;

    for (int i = 0; i < n; i++)
        v[i] = 1 / sqrt(n);
    for (int j = 0; j < k; j++) {
        double *now = v + (size_t)j * (size_t)n;
        normal_operator(a, m, n, 0, now, w);
        reduce(w, n);
        trace += dot(now, w, n);
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i <= j; i++)
                add(w, -dot(w, v + (size_t)i * (size_t)n, n), v + (size_t)i * (size_t)n, n);
        double beta = sqrt(dot(w, w, n));
        for (int i = 0; i < n; i++)
            now[n + i] = w[i] / beta;
    }
    job.tolerance = 1e-3;
    result(trace);
}

static void power(void)
{
    int n = job.n, m = 256;
    double *a = data(m, n, 0.5), *v = zeros((size_t)n), *w = zeros((size_t)n), value = 0;

    for (int i = 0; i < n; i++)
        v[i] = normal(4, (uint64_t)i, 0) / sqrt(n);
    for (int step = 0; step < job.steps; step++) {
        normal_operator(a, m, n, 0, v, w);
        reduce(w, n);
        value = sqrt(dot(w, w, n));
        for (int i = 0; i < n; i++)
            v[i] = w[i] / value;
    }
    job.tolerance = 1e-4;
    result(value);
    result(fabs(mixed(v, n)));
}

static void jacobi(void)
{
    int n = job.n;
    double *x = zeros((size_t)n), *y = zeros((size_t)n);

    for (int step = 0; step < job.steps; step++) {
        memset(y, 0, (size_t)n * sizeof *y);
        for (int i = first_row(job.rank); i < first_row(job.rank + 1); i++) {
            double diagonal = 2.5 + uniform(5, (uint64_t)i, 0);
            y[i] = x[i] + (normal(2, (uint64_t)i, 0) - band_row(x, i, n)) / diagonal;
        }
        reduce(y, n);
        memcpy(x, y, (size_t)n * sizeof *x);
    }
    result_of(x, n, 1e-4);
}

static void pagerank(void)
{
    int n = job.n, degree = 6;
    double *x = zeros((size_t)n), *y = zeros((size_t)n);

    for (int i = 0; i < n; i++)
        x[i] = 1.0 / n;
    for (int step = 0; step < job.steps; step++) {
        memset(y, 0, (size_t)n * sizeof *y);
        for (int i = job.rank; i < n; i += job.ranks)
            for (int k = 0; k < degree; k++)
                y[(int)(n * pow(uniform(6, (uint64_t)i, (uint64_t)k), 3))] += 0.85 * x[i] / degree;
        reduce(y, n);
        for (int i = 0; i < n; i++)
            x[i] = y[i] + 0.15 / n;
    }
    job.tolerance = 1e-4;
    result(mixed(x, n));
    result(dot(x, x, n) * n);
}

#endif
