/* Measurements of the benchmarks: seconds, bytes on the wire, medians; and their data. */
#ifndef TESTS_BENCH_MEASURE_H
#define TESTS_BENCH_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double measure_clock(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double measure_now(void)
{
    return measure_clock(CLOCK_MONOTONIC);
}

/* Returns the processor time of this process, all threads. */
static inline double measure_cpu_seconds(void)
{
    return measure_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* Returns the bytes that an interface of this host has sent, as this process sees it; 0 if there is
 * no such interface. */
static inline double measure_sent_bytes(const char *device)
{
    char line[512], name[64];
    unsigned long long bytes, sent = 0;
    FILE *f = fopen("/proc/self/net/dev", "r");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, " %63[^:]: %*u %*u %*u %*u %*u %*u %*u %*u %llu", name, &bytes) == 2 &&
            strcmp(name, device) == 0)
            sent = bytes;
    if (f)
        fclose(f);
    return (double)sent;
}

static inline int measure_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns a quantile of n values, which it sorts; interpolates between neighbours. */
static inline double measure_quantile(double *v, size_t n, double share)
{
    double at = share * (double)(n - 1);
    size_t low = (size_t)at;

    qsort(v, n, sizeof *v, measure_by_value);
    return low + 1 < n ? v[low] + (at - (double)low) * (v[low + 1] - v[low]) : v[low];
}

static inline double measure_median(double *v, int n)
{
    return measure_quantile(v, (size_t)n, 0.5);
}

/* Returns the next random number (xorshift); the state is not 0. */
static inline uint64_t measure_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Returns cleared memory for an array, aligned to 64 bytes, with 64 more behind it. */
static inline void *measure_allocate(size_t bytes)
{
    const size_t all = (bytes + 127) & ~(size_t)63;
    void *p = aligned_alloc(64, all);

    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memset(p, 0, all);
}

#endif
