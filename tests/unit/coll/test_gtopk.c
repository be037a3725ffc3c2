/* gTop-k: the tree of merges against a plain simulation of it on dense vectors, bit for bit; what
 * is cut under way is in exactly one residual. */
#include "core/coll/algorithms.h"
#include "tests/unit/support/gtopk_reference.h"

enum { K = 12, STEPS = 12 };

static struct ss_settings settings_of(size_t k, size_t n)
{
    struct ss_settings settings = training_settings(SS_GTOPK);

    settings.density = (double)k / (double)n;
    settings.tensors.threshold_period = 1;
    return settings;
}

static void expect_as(const struct training *t, const struct reference *ref,
                      const struct node *final)
{
    for (size_t i = 0; i < N; i++)
        assert_true(get(t->type, t->job.out[0], i) == (final->has[i] ? final->val[i] : 0));
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < N; i++)
            if (get(t->type, training_residual(t, r), i) != ref->residual[r][i])
                fail_msg("P = %d, rank %d, element %zu: residual %g, should be %g", t->job.size, r,
                         i, get(t->type, training_residual(t, r), i), ref->residual[r][i]);
}

/* ---- inputs ---- */

static void draw_heavy_tailed(struct training *t, uint64_t step)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++) {
            uint64_t h = mix(step * 1000003 + (uint64_t)r * 7919 + i * 104729 + 1);
            uint64_t shared =
                mix(step * 31 + i / 3); /* ranks agree somewhat on where it is large */
            double x = (double)(int64_t)h / 9.3e18, y = (double)(shared >> 40) / 16777216.0;
            put(t->type, t->gradient[r], i, x * (0.01 + y * y * y * y));
        }
}

/* Small integers, so that there are ties and sums that cancel; scaled by a power of two. */
static void draw_integers(struct training *t, uint64_t step, double scale)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++) {
            uint64_t h = mix(step * 1000003 + (uint64_t)r * 7919 + i * 104729 + 5);
            int x = h % 8 == 0 ? (int)(h >> 8 & 15) - 8 : 0;
            put(t->type, t->gradient[r], i, scale * x);
        }
}

static void set(struct training *t, int rank, size_t i, double x)
{
    put(t->type, t->gradient[rank], i, x);
}

static void clear_gradients(struct training *t)
{
    for (int r = 0; r < t->job.size; r++)
        memset(t->gradient[r], 0, t->n * 8);
}

/* ---- promises ---- */

static void results_and_residuals_equal_those_of_a_plain_tree(void **state)
{
    static struct training t;
    static struct reference ref;

    (void)state;
    for (int size = 2; size <= MOST; size++)
        for (int form = 0; form < 4; form++) {
            enum ss_type type = form & 1 ? SS_F64 : SS_F32;
            memset(&ref, 0, sizeof ref);
            ref.size = size;
            ref.type = type;
            ref.k = K;
            training_open(&t, size, type, N, 0, settings_of(K, N));
            for (uint64_t s = 0; s < STEPS; s++) {
                if (form & 2)
                    draw_integers(&t, s, 0.125);
                else
                    draw_heavy_tailed(&t, s);
                const struct node *final = reference_call(&ref, t.gradient);
                training_step(&t, s & 1);
                expect_as(&t, &ref, final);
            }
            assert_int_equal(t.sparse, STEPS);
            expect_conservation(&t, "gtopk");
            training_close(&t);
        }
}

static void expect_residual(const struct training *t, int rank, size_t i, double x)
{
    if (get(t->type, training_residual(t, rank), i) != x)
        fail_msg("rank %d, element %zu: residual %g, should be %g", rank, i,
                 get(t->type, training_residual(t, rank), i), x);
}

static void expect_result(const struct training *t, size_t at, double x)
{
    for (size_t i = 0; i < t->n; i++)
        assert_true(get(t->type, t->job.out[0], i) == (i == at ? x : 0));
}

/* Ranks 0 and 1 hold 2 each of element 5: their 4 is cut in favour of element 9, of which ranks 2
 * and 3 hold 3 each; but 4 to 7 bring element 5 back, with 5 each. */
static void a_sum_that_was_cut_while_its_index_arrived_is_in_one_residual(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, 8, SS_F32, 64, 0, settings_of(1, 64));
    for (int r = 0; r < 8; r++)
        set(&t, r, r == 2 || r == 3 ? 9 : 5, r < 2 ? 2 : r < 4 ? 3 : 5);
    training_step(&t, false);
    expect_result(&t, 5, 20);
    for (int r = 0; r < 8; r++)
        for (size_t i = 0; i < 64; i++)
            expect_residual(&t, r, i, i == 5 && r == 1 ? 4 : i == 9 && (r == 2 || r == 3) ? 3 : 0);
    clear_gradients(&t);
    training_step(&t, false); /* 4 against 3 + 3 */
    expect_result(&t, 9, 6);
    training_step(&t, false);
    expect_result(&t, 5, 4);
    assert_true(training_drained(&t));
    expect_balance(&t);
    training_close(&t);
}

/* Rank 0 folds into rank 1, whose own is larger; rank 2 brings the index of rank 0 back. */
static void what_a_fold_cut_is_with_the_rank_that_cut_it(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, 3, SS_F64, 64, 0, settings_of(1, 64));
    set(&t, 0, 5, 3);
    set(&t, 1, 9, 4);
    set(&t, 2, 5, -10);
    training_step(&t, false);
    expect_result(&t, 5, -10);
    for (int r = 0; r < 3; r++)
        for (size_t i = 0; i < 64; i++)
            expect_residual(&t, r, i, r == 1 && i == 5 ? 3 : r == 1 && i == 9 ? 4 : 0);
    training_drain(&t, 10);
    assert_true(training_drained(&t));
    expect_balance(&t);
    training_close(&t);
}

/* The cut of a sum that overflowed is dropped where its index arrived, by another subtree: the sum
 * was part of what arrived as NaN. */
static void sums_that_overflow_arrive_and_leave_no_trace(void **state)
{
    static struct training t;
    const double huge = 3e38;

    (void)state;
    struct ss_settings settings = settings_of(1, 64);
    settings.k = 2; /* of each 64 */
    settings.bucket = 64;
    training_open(&t, 2, SS_F32, 64, 0, settings);
    set(&t, 0, 7, huge);
    set(&t, 1, 7, huge);
    set(&t, 0, 9, 1);
    training_call(&t, false);
    assert_true(isinf(get(SS_F32, t.job.out[0], 7)));
    assert_true(training_drained(&t));
    training_close(&t);

    settings.k = 1;
    training_open(&t, 8, SS_F32, 64, 0, settings);
    for (int r = 0; r < 4; r++)
        set(&t, r, 7, r < 2 ? huge : 1);
    for (int r = 4; r < 8; r++)
        set(&t, r, 9, r < 6 ? huge : -huge);
    training_call(&t, false);
    assert_true(isnan(get(SS_F32, t.job.out[1], 9)));
    for (int r = 0; r < 8; r++) {
        assert_memory_equal(t.job.out[r], t.job.out[0], 64 * sizeof(float));
        for (size_t i = 0; i < 64; i++)
            expect_residual(&t, r, i, i == 7 && r < 4 ? (double)(float)(r < 2 ? huge : 1) : 0);
    }
    training_close(&t);

    settings.k = 2;
    training_open(&t, 8, SS_F32, 64, 0, settings);
    for (int r = 0; r < 2; r++) { /* three sums of ranks 0 to 3 are infinite: 9 is cut */
        set(&t, r, 7, huge);
        set(&t, r, 9, huge);
        set(&t, r + 2, 3, huge);
    }
    for (int r = 4; r < 8; r++)
        set(&t, r, 9, r < 6 ? huge : -huge);
    training_call(&t, false);
    assert_true(isnan(get(SS_F32, t.job.out[1], 9)));
    assert_true(isinf(get(SS_F32, t.job.out[1], 3)));
    for (int r = 0; r < 8; r++)
        for (size_t i = 0; i < 64; i++)
            expect_residual(&t, r, i, i == 7 && r < 2 ? (double)(float)huge : 0);
    training_close(&t);
}

/* The ranks hold the negative of each other's elements side by side, so that a stream could travel
 * dense: the claims of a sum of zero must arrive on all ranks or on none. */
static void sums_that_cancel_arrive_like_others(void **state)
{
    static struct training t;

    (void)state;
    for (int size = 2; size <= 9; size++) {
        training_open(&t, size, SS_F32, 2000, 0, settings_of(100, 2000));
        for (int s = 0; s < 8; s++) {
            clear_gradients(&t);
            for (int r = 0; r < size; r++)
                for (size_t i = 0; i < 90; i++)
                    set(&t, r, 300 + i, i % 3 == 0 ? 0.5 : (double)(i + 1) * (r & 1 ? -1 : 1));
            training_step(&t, false);
            expect_balance(&t);
        }
        training_drain(&t, 200);
        assert_true(training_drained(&t));
        expect_balance(&t);
        training_close(&t);
    }
}

static size_t result_entries(const struct training *t)
{
    size_t count = 0;

    for (size_t i = 0; i < t->n; i++)
        count += get(t->type, t->job.out[0], i) != 0;
    return count;
}

static void exactly_k_entries_arrive_or_all_there_are(void **state)
{
    static struct training t;

    (void)state;
    for (int size = 2; size <= 9; size++) {
        training_open(&t, size, SS_F32, N, 0, settings_of(K, N));
        clear_gradients(&t);
        for (int r = 0; r < size; r++)
            set(&t, r, (size_t)r * 10, r + 1);
        training_step(&t, false);
        assert_int_equal(result_entries(&t), size);
        assert_true(training_drained(&t));
        for (uint64_t s = 0; s < STEPS; s++) {
            draw_heavy_tailed(&t, s);
            training_step(&t, false);
            assert_int_equal(result_entries(&t), K);
        }
        training_close(&t);
    }
}

/* Streams of several chunks. */
static void long_streams_balance_too(void **state)
{
    enum { LONG = 200000, MANY = 80000 };
    static struct training t;

    (void)state;
    for (int size = 2; size <= 3; size++) {
        training_open(&t, size, SS_F32, LONG, 0, settings_of(MANY, LONG));
        draw_integers(&t, 1, 1);
        for (int s = 0; s < 2; s++) {
            training_step(&t, false);
            draw_heavy_tailed(&t, 3);
        }
        assert_int_equal(result_entries(&t), MANY);
        expect_conservation(&t, "gtopk");
        training_close(&t);
    }
}

/* In words of four bytes, indices not packed: 2 k per round. */
static void volume_is_at_most_2_k_log_p_words(void **state)
{
    static struct training t;

    (void)state;
    for (int size = 2, rounds = 1; size <= 64; size *= 2, rounds++) {
        struct ss_settings settings = settings_of(K, N);
        settings.coding = SS_CODING_U32;
        training_open(&t, size, SS_F32, N, 0, settings);
        for (uint64_t s = 0; s < 4; s++) {
            draw_heavy_tailed(&t, s);
            training_step(&t, false);
            for (int r = 0; r < size; r++) {
                const struct ss_call *call = ss_comm_call(t.job.comm[r]);
                uint64_t most = (uint64_t)rounds * (2 * K * 4 + SS_WIRE_HEADER);
                assert_in_range(call->f.c.x.phase_sent[SS_PHASE_REDUCE], 1, most);
                assert_in_range(call->f.c.x.phase_received[SS_PHASE_REDUCE], 1, most);
                assert_int_equal(call->f.c.x.phase_sent[SS_PHASE_FOLD_IN], 0);
                assert_int_equal(call->f.c.x.phase_sent[SS_PHASE_FOLD_OUT], 0);
            }
        }
        training_close(&t);
    }
}

/* What the plan asks for is enough, and not several times too much. */
static void the_plan_knows_the_memory(void **state)
{
    enum { LONG = 400000, MANY = 20000 };
    static struct training t;

    (void)state;
    for (int size = 2; size <= 7; size++) {
        training_open(&t, size, SS_F64, LONG, 0, settings_of(MANY, LONG));
        draw_heavy_tailed(&t, 0);
        training_call(&t, false);
        const struct ss_ballot *b = &ss_comm_call(t.job.comm[0])->f.vote.ballot;
        struct ss_shape shape = {.algorithms = ss_algorithms(SS_KIND_ALLREDUCE),
                                 .n = LONG,
                                 .size = size,
                                 .type = SS_F64,
                                 .topk = true,
                                 .nnz_sum = b->nnz_sum,
                                 .nnz_max = b->nnz_max,
                                 .k = b->k_max};
        double planned = ss_plan_memory(&shape, SS_GTOPK);
        for (int r = 0; r < size; r++) {
            const struct ss_work *w = &t.job.comm[r]->works[0];
            size_t used = w->own_idx.size + w->own_val.size + w->arena.size + w->part_error.size;
            for (int i = 0; i < 3; i++)
                used += w->idx[i].size + w->val[i].size;
            assert_true((double)used <= planned);
            assert_true((double)used > 0.7 * planned);
        }
        training_close(&t);
    }
}

/* Nothing to send, and nothing to round: no rank has an entry. */
static void zeros_alone_are_summed_with_rounded_values(void **state)
{
    static struct training t;

    (void)state;
    for (int size = 2; size <= 5; size++)
        for (int v = SS_VALUES_SAME; v < SS_VALUE_TYPES; v++) {
            struct ss_settings settings = settings_of(K, N);
            settings.value_type = (enum ss_values)v;
            training_open(&t, size, SS_F32, N, 0, settings);
            for (int step = 0; step < 4; step++) {
                clear_gradients(&t);
                if (step == 3)
                    set(&t, size - 1, 7, 3);
                training_step(&t, step & 1);
                expect_result(&t, 7, step == 3 ? 3 : 0);
            }
            assert_true(training_drained(&t));
            training_close(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_and_residuals_equal_those_of_a_plain_tree),
        cmocka_unit_test(a_sum_that_was_cut_while_its_index_arrived_is_in_one_residual),
        cmocka_unit_test(what_a_fold_cut_is_with_the_rank_that_cut_it),
        cmocka_unit_test(sums_that_overflow_arrive_and_leave_no_trace),
        cmocka_unit_test(sums_that_cancel_arrive_like_others),
        cmocka_unit_test(exactly_k_entries_arrive_or_all_there_are),
        cmocka_unit_test(long_streams_balance_too),
        cmocka_unit_test(volume_is_at_most_2_k_log_p_words),
        cmocka_unit_test(the_plan_knows_the_memory),
        cmocka_unit_test(zeros_alone_are_summed_with_rounded_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
