/* Costs of MODE=quant per element: a whole call of one of 4 ranks, which run in the simulator
 * (core/sim/sim.h), and each function of the quantizers, beside r += g.
 *
 *     bench_quant count [N]           each once, for callgrind: --toggle-collect='counted_*'
 *     bench_quant time [N] [TIMES]    medians of interleaved repetitions, in ns; a call with its
 *                                     messages, which the simulator copies. Functions run over
 *                                     4 Mi elements at least, for the clock.
 */
#define _POSIX_C_SOURCE 200809L

#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/backend/backend.h"
#include "core/call/call.h"
#include "core/compute/quantize.h"
#include "core/sim/sim.h"
#include "tests/bench/measure.h"

enum { RANKS = 4, WARM = 2, MOST_TABLES = 3, LEAST = 4 << 20 };

struct job {
    size_t n;
    struct ss_sim *sim;
    struct ss_settings settings;
    struct ss_stats stats;
    struct ss_mem mem[RANKS];
    struct ss_comm *comm[RANKS];
    float *in[RANKS], *out[RANKS];
    bool started[RANKS];
    /* of the functions alone */
    const struct ss_quantizers *quantizers;
    float *g, *r, *v;
    void *coded;
};

/* Close to normal: the sum of four uniform numbers. */
static float *drawn(size_t n, uint64_t seed)
{
    float *v = measure_allocate(n * sizeof *v);

    for (size_t i = 0; i < n; i++) {
        const uint64_t bits = measure_random(&seed);
        double x = -2;
        for (int j = 0; j < 4; j++)
            x += (double)(bits >> 16 * j & 0xffff) / 65536.0;
        v[i] = (float)x;
    }
    return v;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_quant: %s\n", what);
    exit(1);
}

/* ---- a whole call ---- */

static int step(void *ctx, int rank)
{
    struct job *job = ctx;
    struct ss_call *call = ss_comm_call(job->comm[rank]);

    if (job->started[rank])
        return ss_call_step(call);
    job->started[rank] = true;
    return ss_call_start(call, job->comm[rank], &ss_host, SS_F32, SS_SUM, job->in[rank],
                         job->out[rank], job->n, 0);
}

static __attribute__((noinline)) int counted_call(void *ctx, int rank)
{
    return step(ctx, rank);
}

static void call_all(struct job *job, int (*by)(void *, int))
{
    int status[RANKS];

    memset(job->started, 0, sizeof job->started);
    ss_sim_restart(job->sim);
    if (!ss_sim_run(job->sim, by, job, status, UINT64_MAX))
        fail("a deadlock");
    for (int r = 0; r < RANKS; r++) {
        if (status[r] != SS_OK)
            fail("a call failed or was native");
        ss_call_end(ss_comm_call(job->comm[r]), ss_sim_clock(job->sim, r));
    }
}

static void open_job(struct job *job, size_t n)
{
    char error[200];
    struct ss_rules *rules;

    *job = (struct job){.n = n, .sim = ss_sim_create(RANKS, 2e-5, 8e-10, 0)};
    if (!job->sim || ss_rules_parse("*:calls=1", true, &rules, error, sizeof error) != SS_OK)
        fail("no memory");
    job->settings = (struct ss_settings){
        .algorithm = SS_QUANTIZED,
        .alpha = 2e-5,
        .beta = 8e-10,
        .hash = 1,
        .topk = true,
        .density = 1,
        .value_type = SS_VALUES_Q4,
        .tensors = {.identity = {.by_rule = true}, .include = rules, .threshold_period = 32}};
    ss_stats_init(&job->stats, 0);
    for (int r = 0; r < RANKS; r++) {
        job->comm[r] = ss_comm_create(ss_sim_transport(job->sim, r), &job->settings, &job->mem[r],
                                      &job->stats, "");
        job->in[r] = drawn(n, (uint64_t)r + 1);
        job->out[r] = measure_allocate(n * sizeof(float));
        if (!job->comm[r])
            fail("no memory");
    }
    job->g = drawn(n, 11);
    job->r = drawn(n, 12);
    job->v = drawn(n, 13);
    job->coded = measure_allocate(ss_quantized_bytes(SS_VALUES_Q4, n));
    for (int i = 0; i < WARM; i++)
        call_all(job, step);
}

/* ---- the functions ---- */

/* Adds as compilers do for AVX2: two loads, a sum and a store in each turn. */
#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
static __attribute__((noinline)) void
counted_sum(struct job *job)
{
    typedef float vector __attribute__((vector_size(32)));
    const size_t n = job->n / 8 * 8;
    const float *from = job->g;
    float *to = job->r;

    for (size_t i = 0; i < n; i += 8) {
        vector g, r;
        memcpy(&g, from + i, sizeof g);
        memcpy(&r, to + i, sizeof r);
        r += g;
        memcpy(to + i, &r, sizeof r);
    }
}

static __attribute__((noinline)) void counted_square(struct job *job)
{
    job->quantizers->square(SS_F32, job->g, job->n);
}

static __attribute__((noinline)) void counted_join(struct job *job)
{
    job->quantizers->join(SS_F32, SS_VALUES_Q4, job->g, job->r, job->n, job->coded);
}

static __attribute__((noinline)) void counted_add(struct job *job)
{
    job->quantizers->add(SS_F32, SS_VALUES_Q4, job->coded, job->v, job->n);
}

static __attribute__((noinline)) void counted_round(struct job *job)
{
    job->quantizers->round(SS_F32, SS_VALUES_Q4, job->v, job->r, job->n, job->coded);
}

static __attribute__((noinline)) void counted_decode(struct job *job)
{
    job->quantizers->decode(SS_F32, SS_VALUES_Q4, job->coded, job->v, job->n);
}

/* In this order the values of a repetition are those of the one before. */
static const struct {
    const char *name;
    void (*run)(struct job *job);
} functions[] = {
    {"sum", counted_sum}, {"square", counted_square}, {"join", counted_join},
    {"add", counted_add}, {"round", counted_round},   {"decode", counted_decode},
};

enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static void count(struct job *job)
{
    job->quantizers = ss_quantizers();
    call_all(job, counted_call);
    for (size_t f = 0; f < FUNCTIONS; f++)
        functions[f].run(job);
}

static void time_all(struct job *job, int times)
{
    double *seconds[MOST_TABLES][FUNCTIONS], *calls = measure_allocate((size_t)times * 8);
    const size_t runs = job->n < LEAST ? LEAST / job->n : 1;
    size_t tables = 0;

    for (; tables < MOST_TABLES && ss_quantizers_at(tables); tables++)
        for (size_t f = 0; f < FUNCTIONS; f++)
            seconds[tables][f] = measure_allocate((size_t)times * sizeof(double));
    for (int i = 0; i < times; i++) {
        double begin = measure_now();
        call_all(job, step);
        calls[i] = (measure_now() - begin) / RANKS;
        for (size_t t = 0; t < tables; t++) {
            job->quantizers = ss_quantizers_at(t); /* takes microseconds on a virtual machine */
            for (size_t f = 0; f < FUNCTIONS; f++) {
                begin = measure_now();
                for (size_t k = 0; k < runs; k++)
                    functions[f].run(job);
                seconds[t][f][i] = (measure_now() - begin) / (double)runs;
            }
        }
    }
    for (size_t t = 0; t < tables; t++)
        for (size_t f = 0; f < FUNCTIONS; f++)
            printf("%s %s %.4f\n", ss_quantizers_at(t)->name, functions[f].name,
                   1e9 * measure_median(seconds[t][f], times) / (double)job->n);
    printf("%s call %.4f\n", ss_quantizers()->name,
           1e9 * measure_median(calls, times) / (double)job->n);
}

int main(int argc, char **argv)
{
    static struct job job;
    const char *what = argc > 1 ? argv[1] : "";
    const int times = argc > 3 ? atoi(argv[3]) : 15;

    /* The simulator's messages keep their memory, which is slow to touch first. */
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_MMAP_THRESHOLD, INT_MAX / 2);
    open_job(&job, argc > 2 ? strtoull(argv[2], NULL, 10) : 4 << 20);
    if (strcmp(what, "count") == 0)
        count(&job);
    else if (strcmp(what, "time") == 0 && times > 0)
        time_all(&job, times);
    else
        fail("usage: bench_quant count|time [N] [TIMES]");
    return 0;
}
