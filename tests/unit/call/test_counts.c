/* An allreduce of more than 2^30 elements reaches core in windows. The report counts it as one
 * call, and it is exact in every mode. */
#include "tests/unit/support/training.h"

enum { RANKS = 3, N = 4000, WINDOWS = 3 };

static float in[RANKS][N], out[RANKS][N];

static void open_job(struct sim_job *job, enum ss_algorithm algorithm)
{
    struct ss_settings settings = {.algorithm = algorithm, .alpha = 1e-5, .beta = 1e-9};

    job_open(job, RANKS, 1e-5, 1e-9, 0, &settings);
    for (int r = 0; r < RANKS; r++) {
        in[r][7 * r] = 1;
        job->in[r] = in[r];
        job->out[r] = out[r];
    }
}

static uint64_t calls_of(struct ss_stats *stats)
{
    uint64_t calls = atomic_load(&stats->sparse) + atomic_load(&stats->errors);

    for (int i = 0; i < SS_REASONS; i++)
        calls += atomic_load(&stats->passed[i]);
    return calls;
}

static void a_call_in_windows_counts_once(void **state)
{
    static const enum ss_algorithm algorithms[] = {SS_RING, SS_DENSE};
    static struct sim_job job;

    (void)state;
    for (size_t a = 0; a < 2; a++) {
        open_job(&job, algorithms[a]);
        for (int call = 1; call < 4; call++) {
            for (job.window = 0; job.window < WINDOWS; job.window++)
                assert_true(job_call(&job, SS_F32, SS_SUM, N));
            for (int r = 0; r < RANKS; r++)
                assert_int_equal(calls_of(&job.stats[r]), call);
        }
        assert_int_equal(atomic_load(&job.stats[0].sparse), algorithms[a] == SS_RING ? 3 : 0);
        job_close(&job);
    }
}

static void bytes_of_all_windows_count(void **state)
{
    static struct sim_job job;

    (void)state;
    open_job(&job, SS_RING);
    for (job.window = 0; job.window < WINDOWS; job.window++)
        assert_true(job_call(&job, SS_F32, SS_SUM, N));
    for (int r = 0; r < RANKS; r++) {
        uint64_t sent = 0;
        for (const struct ss_lane_record *l = job.stats[r].lanes; l; l = l->next)
            sent += l->bytes_sent;
        assert_int_equal(sent, ss_sim_bytes_sent(job.sim, r));
    }
    job_close(&job);
}

static void a_window_behind_the_first_is_exact_in_lossy_modes(void **state)
{
    struct training t;

    (void)state;
    for (int quant = 0; quant < 2; quant++) {
        struct ss_settings settings = training_settings(SS_SPLIT_ALLGATHER);
        settings.density = quant ? 1 : 0.01;
        settings.value_type = quant ? SS_VALUES_Q4 : SS_VALUES_SAME;
        training_open(&t, RANKS, SS_F32, N, 0, settings);
        for (int r = 0; r < RANKS; r++)
            for (size_t i = 0; i < N; i++)
                put(t.type, t.gradient[r], i, i < 40 ? (double)i + r : 0);
        t.job.window = 1;
        training_call(&t, false);
        assert_int_equal(t.job.status[0], SS_OK);
        for (int i = 0; i < 40; i++)
            assert_true(get(t.type, t.job.out[0], (size_t)i) == RANKS * i + 3);
        assert_null(ss_tensors_first(t.job.comm[0]->tensors));
        training_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_in_windows_counts_once),
        cmocka_unit_test(bytes_of_all_windows_count),
        cmocka_unit_test(a_window_behind_the_first_is_exact_in_lossy_modes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
