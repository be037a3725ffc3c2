/* A training of several layers in the simulator, whose nonblocking calls are under way beside each
 * other: posted late on some ranks, stepped in any order, ended in any order. */
#ifndef TESTS_UNIT_IN_FLIGHT_JOB_H
#define TESTS_UNIT_IN_FLIGHT_JOB_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/sim_job.h"

enum { MOST_RANKS = 9, LAYERS = 11, MOST_CALLS = 70 * LAYERS };

/* Counts: some different, some equal and adjacent, some equal and apart. */
static const size_t layer_count[LAYERS] = {700, 3000, 64, 64, 1800, 700, 2000, 64, 1800, 5, 2600};

/* Counts of a test of its own. */
static const size_t *beside_layers __attribute__((unused)) = layer_count;

struct beside_plan {
    int size, calls;
    uint64_t seed;   /* seed of steps and delivery */
    uint64_t inputs; /* seed of the inputs */
    enum ss_type type;
    double density;
    unsigned in_flight;
    uint64_t merge;      /* MERGE, bytes */
    int hurries;         /* of so many steps the program waits for a call in one, 0: never */
    bool small_integers; /* sums are exact, whatever their order */
    int not_finite;      /* a call whose input holds a NaN on the last rank, 0: none */
    int off;             /* the last rank votes off from that call on, 0: never */
    int callbacks;       /* likewise for the MPI library's nonblocking calls */
    size_t limit;        /* MAX_MEMORY, 0 = none */
    const char *hosts;   /* hosts of the ranks (job_set_hosts), NULL: not known */
    struct ss_sim_fault fault;
};

struct beside_open {
    struct ss_call *call;
    int number;
};

struct beside_job {
    const struct beside_plan *plan;
    struct sim_job job;
    void *in[MOST_RANKS][MOST_CALLS], *out[MOST_RANKS][MOST_CALLS];
    int status[MOST_RANKS][MOST_CALLS];
    enum ss_reason reason[MOST_RANKS][MOST_CALLS];
    enum ss_algorithm ran[MOST_RANKS][MOST_CALLS];
    size_t claimed[MOST_RANKS][MOST_CALLS];
    struct beside_open open[MOST_RANKS][SS_MERGED];
    int opened[MOST_RANKS], next[MOST_RANKS], most[MOST_RANKS];
    uint64_t random[MOST_RANKS];
    int lateness[MOST_RANKS]; /* a rank starts a call in one of so many steps */
};

static inline uint64_t mixed(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static inline uint64_t draw(struct beside_job *b, int rank)
{
    return mixed(b->random[rank] += 0x9e3779b97f4a7c15ULL);
}

/* From that call on, counts are those of the next layer; 0: of none. */
static int beside_odd __attribute__((unused));

static inline size_t count_of(int number)
{
    return beside_layers[(number + (beside_odd > 0 && number >= beside_odd)) % LAYERS];
}

static inline double element_of(const struct beside_plan *p, int rank, int number, size_t i)
{
    uint64_t h = mixed(p->inputs + (uint64_t)rank * 7919 + (uint64_t)number * 1000003 + i * 104729);
    double x = (double)(h >> 11) / 9007199254740992.0, y = (double)(mixed(h) >> 40) / 16777216.0;

    if (p->not_finite > 0 && number == p->not_finite && rank == p->size - 1 && i == 3)
        return (double)NAN;
    if (x >= p->density)
        return 0;
    return p->small_integers ? (double)(int)(y * 200) - 100 : (y - 0.5) * (0.01 + y * y * y);
}

static inline void put_element(enum ss_type type, void *v, size_t i, double x)
{
    if (type == SS_F32)
        ((float *)v)[i] = (float)x;
    else if (type == SS_F64)
        ((double *)v)[i] = x;
    else
        ((int32_t *)v)[i] = (int32_t)x;
}

static inline double get_element(enum ss_type type, const void *v, size_t i)
{
    return type == SS_F32   ? (double)((const float *)v)[i]
           : type == SS_F64 ? ((const double *)v)[i]
                            : (double)((const int32_t *)v)[i];
}

static inline void beside_open_job(struct beside_job *b, const struct beside_plan *p,
                                   struct ss_settings settings)
{
    memset(b, 0, sizeof *b);
    b->plan = p;
    settings.in_flight = p->in_flight;
    settings.merge = p->merge;
    job_open(&b->job, p->size, 1e-5, 1e-9, p->seed, &settings);
    if (p->hosts)
        job_set_hosts(&b->job, p->hosts, 512);
    ss_sim_set_idle(b->job.sim, settings.timeout > 0 ? settings.timeout / 10 : 1e-3);
    if (p->fault.fail_send + p->fault.lose_send + p->fault.corrupt_send > 0)
        ss_sim_set_fault(b->job.sim, p->fault);
    for (int r = 0; r < p->size; r++) {
        b->job.mem[r].limit = p->limit;
        b->random[r] = p->seed * 31 + (uint64_t)r;
        b->lateness[r] = p->seed == 0 ? 1 : 1 + (int)(draw(b, r) % 6);
        for (int c = 0; c < p->calls; c++) {
            size_t n = count_of(c);
            b->in[r][c] = malloc(n * ss_type_size(p->type));
            b->out[r][c] = calloc(n, ss_type_size(p->type));
            for (size_t i = 0; i < n; i++)
                put_element(p->type, b->in[r][c], i, element_of(p, r, c, i));
        }
    }
}

static inline void beside_close_job(struct beside_job *b)
{
    for (int r = 0; r < b->plan->size; r++)
        for (int c = 0; c < b->plan->calls; c++) {
            free(b->in[r][c]);
            free(b->out[r][c]);
        }
    job_close(&b->job);
}

static inline void beside_end(struct beside_job *b, int rank, int which, int status)
{
    struct beside_open *o = &b->open[rank][which];

    b->status[rank][o->number] = status;
    ss_call_end(o->call, 1e-3);
    b->reason[rank][o->number] = ss_call_reason(o->call);
    b->ran[rank][o->number] = ss_call_algorithm(o->call);
    b->claimed[rank][o->number] = o->call->f.c.own.nnz;
    /* The input of the MPI library's call is left in `out`. */
    if (status == SS_NATIVE && !ss_call_joined(o->call))
        memcpy(b->out[rank][o->number], b->in[rank][o->number],
               count_of(o->number) * ss_type_size(b->plan->type));
    *o = b->open[rank][--b->opened[rank]];
}

static inline void beside_start(struct beside_job *b, int rank)
{
    const struct beside_plan *p = b->plan;
    struct ss_comm *comm = b->job.comm[rank];
    int number = b->next[rank], status;
    bool last = rank == p->size - 1;
    struct ss_call *call;

    if (b->opened[rank] == 0)
        ss_comm_begin_anew(comm);
    call = b->opened[rank] == 0 ? ss_comm_call(comm) : ss_comm_slot(comm);
    if (!call)
        return;
    b->next[rank]++;
    b->open[rank][b->opened[rank]++] = (struct beside_open){call, number};
    if (b->opened[rank] > b->most[rank])
        b->most[rank] = b->opened[rank];
    comm->caller.off = last && p->off > 0 && number >= p->off;
    comm->caller.callbacks = last && p->callbacks > 0 && number >= p->callbacks;
    comm->caller.nonblocking = true;
    status = ss_call_start(call, comm, &ss_host, p->type, SS_SUM, b->in[rank][number],
                           b->out[rank][number], count_of(number), 0);
    if (status != SS_PENDING)
        beside_end(b, rank, b->opened[rank] - 1, status);
}

static inline int beside_step(void *ctx, int rank)
{
    struct beside_job *b = ctx;
    int calls = b->plan->calls, first = b->opened[rank];

    if (b->next[rank] < calls && draw(b, rank) % (uint64_t)b->lateness[rank] == 0)
        beside_start(b, rank);
    if (first > 1 && b->plan->seed > 0)
        first = (int)(draw(b, rank) % (uint64_t)b->opened[rank]);
    for (int i = 0, n = b->opened[rank]; i < n && b->opened[rank] > 0; i++) {
        int which = (first + i) % b->opened[rank];
        if (b->plan->hurries > 0 && draw(b, rank) % (uint64_t)b->plan->hurries == 0)
            ss_call_wait_for_none(b->open[rank][which].call);
        int status = ss_call_step(b->open[rank][which].call);
        if (status != SS_PENDING)
            beside_end(b, rank, which, status);
    }
    return b->next[rank] == calls && b->opened[rank] == 0 ? SS_OK : SS_PENDING;
}

/* Runs all calls to their end. */
static inline void beside_run(struct beside_job *b)
{
    int status[MOST_RANKS];

    if (!ss_sim_run(b->job.sim, beside_step, b, status, 20000000))
        fail_msg("P = %d, seed %llu: calls do not end: rank 0 has %d open of %d", b->plan->size,
                 (unsigned long long)b->plan->seed, b->opened[0], b->next[0]);
}

/* Returns the reason that all ranks know: which of them has met its own limit is known there alone.
 */
static inline enum ss_reason beside_reason(const struct beside_job *b, int rank, int number)
{
    const enum ss_reason reason = b->reason[rank][number];

    return reason == SS_WHY_LIMIT ? SS_WHY_CANNOT : reason;
}

/* Checks that the ranks agree on each call, and have the same bits. */
static inline void beside_agrees(const struct beside_job *b)
{
    for (int c = 0; c < b->plan->calls; c++)
        for (int r = 0; r < b->plan->size; r++) {
            assert_int_equal(b->status[r][c], b->status[0][c]);
            assert_int_equal(beside_reason(b, r, c), beside_reason(b, 0, c));
            assert_int_equal(b->ran[r][c], b->ran[0][c]);
            if (b->status[r][c] == SS_OK)
                assert_memory_equal(b->out[r][c], b->out[0][c],
                                    count_of(c) * ss_type_size(b->plan->type));
        }
}

/* Checks that the result of a call on a rank is the sum of all inputs, which are small integers. */
static inline void beside_is_sum(const struct beside_job *b, int rank, int number)
{
    for (size_t i = 0; i < count_of(number); i++) {
        double sum = 0, is = get_element(b->plan->type, b->out[rank][number], i);
        for (int r = 0; r < b->plan->size; r++)
            sum += element_of(b->plan, r, number, i);
        if (is != sum)
            fail_msg("rank %d, call %d, element %zu: %g, not %g", rank, number, i, is, sum);
    }
}

static inline void beside_is_right(const struct beside_job *b)
{
    beside_agrees(b);
    for (int c = 0; c < b->plan->calls; c++) {
        assert_true(b->status[0][c] == SS_OK || b->status[0][c] == SS_NATIVE);
        if (b->status[0][c] == SS_OK)
            beside_is_sum(b, 0, c);
    }
}

/* Checks that results of successful calls have the same bits on all ranks, and that once a rank has
 * an error, all calls that it may not have begun (so many are under way) are errors on all ranks.
 */
static inline void beside_ends(const struct beside_job *b, int under_way)
{
    const bool damaged = b->plan->hosts && b->plan->fault.corrupt_send > 0;
    int first = b->plan->calls;

    for (int r = 0; r < b->plan->size; r++)
        for (int c = 0; c < b->plan->calls; c++) {
            if (b->status[r][c] < 0 && c < first)
                first = c;
            for (int o = 0; o < r && !damaged; o++)
                if (b->status[r][c] == SS_OK && b->status[o][c] == SS_OK)
                    assert_memory_equal(b->out[r][c], b->out[o][c],
                                        count_of(c) * ss_type_size(b->plan->type));
        }
    for (int r = 0; r < b->plan->size; r++)
        for (int c = first + 2 * under_way; c < b->plan->calls; c++)
            assert_true(b->status[r][c] < 0);
}

/* Runs a job for each fault: messages that a rank cannot send, that are lost, that are damaged. */
static inline void beside_faults(void (*try_fault)(int size, uint64_t seed,
                                                   struct ss_sim_fault fault),
                                 uint64_t first, uint64_t end, uint64_t step)
{
    for (int size = 2; size <= 5; size++)
        for (uint64_t at = first; at < end; at += step) {
            try_fault(size, at, (struct ss_sim_fault){.rank = size - 1, .fail_send = at});
            try_fault(size, at, (struct ss_sim_fault){.rank = 0, .lose_send = at});
            try_fault(size, at,
                      (struct ss_sim_fault){
                          .rank = size / 2, .corrupt_send = at, .corrupt_byte = at % 8});
        }
}

/* Checks that two runs of the same calls agree in the outcome and all bits of each call. */
static inline void beside_same(const struct beside_job *a, const struct beside_job *b)
{
    for (int c = 0; c < a->plan->calls; c++)
        for (int r = 0; r < a->plan->size; r++) {
            if (a->status[r][c] != b->status[r][c] || a->ran[r][c] != b->ran[r][c])
                fail_msg("P = %d, seeds %llu and %llu, rank %d, call %d: %s (%d, %s) and %s (%d, "
                         "%s)",
                         a->plan->size, (unsigned long long)a->plan->seed,
                         (unsigned long long)b->plan->seed, r, c, ss_algorithm_name(a->ran[r][c]),
                         a->status[r][c], ss_reason_name(a->reason[r][c]),
                         ss_algorithm_name(b->ran[r][c]), b->status[r][c],
                         ss_reason_name(b->reason[r][c]));
            assert_memory_equal(a->out[r][c], b->out[r][c],
                                count_of(c) * ss_type_size(a->plan->type));
        }
}

/* ---- settings, and two runs: one call after another, and beside each other ---- */

static struct beside_job one __attribute__((unused)), many __attribute__((unused));

static inline struct ss_settings beside_fixed(enum ss_algorithm algorithm)
{
    return (struct ss_settings){.algorithm = algorithm,
                                .alpha = 1e-5,
                                .beta = 1e-8,
                                .hash = 1,
                                .density = 0.02,
                                .quant_bucket = 64,
                                .repartition_period = 16,
                                .tensors = {.threshold_period = 8}};
}

/* All calls are lossy from the first. */
static inline struct ss_settings beside_lossy(struct ss_settings settings)
{
    static struct ss_rules *rules;
    char error[200];

    if (!rules)
        assert_int_equal(
            ss_rules_parse("count=1:,site=*:calls=1", true, &rules, error, sizeof error), SS_OK);
    settings.topk = true;
    settings.tensors.include = rules;
    return settings;
}

/* Runs the plan in `many` alone, which stays open. */
static inline void beside_run_many(const struct beside_plan *plan, struct ss_settings settings)
{
    beside_open_job(&many, plan, settings);
    beside_run(&many);
    for (int r = 0; r < plan->size; r++)
        assert_true(plan->limit == 0 || many.job.mem[r].peak <= plan->limit);
}

/* Runs the plan in `many`, and with that seed without MERGE one after the other in `one`: all bits
 * are the same. Both stay open. */
static inline void beside_run_both(const struct beside_plan *plan, uint64_t seed,
                                   struct ss_settings settings)
{
    static struct beside_plan serial;

    serial = *plan;
    serial.in_flight = 1;
    serial.seed = seed;
    serial.merge = 0;
    beside_open_job(&one, &serial, settings);
    beside_run(&one);
    beside_run_many(plan, settings);
    beside_agrees(&one);
    beside_agrees(&many);
    beside_same(&one, &many);
}

static inline void beside_close_both(void)
{
    beside_close_job(&one);
    beside_close_job(&many);
}

#endif
