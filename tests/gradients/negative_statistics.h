/* Sums over data: clusters, mixtures, histograms, outer products. */
#ifndef TESTS_GRADIENTS_NEGATIVE_STATISTICS_H
#define TESTS_GRADIENTS_NEGATIVE_STATISTICS_H

#include "tests/gradients/negatives.h"

enum { POINTS = 2000, DIMENSION = 64 };

/* Points of this rank around some centres, of both signs. */
static double *points(int centres, double apart)
{
    double *x = zeros((size_t)POINTS * DIMENSION);

    for (int i = 0; i < POINTS; i++) {
        uint64_t id = (uint64_t)(job.rank * POINTS + i), c = word(8, id, 0) % (uint64_t)centres;
        for (uint64_t j = 0; j < DIMENSION; j++)
            x[i * DIMENSION + (int)j] = apart * normal(9, c, j) + normal(10, id, j);
    }
    return x;
}

static int nearest(const double *x, const double *centre, int k)
{
    int best = 0;
    double least = INFINITY;

    for (int c = 0; c < k; c++) {
        double d = 0;
        for (int j = 0; j < DIMENSION; j++) {
            double e = x[j] - centre[c * DIMENSION + j];
            d += e * e;
        }
        if (d < least) {
            least = d;
            best = c;
        }
    }
    return best;
}

/* Sums of the points of each centre: k-means, or with `keep` a codebook that follows batches. */
static void centres(double keep, int batch)
{
    int k = job.n / DIMENSION;
    double *x = points(k, 1.5), *c = zeros((size_t)k * DIMENSION),
           *s = zeros((size_t)k * DIMENSION), *count = zeros((size_t)k);

    for (int i = 0; i < k * DIMENSION; i++)
        c[i] = 1.5 * normal(9, (uint64_t)(i / DIMENSION), (uint64_t)(i % DIMENSION)) +
               normal(11, (uint64_t)i, 0);
    for (int step = 0; step < job.steps; step++) {
        memset(s, 0, (size_t)k * DIMENSION * sizeof *s);
        memset(count, 0, (size_t)k * sizeof *count);
        for (int i = 0; i < batch; i++) {
            const double *p = x + (step * batch + i) % POINTS * DIMENSION;
            int best = nearest(p, c, k);
            count[best]++;
            add(s + best * DIMENSION, 1, p, DIMENSION);
        }
        reduce(s, k * DIMENSION);
        reduce(count, k);
        for (int i = 0; i < k * DIMENSION; i++)
            if (count[i / DIMENSION] > 0)
                c[i] = keep * c[i] + (1 - keep) * s[i] / count[i / DIMENSION];
    }
    job.tolerance = 1e-3;
    result(dot(c, c, k * DIMENSION));
}

static void kmeans(void)
{
    centres(0, POINTS);
}

static void codebook(void)
{
    centres(0.95, 250);
}

/* Mixture of normals of one deviation: sums of weighted points and of their squares. */
static void em(void)
{
    int k = job.n / 2 / DIMENSION;
    double *x = points(k, 0.6), *mean = zeros((size_t)k * DIMENSION), *s = zeros((size_t)job.n),
           *p = zeros((size_t)k), *count = zeros((size_t)k);

    for (int i = 0; i < k * DIMENSION; i++)
        mean[i] = normal(11, (uint64_t)i, 0);
    for (int step = 0; step < job.steps; step++) {
        memset(s, 0, (size_t)job.n * sizeof *s);
        memset(count, 0, (size_t)k * sizeof *count);
        for (int i = 0; i < POINTS; i += 4) {
            double most = -INFINITY, all = 0;
            for (int c = 0; c < k; c++) {
                p[c] = 0;
                for (int j = 0; j < DIMENSION; j++) {
                    double e = x[i * DIMENSION + j] - mean[c * DIMENSION + j];
                    p[c] -= e * e / 4;
                }
                most = fmax(most, p[c]);
            }
            for (int c = 0; c < k; c++)
                all += p[c] = exp(p[c] - most);
            for (int c = 0; c < k; c++) {
                count[c] += p[c] / all;
                for (int j = 0; j < DIMENSION; j++) {
                    double e = x[i * DIMENSION + j];
                    s[c * DIMENSION + j] += p[c] / all * e;
                    s[(k + c) * DIMENSION + j] += p[c] / all * e * e;
                }
            }
        }
        reduce(s, 2 * k * DIMENSION);
        reduce(count, k);
        for (int i = 0; i < k * DIMENSION; i++)
            mean[i] = s[i] / (count[i / DIMENSION] + 1e-3);
    }
    job.tolerance = 1e-2;
    result(dot(mean, mean, k * DIMENSION));
}

static void histogram(void)
{
    int n = job.n;
    double *h = zeros((size_t)n), *all = zeros((size_t)n);

    for (int step = 0; step < job.steps; step++) {
        memset(h, 0, (size_t)n * sizeof *h);
        for (int i = 0; i < 4 * n; i++) {
            double u = uniform(12, (uint64_t)(job.rank + 100 * step), (uint64_t)i);
            h[(int)(u * u * n)]++;
        }
        reduce(h, n);
        add(all, 1 + step % 3, h, n);
    }
    result_of(all, n, 1e-6);
}

/* Boosted stumps: sums of residuals (and, in a half of its own, of weights) by feature and bin. */
static void boosting(bool weights)
{
    enum { ROWS = 1500, BINS = 32 };
    int features = job.n / BINS / (weights ? 2 : 1), n = features * BINS;
    double *h = zeros((size_t)job.n), *count = zeros((size_t)n), *f = zeros(ROWS), *y = zeros(ROWS),
           loss = 0;
    unsigned char *bin = malloc((size_t)ROWS * (size_t)features);

    for (int i = 0; bin && i < ROWS; i++) {
        uint64_t id = (uint64_t)(job.rank * ROWS + i);
        for (int j = 0; j < features; j++) {
            bin[i * features + j] = (unsigned char)(uniform(13, id, (uint64_t)j) * BINS);
            y[i] += j < 20 ? sin(bin[i * features + j] * 0.2 + j) : 0;
        }
    }
    for (int i = 0; bin && i < ROWS; i++)
        for (int j = 0; j < features; j++)
            count[j * BINS + bin[i * features + j]]++;
    reduce(count, n);
    for (int step = 0; bin && step < job.steps; step++) {
        memset(h, 0, (size_t)job.n * sizeof *h);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < features; j++) {
                int at = j * BINS + bin[i * features + j];
                h[at] += y[i] - f[i];
                if (weights)
                    h[n + at] += 1;
            }
        reduce(h, weights ? 2 * n : n);
        int best = 0;
        double most = -1;
        for (int j = 0; j < features; j++) {
            double gain = 0;
            for (int b = 0; b < BINS; b++)
                gain += h[j * BINS + b] * h[j * BINS + b] / (count[j * BINS + b] + 1);
            if (gain > most) {
                most = gain;
                best = j;
            }
        }
        for (int i = 0; i < ROWS; i++) {
            int at = best * BINS + bin[i * features + best];
            f[i] += 0.3 * h[at] / (count[at] + 1);
        }
        loss += most;
    }
    free(bin);
    job.tolerance = 1e-3;
    result(loss);
}

static void tree_gradients(void)
{
    boosting(false);
}

static void tree_both(void)
{
    boosting(true);
}

/* Sums of outer products of a side of sqrt(n): of inputs to a layer, with batches or of all data.
 */
static void products(bool batches, bool positive, double falling)
{
    int side = (int)sqrt(job.n), rows = batches ? 64 : 256;
    double *s = zeros((size_t)job.n), *all = zeros((size_t)job.n), *a = zeros((size_t)side);

    for (int step = 0; step < job.steps; step++) {
        memset(s, 0, (size_t)job.n * sizeof *s);
        for (int i = 0; i < rows; i++) {
            uint64_t id = (uint64_t)(job.rank * rows + i + (batches ? 100000 * step : 0));
            double weight = batches ? 1 : 0.25 / (1 + 0.1 * step);
            for (int j = 0; j < side; j++) {
                a[j] = normal(14, id, (uint64_t)j) * pow(j + 1, -falling);
                a[j] = positive ? fmax(a[j], 0) : tanh(a[j]);
            }
            for (int j = 0; j < side; j++)
                add(s + j * side, weight * a[j], a, side);
        }
        reduce(s, side * side);
        follow(all, 0.95, s, side * side);
    }
    result_of(all, side * side, 1e-5);
}

static void hessian(void)
{
    products(false, false, 0.3);
}

static void kfac(void)
{
    products(true, false, 0.3);
}

static void kfac_relu(void)
{
    products(true, true, 0);
}

#endif
