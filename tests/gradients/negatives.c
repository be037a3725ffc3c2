/* negatives MODE TYPE [NAME=VALUE...]: programs that reduce something other than gradients, each
 * through one helper and mostly one buffer. TYPE: float or double, of what is reduced; all else is
 * double. Prints
 *
 *     digest TOLERANCE VALUE...
 *
 * values that depend on every result, and how far they may be apart, relatively, for the order of
 * additions. Names: n= elements, steps=, seed=. MODE list: the names of all modes.
 */
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int rank, ranks, n, steps;
    uint64_t seed;
    bool wide; /* double */
    float *narrow;
    double digest[4];
    double tolerance;
    int values;
} job;

/* ---- what all modes use ---- */

/* The helper: the sum over the ranks, in place. */
__attribute__((noinline)) static void reduce(double *v, int n)
{
    if (job.wide) {
        MPI_Allreduce(MPI_IN_PLACE, v, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        return;
    }
    for (int i = 0; i < n; i++)
        job.narrow[i] = (float)v[i];
    MPI_Allreduce(MPI_IN_PLACE, job.narrow, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        v[i] = (double)job.narrow[i];
}

static uint64_t word(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t h = job.seed * 0x9e3779b97f4a7c15u + a;

    for (int k = 0; k < 2; k++) {
        h = (h ^ h >> 31) * 0xd6e8feb86659fd93u + (k ? c : b);
        h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
    }
    return h ^ h >> 32;
}

static double uniform(uint64_t a, uint64_t b, uint64_t c)
{
    return (double)(word(a, b, c) >> 11) * 0x1p-53;
}

/* Normal, near enough: the sum of four uniform ones, of variance 1. */
static double normal(uint64_t a, uint64_t b, uint64_t c)
{
    double sum = 0;

    for (uint64_t k = 0; k < 4; k++)
        sum += uniform(a + (k << 40), b, c) - 0.5;
    return sum * sqrt(3);
}

static double *zeros(size_t n)
{
    double *v = calloc(n, sizeof *v);

    if (!v)
        MPI_Abort(MPI_COMM_WORLD, 2);
    return v;
}

static double dot(const double *a, const double *b, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add(double *a, double s, const double *b, int n)
{
    for (int i = 0; i < n; i++)
        a[i] += s * b[i];
}

/* A value that every element enters, with its own weight. */
static double mixed(const double *v, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += v[i] * (0.5 + uniform(77, (uint64_t)i, 0));
    return sum;
}

static void result(double value)
{
    job.digest[job.values++] = value;
}

/* Data: `rows` of each rank with `columns` normal entries, of falling deviation, so that there are
 * few strong directions. */
static double *data(int rows, int columns, double falling)
{
    double *x = zeros((size_t)rows * (size_t)columns);

    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            x[(size_t)i * (size_t)columns + (size_t)j] =
                normal(1, (uint64_t)(job.rank * rows + i), (uint64_t)j) * pow(j + 1.0, -falling);
    return x;
}

/* out = X^T X v + shift / P v: this rank's part of a symmetric operator. */
static void normal_operator(const double *x, int rows, int n, double shift, const double *v,
                            double *out)
{
    for (int j = 0; j < n; j++)
        out[j] = shift / job.ranks * v[j];
    for (int i = 0; i < rows; i++) {
        const double *row = x + (size_t)i * (size_t)n;
        add(out, dot(row, v, n), row, n);
    }
}

/* Row i of a symmetric positive definite band matrix, times v. */
static double band_row(const double *v, int i, int n)
{
    double sum = (2.5 + uniform(5, (uint64_t)i, 0)) * v[i];

    for (int k = 1; k <= 4; k++) {
        sum -= i >= k ? v[i - k] / (4 * k) : 0;
        sum -= i + k < n ? v[i + k] / (4 * k) : 0;
    }
    return sum;
}

static int first_row(int rank)
{
    return (int)((int64_t)job.n * rank / job.ranks);
}

static void band_part(const double *v, double *out)
{
    memset(out, 0, (size_t)job.n * sizeof *out);
    for (int i = first_row(job.rank); i < first_row(job.rank + 1); i++)
        out[i] = band_row(v, i, job.n);
}

/* ---- solvers ---- */

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
    job.tolerance = 1e-3;
    result(mixed(x, n));
    result(dot(x, x, n));
}

static void cg_rows(void)
{
    cg(true);
}

static void cg_data(void)
{
    cg(false);
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
    job.tolerance = 1e-2;
    result(mixed(x, n));
    result(dot(x, x, n));
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
    job.tolerance = 1e-4;
    result(mixed(x, n));
    result(dot(x, x, n));
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

/* ---- statistics ---- */

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
    job.tolerance = 1e-6;
    result(mixed(all, n));
    result(dot(all, all, n));
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
        for (int i = 0; i < side * side; i++)
            all[i] = 0.95 * all[i] + 0.05 * s[i];
    }
    job.tolerance = 1e-5;
    result(mixed(all, side * side));
    result(dot(all, all, side * side));
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

/* ---- of trainings, but not gradients ---- */

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
    double *y = zeros((size_t)n), *w = zeros((size_t)(outputs * inputs)), sum = 0, square = 0;

    for (int i = 0; i < outputs * inputs; i++)
        w[i] = normal(22 + (uint64_t)job.rank, (uint64_t)i, 0);
    for (int step = 0; step < job.steps; step++) {
        for (int b = 0; b < batch; b++)
            for (int o = 0; o < outputs; o++) {
                double v = 0;
                for (int i = 0; i < inputs; i++)
                    v += w[o * inputs + i] * normal(23, (uint64_t)(step * batch + b),
                                                    (uint64_t)(job.rank * inputs + i));
                y[b * outputs + o] = v;
            }
        reduce(y, n);
        sum += mixed(y, n);
        square += dot(y, y, n);
    }
    job.tolerance = 1e-4;
    result(square);
    result(sum / sqrt(square));
}

static void moments(void)
{
    int n = job.n;
    double *m = zeros((size_t)n), *v = zeros((size_t)n), sum = 0;

    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < n; i++) {
            double g = gradient(job.rank, step, i);
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.99 * v[i] + 0.01 * g * g;
        }
        reduce(m, n);
        reduce(v, n);
        for (int i = 0; i < n; i++) {
            m[i] /= job.ranks;
            v[i] /= job.ranks;
            sum += m[i] / (sqrt(v[i]) + 1e-8) * (0.5 + uniform(77, (uint64_t)i, 0));
        }
    }
    job.tolerance = 1e-3;
    result(dot(m, m, n));
    result(dot(v, v, n));
    result(sum);
}

static void squares(void)
{
    int n = job.n;
    double *v = zeros((size_t)n), *all = zeros((size_t)n);

    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < n; i++)
            v[i] = pow(gradient(job.rank, step, i), 2);
        reduce(v, n);
        for (int i = 0; i < n; i++)
            all[i] = 0.9 * all[i] + 0.1 * v[i];
    }
    job.tolerance = 1e-4;
    result(mixed(all, n));
    result(dot(all, all, n));
}

/* Means and squares of the channels of a batch, side by side. */
static void batchnorm(void)
{
    int n = job.n;
    double *s = zeros((size_t)n), *all = zeros((size_t)n);

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
        for (int i = 0; i < n; i++)
            all[i] = 0.9 * all[i] + 0.1 * s[i];
    }
    job.tolerance = 1e-4;
    result(mixed(all, n));
    result(dot(all, all, n));
}

/* Gradients of every step, of which nothing is made here, and weights averaged every so many steps
 * through the same buffer. */
static void averages(int every)
{
    int n = job.n;
    double *v = zeros((size_t)n), *w = zeros((size_t)n), sum = 0;

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
        sum += mixed(w, n);
    }
    job.tolerance = 1e-4;
    result(dot(w, w, n));
    result(sum / sqrt(dot(w, w, n) * n));
}

static void weights_1(void)
{
    averages(1);
}

static void weights_10(void)
{
    averages(10);
}

static void weights_50(void)
{
    averages(50);
}

static void weights_600(void)
{
    averages(600);
}

/* Losses by example class and hits by class, of batches of an evaluation. */
static void metrics(void)
{
    int n = job.n;
    double *s = zeros((size_t)n), *all = zeros((size_t)n);

    for (int step = 0; step < job.steps; step++) {
        memset(s, 0, (size_t)n * sizeof *s);
        for (int i = 0; i < n; i++) {
            uint64_t id = (uint64_t)(step * job.ranks + job.rank), c = word(28, id, (uint64_t)i);
            s[c % (uint64_t)(n / 2)] += -log(1e-9 + uniform(29, id, (uint64_t)i));
            s[n / 2 + (int)(c % (uint64_t)(n / 2))] += uniform(30, id, (uint64_t)i) < 0.7;
        }
        reduce(s, n);
        add(all, 1, s, n);
    }
    job.tolerance = 1e-4;
    result(mixed(all, n));
    result(dot(all, all, n));
}

/* ---- descent on all data ---- */

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

/* ---- */

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"cg_rows", cg_rows},
    {"cg_data", cg_data},
    {"cgls", cgls},
    {"lanczos", lanczos},
    {"power", power},
    {"jacobi", jacobi},
    {"pagerank", pagerank},
    {"kmeans", kmeans},
    {"codebook", codebook},
    {"em", em},
    {"histogram", histogram},
    {"tree_gradients", tree_gradients},
    {"tree_both", tree_both},
    {"hessian", hessian},
    {"kfac", kfac},
    {"kfac_relu", kfac_relu},
    {"activations", activations},
    {"moments", moments},
    {"squares", squares},
    {"batchnorm", batchnorm},
    {"weights_1", weights_1},
    {"weights_10", weights_10},
    {"weights_50", weights_50},
    {"weights_600", weights_600},
    {"metrics", metrics},
    {"line_search", line_search},
    {"lbfgs", lbfgs},
};
enum { MODES = sizeof modes / sizeof modes[0] };

static long number(int argc, char **argv, const char *name, long otherwise)
{
    size_t length = strlen(name);

    for (int i = 3; i < argc; i++)
        if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=')
            return strtol(argv[i] + length + 1, NULL, 10);
    return otherwise;
}

int main(int argc, char **argv)
{
    int mode = 0;

    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (int m = 0; m < MODES; m++)
            puts(modes[m].name);
        return 0;
    }
    while (argc > 2 && mode < MODES && strcmp(argv[1], modes[mode].name) != 0)
        mode++;
    if (argc < 3 || mode == MODES) {
        fprintf(stderr, "usage: negatives MODE float|double [n=N] [steps=STEPS] [seed=SEED]\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
    job.wide = strcmp(argv[2], "double") == 0;
    job.n = (int)number(argc, argv, "n", 4096);
    job.steps = (int)number(argc, argv, "steps", 80);
    job.seed = (uint64_t)number(argc, argv, "seed", 1);
    job.narrow = calloc((size_t)job.n, sizeof *job.narrow);
    modes[mode].run();
    if (job.rank == 0) {
        printf("digest %g", job.tolerance);
        for (int i = 0; i < job.values; i++)
            printf(" %.9g", job.digest[i]);
        printf("\n");
    }
    return MPI_Finalize();
}
