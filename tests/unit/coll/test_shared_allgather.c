/* Sums through shared memory are exact, the same bits as those through messages, and a rank that
 * fails or stops there is heard on all ranks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/oracle.h"
#include "tests/unit/support/sim_job.h"

enum { MOST = 9, PAGE = 4096 };

/* Memory that the ranks of a job share. */
struct memory {
    struct ss_shared rank[MOST];
    void *base;
};

/* Gives the ranks memory whose halves have `half` bytes; 0: the usual size. */
static void share(struct sim_job *job, struct memory *m, size_t half)
{
    const size_t bytes = ss_shared_bytes(job->size);

    assert_int_equal(posix_memalign(&m->base, PAGE, bytes), 0);
    memset(m->base, 0, bytes);
    for (int r = 0; r < job->size; r++) {
        ss_shared_open(&m->rank[r], m->base, job->size);
        if (half > 0)
            m->rank[r].area = PAGE + 2 * half;
        ss_comm_set_shared(job->comm[r], &m->rank[r]);
    }
    ss_sim_set_idle(job->sim, 1e-6); /* no message wakes a rank that waits for memory */
}

static struct ss_settings settings = {.algorithm = SS_ALLGATHER, .alpha = 1e-6, .beta = 1e-9};

/* Makes `calls` calls and compares the results with the oracle's. Writes the last one to
 * `result`. Returns the rounds in shared memory. */
static uint64_t run(const struct input *in, bool in_place, int calls, size_t half, bool shared,
                    uint64_t seed, void *result)
{
    static struct sim_job job;
    struct memory memory = {.base = NULL};
    struct array sent[MOST], out[MOST];
    const size_t esize = ss_type_size(in->type), bytes = in->n * esize;

    job_open(&job, in->size, 1e-6, 1e-9, seed, &settings);
    if (shared)
        share(&job, &memory, half);
    for (int r = 0; r < in->size; r++) {
        sent[r] = array_make(in->n, esize);
        out[r] = array_make(in->n, esize);
        input_fill(in, r, sent[r].data);
        job.in[r] = in_place ? NULL : sent[r].data;
        job.out[r] = out[r].data;
    }
    for (int call = 0; call < calls; call++) {
        for (int r = 0; in_place && r < in->size; r++)
            memcpy(out[r].data, sent[r].data, bytes);
        assert_true(job_call(&job, in->type, in->op, in->n));
        for (int r = 0; r < in->size; r++) {
            assert_int_equal(job.status[r], SS_OK);
            assert_true(array_guards_hold(&out[r]));
            assert_memory_equal(out[r].data, out[0].data, bytes);
        }
        if (oracle_first_wrong(in, sent, out[0].data) != in->n)
            input_print(in);
        assert_int_equal(oracle_first_wrong(in, sent, out[0].data), in->n);
    }
    memcpy(result, out[0].data, bytes);
    for (int r = 0; r < in->size; r++) {
        assert_int_equal(memory.rank[r].rounds, memory.rank[0].rounds);
        free(sent[r].base);
        free(out[r].base);
    }
    free(memory.base);
    job_close(&job);
    return memory.rank[0].rounds;
}

static void sums_are_those_of_messages(void **state)
{
    static const double densities[] = {0, -1, 0.001, 0.01, 0.1, 0.4, 1};
    static const size_t counts[] = {1, 130, 4099, 70001};
    static unsigned char by_memory[70001 * 8], by_messages[70001 * 8];
    uint64_t number = 0;

    (void)state;
    for (int type = 0; type < SS_TYPES; type++)
        for (int op = 0; op < SS_OPS; op++)
            for (int size = 2; size <= MOST; size++)
                for (size_t d = 0; d < sizeof densities / sizeof *densities; d++) {
                    const uint64_t h = mix(++number);
                    const size_t n = counts[size == 3 && d > 2 ? 3 : h % 3];
                    const struct input in = {.size = size,
                                             .type = (enum ss_type)type,
                                             .op = (enum ss_op)op,
                                             .n = n,
                                             .density = densities[d],
                                             .place = (enum place)(h / 16 % PLACES),
                                             .values = ORDINARY,
                                             .seed = h >> 20};
                    const uint64_t seed = h & 128 ? h | 1 : 0;

                    if (ss_type_is_float(in.type) && in.op != SS_SUM)
                        continue;
                    const uint64_t rounds =
                        run(&in, h >> 40 & 1, 2, h & 64 ? 0 : 1024, true, seed, by_memory);
                    assert_true(rounds >= 2);
                    run(&in, h >> 40 & 1, 1, 0, false, seed, by_messages);
                    assert_memory_equal(by_memory, by_messages, n * ss_type_size(in.type));
                }
}

/* A sum that overflows: each rank finds the exception that it must raise. */
static void an_overflow_is_raised_on_all_ranks(void **state)
{
    enum { RANKS = 3, ELEMENTS = 300, AT = 7 };
    static struct sim_job job;
    static float in[RANKS][ELEMENTS], out[RANKS][ELEMENTS];
    struct memory memory;

    (void)state;
    job_open(&job, RANKS, 1e-6, 1e-9, 0, &settings);
    share(&job, &memory, 0);
    in[0][AT] = in[2][AT] = 3e38f;
    for (int r = 0; r < RANKS; r++) {
        job.in[r] = in[r];
        job.out[r] = out[r];
    }
    assert_true(job_call(&job, SS_F32, SS_SUM, ELEMENTS));
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(job.status[r], SS_OK);
        assert_true(isinf(out[r][AT]));
        assert_true(ss_call_exceptions(ss_comm_call(job.comm[r])) & SS_OVERFLOW);
    }
    job_close(&job);
    free(memory.base);
}

enum { P = 4, N = 20000, HALF = 4096, STOPPED = 2 };

/* A job whose call takes several rounds. */
static struct {
    struct sim_job job;
    struct memory memory;
    float in[P][N], out[P][N];
    int ended, steps;
} long_job;

static void open_long_job(double timeout)
{
    struct ss_settings s = settings;

    s.timeout = timeout;
    job_open(&long_job.job, P, 1e-6, 1e-9, 0, &s);
    share(&long_job.job, &long_job.memory, HALF);
    long_job.ended = long_job.steps = 0;
    for (int r = 0; r < P; r++) {
        for (int i = r; i < N; i += P)
            long_job.in[r][i] = 1;
        long_job.job.in[r] = long_job.in[r];
        long_job.job.out[r] = long_job.out[r];
    }
}

static void close_long_job(void)
{
    job_close(&long_job.job);
    free(long_job.memory.base);
}

/* Steps all ranks, but rank STOPPED only until it has voted. */
static int step_but_one(void *ctx, int rank)
{
    const struct ss_call *call = ss_comm_call(long_job.job.comm[rank]);
    const bool voted = long_job.job.started[rank] && call->driver == &ss_algorithm_driver;

    if (rank == STOPPED && voted)
        return long_job.ended < P - 1 ? SS_PENDING : SS_OK;
    int status = job_step(ctx, rank);
    long_job.ended += status != SS_PENDING;
    return status;
}

/* Steps all ranks; rank STOPPED fails after its second step in the algorithm. */
static int step_failing(void *ctx, int rank)
{
    struct ss_call *call = ss_comm_call(long_job.job.comm[rank]);

    if (rank == STOPPED && long_job.job.started[rank] && call->driver == &ss_algorithm_driver &&
        ++long_job.steps == 2)
        ss_fail(&call->f.c.x, SS_ERR_DEVICE, rank, SS_PHASE_GATHER);
    return job_step(ctx, rank);
}

static void run_long_job(int (*step)(void *ctx, int rank))
{
    long_job.job.type = SS_F32;
    long_job.job.op = SS_SUM;
    long_job.job.n = N;
    assert_true(ss_sim_run(long_job.job.sim, step, &long_job.job, long_job.job.status, 10000000));
}

static void malformed_entries_fail_on_all_ranks(void **state)
{
    (void)state;
    for (int fault = 0; fault < 5; fault++) {
        open_long_job(0);
        /* what rank STOPPED seems to have written */
        struct ss_shared_head *head = ss_shared_head(&long_job.memory.rank[0], STOPPED);
        struct ss_shared_half half = {.end = N / 2, .call = 1, .nnz = 1};
        uint32_t *idx = ss_shared_idx(&long_job.memory.rank[0], STOPPED, 1);

        *idx = fault == 0 ? N / 2 : 0;
        half.end = fault == 1 ? N + 1 : fault == 2 ? 0 : half.end;
        half.nnz = fault == 3 ? ss_shared_capacity(&long_job.memory.rank[0], 4) + 1 : half.nnz;
        half.call = fault == 4 ? 7 : half.call;
        head->half[1] = half;
        atomic_store(&head->written, 1);
        run_long_job(step_but_one);
        for (int r = 0; r < P; r++)
            if (r != STOPPED)
                assert_int_equal(long_job.job.status[r], SS_ERR_MESSAGE);
        close_long_job();
    }
}

static void a_failure_is_heard_on_all_ranks(void **state)
{
    (void)state;
    open_long_job(0);
    run_long_job(step_failing);
    for (int r = 0; r < P; r++)
        assert_int_equal(long_job.job.status[r], r == STOPPED ? SS_ERR_DEVICE : SS_ERR_PEER);
    close_long_job();
}

static void a_rank_that_stops_is_named(void **state)
{
    char text[400];

    (void)state;
    open_long_job(1);
    ss_sim_set_idle(long_job.job.sim, 0.1);
    run_long_job(step_but_one);
    for (int r = 0; r < P; r++) {
        if (r == STOPPED)
            continue;
        assert_int_equal(long_job.job.status[r], SS_ERR_TIMEOUT);
        ss_call_explain(ss_comm_call(long_job.job.comm[r]), text, sizeof text);
        assert_non_null(strstr(text, "rank 2"));
        ss_call_end(ss_comm_call(long_job.job.comm[r]), 0);
    }
    close_long_job();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_those_of_messages),
                                       cmocka_unit_test(an_overflow_is_raised_on_all_ranks),
                                       cmocka_unit_test(malformed_entries_fail_on_all_ranks),
                                       cmocka_unit_test(a_failure_is_heard_on_all_ranks),
                                       cmocka_unit_test(a_rank_that_stops_is_named)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
