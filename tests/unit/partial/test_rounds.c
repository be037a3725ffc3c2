/* Partial allreduces under delays and orders of every kind. They end, and all ranks have the same
 * results at every call. Enough ranks take part, no gradient is lost or counted twice, and no
 * gradient waits for more rounds than it may (eager-SGD, Lemma 6.1, and cases that the lemma leaves
 * out). */
#include "tests/unit/support/rounds_job.h"

static void everything_holds(int size, uint64_t seed, uint32_t calls, int tensors)
{
    for (size_t q = 0; q < 2; q++) {
        struct rounds_job *job = rounds_open(size, both[q], seed, calls, tensors);

        if (seed % 3 == 2)
            job->settings.algorithm = ss_algorithms(SS_KIND_ALLREDUCE)[SS_RECURSIVE_DOUBLING];
        job->settings.staleness = 1 + seed % 8;
        run_and_check(job);
        assert_staleness(job);
        rounds_close(job);
    }
}

static void any_number_of_ranks_under_any_order(void **state)
{
    (void)state;
    for (int size = 2; size <= 17; size++)
        for (uint64_t seed = 1; seed <= (size < 9 ? 6 : 3); seed++)
            everything_holds(size, seed, 30, 1);
    everything_holds(64, 1, 12, 1);
    everything_holds(64, 2, 12, 1);
}

static void several_tensors_a_step(void **state)
{
    (void)state;
    for (int size = 2; size <= 9; size++)
        for (uint64_t seed = 1; seed <= 6; seed++)
            everything_holds(size, seed, 36, 3);
}

/* A rank that takes part for the first tensor of a step takes part for all of them. */
static void a_step_is_in_or_out_as_a_whole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct rounds_job *job = rounds_open(6, both[seed % 2], seed, 60, 3);

        run_and_check(job);
        for (uint32_t t = 1; t <= job->calls; t += 3) {
            assert_int_equal(job->in[t + 1], job->in[t]);
            assert_int_equal(job->in[t + 2], job->in[t]);
        }
        rounds_close(job);
    }
}

static unsigned by_rank(const struct rounds_job *job, int rank, uint32_t call)
{
    return (unsigned)rounds_mix(job->seed + (uint64_t)rank * 977 + call) % 8 +
           100 * (unsigned)(rounds_mix(job->seed * 5 + call * 64 + (uint64_t)rank) % 64);
}

static double mean_in(enum ss_quorum quorum, int size, uint32_t calls)
{
    struct rounds_job *job = rounds_open(size, quorum, 4, calls, 1);
    double sum = 0;

    job->delay = by_rank;
    run_and_check(job);
    for (uint32_t t = 1; t <= calls; t++)
        sum += job->in[t];
    rounds_close(job);
    return sum / calls;
}

/* Ranks that arrive far apart, in another order each time: of 16 the lot is on the 8.5th in the
 * mean, with a standard deviation of 4.6 / sqrt(100). */
static void half_of_the_ranks_are_in_under_majority_and_few_under_solo(void **state)
{
    double majority = mean_in(SS_QUORUM_MAJORITY, 16, 100);

    (void)state;
    if (majority < 6 || majority > 11.5)
        fail_msg("%g of 16 ranks are in", majority);
    assert_true(mean_in(SS_QUORUM_SOLO, 16, 40) < 5);
}

static unsigned one_stops(const struct rounds_job *job, int rank, uint32_t call)
{
    return rank == 1 && call % 40 == 15 ? 6000 : rounds_random_delay(job, rank, call) / 20;
}

static void a_rank_that_stops_has_results_queued_and_catches_up(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct rounds_job *job = rounds_open(4, SS_QUORUM_SOLO, seed, 80, 1);

        job->settings.staleness = 12;
        job->delay = one_stops;
        run_and_check(job);
        assert_true(job->ahead_most >= 10);
        assert_staleness(job);
        rounds_close(job);
    }
}

/* ---- delays chosen to hurt ---- */

static unsigned always_slow(const struct rounds_job *job, int rank, uint32_t call)
{
    return rank == job->size - 1 ? 300 : call % 2;
}

/* Every rank is late, from little to much, shifted by a rank each call. */
static unsigned shifted(const struct rounds_job *job, int rank, uint32_t call)
{
    return 40 * ((unsigned)rank + call) % (40 * (unsigned)job->size);
}

/* A lone rank is early, and another one each time: a round begins while the last is under way. */
static unsigned one_runs_ahead(const struct rounds_job *job, int rank, uint32_t call)
{
    return call % (uint32_t)job->size == (uint32_t)rank ? 0 : 150;
}

/* All arrive together, then none for long, then all but half of them. */
static unsigned in_bursts(const struct rounds_job *job, int rank, uint32_t call)
{
    (void)job;
    return call % 5 == 0 ? 500 : call % 5 == 3 && rank % 2 ? 200 : 0;
}

static void everything_holds_under_delays_chosen_to_hurt(void **state)
{
    unsigned (*const delays[])(const struct rounds_job *, int,
                               uint32_t) = {always_slow, shifted, one_runs_ahead, in_bursts};
    static const int sizes[] = {2, 3, 4, 7, 8, 13, 16, 17};

    (void)state;
    for (size_t d = 0; d < 4; d++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t q = 0; q < 2; q++) {
                struct rounds_job *job = rounds_open(sizes[s], both[q], s + 1, 32, 1 + (int)d % 2);

                job->delay = delays[d];
                job->settings.staleness = 1 + s % 4;
                run_and_check(job);
                assert_staleness(job);
                rounds_close(job);
            }
}

/* Its queue is full all the time, and every gradient of it late: it sets the pace. */
static void a_rank_that_is_always_slow_sets_the_pace(void **state)
{
    struct rounds_job *job = rounds_open(4, SS_QUORUM_SOLO, 3, 60, 1);
    struct ss_rounds_stats seen;

    (void)state;
    job->delay = always_slow;
    run_and_check(job);
    seen = ss_rounds_seen(job->rounds[3]);
    assert_int_equal(job->ahead_most, job->settings.staleness);
    assert_true(seen.sum.late >= job->calls - 1);
    rounds_assert_nothing_lost(job);
    rounds_close(job);
}

/* By the simulator's clock: a rank that stops once is late in several calls, and has fallen behind
 * once. */
static void falling_behind_counts_once(void **state)
{
    struct rounds_job *job = rounds_open(3, SS_QUORUM_SOLO, 0, 25, 1);
    struct ss_rounds_stats seen;

    (void)state;
    job->delay = one_stops;
    job->settings.staleness = 16;
    run_and_check(job);
    seen = ss_rounds_seen(job->rounds[1]);
    double all = ss_sim_clock(job->sim, 1);
    assert_true(seen.sum.late >= 10);
    assert_true(seen.sum.lag > all / 4 && seen.sum.lag <= all);
    assert_true(ss_rounds_seen(job->rounds[0]).sum.lag < all / 100);
    rounds_close(job);
}

/* The queue is full: the others wait, whatever the bound. */
static void a_full_queue_holds_the_others_back(void **state)
{
    (void)state;
    for (uint64_t staleness = 1; staleness <= 4; staleness++) {
        struct rounds_job *job = rounds_open(5, SS_QUORUM_SOLO, 2, 80, 1);

        job->settings.staleness = staleness;
        job->delay = one_stops;
        run_and_check(job);
        assert_int_equal(job->ahead_most, staleness);
        assert_int_equal(ss_rounds_seen(job->rounds[1]).queued_most, staleness);
        rounds_close(job);
    }
}

static void short_of_memory(struct rounds_job *job, int rank, uint32_t call)
{
    if (call == 1 && rank == 1) /* what is there stays, nothing more is to be had */
        job->mem[rank].limit = 1;
}

/* Results that find no memory wait where they were summed, and the next round for them. */
static void a_rank_without_memory_for_its_queue_holds_the_others_back(void **state)
{
    struct rounds_job *job = rounds_open(4, SS_QUORUM_SOLO, 3, 80, 1);

    (void)state;
    job->delay = one_stops;
    job->begun = short_of_memory;
    run_and_check(job);
    assert_int_equal(ss_rounds_seen(job->rounds[1]).queued_most, 1);
    rounds_close(job);
}

/* Nothing of ours runs on a rank that computes: it is waited for, as ever. */
static void without_a_thread_rounds_wait_for_calls(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        struct rounds_job *job = rounds_open(size, SS_QUORUM_SOLO, 5, 30, 1);

        job->asleep_while_computing = true;
        run_and_check(job);
        rounds_close(job);
    }
}

static void a_silent_rank_contributes_nothing_of_its_call(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct rounds_job *job = rounds_open(3, both[seed % 2], seed, 40, (int)(seed % 3) + 1);

        rounds_begin(job);
        job->silent[1] = true;
        rounds_run(job);
        assert_int_equal(ss_rounds_seen(job->rounds[1]).sum.in, 0);
        rounds_assert_nothing_lost(job);
        rounds_close(job);
    }
}

static void ranks_that_are_all_silent_still_have_rounds(void **state)
{
    struct rounds_job *job = rounds_open(4, SS_QUORUM_MAJORITY, 6, 30, 2);

    (void)state;
    rounds_begin(job);
    memset(job->silent, 1, sizeof job->silent);
    rounds_run(job);
    rounds_assert_nothing_lost(job);
    rounds_close(job);
}

/* ---- failures ---- */

static int failed_ranks(struct rounds_job *job, const char *what)
{
    int failed = 0;

    job->may_fail = true;
    rounds_begin(job);
    rounds_run(job);
    for (int r = 0; r < job->size; r++)
        failed += job->error[r] < 0;
    if (failed != 0 && failed != job->size)
        fail_msg("%s, P = %d, seed %llu: %d ranks have an error", what, job->size,
                 (unsigned long long)job->seed, failed);
    return failed;
}

static void a_send_that_fails_is_an_error_on_all_ranks_or_none(void **state)
{
    int failed = 0;

    (void)state;
    for (int size = 2; size <= 6; size++)
        for (uint64_t send = 1; send <= 40; send++) {
            struct rounds_job *job = rounds_open(size, both[send % 2], send, 12, 1);

            ss_sim_set_fault(job->sim, (struct ss_sim_fault){.rank = size / 2, .fail_send = send});
            failed += failed_ranks(job, "send") > 0;
            rounds_close(job);
        }
    assert_true(failed > 50);
}

static void a_damaged_message_is_an_error_on_all_ranks(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++)
        for (uint64_t send = 1; send <= 20; send++) {
            struct rounds_job *job = rounds_open(size, both[send % 2], send, 12, 1);

            ss_sim_set_fault(job->sim,
                             (struct ss_sim_fault){.rank = size / 2, .corrupt_send = send});
            assert_int_equal(failed_ranks(job, "damage"), size);
            rounds_close(job);
        }
}

static void spoil_without_memory(struct rounds_job *job, int rank, uint32_t call)
{
    if (rank == 0 && call == 5)
        job->mem[0].limit = 1;
}

static float many_not_finite(const struct rounds_job *job, int rank, uint32_t call, size_t i)
{
    return rank == 0 && call > 5 ? INFINITY : rounds_value(job, rank, call, i);
}

/* What cannot be kept is told to all: it is no silent loss. */
static void no_memory_for_what_is_not_finite_is_an_error_on_all_ranks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct rounds_job *job = rounds_open(4, both[seed % 2], seed, 30, 1);

        job->begun = spoil_without_memory;
        job->value = many_not_finite;
        assert_int_equal(failed_ranks(job, "memory"), 4);
        rounds_close(job);
    }
}

static void fail_elsewhere(struct rounds_job *job, int rank, uint32_t call)
{
    if (rank == 1 && call == 7)
        ss_rounds_fail(job->rounds[1], SS_ERR_MEMORY);
}

static void a_rank_that_has_failed_elsewhere_tells_all(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct rounds_job *job = rounds_open(5, both[seed % 2], seed, 30, 1);

        job->begun = fail_elsewhere;
        assert_int_equal(failed_ranks(job, "elsewhere"), 5);
        rounds_close(job);
    }
}

/* ---- holding ---- */

static void hold_at_times(struct rounds_job *job, int rank, uint32_t call)
{
    ss_rounds_block(job->rounds[rank], false);
    if (call % 5 == 0) /* between two calls: until the next one */
        ss_rounds_block(job->rounds[(rank + 1) % job->size],
                        job->calling[(rank + 1) % job->size] == false);
}

static void a_rank_that_holds_begins_nothing(void **state)
{
    struct rounds_job *job = rounds_open(4, SS_QUORUM_SOLO, 9, 60, 1);

    (void)state;
    job->begun = hold_at_times;
    run_and_check(job);
    rounds_close(job);
}

/* Admission of a larger tensor fails on one rank, where memory stays short. */
static void a_tensor_that_finds_no_room_costs_the_others_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct rounds_job *job = rounds_open(3, both[seed % 2], seed, 30, 1);
        struct ss_rule_subject subject = {.count = 200000, .type = SS_F32, .comm = "c"};
        struct ss_tensor_call call = {.lane = 7,
                                      .address = job,
                                      .backend = &ss_host,
                                      .type = SS_F32,
                                      .op = SS_SUM,
                                      .n = 200000,
                                      .subject = &subject};

        rounds_begin(job);
        struct ss_tensor_found found;
        struct ss_tensor *large = ss_tensor_find(job->of[1], &call, &found);
        ss_tensor_take(large, &call, &found);
        assert_true(ss_residual_make(large));
        job->mem[1].limit = atomic_load(&job->mem[1].used) + (seed % 2 ? 0 : 300000);
        assert_int_equal(ss_rounds_admit(job->rounds[1], large, 2000, 2000, 0), SS_ERR_MEMORY);
        job->mem[1].limit = 1;
        rounds_run(job);
        rounds_assert_nothing_lost(job);
        rounds_close(job);
    }
}

static void numbers_of_results_that_nobody_asked_for_are_known(void **state)
{
    struct rounds_job *job = rounds_open(2, SS_QUORUM_SOLO, 1, 3, 1);

    (void)state;
    job->delay = rounds_random_delay;
    run_and_check(job);
    assert_int_equal(ss_rounds_not_asked_for(job->rounds[1]), 0);
    rounds_start_call(job, 0); /* a fourth, of rank 0 alone */
    while (ss_rounds_call_status(job->rounds[0]) == SS_PENDING)
        for (int r = 0; r < 2; r++)
            ss_rounds_step(job->rounds[r]);
    assert_int_equal(ss_rounds_not_asked_for(job->rounds[1]), 1);
    rounds_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_under_any_order),
        cmocka_unit_test(several_tensors_a_step),
        cmocka_unit_test(a_step_is_in_or_out_as_a_whole),
        cmocka_unit_test(half_of_the_ranks_are_in_under_majority_and_few_under_solo),
        cmocka_unit_test(a_rank_that_stops_has_results_queued_and_catches_up),
        cmocka_unit_test(everything_holds_under_delays_chosen_to_hurt),
        cmocka_unit_test(a_rank_that_is_always_slow_sets_the_pace),
        cmocka_unit_test(falling_behind_counts_once),
        cmocka_unit_test(a_full_queue_holds_the_others_back),
        cmocka_unit_test(a_rank_without_memory_for_its_queue_holds_the_others_back),
        cmocka_unit_test(without_a_thread_rounds_wait_for_calls),
        cmocka_unit_test(a_silent_rank_contributes_nothing_of_its_call),
        cmocka_unit_test(ranks_that_are_all_silent_still_have_rounds),
        cmocka_unit_test(a_send_that_fails_is_an_error_on_all_ranks_or_none),
        cmocka_unit_test(a_damaged_message_is_an_error_on_all_ranks),
        cmocka_unit_test(no_memory_for_what_is_not_finite_is_an_error_on_all_ranks),
        cmocka_unit_test(a_rank_that_has_failed_elsewhere_tells_all),
        cmocka_unit_test(a_rank_that_holds_begins_nothing),
        cmocka_unit_test(a_tensor_that_finds_no_room_costs_the_others_nothing),
        cmocka_unit_test(numbers_of_results_that_nobody_asked_for_are_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
