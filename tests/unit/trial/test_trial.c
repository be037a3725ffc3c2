/* Simulated calls: the entries that are drawn, results without dense vectors, bytes and times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/trial/trial.h"

static const struct ss_trial small = {
    .entries = {.n = 40000, .density = 0.02, .seed = 7}, .alpha = 1e-5, .beta = 1e-9, .warm = 1};

/* ---- entries ---- */

static size_t draw(const struct ss_entries *e, uint64_t call, int rank, uint32_t *idx)
{
    struct ss_entries_cursor c;
    size_t count = 0;
    float val;

    ss_entries_start(&c, e, call, rank);
    while (ss_entries_next(&c, &idx[count], &val)) {
        assert_true(idx[count] < e->n);
        assert_true(count == 0 || idx[count] > idx[count - 1]);
        assert_true(val >= 1 && val <= SS_ENTRY_MOST && val == floorf(val));
        count++;
    }
    return count;
}

static void a_rank_has_exactly_its_share_of_entries(void **state)
{
    static const double densities[] = {1e-7, 0.001, 0.3, 0.97, 1};
    uint32_t *idx = malloc(50001 * sizeof *idx);

    (void)state;
    for (size_t d = 0; d < 5; d++)
        for (int rank = 0; rank < 20; rank++) {
            struct ss_entries e = {.n = 50000, .density = densities[d], .seed = d};
            assert_int_equal(draw(&e, 1, rank, idx), ss_entries_each(&e));
        }
    free(idx);
}

/* Neighbours, too: of a uniform set of density d a share d of the entries has its next place taken.
 */
static void places_are_even_and_independent(void **state)
{
    enum { N = 200000 };
    struct ss_entries e = {.n = N, .density = 0.1, .seed = 3};
    uint32_t *idx = malloc((N + 1) * sizeof *idx);
    double tenth[10] = {0}, neighbours = 0, all = 0;

    (void)state;
    for (int rank = 0; rank < 50; rank++) {
        size_t count = draw(&e, 1, rank, idx);
        for (size_t i = 0; i < count; i++) {
            tenth[idx[i] / (N / 10)]++;
            neighbours += i > 0 && idx[i] == idx[i - 1] + 1;
        }
        all += (double)count;
    }
    for (int i = 0; i < 10; i++)
        assert_true(fabs(tenth[i] / all - 0.1) < 5 * sqrt(0.09 / all));
    assert_true(fabs(neighbours / all - 0.1) < 5 * sqrt(0.09 / all));
    free(idx);
}

static double in_union(const struct ss_entries *e, int ranks)
{
    unsigned char *seen = calloc(e->n, 1);
    uint32_t *idx = malloc((e->n + 1) * sizeof *idx);
    double count = 0;

    for (int r = 0; r < ranks; r++)
        for (size_t left = draw(e, 1, r, idx); left > 0; left--)
            seen[idx[left - 1]] = 1;
    for (size_t i = 0; i < e->n; i++)
        count += seen[i];
    free(seen);
    free(idx);
    return count;
}

static void the_union_is_what_chance_and_overlap_make_it(void **state)
{
    (void)state;
    for (double overlap = 0; overlap <= 1; overlap += 0.25)
        for (int ranks = 2; ranks <= 32; ranks *= 2) {
            struct ss_entries e = {.n = 100000, .density = 0.02, .overlap = overlap, .seed = 11};
            double expected = ss_entries_union(&e, ranks);
            assert_true(fabs(in_union(&e, ranks) - expected) <= 0.01 * expected);
        }
    struct ss_entries same = {.n = 100000, .density = 0.02, .overlap = 1, .seed = 11};
    assert_true(in_union(&same, 9) == 2000);
}

/* ---- results ---- */

/* Blocks and scattered elements of P ranks make up all elements, each once; runs lie in the first
 * quarter; words are the rarer the higher their index, and the first ones are on all ranks. */
static void supports_are_where_their_names_say(void **state)
{
    enum { N = 40000, P = 8 };
    static unsigned char seen[N];
    uint32_t *idx = malloc((N + 1) * sizeof *idx);

    (void)state;
    for (int s = SS_SUPPORT_ZIPF; s < SS_SUPPORTS; s++) {
        const struct ss_entries e = {
            .n = N, .density = 1.0 / P, .seed = 5, .support = (enum ss_support)s};
        size_t least = N, most = 0, high = 0, all = 0;
        memset(seen, 0, sizeof seen);
        for (int r = 0; r < P; r++) {
            size_t count = draw(&e, 1, r, idx);
            least = count < least ? count : least;
            most = count > most ? count : most;
            for (size_t i = 0; i < count; i++) {
                seen[idx[i]]++;
                high += idx[i] >= N / 4;
            }
            all += count;
        }
        assert_true(least > N / P / 2 && most < N / P * 11 / 10);
        for (size_t i = 0; i < N && (s == SS_SUPPORT_OWN || s == SS_SUPPORT_SCATTERED); i++)
            assert_int_equal(seen[i], 1);
        assert_true(s != SS_SUPPORT_CLUSTERED || high == 0);
        assert_true(s != SS_SUPPORT_ZIPF || (seen[0] == P && high < all / 2 && high > all / 8));
    }
    free(idx);
}

static void every_exact_collective_gives_the_sum_of_the_inputs(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 9; ranks++) {
        uint64_t checksum = 0;
        for (int a = SS_AUTO; a < SS_OKTOPK; a++) {
            struct ss_trial t = small;
            struct ss_trial_result r;
            t.ranks = ranks;
            t.algorithm = (enum ss_algorithm)a;
            assert_int_equal(ss_trial_run(&t, &r), SS_OK);
            assert_true(checksum == 0 || r.checksum == checksum);
            checksum = r.checksum;
        }
    }
}

/* Where streams become dense half-way, and where all is dense. */
static void dense_inputs_give_the_sum_too(void **state)
{
    (void)state;
    for (int a = SS_AUTO + 1; a < SS_OKTOPK; a++)
        for (double density = 0.2; density <= 1; density += 0.4) {
            struct ss_trial t = small;
            struct ss_trial_result r;
            t.ranks = 6;
            t.algorithm = (enum ss_algorithm)a;
            t.entries.density = density;
            assert_int_equal(ss_trial_run(&t, &r), SS_OK);
        }
}

static void a_global_top_k_is_the_same_on_all_ranks_and_about_k(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 33; ranks += ranks < 9 ? 1 : 8)
        for (int a = SS_OKTOPK; a <= SS_GTOPK; a++) {
            struct ss_trial t = small;
            struct ss_trial_result r;
            t.ranks = ranks;
            t.algorithm = (enum ss_algorithm)a;
            assert_int_equal(ss_trial_run(&t, &r), SS_OK);
            assert_true(r.result_nnz >= 400 && r.result_nnz <= 800 * 4 / 3);
        }
}

static void a_digest_tells_results_apart(void **state)
{
    struct ss_digest a = {0}, b = {0}, c = {0};

    (void)state;
    ss_digest_add(&a, 5, 1);
    ss_digest_add(&a, 9, 2);
    ss_digest_add(&b, 9, 2);
    ss_digest_add(&b, 7, 0);
    ss_digest_add(&b, 8, -0.0f);
    ss_digest_add(&b, 5, 1);
    ss_digest_add(&c, 5, 2);
    ss_digest_add(&c, 9, 1);
    assert_true(a.sum == b.sum && a.nnz == 2 && b.nnz == 2);
    assert_true(a.sum != c.sum);
}

static void the_same_trial_gives_the_same_figures(void **state)
{
    (void)state;
    for (int a = SS_AUTO; a < SS_ALGORITHMS; a++) {
        struct ss_trial t = small;
        struct ss_trial_result r = {0}, again = {0};
        t.ranks = 12;
        t.algorithm = (enum ss_algorithm)a;
        assert_int_equal(ss_trial_run(&t, &r), SS_OK);
        assert_int_equal(ss_trial_run(&t, &again), SS_OK);
        assert_true(r.seconds == again.seconds && r.bytes_max == again.bytes_max &&
                    r.bytes_sum == again.bytes_sum && r.messages_sum == again.messages_sum &&
                    r.rounds == again.rounds && r.memory == again.memory &&
                    r.checksum == again.checksum && r.ran == again.ran);
    }
}

/* ---- bytes and times ---- */

/* Rabenseifner's allreduce: 2 (P-1)/P vectors by each rank of a power of two; ranks beyond that
 * hand theirs over and get the result. */
static void dense_sends_what_its_formula_says(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 40; ranks++) {
        struct ss_trial t = small;
        struct ss_trial_result r;
        int power = 1, rounds = 0;
        t.ranks = ranks;
        t.algorithm = SS_DENSE;
        t.entries.n = 32 * 1024;
        for (; 2 * power <= ranks; power *= 2)
            rounds++;
        assert_int_equal(ss_trial_run(&t, &r), SS_OK);
        uint64_t vector = 4 * t.entries.n, beyond = (uint64_t)(ranks - power);
        uint64_t each = 2 * vector - 2 * vector / (uint64_t)power;
        double wire = (double)(each + (beyond > 0 ? 2 * vector : 0)) * t.beta;
        double latency = (2 * rounds + (beyond > 0 ? 2 : 0)) * t.alpha;
        assert_int_equal(r.bytes_sum, (uint64_t)power * each + 2 * beyond * vector);
        assert_int_equal(r.bytes_max, each + (beyond > 0 ? vector : 0));
        assert_int_equal(r.rounds, 2 * rounds + (beyond > 0 ? 2 : 0));
        assert_true(fabs(r.seconds - wire - latency) <= 1e-9);
    }
}

/* Between hosts dense sends what it sends with one rank on each, however many a host has. */
static void dense_sums_inside_hosts_first(void **state)
{
    (void)state;
    for (int ranks = 4; ranks <= 24; ranks += 5)
        for (int per_host = 2; per_host < ranks; per_host += 2) {
            struct ss_trial t = small;
            struct ss_trial_result one, several;
            t.algorithm = SS_DENSE;
            t.ranks = (ranks + per_host - 1) / per_host;
            assert_int_equal(ss_trial_run(&t, &one), SS_OK);
            t.ranks = ranks;
            t.per_host = per_host;
            assert_int_equal(ss_trial_run(&t, &several), SS_OK);
            assert_int_equal(several.outside_max, one.bytes_max);
            assert_true(several.seconds > one.seconds);
        }
}

/* Of dense inputs: 2 (P-1)/P vectors and a header of 16 bytes for each message, beside the vote. */
static void ring_sends_what_its_formula_says(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 17; ranks++) {
        struct ss_trial t = small;
        struct ss_trial_result dense, vote;
        t.ranks = ranks;
        t.algorithm = SS_RING;
        t.entries.n = 16 * 17 * 100;
        t.entries.density = 1;
        assert_int_equal(ss_trial_run(&t, &dense), SS_OK);
        t.algorithm = SS_DENSE;
        assert_int_equal(ss_trial_run(&t, &vote), SS_OK);
        double theory = 2.0 * (ranks - 1) * 4 * (double)t.entries.n; /* of all ranks */
        double beside = (double)dense.bytes_sum - theory;
        double rounds = 2.0 * ranks * (ranks - 1);
        assert_true(beside >= 16 * rounds);
        assert_true(beside <= 16 * rounds + 1200.0 * 2 * ranks * log2(2 * ranks)); /* votes */
        assert_true(dense.rounds >= 2 * (uint64_t)(ranks - 1));
    }
}

/* Equation 3 of Ok-Topk: 6 k (P-1)/P words at most; 2 k log2 P of gTop-k; TopkA grows with P. */
static void volumes_grow_as_the_papers_say(void **state)
{
    double k = 0.02 * 200000, last = 0;

    (void)state;
    for (int ranks = 4; ranks <= 128; ranks *= 2) {
        struct ss_trial t = small;
        struct ss_trial_result r;
        t.ranks = ranks;
        t.entries.n = 200000;
        t.algorithm = SS_OKTOPK;
        assert_int_equal(ss_trial_run(&t, &r), SS_OK);
        double headers = 2.0 * ranks * 16 + 3000 * log2(ranks);
        assert_true((double)r.bytes_sum / ranks <= 4 * 4 * k + headers);
        t.algorithm = SS_GTOPK;
        assert_int_equal(ss_trial_run(&t, &r), SS_OK);
        assert_true((double)r.bytes_max <= 8 * k * log2(ranks) + headers);
        t.algorithm = SS_ALLGATHER;
        assert_int_equal(ss_trial_run(&t, &r), SS_OK);
        assert_true((double)r.bytes_max >= 1.9 * last && (double)r.bytes_max <= 8 * k * ranks);
        last = (double)r.bytes_max;
    }
}

/* On the wire alone the cost model says what the simulation finds. */
static void the_cost_model_is_near(void **state)
{
    (void)state;
    for (int ranks = 4; ranks <= 64; ranks *= 4)
        for (int a = SS_AUTO + 1; a < SS_ALGORITHMS; a++) {
            struct ss_trial t = small;
            struct ss_trial_result r;
            struct ss_trial_estimate e;
            t.ranks = ranks;
            t.per_host = a == SS_TWO_LEVEL ? 2 : 1;
            t.algorithm = (enum ss_algorithm)a;
            t.entries.n = 400000;
            t.gap = t.alpha / 10;
            assert_int_equal(ss_trial_run(&t, &r), SS_OK);
            ss_trial_predict(&t, &e);
            print_message("# %2d ranks, %-18s %9.1f us, model %9.1f us\n", ranks,
                          ss_algorithm_name(t.algorithm), 1e6 * r.seconds, 1e6 * e.seconds);
            assert_true(fabs(e.seconds / r.seconds - 1) < 0.15);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_has_exactly_its_share_of_entries),
        cmocka_unit_test(places_are_even_and_independent),
        cmocka_unit_test(the_union_is_what_chance_and_overlap_make_it),
        cmocka_unit_test(supports_are_where_their_names_say),
        cmocka_unit_test(every_exact_collective_gives_the_sum_of_the_inputs),
        cmocka_unit_test(dense_inputs_give_the_sum_too),
        cmocka_unit_test(a_global_top_k_is_the_same_on_all_ranks_and_about_k),
        cmocka_unit_test(a_digest_tells_results_apart),
        cmocka_unit_test(the_same_trial_gives_the_same_figures),
        cmocka_unit_test(dense_sends_what_its_formula_says),
        cmocka_unit_test(dense_sums_inside_hosts_first),
        cmocka_unit_test(ring_sends_what_its_formula_says),
        cmocka_unit_test(volumes_grow_as_the_papers_say),
        cmocka_unit_test(the_cost_model_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
