/* Partial calls in the report: ranks that took part and the delay of the others, gradients that
 * were never sent, calls that make QUORUM useless, and the course over time. */
#include "tests/unit/support/report_sample.h"

static void fill_rounds(struct ss_stats *stats)
{
    fill_sample(stats);
    stats->rounds.sum = (struct ss_rounds_sums){.rounds = 630,
                                                .in = 400,
                                                .left = 100,
                                                .late = 230,
                                                .steps = 315,
                                                .stale = {[1] = 200, [4] = 29},
                                                .waited = 1.5,
                                                .lag = 12};
    stats->rounds.queued_most = 5;
    stats->rounds.thread = 0.5;
    stats->rounds.thread_lived = 50;
    for (uint64_t i = 0; i < 630; i++)
        ss_rounds_stretch(
            &stats->rounds,
            &(struct ss_rounds_sums){
                .rounds = 1, .in = i % 2, .left = i % 3, .late = 1, .waited = (double)i});
}

static void say(struct ss_stats *stats, const char *line, bool there)
{
    struct ss_report_job job = sample_job();
    struct page text = as_text(stats, &job);

    if (there)
        assert_contains(&text, line);
    else
        assert_lacks(&text, line);
    free(text.text);
}

static void a_job_without_rounds_has_no_line_of_them(void **state)
{
    struct ss_stats stats;

    (void)state;
    fill_sample(&stats);
    ss_rounds_synchronous(&stats.rounds, &(struct ss_synchronous){.calls = 1000});
    say(&stats, "partial", false);
    say(&stats, "wait for all ranks", false);
    ss_stats_free(&stats);
}

static void the_line_says_who_was_in(void **state)
{
    struct ss_stats stats;

    (void)state;
    fill_rounds(&stats);
    say(&stats,
        "partial  this rank was in 400 of 630 rounds; 230 gradients came late and waited for 1.38 "
        "rounds in the mean; at most 5 results waited\n",
        true);
    ss_stats_free(&stats);
}

static void solo_with_late_gradients_gets_advice_and_majority_does_not(void **state)
{
    struct ss_stats stats;

    (void)state;
    fill_rounds(&stats);
    say(&stats, "SPARSESHIM_QUORUM=majority waits for half of the ranks", false);
    stats.rounds.solo = true;
    say(&stats, "SPARSESHIM_QUORUM=majority waits for half of the ranks", true);
    stats.rounds.sum.stale[4] = 0; /* a round late, each */
    say(&stats, "SPARSESHIM_QUORUM=majority waits for half of the ranks", false);
    ss_stats_free(&stats);
}

static void what_came_too_late_is_named_with_its_norm(void **state)
{
    struct ss_stats stats;
    struct ss_tensor_record *t;

    (void)state;
    fill_rounds(&stats);
    add_tensors(&stats);
    say(&stats, "unsent", false);
    t = stats.tensors;
    t->late = 2;
    t->next->late = 1;
    say(&stats,
        "unsent   3 gradients came late of which nothing has been sent; the tensor of "
        "4,194,304 elements called from train+0x12f3 ends with a residual of norm 12.5\n",
        true);
    ss_stats_free(&stats);
}

static void add_calls(struct ss_stats *stats, const char *site, uint64_t calls)
{
    struct ss_synchronous call = {.kind = SS_KIND_REDUCE, .count = 7, .calls = calls};

    snprintf(call.site, sizeof call.site, "%s", site);
    ss_rounds_synchronous(&stats->rounds, &call);
}

static void one_other_call_in_every_second_step_is_worth_a_line(void **state)
{
    struct ss_stats stats;

    (void)state;
    fill_rounds(&stats);
    add_calls(&stats, "train+0x10", 100);
    add_calls(&stats, "train+0x20", 57);
    say(&stats, "QUORUM useless", false);
    add_calls(&stats, "train+0x20", 1);
    say(&stats,
        "waiting  158 other calls in 315 steps wait for all ranks, which makes QUORUM useless: "
        "most of them reduce of 7 elements, called from train+0x10\n",
        true);
    ss_stats_free(&stats);
}

static void calls_of_more_places_than_are_kept_are_all_counted(void **state)
{
    struct ss_rounds_record r = {0};
    uint64_t calls = 0;

    (void)state;
    for (int i = 0; i < 3 * SS_SYNCHRONOUS; i++) {
        struct ss_synchronous call = {.calls = 2};
        snprintf(call.site, sizeof call.site, "train+%d", i % (2 * SS_SYNCHRONOUS));
        ss_rounds_synchronous(&r, &call);
    }
    assert_int_equal(r.synchronous_sites, SS_SYNCHRONOUS);
    for (size_t i = 0; i < r.synchronous_sites; i++)
        calls += r.synchronous[i].calls;
    assert_int_equal(calls, 6 * SS_SYNCHRONOUS);
    assert_int_equal(r.synchronous[0].calls, 4);
    assert_string_equal(r.synchronous[SS_SYNCHRONOUS - 1].site, "");
}

/* However many rounds there are, in however large portions. */
static void stretches_have_every_round_once_and_as_many_each(void **state)
{
    (void)state;
    for (uint64_t most = 1; most <= 7; most += 3)
        for (int n = 1; n < 3000; n += 37) {
            struct ss_rounds_record r = {0};
            struct ss_rounds_sums all = {0}, sum = {0};
            for (int i = 0; i < n; i++) {
                struct ss_rounds_sums more = {
                    .rounds = (uint64_t)i % (most + 1), .late = 1, .lag = 0.5};
                all.rounds += more.rounds;
                ss_rounds_stretch(&r, &more);
            }
            for (size_t i = 0; i < r.stretches; i++) {
                sum.rounds += r.stretch[i].rounds;
                sum.late += r.stretch[i].late;
                sum.lag += r.stretch[i].lag;
                assert_true(r.stretch[i].rounds <= r.stretch_rounds * most);
                assert_true(i + 1 == r.stretches || r.stretch[i].rounds >= r.stretch_rounds);
            }
            assert_int_equal(sum.rounds, all.rounds);
            assert_int_equal(sum.late, n);
            assert_true(sum.lag == 0.5 * n);
            assert_in_range(r.stretches, 1, SS_STRETCHES);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_without_rounds_has_no_line_of_them),
        cmocka_unit_test(the_line_says_who_was_in),
        cmocka_unit_test(solo_with_late_gradients_gets_advice_and_majority_does_not),
        cmocka_unit_test(what_came_too_late_is_named_with_its_norm),
        cmocka_unit_test(one_other_call_in_every_second_step_is_worth_a_line),
        cmocka_unit_test(calls_of_more_places_than_are_kept_are_all_counted),
        cmocka_unit_test(stretches_have_every_round_once_and_as_many_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
