/* Values that travel in fewer bits inside calls (core/README.md, Rounding):
 * nothing is lost, replicas stay replicas, residuals stay bounded, the stochastic form is unbiased.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/coll/algorithms.h"
#include "tests/unit/support/rounding_job.h"

/* Streams that turn dense underway, and streams of several chunks whose sends wait for one another:
 * what a rank adds itself is what it has sent. */
static void nothing_is_lost_of_long_streams(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (int large = 0; large < 2; large++)
            for (int size = 2; size <= MOST_P; size += large ? 7 : 1) {
                struct ss_settings settings = settings_of(&forms[f]);
                if (settings.density < 1)
                    settings.density = 0.4;
                settings.coding = SS_CODING_BITMAP;
                if (large && forms[f].values != SS_VALUES_Q4)
                    continue;
                /* 68,000 entries are three chunks */
                training_open(&t, size, SS_F32, large ? 170000 : N, (uint64_t)size * 3, settings);
                if (large)
                    ss_sim_set_eager(t.job.sim, 0);
                for (uint64_t s = 0; s < (large ? 2 : 5); s++) {
                    draw(&t, HEAVY, s);
                    training_step(&t, s & 1);
                }
                if (forms[f].algorithm != SS_AUTO)
                    assert_int_equal(t.sparse, large ? 2 : 5);
                expect_conservation(&t, form_name(&forms[f]));
                training_close(&t);
            }
}

/* Integers times 2^-20, small enough that no sum is ever rounded. bf16 and q2 round them to such
 * numbers (the levels of q8 and q4 need not be any): then all balances to the last bit. */
static void integers_balance_to_the_last_bit(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++) {
        if (forms[f].values != SS_VALUES_BF16 && forms[f].values != SS_VALUES_Q2)
            continue;
        for (int size = 2; size <= MOST_P; size++) {
            training_open(&t, size, SS_F32, N, 0, settings_of(&forms[f]));
            for (uint64_t s = 0; s < STEPS; s++) {
                for (int r = 0; r < size; r++)
                    for (size_t i = 0; i < N; i++)
                        put(SS_F32, t.gradient[r], i,
                            round(2048 * (unit(s * 977 + (uint64_t)r * 7919 + i * 104729) - 0.5)) *
                                0x1p-20);
                training_step(&t, s & 1);
            }
            for (size_t i = 0; i < N; i++)
                assert_true(t.in[i] == t.out[i] + training_left(&t, i));
            training_close(&t);
        }
    }
}

static double residual_norm(const struct training *t)
{
    double square = 0;

    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++) {
            double x = training_residual(t, r) ? get(t->type, training_residual(t, r), i) : 0;
            square += x * x;
        }
    return sqrt(square);
}

/* Input of about the same norm: what the residual reached in a tenth of the steps, ten times as
 * many as an element waits on average, it does not pass by much in the rest. */
static void check_bounded(const struct form *form, int size)
{
    enum { CALLS = 500 };
    static struct training t;
    double early = 0, late = 0;
    struct ss_settings settings = settings_of(form);

    settings.density = 0.2;
    training_open(&t, size, SS_F32, 301, 0, settings);
    for (uint64_t s = 0; s < CALLS; s++) {
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < t.n; i++)
                put(SS_F32, t.gradient[r], i,
                    2 * unit(s * 1000003 + (uint64_t)r * 7919 + i * 104729) - 1);
        training_step(&t, false);
        double norm = residual_norm(&t);
        if (s < CALLS / 10)
            early = fmax(early, norm);
        else
            late = fmax(late, norm);
    }
    if (late > 2 * early)
        fail_msg("%s on %d ranks, values %s: residual norm %g in the first tenth, later %g",
                 ss_algorithm_name(form->algorithm), size, ss_value_type_name(form->values), early,
                 late);
    training_close(&t);
}

static void residuals_stay_bounded(void **state)
{
    (void)state;
    for (int f = 0; f < FORMS; f++)
        check_bounded(&forms[f], 2 + f % 4);
    for (int a = SS_AUTO; a < SS_DENSE; a++)
        check_bounded(&(struct form){(enum ss_algorithm)a, SS_VALUES_SAME}, 2 + a % 4);
}

/* Whatever the order of delivery: the same bits on all ranks, in results and residuals. */
static void check_replicas(const struct form *form, int size)
{
    static struct training t[2];

    for (int j = 0; j < 2; j++) {
        training_open(&t[j], size, SS_F32, 900, j == 0 ? 0 : 77 + (uint64_t)size,
                      settings_of(form));
        for (uint64_t s = 0; s < 3; s++) { /* two buffers, in place, and what that leaves */
            draw(&t[j], HEAVY, s);
            training_step(&t[j], s & 1); /* compares the ranks */
        }
        expect_conservation(&t[j], form_name(form));
    }
    expect_same_bits(&t[0], &t[1]);
    training_close(&t[0]);
    training_close(&t[1]);
}

/* On many ranks every third of the forms, which has each algorithm and each value type. */
static void many_replicas_stay_identical(void **state)
{
    static const int sizes[] = {16, 33, 64};

    (void)state;
    for (size_t p = 0; p < sizeof sizes / sizeof sizes[0]; p++) {
        for (int f = 0; f < FORMS; f += sizes[p] == 16 ? 1 : 3)
            check_replicas(&forms[f], sizes[p]);
        for (int a = SS_AUTO; a < SS_DENSE; a++)
            check_replicas(&(struct form){(enum ss_algorithm)a, SS_VALUES_SAME}, sizes[p]);
    }
}

/* Without feedback: the same input again and again gives sums whose mean is the sum, within what
 * Hoeffding's inequality allows with an error probability of 1e-9 in all; and no residual at all.
 */
static void stochastic_sums_are_right_in_the_mean_and_not_booked(void **state)
{
    enum { ELEMENTS = 512, CALLS = 1500 };
    static struct training t;
    static double sum[ELEMENTS], step_of[ELEMENTS];

    (void)state;
    for (enum ss_values quant = SS_VALUES_Q8; quant <= SS_VALUES_Q2; quant++) {
        struct form form = {SS_DSAR, quant};
        struct ss_settings settings = settings_of(&form);
        int levels = quant == SS_VALUES_Q8 ? 127 : quant == SS_VALUES_Q4 ? 7 : 1;
        settings.density = 1;
        settings.value_type = SS_VALUE_TYPES + (quant - SS_VALUES_Q8);
        training_open(&t, 4, SS_F32, ELEMENTS, 0, settings);
        draw(&t, HEAVY, 0);
        memset(sum, 0, sizeof sum);
        for (int calls = 0; calls < CALLS; calls++) {
            training_step(&t, false);
            assert_int_equal(t.sparse, calls + 1);
            for (size_t i = 0; i < ELEMENTS; i++)
                sum[i] += get(SS_F32, t.job.out[0], i);
            assert_true(residual_norm(&t) == 0);
        }
        for (size_t first = 0; first < ELEMENTS; first += 64) { /* parts are of 128 */
            double square = 0;
            for (size_t i = first; i < first + 64; i++)
                square += (double)(t.in[i] * t.in[i]) / CALLS / CALLS;
            for (size_t i = first; i < first + 64; i++)
                step_of[i] = sqrt(square) / levels;
        }
        double limit = sqrt(log(2 * ELEMENTS / 1e-9) / (2 * CALLS)), moved = 0;
        for (size_t i = 0; i < ELEMENTS; i++) {
            double off = (sum[i] - (double)t.in[i]) / CALLS / step_of[i];
            if (fabs(off) > limit + 1e-4)
                fail_msg("%s, element %zu: the mean is off by %g steps", ss_value_type_name(quant),
                         i, off);
            moved += fabs(off);
        }
        assert_true(moved > 0);
        training_close(&t);
    }
}

/* Two runs give the same bits, whatever the order of delivery. */
static void the_stochastic_form_repeats(void **state)
{
    static struct training t[2];
    const struct form form = {SS_DSAR, SS_VALUES_Q4};

    (void)state;
    for (int j = 0; j < 2; j++) {
        struct ss_settings settings = settings_of(&form);
        settings.value_type = SS_QSGD4;
        training_open(&t[j], 5, SS_F32, N, j == 1 ? 99 : 0, settings);
        for (uint64_t s = 0; s < STEPS; s++) {
            draw(&t[j], HEAVY, s);
            training_step(&t[j], false);
        }
    }
    expect_same_bits(&t[0], &t[1]);
    for (int j = 0; j < 2; j++)
        training_close(&t[j]);
}

/* Two of the largest numbers: the sum is infinite on all ranks, and no residual shows it. */
static void an_overflow_arrives_and_leaves_no_trace(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (int size = 2; size <= 5; size++) {
            if (forms[f].algorithm == SS_AUTO)
                continue;
            const bool whole = (SS_WHOLE_ALGORITHMS >> forms[f].algorithm & 1u) != 0;
            training_open(&t, size, SS_F32, N, 0, settings_of(&forms[f]));
            draw(&t, HEAVY, 0);
            training_step(&t, false);
            draw(&t, HEAVY, 1);
            for (int r = 0; r < 2; r++)
                put(SS_F32, t.gradient[r], 1234, (double)FLT_MAX);
            training_step(&t, false);
            assert_int_equal(t.sparse, 2);
            for (int r = 0; r < size; r++) {
                if (isfinite(get(SS_F32, t.job.out[r], 1234)))
                    fail_msg("%s, P = %d: %g", form_name(&forms[f]), size,
                             get(SS_F32, t.job.out[r], 1234));
                for (size_t i = 0; i < N; i++)
                    assert_true(isfinite(get(SS_F32, training_residual(&t, r), i)));
                assert_true(whole || fabs(get(SS_F32, training_residual(&t, r), 1234)) <= 1);
            }
            if (whole) { /* the other sums of the bucket are lost, too */
                training_close(&t);
                continue;
            }
            t.in[1234] = t.out[1234] = t.magnitude[1234] = 0;
            for (int r = 0; r < size; r++)
                put(SS_F32, ss_tensors_first(t.job.comm[r]->tensors)->residual.values.data, 1234,
                    0);
            expect_conservation(&t, form_name(&forms[f]));
            training_close(&t);
        }
}

static struct ss_shape shape_of(const struct ss_call *c, const struct ss_settings *settings)
{
    const struct ss_ballot *b = &c->f.vote.ballot;

    return (struct ss_shape){.algorithms = ss_algorithms(SS_KIND_ALLREDUCE),
                             .n = c->f.c.x.n,
                             .size = c->f.c.x.t->size,
                             .type = c->f.c.x.type,
                             .topk = true,
                             .whole = settings->density >= 1,
                             .k = b->k_max,
                             .values = ss_values_of(settings->value_type),
                             .bucket = settings->quant_bucket,
                             .nnz_sum = b->nnz_sum,
                             .nnz_max = b->nnz_max,
                             .part_max = b->part_max,
                             .memory_min = b->memory_min};
}

/* What the plan predicts for rounded values is what is sent, and the work space holds. */
static void bytes_and_memory_are_those_predicted(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (int size = 2; size <= 8; size += size < 4 ? 1 : 4) {
            enum ss_algorithm a = forms[f].algorithm;
            struct ss_settings settings = settings_of(&forms[f]);
            double sent = 0, memory = 0;
            if (a == SS_AUTO)
                continue;
            if (settings.density < 1)
                settings.density = 0.01;
            settings.quant_bucket = 1024;
            training_open(&t, size, SS_F32, 1 << 17, 0, settings);
            draw(&t, HEAVY, 0);
            training_step(&t, false);
            assert_int_equal(t.sparse, 1);
            const struct ss_call *c = ss_comm_call(t.job.comm[0]);
            const struct ss_plan plan = c->plan;
            struct ss_shape shape = shape_of(c, &settings);
            for (int r = 0; r < size; r++) {
                const struct ss_work *w = &t.job.comm[r]->works[0];
                c = ss_comm_call(t.job.comm[r]);
                sent = fmax(sent, (double)(c->f.c.x.bytes_sent - c->f.vote.bytes));
                memory =
                    fmax(memory, (double)(ss_work_kept(w) + w->own_idx.size + w->own_val.size));
            }
            /* oktopk: parts of a few hundred entries differ too much to be told from k */
            if (a != SS_OKTOPK && fabs(plan.bytes[a] - sent) > 0.15 * sent)
                fail_msg("%s, values %s, P=%d: %g bytes predicted, %g sent", ss_algorithm_name(a),
                         ss_value_type_name(forms[f].values), size, plan.bytes[a], sent);
            if (memory > ss_plan_memory(&shape, a))
                fail_msg("%s, values %s, P=%d: %g bytes of memory planned, %g used",
                         ss_algorithm_name(a), ss_value_type_name(forms[f].values), size,
                         ss_plan_memory(&shape, a), memory);
            training_close(&t);
        }
}

/* MODE=quant sends every element; an algorithm that returns only the largest of the sum means auto
 * there. With a smaller density it runs. */
static void quant_takes_algorithms_of_the_largest_entries_for_auto(void **state)
{
    static const enum ss_algorithm global[] = {SS_OKTOPK, SS_GTOPK};
    static struct training t;

    (void)state;
    for (int g = 0; g < 2; g++)
        for (int part = 0; part < 2; part++) {
            struct ss_settings settings = settings_of(&(struct form){SS_QUANTIZED, SS_VALUES_Q4});
            settings.algorithm = global[g];
            if (part)
                settings.density = 0.05;
            training_open(&t, 4, SS_F32, 1 << 17, 0, settings);
            draw(&t, HEAVY, 0);
            training_step(&t, false);
            assert_int_equal(t.sparse, 1);
            assert_int_equal(ss_call_algorithm(ss_comm_call(t.job.comm[0])),
                             part ? global[g] : SS_QUANTIZED);
            training_close(&t);
        }
}

/* The zeros of an embedding's gradient lie together. The block that is counted meets them as often
 * as any other elements. */
static void the_density_of_whole_results_is_that_of_all_blocks(void **state)
{
    enum { COUNT = 1 << 17, ZEROS = 20000, CALLS = 100 };
    static struct training t;

    (void)state;
    training_open(&t, 2, SS_F32, COUNT, 0, settings_of(&(struct form){SS_QUANTIZED, SS_VALUES_Q4}));
    for (int r = 0; r < 2; r++)
        for (size_t i = 0; i < COUNT; i++)
            put(SS_F32, t.gradient[r], i, i % (COUNT / 2) < ZEROS ? 0 : 1);
    for (int s = 0; s < CALLS; s++)
        training_step(&t, false);
    assert_int_equal(t.sparse, CALLS);
    const struct ss_lane_record *record = t.job.stats->lanes;
    const double density = record->fillin_sum / (double)record->fillin_calls;
    assert_true(fabs(density - (1 - 2.0 * ZEROS / COUNT)) < 0.1);
    training_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_of_long_streams),
        cmocka_unit_test(integers_balance_to_the_last_bit),
        cmocka_unit_test(residuals_stay_bounded),
        cmocka_unit_test(many_replicas_stay_identical),
        cmocka_unit_test(stochastic_sums_are_right_in_the_mean_and_not_booked),
        cmocka_unit_test(the_stochastic_form_repeats),
        cmocka_unit_test(an_overflow_arrives_and_leaves_no_trace),
        cmocka_unit_test(bytes_and_memory_are_those_predicted),
        cmocka_unit_test(quant_takes_algorithms_of_the_largest_entries_for_auto),
        cmocka_unit_test(the_density_of_whole_results_is_that_of_all_blocks),
    };
    return cmocka_run_group_tests_name("rounding", tests, NULL, NULL);
}
