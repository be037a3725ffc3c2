/* Every selection table against naive loops, bit for bit, and what undoes a selection. */
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

#include "core/base/fpenv.h"
#include "core/compute/vector.h"
#include "tests/support/fp_settings.h"
#include "tests/unit/support/select_trial.h"

static double sum_of_partials(const double *partial)
{
    double sum[16];
    memcpy(sum, partial, sizeof sum);
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            sum[j] += sum[j + half];
    return sum[0];
}

/* The contract of select, one element after the other. */
static void naive_select(enum ss_type type, const void *g, void *r, size_t n, uint32_t base,
                         ss_magnitude threshold, uint32_t *idx, void *val, size_t capacity,
                         struct ss_selection *out)
{
    double inputs[16] = {0}, sums[16] = {0};
    *out = (struct ss_selection){.stop = n, .zero_input = true};
    for (size_t i = 0; i < n; i++) {
        uint64_t a = sum_bits(type, g, r, i);
        if (!is_finite(type, a)) {
            out->not_finite++;
            if (g && r && is_finite(type, bits(type, g, i)) && out->stop == n)
                out->stop = i;
            continue;
        }
        if (out->stop < n)
            continue;
        double value = get(type, &a, 0), input = g ? get(type, g, i) : 0;
        double value_square = value * value, input_square = input * input;
        inputs[i % 16] += input_square;
        sums[i % 16] += value_square;
        if (g && magnitude(type, bits(type, g, i)) != 0)
            out->zero_input = false;
        if (magnitude(type, a) > out->largest)
            out->largest = magnitude(type, a);
        bool claim = magnitude(type, a) >= threshold;
        if (claim && out->claimed == capacity) {
            claim = false;
            out->over++;
        }
        if (claim) {
            idx[out->claimed] = base + (uint32_t)i;
            memcpy((char *)val + out->claimed * ss_type_size(type), &a, ss_type_size(type));
            out->claimed++;
        }
        if (r && claim)
            put(type, r, i, 0);
        else if (r)
            memcpy((char *)r + i * ss_type_size(type), &a, ss_type_size(type));
    }
    out->input_square = sum_of_partials(inputs);
    out->sum_square = sum_of_partials(sums);
}

static void select_with_all(struct room *room, const struct trial *t)
{
    const size_t size = ss_type_size(t->type), bytes = t->n * size;
    const uint32_t base = (uint32_t)random_below(1000000);
    void *g = before(room->g, t->type, t->n, t->slack);
    void *r = before(room->r, t->type, t->n, t->slack / 2);
    void *val = before(room->val, t->type, t->capacity, 0);
    uint32_t *idx = (uint32_t *)(void *)room->idx - t->capacity;
    struct ss_selection want, found;

    memcpy(room->start, r, bytes);
    memcpy(room->want_r, r, bytes);
    naive_select(t->type, t->has_g ? g : NULL, t->has_r ? room->want_r : NULL, t->n, base,
                 t->threshold, room->want_idx, room->want_val, t->capacity, &want);
    for (size_t table = 0; ss_selectors_at(table); table++) {
        memcpy(r, room->start, bytes);
        ss_selectors_at(table)->select(t->type, t->has_g ? g : NULL, t->has_r ? r : NULL, t->n,
                                       base, t->threshold, idx, val, t->capacity, &found);
        assert_same_selection(&found, &want);
        assert_memory_equal(r, room->want_r, bytes);
        assert_memory_equal(idx, room->want_idx, want.claimed * sizeof *idx);
        assert_memory_equal(val, room->want_val, want.claimed * size);
    }
    memcpy(r, room->start, bytes);
}

static void every_table_selects_alike_at_any_size_threshold_and_capacity(void **state)
{
    struct room *room = *state;
    for (size_t k = 0; k < 2; k++) {
        for (size_t n = 0; n <= 200; n++)
            for (int round = 0; round < 12; round++) {
                struct trial t = random_trial(room, types[k], n);
                select_with_all(room, &t);
            }
        for (int round = 0; round < 60; round++) {
            struct trial t = random_trial(room, types[k], 1000 + random_below(9000));
            select_with_all(room, &t);
        }
    }
}

static void an_overflow_of_the_sum_ends_the_pass_where_it_is(void **state)
{
    struct room *room = *state;
    for (size_t k = 0; k < 2; k++)
        for (int round = 0; round < 300; round++) {
            size_t n = 1 + random_below(round < 200 ? 300 : 3000);
            struct trial t = random_trial(room, types[k], n);
            t.has_g = t.has_r = true;
            void *g = before(room->g, t.type, n, t.slack);
            void *r = before(room->r, t.type, n, t.slack / 2);
            for (size_t j = 0; j <= random_below(3); j++) {
                size_t at = random_below(n);
                double x = largest_number(t.type) * (random64() & 1 << 20 ? 1 : -1);
                put(t.type, g, at, x);
                put(t.type, r, at, x);
            }
            select_with_all(room, &t);
        }
}

/* Every element, bit for bit: either it was claimed and its residual is +0.0, or the residual is g
 * + r as computed. */
static void what_is_not_claimed_stays_in_the_residual(void **state)
{
    struct room *room = *state;
    for (size_t table = 0; ss_selectors_at(table); table++)
        for (int round = 0; round < 200; round++) {
            struct trial t = random_trial(room, types[round % 2], 1 + random_below(2000));
            void *g = before(room->g, t.type, t.n, t.slack);
            void *r = before(room->r, t.type, t.n, t.slack / 2);
            uint32_t *idx = (uint32_t *)(void *)room->idx - t.capacity;
            void *val = before(room->val, t.type, t.capacity, 0);
            struct ss_selection found;
            memcpy(room->start, r, t.n * ss_type_size(t.type));
            ss_selectors_at(table)->select(t.type, g, r, t.n, 7, t.threshold, idx, val, t.capacity,
                                           &found);
            size_t j = 0, at_least = 0, not_finite = 0;
            for (size_t i = 0; i < t.n; i++) {
                uint64_t a = sum_bits(t.type, g, room->start, i), now = bits(t.type, r, i);
                if (!is_finite(t.type, a)) {
                    not_finite++;
                    assert_int_equal(now, bits(t.type, room->start, i));
                    continue;
                }
                at_least += magnitude(t.type, a) >= t.threshold;
                if (j < found.claimed && idx[j] == i + 7) {
                    assert_int_equal(bits(t.type, val, j++), a);
                    assert_int_equal(now, 0);
                    assert_true(magnitude(t.type, a) >= t.threshold);
                } else {
                    assert_int_equal(now, a);
                }
            }
            assert_int_equal(j, found.claimed);
            assert_int_equal(found.claimed + found.over, at_least);
            assert_true(found.over == 0 || found.claimed == t.capacity);
            assert_int_equal(found.not_finite, not_finite);
        }
}

static void subnormals_are_ordinary_when_the_application_flushes_them(void **state)
{
    struct room *room = *state;
    const ss_fpenv saved = ss_fpenv_now();
    for (int round = 0; round < 200; round++) {
        struct trial t = random_trial(room, types[round % 2], 1 + random_below(500));
        t.has_g = t.has_r = true;
        fill(t.type, before(room->g, t.type, t.n, t.slack), t.n, SUBNORMAL);
        fill(t.type, before(room->r, t.type, t.n, t.slack / 2), t.n, SUBNORMAL);
        t.threshold = 1 + random_below(1500);
        fp_set(FP_FLUSH);
        ss_fpenv application = ss_fpenv_enter();
        select_with_all(room, &t);
        ss_fpenv_leave(application);
        assert_int_equal(fp_settings() & FP_FLUSH, FP_FLUSH);
        ss_fpenv_leave(saved);
    }
}

/* Arithmetic flushes then, in every table alike: the naive loops run in the same environment. */
static void tables_agree_in_the_application_s_environment_too(void **state)
{
    struct room *room = *state;
    const ss_fpenv saved = ss_fpenv_now();
    for (int round = 0; round < 200; round++) {
        struct trial t = random_trial(room, types[round % 2], 1 + random_below(500));
        fill(t.type, before(room->g, t.type, t.n, t.slack), t.n, SUBNORMAL);
        t.has_g = t.has_r = true;
        fp_set(FP_FLUSH);
        select_with_all(room, &t);
        ss_fpenv_leave(saved);
    }
}

static void every_table_gathers_the_same_magnitudes(void **state)
{
    struct room *room = *state;
    ss_magnitude list[600];
    for (int round = 0; round < 1500; round++) {
        struct trial t = random_trial(room, types[round % 2], random_below(600));
        void *g = t.has_g ? before(room->g, t.type, t.n, t.slack) : NULL;
        void *r = t.has_r ? before(room->r, t.type, t.n, t.slack / 2) : NULL;
        ss_magnitude low = t.threshold, high = ss_magnitude_none(t.type) - 1;
        if (low > high)
            low = high;
        if (round % 3 == 0)
            high = low + random_below((size_t)(high - low) + 1);
        size_t want = naive_gather(t.type, g, r, t.n, low, high, room->sorted);
        for (size_t table = 0; ss_selectors_at(table); table++) {
            const struct ss_selectors *s = ss_selectors_at(table);
            assert_int_equal(s->gather(t.type, g, r, t.n, low, high, NULL, 0), want);
            assert_int_equal(s->gather(t.type, g, r, t.n, low, high, list, t.capacity), want);
            size_t written = want < t.capacity ? want : t.capacity;
            assert_memory_equal(list, room->sorted, written * sizeof *list);
        }
    }
}

/* The bound of the header, for one selection and its undo; some g not finite, some sums too large.
 */
static void undo_gives_the_residual_back_within_rounding(void **state)
{
    struct room *room = *state;
    for (size_t table = 0; ss_selectors_at(table); table++)
        for (int round = 0; round < 400; round++) {
            struct trial t = random_trial(room, types[round % 2], 1 + random_below(2000));
            void *g = before(room->g, t.type, t.n, t.slack);
            void *r = before(room->r, t.type, t.n, t.slack / 2);
            uint32_t *idx = (uint32_t *)(void *)room->idx - t.capacity;
            void *val = before(room->val, t.type, t.capacity, 0);
            struct ss_selection found;
            const struct ss_selectors *s = ss_selectors_at(table);
            for (size_t j = 0; j < random_below(4); j++) {
                double x = largest_number(t.type) * (random64() & 1 << 20 ? 1 : -1);
                size_t at = random_below(t.n);
                put(t.type, r, at, x);
                put(t.type, g, random_below(2) ? at : random_below(t.n), x * random_unit());
            }
            memcpy(room->start, r, t.n * ss_type_size(t.type));
            s->select(t.type, g, r, t.n, 3, t.threshold, idx, val, t.capacity, &found);
            s->undo(t.type, g, r, found.stop, 3, idx, val, found.claimed);
            for (size_t i = 0; i < t.n; i++) {
                double was = get(t.type, room->start, i), now = get(t.type, r, i);
                double input = get(t.type, g, i);
                if (!isfinite(input) || i >= found.stop) {
                    assert_int_equal(bits(t.type, r, i), bits(t.type, room->start, i));
                    continue;
                }
                assert_true(isfinite(now));
                /* scaled, so that the largest numbers and the least do not leave the range */
                double bound = epsilon(t.type) * (0.25 * fabs(input) + 0.25 * fabs(was));
                assert_true(fabs(0.25 * now - 0.25 * was) <= bound);
            }
        }
}

static void two_selections_in_flight_may_be_undone_in_either_order(void **state)
{
    struct room *room = *state;
    enum { N = 1000, K = 50 };
    uint32_t idx[2][N];
    float val[2][N];
    for (int round = 0; round < 20; round++) {
        float *g = before(room->g, SS_F32, 2 * N, 0), *r = before(room->r, SS_F32, N, 0);
        fill(SS_F32, g, 2 * N, NORMAL);
        fill(SS_F32, r, N, NORMAL);
        memcpy(room->start, r, N * sizeof *r);
        const struct ss_selectors *s = ss_selectors();
        struct ss_selection found[2];
        for (size_t j = 0; j < 2; j++)
            s->select(SS_F32, g + j * N, r, N, 0, ss_magnitude_of(SS_F32, 1.2), idx[j], val[j], N,
                      &found[j]);
        for (size_t j = 0; j < 2; j++) {
            size_t which = (j + (size_t)round) % 2;
            s->undo(SS_F32, g + which * N, r, N, 0, idx[which], val[which], found[which].claimed);
        }
        for (size_t i = 0; i < N; i++) {
            double was = get(SS_F32, room->start, i);
            double sizes = fabs(was) + fabs((double)g[i]) + fabs((double)g[N + i]);
            assert_true(fabs((double)r[i] - was) <= 4 * (double)FLT_EPSILON * sizes);
        }
    }
}

static void what_returns_to_a_residual_leaves_it_finite(void **state)
{
    (void)state;
    float r[3] = {FLT_MAX, -FLT_MAX, 1}, val[3] = {FLT_MAX, -FLT_MAX, 2};
    double wide[2] = {DBL_MAX, 1}, wide_val[2] = {DBL_MAX, -1};
    const uint32_t idx[] = {10, 11, 12};
    ss_vector_add_at(SS_F32, r, 10, idx, val, 3);
    ss_vector_add_at(SS_F64, wide, 10, idx, wide_val, 2);
    assert_true(r[0] == FLT_MAX && r[1] == -FLT_MAX && r[2] == 3);
    assert_true(wide[0] == DBL_MAX && wide[1] == 0);
    const float g = FLT_MAX;
    float residual = -FLT_MAX;
    for (size_t table = 0; ss_selectors_at(table); table++) {
        ss_selectors_at(table)->undo(SS_F32, &g, &residual, 1, 0, NULL, NULL, 0);
        assert_true(residual == -FLT_MAX);
    }
}

static void magnitudes_order_as_numbers_do(void **state)
{
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        assert_int_equal(ss_magnitude_of(types[t], 0), 0);
        assert_int_equal(ss_magnitude_of(types[t], -INFINITY), ss_magnitude_none(types[t]));
        for (int round = 0; round < 1000; round++) {
            double x = random_element(types[t], (enum kind)random_below(KINDS));
            double y = random_element(types[t], (enum kind)random_below(KINDS));
            if (types[t] == SS_F32) {
                x = (double)(float)x;
                y = (double)(float)y;
            }
            ss_magnitude a = ss_magnitude_of(types[t], x), b = ss_magnitude_of(types[t], y);
            assert_int_equal(fabs(x) < fabs(y), a < b);
            assert_true(ss_magnitude_value(types[t], a) == fabs(x));
        }
    }
}

static void the_best_table_is_the_first_and_plain_is_always_there(void **state)
{
    (void)state;
    size_t count = 0;
    while (ss_selectors_at(count))
        count++;
    assert_true(count >= 1);
    assert_ptr_equal(ss_selectors(), ss_selectors_at(0));
    assert_string_equal(ss_selectors_at(count - 1)->name, "plain");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_selects_alike_at_any_size_threshold_and_capacity),
        cmocka_unit_test(an_overflow_of_the_sum_ends_the_pass_where_it_is),
        cmocka_unit_test(what_is_not_claimed_stays_in_the_residual),
        cmocka_unit_test(subnormals_are_ordinary_when_the_application_flushes_them),
        cmocka_unit_test(tables_agree_in_the_application_s_environment_too),
        cmocka_unit_test(every_table_gathers_the_same_magnitudes),
        cmocka_unit_test(undo_gives_the_residual_back_within_rounding),
        cmocka_unit_test(two_selections_in_flight_may_be_undone_in_either_order),
        cmocka_unit_test(what_returns_to_a_residual_leaves_it_finite),
        cmocka_unit_test(magnitudes_order_as_numbers_do),
        cmocka_unit_test(the_best_table_is_the_first_and_plain_is_always_there),
    };
    return cmocka_run_group_tests_name("select", tests, set_up, tear_down);
}
