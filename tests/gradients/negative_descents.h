/* Descent on all data, whose steps are looked for along a line or by curvature. */
#ifndef TESTS_GRADIENTS_NEGATIVE_DESCENTS_H
#define TESTS_GRADIENTS_NEGATIVE_DESCENTS_H

#include "tests/gradients/negatives.h"

/* Logistic loss over this rank's rows, and its gradient, summed over the ranks. */
struct problem {
    double *x, *y;
    int rows;
};

static double loss_at(const struct problem *p, const double *w, double *g)
{
    int n = job.n;
    double loss = 0;

    memset(g, 0, (size_t)n * sizeof *g);
    for (int i = 0; i < p->rows; i++) {
        const double *row = p->x + (size_t)i * (size_t)n;
        double z = p->y[i] * dot(row, w, n), s = 1 / (1 + exp(z));
        loss += z > 0 ? log1p(exp(-z)) : log1p(exp(z)) - z;
        add(g, -p->y[i] * s, row, n);
    }
    reduce(g, n);
    reduce(&loss, 1);
    add(g, 0.1, w, n);
    return loss + 0.05 * dot(w, w, n);
}

static struct problem problem_make(void)
{
    struct problem p = {.rows = 256};
    p.x = data(p.rows, job.n, 0.3);
    p.y = zeros((size_t)p.rows);

    for (int i = 0; i < p.rows; i++) {
        double z = 0;
        for (int j = 0; j < job.n; j++)
            z += p.x[(size_t)i * (size_t)job.n + (size_t)j] * normal(31, (uint64_t)j, 0);
        p.y[i] = z > 0 ? 1 : -1;
    }
    return p;
}

static void line_search(void)
{
    int n = job.n, calls = 0;
    struct problem p = problem_make();
    double *w = zeros((size_t)n), *g = zeros((size_t)n), *v = zeros((size_t)n),
           *h = zeros((size_t)n);
    double loss = loss_at(&p, w, g), step = 1;

    while (calls < job.steps) {
        double slope = dot(g, g, n);
        for (step *= 2; calls++ < job.steps; step /= 2) {
            memcpy(v, w, (size_t)n * sizeof *w);
            add(v, -step, g, n);
            double now = loss_at(&p, v, h);
            if (now > loss - 0.3 * step * slope)
                continue;
            loss = now;
            memcpy(w, v, (size_t)n * sizeof *w);
            memcpy(g, h, (size_t)n * sizeof *w);
            break;
        }
    }
    job.tolerance = 1e-2;
    result(loss);
    result(dot(w, w, n));
}

static void lbfgs(void)
{
    enum { KEPT = 8 };
    int n = job.n;
    struct problem p = problem_make();
    double *w = zeros((size_t)n), *g = zeros((size_t)n), *h = zeros((size_t)n),
           *d = zeros((size_t)n);
    double *s[KEPT], *y[KEPT], a[KEPT], loss = loss_at(&p, w, g);

    for (int k = 0; k < KEPT; k++) {
        s[k] = zeros((size_t)n);
        y[k] = zeros((size_t)n);
    }
    for (int step = 0; step < job.steps; step++) {
        int kept = step < KEPT ? step : KEPT, now = step % KEPT;
        memcpy(d, g, (size_t)n * sizeof *d);
        for (int k = 1; k <= kept; k++) {
            int i = (step - k) % KEPT;
            a[i] = dot(s[i], d, n) / dot(s[i], y[i], n);
            add(d, -a[i], y[i], n);
        }
        int last = (step + KEPT - 1) % KEPT;
        double scale =
            kept ? dot(s[last], y[last], n) / dot(y[last], y[last], n) : 1 / sqrt(dot(g, g, n));
        for (int i = 0; i < n; i++)
            d[i] *= scale;
        for (int k = kept; k >= 1; k--) {
            int i = (step - k) % KEPT;
            add(d, a[i] - dot(y[i], d, n) / dot(s[i], y[i], n), s[i], n);
        }
        add(w, -1, d, n);
        loss = loss_at(&p, w, h);
        for (int i = 0; i < n; i++) {
            s[now][i] = -d[i];
            y[now][i] = h[i] - g[i];
        }
        memcpy(g, h, (size_t)n * sizeof *g);
        if (dot(g, g, n) < 1e-9)
            break;
    }
    job.tolerance = 1e-2;
    result(loss);
    result(dot(w, w, n));
}

#endif
