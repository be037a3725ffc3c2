/* Equal layers are told apart by what stands between calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/tensor/steps.h"
#include "core/tensor/tensor.h"

enum { LAYERS = 9, FROZEN = 6 };

static struct ss_steps *fresh(void)
{
    struct ss_steps *s = calloc(1, sizeof *s);

    assert_non_null(s);
    return s;
}

/* One call of the only lane; the first of a step has the mark. */
static struct ss_step_place next(struct ss_steps *s, unsigned mark, uint32_t call)
{
    ss_steps_mark(s, call == 0 ? mark : 0);
    return ss_steps_next(s, 0, 0);
}

/* A step of so many equal layers: how many calls of it are in place. Those that are have the
 * ordinals from `first` on. */
static uint32_t step_of(struct ss_steps *s, unsigned mark, uint32_t layers, uint32_t first)
{
    uint32_t in = 0;

    for (uint32_t call = 0; call < layers; call++) {
        struct ss_step_place place = next(s, mark, call);
        if (place.sync == SS_STEP_IN)
            assert_int_equal(place.ordinal, first + call);
        in += place.sync == SS_STEP_IN;
    }
    return in;
}

/* Layers that are called all at once: each call overlaps with the one before it. */
static struct ss_steps *with_layers(unsigned mark)
{
    struct ss_steps *s = fresh();

    for (uint32_t call = 0; call < LAYERS; call++) {
        next(s, mark, call);
        if (call > 0)
            ss_steps_too_short(s, 0);
    }
    assert_int_equal(step_of(s, mark, LAYERS, 0), 0);
    assert_true(step_of(s, mark, LAYERS, 0) <= 1);
    for (int step = 0; step < 20; step++)
        assert_int_equal(step_of(s, mark, LAYERS, 0), LAYERS);
    return s;
}

static const unsigned kinds[] = {SS_STEP_AFTER_SMALL, SS_STEP_AFTER_ALL,
                                 SS_STEP_AFTER_SMALL | SS_STEP_AFTER_ALL};

static void layers_made_at_once_are_different_tensors(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        free(with_layers(kinds[i]));
    struct ss_steps *s = fresh(); /* nothing tells them apart: no step */
    for (int call = 0; call < 300; call++) {
        assert_int_equal(ss_steps_next(s, 0, 0).settled, false);
        ss_steps_too_short(s, 0);
    }
    free(s);
}

static void a_step_cut_short_costs_the_next_one(void **state)
{
    (void)state;
    for (uint32_t cut = 1; cut < LAYERS; cut++)
        for (int i = 0; i < 3; i++) {
            struct ss_steps *s = with_layers(kinds[i]);
            for (int round = 0; round < 5; round++) {
                assert_int_equal(step_of(s, kinds[i], cut, 0), cut);
                assert_int_equal(step_of(s, kinds[i], LAYERS, 0), 0);
                for (int step = 0; step < 20; step++)
                    assert_int_equal(step_of(s, kinds[i], LAYERS, 0), LAYERS);
            }
            free(s);
        }
}

/* Which layers are frozen cannot be known: the others are new ones, and the old ones when all come
 * again. */
static void what_is_left_of_a_stack_has_other_ordinals(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct ss_steps *s = with_layers(kinds[i]);
        uint32_t in = 0, first = 0;
        step_of(s, kinds[i], FROZEN, 0); /* nothing shows it yet */
        for (int step = 0; step < 30; step++)
            for (uint32_t call = 0; call < FROZEN; call++) {
                struct ss_step_place place = next(s, kinds[i], call);
                if (place.sync != SS_STEP_IN)
                    continue;
                in++;
                assert_true(place.ordinal >= LAYERS + call);
                first = first == 0 ? place.ordinal - call : first;
                assert_int_equal(place.ordinal, first + call);
            }
        assert_true(in >= 20 * FROZEN);
        in = 0;
        for (int step = 0; step < 30; step++)
            for (uint32_t call = 0; call < LAYERS; call++) {
                struct ss_step_place place = next(s, kinds[i], call);
                in += place.sync == SS_STEP_IN && place.period == LAYERS;
                if (place.sync == SS_STEP_IN && place.period == LAYERS)
                    assert_int_equal(place.ordinal, call);
            }
        assert_true(in >= 20 * LAYERS);
        free(s);
    }
}

/* The calls of a step behind an evaluation have no loss before them. */
static void a_mark_that_is_missing_now_and_then_moves_nothing(void **state)
{
    struct ss_steps *s = with_layers(SS_STEP_AFTER_SMALL);

    (void)state;
    for (int round = 0; round < 20; round++) {
        assert_int_equal(step_of(s, 0, LAYERS, 0), 0);
        for (int step = 0; step < 14; step++)
            assert_int_equal(step_of(s, SS_STEP_AFTER_SMALL, LAYERS, 0), LAYERS);
    }
    free(s);
}

/* A loss told every ten steps, and a metric at any time, are nothing to a gradient of one call. */
static void marks_say_nothing_of_lanes_that_come_once(void **state)
{
    struct ss_steps *s = fresh();

    (void)state;
    for (uint32_t call = 0; call < 600; call++) {
        ss_steps_mark(s, call % 10 == 0 || call % 37 == 0 ? SS_STEP_MARKS : 0);
        struct ss_step_place place = ss_steps_next(s, call % 2, 0);
        assert_int_equal(place.settled, call >= 16);
        assert_true(call < 16 || (place.ordinal == 0 && place.period == 2));
    }
    free(s);
}

/* Marks that ranks do not agree on are forgotten, and with them what hung on them. */
static void marks_that_do_not_count_are_not_looked_at(void **state)
{
    struct ss_steps *a = with_layers(SS_STEP_MARKS), *b = with_layers(SS_STEP_AFTER_SMALL);

    (void)state;
    ss_steps_unmark(a, SS_STEP_AFTER_ALL, true, 1000);
    ss_steps_unmark(b, SS_STEP_AFTER_ALL, true, 1000);
    for (uint32_t call = 0; call < 40 * LAYERS; call++) {
        struct ss_step_place one = next(a, SS_STEP_MARKS, call % LAYERS);
        struct ss_step_place other = next(b, SS_STEP_AFTER_SMALL, call % LAYERS);
        assert_int_equal(one.sync, other.sync);
        assert_int_equal(one.ordinal, other.ordinal);
    }
    assert_int_equal(ss_steps_mark(a, SS_STEP_MARKS), SS_STEP_AFTER_SMALL);
    free(a);
    free(b);
}

/* One rank makes small calls of its own: nothing hung on marks, and nothing is found anew. */
static void marks_that_nothing_hung_on_go_without_a_trace(void **state)
{
    struct ss_steps *s = fresh();

    (void)state;
    for (uint32_t call = 0; call < 300; call++) {
        ss_steps_mark(s, call % 50 == 7 ? SS_STEP_AFTER_SMALL : 0);
        struct ss_step_place place = ss_steps_next(s, call % 5 > 2, 0);
        if (call % 50 == 7)
            ss_steps_unmark(s, SS_STEP_AFTER_SMALL, true, call);
        assert_int_equal(place.settled, call >= 16);
        assert_true(call < 16 || place.period == 5);
    }
    free(s);
}

/* Until ranks know that they saw different marks, a call may be foreign on one of them alone, which
 * carries its other marks on. */
static void marks_from_before_a_difference_was_known_do_not_count(void **state)
{
    struct ss_steps *a = fresh(), *b = fresh();

    (void)state;
    for (uint32_t call = 0; call < 3 * LAYERS; call++) {
        next(a, call % LAYERS == 0 || call % LAYERS == 4 ? SS_STEP_AFTER_SMALL : 0, 0);
        next(b, call % LAYERS == 0 ? SS_STEP_AFTER_SMALL : 0, 0);
    }
    a->carried = SS_STEP_AFTER_SMALL;
    ss_steps_unmark(a, SS_STEP_AFTER_ALL, false, 1000);
    ss_steps_unmark(b, SS_STEP_AFTER_ALL, false, 1000);
    ss_steps_too_short(a, 1);
    ss_steps_too_short(b, 1);
    for (uint32_t call = 0; call < 40 * LAYERS; call++) {
        struct ss_step_place one = next(a, SS_STEP_AFTER_SMALL, call % LAYERS);
        struct ss_step_place other = next(b, SS_STEP_AFTER_SMALL, call % LAYERS);
        assert_int_equal(one.sync, other.sync);
        assert_int_equal(one.ordinal, other.ordinal);
        assert_true(call < 4 * LAYERS || one.sync == SS_STEP_IN);
    }
    free(a);
    free(b);
}

/* A nonblocking call, whose tensor is looked for. */
static struct ss_step_place find_next(struct ss_tensors *ts)
{
    struct ss_tensor_call call = {.type = SS_F32, .op = SS_SUM, .n = 1000, .overlaps = true};
    struct ss_tensor_found found;

    assert_non_null(ss_tensor_find(ts, &call, &found));
    return found.place;
}

/* Of two votes one rank may know the second before what the first says is due, another after. */
static void ranks_bar_periods_alike_whenever_votes_end(void **state)
{
    enum { FIRST = 20, DUE = FIRST + SS_MERGED, CALLS = 3000 };
    struct ss_tensor_settings settings = {.register_after = 1, .threshold_period = 1};
    struct ss_mem mem = {0};
    struct ss_tensors *soon = ss_tensors_create(&settings, &mem);
    struct ss_tensors *late = ss_tensors_create(&settings, &mem);
    uint32_t apart = 0, in = 0;

    (void)state;
    for (uint64_t call = 1; call <= CALLS; call++) {
        if (call == FIRST + 1) {
            ss_tensors_too_short(soon, 1, DUE);
            ss_tensors_too_short(soon, 1, DUE + 1);
            ss_tensors_too_short(late, 1, DUE);
        }
        if (call == DUE + 1) /* the call DUE has been found */
            ss_tensors_too_short(late, 1, DUE + 1);
        struct ss_step_place one = find_next(soon), other = find_next(late);
        apart += one.sync != other.sync || one.ordinal != other.ordinal;
        in += one.sync == SS_STEP_IN;
    }
    assert_int_equal(apart, 0);
    assert_true(in > DUE && in < CALLS - SS_MERGED); /* the period was barred, and came again */
    ss_tensors_free(soon);
    ss_tensors_free(late);
}

/* A pipeline has the last call under way when it makes the next: of one tensor, where IDENTITY says
 * so. */
static void what_overlaps_is_one_tensor_where_identity_says_so(void **state)
{
    static const enum ss_identity kinds_of[] = {SS_IDENTITY_AUTO, SS_IDENTITY_ORDINAL,
                                                SS_IDENTITY_SITE, SS_IDENTITY_ADDRESS};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct ss_tensor_settings settings = {
            .identity = kinds_of[i], .register_after = 1, .threshold_period = 1};
        struct ss_mem mem = {0};
        struct ss_tensors *ts = ss_tensors_create(&settings, &mem);
        for (uint64_t number = 1; number <= 50; number++) {
            struct ss_under_way under_way = {.number = number};
            uint64_t bit = (number - 1) % SS_UNDER_WAY;
            under_way.calls[bit / 64] = (uint64_t)1 << bit % 64;
            struct ss_tensor_call call = {.site = 7,
                                          .type = SS_F32,
                                          .op = SS_SUM,
                                          .n = 1000,
                                          .overlaps = true,
                                          .under_way = &under_way};
            struct ss_tensor_found found;
            assert_non_null(ss_tensor_find(ts, &call, &found));
            assert_int_equal(found.overlaps, number > 1 && i < 2);
        }
        ss_tensors_free(ts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_made_at_once_are_different_tensors),
        cmocka_unit_test(a_step_cut_short_costs_the_next_one),
        cmocka_unit_test(what_is_left_of_a_stack_has_other_ordinals),
        cmocka_unit_test(a_mark_that_is_missing_now_and_then_moves_nothing),
        cmocka_unit_test(marks_say_nothing_of_lanes_that_come_once),
        cmocka_unit_test(marks_that_do_not_count_are_not_looked_at),
        cmocka_unit_test(marks_that_nothing_hung_on_go_without_a_trace),
        cmocka_unit_test(marks_from_before_a_difference_was_known_do_not_count),
        cmocka_unit_test(what_overlaps_is_one_tensor_where_identity_says_so),
        cmocka_unit_test(ranks_bar_periods_alike_whenever_votes_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
