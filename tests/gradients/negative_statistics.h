/* Sums over data: clusters, histograms, outer products. */
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

/* Sums of the points of each centre. */
static void kmeans(void)
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
        for (int i = 0; i < POINTS; i++) {
            const double *p = x + i * DIMENSION;
            int best = nearest(p, c, k);
            count[best]++;
            add(s + best * DIMENSION, 1, p, DIMENSION);
        }
        reduce(s, k * DIMENSION);
        reduce(count, k);
        for (int i = 0; i < k * DIMENSION; i++)
            if (count[i / DIMENSION] > 0)
                c[i] = s[i] / count[i / DIMENSION];
    }
}

static void histogram(void)
{
    int n = job.n;
    double *h = zeros((size_t)n);

    for (int step = 0; step < job.steps; step++) {
        memset(h, 0, (size_t)n * sizeof *h);
        for (int i = 0; i < 4 * n; i++) {
            double u = uniform(12, (uint64_t)(job.rank + 100 * step), (uint64_t)i);
            h[(int)(u * u * n)]++;
        }
        reduce(h, n);
    }
}

/* Sums of outer products of a side of sqrt(n): of inputs to a layer, with batches. */
static void kfac(void)
{
    int side = (int)sqrt(job.n), rows = 64;
    double *s = zeros((size_t)job.n), *a = zeros((size_t)side);

    for (int step = 0; step < job.steps; step++) {
        memset(s, 0, (size_t)job.n * sizeof *s);
        for (int i = 0; i < rows; i++) {
            uint64_t id = (uint64_t)(job.rank * rows + i + 100000 * step);
            for (int j = 0; j < side; j++)
                a[j] = tanh(normal(14, id, (uint64_t)j) * pow(j + 1, -0.3));
            for (int j = 0; j < side; j++)
                add(s + j * side, a[j], a, side);
        }
        reduce(s, side * side);
    }
}

#endif
