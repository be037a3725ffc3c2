/* What is no gradient is told from one by what the ranks' inputs have in common, with each other
 * and with those of calls before. */
#include <math.h>

#include "tests/unit/support/tensor_data.h"

enum { LONG = 12000, STEPS = 50 };

typedef void fill(struct job *job, struct data *d, int step);

/* Thirty steps and more of it; the tensor of rank 0. */
static const struct ss_tensor *after(fill *fill_in, int size, size_t n, int steps)
{
    static struct job *job;
    static struct data d;

    if (job) {
        job_close(job);
        data_free(&d);
    }
    job = job_open(size, SS_IDENTITY_AUTO, 3, "auto");
    d = data_make(SS_F32, n);
    for (int step = 0; step < steps; step++) {
        fill_in(job, &d, step);
        call_with(job, &d, 0);
    }
    for (int r = 1; r < size; r++)
        assert_int_equal(ss_tensors_first(job->tensors[r])->state,
                         ss_tensors_first(job->tensors[0])->state);
    return ss_tensors_first(job->tensors[0]);
}

static void expect_refused(fill *fill_in, enum ss_tensor_reason reason)
{
    static const size_t counts[] = {LONG, N};

    for (int size = 2; size <= 4; size++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            const struct ss_tensor *t = after(fill_in, size, counts[i], STEPS);
            assert_int_equal(t->state, SS_TENSOR_EXACT);
            assert_int_equal(t->reason, reason);
            assert_int_equal(t->admission.decided, reason);
            assert_true(t->admission.decided_at > 0 && t->admission.decided_at <= 34);
        }
}

static void expect_taken(fill *fill_in)
{
    for (int size = 2; size <= 4; size++)
        assert_int_equal(after(fill_in, size, LONG, STEPS)->state, SS_TENSOR_REGISTERED);
}

static int block = 1; /* elements */

static void fill_gather(struct job *job, struct data *d, int step)
{
    (void)step;
    for (size_t i = 0; i < d->n; i++)
        for (int r = 0; r < job->size; r++)
            set(d, r, i, (int)(i / (size_t)block) % job->size == r ? noise(job) : 0);
}

static void fill_gather_by_lot(struct job *job, struct data *d, int step)
{
    (void)step;
    for (size_t i = 0; i < d->n; i++)
        for (int r = 0; r < job->size; r++)
            set(d, r, i, (int)(ss_mix(7, i) >> 40) % job->size == r ? noise(job) : 0);
}

static void elements_that_one_rank_each_fills_are_a_gather(void **state)
{
    (void)state;
    for (block = 1; block <= 48; block += block < 4 ? 1 : 11)
        expect_refused(fill_gather, SS_TENSOR_PARTS);
    expect_refused(fill_gather_by_lot, SS_TENSOR_PARTS);
}

/* One rank has numbers that are new in each call, the others zeros. */
static int turns; /* 0: always the same rank */

static void fill_broadcast(struct job *job, struct data *d, int step)
{
    for (size_t i = 0; i < d->n; i++)
        for (int r = 0; r < job->size; r++)
            set(d, r, i, r == step * turns % job->size ? noise(job) : 0);
}

static void what_one_rank_alone_has_is_a_broadcast(void **state)
{
    (void)state;
    for (turns = 0; turns <= 1; turns++)
        expect_refused(fill_broadcast, SS_TENSOR_PARTS);
}

/* In every third call one rank alone has something to learn. */
static void fill_gradient_at_times_alone(struct job *job, struct data *d, int step)
{
    new_gradient(job, d);
    for (size_t i = 0; i < d->n; i++)
        for (int r = 1; r < job->size && step % 3 == 2; r++)
            set(d, r, i, 0);
}

static void a_gradient_that_one_rank_alone_has_at_times_is_taken(void **state)
{
    (void)state;
    expect_taken(fill_gradient_at_times_alone);
}

static void what_one_rank_alone_has_is_exact_among_calls_of_a_gradient(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) {
        struct ss_watch w = {.hash = 0};
        struct ss_evidence one, all;
        static float sample[SS_SAMPLE_LEAST];
        for (int alone = 0; alone < 2; alone++) {
            ss_evidence_init(&all);
            for (int r = 0; r < size; r++) {
                for (int i = 0; i < SS_SAMPLE_LEAST; i++)
                    sample[i] = alone && r > 0
                                    ? 0
                                    : (float)(ss_mix((uint64_t)r, (uint64_t)i) >> 40) - (1 << 23);
                ss_evidence_show(&one, &w, SS_F32, sample, SS_SAMPLE_LEAST, false);
                ss_evidence_merge(&all, &one);
            }
            assert_int_equal(ss_watch_judge(&w, &all, size).alone, alone);
        }
    }
}

/* Of each rank 40 % of the elements are not zero, by chance, the same for all in half of them. */
static void fill_sparse_gradient(struct job *job, struct data *d, int step)
{
    (void)step;
    for (size_t i = 0; i < d->n; i++) {
        double common = noise(job);
        bool all = noise(job) > 0.6;
        for (int r = 0; r < job->size; r++)
            set(d, r, i, all || noise(job) > 0.6 ? common + noise(job) : 0);
    }
}

static void a_sparse_gradient_is_no_gather(void **state)
{
    (void)state;
    expect_taken(fill_sparse_gradient);
}

static void fill_layers(struct job *job, struct data *d, int step)
{
    (void)step;
    for (size_t i = 0; i < d->n; i++)
        for (int r = 0; r < job->size; r++)
            set(d, r, i, noise(job));
}

static void inputs_that_have_nothing_in_common_are_a_divided_layer(void **state)
{
    (void)state;
    expect_refused(fill_layers, SS_TENSOR_LAYERS);
}

/* Each rank's data stays, what is common to the ranks changes. */
static void fill_full_batch(struct job *job, struct data *d, int step)
{
    for (size_t i = 0; i < d->n; i++) {
        double common = 0.7 * noise(job);
        for (int r = 0; r < job->size; r++) {
            double own = (double)(ss_mix((uint64_t)r + 1, i) >> 40) / (1 << 23) - 1;
            set(d, r, i, own + common + 0.01 * step);
        }
    }
}

static void inputs_that_come_again_are_of_data_that_stays(void **state)
{
    (void)state;
    expect_refused(fill_full_batch, SS_TENSOR_DATA);
}

/* Sums of a short recurrence: each resembles the two before, and none before these. */
static void fill_recurrence(struct job *job, struct data *d, int step)
{
    for (size_t i = 0; i < d->n; i++) {
        double now = (double)(ss_mix((uint64_t)step + 100, i) >> 40) / (1 << 23) - 1;
        double last = (double)(ss_mix((uint64_t)step + 99, i) >> 40) / (1 << 23) - 1;
        double before = (double)(ss_mix((uint64_t)step + 98, i) >> 40) / (1 << 23) - 1;
        for (int r = 0; r < job->size; r++)
            set(d, r, i, now - 1.4 * last + before + noise(job));
    }
}

static void sums_that_remember_the_last_one_alone_are_of_a_solver(void **state)
{
    (void)state;
    expect_refused(fill_recurrence, SS_TENSOR_SHORT);
}

/* ---- looked at again ---- */

/* A schedule that warms up, say: for 30 steps all ranks give nearly the same. */
static void fill_special_first(struct job *job, struct data *d, int step)
{
    for (size_t i = 0; i < d->n; i++) {
        double common = noise(job);
        for (int r = 0; r < job->size; r++)
            set(d, r, i, common + (step < 30 ? 0.02 : 2) * noise(job));
    }
}

static void a_training_whose_first_steps_are_special_is_taken_later(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) {
        const struct ss_tensor *t = after(fill_special_first, size, N, 60);
        assert_int_equal(t->state, SS_TENSOR_EXACT);
        assert_int_equal(t->reason, SS_TENSOR_AVERAGE);
        t = after(fill_special_first, size, N, 110);
        assert_int_equal(t->state, SS_TENSOR_REGISTERED);
        assert_int_equal(t->admission.decided, SS_TENSOR_AVERAGE);
    }
}

/* Large batches: the direction hardly changes at first, and does later. */
static void fill_descent(struct job *job, struct data *d, int step)
{
    bool late = step >= 60;

    for (size_t i = 0; i < d->n; i++) {
        double direction = (double)(ss_mix(5, i) >> 40) / (1 << 23) - 1;
        double common = late ? 0.5 * noise(job) + 0.2 * direction : direction;
        for (int r = 0; r < job->size; r++)
            set(d, r, i, common + 0.6 * noise(job));
    }
}

static void a_descent_is_taken_once_its_direction_changes(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) {
        const struct ss_tensor *t = after(fill_descent, size, N, 60);
        assert_int_equal(t->state, SS_TENSOR_EXACT);
        assert_int_equal(t->admission.decided, SS_TENSOR_CONSTANT);
        assert_int_equal(after(fill_descent, size, N, 300)->state, SS_TENSOR_REGISTERED);
    }
}

/* A solver that goes on behind its end: what it converged to, step after step, then noise that
 * grows or, without a check that ends it, falls, as new and as alike on the ranks as a gradient. */
static double octaves; /* of energy per step */

static void fill_behind_the_end(struct job *job, struct data *d, int step)
{
    double scale = step < 40 ? 1 : exp2(octaves / 2 * (step - 40));

    for (size_t i = 0; i < d->n; i++) {
        double converged = (double)(ss_mix(5, i) >> 40) / (1 << 23) - 1;
        double common = step < 40 ? converged : noise(job);
        for (int r = 0; r < job->size; r++)
            set(d, r, i, scale * (common + (step < 40 ? 0.6 : 1) * noise(job)));
    }
}

static void noise_of_a_solver_behind_its_end_is_not_taken_later(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++)
        for (octaves = -0.6; octaves < 1; octaves += 1.2) {
            const struct ss_tensor *t = after(fill_behind_the_end, size, LONG, 140);
            assert_int_equal(t->state, SS_TENSOR_EXACT);
            assert_int_equal(t->admission.decided, SS_TENSOR_CONSTANT);
            assert_int_equal(t->reason, SS_TENSOR_DRIFT);
            assert_int_equal(t->admission.looks, 2);
        }
    octaves = 0;
    assert_int_equal(after(fill_behind_the_end, 2, LONG, 140)->state, SS_TENSOR_REGISTERED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_that_one_rank_each_fills_are_a_gather),
        cmocka_unit_test(what_one_rank_alone_has_is_a_broadcast),
        cmocka_unit_test(a_gradient_that_one_rank_alone_has_at_times_is_taken),
        cmocka_unit_test(what_one_rank_alone_has_is_exact_among_calls_of_a_gradient),
        cmocka_unit_test(a_sparse_gradient_is_no_gather),
        cmocka_unit_test(inputs_that_have_nothing_in_common_are_a_divided_layer),
        cmocka_unit_test(inputs_that_come_again_are_of_data_that_stays),
        cmocka_unit_test(sums_that_remember_the_last_one_alone_are_of_a_solver),
        cmocka_unit_test(a_training_whose_first_steps_are_special_is_taken_later),
        cmocka_unit_test(a_descent_is_taken_once_its_direction_changes),
        cmocka_unit_test(noise_of_a_solver_behind_its_end_is_not_taken_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
