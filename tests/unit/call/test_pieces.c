/* The MPI library's part of long allreduces in pieces: all ranks know, with a vote or without, and
 * nothing but a backend that is not the host's, or REPRODUCIBLE, makes them so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/far_backend.h"
#include "tests/unit/support/sim_job.h"

enum { SIZE = 3, BYTES = 2 * SS_PIECE + 64, CALLS = 12 };

static struct {
    struct sim_job job;
    void *near[SIZE], *far[SIZE];
} the;

static void open_job(bool reproducible, bool observe)
{
    const struct ss_settings settings = {.algorithm = SS_DENSE,
                                         .alpha = 1e-6,
                                         .beta = 1e-10,
                                         .hash = 1,
                                         .in_flight = 1,
                                         .reproducible = reproducible,
                                         .observe = observe};

    job_open(&the.job, SIZE, 1e-6, 1e-10, 1, &settings);
    the.job.far = FAR;
    ss_sim_set_idle(the.job.sim, 1e-6);
    for (int r = 0; r < SIZE; r++) {
        the.near[r] = calloc(1, BYTES);
        the.far[r] = far_make(BYTES);
        assert_non_null(the.near[r]);
        memset(the.far[r], 0, BYTES);
    }
}

static void close_job(void)
{
    for (int r = 0; r < SIZE; r++)
        free(the.near[r]);
    job_close(&the.job);
    far_forget_all();
}

/* Returns the piece that all ranks agree on. away: the ranks whose buffers the host cannot touch.
 */
static uint64_t piece_of_call(unsigned away, enum ss_type type, uint64_t n)
{
    for (int r = 0; r < SIZE; r++) {
        const bool far = away >> r & 1;

        the.job.backend[r] = far ? far_backend_of(r) : NULL;
        the.job.in[r] = NULL;
        the.job.out[r] = far ? the.far[r] : the.near[r];
    }
    assert_true(job_call(&the.job, type, SS_SUM, n));
    for (int r = 0; r < SIZE; r++) {
        const struct ss_call *call = ss_comm_call(the.job.comm[r]);

        assert_int_equal(the.job.status[r], SS_NATIVE);
        assert_int_equal(ss_call_piece(call), ss_call_piece(ss_comm_call(the.job.comm[0])));
    }
    return ss_call_piece(ss_comm_call(the.job.comm[0]));
}

static bool was_voted(void)
{
    return ss_call_reason(ss_comm_call(the.job.comm[0])) != SS_WHY_BACKED_OFF;
}

static void one_rank_on_a_device_is_enough(void **state)
{
    unsigned skipped = 0;

    (void)state;
    for (unsigned away = 1; away < 1 << SIZE; away++) {
        open_job(false, false);
        for (int call = 0; call < CALLS; call++) {
            assert_int_equal(piece_of_call(away, SS_F32, SS_PIECE / 4 + 1), SS_PIECE / 4);
            skipped += !was_voted();
        }
        assert_int_equal(piece_of_call(away, SS_F64, SS_PIECE / 8 + 1), SS_PIECE / 8);
        assert_int_equal(piece_of_call(away, SS_I64, SS_PIECE / 8), SS_PIECE / 8);
        close_job();
    }
    assert_true(skipped > 0);
}

/* Short calls, which would have other bits so; long ones do not. */
static void reproducible_calls_of_a_piece_go_whole_wherever_they_lie(void **state)
{
    (void)state;
    for (unsigned away = 0; away < 1 << SIZE; away++) {
        open_job(true, false);
        for (int call = 0; call < CALLS; call++) {
            assert_int_equal(piece_of_call(away, SS_F32, SS_PIECE / 4), 0);
            assert_int_equal(piece_of_call(away, SS_F32, SS_PIECE / 4 + 1), SS_PIECE / 4);
        }
        close_job();
    }
}

static void calls_without_a_vote_go_by_the_last_one(void **state)
{
    uint64_t last = 0;
    unsigned skipped = 0;

    (void)state;
    open_job(false, false);
    for (int call = 0; call < 4 * CALLS; call++) {
        const unsigned away = call / 3 % 2 ? 0 : 1u << call % SIZE;
        const uint64_t piece = piece_of_call(away, SS_F32, SS_PIECE / 4 + 1);

        if (was_voted())
            last = away ? SS_PIECE / 4 : 0;
        skipped += !was_voted() && (away != 0) != (last != 0);
        assert_int_equal(piece, last);
    }
    assert_true(skipped > 0);
    close_job();
}

static void buffers_of_the_host_go_whole_unless_reproducible(void **state)
{
    (void)state;
    for (int reproducible = 0; reproducible < 2; reproducible++) {
        open_job(reproducible, false);
        for (int call = 0; call < CALLS; call++) {
            assert_int_equal(piece_of_call(0, SS_F32, SS_PIECE / 4 + 1),
                             reproducible ? SS_PIECE / 4 : 0);
            assert_int_equal(piece_of_call(0, SS_F32, SS_PIECE / 4), 0);
        }
        close_job();
    }
}

static void what_only_looks_on_changes_nothing(void **state)
{
    (void)state;
    open_job(true, true);
    for (int call = 0; call < CALLS; call++)
        assert_int_equal(piece_of_call(1, SS_F32, SS_PIECE / 4 + 1), 0);
    close_job();
}

static void without_a_common_vote_there_are_none(void **state)
{
    (void)state;
    open_job(false, false);
    the.job.settings[1].hash = 2;
    assert_int_equal(piece_of_call(1, SS_F32, SS_PIECE / 4 + 1), SS_PIECE / 4); /* it was held */
    for (int call = 0; call < CALLS; call++)
        assert_int_equal(piece_of_call(1, SS_F32, SS_PIECE / 4 + 1), 0);
    close_job();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_on_a_device_is_enough),
        cmocka_unit_test(reproducible_calls_of_a_piece_go_whole_wherever_they_lie),
        cmocka_unit_test(calls_without_a_vote_go_by_the_last_one),
        cmocka_unit_test(buffers_of_the_host_go_whole_unless_reproducible),
        cmocka_unit_test(what_only_looks_on_changes_nothing),
        cmocka_unit_test(without_a_common_vote_there_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
