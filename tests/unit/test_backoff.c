/* Lanes that stay dense back off, alike on all ranks, and come back (design section 5 and invariant
 * 8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/oracle.h"
#include "tests/unit/sim_job.h"

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
        cmocka_unit_test(a_lane_that_becomes_sparse_again_goes_sparse),
        cmocka_unit_test(lanes_back_off_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
