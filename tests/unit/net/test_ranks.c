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

/* Sets of ranks, merged along the schedule of all ranks at once, as far as each can go. */
static void the_schedule_brings_every_rank_to_every_rank(void **state)
{
    enum { MOST_RANKS = 33, LONGEST = 16 };
    static uint64_t sent[MOST_RANKS][LONGEST]; /* by sender and meeting; its receiver is the same */

    (void)state;
    for (int size = 1; size <= MOST_RANKS; size++) {
        struct ss_schedule at[MOST_RANKS];
        uint64_t known[MOST_RANKS];
        struct ss_meeting m, theirs;
        bool moved = true;

        memset(sent, 0, sizeof sent);
        for (int r = 0; r < size; r++) {
            at[r] = ss_schedule_of(r, size);
            known[r] = 1ULL << r;
        }
        while (moved) {
            moved = false;
            for (int r = 0; r < size; r++) {
                if (!ss_schedule_now(&at[r], &m))
                    continue;
                int tag = (int)m.round % LONGEST; /* 40 and 41 are 8 and 9 */
                if (m.to >= 0)
                    sent[r][tag] = known[r];
                if (m.from >= 0 && sent[m.from][tag] == 0)
                    continue;
                if (m.from >= 0 && ss_schedule_now(&at[m.from], &theirs) && theirs.round == m.round)
                    assert_int_equal(theirs.to, r);
                ss_schedule_next(&at[r]);
                moved = true;
                if (m.from >= 0)
                    known[r] = m.result ? sent[m.from][tag] : known[r] | sent[m.from][tag];
            }
        }
        for (int r = 0; r < size; r++) {
            assert_false(ss_schedule_now(&at[r], &m));
            assert_true(known[r] == (1ULL << size) - 1);
        }
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
