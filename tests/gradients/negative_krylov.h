/* Iterative solvers of (X^T X + 0.005 I) x = b with a sparse X, whose rows are spread over the
 * ranks: each sums its part of the product with a vector.
 */
#ifndef TESTS_GRADIENTS_NEGATIVE_KRYLOV_H
#define TESTS_GRADIENTS_NEGATIVE_KRYLOV_H

#include "tests/gradients/negatives.h"

enum { ENTRIES = 12, RESTART = 20 };

/* This rank's rows of X, each of ENTRIES entries at random places. */
struct sparse {
    int rows;
    int *column;
    double *entry;
    double shift, skew; /* of the whole operator: shift I, and skew (L - L^T), L a shift by one */
};

static struct sparse sparse_make(int rows, double least)
{
    size_t size = (size_t)rows * ENTRIES;
    struct sparse x = {rows, calloc(size, sizeof(int)), zeros(size), 0.005, 0};

    if (!x.column)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (size_t i = 0; i < size; i++) {
        x.column[i] = (int)(word(110, (uint64_t)job.rank, i) % (uint64_t)job.n);
        x.entry[i] = least + (1 - least) * uniform(111, (uint64_t)job.rank, i);
    }
    return x;
}

/* u = X v, of this rank's rows; or v += X^T u. */
static void sparse_rows(const struct sparse *x, const double *v, double *u)
{
    for (int i = 0; i < x->rows; i++) {
        u[i] = 0;
        for (int k = i * ENTRIES; k < (i + 1) * ENTRIES; k++)
            u[i] += x->entry[k] * v[x->column[k]];
    }
}

static void sparse_columns(const struct sparse *x, const double *u, double *v)
{
    for (int i = 0; i < x->rows; i++)
        for (int k = i * ENTRIES; k < (i + 1) * ENTRIES; k++)
            v[x->column[k]] += x->entry[k] * u[i];
}

/* q = the operator times p, summed over the ranks. */
static void sparse_product(const struct sparse *x, const double *p, double *q)
{
    int n = job.n;
    double *u = zeros((size_t)x->rows), skew = x->skew / job.ranks;

    for (int i = 0; i < n; i++)
        q[i] = x->shift / job.ranks * p[i] + skew * (p[(i + 1) % n] - p[(i + n - 1) % n]);
    sparse_rows(x, p, u);
    sparse_columns(x, u, q);
    free(u);
    reduce(q, n);
}

static struct sparse system_make(double *b, uint64_t number)
{
    for (int i = 0; i < job.n; i++)
        b[i] = normal(112, number, (uint64_t)i);
    return sparse_make(job.n / job.ranks, 0);
}

static void solved(const double *x)
{
    result_of(x, job.n, 1e-2);
}

/* ---- conjugate gradients ---- */

struct cg {
    double *x, *r, *p, *q, rho, begin;
};

static struct cg cg_begin(const double *b)
{
    size_t n = (size_t)job.n;
    struct cg s = {zeros(n), zeros(n), zeros(n), zeros(n), dot(b, b, job.n), dot(b, b, job.n)};

    memcpy(s.r, b, n * sizeof *b);
    memcpy(s.p, b, n * sizeof *b);
    return s;
}

/* Returns false when the residual has fallen so far. */
static bool cg_step(const struct sparse *a, struct cg *s, double tolerance)
{
    int n = job.n;

    sparse_product(a, s->p, s->q);
    double alpha = s->rho / dot(s->p, s->q, n), before = s->rho;
    add(s->x, alpha, s->p, n);
    add(s->r, -alpha, s->q, n);
    s->rho = dot(s->r, s->r, n);
    for (int i = 0; i < n; i++)
        s->p[i] = s->r[i] + s->rho / before * s->p[i];
    return s->rho > tolerance * tolerance * s->begin;
}

static void sparse_cg(void)
{
    double *b = zeros((size_t)job.n);
    struct sparse a = system_make(b, 0);
    struct cg s = cg_begin(b);

    for (int step = 0; step < job.steps && cg_step(&a, &s, 1e-14); step++)
        ;
    solved(s.x);
}

/* About eight steps for each of many right-hand sides. */
static void sparse_cg_short(void)
{
    double *b = zeros((size_t)job.n), sum = 0;
    struct sparse a = system_make(b, 0);

    for (int step = 0; step < job.steps;) {
        struct cg s = cg_begin(b);
        for (int inner = 0; inner < 8 && step < job.steps; inner++, step++)
            cg_step(&a, &s, 0);
        for (int i = 0; i < job.n; i++)
            b[i] = 0.9 * b[i] + 0.4 * normal(113, (uint64_t)step, (uint64_t)i);
        sum += dot(s.x, s.x, job.n);
    }
    job.tolerance = 1e-2;
    result(sum);
}

/* Two right-hand sides in turn, and the norms of both residuals. */
static void sparse_cg_two(void)
{
    double *b = zeros((size_t)job.n), *c = zeros((size_t)job.n);
    struct sparse a = system_make(c, 1);
    system_make(b, 0);
    struct cg s = cg_begin(b), t = cg_begin(c);

    for (int step = 0; step < job.steps; step++) {
        bool more = cg_step(&a, &s, 1e-14);
        more = cg_step(&a, &t, 1e-14) || more;
        double norms[2] = {s.rho / job.ranks, t.rho / job.ranks};
        reduce(norms, 2);
        if (!more)
            break;
    }
    solved(s.x);
}

/* Conjugate residuals: the product with the residual is summed. */
static void sparse_cr(void)
{
    int n = job.n;
    size_t size = (size_t)n;
    double *r = zeros(size), *x = zeros(size), *p = zeros(size), *ar = zeros(size),
           *ap = zeros(size);
    struct sparse a = system_make(r, 0);

    sparse_product(&a, r, ar);
    memcpy(p, r, size * sizeof *p);
    memcpy(ap, ar, size * sizeof *p);
    double rho = dot(r, ar, n);
    for (int step = 1; step < job.steps; step++) {
        double alpha = rho / dot(ap, ap, n), before = rho;
        add(x, alpha, p, n);
        add(r, -alpha, ap, n);
        sparse_product(&a, r, ar);
        rho = dot(r, ar, n);
        for (int i = 0; i < n; i++) {
            p[i] = r[i] + rho / before * p[i];
            ap[i] = ar[i] + rho / before * ap[i];
        }
    }
    solved(x);
}

/* LSQR: only the product with X^T is summed, as the gradient of a linear regression is. */
static void sparse_lsqr(void)
{
    int n = job.n, rows = 4 * n / job.ranks;
    struct sparse a = sparse_make(rows, -1);
    double *u = zeros((size_t)rows), *v = zeros((size_t)n), *w = zeros((size_t)n),
           *xv = zeros((size_t)rows), alpha = -1, trace = 0;

    for (int i = 0; i < rows; i++)
        u[i] = normal(114, (uint64_t)job.rank, (uint64_t)i);
    for (int step = 0; step < job.steps; step++) {
        sparse_rows(&a, v, xv);
        for (int i = 0; i < rows; i++)
            u[i] = xv[i] - alpha * u[i];
        double beta = dot(u, u, rows);
        reduce(&beta, 1);
        beta = sqrt(beta);
        for (int i = 0; i < rows; i++)
            u[i] /= beta;
        memset(w, 0, (size_t)n * sizeof *w);
        sparse_columns(&a, u, w);
        reduce(w, n);
        for (int i = 0; i < n; i++)
            v[i] = w[i] - beta * v[i];
        alpha = sqrt(dot(v, v, n));
        for (int i = 0; i < n; i++)
            v[i] /= alpha;
        trace += alpha * alpha;
    }
    job.tolerance = 1e-2;
    result(trace);
}

/* ---- operators that are not symmetric ---- */

/* Two products in each step. */
static void sparse_bicgstab(void)
{
    int n = job.n;
    size_t size = (size_t)n;
    double *r = zeros(size), *first = zeros(size), *x = zeros(size), *p = zeros(size),
           *v = zeros(size), *t = zeros(size), rho = 1, alpha = 1, omega = 1;
    struct sparse a = system_make(r, 0);

    a.skew = 0.3;
    memcpy(first, r, size * sizeof *r);
    for (int step = 0; step < job.steps; step += 2) {
        double now = dot(first, r, n), beta = now / rho * alpha / omega;
        for (int i = 0; i < n; i++)
            p[i] = r[i] + beta * (p[i] - omega * v[i]);
        sparse_product(&a, p, v);
        alpha = now / dot(first, v, n);
        add(r, -alpha, v, n);
        sparse_product(&a, r, t);
        omega = dot(t, r, n) / dot(t, t, n);
        add(x, alpha, p, n);
        add(x, omega, r, n);
        add(r, -omega, t, n);
        rho = now;
    }
    solved(x);
}

/* The coefficients of the vectors that leave the residual of least norm; h: the Hessenberg matrix.
 */
static void least_residual(double h[RESTART + 1][RESTART], double *y, double norm)
{
    double g[RESTART + 1] = {norm};

    for (int j = 0; j < RESTART; j++) { /* rotations */
        double length = hypot(h[j][j], h[j + 1][j]), c = h[j][j] / length, s = h[j + 1][j] / length;
        for (int k = j; k < RESTART; k++) {
            double upper = h[j][k], lower = h[j + 1][k];
            h[j][k] = c * upper + s * lower;
            h[j + 1][k] = c * lower - s * upper;
        }
        g[j + 1] = -s * g[j];
        g[j] *= c;
    }
    for (int j = RESTART; j-- > 0;) {
        y[j] = g[j];
        for (int k = j + 1; k < RESTART; k++)
            y[j] -= h[j][k] * y[k];
        y[j] /= h[j][j];
    }
}

static void sparse_gmres(void)
{
    int n = job.n;
    double *b = zeros((size_t)n), *x = zeros((size_t)n), *r = zeros((size_t)n), *v[RESTART + 1];
    struct sparse a = system_make(b, 0);

    for (int j = 0; j <= RESTART; j++)
        v[j] = zeros((size_t)n);
    a.skew = 0.3;
    memcpy(r, b, (size_t)n * sizeof *r);
    for (int step = 0; step < job.steps; step += RESTART + 1) {
        double h[RESTART + 1][RESTART] = {{0}}, y[RESTART], norm = sqrt(dot(r, r, n));
        for (int i = 0; i < n; i++)
            v[0][i] = r[i] / norm;
        for (int j = 0; j < RESTART; j++) {
            double *next = v[j + 1];
            sparse_product(&a, v[j], next);
            for (int i = 0; i <= j; i++) {
                h[i][j] = dot(v[i], next, n);
                add(next, -h[i][j], v[i], n);
            }
            h[j + 1][j] = sqrt(dot(next, next, n));
            for (int i = 0; i < n; i++)
                next[i] /= h[j + 1][j];
        }
        least_residual(h, y, norm);
        for (int j = 0; j < RESTART; j++)
            add(x, y[j], v[j], n);
        sparse_product(&a, x, r);
        for (int i = 0; i < n; i++)
            r[i] = b[i] - r[i];
    }
    solved(x);
}

/* ---- others ---- */

static void sparse_lanczos(void)
{
    int n = job.n;
    double *v = zeros((size_t)n), *before = zeros((size_t)n), *w = zeros((size_t)n), beta, sum = 0;
    struct sparse a = system_make(v, 0);

    beta = sqrt(dot(v, v, n));
    for (int i = 0; i < n; i++)
        v[i] /= beta;
    beta = 0;
    for (int step = 0; step < job.steps; step++) {
        sparse_product(&a, v, w);
        double alpha = dot(v, w, n);
        sum += alpha;
        for (int i = 0; i < n; i++)
            w[i] -= alpha * v[i] + beta * before[i];
        beta = sqrt(dot(w, w, n));
        for (int i = 0; i < n; i++) {
            before[i] = v[i];
            v[i] = w[i] / beta;
        }
    }
    job.tolerance = 1e-2;
    result(sum);
}

static void sparse_jacobi(void)
{
    int n = job.n;
    double *b = zeros((size_t)n), *x = zeros((size_t)n), *q = zeros((size_t)n),
           *diagonal = zeros((size_t)n);
    struct sparse a = system_make(b, 0);

    for (int k = 0; k < a.rows * ENTRIES; k++)
        diagonal[a.column[k]] += a.entry[k] * a.entry[k];
    reduce(diagonal, n);
    for (int step = 0; step < job.steps; step++) {
        for (int i = 0; i < n; i++)
            x[i] += 0.1 * (b[i] - q[i]) / (diagonal[i] + a.shift);
        sparse_product(&a, x, q);
    }
    solved(x);
}

#endif
