/* Values of partial rounds: what is not finite reaches all ranks and no residual, and what rounding
 * takes away (VALUE_TYPE) stays with the rank that rounds. */
#include "tests/unit/support/rounds_job.h"

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

/* not_finite_at_times on all ranks, to the end. */
static void run_not_finite(struct rounds_job *job)
{
    job->value = not_finite_at_times;
    rounds_begin(job);
    rounds_run(job);
    assert_residuals_finite(job);
    for (int r = 0; r < job->size; r++)
        assert_spoiled(job, (size_t)(50 + r), r);
    rounds_close(job);
}

static void what_is_not_finite_reaches_all_ranks_and_no_residual(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct rounds_job *job = rounds_open(5, both[seed % 2], seed, 40, 1);

        if (seed % 4 < 2)
            job->settings.algorithm = ss_algorithms(SS_KIND_ALLREDUCE)[SS_RECURSIVE_DOUBLING];
        run_not_finite(job);
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
                job->settings.algorithm = ss_algorithms(SS_KIND_ALLREDUCE)[SS_RECURSIVE_DOUBLING];
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

        job->settings.rounding =
            (struct ss_rounding){.values = seed % 3 ? SS_VALUES_Q8 : SS_VALUES_BF16, .bucket = 64};
        run_not_finite(job);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_finite_reaches_all_ranks_and_no_residual),
        cmocka_unit_test(rounded_values_lose_nothing),
        cmocka_unit_test(rounded_values_are_fewer_bytes),
        cmocka_unit_test(what_is_not_finite_travels_beside_rounded_values),
        cmocka_unit_test(rounded_claims_return_whole_from_a_round_that_is_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
