/* Rank arithmetic: folding to a power of two, and parts of the index space. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "core/net/ranks.h"

enum { MOST = 200 };

static void folding_numbers_the_ranks_that_stay_without_gaps(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST; size++) {
        int seen[MOST] = {0};
        for (int rank = 0; rank < size; rank++) {
            struct ss_fold f = ss_fold_of(rank, size);
            assert_true(f.pof2 <= size && 2 * f.pof2 > size && (f.pof2 & (f.pof2 - 1)) == 0);
            assert_int_equal(f.rem, size - f.pof2);
            assert_int_equal(1 << ss_fold_rounds(&f), f.pof2);
            assert_true(f.position >= -1 && f.position < f.pof2);
            if (f.position >= 0)
                seen[f.position]++;
        }
        for (int p = 0; p < MOST; p++)
            assert_int_equal(seen[p], p < ss_fold_of(0, size).pof2);
    }
}

static void folded_ranks_know_each_other(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST; size++) {
        int folded = 0;
        for (int rank = 0; rank < size; rank++) {
            struct ss_fold f = ss_fold_of(rank, size);
            folded += f.position < 0;
            assert_true(f.position >= 0 || f.partner >= 0);
            if (f.partner < 0)
                continue;
            assert_true(f.partner < size && f.partner != rank);
            struct ss_fold other = ss_fold_of(f.partner, size);
            assert_int_equal(other.partner, rank);
            assert_true((other.position < 0) != (f.position < 0));
        }
        assert_int_equal(folded, ss_fold_of(0, size).rem);
    }
}

static void peers_of_a_round_meet_each_other_and_all_meet_in_the_end(void **state)
{
    (void)state;
    for (int size = 1; size <= MOST; size++) {
        struct ss_fold any = ss_fold_of(0, size);
        static unsigned char knows[MOST][MOST];
        int rounds = ss_fold_rounds(&any);

        for (int a = 0; a < size; a++)
            for (int b = 0; b < size; b++)
                knows[a][b] = a == b;
        for (int round = 0; round < rounds; round++) {
            static unsigned char next[MOST][MOST];
            for (int rank = 0; rank < size; rank++) {
                struct ss_fold f = ss_fold_of(rank, size);
                if (f.position < 0)
                    continue;
                int peer = ss_fold_peer(&f, round);
                assert_true(peer >= 0 && peer < size && peer != rank);
                struct ss_fold other = ss_fold_of(peer, size);
                assert_true(other.position >= 0);
                assert_int_equal(ss_fold_peer(&other, round), rank);
                for (int b = 0; b < size; b++)
                    next[rank][b] = knows[rank][b] | knows[peer][b];
            }
            for (int rank = 0; rank < size; rank++)
                for (int b = 0; b < size && ss_fold_of(rank, size).position >= 0; b++)
                    knows[rank][b] = next[rank][b];
        }
        for (int a = 0; a < size; a++)
            for (int b = 0; b < size; b++)
                if (ss_fold_of(a, size).position >= 0 && ss_fold_of(b, size).position >= 0)
                    assert_true(knows[a][b]);
    }
}

static void parts_cover_the_vector_once(void **state)
{
    static const uint64_t counts[] = {1,   2,    15,      16,      17,         31,
                                      100, 1000, 1048576, 1048579, 1073741823, 1073741824};
    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int size = 1; size <= MOST; size++) {
            uint64_t n = counts[i], blocks = (n + 15) / 16;
            assert_int_equal(ss_part_first(n, size, 0), 0);
            assert_int_equal(ss_part_first(n, size, size), n);
            for (int p = 0; p < size; p++) {
                uint64_t first = ss_part_first(n, size, p), end = ss_part_first(n, size, p + 1);
                assert_true(first <= end && end <= n);
                assert_true(first % 16 == 0 || first == n);
                assert_true(end - first <= (blocks / (uint64_t)size + 1) * 16);
            }
        }
}

/* ---- schedules ---- */

enum { MOST_RANKS = 63, ROUNDS = 64 };

struct sets {
    struct ss_schedule at[MOST_RANKS];
    uint64_t known[MOST_RANKS];                    /* a bit for each rank */
    uint64_t sent[MOST_RANKS][MOST_RANKS][ROUNDS]; /* by sender, receiver and round */
    bool used[MOST_RANKS][MOST_RANKS][ROUNDS];     /* a pair exchange may have each message once */
    int outside[MOST_RANKS];                       /* messages of a rank to other hosts */
};

/* Makes a rank's current pair exchange, if its message has arrived. */
static bool meet(struct sets *s, int rank, const struct ss_layout *layout)
{
    struct ss_pair_exchange m;

    if (!ss_schedule_now(&s->at[rank], &m))
        return false;
    if (m.to >= 0 && !s->used[rank][m.to][m.round]) {
        s->used[rank][m.to][m.round] = true;
        s->sent[rank][m.to][m.round] = s->known[rank];
        s->outside[rank] += layout && layout->host[rank] != layout->host[m.to];
    }
    if (m.from >= 0 && s->sent[m.from][rank][m.round] == 0)
        return false;
    if (m.from >= 0) {
        const uint64_t got = s->sent[m.from][rank][m.round];
        s->known[rank] = m.result ? got : s->known[rank] | got;
        s->sent[m.from][rank][m.round] = 0;
    }
    ss_schedule_next(&s->at[rank]);
    return true;
}

/* Merges sets of ranks along the schedules of all ranks at once, as far as each can go. */
static void expect_all_know_all(struct sets *s, int size, const struct ss_layout *layout)
{
    struct ss_pair_exchange m;
    bool moved = true;

    memset(s, 0, sizeof *s);
    for (int r = 0; r < size; r++) {
        s->at[r] = ss_schedule_of(r, size, layout);
        s->known[r] = 1ULL << r;
    }
    while (moved) {
        moved = false;
        for (int r = 0; r < size; r++)
            moved = meet(s, r, layout) || moved;
    }
    for (int r = 0; r < size; r++) {
        assert_false(ss_schedule_now(&s->at[r], &m));
        assert_true(s->known[r] == (1ULL << size) - 1);
        for (int to = 0; to < size; to++)
            for (int round = 0; round < ROUNDS; round++)
                assert_true(s->sent[r][to][round] == 0);
    }
}

static void the_schedule_brings_every_rank_to_every_rank(void **state)
{
    static struct sets s;

    (void)state;
    for (int size = 1; size <= MOST_RANKS; size++)
        expect_all_know_all(&s, size, NULL);
}

static struct ss_layout *layout_of(const char *hosts, int size)
{
    struct ss_layout *l = ss_layout_create(size);

    for (int r = 0; r < size; r++)
        l->ids[r] = (uint64_t)hosts[(size_t)r % strlen(hosts)];
    ss_layout_find(l);
    return l;
}

/* Whatever the layout, each host sends to others what a rank in its place would send, and one rank
 * of it does so. */
static void a_host_takes_part_like_one_rank(void **state)
{
    static const char *const layouts[] = {"1122", "1212",  "1112",     "12",
                                          "123",  "11112", "12223334", "1111111111111111112"};
    static struct sets s, one;

    (void)state;
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++)
        for (int size = 2; size <= MOST_RANKS; size++) {
            struct ss_layout *layout = layout_of(layouts[l], size);
            int sent[MOST_RANKS] = {0};

            expect_all_know_all(&s, size, layout);
            expect_all_know_all(&one, layout->hosts, NULL);
            for (int h = 0; h < layout->hosts; h++)
                for (int to = 0; to < layout->hosts; to++)
                    for (int round = 0; round < ROUNDS; round++)
                        sent[h] += one.used[h][to][round];
            for (int r = 0; r < size; r++)
                if (ss_layout_is_deep(layout))
                    assert_int_equal(s.outside[r],
                                     layout->local[r] == 0 ? sent[layout->host[r]] : 0);
            ss_layout_free(layout);
        }
}

/* On one host, and with one rank on each, the schedule is recursive doubling among all ranks. */
static void flat_layouts_change_no_message(void **state)
{
    static const char *const layouts[] = {"1", "123456789abcdefghijklmnopqrstuvwxyz"};
    static struct sets s, flat;

    (void)state;
    for (size_t l = 0; l < 2; l++)
        for (int size = 1; size <= 30; size++) {
            struct ss_layout *layout = layout_of(layouts[l], size);
            expect_all_know_all(&s, size, layout);
            expect_all_know_all(&flat, size, NULL);
            assert_memory_equal(s.used, flat.used, sizeof s.used);
            ss_layout_free(layout);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folding_numbers_the_ranks_that_stay_without_gaps),
        cmocka_unit_test(folded_ranks_know_each_other),
        cmocka_unit_test(peers_of_a_round_meet_each_other_and_all_meet_in_the_end),
        cmocka_unit_test(parts_cover_the_vector_once),
        cmocka_unit_test(the_schedule_brings_every_rank_to_every_rank),
        cmocka_unit_test(a_host_takes_part_like_one_rank),
        cmocka_unit_test(flat_layouts_change_no_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
