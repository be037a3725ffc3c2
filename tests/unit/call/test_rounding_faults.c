/* Calls that fail while values travel in fewer bits: the claims return to the last bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/rounding_job.h"

static float before[MOST_P][N]; /* gradient + residual of each rank */

static void remember(const struct training *t)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++)
            before[r][i] =
                ((float *)t->gradient[r])[i] + ((const float *)training_residual(t, r))[i];
}

/* Where a call fails after the vote, the claims are back to the last bit. */
static void expect_claims_back(const struct training *t, int rank)
{
    for (size_t i = 0; i < t->n; i++)
        if (((const float *)training_residual(t, rank))[i] != before[rank][i])
            fail_msg("rank %d, element %zu: %a became %a", rank, i, (double)before[rank][i],
                     get(SS_F32, training_residual(t, rank), i));
}

static void faulty_step(struct training *t)
{
    remember(t);
    for (int r = 0; r < t->job.size; r++)
        t->job.in[r] = t->gradient[r];
    assert_true(job_call(&t->job, SS_F32, SS_SUM, t->n));
    for (int r = 0; r < t->job.size; r++)
        if (t->job.status[r] < 0)
            expect_claims_back(t, r);
}

static void a_rank_without_memory_fails_all_and_returns_the_claims(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (int which = 0; which < 3; which++) {
            training_open(&t, 3, SS_F32, N, 0, settings_of(&forms[f]));
            draw(&t, HEAVY, 0);
            training_step(&t, false);
            draw(&t, HEAVY, 1);
            struct ss_work *w = &t.job.comm[1]->work;
            struct ss_buf *buf = which == 0   ? &w->arena
                                 : which == 1 ? &w->own_error
                                              : &w->part_error;
            if (buf->size > 0) {
                ss_buf_free(buf);
                t.job.starve_after_vote = true;
                t.job.starve_rank = 1;
                faulty_step(&t);
                for (int r = 0; r < 3; r++)
                    assert_int_equal(t.job.status[r], r == 1 ? SS_ERR_MEMORY : SS_ERR_PEER);
            }
            training_close(&t);
        }
}

static void a_failing_or_corrupted_send_loses_no_claim(void **state)
{
    static struct training t;
    int failed = 0;

    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (uint64_t n = 1; n <= 24; n++) {
            struct ss_settings settings = settings_of(&forms[f]);
            settings.timeout = 1e-3; /* a message that cannot be told may be waited for */
            training_open(&t, 4, SS_F32, N, 0, settings);
            ss_sim_set_idle(t.job.sim, 1e-4);
            draw(&t, HEAVY, 0);
            training_step(&t, false);
            draw(&t, HEAVY, 1);
            struct ss_sim_fault fault = {.rank = 1, .corrupt_byte = (size_t)mix(n)};
            uint64_t at = ss_sim_sends(t.job.sim, 1) + 1 + n / 2;
            if (n % 2)
                fault.fail_send = at;
            else
                fault.corrupt_send = at;
            ss_sim_set_fault(t.job.sim, fault);
            faulty_step(&t);
            for (int r = 0; r < 4; r++)
                failed += t.job.status[r] < 0;
            training_close(&t);
        }
    assert_true(failed > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_without_memory_fails_all_and_returns_the_claims),
        cmocka_unit_test(a_failing_or_corrupted_send_loses_no_claim),
    };
    return cmocka_run_group_tests_name("rounding faults", tests, NULL, NULL);
}
