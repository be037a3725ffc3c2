/* Word exchanges: the same words on every rank, and a failure anywhere known everywhere. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/sim_job.h"

enum { SUMS = 5, MAXIMA = 3, REALS = 4, WORDS = SUMS + MAXIMA + REALS, MOST = 64 };

struct exchanges {
    struct sim_job job;
    struct ss_exchange call[MOST];
    struct ss_word_exchange agree[MOST];
    uint64_t data[MOST][WORDS];
    int left[MOST]; /* word exchanges still to make */
    uint64_t first[MOST][WORDS];
};

static uint64_t word(int rank, size_t i)
{
    double real = sin(1.0 + rank * 7.0 + (double)i) * pow(2, rank % 40);
    uint64_t bits;

    memcpy(&bits, &real, sizeof bits);
    return i < SUMS + MAXIMA ? ((uint64_t)rank + 1) * (uint64_t)0x9e3779b97f4a7c15 >> (i * 7)
                             : bits;
}

static void begin(struct exchanges *a, int rank)
{
    for (size_t i = 0; i < WORDS; i++)
        a->data[rank][i] = word(rank, i);
    ss_word_exchange_start(&a->call[rank], &a->agree[rank], a->data[rank], SUMS, MAXIMA, REALS);
}

static int step(void *ctx, int rank)
{
    struct exchanges *a = ctx;
    struct ss_exchange *c = &a->call[rank];

    c->t->ops->poll(c->t);
    if (ss_word_exchange_step(c, &a->agree[rank]) == SS_PENDING)
        return SS_PENDING;
    if (--a->left[rank] == 0)
        return c->failed < 0 ? c->failed : SS_OK;
    memcpy(a->first[rank], a->data[rank], sizeof a->first[rank]);
    begin(a, rank);
    return SS_PENDING;
}

static void open_exchanges(struct exchanges *a, int size, uint64_t seed, int rounds)
{
    struct ss_settings settings = {.alpha = 1e-6, .beta = 1e-9, .hash = 1};

    memset(a, 0, sizeof *a);
    job_open(&a->job, size, 1e-6, 1e-9, seed, &settings);
    ss_sim_set_eager(a->job.sim, 0);
    for (int r = 0; r < size; r++) {
        a->call[r] = (struct ss_exchange){.t = a->job.comm[r]->t,
                                          .work = &a->job.comm[r]->works[0],
                                          .mem = a->job.comm[r]->mem,
                                          .number = 7,
                                          .type = SS_F32};
        a->left[r] = rounds;
        assert_int_equal(ss_word_exchange_reserve(&a->call[r]), SS_OK);
    }
}

static bool run(struct exchanges *a)
{
    for (int r = 0; r < a->job.size; r++)
        begin(a, r);
    return ss_sim_run(a->job.sim, step, a, a->job.status, 1000000);
}

static void expect_words(const struct exchanges *a)
{
    for (size_t i = 0; i < WORDS; i++) {
        uint64_t sum = 0, most = 0;
        double real = 0, magnitude = 0, got;
        for (int r = 0; r < a->job.size; r++) {
            double x;
            uint64_t w = word(r, i);
            memcpy(&x, &w, sizeof x);
            sum += w;
            most = w > most ? w : most;
            real += i < SUMS + MAXIMA ? 0 : x;
            magnitude += i < SUMS + MAXIMA ? 0 : fabs(x);
        }
        memcpy(&got, &a->data[0][i], sizeof got);
        if (i < SUMS)
            assert_int_equal(a->data[0][i], sum);
        else if (i < SUMS + MAXIMA)
            assert_int_equal(a->data[0][i], most);
        else
            assert_true(fabs(got - real) <= a->job.size * DBL_EPSILON * magnitude);
    }
    for (int r = 0; r < a->job.size; r++)
        assert_memory_equal(a->data[r], a->data[0], sizeof a->data[0]);
}

static void all_ranks_get_the_same_sums_and_maxima(void **state)
{
    static struct exchanges a;

    (void)state;
    for (int size = 1; size <= 33; size++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            open_exchanges(&a, size, seed * 17, 2);
            assert_true(run(&a));
            for (int r = 0; r < size; r++) {
                assert_int_equal(a.job.status[r], SS_OK);
                assert_memory_equal(a.first[r], a.data[r], sizeof a.data[r]);
            }
            expect_words(&a);
            job_close(&a.job);
        }
}

/* A rank that had failed before takes part, and all know at the end. */
static void a_failure_before_is_known_to_all(void **state)
{
    static struct exchanges a;

    (void)state;
    for (int size = 2; size <= 12; size++)
        for (int poor = 0; poor < size; poor++) {
            open_exchanges(&a, size, (uint64_t)(poor % 2) * 5, 1);
            ss_fail(&a.call[poor], SS_ERR_MEMORY, poor, SS_PHASE_REDUCE);
            assert_true(run(&a));
            for (int r = 0; r < size; r++)
                assert_int_equal(a.job.status[r], r == poor ? SS_ERR_MEMORY : SS_ERR_PEER);
            job_close(&a.job);
        }
}

/* One that is refused once is sent again; nobody notices. */
static void a_refused_send_is_tried_again(void **state)
{
    static struct exchanges a;

    (void)state;
    for (int size = 2; size <= 9; size++)
        for (uint64_t n = 1; n <= 5; n++) {
            open_exchanges(&a, size, 0, 1);
            ss_sim_set_fault(a.job.sim, (struct ss_sim_fault){.rank = size / 2, .fail_send = n});
            assert_true(run(&a));
            for (int r = 0; r < size; r++)
                assert_int_equal(a.job.status[r], SS_OK);
            expect_words(&a);
            job_close(&a.job);
        }
}

/* Any changed byte is seen, at least by the rank that it reaches. */
static void a_damaged_word_exchange_is_an_error(void **state)
{
    static struct exchanges a;

    (void)state;
    for (int size = 2; size <= 5; size++)
        for (size_t byte = 0; byte < 24 + 8 * WORDS; byte++) {
            bool seen = false;
            open_exchanges(&a, size, 0, 1);
            ss_sim_set_fault(a.job.sim, (struct ss_sim_fault){
                                            .rank = 1, .corrupt_send = 1, .corrupt_byte = byte});
            assert_true(run(&a));
            for (int r = 0; r < size; r++)
                seen = seen || a.job.status[r] < 0;
            assert_true(seen);
            job_close(&a.job);
        }
}

static void too_many_words_fail_on_all(void **state)
{
    static struct exchanges a;

    (void)state;
    open_exchanges(&a, 3, 0, 1);
    for (int r = 0; r < 3; r++)
        ss_word_exchange_start(&a.call[r], &a.agree[r], a.data[r], ss_word_exchange_most(3) + 64, 0,
                               0);
    assert_true(ss_sim_run(a.job.sim, step, &a, a.job.status, 100000));
    for (int r = 0; r < 3; r++)
        assert_int_equal(a.job.status[r], SS_ERR_MEMORY);
    job_close(&a.job);
}

/* On a host of several ranks a rank's first pair exchange is to send to the first rank, which has
 * not come here. */
static void a_rank_that_waits_to_send_names_the_receiver(void **state)
{
    static struct exchanges a;

    (void)state;
    open_exchanges(&a, 3, 0, 1);
    job_set_hosts(&a.job, "112", 16);
    begin(&a, 1);
    assert_int_equal(ss_word_exchange_step(&a.call[1], &a.agree[1]), SS_PENDING);
    assert_int_equal(ss_word_exchange_waiting(&a.agree[1]), 0);
    ss_word_exchange_cancel(&a.call[1], &a.agree[1]);
    job_close(&a.job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_get_the_same_sums_and_maxima),
        cmocka_unit_test(a_failure_before_is_known_to_all),
        cmocka_unit_test(a_refused_send_is_tried_again),
        cmocka_unit_test(a_damaged_word_exchange_is_an_error),
        cmocka_unit_test(too_many_words_fail_on_all),
        cmocka_unit_test(a_rank_that_waits_to_send_names_the_receiver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
