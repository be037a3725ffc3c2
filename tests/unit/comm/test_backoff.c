/* Lanes that stay dense skip votes, alike on all ranks, and vote again later (core/README.md,
 * invariant 8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/oracle.h"
#include "tests/unit/support/sim_job.h"

enum { SIZE = 4, N = 5000 };

struct lane {
    struct sim_job job;
    float in[SIZE][N], out[SIZE][N];
};

static void lane_open(struct lane *l)
{
    struct ss_settings settings = {.algorithm = SS_AUTO, .alpha = 1e-6, .beta = 1e-8};

    memset(l, 0, sizeof *l);
    job_open(&l->job, SIZE, 1e-6, 1e-8, 0, &settings);
}

/* One call at a density; the reason it went native, SS_REASONS for a sparse call. Bytes sent by
 * rank 0 go to *sent. */
static enum ss_reason call(struct lane *l, double density, size_t n, uint64_t *sent)
{
    struct input in = {.size = SIZE,
                       .type = SS_F32,
                       .op = SS_SUM,
                       .n = n,
                       .density = density,
                       .place = UNIFORM,
                       .values = ORDINARY,
                       .seed = 9};
    uint64_t before = ss_sim_bytes_sent(l->job.sim, 0);

    for (int r = 0; r < SIZE; r++) {
        input_fill(&in, r, l->in[r]);
        l->job.in[r] = l->in[r];
        l->job.out[r] = l->out[r];
    }
    assert_true(job_call(&l->job, SS_F32, SS_SUM, n));
    *sent = ss_sim_bytes_sent(l->job.sim, 0) - before;
    for (int r = 0; r < SIZE; r++) {
        assert_int_equal(l->job.status[r], l->job.status[0]);
        assert_int_equal(ss_call_reason(ss_comm_call(l->job.comm[r])),
                         ss_call_reason(ss_comm_call(l->job.comm[0])));
    }
    return l->job.status[0] == SS_OK ? SS_REASONS : ss_call_reason(ss_comm_call(l->job.comm[0]));
}

static void a_dense_lane_votes_ever_more_rarely(void **state)
{
    static const unsigned skips[] = {1, 3, 7, 15, 31, 63, 63, 63};
    static struct lane l;
    uint64_t sent;

    (void)state;
    lane_open(&l);
    for (size_t i = 0; i < sizeof skips / sizeof skips[0]; i++) {
        assert_int_equal(call(&l, 1, N, &sent), SS_WHY_DENSE);
        assert_true(sent > 0);
        for (unsigned s = 0; s < skips[i]; s++) {
            assert_int_equal(call(&l, 1, N, &sent), SS_WHY_BACKED_OFF);
            assert_int_equal(sent, 0);
        }
    }
    job_close(&l.job);
}

/* How much of the input a scan has seen. */
static uint64_t looked_at;

static ss_ticket counting_scan(struct ss_backend *p, enum ss_type type, enum ss_op op,
                               const void *src, size_t n, uint32_t base, uint32_t *idx, void *val,
                               size_t capacity, struct ss_scan *out)
{
    looked_at += n;
    return ss_host.ops->scan(p, type, op, src, n, base, idx, val, capacity, out);
}

/* Of a dense lane a sample is looked at; a call that is sparse after all is found out, at once,
 * and exact. */
static void a_dense_lane_is_not_read_as_a_whole(void **state)
{
    enum { LONG = 1 << 18 };
    static float in[2][LONG], out[2][LONG];
    static const double densities[] = {0.9, 0.9, 0.02, 0.9, 0.9, 0.78, 0.9, 0.125, 0.9, 0.9, 0.9};
    static const bool whole[] = {true,  false, true, true, false, true,
                                 false, true,  true, true, false};
    enum { COLUMNS = 7, ROW = 512, FULL = 64 }; /* one of 64 columns of a matrix */
    enum { HOLDS = 9 };                         /* one that a residual may join */
    struct ss_settings settings = {.algorithm = SS_AUTO, .alpha = 1e-6, .beta = 1e-8, .hash = 1};
    static struct sim_job job;

    (void)state;
    memset(&job, 0, sizeof job);
    job_open(&job, 2, 1e-6, 1e-8, 0, &settings);
    for (size_t i = 0; i < sizeof densities / sizeof densities[0]; i++) {
        struct ss_backend_ops counting = *ss_host.ops;
        struct ss_backend backend = {&counting};
        for (int r = 0; r < 2; r++) {
            struct input input = {.size = 2,
                                  .type = SS_F32,
                                  .op = SS_SUM,
                                  .n = LONG,
                                  .density = densities[i],
                                  .place = UNIFORM,
                                  .seed = i + 1};
            input_fill(&input, r, in[r]);
            for (size_t e = 0; i == COLUMNS && e < LONG; e++)
                in[r][e] = e % ROW < FULL ? 1 : 0;
            job.in[r] = in[r];
            job.out[r] = out[r];
            job.comm[r]->lanes.list[0].history.skip = 0;
            job.comm[r]->lanes.list[0].has_residual = i == HOLDS;
        }
        counting.scan = counting_scan;
        job.backend[0] = &backend;
        looked_at = 0;
        assert_true(job_call(&job, SS_F32, SS_SUM, LONG));
        assert_int_equal(looked_at >= LONG, whole[i]);
        assert_int_equal(job.status[0], densities[i] < 0.5 ? SS_OK : SS_NATIVE);
        double density = ss_call_density(ss_comm_call(job.comm[0]));
        assert_true(fabs(density - densities[i]) < 0.02);
        for (size_t e = 0; job.status[0] == SS_OK && e < LONG; e++)
            assert_true(out[0][e] == in[0][e] + in[1][e]);
    }
    job_close(&job);
}

static void a_lane_that_becomes_sparse_again_goes_sparse(void **state)
{
    static struct lane l;
    uint64_t sent;

    (void)state;
    lane_open(&l);
    assert_int_equal(call(&l, 1, N, &sent), SS_WHY_DENSE);
    assert_int_equal(call(&l, 1, N, &sent), SS_WHY_BACKED_OFF);
    assert_int_equal(call(&l, 1, N, &sent), SS_WHY_DENSE);
    for (int s = 0; s < 3; s++)
        assert_int_equal(call(&l, 0.01, N, &sent), SS_WHY_BACKED_OFF);
    for (int i = 0; i < 5; i++)
        assert_int_equal(call(&l, 0.01, N, &sent), SS_REASONS);
    /* and the count begins anew */
    assert_int_equal(call(&l, 1, N, &sent), SS_WHY_DENSE);
    assert_int_equal(call(&l, 0.01, N, &sent), SS_WHY_BACKED_OFF);
    assert_int_equal(call(&l, 0.01, N, &sent), SS_REASONS);
    job_close(&l.job);
}

static void lanes_back_off_apart(void **state)
{
    static struct lane l;
    uint64_t sent;

    (void)state;
    lane_open(&l);
    for (int i = 0; i < 40; i++) {
        call(&l, 1, N, &sent);
        assert_int_equal(call(&l, 0.01, N - 1, &sent), SS_REASONS);
    }
    job_close(&l.job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_lane_votes_ever_more_rarely),
        cmocka_unit_test(a_dense_lane_is_not_read_as_a_whole),
        cmocka_unit_test(a_lane_that_becomes_sparse_again_goes_sparse),
        cmocka_unit_test(lanes_back_off_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
