/* What coding, merging and clearing cost on this machine. */
#include "core/plan/host_costs.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "core/compute/kernels.h"
#include "core/wire/wire.h"

enum { ENTRIES = 8192, GAP = 64, ELEMENTS = ENTRIES * GAP, REPEATS = 3 };

static struct {
    pthread_once_t once;
    struct ss_host_costs costs;
} local = {.once = PTHREAD_ONCE_INIT, .costs = {.code = 4e-9, .merge = 2e-9, .fill = 1e-10}};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct bench {
    struct ss_buf idx, val, msg, scratch, dense;
};

static bool bench_init(struct bench *b, struct ss_mem *mem)
{
    if (ss_buf_reserve(&b->idx, mem, ENTRIES * sizeof(uint32_t)) != SS_OK ||
        ss_buf_reserve(&b->val, mem, ENTRIES * sizeof(float)) != SS_OK ||
        ss_buf_reserve(&b->msg, mem, ss_wire_bound(SS_F32, ENTRIES)) != SS_OK ||
        ss_buf_reserve(&b->scratch, mem, SS_CHUNK_ENTRIES * sizeof(uint32_t)) != SS_OK ||
        ss_buf_reserve(&b->dense, mem, ELEMENTS * sizeof(float)) != SS_OK)
        return false;
    uint32_t *idx = b->idx.data;
    float *val = b->val.data;
    uint32_t random = 1;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        random = random * 1664525u + 1013904223u;
        idx[i] = i * GAP + (random >> 26);
        val[i] = (float)(random >> 8) + 1;
    }
    return true;
}

static void bench_run(struct bench *b, struct ss_host_costs *out)
{
    const struct ss_wire_key key = {.type = SS_F32};
    const struct ss_wire_scratch scratch = {.idx = b->scratch.data};
    struct ss_chunk chunk;

    double t0 = now();
    memset(b->dense.data, 0, b->dense.size);
    double t1 = now();
    size_t len = ss_wire_encode(b->msg.data, &key, SS_CODING_AUTO, b->idx.data, b->val.data,
                                ENTRIES, true, NULL);
    int status = ss_wire_decode(b->msg.data, len, &key, 0, ELEMENTS, &scratch, &chunk);
    double t3 = now();
    if (status != SS_OK)
        return;
    ss_kernels()->accumulate(SS_F32, SS_SUM, b->dense.data, 0, chunk.idx, chunk.val, chunk.nnz);
    double t4 = now();
    *out = (struct ss_host_costs){.code = (t3 - t1) / 2 / ENTRIES,
                                  .merge = (t4 - t3) / ENTRIES,
                                  .fill = (t1 - t0) / (double)b->dense.size};
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

static void measure(void)
{
    struct ss_mem mem = {.limit = 0};
    struct bench b = {{0}, {0}, {0}, {0}, {0}};
    struct ss_host_costs seen = local.costs, best = local.costs;

    if (bench_init(&b, &mem)) {
        bench_run(&b, &best);
        for (int i = 0; i < REPEATS; i++) {
            bench_run(&b, &seen);
            best.code = least(best.code, seen.code);
            best.merge = least(best.merge, seen.merge);
            best.fill = least(best.fill, seen.fill);
        }
        local.costs = best;
    }
    ss_buf_free(&b.idx);
    ss_buf_free(&b.val);
    ss_buf_free(&b.msg);
    ss_buf_free(&b.scratch);
    ss_buf_free(&b.dense);
}

const struct ss_host_costs *ss_host_costs(void)
{
    pthread_once(&local.once, measure);
    return &local.costs;
}
