/* The report in mode observe: what it advises and when it does not. */
#include "tests/unit/support/report_sample.h"

#include <math.h>

static void observe_says_what_to_try_and_what_not(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_observed(&stats);
    job.observe = true;
    text = as_text(&stats, &job);
    assert_contains(&text, "  sums     1 of 2 call signatures is dense (half of the elements or "
                           "more are not zero); of the largest, 4,194,304 float sum, ");
    assert_contains(&text, "  exact    the same results: 12.0 s instead of 120 s in these calls, "
                           "and ");
    assert_contains(&text, "  quant    lossy, for gradients: no call signature would gain 10 % or "
                           "more\n");
    assert_contains(&text, "  next     run this job with MODE=exact in place of observe (the same "
                           "results)\n");
    assert_contains(&text, "mode observe changes nothing");
    free(text.text);
    ss_stats_free(&stats);
}

static void advice_asks_for_ten_per_cent_of_the_least_time_of_dense_calls(void **state)
{
    struct ss_lane_record lane = {.calls = 25, .scans = 20, .planned = 10};
    struct ss_report_advice advice = ss_report_advise(&lane);

    (void)state;
    assert_int_equal(advice.best, SS_AUTO);
    assert_false(advice.gain);

    lane.passed[SS_WHY_OBSERVE] = 10;
    lane.times.native = 10;
    lane.predicted_seconds[SS_RING] = 9.1;
    lane.predicted_seconds[SS_ALLGATHER] = 9.5;
    advice = ss_report_advise(&lane);
    assert_int_equal(advice.best, SS_RING);
    assert_false(advice.gain);

    lane.predicted_seconds[SS_RING] = 8.9;
    advice = ss_report_advise(&lane);
    assert_true(advice.gain);
    assert_false(advice.unclear);

    lane.predicted_seconds[SS_DENSE] = 8;
    advice = ss_report_advise(&lane);
    assert_false(advice.gain);
    assert_true(advice.unclear);

    lane.predicted_seconds[SS_RING] = INFINITY; /* it could not have run in one of the calls */
    advice = ss_report_advise(&lane);
    assert_int_equal(advice.best, SS_ALLGATHER);
    assert_false(advice.gain);
}

static void what_ranks_wait_for_each_other_is_not_called_a_gain(void **state)
{
    (void)state;
    for (int slower = 0; slower < 2; slower++) {
        struct ss_lane_record lane = {.calls = 25, .scans = 20, .planned = 10};
        lane.passed[SS_WHY_OBSERVE] = 10;
        lane.times.native = 10;
        lane.predicted_seconds[SS_RING] = 4.4;
        lane.predicted_seconds[SS_DENSE] = slower ? 19 : 5.5;
        assert_false(ss_report_advise(&lane).misfit);
        assert_true(ss_report_advise(&lane).gain);
        lane.predicted_seconds[SS_DENSE] = slower ? 21 : 4.5;
        assert_true(ss_report_advise(&lane).misfit);
        assert_int_equal(ss_report_advise(&lane).gain, slower);
        lane.predicted_seconds[SS_RING] = 4;
        assert_true(ss_report_advise(&lane).gain);
    }
}

/* Calls that were scanned but never planned, and no calls at all, are no proof of no gain. */
static void nothing_seen_is_not_called_nothing_to_gain(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_lane_record *lane;
    struct ss_stats stats;

    (void)state;
    job.observe = true;
    ss_stats_init(&stats, 0);
    for (int lanes = 0; lanes < 3; lanes++) {
        struct page text = as_text(&stats, &job);

        assert_contains(
            &text, lanes < 2 ? "  next     no advice: no call was looked at; "
                             : "  next     leave sparseshim off for this job on this network: ");
        free(text.text);
        lane = ss_stats_lane(&stats, SS_KIND_ALLREDUCE, "", 2, 1 << 20, SS_F32, SS_SUM);
        lane->calls = lane->scans = lane->passed[SS_WHY_OBSERVE] = 10;
        lane->planned = lanes > 0 ? 5 : 0;
    }
    ss_stats_free(&stats);
}

/* A lane of gradients and one that nothing was sampled of. */
static void observe_says_what_lossy_modes_would_send_and_what_to_do_next(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_lane_record *lane;
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_observed(&stats);
    job.observe = true;
    for (lane = stats.lanes; lane->count != 1 << 22; lane = lane->next)
        ;
    lane->topk_samples = 4;
    lane->topk_density_sum = 4 * 0.01;
    lane->topk_kept_sum = 4 * 0.25;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_ALGORITHMS; a++) {
        lane->topk_seconds[a] = 4 * 0.002 * a;
        lane->topk_bytes[a] = 4 * 126000.0 * a;
    }
    lane->topk_seconds[SS_RECURSIVE_DOUBLING] = INFINITY; /* no memory for it */
    text = as_text(&stats, &job);
    assert_contains(&text, "  top-k    lossy, for gradients: 4.01 s instead of 120 s in these "
                           "calls, and ");
    assert_contains(&text, "run this job with MODE=exact in place of observe (the same results)\n");
    free(text.text);
    /* Where nothing is zero, exact mode gains nothing. */
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_DENSE; a++)
        lane->predicted_seconds[a] = (double)lane->planned * 0.12;
    lane->density_sum = (double)lane->scans;
    lane->quant_seconds = 4 * 0.02;
    lane->quant_bytes = 4 * 3200000.0;
    text = as_text(&stats, &job);
    assert_contains(&text, "  sums     2 of 2 call signatures are dense ");
    assert_contains(&text, "  exact    the same results: no call signature would gain");
    assert_contains(&text, "  quant    lossy, for gradients: 20.0 s instead of 120 s in these "
                           "calls, and ");
    assert_contains(&text, "  next     if these sums are gradients: run this job's command behind "
                           "`sparseshim learn --`, without MODE; then set SPARSESHIM_CONFIG to the "
                           "file that it writes\n");
    free(text.text);
    lane->predicted_seconds[SS_DENSE] = (double)lane->planned * 0.03; /* it took 0.12 */
    text = as_text(&stats, &job);
    assert_contains(&text, "  delay    120 s were spent in calls for which the network needs ");
    free(text.text);
    job.observe = false;
    text = as_text(&stats, &job);
    assert_lacks(&text, "  next  ");
    free(text.text);
    ss_stats_free(&stats);
}

/* Waits for nonblocking calls of the MPI library's are not seen. */
static void the_share_of_the_job_is_told_only_where_all_of_it_was_timed(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_sample(&stats);
    assert_true(ss_report_share(&stats) == 0.25);
    atomic_store(&stats.not_timed, 7);
    assert_true(isnan(ss_report_share(&stats)));
    text = as_text(&stats, &job);
    assert_contains(&text, "time     15.0 s in the calls themselves; f is not known, since 7 "
                           "nonblocking calls end in waits that are not timed\n");
    assert_lacks(&text, "f = ");
    free(text.text);
    ss_stats_free(&stats);
}

static const char no_clear_gain[] = "  next     no clear gain: ";

/* Adds a signature of n floats whose calls a job in MODE=observe has passed on. */
static struct ss_lane_record *observed_lane(struct ss_stats *stats, uint64_t n)
{
    struct ss_lane_record *lane = ss_stats_lane(stats, SS_KIND_ALLREDUCE, "", 8, n, SS_F32, SS_SUM);

    lane->calls = lane->scans = lane->planned = lane->passed[SS_WHY_OBSERVE] = 10;
    return lane;
}

/* Dense calls take from 6 to 10 s by runs of one job; the advice never turns round. */
static void gains_within_the_noise_of_dense_calls_are_called_unclear(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_lane_record *lane;
    struct ss_stats stats;

    (void)state;
    ss_stats_init(&stats, 0);
    stats.end = 1;
    job.observe = true;
    lane = observed_lane(&stats, 1 << 20);
    lane->predicted_seconds[SS_RING] = 7;
    for (int turn = 0; turn < 2; turn++) {
        lane->times.native = turn ? 6 : 10;
        lane->predicted_seconds[SS_DENSE] = turn ? 10 : 6;
        struct page text = as_text(&stats, &job);
        assert_contains(&text, "  exact    the same results: no call signature would gain");
        assert_contains(&text, no_clear_gain);
        free(text.text);
    }
    ss_stats_free(&stats);
}

/* One signature gains half of its time, which is a twentieth of the time of all. */
static void a_gain_in_few_of_the_calls_is_called_unclear(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    ss_stats_init(&stats, 0);
    stats.end = 1;
    job.observe = true;
    for (int large = 0; large < 2; large++) {
        struct ss_lane_record *lane = observed_lane(&stats, 1u << (18 + large));

        lane->times.native = lane->predicted_seconds[SS_DENSE] = large ? 9 : 1;
        lane->predicted_seconds[SS_RING] = large ? 9 : 0.5;
    }
    text = as_text(&stats, &job);
    assert_contains(&text, "; faster for 1 of 2 call signatures\n");
    assert_contains(&text, no_clear_gain);
    free(text.text);
    ss_stats_free(&stats);
}

/* A command with launcher, arguments and options of its own is not known here. */
static void observe_proposes_no_command_that_lacks_arguments_of_the_job(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_observed(&stats);
    job.observe = true;
    text = as_text(&stats, &job);
    assert_contains(&text, "  next     ");
    assert_lacks(&text, "mpirun");
    assert_lacks(&text, "./langid");
    free(text.text);
    ss_stats_free(&stats);
}

static void exact_mode_names_the_next_step_only_where_dense_was_faster(void **state)
{
    static const char next[] = "  next     exact mode gains nothing here";
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    for (int turn = 0; turn < 4; turn++) {
        ss_stats_init(&stats, 0);
        stats.end = 1;
        job.exact = turn != 1; /* a lossy mode, whose tensors rest */
        atomic_store(&stats.seen, 10);
        atomic_store(&stats.sparse, turn == 2 ? 1 : 0);
        atomic_store(&stats.passed[turn == 3 ? SS_WHY_FIRST : SS_WHY_DENSE], 6);
        atomic_store(&stats.passed[SS_WHY_BACKED_OFF], turn == 3 ? 1 : 3);
        text = as_text(&stats, &job);
        if (turn == 0)
            assert_contains(&text, next);
        else
            assert_lacks(&text, next);
        free(text.text);
        ss_stats_free(&stats);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(observe_says_what_to_try_and_what_not),
        cmocka_unit_test(advice_asks_for_ten_per_cent_of_the_least_time_of_dense_calls),
        cmocka_unit_test(what_ranks_wait_for_each_other_is_not_called_a_gain),
        cmocka_unit_test(nothing_seen_is_not_called_nothing_to_gain),
        cmocka_unit_test(observe_says_what_lossy_modes_would_send_and_what_to_do_next),
        cmocka_unit_test(the_share_of_the_job_is_told_only_where_all_of_it_was_timed),
        cmocka_unit_test(exact_mode_names_the_next_step_only_where_dense_was_faster),
        cmocka_unit_test(gains_within_the_noise_of_dense_calls_are_called_unclear),
        cmocka_unit_test(a_gain_in_few_of_the_calls_is_called_unclear),
        cmocka_unit_test(observe_proposes_no_command_that_lacks_arguments_of_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
