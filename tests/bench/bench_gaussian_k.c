/* The threshold of Gaussian-k (Shi et al., "Understanding Top-k Sparsification in Distributed Deep
 * Learning", 2019: the values are taken for normal, so that the threshold is a quantile of the
 * normal distribution with their mean and deviation) beside ours: entries selected over k, and
 * time. The values are gradients plus the residual that error feedback leaves, step by step. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/select/threshold.h"

enum { N = 1 << 18, STEPS = 100, SKIPPED = 20 };

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    uint64_t x = (*state ^ *state >> 33) * 0xff51afd7ed558ccdULL;
    return ((double)(x >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state)
{
    return sqrt(-2 * log(uniform(state))) * cos(6.283185307179586 * uniform(state));
}

enum shape { NORMAL, STUDENT, LAPLACE, SHAPES };
static const char *const names[SHAPES] = {"normal", "Student t, 3 degrees", "Laplace, layers"};

static float draw(enum shape shape, size_t i, uint64_t *state)
{
    if (shape == NORMAL)
        return (float)normal(state);
    if (shape == STUDENT) {
        double a = normal(state), b = normal(state), c = normal(state);
        return (float)(normal(state) / sqrt((a * a + b * b + c * c) / 3));
    }
    double u = uniform(state) - 0.5; /* eight layers whose scales span two decades */
    double x = (u < 0 ? 1 : -1) * log(1 - 2 * fabs(u));
    return (float)(x * pow(10, -2.0 * (double)(i * 8 / N) / 7));
}

/* x with P(|Z| > x) = d for normal Z, by bisection. */
static double normal_quantile(double d)
{
    double low = 0, high = 10;

    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (erfc(middle / sqrt(2)) > d)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static double gaussian_threshold(const float *g, const float *r, double d)
{
    double sum = 0, square = 0;

    for (size_t i = 0; i < N; i++) {
        double a = (double)(g[i] + r[i]);
        sum += a;
        square += a * a;
    }
    double mean = sum / N;
    return fabs(mean) + normal_quantile(d) * sqrt(square / N - mean * mean);
}

struct result {
    double mean, worst, seconds; /* of |selected - k| / k */
};

static void add(struct result *to, size_t selected, size_t k, double seconds)
{
    double off = fabs((double)selected - (double)k) / (double)k;

    to->mean += off / (STEPS - SKIPPED);
    to->worst = off > to->worst ? off : to->worst;
    to->seconds += seconds / (STEPS - SKIPPED);
}

int main(void)
{
    const struct ss_selectors *selectors = ss_selectors();
    float *g = malloc(N * sizeof *g), *r = malloc(N * sizeof *r);
    uint32_t *idx = malloc(N * sizeof *idx);
    float *val = malloc(N * sizeof *val);
    if (!g || !r || !idx || !val)
        return 1;
    printf(
        "N = %d, d = 1 %%, steps %d to %d; |selected - k| / k, mean and worst; ms per selection\n",
        N, SKIPPED, STEPS);
    for (int shape = 0; shape < SHAPES; shape++)
        for (int gaussian = 0; gaussian < 2; gaussian++) {
            struct ss_threshold t = {.period = 32};
            struct result result = {0, 0, 0};
            uint64_t state = 7;
            size_t k = N / 100;
            memset(r, 0, N * sizeof *r);
            for (int step = 0; step < STEPS; step++) {
                struct ss_selection seen;
                for (size_t i = 0; i < N; i++)
                    g[i] = draw((enum shape)shape, i, &state);
                double begin = now();
                if (gaussian)
                    selectors->select(SS_F32, g, r, N, 0,
                                      ss_magnitude_of(SS_F32, gaussian_threshold(g, r, 0.01)), idx,
                                      val, N, &seen);
                else
                    ss_threshold_select(&t, selectors, SS_F32, g, r, N, 0, k, idx, val, &seen);
                if (step >= SKIPPED)
                    add(&result, seen.claimed, k, now() - begin);
            }
            printf("  %-22s %-12s mean %7.1f %%  worst %7.1f %%  %8.3f ms\n", names[shape],
                   gaussian ? "Gaussian-k" : "ours", 100 * result.mean, 100 * result.worst,
                   1e3 * result.seconds);
            fflush(stdout);
        }
    free(g);
    free(r);
    free(idx);
    free(val);
    return 0;
}
