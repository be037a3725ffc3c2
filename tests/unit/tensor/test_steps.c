/* Steps are found in the lane sequence, kept through interruptions, and come back with the same
 * ordinals. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/tensor/steps.h"

static struct ss_steps *fresh(void)
{
    struct ss_steps *s = calloc(1, sizeof *s);

    assert_non_null(s);
    return s;
}

/* Feeds "aab..." with lane number = letter - 'a'; returns the last place. */
static struct ss_step_place feed(struct ss_steps *s, const char *lanes)
{
    struct ss_step_place place = {.sync = SS_STEP_UNKNOWN};

    for (; *lanes; lanes++)
        place = ss_steps_next(s, (uint32_t)(*lanes - 'a'), 0);
    return place;
}

/* Capital letters: called from elsewhere. */
static struct ss_step_place next_labelled(struct ss_steps *s, char c)
{
    bool moved = c < 'a';

    return ss_steps_next(s, (uint32_t)(c - (moved ? 'A' : 'a')), moved);
}

static void feed_labelled(struct ss_steps *s, const char *lanes)
{
    for (; *lanes; lanes++)
        next_labelled(s, *lanes);
}

static void assert_in(struct ss_step_place place, uint32_t ordinal, uint32_t period)
{
    assert_int_equal(place.sync, SS_STEP_IN);
    assert_int_equal(place.ordinal, ordinal);
    assert_int_equal(place.period, period);
}

/* Twelve equal layers and one other call, every one where it belongs. */
static void assert_layers(struct ss_steps *s)
{
    for (uint32_t layer = 0; layer < 12; layer++)
        assert_in(ss_steps_next(s, 0, 0), layer, 13);
    assert_in(ss_steps_next(s, 1, 0), 0, 13);
}

#define LAYERS "aaaaaaaaaaaab"

static struct ss_steps *with_layers(void)
{
    struct ss_steps *s = fresh();

    feed(s, LAYERS LAYERS LAYERS);
    assert_layers(s);
    return s;
}

static void a_constant_lane_is_a_step_of_one(void **state)
{
    struct ss_steps *s = fresh();

    (void)state;
    assert_int_equal(feed(s, "a").sync, SS_STEP_UNKNOWN);
    assert_int_equal(feed(s, "a").sync, SS_STEP_UNKNOWN);
    for (uint64_t step = 2; step < 5000; step++) {
        struct ss_step_place place = feed(s, "a");
        assert_in(place, 0, 1);
        assert_int_equal(place.step, step);
    }
    free(s);
}

static void many_lanes_are_confirmed_at_the_end_of_the_third_step(void **state)
{
    static const uint32_t sizes[] = {2, 3, 161, 511, 512};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t lanes = sizes[i];
        struct ss_steps *s = fresh();
        for (uint32_t call = 0; call < 8 * lanes; call++) {
            struct ss_step_place place = ss_steps_next(s, call % lanes, 0);
            if (call < 3 * lanes - 1) {
                assert_int_equal(place.sync, SS_STEP_UNKNOWN);
                assert_int_equal(place.ordinal, 0);
            } else {
                assert_in(place, 0, lanes);
                assert_int_equal(place.step, call / lanes);
            }
        }
        free(s);
    }
}

static void longer_steps_than_the_longest_are_not_found(void **state)
{
    struct ss_steps *s = fresh();

    (void)state;
    for (uint32_t call = 0; call < 10 * 513; call++)
        assert_int_equal(ss_steps_next(s, call % 513, 0).sync, SS_STEP_UNKNOWN);
    free(s);
}

static void twelve_equal_layers_have_twelve_ordinals(void **state)
{
    struct ss_steps *s = with_layers();

    (void)state;
    for (int step = 0; step < 100; step++)
        assert_layers(s);
    free(s);
}

static void first_layers_are_never_settled(void **state)
{
    struct ss_steps *s = fresh();

    (void)state;
    for (int call = 0; call < 38; call++) {
        struct ss_step_place place = ss_steps_next(s, call % 13 == 12, 0);
        assert_false(place.settled);
    }
    free(s);
}

static void a_foreign_call_changes_nothing(void **state)
{
    struct ss_steps *s = with_layers();

    (void)state;
    for (int step = 0; step < 30; step++) {
        for (uint32_t layer = 0; layer < 12; layer++) {
            assert_in(ss_steps_next(s, 0, 0), layer, 13);
            if (layer == (uint32_t)step % 12 && step % 5 < 3)
                assert_int_equal(ss_steps_next(s, 7 + (uint32_t)step, 0).sync, SS_STEP_FOREIGN);
        }
        assert_in(ss_steps_next(s, 1, 0), 0, 13);
    }
    free(s);
}

static void evaluation_every_ten_steps_leaves_the_ordinals(void **state)
{
    struct ss_steps *s = fresh();

    (void)state;
    for (uint32_t step = 0; step < 60; step++) {
        for (uint32_t call = 0; call < 161; call++) { /* pairs of equal lanes */
            struct ss_step_place place = ss_steps_next(s, call / 2, 0);
            if (step >= 3)
                assert_in(place, call % 2, 161);
        }
        for (uint32_t call = 0; step % 10 == 9 && call < 40; call++)
            assert_int_not_equal(ss_steps_next(s, 200 + call % 2, 0).sync, SS_STEP_UNKNOWN);
    }
    free(s);
}

/* `steps` short steps and a call of another lane, again and again; the place of the last call of
 * the short step, and of the other one. */
static struct ss_step_place interrupted(struct ss_steps *s, const char *step, int steps,
                                        struct ss_step_place *other)
{
    struct ss_step_place place = {.sync = SS_STEP_UNKNOWN};

    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < steps; i++)
            place = feed(s, step);
        *other = feed(s, "z");
    }
    return place;
}

static void a_short_step_interrupted_at_equal_intervals_stays(void **state)
{
    struct ss_step_place other;
    struct ss_steps *s = fresh();

    (void)state;
    assert_in(interrupted(s, "a", 50, &other), 0, 1);
    assert_int_equal(other.sync, SS_STEP_FOREIGN);
    free(s);
    s = fresh();
    assert_in(interrupted(s, "abcd", 58, &other), 0, 4);
    assert_int_equal(other.sync, SS_STEP_FOREIGN);
    free(s);
}

static void layers_of_several_lanes_have_ordinals(void **state)
{
    struct ss_step_place other;
    struct ss_steps *s = fresh();

    (void)state;
    assert_in(interrupted(s, "aaaabb", 24, &other), 47, 145);
    assert_in(other, 0, 145);
    free(s);
    s = fresh(); /* a lane of 40 equal layers in a larger network */
    assert_in(interrupted(s, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabcdefghi", 1, &other), 0, 49);
    assert_in(other, 0, 49);
    free(s);
}

static void a_long_evaluation_leaves_the_ordinals(void **state)
{
    struct ss_steps *s = with_layers();

    (void)state;
    for (int phase = 0; phase < 4; phase++) {
        for (int call = 0; call < 700; call++)
            ss_steps_next(s, 5, 0); /* long enough to be a cycle of its own */
        for (int step = 0; step < 20; step++)
            assert_layers(s);
    }
    free(s);
}

static void a_step_cut_short_is_found_again(void **state)
{
    struct ss_steps *s = with_layers();
    struct ss_step_place place;

    (void)state;
    feed(s, "aaaaa");
    place = feed(s, "b"); /* layers 5 to 11 left out */
    assert_in(place, 0, 13);
    assert_layers(s);
    feed(s, "aaaaaa");
    place = feed(s, "aaaaaaaaaaaa"); /* the call that ends the step left out as well */
    assert_int_equal(place.sync, SS_STEP_LOST);
    assert_int_equal(place.ordinal, SS_ORDINAL_LOST);
    feed(s, "b");
    assert_layers(s);
    free(s);
}

static void equal_layers_behind_a_frozen_one_do_not_take_its_place(void **state)
{
    struct ss_steps *s = fresh();
    struct ss_step_place place;

    (void)state;
    feed(s, "abacabacabacabacabac");
    assert_int_equal(feed(s, "b").sync, SS_STEP_LOST); /* the first layer does not come */
    place = feed(s, "a");
    assert_true(place.sync == SS_STEP_LOST || place.ordinal == 1);
    assert_in(feed(s, "c"), 0, 4);
    free(s);
}

static void lanes_out_of_turn_keep_ordinal_zero_where_there_is_no_other(void **state)
{
    struct ss_steps *s = fresh();

    (void)state;
    feed(s, "abcdeabcdeabcdeabcde");
    struct ss_step_place place = feed(s, "e"); /* weights, backwards */
    assert_int_equal(place.sync, SS_STEP_LOST);
    assert_int_equal(place.ordinal, 0);
    feed(s, "dc");
    assert_in(feed(s, "abcde"), 0, 5);
    assert_in(feed(s, "ab"), 0, 5);
    feed(s, "a"); /* cut */
    assert_in(feed(s, "b"), 0, 5);
    assert_in(feed(s, "c"), 0, 5);
    free(s);
}

static void a_new_period_takes_over(void **state)
{
    struct ss_steps *s = with_layers();

    (void)state;
    uint64_t before = feed(s, LAYERS).step;
    for (int step = 0; step < 10; step++) /* a layer added: any of them may be the new one */
        feed(s, "aaaaaaaaaaaaab");
    for (uint32_t layer = 0; layer < 13; layer++)
        assert_in(ss_steps_next(s, 0, 0), 12 + layer, 14);
    struct ss_step_place place = feed(s, "b");
    assert_in(place, 0, 14);
    assert_true(place.step > before);
    for (int call = 0; call < 200; call++) /* something else altogether */
        feed(s, "xyz");
    assert_in(feed(s, "xyz"), 0, 3);
    for (int call = 0; call < 200; call++) /* a part of the former lanes */
        feed(s, "y");
    assert_in(feed(s, "y"), 0, 1);
    free(s);
}

static void a_short_step_is_not_dropped_for_a_burst(void **state)
{
    struct ss_steps *s = fresh();

    (void)state;
    for (int step = 0; step < 100; step++)
        feed(s, "abc");
    for (int round = 0; round < 10; round++) {
        for (int call = 0; call < 20 + round; call++)
            assert_int_not_equal(feed(s, "m").sync, SS_STEP_LOST);
        for (int step = 0; step < 10 + round; step++)
            assert_in(feed(s, "abc"), 0, 3);
    }
    free(s);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

static void what_never_repeats_is_never_confirmed(void **state)
{
    struct ss_steps *s = fresh();
    uint32_t seed = 1;

    (void)state;
    for (uint32_t call = 0; call < 20000; call++)
        assert_int_equal(ss_steps_next(s, next_random(&seed) % 1000, 0).sync, SS_STEP_UNKNOWN);
    free(s);
}

static void steps_never_go_back_and_are_the_same_on_all_ranks(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 40; seed++) {
        struct ss_steps *a = fresh(), *b = fresh();
        uint32_t random = seed, lanes[24], length = 1;
        uint64_t step = 0;
        for (uint32_t call = 0, position = 0; call < 6000; call++) {
            if (call % 1500 == 0) { /* another program */
                length = 1 + next_random(&random) % 24;
                for (uint32_t i = 0; i < length; i++)
                    lanes[i] = next_random(&random) % 4;
                position = 0;
            }
            uint32_t lane = lanes[position++ % length];
            if (next_random(&random) % 50 == 0)
                lane = next_random(&random) % 6;
            struct ss_step_place place = ss_steps_next(a, lane, 0),
                                 twin = ss_steps_next(b, lane, 0);
            assert_int_equal(place.sync, twin.sync);
            assert_int_equal(place.ordinal, twin.ordinal);
            assert_int_equal(place.step, twin.step);
            assert_true(place.step >= step);
            step = place.step;
            if (place.sync == SS_STEP_IN)
                assert_true(place.period <= SS_STEP_LONGEST);
            if (place.sync == SS_STEP_UNKNOWN || place.sync == SS_STEP_FOREIGN)
                assert_int_equal(place.ordinal, 0);
        }
        free(a);
        free(b);
    }
}

static void a_cycle_is_forgotten_when_nothing_fits_it(void **state)
{
    struct ss_steps *s = fresh();
    uint32_t seed = 3;

    (void)state;
    feed(s, "aaa");
    for (uint32_t call = 0; call < 3 * SS_STEP_LONGEST; call++)
        ss_steps_next(s, 10 + next_random(&seed) % 1000, 0);
    assert_int_equal(ss_steps_next(s, 5000, 0).sync, SS_STEP_UNKNOWN);
    free(s);
}

static void late_lanes_count_as_one(void **state)
{
    struct ss_steps *s = fresh();

    (void)state;
    ss_steps_next(s, 65535, 0);
    ss_steps_next(s, 70000, 0);
    assert_in(ss_steps_next(s, UINT32_MAX, 0), 0, 1);
    free(s);
}

/* A lane number that is given to another lane: the cycle it was in is no longer that of anything.
 */
static void a_number_that_changes_hands_takes_its_cycles_along(void **state)
{
    struct ss_steps *s = fresh();

    (void)state;
    feed(s, "ababab");
    ss_steps_forget(s, 'c' - 'a');
    assert_int_equal(ss_steps_next(s, 0, 0).sync, SS_STEP_IN);
    ss_steps_forget(s, 0);
    assert_int_equal(ss_steps_next(s, 1, 0).sync, SS_STEP_UNKNOWN);
    for (int call = 0; call < 4; call++) /* what came before it does not count as a repetition */
        assert_int_equal(ss_steps_next(s, (uint32_t)call % 2, 0).sync, SS_STEP_UNKNOWN);
    assert_int_equal(ss_steps_next(s, 0, 0).sync, SS_STEP_IN);
    free(s);
}

/* Weights averaged every ten steps: the counts of the gradients, from another place. */
static void weights_of_the_same_counts_are_not_part_of_the_step(void **state)
{
    (void)state;
    for (uint32_t lanes = 1; lanes <= 3; lanes++) {
        struct ss_steps *s = fresh();
        for (int step = 0; step < 200; step++) {
            for (uint32_t lane = 0; lane < lanes; lane++) {
                struct ss_step_place place = ss_steps_next(s, lane, 0);
                assert_int_equal(place.ordinal, 0);
                assert_true(step < 20 || place.settled);
            }
            for (uint32_t lane = 0; lane < lanes && step % 10 == 9; lane++)
                assert_int_equal(ss_steps_next(s, lane, 1).ordinal, 0);
        }
        assert_in(ss_steps_next(s, 0, 0), 0, lanes);
        free(s);
    }
}

/* A step from some point on, for good: lanes by letter, labels by case. */
static uint64_t found_again(const char *before, const char *after)
{
    struct ss_steps *s = fresh();
    size_t calls = strlen(after);
    uint64_t good = 0;

    for (int step = 0; step < 100; step++)
        feed_labelled(s, before);
    for (uint64_t step = 0; step < 60; step++)
        for (size_t i = 0; i < calls; i++) {
            struct ss_step_place place = next_labelled(s, after[i]);
            if (place.sync != SS_STEP_IN || !place.settled || place.period != calls)
                good = step + 1;
        }
    free(s);
    return good;
}

static void a_step_that_moves_for_good_is_found_within_twenty_steps(void **state)
{
    static const char *const moves[][2] = {
        {"a", "A"},         {"ab", "AB"},       {"abc", "ABC"},  {"abc", "abC"},
        {"abc", "ABc"},     {"abc", "ab"},      {"abcd", "ab"},  {"abcdefgh", "abc"},
        {"abc", "abcd"},    {"ab", "abcdefgh"}, {"abc", "xyz"},  {"a", "xy"},
        {"aaab", "aaaab"},  {"aaab", "AAAB"},   {"abcdef", "x"}, {"aaaab", "xxxy"},
        {"abcd", "abdc"},   {"aab", "ab"},      {"abc", "x"},    {"abcdefgh", "gh"},
        {"abcdefgh", "aA"}, {"ab", "aAbB"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        uint64_t steps = found_again(moves[i][0], moves[i][1]);
        if (steps > 20)
            fail_msg("from %s to %s: %u steps", moves[i][0], moves[i][1], (unsigned)steps);
    }
}

static void lanes_that_come_once_in_any_order_are_a_step(void **state)
{
    uint32_t seed = 5, order[6] = {0, 1, 2, 3, 4, 5};
    struct ss_steps *s = fresh();
    struct ss_step_place place = {.sync = SS_STEP_UNKNOWN};

    (void)state;
    for (int step = 0; step < 60; step++) {
        for (uint32_t k = 5; k > 0; k--) {
            uint32_t other = next_random(&seed) % (k + 1), swapped = order[k];
            order[k] = order[other];
            order[other] = swapped;
        }
        for (int k = 0; k < 6; k++) {
            place = ss_steps_next(s, order[k], 0);
            assert_int_equal(place.ordinal, 0);
            if (step >= 17)
                assert_true(place.sync == SS_STEP_IN && place.settled);
        }
    }
    ss_steps_next(s, order[5], 0);
    assert_false(ss_steps_next(s, order[5], 0).settled); /* twice in a step */
    free(s);
}

/* A network whose layers have the same counts there and back. */
static void layers_there_and_back_are_not_a_step_without_an_order(void **state)
{
    static const char *const nets[] = {"abba", "abbaab", "abccba", "abcdeedcba"};

    (void)state;
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        size_t length = strlen(nets[i]), wrong = 0;
        struct ss_steps *s = fresh();
        for (size_t step = 0; step < 20; step++)
            for (size_t q = 0; q < length; q++) {
                struct ss_step_place place = ss_steps_next(s, (uint32_t)(nets[i][q] - 'a'), 0);
                wrong += place.settled && place.period != length;
                if (step > 12) {
                    assert_true(place.settled);
                    assert_int_equal(place.period, length);
                }
            }
        assert_int_equal(wrong, 0);
        free(s);
    }
}

static void lanes_that_come_twice_in_any_order_are_never_trusted(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed < 20; seed++) {
        uint32_t random = seed, order[8] = {0, 0, 1, 1, 2, 2, 3, 3};
        struct ss_steps *s = fresh();
        for (int step = 0; step < 200; step++) {
            for (uint32_t k = 7; k > 0; k--) {
                uint32_t other = next_random(&random) % (k + 1), swapped = order[k];
                order[k] = order[other];
                order[other] = swapped;
            }
            for (int k = 0; k < 8; k++)
                assert_false(ss_steps_next(s, order[k], 0).settled);
        }
        free(s);
    }
}

/* Labels that turn out not to be the same on all ranks: as if they had never been. */
static void joined_lanes_have_the_step_of_their_numbers(void **state)
{
    struct ss_steps *s = fresh(), *plain = fresh();

    (void)state;
    for (uint32_t call = 0; call < 100; call++) {
        ss_steps_next(s, call % 3 == 2, call % 7);
        ss_steps_next(plain, call % 3 == 2, 0);
    }
    ss_steps_join(s, 0);
    ss_steps_join(s, 1);
    for (uint32_t call = 100; call < 200; call++) {
        struct ss_step_place a = ss_steps_next(s, call % 3 == 2, 0);
        struct ss_step_place b = ss_steps_next(plain, call % 3 == 2, 0);
        assert_int_equal(a.sync, b.sync);
        assert_int_equal(a.ordinal, b.ordinal);
        assert_int_equal(a.period, b.period);
    }
    free(s);
    free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_lane_is_a_step_of_one),
        cmocka_unit_test(many_lanes_are_confirmed_at_the_end_of_the_third_step),
        cmocka_unit_test(longer_steps_than_the_longest_are_not_found),
        cmocka_unit_test(twelve_equal_layers_have_twelve_ordinals),
        cmocka_unit_test(first_layers_are_never_settled),
        cmocka_unit_test(a_foreign_call_changes_nothing),
        cmocka_unit_test(evaluation_every_ten_steps_leaves_the_ordinals),
        cmocka_unit_test(a_short_step_interrupted_at_equal_intervals_stays),
        cmocka_unit_test(layers_of_several_lanes_have_ordinals),
        cmocka_unit_test(a_long_evaluation_leaves_the_ordinals),
        cmocka_unit_test(a_step_cut_short_is_found_again),
        cmocka_unit_test(equal_layers_behind_a_frozen_one_do_not_take_its_place),
        cmocka_unit_test(lanes_out_of_turn_keep_ordinal_zero_where_there_is_no_other),
        cmocka_unit_test(a_new_period_takes_over),
        cmocka_unit_test(a_short_step_is_not_dropped_for_a_burst),
        cmocka_unit_test(what_never_repeats_is_never_confirmed),
        cmocka_unit_test(steps_never_go_back_and_are_the_same_on_all_ranks),
        cmocka_unit_test(a_cycle_is_forgotten_when_nothing_fits_it),
        cmocka_unit_test(late_lanes_count_as_one),
        cmocka_unit_test(a_number_that_changes_hands_takes_its_cycles_along),
        cmocka_unit_test(weights_of_the_same_counts_are_not_part_of_the_step),
        cmocka_unit_test(a_step_that_moves_for_good_is_found_within_twenty_steps),
        cmocka_unit_test(lanes_that_come_once_in_any_order_are_a_step),
        cmocka_unit_test(layers_there_and_back_are_not_a_step_without_an_order),
        cmocka_unit_test(lanes_that_come_twice_in_any_order_are_never_trusted),
        cmocka_unit_test(joined_lanes_have_the_step_of_their_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
