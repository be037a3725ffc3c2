/* Plans of two ranks that see the same calls. A word exchange ends at another moment on each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/call/group_plan.h"
#include "core/stream/word_exchange.h"

enum { RANKS = 2, STEP = 8, LEAST = 70000 };

/* What the ranks have in common: the clock, since times are agreed on. */
static double now;

static double clock_of(struct ss_transport *t)
{
    (void)t;
    return now;
}

static const struct ss_transport_ops ops = {.now = clock_of};

/* Each is alone in a transport of one, so that its word exchanges end when they are stepped. */
struct rank {
    struct ss_transport t;
    struct ss_work work;
    struct ss_exchange x;
    struct ss_feedback f;
    struct ss_group_plan *plan;
    bool agrees;
};

struct job {
    struct ss_settings settings;
    struct ss_mem mem;
    struct ss_stats stats;
    struct ss_comm comm;
    struct rank rank[RANKS];
    unsigned word_exchanges;
    bool single; /* the last call was a part by itself */
    struct ss_group_cut cut;
};

static void open_job(struct job *job, uint64_t merge)
{
    *job = (struct job){.settings = {.alpha = 1e-4, .beta = 1e-8, .merge = merge},
                        .stats = {.lock = PTHREAD_MUTEX_INITIALIZER}};
    job->comm.settings = &job->settings;
    job->comm.stats = &job->stats;
    now = 0;
    for (int r = 0; r < RANKS; r++) {
        struct rank *k = &job->rank[r];
        k->t = (struct ss_transport){.ops = &ops, .size = 1};
        k->x = (struct ss_exchange){.t = &k->t, .work = &k->work, .mem = &job->mem};
        assert_int_equal(ss_word_exchange_reserve(&k->x), SS_OK);
        assert_non_null(k->plan = ss_group_plan_create(&job->comm));
    }
}

static void close_job(struct job *job)
{
    for (int r = 0; r < RANKS; r++) {
        ss_group_plan_free(job->rank[r].plan);
        ss_work_free(&job->rank[r].work);
    }
}

static void end_agreement(struct rank *k)
{
    if (k->agrees)
        assert_int_equal(ss_group_plan_step(k->plan, &k->x), SS_OK);
    k->agrees = false;
}

/* The next call, of n elements, after so many seconds. Both ranks cut alike, and agree on a plan in
 * the same calls. */
static bool next(struct job *job, uint64_t n, double seconds)
{
    struct ss_group_cut cut[RANKS];

    now += seconds;
    for (int r = 0; r < RANKS; r++) {
        struct rank *k = &job->rank[r];
        k->f = (struct ss_feedback){.key.n = n};
        k->f.comm = &job->comm;
        k->f.c.x = (struct ss_exchange){.t = &k->t, .n = n, .esize = 4};
        cut[r] = ss_group_plan_next(k->plan, &k->f);
    }
    assert_int_equal(cut[0].plans, cut[1].plans);
    assert_int_equal(cut[0].planned, cut[1].planned);
    assert_int_equal(cut[0].begins, cut[1].begins);
    assert_int_equal(cut[0].ends, cut[1].ends);
    job->single = cut[0].begins && cut[0].ends;
    job->cut = cut[0];
    return cut[0].plans;
}

static void start_agreements(struct job *job)
{
    for (int r = 0; r < RANKS; r++) {
        struct rank *k = &job->rank[r];
        k->x.failed = 0;
        ss_group_plan_start(k->plan, &k->f, &k->x);
        k->agrees = true;
    }
    job->word_exchanges++;
}

/* Single calls are out of the question. While one word exchange is under way on rank 1 the
 * program's calls change: it hears too late what the other has planned. */
static void run(unsigned late)
{
    struct job job;
    const double pause = 1e-4;

    open_job(&job, SS_MERGE_AUTO);
    for (uint64_t c = 0; c < 60000; c++) {
        if (!next(&job, LEAST + c % STEP, job.single ? 3 * pause : pause))
            continue;
        start_agreements(&job);
        end_agreement(&job.rank[0]);
        if (job.word_exchanges == late)
            for (uint64_t foreign = 1; foreign <= 2; foreign++)
                assert_false(next(&job, 10 * LEAST + foreign, pause));
        end_agreement(&job.rank[1]);
    }
    assert_true(job.word_exchanges > 20);
    close_job(&job);
}

static void ranks_plan_in_the_same_calls(void **state)
{
    (void)state;
    run(0);
}

static void ranks_plan_alike_where_one_hears_of_a_plan_when_its_step_is_gone(void **state)
{
    (void)state;
    for (unsigned late = 1; late <= 20; late++)
        run(late);
}

/* Steps of 100 calls, each behind a pause: the parts of a step are cut from its first call on, in
 * every step, though a part may hold more calls than a step has. */
static void parts_of_so_many_bytes_begin_with_the_step(void **state)
{
    const uint64_t calls = 100, steps = 60;
    const unsigned parts[] = {1, 1, 3, 100}, per_part[] = {1000, 100, 40, 1};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct job job;
        unsigned seen = 0;

        open_job(&job, 4 * LEAST * (uint64_t)per_part[i]);
        for (uint64_t c = 0; c < steps * calls; c++) {
            const uint64_t at = c % calls;
            if (next(&job, LEAST + at % 9 / 8, at == 0 ? 0.1 : 1e-4)) {
                start_agreements(&job);
                end_agreement(&job.rank[0]);
                end_agreement(&job.rank[1]);
            }
            if (c < steps / 2 * calls)
                continue;
            assert_true(job.cut.planned);
            assert_int_equal(job.cut.ends, at + 1 == calls || (at + 1) % per_part[i] == 0);
            seen += job.cut.ends;
        }
        assert_int_equal(seen, steps / 2 * parts[i]);
        close_job(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_plan_in_the_same_calls),
        cmocka_unit_test(parts_of_so_many_bytes_begin_with_the_step),
        cmocka_unit_test(ranks_plan_alike_where_one_hears_of_a_plan_when_its_step_is_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
