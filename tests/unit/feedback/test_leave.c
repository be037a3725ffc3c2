/* A tensor that leaves top-k keeps what its lossy calls held back, and gives it back in dense
 * calls, a sixteenth at a time where it is larger than the input. */
#include <stdio.h>

#include "core/call/tensor_access.h"
#include "core/tensor/residual.h"
#include "tests/unit/support/feedback_job.h"

/* A gradient: half of it is common to all ranks. */
static void draw_gradient(struct training *t, uint64_t step)
{
    static float common[N];

    draw(t, 0, 10000 + step, 1);
    memcpy(common, t->gradient[0][0], sizeof common);
    draw(t, 0, step, 1);
    for (int r = 0; r < P; r++)
        for (size_t i = 0; i < N; i++)
            t->gradient[0][r][i] += common[i];
}

static void train(struct training *t, uint64_t first, int steps)
{
    for (int step = 0; step < steps; step++) {
        draw_gradient(t, first + (uint64_t)step);
        call(t, 0, step % 2);
    }
}

static double norm(const struct training *t, int rank)
{
    return ss_residual_norm(tensor_of(t, rank, 0));
}

/* A call, by which the residual of every rank becomes `share` of what it was. */
static void expect_share(struct training *t, double share)
{
    double before[P];

    for (int r = 0; r < P; r++)
        before[r] = norm(t, r);
    assert_int_equal(call(t, 0, false), SS_NATIVE);
    for (int r = 0; r < P; r++)
        assert_true(fabs(norm(t, r) - share * before[r]) < 1e-5 * before[r]);
}

/* Registered, some steps lossy, then made exact. */
static void open_and_leave(struct training *t)
{
    training_open(t, "count=1::calls=1", settings_of(SS_SPLIT_ALLGATHER));
    train(t, 0, 40);
    for (int r = 0; r < P; r++) {
        assert_int_equal(tensor_of(t, r, 0)->state, SS_TENSOR_REGISTERED);
        ss_tensor_settle(tensor_of(t, r, 0), false, SS_TENSOR_GUARDED);
        assert_true(norm(t, r) > 0);
    }
}

static void a_residual_above_its_input_leaves_by_sixteenths(void **state)
{
    static struct training t;

    (void)state;
    open_and_leave(&t);
    draw_gradient(&t, 100);
    expect_share(&t, 15.0 / 16);
    draw(&t, 0, 0, 0); /* zeros */
    expect_share(&t, 15.0 / 16);
    expect_conservation(&t, 42);
    training_close(&t);
}

static void a_residual_below_its_input_leaves_at_once(void **state)
{
    static struct training t;

    (void)state;
    open_and_leave(&t);
    draw(&t, 0, 5, 1e7);
    expect_share(&t, 0);
    training_close(&t);
}

static void in_the_end_all_of_it_is_sent(void **state)
{
    static struct training t;
    char text[600];

    (void)state;
    open_and_leave(&t);
    train(&t, 200, 200);
    for (int r = 0; r < P; r++) {
        assert_null(tensor_of(&t, r, 0)->residual.values.data);
        assert_int_equal(ss_comm_unsent(t.job.comm[r], text, sizeof text), 0);
    }
    expect_conservation(&t, 242);
    training_close(&t);
}

static void what_remains_at_the_end_is_named_with_its_norm(void **state)
{
    static struct training t;
    char text[600], expected[64];

    (void)state;
    open_and_leave(&t);
    train(&t, 300, 3);
    for (int r = 0; r < P; r++) {
        snprintf(expected, sizeof expected, "ends with a residual of norm %.3g on rank %d",
                 norm(&t, r), r);
        assert_int_equal(ss_comm_unsent(t.job.comm[r], text, sizeof text), 1);
        assert_non_null(strstr(text, "6007 float"));
        assert_non_null(strstr(text, expected));
        assert_int_equal(ss_comm_unsent(t.job.comm[r], text, sizeof text), 0);
    }
    training_close(&t);
}

static void set_site(struct training *t, int rank, uint64_t hash)
{
    struct ss_call_site site = {.hash = hash, .path = 1};

    t->job.comm[rank]->caller.site = site;
}

/* Then the ranks hold different tensors, one of which has left. */
static void one_rank_that_calls_from_elsewhere_ends_like_the_others(void **state)
{
    static struct training t;

    (void)state;
    for (int sent = 0; sent < 2; sent++) {
        training_open(&t, "site=*:calls=1", settings_of(SS_SPLIT_ALLGATHER));
        for (int r = 0; r < P; r++)
            set_site(&t, r, 7);
        train(&t, 0, 40);
        for (int r = 0; r < P; r++)
            ss_tensor_settle(tensor_of(&t, r, 0), false, SS_TENSOR_GUARDED);
        train(&t, 200, sent ? 200 : 3);
        set_site(&t, 0, 9);
        for (uint64_t k = 0; k < 12; k++) {
            draw_gradient(&t, 500 + k);
            call(&t, 0, false); /* asserts one status on all ranks */
        }
        training_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_residual_above_its_input_leaves_by_sixteenths),
        cmocka_unit_test(a_residual_below_its_input_leaves_at_once),
        cmocka_unit_test(in_the_end_all_of_it_is_sent),
        cmocka_unit_test(what_remains_at_the_end_is_named_with_its_norm),
        cmocka_unit_test(one_rank_that_calls_from_elsewhere_ends_like_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
