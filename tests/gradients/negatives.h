/* What all the programs of negatives.c use: the helper through which they reduce, random numbers
 * and vectors. */
#ifndef TESTS_GRADIENTS_NEGATIVES_H
#define TESTS_GRADIENTS_NEGATIVES_H

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
} job;

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

    for (int k = 0; k < 3; k++) {
        h = (h ^ h >> 31) * 0xd6e8feb86659fd93u;
        h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u;
        h = (h ^ h >> 32) + (k == 0 ? b : k == 1 ? c : 0);
    }
    return h;
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

static int first_row(int rank)
{
    return (int)((int64_t)job.n * rank / job.ranks);
}

/* A mean that follows x. */
static void follow(double *mean, double keep, const double *x, int n)
{
    for (int i = 0; i < n; i++)
        mean[i] = keep * mean[i] + (1 - keep) * x[i];
}

#endif
