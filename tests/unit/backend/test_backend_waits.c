/* TIMEOUT is the time that other ranks take: what this rank's own device takes is none of it, and
 * names no peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/far_backend.h"
#include "tests/unit/support/sim_job.h"

enum { SIZE = 3, COUNT = 20000, FAR_RANK = 1, STALLS = 5000 };
static const double IDLE = 0.01, TIMEOUT = 0.5; /* a stall takes a hundred times as long */

static struct {
    struct sim_job job;
    void *buffer[SIZE];
    enum ss_stage stalls_in; /* the far backend does nothing for a while once the call is there */
    bool stalled;
    int absent; /* this rank never calls; -1: none */
} the;

static void open_job(enum ss_algorithm algorithm)
{
    const struct ss_settings settings = {
        .algorithm = algorithm, .alpha = 1e-6, .beta = 1e-10, .hash = 1, .in_flight = 1};

    job_open(&the.job, SIZE, 1e-6, 1e-10, 1, &settings);
    the.job.settings[FAR_RANK].timeout = TIMEOUT; /* the others have to wait for that rank */
    the.job.far = FAR;
    the.absent = -1;
    ss_sim_set_idle(the.job.sim, IDLE);
    for (int r = 0; r < SIZE; r++) {
        the.buffer[r] =
            r == FAR_RANK ? far_make(COUNT * sizeof(float)) : malloc(COUNT * sizeof(float));
        assert_non_null(the.buffer[r]);
    }
    the.job.backend[FAR_RANK] = far_backend_of(FAR_RANK);
}

static void close_job(void)
{
    for (int r = 0; r < SIZE; r++)
        if (r != FAR_RANK)
            free(the.buffer[r]);
    job_close(&the.job);
    far_forget_all();
}

static int step(void *unused, int rank)
{
    const struct ss_call *call = ss_comm_call(the.job.comm[rank]);

    (void)unused;
    if (rank == the.absent)
        return the.job.started[FAR_RANK] && the.job.status[FAR_RANK] < 0 ? SS_OK : SS_PENDING;
    bool votes = call->stage == SS_STAGE_DRIVEN && call->driver != &ss_algorithm_driver;
    if (rank == FAR_RANK && the.job.started[rank] && call->stage == the.stalls_in && !votes &&
        !the.stalled) {
        far_backends[rank].stalls = STALLS;
        the.stalled = true;
    }
    return job_step(&the.job, rank);
}

/* Small whole numbers, one in sixteen. */
static void run(void)
{
    for (int r = 0; r < SIZE; r++) {
        float *v = the.buffer[r];
        for (int i = 0; i < COUNT; i++)
            v[i] = i % 16 == r ? (float)(r + 1) : 0;
        the.job.in[r] = NULL;
        the.job.out[r] = v;
    }
    the.job.type = SS_F32;
    the.job.op = SS_SUM;
    the.job.n = COUNT;
    the.stalled = false;
    memset(the.job.started, 0, sizeof the.job.started);
    (void)ss_sim_run(the.job.sim, step, NULL, the.job.status, 100000000);
    for (int r = 0; r < SIZE; r++)
        if (r != the.absent)
            ss_call_end(ss_comm_call(the.job.comm[r]), 1e-3);
}

static bool is_right(void)
{
    for (int r = 0; r < SIZE; r++) {
        const float *v = the.buffer[r];
        if (the.job.status[r] != SS_OK)
            return false;
        for (int i = 0; i < COUNT; i++)
            if (v[i] != (float)(i % 16 < SIZE ? i % 16 + 1 : 0))
                return false;
    }
    return true;
}

static void what_the_own_device_takes_is_no_timeout(void **state)
{
    static const enum ss_algorithm algorithms[] = {SS_EXACT_LIST(SS_CHOICE_ID)};
    static const enum ss_stage stages[] = {SS_STAGE_LOOK, SS_STAGE_DRIVEN, SS_STAGE_DRAIN,
                                           SS_STAGE_COUNT};
    unsigned stalls[sizeof stages / sizeof *stages] = {0};

    (void)state;
    for (size_t a = 0; a < sizeof algorithms / sizeof *algorithms; a++)
        for (size_t s = 0; s < sizeof stages / sizeof *stages; s++) {
            open_job(algorithms[a]);
            the.stalls_in = stages[s];
            run();
            if (!is_right())
                fail_msg("%s, stage %d: %s", ss_algorithm_name(algorithms[a]), (int)stages[s],
                         ss_status_text(the.job.status[FAR_RANK]));
            stalls[s] += far_backends[FAR_RANK].stalls < STALLS && the.stalled;
            close_job();
        }
    assert_true(stalls[0] > 0 && stalls[1] > 0);
}

static void a_rank_that_does_not_come_is_named_all_the_same(void **state)
{
    char text[400];

    (void)state;
    open_job(SS_RING);
    the.absent = 0;
    the.stalls_in = SS_STAGE_OVER;
    the.job.settings[2].timeout = TIMEOUT;
    run();
    assert_int_equal(the.job.status[FAR_RANK], SS_ERR_TIMEOUT);
    ss_call_explain(ss_comm_call(the.job.comm[FAR_RANK]), text, sizeof text);
    assert_non_null(strstr(text, "rank 0"));
    close_job();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_own_device_takes_is_no_timeout),
        cmocka_unit_test(a_rank_that_does_not_come_is_named_all_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
