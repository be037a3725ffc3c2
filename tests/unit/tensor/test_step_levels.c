/* What the norms of inputs tell of steps, and labels that have no pattern. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/place/place.h"
#include "core/tensor/steps.h"

static struct ss_steps *fresh(void)
{
    struct ss_steps *s = calloc(1, sizeof *s);

    assert_non_null(s);
    return s;
}

static void assert_in(struct ss_step_place place, uint32_t ordinal, uint32_t period)
{
    assert_int_equal(place.sync, SS_STEP_IN);
    assert_int_equal(place.ordinal, ordinal);
    assert_int_equal(place.period, period);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* Calls of one lane and then one of another, in every step: `layers` of levels of their own, or as
 * many steps of one gradient. */
static struct ss_step_place stretch(int calls, int levels, int steps)
{
    struct ss_steps *s = fresh();
    struct ss_step_place place = {.sync = SS_STEP_UNKNOWN};

    for (int step = 0; step < steps; step++)
        for (int call = 0; call <= calls; call++) {
            place = ss_steps_next(s, call == calls, 0);
            if (levels > 1 && step < 3)
                assert_false(place.settled);
            ss_steps_level(s, pow(1 + call % levels, 2), NULL, 0);
        }
    free(s);
    return place;
}

static void levels_tell_layers_from_a_gradient_that_is_interrupted(void **state)
{
    (void)state;
    for (int calls = 17; calls < 128; calls += 10) {
        assert_in(stretch(calls, 5, 6), 0, (uint32_t)calls + 1);
        assert_int_equal(stretch(calls, 1, 6).sync, SS_STEP_FOREIGN);
    }
}

/* A call whose input has that norm, all in parts first to 31, after so many small calls. */
static struct ss_step_place call_of(struct ss_steps *s, uint32_t lane, uint32_t label, double norm,
                                    int first, uint8_t small)
{
    struct ss_step_place place = ss_steps_next(s, lane, label);
    uint8_t parts[SS_STEP_PARTS];

    for (int i = 0; i < SS_STEP_PARTS; i++)
        parts[i] = i < first ? 0 : UINT8_MAX - 5 * SS_STEP_OCTAVE;
    ss_steps_level(s, norm * norm, parts, small);
    return place;
}

static void one_gradient_of_even_norms_is_trusted_from_its_seventh_call(void **state)
{
    struct ss_steps *s = fresh();
    uint32_t seed = 1;

    (void)state;
    for (int call = 0; call < 100; call++) {
        double norm = 1 + 0.1 * (next_random(&seed) % 100) / 100;
        assert_int_equal(call_of(s, 0, 0, norm, 0, 1).settled, call >= 6);
    }
    free(s);
    s = fresh();
    for (int call = 0; call < 100; call++) /* nothing between: it could be layers */
        assert_int_equal(call_of(s, 0, 0, 1, 0, 0).settled, call >= 16);
    free(s);
    s = fresh();
    for (int call = 0; call < 100; call++) /* a small call between layers and the next step */
        assert_int_equal(call_of(s, 0, 0, 1, 0, call % 12 == 0).settled, call >= 16);
    free(s);
    s = fresh();
    for (int call = 0; call < 100; call++) { /* where nothing is known of norms */
        assert_int_equal(ss_steps_next(s, 0, 0).settled, call >= 16);
        ss_steps_level(s, 0, NULL, 1);
    }
    free(s);
}

/* Equal layers and nothing else: their norms, or where they are zero, come again a step later. */
static void layers_alone_are_told_by_their_levels(void **state)
{
    static const uint32_t counts[] = {2, 3, 8, 12, 24, 96};

    uint32_t kind[96], seed = 3;

    (void)state;
    for (uint32_t k = 0; k < 96; k++)
        kind[k] = k < 2 ? k : (kind[k - 1] + 1 + next_random(&seed) % 4) % 5;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int by_norm = 0; by_norm < 2; by_norm++) {
            struct ss_steps *s = fresh();
            for (uint32_t step = 0; step < 8; step++)
                for (uint32_t k = 0; k < counts[i]; k++) {
                    struct ss_step_place place = call_of(s, 0, 0, by_norm ? 1 + 2 * (kind[k]) : 1,
                                                         by_norm ? 0 : (int)(kind[k]), k == 0);
                    assert_true(!place.settled ||
                                (place.period == counts[i] && place.ordinal == k));
                    assert_true(place.settled || counts[i] < 8 || step < 5);
                }
            free(s);
        }
}

/* ---- labels without a pattern ---- */

/* Calls until the labels of lane 0 are found to have no pattern, 0: within 300 they are not. */
static int irregular_after(uint32_t (*label)(uint32_t call, uint32_t *seed), double norms)
{
    struct ss_steps *s = fresh();
    uint32_t seed = 7;
    int found = 0;

    for (uint32_t call = 0; call < 300 && found == 0; call++) {
        uint32_t l = label(call, &seed);
        call_of(s, 0, l, 1 + norms * l, 0, 0);
        found = ss_steps_irregular(s, 0) ? (int)call + 1 : 0;
    }
    free(s);
    return found;
}

static uint32_t at_random(uint32_t call, uint32_t *seed)
{
    (void)call;
    return next_random(seed) % 2;
}

static uint32_t one_in_four(uint32_t call, uint32_t *seed)
{
    (void)call;
    return next_random(seed) % 4 == 0;
}

static uint32_t five_to_one(uint32_t call, uint32_t *seed)
{
    (void)seed;
    return call % 6 == 5;
}

static uint32_t by_tens(uint32_t call, uint32_t *seed)
{
    (void)seed;
    return call / 10 % 2;
}

static uint32_t two_to_three(uint32_t call, uint32_t *seed)
{
    (void)seed;
    return call % 5 % 3 == 1;
}

/* Four labels, each once in four calls, in whatever order. */
static uint32_t shuffled(uint32_t call, uint32_t *seed)
{
    static uint32_t order[4];

    if (call % 4 == 0)
        for (uint32_t k = 0; k < 4; k++) {
            uint32_t other = next_random(seed) % (k + 1);
            order[k] = order[other];
            order[other] = k;
        }
    return order[call % 4];
}

static void one_gradient_from_two_places_in_irregular_turn_is_found(void **state)
{
    int half, quarter;

    (void)state;
    half = irregular_after(at_random, 0);
    quarter = irregular_after(one_in_four, 0);
    assert_in_range(half, 16, 20);
    assert_in_range(quarter, 16, 32);
    assert_int_equal(irregular_after(at_random, 2), 0); /* the norms are those of two */
    assert_int_equal(irregular_after(five_to_one, 0), 0);
    assert_int_equal(irregular_after(two_to_three, 0), 0);
    assert_int_equal(irregular_after(by_tens, 0), 0);
    assert_int_equal(irregular_after(shuffled, 0), 0);
}

static double parts_of(const float *in, size_t n, size_t most, uint8_t *parts)
{
    struct ss_run *runs = calloc(most / SS_SAMPLE_RUN, sizeof *runs);
    float *sample = calloc(most < n ? most : n, sizeof *sample);

    ss_host.ops->runs(&ss_host, SS_F32, in, runs, ss_steps_runs(n, most, runs), sample);
    double square = ss_steps_parts(SS_F32, sample, n, most, parts);
    free(runs);
    free(sample);
    return square;
}

/* A few entries are looked at one by one, what is dense by a sample: parts, and the norm, are those
 * of all elements, to an eighth of an octave and to two units. */
static void parts_of_entries_and_of_a_sample_are_those_of_the_whole(void **state)
{
    enum { N = 100003 };
    float *in = calloc(N, sizeof *in), *val = calloc(N, sizeof *val);
    uint32_t *idx = calloc(N, sizeof *idx), seed = 7;
    uint8_t whole[SS_STEP_PARTS], seen[SS_STEP_PARTS];

    (void)state;
    for (uint32_t every = 1; every <= 60; every += 59) {
        size_t nnz = 0;
        for (uint32_t i = 0; i < N; i++) {
            in[i] = i % every == 0 && i < N / 4 * 3 ? 1 + (float)(next_random(&seed) % 100) : 0;
            if (in[i] > 0) {
                idx[nnz] = i;
                val[nnz++] = in[i];
            }
        }
        double square = parts_of(in, N, 4 * SS_STEP_PARTS * SS_SAMPLE_RUN * 50, whole);
        double other = every > 1 ? ss_steps_parts_sparse(SS_F32, idx, val, nnz, N, seen)
                                 : parts_of(in, N, 8192, seen);
        assert_true(fabs(other / square - 1) < 0.09);
        for (int i = 0; i < SS_STEP_PARTS; i++) {
            assert_true(abs(whole[i] - seen[i]) <= 2);
            assert_int_equal(whole[i] == 0, i >= SS_STEP_PARTS / 4 * 3);
        }
    }
    free(in);
    free(val);
    free(idx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_entries_and_of_a_sample_are_those_of_the_whole),
        cmocka_unit_test(levels_tell_layers_from_a_gradient_that_is_interrupted),
        cmocka_unit_test(one_gradient_of_even_norms_is_trusted_from_its_seventh_call),
        cmocka_unit_test(layers_alone_are_told_by_their_levels),
        cmocka_unit_test(one_gradient_from_two_places_in_irregular_turn_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
