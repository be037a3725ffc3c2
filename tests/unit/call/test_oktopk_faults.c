/* Together or not at all, in every phase of the O(k) sparse allreduce. */
#include <stdio.h>

#include "tests/unit/support/oktopk_job.h"

/* What all ranks share has come to differ, in any part: the vote sees it, all begin anew. */
static void state_that_differs_is_made_anew_by_all(void **state)
{
    static struct training t;

    (void)state;
    for (int what = 0; what < 4; what++) {
        training_open(&t, 5, SS_F32, N, 0, settings_of(0.02));
        for (int s = 0; s < 6; s++) {
            draw(&t, 1);
            training_step(&t, false);
        }
        struct ss_agreed *a = &tensor_of(&t, 3)->agreed;
        uint32_t *bounds = a->bounds.data;
        if (what == 0)
            bounds[2]++;
        else if (what == 1)
            a->calls += 3;
        else if (what == 2)
            a->global.magnitude++;
        else
            ss_agreed_forget(a);
        for (int s = 0; s < 3; s++) {
            draw(&t, 1);
            training_step(&t, false);
            for (int r = 0; r < 5; r++) {
                const struct ss_agreed *other = &tensor_of(&t, r)->agreed;
                assert_int_equal(other->calls, s + 1);
                assert_int_equal(other->partition_call, 1);
                assert_int_equal(ss_agreed_hash(other, 5), ss_agreed_hash(a, 5));
            }
        }
        expect_conservation(&t, "oktopk");
        training_close(&t);
    }
}

/* Balanced, or with everything in one region, which is then balanced. */
static void open_for_fault(struct training *t, int size, bool uneven)
{
    struct ss_settings settings = settings_of(0.02);

    settings.timeout = 0.25;
    settings.partition = uneven ? SS_PARTITION_EQUAL : SS_PARTITION_QUANTILE;
    training_open(t, size, SS_F32, 1500, 0, settings);
    ss_sim_set_eager(t->job.sim, 0);
    ss_sim_set_idle(t->job.sim, 0.01);
    t->pattern = uneven ? FRONT : UNIFORM;
}

/* The next call, after `before` good ones; what it should leave in the residuals of failed ranks.
 */
static void faulty_step(struct training *t, float expected[][1500])
{
    draw(t, 1);
    for (int r = 0; r < t->job.size; r++) {
        const float *left = training_residual(t, r), *g = t->gradient[r];
        for (size_t i = 0; i < t->n; i++)
            expected[r][i] = g[i] + (left ? left[i] : 0);
        t->job.in[r] = g;
    }
    assert_true(job_call(&t->job, SS_F32, SS_SUM, t->n));
    for (int r = 0; r < t->job.size; r++)
        if (t->job.status[r] < 0)
            assert_memory_equal(training_residual(t, r), expected[r], t->n * sizeof(float));
}

static bool failed_somewhere(const struct training *t)
{
    for (int r = 0; r < t->job.size; r++)
        if (t->job.status[r] < 0)
            return true;
    return false;
}

static void expect_broken_everywhere(struct training *t)
{
    assert_true(job_call(&t->job, SS_F32, SS_SUM, t->n));
    for (int r = 0; r < t->job.size; r++)
        assert_true(t->job.status[r] < 0);
}

static uint64_t sends_of_call(int size, bool uneven, int before, int rank)
{
    static struct training t;
    uint64_t sends = 0;

    open_for_fault(&t, size, uneven);
    for (int s = 0; s <= before; s++) {
        sends = ss_sim_sends(t.job.sim, rank);
        draw(&t, 1);
        training_step(&t, false);
    }
    assert_int_equal(uneven && size > 4, call_of(&t, 0)->f.c.x.phase_sent[SS_PHASE_BALANCE] > 0);
    sends = ss_sim_sends(t.job.sim, rank) - sends;
    training_close(&t);
    return sends;
}

typedef void fault_of(struct ss_sim_fault *fault, uint64_t send);

static void for_each_send(fault_of *kind, void (*check)(struct training *t))
{
    static struct training t;
    static float expected[7][1500];

    for (int size = 2; size <= 7; size += 5)
        for (int before = 0; before < 3; before += 2)
            for (int rank = 0; rank < size; rank += 2) {
                bool uneven = rank != 2;
                uint64_t sends = sends_of_call(size, uneven, before, rank);
                for (uint64_t n = 1; n <= sends; n++) {
                    open_for_fault(&t, size, uneven);
                    for (int s = 0; s < before; s++) {
                        draw(&t, 1);
                        training_step(&t, false);
                    }
                    struct ss_sim_fault fault = {.rank = rank};
                    kind(&fault, ss_sim_sends(t.job.sim, rank) + n);
                    ss_sim_set_fault(t.job.sim, fault);
                    faulty_step(&t, expected);
                    check(&t);
                    training_close(&t);
                }
            }
}

static void refuse(struct ss_sim_fault *fault, uint64_t send)
{
    fault->fail_send = send;
}

static void lose(struct ss_sim_fault *fault, uint64_t send)
{
    fault->lose_send = send;
}

static void damage(struct ss_sim_fault *fault, uint64_t send)
{
    fault->corrupt_send = send;
    fault->corrupt_byte = send % 3 == 0 ? 40 : send % 3;
}

/* Without a timeout: the virtual clock must not have stood still. */
static void check_refused(struct training *t)
{
    for (int r = 0; r < t->job.size; r++)
        assert_int_not_equal(t->job.status[r], SS_ERR_TIMEOUT);
    if (failed_somewhere(t))
        expect_broken_everywhere(t);
}

static void a_refused_send_ends_on_all_ranks(void **state)
{
    (void)state;
    for_each_send(refuse, check_refused);
}

static void check_damaged(struct training *t)
{
    if (failed_somewhere(t))
        expect_broken_everywhere(t);
}

static void a_damaged_message_leaves_nobody_waiting(void **state)
{
    (void)state;
    for_each_send(damage, check_damaged);
}

/* The error names the phase, such as that of the agreement, and the rank that does not answer. */
static void check_lost(struct training *t)
{
    static const char *const phases[] = {"vote", "exchange", "agreement", "balancing", "allgather"};
    bool named = false;

    for (int r = 0; r < t->job.size; r++) {
        char text[300], rank[32];
        if (t->job.status[r] != SS_ERR_TIMEOUT)
            continue;
        ss_call_explain(ss_comm_call(t->job.comm[r]), text, sizeof text);
        snprintf(rank, sizeof rank, "rank %d: timeout in the ", r);
        for (size_t p = 0; p < sizeof phases / sizeof phases[0]; p++)
            named = named || (strncmp(text, rank, strlen(rank)) == 0 &&
                              strncmp(text + strlen(rank), phases[p], strlen(phases[p])) == 0);
    }
    assert_true(named);
    expect_broken_everywhere(t);
}

static void a_lost_message_ends_by_timeout(void **state)
{
    (void)state;
    for_each_send(lose, check_lost);
}

/* Out of memory once the vote is over: at the start, after the exchange, before balancing. */
static void a_rank_without_memory_fails_all(void **state)
{
    static struct training t;
    static float expected[7][1500];

    (void)state;
    for (int size = 2; size <= 7; size += 5)
        for (int poor = 0; poor < size; poor++)
            for (int what = 0; what < (size > 4 ? 5 : 4); what++) {
                open_for_fault(&t, size, true);
                for (int s = 0; s < 2; s++) {
                    draw(&t, 1);
                    training_step(&t, false);
                }
                struct ss_work *w = &t.job.comm[poor]->work;
                struct ss_buf *gone[] = {&w->arena, &w->marks, &w->idx[2], &w->idx[0], &w->idx[1]};
                ss_buf_free(gone[what]);
                t.job.starve_rank = poor;
                t.job.starve_after_vote = true;
                faulty_step(&t, expected);
                for (int r = 0; r < size; r++)
                    assert_int_equal(t.job.status[r], r == poor ? SS_ERR_MEMORY : SS_ERR_PEER);
                t.job.starve_after_vote = false;
                expect_broken_everywhere(&t);
                training_close(&t);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_that_differs_is_made_anew_by_all),
        cmocka_unit_test(a_refused_send_ends_on_all_ranks),
        cmocka_unit_test(a_damaged_message_leaves_nobody_waiting),
        cmocka_unit_test(a_lost_message_ends_by_timeout),
        cmocka_unit_test(a_rank_without_memory_fails_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
