/* What the benchmarks count and make of it: seconds, bytes on the wire, medians. */
#ifndef TESTS_BENCH_MEASURE_H
#define TESTS_BENCH_MEASURE_H

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

/* Processor time of this process, all threads. */
static inline double measure_cpu_seconds(void)
{
    return measure_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* Bytes that an interface of this host, as this process sees it, sent so far; 0 where there is none
 * of that name. */
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

/* Of n values, which come to stand in order; between two neighbours where it falls between them. */
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

#endif
