/* A ballot with a value that no rank can mean is an error on all ranks, before the plan uses it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/training.h"

enum { SIZE = 3, COUNT = 5000, ODD = 1 };

typedef void tamper(struct ss_ballot *b);

static struct {
    struct sim_job job;
    float buffer[SIZE][COUNT];
    tamper *with;
    bool done;
} the;

/* In its own ballot, before it is sent: the message is in order. */
static int step(void *unused, int rank)
{
    struct ss_call *call = ss_comm_call(the.job.comm[rank]);
    const int status = job_step(&the.job, rank);

    (void)unused;
    if (rank == ODD && status == SS_PENDING && ss_call_is_driven_by(call, &ss_vote_driver) &&
        !the.done) {
        the.done = true;
        if (the.with)
            the.with(&call->f.vote.ballot);
    }
    return status;
}

static void call_with(tamper *with)
{
    for (int r = 0; r < SIZE; r++) {
        for (int i = 0; i < COUNT; i++)
            the.buffer[r][i] = i % 40 == r ? 1 : 0;
        the.job.in[r] = NULL;
        the.job.out[r] = the.buffer[r];
    }
    the.job.type = SS_F32;
    the.job.op = SS_SUM;
    the.job.n = COUNT;
    the.with = with;
    the.done = false;
    memset(the.job.started, 0, sizeof the.job.started);
    assert_true(ss_sim_run(the.job.sim, step, NULL, the.job.status, 1000000));
    for (int r = 0; r < SIZE; r++)
        ss_call_end(ss_comm_call(the.job.comm[r]), 1e-3);
}

static void open_job(void)
{
    const struct ss_settings settings = {.alpha = 1e-6, .beta = 1e-10, .hash = 1, .in_flight = 1};

    job_open(&the.job, SIZE, 1e-6, 1e-10, 1, &settings);
}

static void more_entries_than_elements(struct ss_ballot *b)
{
    b->nnz_sum = b->nnz_max = COUNT + 1;
}

static void fewer_in_all_than_on_one(struct ss_ballot *b)
{
    b->nnz_sum = UINT64_MAX - 1000;
}

static void more_in_all_than_there_are_ranks(struct ss_ballot *b)
{
    b->nnz_sum = (uint64_t)SIZE * COUNT;
}

static void a_part_longer_than_all(struct ss_ballot *b)
{
    b->part_max = COUNT + 1;
}

static void more_asked_for_than_there_is(struct ss_ballot *b)
{
    b->k_max = UINT64_MAX;
}

static void a_result_longer_than_all(struct ss_ballot *b)
{
    b->result_max = COUNT + 1;
}

static void no_such_collective(struct ss_ballot *b)
{
    b->same_min[SS_SAME_FORCED] = b->same_max[SS_SAME_FORCED] = SS_ALGORITHMS + 1;
}

static void no_such_flag(struct ss_ballot *b)
{
    b->flags |= (uint64_t)1 << 40;
}

static void a_cost_that_is_no_number(struct ss_ballot *b)
{
    b->costs[SS_COST_MERGE] = 0x7fc00000u;
}

static void a_negative_cost(struct ss_ballot *b)
{
    b->costs[SS_COST_ALPHA] = 0x80000001u;
}

static void a_ratio_that_is_no_number(struct ss_ballot *b)
{
    b->ratio_max = 0x7ff0000000000001u;
}

static void what_cannot_be_meant_is_an_error_on_all_ranks(void **state)
{
    static tamper *const tampers[] = {more_entries_than_elements,       fewer_in_all_than_on_one,
                                      more_in_all_than_there_are_ranks, a_part_longer_than_all,
                                      a_result_longer_than_all,         no_such_collective,
                                      more_asked_for_than_there_is,     no_such_flag,
                                      a_cost_that_is_no_number,         a_negative_cost,
                                      a_ratio_that_is_no_number};
    char text[400];

    (void)state;
    for (size_t i = 0; i < sizeof tampers / sizeof *tampers; i++) {
        open_job();
        call_with(NULL);
        for (int r = 0; r < SIZE; r++)
            assert_true(the.job.status[r] >= 0);
        call_with(tampers[i]);
        assert_true(the.done);
        for (int r = 0; r < SIZE; r++) {
            assert_int_equal(the.job.status[r], SS_ERR_MESSAGE);
            ss_call_explain(ss_comm_call(the.job.comm[r]), text, sizeof text);
            assert_non_null(strstr(text, "malformed message in the vote"));
        }
        call_with(NULL); /* the communicator stays an error, on all ranks */
        for (int r = 0; r < SIZE; r++)
            assert_int_equal(the.job.status[r], SS_ERR_MESSAGE);
        job_close(&the.job);
    }
}

/* All of each bucket, the last of which is a short one: where dense is faster the tensor rests, and
 * says what it would claim. */
static void all_entries_of_short_buckets_can_be_meant(void **state)
{
    static const enum ss_algorithm algorithms[] = {SS_AUTO, SS_ALLGATHER, SS_OKTOPK, SS_GTOPK};
    static struct training t;

    (void)state;
    for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++) {
        struct ss_settings settings = training_settings(algorithms[a]);

        settings.k = settings.bucket = 512;
        training_open(&t, SIZE, SS_F32, 1000, 0, settings);
        for (uint64_t s = 0; s < 40; s++) {
            for (int r = 0; r < SIZE; r++)
                for (size_t i = 0; i < 1000; i++)
                    put(SS_F32, t.gradient[r], i, (double)((i * 7 + s + (uint64_t)r) % 13) - 6);
            training_step(&t, false);
            for (int r = 0; r < SIZE; r++)
                assert_true(t.job.status[r] >= 0);
        }
        training_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_meant_is_an_error_on_all_ranks),
        cmocka_unit_test(all_entries_of_short_buckets_can_be_meant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
