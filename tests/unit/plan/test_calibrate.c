/* Calibration finds the network's costs, the same on all ranks, once per communicator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/oracle.h"
#include "tests/unit/support/sim_job.h"

enum { N = 5000, MOST = 16 };

static const struct {
    double alpha, beta;
} networks[] = {{1e-6, 1e-10}, {2e-6, 1e-9}, {30e-6, 8e-9},
                {50e-6, 8e-8}, {1e-3, 8e-8}, {20e-6, 1e-9}};

#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

static float inputs[MOST][N], outputs[MOST][N];

static void job_start(struct sim_job *job, int size, double alpha, double beta)
{
    struct ss_settings settings = {.algorithm = SS_AUTO, .alpha = -1, .beta = -1};

    job_open(job, size, alpha, beta, 0, &settings);
    for (int r = 0; r < size; r++) {
        memset(inputs[r], 0, sizeof inputs[r]);
        inputs[r][100 * r] = 1;
        job->in[r] = inputs[r];
        job->out[r] = outputs[r];
    }
}

static void calibration_finds_alpha_and_beta(void **state)
{
    static const int sizes[] = {2, 3, 4, 7, 16};
    static struct sim_job job;

    (void)state;
    for (size_t w = 0; w < LENGTH(networks); w++)
        for (size_t p = 0; p < LENGTH(sizes); p++) {
            double alpha = networks[w].alpha, beta = networks[w].beta;
            job_start(&job, sizes[p], alpha, beta);
            assert_true(job_call(&job, SS_F32, SS_SUM, N));
            struct ss_costs first = ss_comm_costs(job.comm[0]);
            if (!(first.beta > 0.9 * beta && first.beta < 1.1 * beta) ||
                !(first.alpha > alpha / 2 && first.alpha < alpha * 2))
                print_message("# P=%d alpha %g measured %g, beta %g measured %g\n", sizes[p], alpha,
                              first.alpha, beta, first.beta);
            assert_true(first.known);
            assert_true(first.alpha > alpha / 2 && first.alpha < alpha * 2);
            assert_true(first.beta > 0.9 * beta && first.beta < 1.1 * beta);
            for (int r = 0; r < sizes[p]; r++) {
                struct ss_costs costs = ss_comm_costs(job.comm[r]);
                assert_int_equal(job.status[r], job.status[0]);
                assert_true(job.status[r] >= 0);
                assert_memory_equal(&costs.alpha, &first.alpha, sizeof first.alpha);
                assert_memory_equal(&costs.beta, &first.beta, sizeof first.beta);
            }
            job_close(&job);
        }
}

static void calibration_happens_once(void **state)
{
    static struct sim_job job;

    (void)state;
    job_start(&job, 5, 1e-6, 1e-9);
    assert_true(job_call(&job, SS_F32, SS_SUM, N));
    uint64_t first = ss_sim_bytes_sent(job.sim, 2);
    assert_true(job_call(&job, SS_F32, SS_SUM, N));
    assert_true(ss_sim_bytes_sent(job.sim, 2) - first < 10000);
    assert_true(first > 100000);
    job_close(&job);
}

/* What measures the network is no call's. */
static void bytes_of_the_calibration_are_booked_apart(void **state)
{
    static struct sim_job job;

    (void)state;
    job_start(&job, 5, 1e-6, 1e-9);
    for (int call = 0; call < 2; call++) {
        assert_true(job_call(&job, SS_F32, SS_SUM, N));
        for (int r = 0; r < 5; r++) {
            uint64_t apart = job.stats[r].calibration_bytes, sent = job.stats[r].lanes->bytes_sent;
            assert_true(apart > 100000);
            assert_int_equal(job.status[r], SS_OK);
            assert_int_equal(apart + sent, ss_sim_bytes_sent(job.sim, r));
        }
    }
    job_close(&job);
}

static void known_costs_are_taken_over_where_all_ranks_have_them(void **state)
{
    static struct sim_job job;
    struct ss_costs costs = {.known = true, .alpha = 5e-6, .beta = 3e-9};

    (void)state;
    for (int all = 0; all < 2; all++) {
        job_start(&job, 4, 1e-6, 1e-9);
        for (int r = 1 - all; r < 4; r++)
            ss_comm_set_costs(job.comm[r], costs);
        assert_true(job_call(&job, SS_F32, SS_SUM, N));
        for (int r = 0; r < 4; r++) {
            struct ss_costs seen = ss_comm_costs(job.comm[r]);
            assert_true(seen.known);
            assert_true(all ? seen.beta == costs.beta
                            : seen.beta == ss_comm_costs(job.comm[0]).beta && seen.beta < 2e-9);
        }
        job_close(&job);
    }
}

static void costs_given_by_options_are_not_measured(void **state)
{
    static struct sim_job job;
    struct ss_settings settings = {.algorithm = SS_AUTO, .alpha = 1e-6, .beta = 1e-9};

    (void)state;
    job_open(&job, 3, 1e-3, 1e-7, 0, &settings);
    for (int r = 0; r < 3; r++) {
        job.in[r] = inputs[r];
        job.out[r] = outputs[r];
    }
    assert_true(job_call(&job, SS_F32, SS_SUM, N));
    assert_true(ss_sim_bytes_sent(job.sim, 0) < 10000);
    assert_true(ss_comm_costs(job.comm[1]).beta == 1e-9);
    job_close(&job);
}

/* Calibration holds under any order of delivery, and where long sends wait for their receives. */
static void calibration_ends_under_adversarial_delivery(void **state)
{
    static struct sim_job job;

    (void)state;
    for (int size = 2; size <= 9; size++)
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct ss_settings settings = {.algorithm = SS_AUTO, .alpha = -1, .beta = -1};
            job_open(&job, size, 1e-6, 1e-9, seed, &settings);
            ss_sim_set_eager(job.sim, seed % 2 ? 0 : 4096);
            for (int r = 0; r < size; r++) {
                job.in[r] = inputs[r];
                job.out[r] = outputs[r];
            }
            assert_true(job_call(&job, SS_F32, SS_SUM, N));
            for (int r = 0; r < size; r++)
                assert_true(job.status[r] >= 0 && ss_comm_costs(job.comm[r]).known);
            job_close(&job);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calibration_finds_alpha_and_beta),
        cmocka_unit_test(calibration_happens_once),
        cmocka_unit_test(bytes_of_the_calibration_are_booked_apart),
        cmocka_unit_test(known_costs_are_taken_over_where_all_ranks_have_them),
        cmocka_unit_test(costs_given_by_options_are_not_measured),
        cmocka_unit_test(calibration_ends_under_adversarial_delivery),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
