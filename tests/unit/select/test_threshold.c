/* The exact threshold against a sort, and its controls over series of calls. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/support/select_data.h"

static void assert_exact(const struct room *room, enum ss_type type, const void *g, const void *r,
                         size_t n, size_t nonzero, size_t k)
{
    struct ss_exact want = {.threshold = SS_LEAST_MAGNITUDE, .all_zero = nonzero == 0};
    if (k <= nonzero)
        want.threshold = room->sorted[k - 1];
    while (want.above < nonzero && room->sorted[want.above] > want.threshold)
        want.above++;
    want.count = want.above;
    while (want.count < nonzero && room->sorted[want.count] >= want.threshold)
        want.count++;
    for (size_t table = 0; ss_selectors_at(table); table++) {
        struct ss_exact found;
        ss_exact_threshold(ss_selectors_at(table), type, g, r, n, k, &found);
        assert_int_equal(found.threshold, want.threshold);
        assert_int_equal(found.above, want.above);
        assert_int_equal(found.count, want.count);
        assert_int_equal(found.all_zero, want.all_zero);
    }
}

static void the_exact_threshold_is_that_of_a_sort(void **state)
{
    struct room *room = *state;
    const size_t sizes[] = {1, 2, 63, 64, 1000, 5000, 20000, 270001};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int round = 0; round < 2 * KINDS; round++) {
            const enum ss_type type = types[round % 2];
            const size_t n = sizes[s];
            void *g = before(room->g, type, n, 1), *r = before(room->r, type, n, 0);
            fill(type, g, n, (enum kind)(round / 2));
            fill(type, r, n, (enum kind)(round / 2));
            if (round % 3 == 0)
                spoil(type, g, n, 3);
            if (round % 4 == 0)
                g = NULL;
            size_t nonzero = sort_magnitudes(room, type, g, r, n);
            const size_t ks[] = {1, n / 100 + 1, n / 2 + 1, n, nonzero + 1, nonzero, n / 1000 + 1};
            for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++)
                if (ks[j] > 0 && (n < 100000 || j < 5))
                    assert_exact(room, type, g, r, n, nonzero, ks[j]);
        }
}

static void constant_input_is_all_ties(void **state)
{
    struct room *room = *state;
    for (size_t k = 0; k < 2; k++)
        for (size_t n = 1; n <= 262144; n *= 8) {
            void *g = before(room->g, types[k], n, 0);
            for (size_t i = 0; i < n; i++)
                put(types[k], g, i, i % 2 ? 0.1 : -0.1);
            struct ss_exact found;
            ss_exact_threshold(ss_selectors(), types[k], g, NULL, n, n / 3 + 1, &found);
            assert_int_equal(found.threshold, ss_magnitude_of(types[k], 0.1));
            assert_int_equal(found.above, 0);
            assert_int_equal(found.count, n);
        }
}

/* Large values only where the sample looks, or only where it does not. */
static void a_misleading_sample_costs_time_only(void **state)
{
    struct room *room = *state;
    const size_t n = 280000;
    for (int round = 0; round < 4; round++) {
        const enum ss_type type = types[round % 2];
        void *g = before(room->g, type, n, 0);
        for (size_t i = 0; i < n; i++) {
            bool sampled = i % 4096 < 64;
            put(type, g, i, random_unit() * (sampled == (round < 2) ? 1e10 : 1e-10));
        }
        size_t nonzero = sort_magnitudes(room, type, g, NULL, n);
        for (size_t k = 10; k < n; k *= 5)
            assert_exact(room, type, g, NULL, n, nonzero, k);
    }
}

static void no_entries_asked_for_is_a_threshold_that_selects_nothing(void **state)
{
    struct room *room = *state;
    float *g = before(room->g, SS_F32, 10, 0);
    fill(SS_F32, g, 10, NORMAL);
    struct ss_exact found;
    ss_exact_threshold(ss_selectors(), SS_F32, g, NULL, 10, 0, &found);
    assert_int_equal(found.threshold, ss_magnitude_none(SS_F32));
    assert_int_equal(found.count, 0);
}

static void kth_largest_is_that_of_a_sort(void **state)
{
    (void)state;
    ss_magnitude list[300], work[300];
    for (int round = 0; round < 2000; round++) {
        size_t n = 1 + random_below(300), range = (size_t)1 << random_below(40);
        for (size_t i = 0; i < n; i++)
            list[i] = round % 5 == 0 ? i : round % 5 == 1 ? n - i : random_below(range);
        size_t k = 1 + random_below(n);
        memcpy(work, list, n * sizeof *list);
        ss_magnitude found = ss_kth_largest(work, n, k);
        qsort(list, n, sizeof *list, descending);
        assert_int_equal(found, list[k - 1]);
    }
}

/* One tensor through many calls. */
struct course {
    struct ss_threshold threshold;
    const struct ss_selectors *selectors;
    enum ss_type type;
    size_t n, k;
    void *g, *r;
    struct ss_selection found;
    double *in, *out; /* sums over the calls, per element: integers here, so exact */
    uint32_t *idx;
    void *val;
};

static struct course course(struct room *room, enum ss_type type, size_t n, size_t k, size_t period)
{
    struct course s = {.threshold = {.period = period},
                       .selectors = ss_selectors(),
                       .type = type,
                       .n = n,
                       .k = k,
                       .g = before(room->g, type, n, 0),
                       .r = before(room->r, type, n, 0),
                       .in = test_calloc(n, sizeof(double)),
                       .out = test_calloc(n, sizeof(double)),
                       .idx = (uint32_t *)(void *)room->idx - ss_claim_limit(k),
                       .val = before(room->val, type, ss_claim_limit(k), 0)};
    memset(s.r, 0, n * ss_type_size(type));
    return s;
}

static bool step(struct course *s)
{
    bool ask = ss_threshold_select(&s->threshold, s->selectors, s->type, s->g, s->r, s->n, 0, s->k,
                                   s->idx, s->val, &s->found);
    for (size_t i = 0; i < s->n; i++)
        s->in[i] += get(s->type, s->g, i);
    for (size_t j = 0; j < s->found.claimed; j++)
        s->out[s->idx[j]] += get(s->type, s->val, j);
    for (size_t i = 0; i < s->n; i++)
        assert_true(s->in[i] == s->out[i] + get(s->type, s->r, i));
    assert_true(s->found.claimed <= ss_claim_limit(s->k));
    return ask;
}

/* No residual, and nothing has gone in or out. */
static void forget(struct course *s)
{
    memset(s->r, 0, s->n * ss_type_size(s->type));
    memset(s->in, 0, s->n * sizeof *s->in);
    memset(s->out, 0, s->n * sizeof *s->out);
}

static void end(struct course *s)
{
    test_free(s->in);
    test_free(s->out);
}

/* Integers, so that sums over the calls are exact. */
static void integers(struct course *s, size_t range)
{
    for (size_t i = 0; i < s->n; i++)
        put(s->type, s->g, i, (double)random_below(2 * range) - (double)range);
}

static void the_threshold_is_found_once_a_period(void **state)
{
    for (size_t t = 0; t < 2; t++) {
        struct course s = course(*state, types[t], 4096, 400, 8);
        const double pattern[] = {3, 1, 4, 1, 5};
        for (size_t i = 0; i < s.n; i++)
            put(s.type, s.g, i, 100 * pattern[i % 5] + (double)random_below(100));
        uint64_t exact = 0;
        for (int call = 0; call < 40; call++) {
            /* the same residual and gradient each time: the count stays at k */
            forget(&s);
            bool ask = step(&s);
            exact += call % 8 == 0;
            assert_false(ask);
            assert_int_equal(s.threshold.exact_calls, exact);
            assert_true(s.found.claimed >= s.k);
        }
        end(&s);
    }
}

static void more_than_four_thirds_of_k_are_selected_again_at_once(void **state)
{
    for (size_t t = 0; t < 2; t++) {
        struct course s = course(*state, types[t], 10000, 100, 1000);
        integers(&s, 1000000);
        step(&s);
        assert_int_equal(s.threshold.exact_calls, 1);
        size_t before_jump = s.found.claimed;
        assert_true(before_jump >= 100 && before_jump <= 133);
        integers(&s, 8000000); /* nearly everything passes the old threshold */
        ss_magnitude old = s.threshold.magnitude;
        step(&s);
        assert_int_equal(s.threshold.exact_calls, 2);
        assert_true(s.threshold.magnitude > old);
        assert_true(s.found.claimed >= 100 && s.found.claimed <= 133);
        assert_int_equal(s.found.over, 0);
        assert_true(s.found.input_square > 0);
        assert_false(s.found.zero_input);
        end(&s);
    }
}

/* Batches that differ by up to a factor of 4, the residual cleared in between: about k of each, by
 * the threshold of the first. */
static void a_kept_threshold_follows_the_batch(void **state)
{
    for (size_t t = 0; t < 2; t++) {
        struct course s = course(*state, types[t], 100000, 1000, 1000);
        double off = 0;
        for (int call = 0; call < 40; call++) {
            forget(&s);
            integers(&s, (size_t)100000 << call % 3);
            assert_false(step(&s));
            off += fabs((double)s.found.claimed - 1000) / 1000 / 40;
        }
        print_message("# mean |claimed - k| / k: %.3f\n", off);
        assert_int_equal(s.threshold.exact_calls, 1);
        assert_true(off < 0.11);
        end(&s);
    }
}

/* Where too few entries are in the sample to say anything, and where nothing has changed. */
static void a_kept_threshold_stays_without_reason_to_move(void **state)
{
    struct course s = course(*state, SS_F32, 10000, 100, 1000);
    integers(&s, 1000000);
    step(&s);
    ss_magnitude first = s.threshold.magnitude;
    assert_true(s.threshold.sampled < 64);
    forget(&s);
    integers(&s, 1000000);
    step(&s);
    assert_int_equal(s.threshold.magnitude, first);
    end(&s);

    s = course(*state, SS_F64, 100000, 1000, 1000);
    integers(&s, 1000000);
    for (int call = 0; call < 3; call++) {
        forget(&s);
        step(&s);
        first = call == 0 ? s.threshold.magnitude : first;
        assert_int_equal(s.threshold.magnitude, first);
        assert_true(s.found.claimed >= 1000);
    }
    end(&s);
}

/* The threshold of an earlier call, which reached k but for `off`; 500 of the sample did. */
static struct ss_selecting next_of(struct ss_threshold *t, size_t k, size_t off)
{
    struct ss_selecting s;

    *t = (struct ss_threshold){.period = 1000, .calls = 1, .magnitude = 1 << 20, .k = k};
    t->sampled = 500;
    t->claimed = k - off;
    ss_selecting_start(&s, t, k, true);
    assert_int_equal(s.ask, SS_ASK_COUNT);
    return s;
}

static void a_fifth_of_the_sample_settles_a_call_that_is_like_the_last(void **state)
{
    const size_t k = 16000, counts[] = {100, 80, 120, 79, 121};
    struct ss_threshold t;

    (void)state;
    struct ss_selecting s = next_of(&t, k, k / 16 + 1); /* it was not: the sample at once */
    const size_t step = s.step;
    ss_selecting_counted(&s, 520);
    assert_int_equal(s.ask, SS_ASK_CLAIM);
    for (size_t i = 0; i < 5; i++) {
        s = next_of(&t, k, k / 16);
        assert_int_equal(s.step, 5 * step);
        ss_selecting_counted(&s, counts[i]);
        assert_int_equal(s.ask, i < 3 ? SS_ASK_CLAIM : SS_ASK_COUNT);
        if (i < 3)
            continue;
        assert_int_equal(s.step, step);
        ss_selecting_counted(&s, i == 3 ? 490 : 600); /* within its deviation, and not */
        assert_int_equal(s.ask, i == 3 ? SS_ASK_CLAIM : SS_ASK_FIND_SAMPLED);
        assert_true(i == 3 || s.rank == 501);
    }
}

/* A sample of them would ask for all of them, at every call of the period. */
static void ties_and_zeros_are_not_followed(void **state)
{
    for (int zeros = 0; zeros < 2; zeros++) {
        struct course s = course(*state, SS_F32, 100000, 1000, 2);
        integers(&s, 100000);
        assert_false(step(&s));
        assert_true(s.threshold.sampled > 0);
        step(&s);
        forget(&s);
        for (size_t i = 0; i < s.n; i++)
            put(s.type, s.g, i, zeros ? 0 : 3);
        step(&s); /* the period is over: found anew */
        assert_int_equal(s.threshold.exact_calls, 2);
        assert_int_equal(s.threshold.sampled, 0);
        end(&s);
    }
}

/* Large values only where the sample looks: too few are claimed, and a new threshold asked for.
 * Only where it does not look: too many pass, and it is found at once. */
static void a_sample_that_misleads_is_noticed(void **state)
{
    for (int large = 0; large < 2; large++) {
        struct course s = course(*state, SS_F32, 100000, 1000, 1000);
        integers(&s, 1000);
        step(&s);
        assert_true(s.threshold.sampled >= 64);
        integers(&s, 1000);
        for (size_t i = 0; i < s.n; i++)
            if ((i % 257 < 64) == (large == 0))
                put(s.type, s.g, i, 1000 * get(s.type, s.g, i));
        bool ask = step(&s);
        assert_int_equal(ask, large == 0);
        assert_int_equal(s.threshold.exact_calls, 1 + large);
        assert_true(large == 0 ? s.found.claimed < 500 : s.found.claimed >= 1000);
        if (ask)
            ss_threshold_reevaluate(&s.threshold);
        step(&s);
        assert_true(s.found.claimed >= 500);
        end(&s);
    }
}

static void fewer_than_half_of_k_ask_for_the_next_call(void **state)
{
    struct course s = course(*state, SS_F32, 10000, 100, 1000);
    integers(&s, 1000000);
    assert_false(step(&s));
    integers(&s, 10);
    assert_true(step(&s));
    assert_int_equal(s.threshold.exact_calls, 1);
    assert_true(step(&s)); /* the vote did not agree */
    assert_int_equal(s.threshold.exact_calls, 1);
    ss_threshold_reevaluate(&s.threshold);
    assert_true(ss_threshold_due(&s.threshold, s.k));
    assert_false(step(&s));
    assert_int_equal(s.threshold.exact_calls, 2);
    assert_true(s.found.claimed >= 100);
    assert_false(ss_threshold_due(&s.threshold, s.k));
    assert_true(ss_threshold_due(&s.threshold, s.k + 1));
    end(&s);
}

static void a_residual_drains_to_nothing_with_zero_input(void **state)
{
    for (size_t t = 0; t < 2; t++) {
        struct course s = course(*state, types[t], 3000, 100, 32);
        for (int call = 0; call < 3; call++) {
            integers(&s, 1000000);
            step(&s);
        }
        memset(s.g, 0, s.n * ss_type_size(s.type));
        int calls = 0;
        do {
            step(&s);
            assert_true(calls++ < 60); /* at least k / 2 in each */
        } while (s.found.largest > 0 && s.found.claimed > 0);
        for (size_t i = 0; i < s.n; i++)
            assert_true(get(s.type, s.r, i) == 0);
        end(&s);
    }
}

static void fewer_values_than_k_are_all_selected(void **state)
{
    struct course s = course(*state, SS_F64, 5000, 100, 4);
    for (int call = 0; call < 9; call++) {
        memset(s.g, 0, s.n * sizeof(double));
        for (int j = 0; j < 20; j++)
            put(s.type, s.g, random_below(s.n), 1 + (double)random_below(9));
        assert_false(step(&s)); /* nothing lower could select more */
        assert_int_equal(s.threshold.magnitude, SS_LEAST_MAGNITUDE);
        for (size_t i = 0; i < s.n; i++)
            assert_true(get(s.type, s.r, i) == 0);
    }
    end(&s);
}

static void ties_are_cut_at_the_highest_indices_and_come_next(void **state)
{
    struct course s = course(*state, SS_F32, 1000, 90, 32);
    for (size_t i = 0; i < s.n; i++)
        put(s.type, s.g, i, 2);
    step(&s);
    assert_int_equal(s.found.claimed, 120);
    assert_int_equal(s.found.over, 880);
    for (uint32_t j = 0; j < 120; j++)
        assert_int_equal(s.idx[j], j);
    step(&s);
    for (uint32_t j = 0; j < 120; j++)
        assert_int_equal(s.idx[j], 120 + j);
    end(&s);
}

static void nothing_is_selected_again_when_something_is_not_finite(void **state)
{
    struct course s = course(*state, SS_F32, 2000, 50, 1000);
    integers(&s, 1000);
    step(&s);
    memcpy(s.in, s.r, s.n * sizeof(float));
    integers(&s, 1000000);
    ((float *)s.g)[777] = INFINITY;
    assert_false(ss_threshold_select(&s.threshold, s.selectors, s.type, s.g, s.r, s.n, 0, s.k,
                                     s.idx, s.val, &s.found));
    assert_int_equal(s.threshold.exact_calls, 1);
    assert_int_equal(s.found.not_finite, 1);
    s.selectors->undo(s.type, s.g, s.r, s.found.stop, 0, s.idx, s.val, s.found.claimed);
    assert_memory_equal(s.r, s.in, s.n * sizeof(float)); /* integers: no rounding */
    end(&s);
}

/* Also after the claims went back and the residual alone was selected from. */
static void undo_after_a_repeated_selection_gives_the_residual_back(void **state)
{
    struct course s = course(*state, SS_F64, 5000, 50, 1000);
    integers(&s, 1000);
    step(&s);
    memcpy(s.in, s.r, s.n * sizeof(double));
    integers(&s, 1000000);
    ss_threshold_select(&s.threshold, s.selectors, s.type, s.g, s.r, s.n, 0, s.k, s.idx, s.val,
                        &s.found);
    assert_int_equal(s.threshold.exact_calls, 2);
    s.selectors->undo(s.type, s.g, s.r, s.found.stop, 0, s.idx, s.val, s.found.claimed);
    assert_memory_equal(s.r, s.in, s.n * sizeof(double));
    end(&s);
}

static void density_comes_down_exponentially(void **state)
{
    (void)state;
    const size_t n = 10000000;
    assert_int_equal(ss_warmup_k(n, 0.01, 0, 0), 100000);
    assert_int_equal(ss_warmup_k(n, 0.01, 4, 4), 100000);
    assert_int_equal(ss_warmup_k(n, 0.01, 1u << 30, 4), 100000);
    for (uint64_t warmup = 1; warmup < 200; warmup = warmup * 3 + 1)
        for (uint64_t at = 0; at <= warmup; at++) {
            double want = pow(0.001, (double)(at + 1) / (double)(warmup + 1)) * (double)n;
            assert_true(fabs((double)ss_warmup_k(n, 0.001, at, warmup) - want) <= 1);
        }
    assert_int_equal(ss_warmup_k(10, 0.001, 0, 0), 1);
    assert_int_equal(ss_warmup_k(10, 1, 0, 7), 10);
    assert_int_equal(ss_warmup_k(0, 0.5, 0, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exact_threshold_is_that_of_a_sort),
        cmocka_unit_test(constant_input_is_all_ties),
        cmocka_unit_test(a_misleading_sample_costs_time_only),
        cmocka_unit_test(no_entries_asked_for_is_a_threshold_that_selects_nothing),
        cmocka_unit_test(kth_largest_is_that_of_a_sort),
        cmocka_unit_test(the_threshold_is_found_once_a_period),
        cmocka_unit_test(more_than_four_thirds_of_k_are_selected_again_at_once),
        cmocka_unit_test(a_kept_threshold_follows_the_batch),
        cmocka_unit_test(a_kept_threshold_stays_without_reason_to_move),
        cmocka_unit_test(a_fifth_of_the_sample_settles_a_call_that_is_like_the_last),
        cmocka_unit_test(ties_and_zeros_are_not_followed),
        cmocka_unit_test(a_sample_that_misleads_is_noticed),
        cmocka_unit_test(fewer_than_half_of_k_ask_for_the_next_call),
        cmocka_unit_test(a_residual_drains_to_nothing_with_zero_input),
        cmocka_unit_test(fewer_values_than_k_are_all_selected),
        cmocka_unit_test(ties_are_cut_at_the_highest_indices_and_come_next),
        cmocka_unit_test(nothing_is_selected_again_when_something_is_not_finite),
        cmocka_unit_test(undo_after_a_repeated_selection_gives_the_residual_back),
        cmocka_unit_test(density_comes_down_exponentially),
    };
    return cmocka_run_group_tests_name("threshold", tests, set_up, tear_down);
}
