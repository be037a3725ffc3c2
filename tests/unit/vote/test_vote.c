/* The vote: all ranks end with the same ballot, the fold over all, for any number of ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/sim/sim.h"
#include "core/vote/vote.h"

enum { MOST = 64 };

struct election {
    struct ss_sim *sim;
    struct ss_layout *layout; /* NULL: one rank on each host */
    struct ss_vote votes[MOST];
    bool started[MOST];
    int status[MOST];
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* Ballots that differ in every field. */
static struct ss_ballot ballot_of(int rank, int size)
{
    struct ss_ballot b;
    uint64_t h = mix((uint64_t)(rank * 1000 + size + 1));

    ss_ballot_init(&b);
    b.flags = h % 97 == 0 ? SS_VOTE_CANNOT : 0;
    b.flags |= rank == size / 2 ? SS_VOTE_NOT_FINITE : 0;
    for (int i = 0; i < SS_SAMES; i++)
        b.same_min[i] = b.same_max[i] = i == SS_SAME_CALL ? 7 : h >> i;
    b.nnz_sum = b.nnz_max = h % 1000003;
    b.part_max = h % 5003;
    b.memory_min = h >> 1;
    b.result_max = h % 77777;
    for (int i = 0; i < SS_COSTS; i++)
        b.costs[i] = ss_float_bits((double)(mix(h + (uint64_t)i) % 1000) * 1e-9);
    b.last_min = ss_double_bits((double)(h % 1000));
    return b;
}

static int step(void *ctx, int rank)
{
    struct election *e = ctx;
    struct ss_transport *t = ss_sim_transport(e->sim, rank);
    bool moved = false;

    if (!e->started[rank]) {
        e->started[rank] = true;
        e->votes[rank].ballot = ballot_of(rank, t->size);
        ss_vote_start(&e->votes[rank], t, 7);
    }
    int status = t->ops->poll(t);
    return status != SS_OK ? status : ss_vote_step(&e->votes[rank], &moved);
}

/* hosts[r mod its length] is the host of rank r; NULL: each has its own. */
static bool vote_all(struct election *e, const char *hosts, int size, uint64_t seed,
                     struct ss_sim_fault fault)
{
    memset(e, 0, sizeof *e);
    e->sim = ss_sim_create(size, 1e-6, 1e-9, seed);
    ss_sim_set_fault(e->sim, fault);
    e->layout = hosts ? ss_layout_create(size) : NULL;
    for (int r = 0; hosts && r < size; r++)
        e->layout->ids[r] = (uint64_t)hosts[(size_t)r % strlen(hosts)];
    if (hosts)
        ss_layout_find(e->layout);
    for (int r = 0; r < size; r++)
        ss_sim_transport(e->sim, r)->layout = e->layout;
    bool ended = ss_sim_run(e->sim, step, e, e->status, 1000000);
    for (int r = 0; r < size; r++)
        ss_vote_cancel(&e->votes[r]);
    ss_sim_free(e->sim);
    ss_layout_free(e->layout);
    return ended;
}

static const char *const layouts[] = {NULL, "1122", "1212", "11123", "12", "1111111112"};
#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

static void all_ranks_get_the_fold_over_all(void **state)
{
    static struct election e;

    (void)state;
    for (size_t l = 0; l < LENGTH(layouts); l++)
        for (int size = 1; size <= MOST; size++)
            for (uint64_t seed = 0; seed < 3; seed++) {
                struct ss_ballot all = ballot_of(0, size);
                for (int r = 1; r < size; r++) {
                    struct ss_ballot b = ballot_of(r, size);
                    ss_ballot_merge(&all, &b);
                }
                assert_true(
                    vote_all(&e, layouts[l], size, seed, (struct ss_sim_fault){.rank = -1}));
                for (int r = 0; r < size; r++) {
                    assert_int_equal(e.status[r], SS_OK);
                    assert_memory_equal(&e.votes[r].ballot, &all,
                                        offsetof(struct ss_ballot, check));
                }
            }
}

static void the_fold_is_sum_min_max_and_or(void **state)
{
    struct ss_ballot a = ballot_of(1, 5), b = ballot_of(2, 5), ab = a, ba = b;

    (void)state;
    ss_ballot_merge(&ab, &b);
    ss_ballot_merge(&ba, &a);
    assert_memory_equal(&ab, &ba, sizeof ab);
    assert_int_equal(ab.flags, a.flags | b.flags);
    assert_int_equal(ab.flags & SS_VOTE_NOT_FINITE, SS_VOTE_NOT_FINITE);
    assert_int_equal(ab.nnz_sum, a.nnz_sum + b.nnz_sum);
    assert_int_equal(ab.nnz_max, a.nnz_max > b.nnz_max ? a.nnz_max : b.nnz_max);
    assert_int_equal(ab.memory_min, a.memory_min < b.memory_min ? a.memory_min : b.memory_min);
    assert_true(ss_ballot_same(&ab, SS_SAME_CALL));
    assert_false(ss_ballot_same(&ab, SS_SAME_LANE));
    for (int i = 0; i < SS_COSTS; i++) {
        double x = ss_bits_float(a.costs[i]), y = ss_bits_float(b.costs[i]);
        assert_true(ss_bits_float(ab.costs[i]) == (x > y ? x : y));
    }
}

/* Whoever receives a damaged ballot says so, wherever the damage is. */
static void a_damaged_ballot_is_a_protocol_error(void **state)
{
    static struct election e;

    (void)state;
    for (size_t i = 0; i < 8 * sizeof(struct ss_ballot); i++) {
        const int size = 2 + (int)(i % 8);
        const size_t byte = i / 8;
        for (size_t l = 0; l < LENGTH(layouts); l++)
            for (int rank = 0; rank < size; rank++) {
                struct ss_sim_fault fault = {
                    .rank = rank, .corrupt_send = 1, .corrupt_byte = byte, .corrupt_mask = 0x04};
                int reported = 0;
                for (int r = 0; r < MOST; r++)
                    e.status[r] = SS_PENDING;
                vote_all(&e, layouts[l], size, 0, fault);
                for (int r = 0; r < size; r++)
                    reported += e.status[r] == SS_ERR_PROTOCOL;
                assert_int_equal(reported, 1);
            }
    }
}

static int step_against_garbage(void *ctx, int rank)
{
    struct election *e = ctx;
    static const char garbage[4] = "abc";
    static struct ss_request request;

    if (rank == 0)
        return step(ctx, rank);
    struct ss_transport *t = ss_sim_transport(e->sim, rank);
    t->ops->send(t, 0, (struct ss_tag){.call = 7}, garbage, sizeof garbage, &request);
    return SS_OK;
}

static void a_message_of_another_size_is_a_protocol_error(void **state)
{
    static struct election e;

    (void)state;
    memset(&e, 0, sizeof e);
    e.sim = ss_sim_create(2, 1e-6, 1e-9, 0);
    assert_true(ss_sim_run(e.sim, step_against_garbage, &e, e.status, 1000));
    assert_int_equal(e.status[0], SS_ERR_PROTOCOL);
    ss_sim_free(e.sim);
}

static void a_send_refused_once_does_not_end_the_vote(void **state)
{
    static struct election e;

    (void)state;
    for (size_t l = 0; l < LENGTH(layouts); l++)
        for (int size = 2; size <= 9; size++)
            for (int rank = 0; rank < size; rank++) {
                const struct ss_sim_fault fault = {.rank = rank, .fail_send = 1};
                assert_true(vote_all(&e, layouts[l], size, 0, fault));
                for (int r = 0; r < size; r++)
                    assert_int_equal(e.status[r], SS_OK);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_get_the_fold_over_all),
        cmocka_unit_test(the_fold_is_sum_min_max_and_or),
        cmocka_unit_test(a_damaged_ballot_is_a_protocol_error),
        cmocka_unit_test(a_message_of_another_size_is_a_protocol_error),
        cmocka_unit_test(a_send_refused_once_does_not_end_the_vote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
