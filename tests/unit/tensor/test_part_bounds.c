/* Boundaries of oktopk's parts: as many of the merged entries in each, wherever they lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/tensor/part_bounds.h"

enum { MOST = 64 };

static uint64_t next(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

/* Entries of one rank, ascending and unique. */
struct entries {
    uint32_t *idx;
    size_t nnz;
};

/* Each element of [lo, hi) with probability one in `of`. */
static struct entries draw(uint64_t lo, uint64_t hi, uint64_t of, uint64_t seed)
{
    struct entries e = {.idx = malloc((hi - lo + 1) * sizeof(uint32_t))};
    uint64_t x = seed * 0x9e3779b97f4a7c15ULL + 88172645463325252ULL;

    for (uint64_t i = lo; i < hi; i++)
        if (next(&x) % of == 0)
            e.idx[e.nnz++] = (uint32_t)i;
    return e;
}

static size_t within(const struct entries *e, uint32_t lo, uint32_t hi)
{
    size_t count = 0;

    for (size_t i = 0; i < e->nnz; i++)
        count += e->idx[i] >= lo && e->idx[i] < hi;
    return count;
}

/* Finds the bounds as the ranks would, in *rounds, if they know that there are at most `more`
 * entries above the true number; returns the entries of the fullest part. */
static uint64_t fullest_of(const struct entries *e, int size, uint64_t n, uint64_t more,
                           uint32_t *bounds, int *rounds)
{
    size_t most = ss_cuts_words(size);
    uint64_t *words = calloc(most, sizeof *words), *sum = calloc(most, sizeof *words);
    struct ss_cut *cut = calloc((size_t)size + 1, sizeof *cut);
    struct ss_cuts cuts;
    uint64_t total = 0, largest = 0;

    for (int r = 0; r < size; r++)
        total += e[r].nnz;
    ss_cuts_start(&cuts, size, n, total + more, cut);
    for (*rounds = 0;; ++*rounds) {
        size_t count = 0;
        memset(sum, 0, most * sizeof *sum);
        for (int r = 0; r < size; r++) {
            count = ss_cuts_count(&cuts, e[r].idx, e[r].nnz, words);
            assert_true(count <= most);
            for (size_t i = 0; i < count; i++)
                sum[i] += words[i];
        }
        if (count == 0)
            break;
        ss_cuts_narrow(&cuts, sum);
    }
    ss_cuts_bounds(&cuts, bounds);
    for (int p = 0; p < size; p++) {
        uint64_t count = 0;
        assert_true(bounds[p] <= bounds[p + 1]);
        for (int r = 0; r < size; r++)
            count += within(&e[r], bounds[p], bounds[p + 1]);
        largest = count > largest ? count : largest;
    }
    assert_int_equal(bounds[0], 0);
    assert_int_equal(bounds[size], n);
    free(words);
    free(sum);
    free(cut);
    return largest;
}

static uint64_t fullest(const struct entries *e, int size, uint64_t n, uint32_t *bounds,
                        int *rounds)
{
    return fullest_of(e, size, n, 0, bounds, rounds);
}

enum place { EVEN, SPOT, OPPOSITE, TAIL, PLACES };

static struct entries place_of(enum place place, int rank, int size, uint64_t n, uint64_t seed)
{
    uint64_t part = n / (uint64_t)size, r = (uint64_t)(size - 1 - rank);

    switch (place) {
    case EVEN:
        return draw(0, n, 16, seed);
    case SPOT: /* all within a thousandth */
        return draw(n / 3, n / 3 + n / 1000, 2, seed);
    case OPPOSITE:
        return draw(part * r, part * (r + 1), 4, seed);
    default: /* ever denser towards the end */
        return rank == 0 ? draw(n - n / 64, n, 2, seed) : draw(n - n / 16, n, 32, seed);
    }
}

static void parts_hold_equal_shares_wherever_entries_lie(void **state)
{
    static const int sizes[] = {2, 3, 7, 16, 64};
    const uint64_t n = 300000;

    (void)state;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int place = EVEN; place < PLACES; place++) {
            struct entries e[MOST];
            uint32_t bounds[MOST + 1];
            uint64_t total = 0;
            int size = sizes[s], rounds;
            for (int r = 0; r < size; r++) {
                e[r] = place_of((enum place)place, r, size, n, (uint64_t)(r + 1));
                total += e[r].nnz;
            }
            uint64_t most = fullest(e, size, n, bounds, &rounds);
            /* an eighth in each boundary's bin, and what one element may hold */
            assert_true(most <= total / (uint64_t)size * 5 / 4 + (uint64_t)size + 1);
            assert_in_range(rounds, 1, 8);
            for (int r = 0; r < size; r++)
                free(e[r].idx);
        }
}

/* The first round counts the entries, so that a bound on their number is enough. */
static void a_bound_on_the_entries_gives_the_same_parts(void **state)
{
    enum { SIZE = 7 };
    const struct entries none[SIZE] = {{NULL, 0}};
    const uint64_t n = 300000;
    uint32_t bounds[2][SIZE + 1];
    struct entries e[SIZE];
    int rounds;

    (void)state;
    for (int place = EVEN; place < PLACES; place++) {
        for (int r = 0; r < SIZE; r++)
            e[r] = place_of((enum place)place, r, SIZE, n, (uint64_t)(r + 1));
        fullest(e, SIZE, n, bounds[0], &rounds);
        fullest_of(e, SIZE, n, 9 * n, bounds[1], &rounds);
        assert_memory_equal(bounds[0], bounds[1], sizeof bounds[0]);
        assert_in_range(rounds, 1, 8);
        for (int r = 0; r < SIZE; r++)
            free(e[r].idx);
    }
    fullest(none, SIZE, n, bounds[0], &rounds);
    fullest_of(none, SIZE, n, n, bounds[1], &rounds);
    assert_memory_equal(bounds[0], bounds[1], sizeof bounds[0]);
}

static void no_entries_give_equal_parts(void **state)
{
    const struct entries none[8] = {{NULL, 0}};
    uint32_t bounds[9];
    int rounds;

    (void)state;
    assert_int_equal(fullest(none, 8, 4096, bounds, &rounds), 0);
    for (uint32_t j = 0; j <= 8; j++)
        assert_int_equal(bounds[j], 512 * j);
}

/* Fewer elements than ranks, one element with everything, the largest window. */
static void small_and_large_spaces_have_bounds(void **state)
{
    uint32_t bounds[MOST + 1];
    uint32_t only[] = {0, 1, 2}, last[] = {(uint32_t)SS_WINDOW - 1};
    struct entries e[MOST];
    int rounds;

    (void)state;
    for (int r = 0; r < MOST; r++)
        e[r] = (struct entries){only, 3};
    assert_true(fullest(e, MOST, 3, bounds, &rounds) <= MOST);
    for (int r = 0; r < MOST; r++)
        e[r] = (struct entries){last, 1};
    assert_int_equal(fullest(e, MOST, SS_WINDOW, bounds, &rounds), MOST);
    assert_in_range(rounds, 1, 8);
}

/* More than 2^32 entries: each count has a word of its own. */
static void counts_beyond_32_bits_do_not_run_over(void **state)
{
    struct ss_cut cut[3];
    struct ss_cuts cuts;
    uint64_t words[2 * 16];
    uint32_t idx[] = {5, 900};

    (void)state;
    ss_cuts_start(&cuts, 2, 1024, (uint64_t)1 << 33, cut);
    assert_int_equal(ss_cuts_count(&cuts, idx, 2, words), 32);
    assert_int_equal(words[0], 1);
    assert_int_equal(words[900 / 32], 1);
    words[0] = words[31] = (uint64_t)1 << 32;
    words[900 / 32] = 0;
    ss_cuts_narrow(&cuts, words);
    assert_int_equal(cut[1].lo, 0);
    assert_int_equal(cut[1].hi, 32);
    assert_int_equal(cut[1].inside, (uint64_t)1 << 32);
}

static void the_hash_tells_states_apart(void **state)
{
    uint32_t bounds[5] = {0, 10, 20, 30, 40};
    struct ss_agreed a = {.bounds = {.data = bounds}, .calls = 3, .partition_call = 1};
    uint64_t before = ss_agreed_hash(&a, 4);

    (void)state;
    assert_int_not_equal(before, 0);
    bounds[2]++;
    assert_int_not_equal(ss_agreed_hash(&a, 4), before);
    bounds[2]--;
    a.calls++;
    assert_int_not_equal(ss_agreed_hash(&a, 4), before);
    a.calls--;
    a.global.magnitude = 1;
    assert_int_not_equal(ss_agreed_hash(&a, 4), before);
    a.global.magnitude = 0;
    a.global.reevaluate = true;
    assert_int_not_equal(ss_agreed_hash(&a, 4), before);
    a.global.reevaluate = false;
    assert_int_equal(ss_agreed_hash(&a, 4), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_hold_equal_shares_wherever_entries_lie),
        cmocka_unit_test(a_bound_on_the_entries_gives_the_same_parts),
        cmocka_unit_test(no_entries_give_equal_parts),
        cmocka_unit_test(small_and_large_spaces_have_bounds),
        cmocka_unit_test(counts_beyond_32_bits_do_not_run_over),
        cmocka_unit_test(the_hash_tells_states_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
