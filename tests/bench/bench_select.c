/* The steady selection step, a call with a kept threshold, and the exact threshold beside a plain
 * vectorised r[i] += g[i] over the same arrays: medians of interleaved repetitions, and ratios.
 * Arguments: elements, repetitions, density. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/compute/kernels.h"
#include "core/select/threshold.h"
#include "tests/bench/measure.h"

enum action { ADD, ADD_STREAMING, STEADY, EXACT, EXACT_CALL, BUCKETS, ACTIONS };

static const char *const names[ACTIONS] = {"r += g",          "r += g, streaming", "steady step",
                                           "exact threshold", "exact and step",    "4 of each 512"};

struct data {
    enum ss_type type;
    size_t n, k, claimed;
    void *g, *r, *saved, *val;
    uint32_t *idx;
    struct ss_threshold kept; /* of a first call */
};

/* Close to normal: the sum of four uniform numbers, times a scale that differs from one layer of
 * 65536 elements to the next. */
static void fill(enum ss_type type, void *p, size_t n, double scale, uint64_t seed)
{
    uint64_t state = seed;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = measure_random(&state);
        double x = -2;
        for (int j = 0; j < 4; j++)
            x += (double)(bits >> 16 * j & 0xffff) / 65536.0;
        x *= scale * (1 + (double)(i >> 16 & 3));
        if (type == SS_F32)
            ((float *)p)[i] = (float)x;
        else
            ((double *)p)[i] = x;
    }
}

/* Stores past the cache, in the widest vectors there are. */
#if defined(__x86_64__)
__attribute__((target("avx512f"))) static void add_streaming_avx512(void *to, const void *from,
                                                                    size_t bytes, bool is_double)
{
    char *r = to;
    const char *g = from;
    for (size_t i = 0; i + 64 <= bytes; i += 64) {
        __m512i x = is_double ? _mm512_castpd_si512(_mm512_add_pd(_mm512_load_pd((void *)(r + i)),
                                                                  _mm512_load_pd(g + i)))
                              : _mm512_castps_si512(_mm512_add_ps(_mm512_load_ps((void *)(r + i)),
                                                                  _mm512_load_ps(g + i)));
        _mm512_stream_si512((void *)(r + i), x);
    }
    _mm_sfence();
}

static void add_streaming(void *to, const void *from, size_t bytes, bool is_double)
{
    if (strcmp(ss_kernels()->name, "avx512") == 0) {
        add_streaming_avx512(to, from, bytes, is_double);
        return;
    }
    char *r = to;
    const char *g = from;
    for (size_t i = 0; i + 16 <= bytes; i += 16) {
        if (is_double)
            _mm_stream_pd((double *)(r + i), _mm_add_pd(_mm_load_pd((double *)(r + i)),
                                                        _mm_load_pd((double *)(g + i))));
        else
            _mm_stream_ps((float *)(r + i),
                          _mm_add_ps(_mm_load_ps((float *)(r + i)), _mm_load_ps((float *)(g + i))));
    }
    _mm_sfence();
}
#endif

static void act(const struct ss_selectors *selectors, struct data *d, enum action action)
{
    struct ss_selection found;
    struct ss_exact exact;
    switch (action) {
    case ADD:
        ss_kernels()->reduce(d->type, SS_SUM, d->r, d->g, d->n);
        break;
    case ADD_STREAMING:
#if defined(__x86_64__)
        add_streaming(d->r, d->g, d->n * ss_type_size(d->type), d->type == SS_F64);
#endif
        break;
    case EXACT:
        ss_exact_threshold(selectors, d->type, d->g, d->r, d->n, d->k, &exact);
        break;
    case EXACT_CALL:
        d->kept = (struct ss_threshold){.period = SIZE_MAX};
        /* fall through */
    case STEADY:
        ss_threshold_select(&d->kept, selectors, d->type, d->g, d->r, d->n, 0, d->k, d->idx, d->val,
                            &found);
        d->claimed = found.claimed;
        break;
    case BUCKETS:
        ss_select_buckets(selectors, d->type, d->g, d->r, d->n, 0, 4, 512, d->idx, d->val, &found);
        break;
    case ACTIONS:
        break;
    }
}

/* The residual is put back before each action, so that every one meets the same arrays. */
static void bench(const struct ss_selectors *selectors, struct data *d, size_t repetitions)
{
    double median[ACTIONS], *times = measure_allocate(ACTIONS * repetitions * sizeof *times);
    memcpy(d->r, d->saved, d->n * ss_type_size(d->type));
    act(selectors, d, EXACT_CALL);
    for (size_t j = 0; j < repetitions; j++)
        for (enum action action = ADD; action < ACTIONS; action++) {
            memcpy(d->r, d->saved, d->n * ss_type_size(d->type));
            double start = measure_now();
            act(selectors, d, action);
            times[action * repetitions + j] = measure_now() - start;
            if (action == STEADY && j == 0)
                printf("  %s, %s, %zu elements, k = %zu, claimed %zu\n", selectors->name,
                       ss_type_name(d->type), d->n, d->k, d->claimed);
        }
    for (enum action action = ADD; action < ACTIONS; action++)
        median[action] = measure_median(times + action * repetitions, (int)repetitions);
    double add = median[ADD] < median[ADD_STREAMING] || median[ADD_STREAMING] < 1e-7
                     ? median[ADD]
                     : median[ADD_STREAMING];
    double bytes = (double)(d->n * ss_type_size(d->type));
    for (enum action action = ADD; action < ACTIONS; action++)
        printf("    %-18s %8.3f ms  %6.1f GB/s  %5.2f times the best r += g\n", names[action],
               1e3 * median[action], 3e-9 * bytes / median[action], median[action] / add);
    printf("    steady step / (r += g) = %.3f (at most 1.15)\n", median[STEADY] / add);
    printf("    exact and step / steady step = %.2f (at most 6)\n",
           median[EXACT_CALL] / median[STEADY]);
    free(times);
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : (size_t)1 << 24;
    size_t repetitions = argc > 2 ? strtoull(argv[2], NULL, 0) : 11;
    double density = argc > 3 ? strtod(argv[3], NULL) : 0.01;
    if (n < 64 || n > SS_WINDOW || repetitions < 1 || !(density > 0 && density <= 1)) {
        fprintf(stderr, "bench_select [elements, 64..2^30] [repetitions, 1 or more] "
                        "[density, above 0 to 1]\n");
        return 2;
    }
    for (int t = 0; t < 2; t++) {
        struct data d = {.type = t ? SS_F64 : SS_F32, .n = n};
        size_t size = ss_type_size(d.type), in_buckets = 4 * ((n + 511) / 512);
        d.k = ss_warmup_k(n, density, 0, 0);
        size_t limit = ss_claim_limit(d.k), room = limit > in_buckets ? limit : in_buckets;
        d.g = measure_allocate(n * size);
        d.r = measure_allocate(n * size);
        d.saved = measure_allocate(n * size);
        d.val = measure_allocate(room * size);
        d.idx = measure_allocate(room * sizeof *d.idx);
        fill(d.type, d.g, n, 1e-3, 88172645463325252u);
        fill(d.type, d.saved, n, 2e-3, 1234567890123u);
        for (size_t i = 0; ss_selectors_at(i); i++)
            bench(ss_selectors_at(i), &d, repetitions);
        void *all[] = {d.g, d.r, d.saved, d.val, d.idx};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            free(all[i]);
    }
    return 0;
}
