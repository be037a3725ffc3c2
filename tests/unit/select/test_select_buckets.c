/* Selection of the k largest of each bucket: against sorting, in one pass over memory. */
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

#include "core/compute/pass.h"
#include "tests/unit/support/select_trial.h"

/* Fully sorted bucket by bucket, ties by index: the k first are the claims. None of a bucket in
 * which something is not finite. */
static void assert_buckets(const struct room *room, const struct trial *t, const void *g, size_t k,
                           size_t bucket, const uint32_t *idx, const struct ss_selection *found)
{
    const size_t size = ss_type_size(t->type);
    const void *r = t->has_r ? room->start : NULL;
    size_t j = 0;
    for (size_t at = 0; at < t->n; at += bucket) {
        size_t end = at + bucket < t->n ? at + bucket : t->n;
        size_t nonzero = sort_magnitudes(room, t->type, g ? (const char *)g + at * size : NULL,
                                         r ? (const char *)r + at * size : NULL, end - at);
        ss_magnitude least = k <= nonzero ? room->sorted[k - 1] : SS_LEAST_MAGNITUDE;
        size_t ties = 0, wanted = k < nonzero ? k : nonzero;
        bool finite = true;
        for (size_t i = at; i < end; i++)
            finite &= is_finite(t->type, sum_bits(t->type, g, r, i));
        while (ties < wanted && room->sorted[wanted - 1 - ties] == least)
            ties++;
        for (size_t i = at; i < end; i++) {
            ss_magnitude m = magnitude(t->type, sum_bits(t->type, g, r, i));
            if (!finite)
                continue;
            if (m > least)
                assert_int_equal(idx[j++], i);
            else if (m == least && ties > 0 && ties--)
                assert_int_equal(idx[j++], i);
        }
    }
    assert_int_equal(j, found->claimed);
}

static void buckets_give_their_k_largest_lowest_index_first(void **state)
{
    struct room *room = *state;
    for (int round = 0; round < 600; round++) {
        struct trial t = random_trial(room, types[round % 2], 1 + random_below(4000));
        const size_t bucket = round % 3 == 0 ? 512 : 1 + random_below(1500);
        const size_t k = 1 + random_below(round % 5 == 0 ? bucket : 16);
        const size_t size = ss_type_size(t.type), capacity = k * ((t.n + bucket - 1) / bucket);
        if (capacity > MOST)
            continue;
        char *val = before(room->val, t.type, capacity, 0);
        void *g = t.has_g ? before(room->g, t.type, t.n, t.slack) : NULL;
        void *in_place = before(room->r, t.type, t.n, t.slack / 2), *r = t.has_r ? in_place : NULL;
        uint32_t *idx = (uint32_t *)(void *)room->idx - capacity;
        struct ss_selection first, found;
        memcpy(room->start, in_place, t.n * size);
        for (size_t table = 0; ss_selectors_at(table); table++) {
            memcpy(in_place, room->start, t.n * size);
            ss_select_buckets(ss_selectors_at(table), t.type, g, r, t.n, 0, k, bucket, idx, val,
                              &found);
            assert_buckets(room, &t, g, k, bucket, idx, &found);
            assert_int_equal(found.over, 0);
            assert_int_equal(found.stop, t.n);
            if (table == 0) {
                first = found;
                memcpy(room->want_r, in_place, t.n * size);
                memcpy(room->want_val, val, found.claimed * size);
                for (size_t j = 0; j < found.claimed; j++) {
                    assert_int_equal(bits(t.type, val, j),
                                     sum_bits(t.type, g, r ? room->start : NULL, idx[j]));
                    assert_int_equal(r ? bits(t.type, r, idx[j]) : 0, 0);
                }
            }
            assert_same_selection(&found, &first);
            assert_memory_equal(in_place, room->want_r, t.n * size);
            assert_memory_equal(val, room->want_val, found.claimed * size);
        }
    }
}

/* Scales that differ from one part to the next, zeros and ties between: guesses are wrong. */
static void buckets_unlike_their_neighbours_give_their_k_largest_too(void **state)
{
    struct room *room = *state;
    for (int round = 0; round < 200; round++) {
        struct trial t = {.type = types[round % 2], .n = 20000, .has_g = true, .has_r = true};
        const size_t bucket = round % 4 == 0 ? 4096 : 512;
        const size_t k = 1 + random_below(round % 8 == 1 ? bucket : 8);
        char *g = before(room->g, t.type, t.n, 0), *r = before(room->r, t.type, t.n, 0);
        char *val = before(room->val, t.type, k * (t.n / bucket + 1), 0);
        uint32_t *idx = (uint32_t *)(void *)room->idx - k * (t.n / bucket + 1);
        struct ss_selection found;
        for (size_t at = 0, n; at < t.n; at += n) {
            n = 1 + random_below(2000);
            n = n < t.n - at ? n : t.n - at;
            fill(t.type, g + at * ss_type_size(t.type), n, (enum kind)random_below(KINDS));
            fill(t.type, r + at * ss_type_size(t.type), n, (enum kind)random_below(KINDS));
        }
        memcpy(room->start, r, t.n * ss_type_size(t.type));
        for (size_t table = 0; ss_selectors_at(table); table++) {
            memcpy(r, room->start, t.n * ss_type_size(t.type));
            ss_select_buckets(ss_selectors_at(table), t.type, g, r, t.n, 0, k, bucket, idx, val,
                              &found);
            assert_buckets(room, &t, g, k, bucket, idx, &found);
        }
    }
}

static void an_overflow_ends_the_selection_of_buckets_and_undo_takes_it_back(void **state)
{
    struct room *room = *state;
    for (int round = 0; round < 200; round++) {
        struct trial t = {.type = types[round % 2], .n = 3000};
        const size_t size = ss_type_size(t.type), at = random_below(t.n);
        char *g = before(room->g, t.type, t.n, 0), *r = before(room->r, t.type, t.n, 0);
        char *val = before(room->val, t.type, 4 * 6, 0);
        uint32_t *idx = (uint32_t *)(void *)room->idx - 4 * 6;
        fill(t.type, g, t.n, NORMAL);
        fill(t.type, r, t.n, NORMAL);
        put(t.type, g, at, largest_number(t.type));
        put(t.type, r, at, largest_number(t.type));
        memcpy(room->start, r, t.n * size);
        for (size_t table = 0; ss_selectors_at(table); table++) {
            const struct ss_selectors *s = ss_selectors_at(table);
            struct ss_selection found;
            memcpy(r, room->start, t.n * size);
            ss_select_buckets(s, t.type, g, r, t.n, 0, 4, 512, idx, val, &found);
            assert_int_equal(found.stop, at);
            assert_int_equal(found.not_finite, 1);
            assert_int_equal(found.claimed, 4 * (at / 512));
            s->undo(t.type, g, r, found.stop, 0, idx, val, found.claimed);
            for (size_t i = 0; i < t.n; i++) {
                double was = get(t.type, room->start, i), now = get(t.type, r, i);
                double bound = epsilon(t.type) * (fabs(get(t.type, g, i)) + fabs(was));
                assert_true(i < at ? fabs(now - was) <= bound : now == was);
            }
        }
    }
}

/* Elements that the parts of a table were given: with the gradient, and without. */
static size_t joined, looked_at;

static void count_pass(enum ss_type type, struct ss_pass *pass, const void *g, void *r)
{
    *(g ? &joined : &looked_at) += pass->n;
    ss_selectors()->bucket_parts->pass(type, pass, g, r);
}

static void count_select(enum ss_type type, const void *g, void *r, size_t n, uint32_t base,
                         ss_magnitude threshold, uint32_t *idx, void *val, size_t capacity,
                         struct ss_selection *out)
{
    looked_at += n;
    ss_selectors()->select(type, g, r, n, base, threshold, idx, val, capacity, out);
}

static size_t count_gather(enum ss_type type, const void *g, const void *r, size_t n,
                           ss_magnitude low, ss_magnitude high, ss_magnitude *out, size_t capacity)
{
    looked_at += n;
    return ss_selectors()->gather(type, g, r, n, low, high, out, capacity);
}

/* Of buckets alike one in thirty or so is looked at again, in the cache. */
static void buckets_are_selected_in_one_pass_over_memory(void **state)
{
    struct room *room = *state;
    enum { N = 256 * 1024 };
    struct ss_bucket_parts parts = {.pass = count_pass, .kth = ss_selectors()->bucket_parts->kth};
    const struct ss_selectors counting = {
        .select = count_select, .gather = count_gather, .bucket_parts = &parts};
    for (size_t k = 1; k <= 64; k *= 4) {
        float *g = before(room->g, SS_F32, N, 0), *r = before(room->r, SS_F32, N, 0);
        struct ss_selection found;
        fill(SS_F32, g, N, NORMAL);
        fill(SS_F32, r, N, HEAVY);
        joined = looked_at = 0;
        ss_select_buckets(&counting, SS_F32, g, r, N, 0, k, 512, room->want_idx, room->want_val,
                          &found);
        assert_int_equal(found.claimed, k * N / 512);
        assert_int_equal(joined, N);
        assert_true(looked_at <= N / 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_give_their_k_largest_lowest_index_first),
        cmocka_unit_test(buckets_unlike_their_neighbours_give_their_k_largest_too),
        cmocka_unit_test(an_overflow_ends_the_selection_of_buckets_and_undo_takes_it_back),
        cmocka_unit_test(buckets_are_selected_in_one_pass_over_memory),
    };
    return cmocka_run_group_tests_name("select_buckets", tests, set_up, tear_down);
}
