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
    assert_contains(&text, "try      SPARSESHIM_MODE=exact: faster for 1 of 2 call signatures, "
                           "in total 12.0 s instead of 120 s\n");
    assert_contains(&text, "mode observe changes nothing");
    free(text.text);
    ss_stats_free(&stats);
}

static void advice_asks_for_ten_per_cent_and_forces_only_past_the_plan(void **state)
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
    assert_false(advice.force);

    lane.predicted_seconds[SS_DENSE] = 8;
    advice = ss_report_advise(&lane);
    assert_true(advice.gain);
    assert_true(advice.force);

    lane.predicted_seconds[SS_RING] = INFINITY; /* it could not have run in one of the calls */
    advice = ss_report_advise(&lane);
    assert_int_equal(advice.best, SS_ALLGATHER);
    assert_false(advice.gain);
}

static void no_advice_where_the_model_misses_dense_by_more_than_twice(void **state)
{
    (void)state;
    for (int slower = 0; slower < 2; slower++) {
        struct ss_lane_record lane = {.calls = 25, .scans = 20, .planned = 10};
        lane.passed[SS_WHY_OBSERVE] = 10;
        lane.times.native = 10;
        lane.predicted_seconds[SS_RING] = 2;
        lane.predicted_seconds[SS_DENSE] = slower ? 19 : 5.5;
        assert_true(ss_report_advise(&lane).gain);
        lane.predicted_seconds[SS_DENSE] = slower ? 21 : 4.5;
        assert_false(ss_report_advise(&lane).gain);
        assert_true(ss_report_advise(&lane).misfit);
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
            &text, lanes < 2 ? "  try      no advice: no call was looked at\n"
                             : "  try      nothing: no call signature would gain 10 % or more\n");
        free(text.text);
        lane = ss_stats_lane(&stats, "", 2, 1 << 20, SS_F32, SS_SUM);
        lane->calls = lane->scans = lane->passed[SS_WHY_OBSERVE] = 10;
        lane->planned = lanes > 0 ? 5 : 0;
    }
    ss_stats_free(&stats);
}

/* A lane of gradients and one that nothing was sampled of. */
static void observe_says_what_topk_would_send_and_that_it_is_lossy(void **state)
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
    assert_contains(&text, "lossy    SPARSESHIM_MODE=topk, for gradients only: faster for 1 of 2 "
                           "call signatures, in total 4.01 s instead of 120 s\n");
    free(text.text);
    lane->predicted_seconds[SS_DENSE] = (double)lane->planned * 0.3; /* it took 0.12 */
    text = as_text(&stats, &job);
    assert_contains(&text, "try      no advice: the prediction for dense is off by more than 2 "
                           "times for 2 of 2 call signatures");
    assert_lacks(&text, "lossy    SPARSESHIM_MODE=topk");
    free(text.text);
    job.observe = false;
    text = as_text(&stats, &job);
    assert_lacks(&text, "  try  ");
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

static void a_forced_algorithm_is_named_in_the_settings_to_try(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_lane_record *lane;
    struct ss_stats stats;
    struct page text;

    (void)state;
    ss_stats_init(&stats, 0);
    stats.end = 1;
    job.observe = true;
    lane = ss_stats_lane(&stats, "", 8, 1 << 20, SS_F32, SS_SUM);
    lane->calls = lane->scans = lane->planned = lane->passed[SS_WHY_OBSERVE] = 10;
    lane->times.native = 10;
    lane->predicted_seconds[SS_RING] = 7;
    lane->predicted_seconds[SS_DENSE] = 6;
    text = as_text(&stats, &job);
    assert_contains(&text,
                    "try      SPARSESHIM_MODE=exact SPARSESHIM_ALGORITHM=ring: saves up to 3.00 s");
    free(text.text);
    ss_stats_free(&stats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(observe_says_what_to_try_and_what_not),
        cmocka_unit_test(advice_asks_for_ten_per_cent_and_forces_only_past_the_plan),
        cmocka_unit_test(no_advice_where_the_model_misses_dense_by_more_than_twice),
        cmocka_unit_test(nothing_seen_is_not_called_nothing_to_gain),
        cmocka_unit_test(observe_says_what_topk_would_send_and_that_it_is_lossy),
        cmocka_unit_test(the_share_of_the_job_is_told_only_where_all_of_it_was_timed),
        cmocka_unit_test(a_forced_algorithm_is_named_in_the_settings_to_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
