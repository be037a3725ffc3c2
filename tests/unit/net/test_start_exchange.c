/* Rounds that any ranks start: every rank hears of each, in order, once per edge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/net/start_exchange.h"
#include "core/sim/sim.h"

enum { MOST = 64, ROUNDS = 40 };

struct flood {
    int size;
    uint64_t random;
    struct ss_sim *sim;
    struct ss_start_exchange a[MOST];
    int first;     /* the only initiator */
    uint32_t last; /* round that all ranks are to handle */
    int status[MOST];
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static void flood_open(struct flood *f, int size, uint64_t seed)
{
    memset(f, 0, sizeof *f);
    f->size = size;
    f->random = mix(seed + 99);
    f->sim = ss_sim_create(size, 1e-6, 1e-9, seed);
    ss_sim_set_idle(f->sim, 1e-4);
    for (int r = 0; r < size; r++)
        ss_start_exchange_open(&f->a[r], ss_sim_transport(f->sim, r));
}

static void flood_close(struct flood *f)
{
    for (int r = 0; r < f->size; r++)
        ss_start_exchange_close(&f->a[r]);
    ss_sim_free(f->sim);
}

/* Which ranks start a round: at least one of them. */
static bool is_initiator(const struct flood *f, uint32_t round, int rank)
{
    uint64_t h = mix(f->random + round);

    return rank == (int)(h % (uint64_t)f->size) || mix(h + (uint64_t)rank) % 4 == 0;
}

/* All that a round is for: nobody begins the next one before all have handled this one. */
static int step(void *ctx, int rank)
{
    struct flood *f = ctx;
    struct ss_start_exchange *a = &f->a[rank];
    const struct ss_start_message *seen;
    uint64_t words[SS_START_WORDS] = {0};

    ss_sim_transport(f->sim, rank)->ops->poll(ss_sim_transport(f->sim, rank));
    assert_int_equal(ss_start_exchange_step(a), SS_OK);
    if (a->round == f->last)
        return SS_OK;
    seen = ss_start_exchange_seen(a);
    words[0] = words[1] = f->last * 3;
    if (seen) {
        assert_int_equal(seen->round, f->last);
        assert_int_equal(seen->words[0], words[0]);
    }
    if (seen || is_initiator(f, f->last, rank))
        assert_int_equal(ss_start_exchange_handle(a, words), SS_OK);
    return a->round == f->last ? SS_OK : SS_PENDING;
}

static void edges_are_distinct_ranks_and_lead_both_ways(void **state)
{
    struct flood f;

    (void)state;
    for (int size = 2; size <= MOST; size++) {
        flood_open(&f, size, 1);
        for (int r = 0; r < size; r++)
            for (int j = 0; j < f.a[r].edges; j++) {
                assert_int_not_equal(f.a[r].edge[j].to, r);
                assert_int_equal(f.a[f.a[r].edge[j].to].edge[j].from, r);
                for (int i = 0; i < j; i++)
                    assert_int_not_equal(f.a[r].edge[i].to, f.a[r].edge[j].to);
            }
        assert_true(1 << f.a[0].edges >= size && 1 << f.a[0].edges < 2 * size);
        flood_close(&f);
    }
}

static void run_rounds(int size, uint64_t seed)
{
    struct flood f;

    flood_open(&f, size, seed);
    for (f.last = 1; f.last <= ROUNDS; f.last++)
        assert_true(ss_sim_run(f.sim, step, &f, f.status, 10000000));
    for (int r = 0; r < size; r++)
        assert_int_equal(ss_sim_sends(f.sim, r), ROUNDS * (uint64_t)f.a[r].edges);
    flood_close(&f);
}

static void whoever_starts_a_round_all_ranks_handle_it_with_one_message_on_each_edge(void **state)
{
    (void)state;
    for (int size = 2; size <= 17; size++)
        for (uint64_t seed = 0; seed < 8; seed++)
            run_rounds(size, seed);
    run_rounds(64, 0);
    run_rounds(64, 5);
}

/* ceil(log2 P) hops from any rank: with nobody but one initiator, in messages of unit latency. */
static int step_alone(void *ctx, int rank)
{
    struct flood *f = ctx;

    if (rank == f->first && f->a[rank].round == 0) {
        uint64_t words[SS_START_WORDS] = {f->last * 3, f->last * 3};
        assert_int_equal(ss_start_exchange_handle(&f->a[rank], words), SS_OK);
    }
    if (f->a[rank].round == 1)
        return SS_OK;
    ss_sim_transport(f->sim, rank)->ops->poll(ss_sim_transport(f->sim, rank));
    assert_int_equal(ss_start_exchange_step(&f->a[rank]), SS_OK);
    const struct ss_start_message *seen = ss_start_exchange_seen(&f->a[rank]);
    if (!seen)
        return SS_PENDING;
    assert_int_equal(ss_start_exchange_handle(&f->a[rank], seen->words), SS_OK);
    return SS_OK;
}

static void a_start_is_everywhere_after_log2_p_messages(void **state)
{
    struct flood f;

    (void)state;
    for (int size = 2; size <= 17; size++)
        for (int first = 0; first < size; first++) {
            flood_open(&f, size, 0);
            ss_sim_set_idle(f.sim, 0);
            f.first = first;
            f.last = 1;
            assert_true(ss_sim_run(f.sim, step_alone, &f, f.status, 1000000));
            for (int r = 0; r < size; r++) /* alpha is 1e-6, beta of 24 bytes 24e-9 */
                assert_true(ss_sim_clock(f.sim, r) < f.a[0].edges * 1.2e-6);
            flood_close(&f);
        }
}

static void a_refused_message_goes_at_the_second_attempt(void **state)
{
    struct flood f;

    (void)state;
    for (uint64_t send = 1; send < 9; send++) {
        flood_open(&f, 5, 3);
        ss_sim_set_fault(f.sim, (struct ss_sim_fault){.rank = 2, .fail_send = send});
        for (f.last = 1; f.last <= 4; f.last++)
            assert_true(ss_sim_run(f.sim, step, &f, f.status, 1000000));
        flood_close(&f);
    }
}

static int step_different(void *ctx, int rank)
{
    struct flood *f = ctx;
    uint64_t words[SS_START_WORDS] = {(uint64_t)rank, 0};
    int status;

    ss_sim_transport(f->sim, rank)->ops->poll(ss_sim_transport(f->sim, rank));
    status = ss_start_exchange_step(&f->a[rank]);
    if (f->a[rank].round == 0)
        assert_int_equal(ss_start_exchange_handle(&f->a[rank], words), SS_OK);
    return status == SS_OK ? SS_PENDING : status;
}

static void ranks_that_start_different_things_hear_of_it(void **state)
{
    struct flood f;

    (void)state;
    flood_open(&f, 3, 2);
    assert_true(ss_sim_run(f.sim, step_different, &f, f.status, 100000));
    for (int r = 0; r < 3; r++)
        assert_int_equal(f.status[r], SS_ERR_DIFFERENT);
    flood_close(&f);
}

/* Rank 0 starts a round, rank 1 hears of it. */
static int step_pair(void *ctx, int rank)
{
    struct flood *f = ctx;
    int status;

    ss_sim_transport(f->sim, rank)->ops->poll(ss_sim_transport(f->sim, rank));
    status = ss_start_exchange_step(&f->a[rank]);
    if (rank == 0)
        return ss_start_exchange_handle(&f->a[0], (uint64_t[SS_START_WORDS]){7, 7});
    return status == SS_OK ? SS_PENDING : status;
}

static void a_damaged_message_is_an_error(void **state)
{
    struct flood f;

    (void)state;
    flood_open(&f, 2, 0);
    ss_sim_set_fault(f.sim, (struct ss_sim_fault){.rank = 0, .corrupt_send = 1});
    assert_true(ss_sim_run(f.sim, step_pair, &f, f.status, 100000));
    assert_int_equal(f.status[0], SS_OK);
    assert_int_equal(f.status[1], SS_ERR_PROTOCOL);
    assert_null(ss_start_exchange_seen(&f.a[1]));
    flood_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_are_distinct_ranks_and_lead_both_ways),
        cmocka_unit_test(whoever_starts_a_round_all_ranks_handle_it_with_one_message_on_each_edge),
        cmocka_unit_test(a_start_is_everywhere_after_log2_p_messages),
        cmocka_unit_test(a_refused_message_goes_at_the_second_attempt),
        cmocka_unit_test(ranks_that_start_different_things_hear_of_it),
        cmocka_unit_test(a_damaged_message_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
