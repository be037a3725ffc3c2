/* Registered gradients rest while no plan is sparse: nothing is claimed, all arrives, and the lane
 * backs off (core/README.md, invariant 8). */
#include "tests/unit/support/training.h"

enum { SIZE = 4, N = 6007 };

static void draw(struct training *t, uint64_t step)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++)
            put(t->type, t->gradient[r], i,
                (double)(int64_t)mix(step * 1000003 + (uint64_t)r * 7919 + i + 1) / 9.3e18);
}

static void open_job(struct training *t, double density, double alpha)
{
    struct ss_settings settings = training_settings(SS_AUTO);

    settings.density = density;
    settings.alpha = alpha;
    training_open(t, SIZE, SS_F32, N, 0, settings);
}

static const struct ss_tensor *tensor_of(const struct training *t, int rank)
{
    return ss_tensors_first(t->job.comm[rank]->tensors);
}

static void where_dense_wins_nothing_is_claimed_and_the_lane_backs_off(void **state)
{
    static struct training t;
    unsigned votes;

    (void)state;
    open_job(&t, 0.9, 1e-5);
    for (uint64_t s = 0; s < 100; s++) {
        draw(&t, s);
        training_step(&t, s & 1);
        assert_true(training_drained(&t)); /* nothing is kept back, at any time */
    }
    votes = t.job.comm[0]->calls;
    assert_int_equal(t.native, 100);
    assert_in_range(votes, 1, 7);
    for (int r = 0; r < SIZE; r++) {
        assert_int_equal(tensor_of(&t, r)->state, SS_TENSOR_REGISTERED);
        assert_int_equal(tensor_of(&t, r)->threshold.calls, 0);
    }
    expect_conservation(&t, "dense");
    training_close(&t);
}

static void where_sparse_wins_the_first_call_is_sparse(void **state)
{
    static const double betas[] = {1e-9, 1e-6}; /* on a slow link by oktopk */
    static struct training t;

    (void)state;
    for (size_t b = 0; b < 2; b++) {
        open_job(&t, 0.01, 1e-6);
        for (int r = 0; r < SIZE; r++)
            t.job.settings[r].beta = betas[b];
        for (uint64_t s = 0; s < 20; s++) {
            draw(&t, s);
            training_step(&t, s & 1);
            enum ss_algorithm a = ss_call_algorithm(ss_comm_call(t.job.comm[0]));
            assert_int_equal(a == SS_OKTOPK, b == 1);
            assert_int_equal(t.sparse, s + 1);
            assert_int_equal(tensor_of(&t, 0)->threshold.calls, s + 1); /* selected once a call */
        }
        expect_conservation(&t, "sparse");
        training_close(&t);
    }
}

/* The claims of a call that wakes its tensor are voted on like those of any other. */
static void what_is_not_finite_is_seen_when_it_wakes(void **state)
{
    static struct training t;

    (void)state;
    open_job(&t, 0.01, 1e-6);
    draw(&t, 0);
    put(SS_F32, t.gradient[2], 17, (double)INFINITY);
    training_call(&t, false);
    assert_int_equal(t.job.status[0], SS_NATIVE);
    assert_int_equal(ss_call_reason(ss_comm_call(t.job.comm[0])), SS_WHY_NOT_FINITE);
    assert_true(training_drained(&t));
    draw(&t, 1);
    training_step(&t, false);
    assert_int_equal(t.sparse, 1);
    training_close(&t);
}

/* A nonblocking call that callbacks of the program send to the MPI library takes the residual
 * along, but not if it has an input that is not finite. */
static void what_is_not_finite_keeps_the_residual_out_of_a_call_for_callbacks(void **state)
{
    static struct training t;

    (void)state;
    open_job(&t, 0.01, 1e-6);
    for (uint64_t s = 0; s < 4; s++) {
        draw(&t, s);
        training_step(&t, false);
    }
    for (int finite = 0; finite < 2; finite++) {
        draw(&t, 4);
        if (!finite)
            put(SS_F32, t.gradient[2], 17, (double)NAN);
        for (int r = 0; r < SIZE; r++)
            t.job.comm[r]->caller = (struct ss_caller){.callbacks = true, .nonblocking = true};
        training_call(&t, false);
        assert_int_equal(t.job.status[0], SS_NATIVE);
        assert_int_equal(ss_call_reason(ss_comm_call(t.job.comm[0])), SS_WHY_CALLBACKS);
        assert_int_equal(ss_call_joined(ss_comm_call(t.job.comm[1])), finite);
    }
    training_close(&t);
}

/* A rank without memory for the claims: all go native, and later calls are sparse. */
static void a_rank_that_cannot_select_says_so_when_it_wakes(void **state)
{
    static struct training t;

    (void)state;
    open_job(&t, 0.01, 1e-6);
    draw(&t, 0);
    t.job.starve_after_vote = true;
    t.job.starve_rank = 1;
    training_step(&t, false);
    assert_int_equal(t.native, 1);
    assert_int_equal(ss_call_reason(ss_comm_call(t.job.comm[0])), SS_WHY_CANNOT);
    training_close(&t);
}

/* A microsecond passes whenever somebody looks. */
static double ticking(struct ss_transport *t)
{
    static double now;

    (void)t;
    return now += 1e-6;
}

/* A call that looks for the threshold takes three times as long: the plan counts the ordinary ones,
 * and measures what it predicts. */
static void the_search_for_a_threshold_is_not_what_a_selection_costs(void **state)
{
    static const size_t periods[] = {1, 8};
    static struct training t;

    (void)state;
    for (size_t p = 0; p < 2; p++) {
        struct ss_settings settings = training_settings(SS_ALLGATHER);
        settings.tensors.threshold_period = periods[p];
        training_open(&t, 2, SS_F32, N, 0, settings);
        struct ss_transport_ops ops[2];
        for (int r = 0; r < 2; r++) {
            ops[r] = *t.job.comm[r]->t->ops;
            ops[r].now = ticking;
            t.job.comm[r]->t->ops = &ops[r];
        }
        for (uint64_t s = 0; s < 20; s++) {
            draw(&t, s);
            training_step(&t, false);
            const struct ss_call *c = ss_comm_call(t.job.comm[0]);
            assert_true(c->f.c.x.spans.times.scan > 0);
            const struct ss_tensor *tensor = tensor_of(&t, 0);
            bool ordinary = tensor->threshold.exact_calls < tensor->threshold.calls;
            assert_int_equal(tensor->select_least > 0, ordinary);
            assert_true(!ordinary || periods[p] > 1);
        }
        assert_int_equal(tensor_of(&t, 0)->select_least > 0, periods[p] > 1);
        training_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_dense_wins_nothing_is_claimed_and_the_lane_backs_off),
        cmocka_unit_test(where_sparse_wins_the_first_call_is_sparse),
        cmocka_unit_test(what_is_not_finite_is_seen_when_it_wakes),
        cmocka_unit_test(what_is_not_finite_keeps_the_residual_out_of_a_call_for_callbacks),
        cmocka_unit_test(a_rank_that_cannot_select_says_so_when_it_wakes),
        cmocka_unit_test(the_search_for_a_threshold_is_not_what_a_selection_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
