/* The events of rounds: their spans lie properly inside each other, whether this rank has made its
 * call or not and however a round ends, and what is traced computes the same. */
#include "tests/unit/support/rounds_job.h"
#include "tests/unit/support/strict_trace.h"

static struct strict sinks[ROUNDS_RANKS];
static struct ss_trace *sink[ROUNDS_RANKS];

/* A sink for each rank. */
static void begin_traced(struct rounds_job *job)
{
    for (int r = 0; r < job->size; r++) {
        strict_set(&sinks[r]);
        sink[r] = &sinks[r].sink;
        job->settings.trace = &sink[r];
        job->settings.name = "c";
        rounds_open_rank(job, r);
    }
}

static void nothing_is_open(const struct rounds_job *job)
{
    for (int r = 0; r < job->size; r++)
        assert_int_equal(sinks[r].at_once, 0);
}

static void has_its_spans(const struct strict *s, unsigned rounds)
{
    assert_int_equal(s->calls, rounds);
    assert_int_equal(s->most_at_once, 1);
    assert_int_equal(s->begun[SS_SPAN_START], rounds);
    assert_true(s->begun[SS_SPAN_ROUND] >= rounds);
    assert_true(s->begun[SS_SPAN_DECODE] > 0);
    assert_true(s->begun[SS_SPAN_WAIT] > 0);
}

static void every_round_has_its_spans_and_the_same_result(void **state)
{
    enum { ROUNDS = 60 };

    (void)state;
    for (int q = 0; q < 2; q++)
        for (int size = 2; size <= 6; size++) {
            struct rounds_job *plain = rounds_open(size, both[q], (uint64_t)size, ROUNDS, 2);
            struct rounds_job *traced = rounds_open(size, both[q], (uint64_t)size, ROUNDS, 2);

            run_and_check(plain);
            begin_traced(traced);
            rounds_run(traced);
            rounds_assert_nothing_lost(traced);
            for (uint32_t t = 1; t <= ROUNDS; t++)
                assert_memory_equal(plain->result[t], traced->result[t],
                                    plain->n[rounds_tensor(plain, t)] * sizeof(float));
            for (int r = 0; r < size; r++)
                has_its_spans(&sinks[r], ROUNDS);
            nothing_is_open(traced);
            rounds_close(plain);
            rounds_close(traced);
        }
}

static void where_nobody_wants_a_trace_any_more_nothing_begins(void **state)
{
    struct rounds_job *job = rounds_open(3, SS_QUORUM_SOLO, 5, 40, 1);

    (void)state;
    begin_traced(job);
    for (int r = 0; r < 3; r++)
        sink[r] = NULL;
    rounds_run(job);
    for (int r = 0; r < 3; r++)
        assert_int_equal(sinks[r].begun[SS_SPAN_START], 0);
    rounds_close(job);
}

static void rounds_that_fail_end_their_spans(void **state)
{
    (void)state;
    for (uint64_t when = 3; when < 90; when += 7)
        for (int what = 0; what < 2; what++) {
            struct rounds_job *job = rounds_open(4, both[when % 2], when, 20, 1);
            struct ss_sim_fault fault = {.rank = 1};

            *(what == 0 ? &fault.fail_send : &fault.corrupt_send) = when;
            job->may_fail = true;
            ss_sim_set_fault(job->sim, fault);
            begin_traced(job);
            rounds_run(job);
            for (int r = 0; r < job->size; r++)
                ss_rounds_close(job->rounds[r]);
            nothing_is_open(job);
            rounds_close(job);
        }
}

/* As at the end of a job in which another rank has made a call too many. */
static void a_pause_ends_what_is_open(void **state)
{
    struct rounds_job *job = rounds_open(2, SS_QUORUM_SOLO, 1, 3, 1);

    (void)state;
    begin_traced(job);
    rounds_run(job);
    ss_rounds_block(job->rounds[1], true);
    rounds_start_call(job, 0);
    for (int i = 0; i < 1000; i++)
        for (int r = 0; r < 2; r++)
            ss_rounds_step(job->rounds[r]);
    assert_int_equal(sinks[0].at_once, 1);
    for (int r = 0; r < 2; r++)
        ss_rounds_pause(job->rounds[r]);
    nothing_is_open(job);
    rounds_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_round_has_its_spans_and_the_same_result),
        cmocka_unit_test(where_nobody_wants_a_trace_any_more_nothing_begins),
        cmocka_unit_test(rounds_that_fail_end_their_spans),
        cmocka_unit_test(a_pause_ends_what_is_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
