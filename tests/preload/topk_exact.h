/* Exact top-k and one residual per gradient, written plainly: what the profiling libraries
 * wrong_topk and xi_probe lay over the MPI library's own allreduce. Shares no code with the library
 * under test. For programs whose calls come from one thread. */
#ifndef TESTS_MPI_TOPK_EXACT_H
#define TESTS_MPI_TOPK_EXACT_H

#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* One gradient of the program. All arrays have `count` elements. */
struct gradient {
    struct gradient *next;
    const void *site, *out; /* return address of the call, receive buffer */
    int count;
    long calls;
    float *residual; /* what has not been sent yet */
    float *total;    /* residual + input of this call */
    float *sent;     /* what of it is sent in this call, else 0 */
    float *work[4];  /* for the caller, NULL until topk_work asks for them */
};

__attribute__((noreturn)) static inline void topk_die(const char *what, const char *which)
{
    fprintf(stderr, "%s: %s\n", what, which);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static inline float *topk_array(int count)
{
    float *values = calloc((size_t)count, sizeof *values);

    if (!values)
        topk_die("no memory", "residual");
    return values;
}

/* A number above `low` and up to `high` from the environment; ends the job where it is none. */
static inline double topk_number(const char *name, double low, double high, double otherwise)
{
    const char *text = getenv(name);
    char *end;
    double value;

    if (!text)
        return otherwise;
    value = strtod(text, &end);
    if (end == text || *end || !(value > low && value <= high)) {
        fprintf(stderr, "%s is '%s'; allowed is a number above %g and up to %g\n", name, text, low,
                high);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return value;
}

static inline bool topk_takes(int count, MPI_Datatype type, MPI_Op op, long least)
{
    return count >= least && type == MPI_FLOAT && op == MPI_SUM;
}

static inline struct gradient *topk_gradient(struct gradient **all, const void *site,
                                             const void *out, int count)
{
    struct gradient *g;

    for (g = *all; g; g = g->next)
        if (g->site == site && g->out == out && g->count == count)
            return g;
    g = calloc(1, sizeof *g);
    if (!g)
        topk_die("no memory", "gradient");
    *g = (struct gradient){.next = *all, .site = site, .out = out, .count = count};
    g->residual = topk_array(count);
    g->total = topk_array(count);
    g->sent = topk_array(count);
    return *all = g;
}

static inline float *topk_work(struct gradient *g, int i)
{
    if (!g->work[i])
        g->work[i] = topk_array(g->count);
    return g->work[i];
}

/* Elements to select of n: the nearest whole number to d n, at least 1. */
static inline size_t topk_count(double density, int n)
{
    double k = density * n + 0.5;

    return k < 1 ? 1 : (size_t)k;
}

static inline uint32_t topk_magnitude(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffff;
}

/* Magnitude of the k-th largest of those elements whose magnitude >> 16 is `high` (any with -1), by
 * a histogram of 16 bits. *above: how many are larger. Returns 0 where there are fewer than k. */
static inline uint32_t topk_digit(const float *in, int n, size_t k, int high, size_t *above)
{
    static size_t histogram[1 << 16];
    size_t larger = 0;

    memset(histogram, 0, sizeof histogram);
    for (int i = 0; i < n; i++) {
        uint32_t m = topk_magnitude(in[i]);

        if (high < 0)
            histogram[m >> 16]++;
        else if (m >> 16 == (uint32_t)high)
            histogram[m & 0xffff]++;
    }
    for (uint32_t digit = 0xffff; digit > 0; digit--) {
        if (larger + histogram[digit] >= k) {
            *above = larger;
            return digit;
        }
        larger += histogram[digit];
    }
    *above = larger;
    return 0;
}

/* Writes into out the k elements of largest magnitude of in, the first of equal ones, 0 elsewhere.
 * Fewer where fewer are not zero. */
static inline void topk_keep(const float *in, float *out, int n, size_t k)
{
    size_t above, still, equal;
    uint32_t high = topk_digit(in, n, k, -1, &above), low;

    low = topk_digit(in, n, k - above, (int)high, &still);
    equal = k - above - still; /* to be taken of those equal to the threshold */
    for (int i = 0; i < n; i++) {
        uint32_t m = topk_magnitude(in[i]), threshold = high << 16 | low;
        bool takes = m > threshold || (m == threshold && equal > 0);

        equal -= takes && m == threshold;
        out[i] = takes ? in[i] : 0;
    }
}

/* total = residual + input; sent = its k largest. */
static inline void topk_select(struct gradient *g, const float *in, double density)
{
    for (int i = 0; i < g->count; i++)
        g->total[i] = g->residual[i] + in[i];
    topk_keep(g->total, g->sent, g->count, topk_count(density, g->count));
    g->calls++;
}

static inline void topk_free(struct gradient **all)
{
    while (*all) {
        struct gradient *g = *all;

        *all = g->next;
        free(g->residual);
        free(g->total);
        free(g->sent);
        for (int i = 0; i < 4; i++)
            free(g->work[i]);
        free(g);
    }
}

#endif
