/* P ranks in the simulator that make the same calls, each at its own pace. All ranks must get the
 * same bits in every call; no input may be lost or counted twice. Gradients hold small integers, so
 * that all sums are exact. */
#ifndef TESTS_UNIT_ROUNDS_JOB_H
#define TESTS_UNIT_ROUNDS_JOB_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/coll/algorithms.h"
#include "core/partial/rounds.h"
#include "core/sim/sim.h"
#include "core/tensor/residual.h"

enum { ROUNDS_RANKS = 64, ROUNDS_CALLS = 400, ROUNDS_TENSORS = 3, ROUNDS_N = 300 };

struct rounds_job {
    int size;
    uint32_t calls; /* calls of every rank */
    int tensors;    /* tensors per step */
    size_t n[ROUNDS_TENSORS], k;
    uint64_t seed;
    struct ss_rounds_settings settings;
    struct ss_sim *sim;
    struct ss_rules *rules;
    struct ss_tensor_settings tensor_settings;
    struct ss_mem mem[ROUNDS_RANKS];
    struct ss_tensors *of[ROUNDS_RANKS];
    struct ss_tensor *tensor[ROUNDS_RANKS][ROUNDS_TENSORS];
    struct ss_rounds *rounds[ROUNDS_RANKS];

    /* The program of a rank: it computes for some of its steps, makes a call, and waits for it. */
    unsigned (*delay)(const struct rounds_job *job, int rank, uint32_t call);
    float (*value)(const struct rounds_job *job, int rank, uint32_t call, size_t i);
    void (*begun)(struct rounds_job *job, int rank, uint32_t call); /* NULL, or after each call */
    bool asleep_while_computing; /* no thread of the shim takes part meanwhile */
    int asleep_rank;             /* rank concerned, -1: all */
    bool silent[ROUNDS_RANKS];
    uint32_t call[ROUNDS_RANKS]; /* calls made so far */
    unsigned busy[ROUNDS_RANKS];
    bool calling[ROUNDS_RANKS];
    float *out[ROUNDS_RANKS];
    int status[ROUNDS_RANKS];

    /* results */
    float *result[ROUNDS_CALLS + 1]; /* results of the first rank that had them */
    int got[ROUNDS_CALLS + 1], in[ROUNDS_CALLS + 1];
    uint64_t seen_in[ROUNDS_RANKS]; /* rounds with the gradients of calls that are over */
    uint32_t ahead_most;            /* most rounds that were over on a rank before their call */
    double tolerance;               /* tolerance of a complete sum, if values are rounded */
    bool may_fail;
    int error[ROUNDS_RANKS]; /* error of the call that failed on a rank */
};

static inline uint64_t rounds_mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static inline int rounds_tensor(const struct rounds_job *job, uint32_t call)
{
    return (int)((call - 1) % (uint32_t)job->tensors);
}

/* Returns a number in -4..4, mostly 0. */
static inline float rounds_value(const struct rounds_job *job, int rank, uint32_t call, size_t i)
{
    uint64_t h = rounds_mix(job->seed * 77 + (uint64_t)rank * 1000003 + call * 7919 + i);

    return h % 5 == 0 ? (float)((int)(h >> 20 & 7) - 4) : 0;
}

static inline unsigned rounds_random_delay(const struct rounds_job *job, int rank, uint32_t call)
{
    uint64_t h = rounds_mix(job->seed * 31 + (uint64_t)rank * 131 + call);

    return h % 7 == 0 ? (unsigned)(h >> 32) % 400 : (unsigned)(h >> 32) % 20;
}

static inline void rounds_open_rank(struct rounds_job *job, int r)
{
    job->of[r] = ss_tensors_create(&job->tensor_settings, &job->mem[r]);
    assert_non_null(job->of[r]);
    job->rounds[r] = ss_rounds_create(ss_sim_transport(job->sim, r), &job->settings, &job->mem[r]);
    assert_non_null(job->rounds[r]);
    job->out[r] = calloc(ROUNDS_N, sizeof(float));
    for (int i = 0; i < job->tensors; i++) {
        struct ss_rule_subject subject = {.count = job->n[i], .type = SS_F32, .comm = "c"};
        struct ss_tensor_call call = {.lane = (uint32_t)i,
                                      .address = job->out[r],
                                      .backend = &ss_host,
                                      .type = SS_F32,
                                      .op = SS_SUM,
                                      .n = job->n[i],
                                      .subject = &subject};

        struct ss_tensor_found found;

        job->tensor[r][i] = ss_tensor_find(job->of[r], &call, &found);
        assert_non_null(job->tensor[r][i]);
        ss_tensor_take(job->tensor[r][i], &call, &found);
        assert_true(ss_residual_make(job->tensor[r][i]));
        job->tensor[r][i]->threshold.period = 8;
        assert_int_equal(ss_rounds_admit(job->rounds[r], job->tensor[r][i],
                                         1000 * job->seed + (uint64_t)i, job->k, 0),
                         SS_OK);
    }
}

static inline struct rounds_job *rounds_open(int size, enum ss_quorum quorum, uint64_t seed,
                                             uint32_t calls, int tensors)
{
    struct rounds_job *job = calloc(1, sizeof *job);
    char error[200];

    assert_non_null(job);
    assert_int_equal(
        ss_rules_parse("count=1:,site=*:calls=1", true, &job->rules, error, sizeof error), SS_OK);
    job->size = size;
    job->calls = calls;
    job->tensors = tensors;
    job->k = 12;
    job->seed = seed;
    job->settings =
        (struct ss_rounds_settings){.quorum = quorum,
                                    .staleness = 8,
                                    .algorithm = ss_algorithms(SS_KIND_ALLREDUCE)[SS_ALLGATHER]};
    job->tensor_settings =
        (struct ss_tensor_settings){.threshold_period = 8, .include = job->rules};
    job->delay = rounds_random_delay;
    job->value = rounds_value;
    job->asleep_rank = -1;
    job->sim = ss_sim_create(size, 1e-6, 1e-9, seed);
    ss_sim_set_idle(job->sim, 1e-4);
    for (int i = 0; i < tensors; i++)
        job->n[i] = (size_t)(ROUNDS_N - 37 * i);
    return job;
}

/* Settings may be changed before this. */
static inline void rounds_begin(struct rounds_job *job)
{
    for (int r = 0; r < job->size; r++)
        rounds_open_rank(job, r);
}

static inline void rounds_close(struct rounds_job *job)
{
    for (int r = 0; r < job->size; r++) {
        ss_rounds_close(job->rounds[r]);
        ss_rounds_free(job->rounds[r]);
        ss_tensors_free(job->of[r]);
        assert_int_equal(atomic_load(&job->mem[r].used), 0);
        free(job->out[r]);
    }
    for (uint32_t t = 0; t <= job->calls; t++)
        free(job->result[t]);
    ss_sim_free(job->sim);
    ss_rules_free(job->rules);
    free(job);
}

static inline void rounds_start_call(struct rounds_job *job, int rank)
{
    uint32_t t = ++job->call[rank];
    int i = rounds_tensor(job, t);
    float *out = job->out[rank];
    struct ss_round_call call = {
        .tensor = job->tensor[rank][i], .in = out, .out = out, .k = job->k};

    call.silent = job->silent[rank];
    for (size_t e = 0; e < job->n[i]; e++)
        out[e] = job->value(job, rank, t, e);
    uint32_t ahead = (uint32_t)ss_rounds_seen(job->rounds[rank]).sum.rounds - (t - 1);
    if (ahead > job->ahead_most)
        job->ahead_most = ahead;
    ss_rounds_call(job->rounds[rank], &call);
    job->calling[rank] = true;
    if (job->begun)
        job->begun(job, rank, t);
}

static inline void rounds_end_call(struct rounds_job *job, int rank)
{
    uint32_t t = job->call[rank];
    uint64_t in = ss_rounds_seen(job->rounds[rank]).sum.in;
    size_t bytes = job->n[rounds_tensor(job, t)] * sizeof(float);

    job->calling[rank] = false;
    assert_int_equal(ss_rounds_call_number(job->rounds[rank]), t);
    if (!job->result[t]) {
        job->result[t] = malloc(bytes);
        memcpy(job->result[t], job->out[rank], bytes);
    }
    assert_memory_equal(job->result[t], job->out[rank], bytes);
    job->got[t]++;
    job->in[t] += (int)(in - job->seen_in[rank]);
    job->seen_in[rank] = in;
    if (t < job->calls)
        job->busy[rank] = job->delay(job, rank, t + 1);
}

static inline bool rounds_all_over(const struct rounds_job *job)
{
    for (int r = 0; r < job->size; r++)
        if (job->error[r] == SS_OK && (job->call[r] < job->calls || job->calling[r]))
            return false;
    return true;
}

/* Makes one turn of a rank: it computes, or steps its call; meanwhile a thread of the shim takes
 * part. */
static inline int rounds_turn(void *ctx, int rank)
{
    struct rounds_job *job = ctx;
    bool computing = job->busy[rank] > 0;
    bool dozes = computing && job->asleep_while_computing &&
                 (job->asleep_rank < 0 || rank == job->asleep_rank);
    int status;

    if (computing)
        job->busy[rank]--;
    if (!dozes)
        ss_rounds_step(job->rounds[rank]);
    if (computing)
        return SS_PENDING;
    if (job->calling[rank]) {
        status = ss_rounds_call_status(job->rounds[rank]);
        if (status < 0) { /* the rank still takes part */
            job->error[rank] = status;
            job->calling[rank] = false;
        } else if (status == SS_OK) {
            rounds_end_call(job, rank);
        }
    } else if (job->call[rank] < job->calls && job->error[rank] == SS_OK) {
        rounds_start_call(job, rank);
    }
    return rounds_all_over(job) ? SS_OK : SS_PENDING;
}

static inline void rounds_run(struct rounds_job *job)
{
    for (int r = 0; r < job->size; r++)
        job->busy[r] = job->delay(job, r, 1);
    assert_true(ss_sim_run(job->sim, rounds_turn, job, job->status, 200000000));
    if (job->may_fail)
        return;
    for (int r = 0; r < job->size; r++)
        assert_int_equal(job->error[r], SS_OK);
    for (uint32_t t = 1; t <= job->calls; t++)
        assert_int_equal(job->got[t], job->size);
}

/* Checks that results + residuals = inputs, within the tolerance. */
static inline void rounds_assert_nothing_lost(const struct rounds_job *job)
{
    for (int i = 0; i < job->tensors; i++)
        for (size_t e = 0; e < job->n[i]; e++) {
            double balance = 0;
            for (uint32_t t = 1 + (uint32_t)i; t <= job->calls; t += (uint32_t)job->tensors) {
                balance -= (double)job->result[t][e];
                for (int r = 0; r < job->size; r++)
                    balance += (double)job->value(job, r, t, e);
            }
            for (int r = 0; r < job->size; r++)
                balance -= (double)((const float *)ss_residual_values(job->tensor[r][i]))[e];
            if (!(fabs(balance) <= job->tolerance))
                fail_msg("P = %d, seed %llu, tensor %d, element %zu: %g are missing", job->size,
                         (unsigned long long)job->seed, i, e, balance);
        }
}

static const enum ss_quorum both[] = {SS_QUORUM_SOLO, SS_QUORUM_MAJORITY};

static inline void run_and_check(struct rounds_job *job)
{
    rounds_begin(job);
    rounds_run(job);
    rounds_assert_nothing_lost(job);
    assert_true(job->ahead_most <= job->settings.staleness * (uint64_t)job->tensors);
    for (uint32_t t = 1; t <= job->calls; t++)
        assert_true(job->in[t] >= 1);
}

static inline void assert_staleness(const struct rounds_job *job)
{
    for (int r = 0; r < job->size; r++) {
        struct ss_rounds_stats seen = ss_rounds_seen(job->rounds[r]);
        uint64_t late = seen.pending;

        for (uint64_t i = 0; i < SS_STALENESS_SEEN; i++) {
            assert_true(seen.sum.stale[i] == 0 || i <= job->settings.staleness);
            late += seen.sum.stale[i];
        }
        assert_int_equal(late, seen.sum.late);
        assert_int_equal(seen.sum.in + seen.sum.late, job->calls);
        assert_int_equal(seen.sum.rounds, job->calls);
    }
}

#endif
