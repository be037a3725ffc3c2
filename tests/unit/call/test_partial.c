/* Calls under QUORUM from end to end: calls with all ranks, partial ones between them, two tensors
 * a step. All ranks have the same result at every call, nothing is lost, and errors reach all. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/partial/rounds.h"
#include "core/tensor/residual.h"
#include "tests/unit/support/sim_job.h"

enum { RANKS = 6, CALLS = 120, N = 500, TENSORS = 2 };

static const size_t lengths[TENSORS] = {N, N - 64};

struct partial_job {
    struct sim_job job; /* its transport carries the calls with all ranks, */
    struct ss_sim *sim; /* this one the rounds */
    struct ss_rules *rules;
    uint64_t seed;
    int calls, last[RANKS]; /* that a rank makes */
    int call[RANKS];
    unsigned busy[RANKS];
    int off_rank; /* -1: none; it is switched off in its partial calls */
    bool calling[RANKS];
    int error[RANKS];
    float in[RANKS][N], out[RANKS][N];
    float *result[CALLS + 1];
    int got[CALLS + 1], partial[CALLS + 1];
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static float value(const struct partial_job *p, int rank, int call, size_t i)
{
    uint64_t h = mix(p->seed * 77 + (uint64_t)rank * 1000003 + (uint64_t)call * 7919 + i);

    return h % 3 == 0 ? (float)((int)(h >> 20 & 15) - 8) : 0;
}

static struct partial_job *partial_open(int size, enum ss_quorum quorum, uint64_t seed, int calls)
{
    struct partial_job *p = calloc(1, sizeof *p);
    struct ss_settings settings = {.algorithm = SS_ALLGATHER,
                                   .alpha = 1e-6,
                                   .beta = 1e-9,
                                   .hash = 1,
                                   .topk = true,
                                   .density = 0.02,
                                   .quorum = quorum,
                                   .quorum_period = 8,
                                   .quorum_staleness = 1 + seed % 6,
                                   .tensors = {.threshold_period = 8}};
    char error[200];

    assert_non_null(p);
    assert_int_equal(
        ss_rules_parse("count=1:,site=*:calls=1", true, &p->rules, error, sizeof error), SS_OK);
    settings.tensors.include = p->rules;
    if (seed % 3 == 0)
        settings.algorithm = SS_RECURSIVE_DOUBLING;
    job_open(&p->job, size, 1e-6, 1e-9, seed, &settings);
    ss_sim_set_idle(p->job.sim, 1e-4);
    p->sim = ss_sim_create(size, 1e-6, 1e-9, seed + 1);
    p->seed = seed;
    p->calls = calls;
    p->off_rank = -1;
    for (int r = 0; r < size; r++) {
        p->last[r] = calls;
        assert_int_equal(ss_comm_open_rounds(p->job.comm[r], ss_sim_transport(p->sim, r)), SS_OK);
    }
    return p;
}

static void partial_close(struct partial_job *p)
{
    for (int r = 0; r < p->job.size; r++)
        ss_comm_close_rounds(p->job.comm[r]);
    job_close(&p->job);
    for (int r = 0; r < p->job.size; r++)
        assert_int_equal(atomic_load(&p->job.mem[r].used), 0);
    ss_sim_free(p->sim);
    for (int t = 0; t <= CALLS; t++)
        free(p->result[t]);
    ss_rules_free(p->rules);
    free(p);
}

static void start_call(struct partial_job *p, int r)
{
    int t = ++p->call[r];
    size_t n = lengths[(t - 1) % TENSORS];
    struct ss_comm *comm = p->job.comm[r];

    for (size_t i = 0; i < n; i++)
        p->in[r][i] = value(p, r, t, i);
    p->calling[r] = true;
    comm->caller.off = r == p->off_rank && (t - 1) / TENSORS % 8 > 0;
    int status = ss_call_start(ss_comm_call(comm), comm, &ss_host, SS_F32, SS_SUM, p->in[r],
                               p->out[r], n, 0);
    assert_int_not_equal(status, SS_NATIVE);
    p->partial[t] += ss_comm_call(comm)->partial;
}

static void end_call(struct partial_job *p, int r, int status)
{
    int t = p->call[r];
    size_t bytes = lengths[(t - 1) % TENSORS] * sizeof(float);

    ss_call_end(ss_comm_call(p->job.comm[r]), 0);
    p->calling[r] = false;
    p->error[r] = status;
    if (status != SS_OK)
        return;
    if (!p->result[t]) {
        p->result[t] = malloc(bytes);
        memcpy(p->result[t], p->out[r], bytes);
    }
    assert_memory_equal(p->result[t], p->out[r], bytes);
    p->got[t]++;
    uint64_t h = mix(p->seed * 31 + (uint64_t)r * 131 + (uint64_t)t);
    p->busy[r] = h % 5 == 0 ? (unsigned)(h >> 32) % 300 : (unsigned)(h >> 32) % 10;
}

static bool is_over(const struct partial_job *p, int r)
{
    return p->error[r] < 0 || (p->call[r] == p->last[r] && !p->calling[r]);
}

static int turn(void *ctx, int r)
{
    struct partial_job *p = ctx;
    struct ss_comm *comm = p->job.comm[r];
    bool under_way;

    if (p->calling[r]) {
        int status = ss_call_step(ss_comm_call(comm));
        if (status != SS_PENDING)
            end_call(p, r, status);
    } else {
        ss_comm_serve(comm, &under_way);
        if (p->busy[r] > 0)
            p->busy[r]--;
        else if (!is_over(p, r))
            start_call(p, r);
    }
    for (int i = 0; i < p->job.size; i++)
        if (!is_over(p, i))
            return SS_PENDING;
    return SS_OK;
}

static void run(struct partial_job *p)
{
    assert_true(ss_sim_run(p->job.sim, turn, p, p->job.status, 100000000));
}

static void assert_nothing_lost(const struct partial_job *p)
{
    for (int i = 0; i < TENSORS; i++)
        for (size_t e = 0; e < lengths[i]; e++) {
            double balance = 0;
            for (int t = 1 + i; t <= p->calls; t += TENSORS) {
                balance -= (double)p->result[t][e];
                for (int r = 0; r < p->job.size; r++)
                    balance += (double)value(p, r, t, e);
            }
            for (int r = 0; r < p->job.size; r++)
                for (const struct ss_tensor *t = ss_tensors_first(p->job.comm[r]->tensors); t;
                     t = t->next)
                    if (t->n == lengths[i])
                        balance -= (double)((const float *)ss_residual_values(t))[e];
            assert_true(balance == 0);
        }
}

static void partial_calls_stand_between_calls_with_all_ranks(void **state)
{
    (void)state;
    for (int size = 2; size <= RANKS; size++)
        for (uint64_t seed = 1; seed <= 9; seed++) {
            struct partial_job *p =
                partial_open(size, seed % 2 ? SS_QUORUM_SOLO : SS_QUORUM_MAJORITY, seed, CALLS);

            run(p);
            for (int t = 1; t <= CALLS; t++) {
                bool full = (t - 1) / TENSORS % 8 == 0;
                assert_int_equal(p->got[t], size);
                assert_int_equal(p->partial[t], full ? 0 : size);
            }
            assert_nothing_lost(p);
            partial_close(p);
        }
}

/* A call with all ranks contains gradients that came late before it. */
static void a_call_with_all_ranks_selects_from_what_came_late(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct partial_job *p = partial_open(4, SS_QUORUM_SOLO, seed, 7 * 8 * TENSORS + TENSORS);

        run(p);
        for (int r = 0; r < 4; r++) {
            uint64_t not_asked_for;
            assert_int_equal(ss_comm_rounds_seen(p->job.comm[r], &not_asked_for).pending, 0);
            assert_int_equal(not_asked_for, 0);
        }
        partial_close(p);
    }
}

/* Its gradients join its residual, and leave with the next call with all ranks. */
static void a_rank_that_is_switched_off_contributes_nothing_to_partial_calls(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct partial_job *p = partial_open(3, SS_QUORUM_SOLO, seed, 64);
        uint64_t not_asked_for;

        p->off_rank = 1;
        run(p);
        assert_int_equal(ss_comm_rounds_seen(p->job.comm[1], &not_asked_for).sum.in, 0);
        assert_true(ss_comm_rounds_seen(p->job.comm[0], &not_asked_for).sum.in > 0);
        assert_nothing_lost(p);
        partial_close(p);
    }
}

/* A damaged message of the rounds, or of other calls, is an error on all ranks. If only the
 * receiver has seen a vote fail, the other ranks learn it in the next vote, which the program does
 * not make here. */
static void errors_reach_all_ranks(void **state)
{
    int failed = 0;

    (void)state;
    for (uint64_t send = 1; send <= 60; send++) {
        struct partial_job *p = partial_open(4, SS_QUORUM_SOLO, send, CALLS);

        ss_sim_set_fault(send % 2 ? p->sim : p->job.sim,
                         (struct ss_sim_fault){.rank = 2, .corrupt_send = send});
        for (int r = 0; r < 4 && send % 2 == 0; r++)
            p->job.settings[r].timeout = 1;
        run(p);
        for (int r = 0; r < 4; r++)
            failed += p->error[r] < 0;
        if (p->error[0] < 0 || p->error[1] < 0 || p->error[2] < 0 || p->error[3] < 0)
            for (int r = 0; r < 4; r++)
                assert_true(p->error[r] < 0);
        partial_close(p);
    }
    assert_true(failed > 100);
}

/* A rank that makes fewer calls: the others fill its queue, then their waits end by TIMEOUT. */
static void ranks_with_unlike_numbers_of_calls_end_by_timeout(void **state)
{
    struct partial_job *p = partial_open(3, SS_QUORUM_SOLO, 5, 40);
    uint64_t not_asked_for;

    (void)state;
    for (int r = 0; r < 3; r++)
        p->job.settings[r].timeout = 1;
    p->last[1] = 9;
    run(p);
    assert_int_equal(p->error[1], SS_OK);
    assert_int_equal(p->error[0], SS_ERR_TIMEOUT);
    assert_true(p->error[2] < 0);
    ss_comm_rounds_seen(p->job.comm[1], &not_asked_for);
    assert_true(not_asked_for >= 1);
    partial_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partial_calls_stand_between_calls_with_all_ranks),
        cmocka_unit_test(a_call_with_all_ranks_selects_from_what_came_late),
        cmocka_unit_test(a_rank_that_is_switched_off_contributes_nothing_to_partial_calls),
        cmocka_unit_test(errors_reach_all_ranks),
        cmocka_unit_test(ranks_with_unlike_numbers_of_calls_end_by_timeout),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
