/* Partial allreduces under delays and orders of every kind: they end, all ranks have the same
 * results at every call, enough ranks are in, no gradient is lost or counted twice, none waits for
 * more rounds than it may (eager-SGD, Lemma 6.1, and what it leaves out). */
#include "tests/unit/support/rounds_job.h"

static const enum ss_quorum both[] = {SS_QUORUM_SOLO, SS_QUORUM_MAJORITY};

static void run_and_check(struct rounds_job *job)
{
    rounds_begin(job);
    rounds_run(job);
    rounds_assert_nothing_lost(job);
    assert_true(job->ahead_most <= job->settings.staleness * (uint64_t)job->tensors);
    for (uint32_t t = 1; t <= job->calls; t++)
        assert_true(job->in[t] >= 1);
}

static void assert_staleness(const struct rounds_job *job)
{
    for (int r = 0; r < job->size; r++) {
        struct ss_rounds_stats seen = ss_rounds_seen(job->rounds[r]);
        uint64_t late = seen.pending;

        for (uint64_t i = 0; i < SS_ROUNDS_STALE; i++) {
            assert_true(seen.stale[i] == 0 || i <= job->settings.staleness);
            late += seen.stale[i];
        }
        assert_int_equal(late, seen.late);
        assert_int_equal(seen.in + seen.late, job->calls);
        assert_int_equal(seen.rounds, job->calls);
    }
}

static void everything_holds(int size, uint64_t seed, uint32_t calls, int tensors)
{
    for (size_t q = 0; q < 2; q++) {
        struct rounds_job *job = rounds_open(size, both[q], seed, calls, tensors);

        if (seed % 3 == 2)
            job->settings.row = ss_rows(SS_KIND_ALLREDUCE)[SS_RECURSIVE_DOUBLING];
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

/* Who is in for the first tensor of a step is in for all of them. */
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
    assert_true(seen.late >= job->calls - 1);
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
    assert_true(seen.late >= 10);
    assert_true(seen.behind > all / 4 && seen.behind <= all);
    assert_true(ss_rounds_seen(job->rounds[0]).behind < all / 100);
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
        assert_int_equal(ss_rounds_seen(job->rounds[1]).in, 0);
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

/* ---- what is not finite ---- */

static float not_finite_at_times(const struct rounds_job *job, int rank, uint32_t call, size_t i)
{
    if (i % 50 == (size_t)rank && (call + (uint32_t)rank) % 7 == 3)
        return call % 2 ? INFINITY : NAN;
    return rounds_value(job, rank, call, i);
}

static void assert_residuals_finite(const struct rounds_job *job)
{
    for (int r = 0; r < job->size; r++)
        for (size_t e = 0; e < job->n[0]; e++)
            assert_true(isfinite(((const float *)ss_residual_values(job->tensor[r][0]))[e]));
}

/* An element that no rank has spoiled balances; one that a rank has, arrives so exactly as often as
 * there were such gradients, or less where they meet in one round. */
static void assert_spoiled(const struct rounds_job *job, size_t e, int r)
{
    int put = 0, came = 0;

    for (uint32_t t = 1; t <= job->calls; t++) {
        put += !isfinite(job->value(job, r, t, e));
        came += !isfinite(job->result[t][e]);
    }
    assert_true(came >= 1 && came <= put);
}

static void what_is_not_finite_reaches_all_ranks_and_no_residual(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct rounds_job *job = rounds_open(5, both[seed % 2], seed, 40, 1);

        job->value = not_finite_at_times;
        if (seed % 4 < 2)
            job->settings.row = ss_rows(SS_KIND_ALLREDUCE)[SS_RECURSIVE_DOUBLING];
        rounds_begin(job);
        rounds_run(job);
        assert_residuals_finite(job);
        for (int r = 0; r < job->size; r++)
            assert_spoiled(job, (size_t)(50 + r), r);
        rounds_close(job);
    }
}

/* ---- rounded values ---- */

/* Sums of some 30 calls of values up to 4 in floats: 30 * 4 * 2^-24 each, on all ranks. */
static void rounded_values_lose_nothing(void **state)
{
    static const enum ss_values types[] = {SS_VALUES_BF16, SS_VALUES_Q8, SS_VALUES_Q4,
                                           SS_VALUES_Q2};

    (void)state;
    for (int size = 2; size <= 9; size++)
        for (uint64_t seed = 1; seed <= 8; seed++) {
            struct rounds_job *job = rounds_open(size, both[seed / 4 % 2], seed, 30, 2);

            job->settings.rounding = (struct ss_rounding){.values = types[seed % 4], .bucket = 64};
            if (seed % 2)
                job->settings.row = ss_rows(SS_KIND_ALLREDUCE)[SS_RECURSIVE_DOUBLING];
            job->tolerance = 1e-4;
            run_and_check(job);
            assert_staleness(job);
            rounds_close(job);
        }
}

static uint64_t bytes_sent(enum ss_values values)
{
    struct rounds_job *job = rounds_open(4, SS_QUORUM_SOLO, 3, 30, 1);
    uint64_t bytes = 0;

    job->settings.rounding = (struct ss_rounding){.values = values, .bucket = 64};
    job->tolerance = 1e-4;
    run_and_check(job);
    for (int r = 0; r < job->size; r++)
        bytes += ss_rounds_seen(job->rounds[r]).bytes;
    rounds_close(job);
    return bytes;
}

static void rounded_values_are_fewer_bytes(void **state)
{
    (void)state;
    assert_true(bytes_sent(SS_VALUES_BF16) < bytes_sent(SS_VALUES_SAME));
    assert_true(bytes_sent(SS_VALUES_Q4) < bytes_sent(SS_VALUES_BF16));
}

static void what_is_not_finite_travels_beside_rounded_values(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct rounds_job *job = rounds_open(5, both[seed % 2], seed, 40, 1);

        job->value = not_finite_at_times;
        job->settings.rounding =
            (struct ss_rounding){.values = seed % 3 ? SS_VALUES_Q8 : SS_VALUES_BF16, .bucket = 64};
        rounds_begin(job);
        rounds_run(job);
        assert_residuals_finite(job);
        for (int r = 0; r < job->size; r++)
            assert_spoiled(job, (size_t)(50 + r), r);
        rounds_close(job);
    }
}

static float one_not_finite(const struct rounds_job *job, int rank, uint32_t call, size_t i)
{
    return i == 100 ? INFINITY : rounds_value(job, rank, call, i);
}

/* A rank that gives up a round has the claims back that it has rounded, whole. */
static void rounded_claims_return_whole_from_a_round_that_is_given_up(void **state)
{
    (void)state;
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        struct rounds_job *job = rounds_open(2, SS_QUORUM_SOLO, 5, 1, 1);
        double off = 0;

        job->value = spoiled ? one_not_finite : rounds_value;
        job->settings.rounding = (struct ss_rounding){.values = SS_VALUES_Q2, .bucket = 64};
        rounds_begin(job);
        rounds_start_call(job, 0);
        while (!ss_rounds_under_way(job->rounds[0]))
            ss_rounds_step(job->rounds[0]);
        ss_rounds_abandon(job->rounds[0], SS_ERR_TIMEOUT);
        const float *residual = ss_residual_values(job->tensor[0][0]);
        for (size_t e = 0; e < job->n[0]; e++)
            if (e != 100)
                off += fabs((double)(residual[e] - rounds_value(job, 0, 1, e)));
        assert_true(off < 1e-4);
        assert_true(isfinite(residual[100]));
        rounds_close(job);
    }
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
    ss_rounds_hold(job->rounds[rank], false);
    if (call % 5 == 0) /* between two calls: until the next one */
        ss_rounds_hold(job->rounds[(rank + 1) % job->size],
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
                                      .place = &ss_host,
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
        cmocka_unit_test(what_is_not_finite_reaches_all_ranks_and_no_residual),
        cmocka_unit_test(rounded_values_lose_nothing),
        cmocka_unit_test(rounded_values_are_fewer_bytes),
        cmocka_unit_test(what_is_not_finite_travels_beside_rounded_values),
        cmocka_unit_test(rounded_claims_return_whole_from_a_round_that_is_given_up),
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
