/* Together or not at all: memory limits, differing settings, refused, damaged and lost messages
 * (design section 3, invariant 6). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/oracle.h"
#include "tests/unit/support/sim_job.h"

enum { N = 700, MOST = 6 };

struct calls {
    struct sim_job job;
    struct array sent[MOST], out[MOST];
    struct input in;
};

static struct ss_settings settings_of(enum ss_algorithm algorithm)
{
    return (struct ss_settings){.algorithm = algorithm, .alpha = 1e-6, .beta = 1e-9, .hash = 1};
}

static void calls_open(struct calls *k, int size, size_t n, const struct ss_settings *settings)
{
    memset(k, 0, sizeof *k);
    k->in = (struct input){.size = size,
                           .type = SS_F32,
                           .op = SS_SUM,
                           .n = n,
                           .density = 0.05,
                           .place = UNIFORM,
                           .values = ORDINARY,
                           .seed = 11};
    job_open(&k->job, size, 1e-6, 1e-9, 0, settings);
    for (int r = 0; r < size; r++) {
        k->sent[r] = array_make(n, 4);
        k->out[r] = array_make(n, 4);
        input_fill(&k->in, r, k->sent[r].data);
    }
}

static void calls_close(struct calls *k)
{
    for (int r = 0; r < k->in.size; r++) {
        assert_true(array_guards_hold(&k->out[r]));
        free(k->sent[r].base);
        free(k->out[r].base);
    }
    job_close(&k->job);
}

static void set_buffers(struct calls *k)
{
    for (int r = 0; r < k->in.size; r++) {
        memset(k->out[r].data, POISON_BYTE, k->out[r].bytes);
        k->job.in[r] = k->sent[r].data;
        k->job.out[r] = k->out[r].data;
    }
}

/* One call; false when some rank never ended. */
static bool call(struct calls *k)
{
    set_buffers(k);
    return job_call(&k->job, k->in.type, k->in.op, k->in.n);
}

static void expect_native(struct calls *k, enum ss_reason reason)
{
    assert_true(call(k));
    for (int r = 0; r < k->in.size; r++) {
        assert_int_equal(k->job.status[r], SS_NATIVE);
        assert_int_equal(ss_call_reason(ss_comm_call(k->job.comm[r])), reason);
        for (size_t i = 0; i < k->out[r].bytes; i++)
            assert_int_equal(k->out[r].data[i], POISON_BYTE);
    }
}

static void expect_right(struct calls *k)
{
    assert_true(call(k));
    for (int r = 0; r < k->in.size; r++) {
        assert_int_equal(k->job.status[r], SS_OK);
        assert_int_equal(oracle_first_wrong(&k->in, k->sent, k->out[r].data), k->in.n);
    }
}

static void one_rank_without_memory_sends_all_native(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO);
    struct calls k;

    (void)state;
    for (int size = 2; size <= MOST; size++)
        for (int poor = 0; poor < size; poor++) {
            calls_open(&k, size, N, &settings);
            k.job.mem[poor].limit = 1;
            expect_native(&k, SS_WHY_CANNOT);
            expect_native(&k, SS_WHY_CANNOT);
            k.job.mem[poor].limit = 0;
            expect_right(&k);
            calls_close(&k);
        }
}

/* From none to plenty: native, then algorithms one after the other, never an error. */
static void any_memory_limit_gives_a_result_or_native(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO);
    bool native = false, sparse = false;
    struct calls k;

    (void)state;
    for (int a = SS_AUTO; a < SS_OKTOPK; a++)
        for (size_t limit = 1 << 16; limit < (size_t)1 << 26; limit += limit / 3) {
            settings.algorithm = (enum ss_algorithm)a;
            calls_open(&k, 3, 150000, &settings);
            k.job.mem[1].limit = limit;
            for (int i = 0; i < 3; i++) {
                k.in.density = i == 1 ? 0.3 : 0.002;
                for (int r = 0; r < 3; r++)
                    input_fill(&k.in, r, k.sent[r].data);
                assert_true(call(&k));
                for (int r = 0; r < 3; r++)
                    assert_int_equal(k.job.status[r], k.job.status[0]);
                assert_true(k.job.status[0] >= 0);
                native = native || k.job.status[0] == SS_NATIVE;
                sparse = sparse || k.job.status[0] == SS_OK;
                if (k.job.status[0] == SS_OK)
                    assert_int_equal(oracle_first_wrong(&k.in, k.sent, k.out[2].data), k.in.n);
                assert_true(k.job.mem[1].peak <= limit);
            }
            calls_close(&k);
        }
    assert_true(native && sparse);
}

/* Work space that an earlier call filled for another collective must not stand in the way of one
 * the plan found room for. */
static void kept_work_space_makes_way_for_the_next_collective(void **state)
{
    static const enum ss_algorithm order[] = {SS_RECURSIVE_DOUBLING, SS_RING,
                                              SS_SPLIT_ALLGATHER,    SS_ALLGATHER,
                                              SS_RECURSIVE_DOUBLING, SS_DSAR};
    struct calls k;

    (void)state;
    for (size_t limit = (size_t)4 << 20; limit < (size_t)64 << 20; limit += limit / 8) {
        struct ss_settings settings = settings_of(SS_AUTO);
        calls_open(&k, 2, 400000, &settings);
        k.job.mem[0].limit = limit;
        for (size_t i = 0; i < 4 * sizeof order / sizeof order[0]; i++) {
            for (int r = 0; r < 2; r++) {
                k.job.settings[r].algorithm = order[i % (sizeof order / sizeof order[0])];
                k.in.density = i % 5 == 0 ? 0.6 : 0.1;
                input_fill(&k.in, r, k.sent[r].data);
            }
            assert_true(call(&k));
            for (int r = 0; r < 2; r++) {
                if (k.job.status[r] < 0)
                    print_message("# limit %zu, call %zu: %s\n", limit, i,
                                  ss_status_text(k.job.status[r]));
                assert_true(k.job.status[r] >= 0);
            }
            assert_true(k.job.mem[0].peak <= limit);
        }
        calls_close(&k);
    }
}

static void other_settings_on_one_rank_send_all_native_for_good(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO);
    struct calls k;

    (void)state;
    for (int size = 2; size <= MOST; size++) {
        calls_open(&k, size, N, &settings);
        k.job.settings[size - 1].hash = 2;
        expect_native(&k, SS_WHY_SETTINGS);
        uint64_t sent = ss_sim_bytes_sent(k.job.sim, 0);
        expect_native(&k, SS_WHY_SETTINGS);
        assert_int_equal(ss_sim_bytes_sent(k.job.sim, 0), sent);
        calls_close(&k);
    }
}

static void off_on_one_rank_sends_all_native_until_on_again(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO);
    struct calls k;

    (void)state;
    calls_open(&k, 5, N, &settings);
    ss_comm_set_off(k.job.comm[3], true);
    expect_native(&k, SS_WHY_OFF);
    ss_comm_set_off(k.job.comm[3], false);
    expect_right(&k);
    calls_close(&k);
}

/* After an error on any rank: all ranks have had one by the end of the next call, and from then on
 * without a message. */
static void expect_broken_everywhere(struct calls *k)
{
    assert_true(call(k));
    for (int r = 0; r < k->in.size; r++) {
        assert_true(k->job.status[r] < 0);
        assert_true(ss_comm_status(k->job.comm[r]) < 0);
    }
    uint64_t sent = ss_sim_bytes_sent(k->job.sim, 0);
    assert_true(call(k));
    for (int r = 0; r < k->in.size; r++)
        assert_true(k->job.status[r] < 0);
    assert_int_equal(ss_sim_bytes_sent(k->job.sim, 0), sent);
}

static bool any_failed(const struct calls *k)
{
    for (int r = 0; r < k->in.size; r++)
        if (k->job.status[r] < 0)
            return true;
    return false;
}

/* Messages each rank sends in one call without a fault. */
static uint64_t sends_of(int size, int rank, const struct ss_settings *settings)
{
    struct calls k;

    calls_open(&k, size, N, settings);
    expect_right(&k);
    uint64_t sends = ss_sim_sends(k.job.sim, rank);
    calls_close(&k);
    return sends;
}

static void a_refused_send_ends_on_all_ranks(void **state)
{
    struct calls k;

    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++)
        for (int measured = 0; measured < 2; measured++)
            for (int size = 2; size <= MOST; size++)
                for (int rank = 0; rank < size; rank++) {
                    struct ss_settings settings = settings_of((enum ss_algorithm)a);
                    if (measured)
                        settings.alpha = settings.beta = -1;
                    uint64_t sends = sends_of(size, rank, &settings);
                    for (uint64_t n = 1; n <= sends; n += measured ? 1 + sends / 40 : 1) {
                        calls_open(&k, size, N, &settings);
                        ss_sim_set_eager(k.job.sim, 0);
                        ss_sim_set_fault(k.job.sim,
                                         (struct ss_sim_fault){.rank = rank, .fail_send = n});
                        assert_true(call(&k));
                        if (any_failed(&k))
                            expect_broken_everywhere(&k);
                        else
                            expect_right(&k);
                        calls_close(&k);
                    }
                }
}

/* Streams of several chunks, where each send waits for its receive. */
static void a_refused_send_amid_long_streams_ends_on_all_ranks(void **state)
{
    struct calls k;

    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++)
        for (int size = 2; size <= 4; size++)
            for (uint64_t n = 3; n <= 24; n += 3) {
                struct ss_settings settings = settings_of((enum ss_algorithm)a);
                calls_open(&k, size, 110000, &settings);
                k.in.density = 1;
                for (int r = 0; r < size; r++)
                    input_fill(&k.in, r, k.sent[r].data);
                ss_sim_set_eager(k.job.sim, 0);
                ss_sim_set_fault(k.job.sim, (struct ss_sim_fault){.rank = 1, .fail_send = n});
                assert_true(call(&k));
                bool failed = any_failed(&k);
                ss_sim_set_fault(k.job.sim, (struct ss_sim_fault){.rank = -1});
                if (failed)
                    expect_broken_everywhere(&k);
                else
                    expect_right(&k);
                calls_close(&k);
            }
}

/* Messages of the recipe: what no check can see may give another sum, all else is an error; nobody
 * waits for ever. */
static void a_damaged_message_ends_on_all_ranks(void **state)
{
    static const size_t bytes[] = {0, 1, 2, 3, 4, 8, 9, 12, 13, 16, 19, 40, 1000003};
    static const unsigned char masks[] = {0x10, 0x01, 0x80, 0xff};
    struct calls k;

    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++)
        for (int size = 2; size <= MOST; size++) {
            struct ss_settings settings = settings_of((enum ss_algorithm)a);
            int rank = size / 2;
            uint64_t sends = sends_of(size, rank, &settings);
            settings.timeout = 1e-3;
            for (uint64_t n = 1; n <= sends; n++)
                for (size_t b = 0; b < sizeof bytes / sizeof bytes[0]; b++)
                    for (size_t m = 0; m < sizeof masks; m++) {
                        calls_open(&k, size, N, &settings);
                        ss_sim_set_idle(k.job.sim, 1e-4);
                        ss_sim_set_fault(k.job.sim,
                                         (struct ss_sim_fault){.rank = rank,
                                                               .corrupt_send = n,
                                                               .corrupt_byte = bytes[b],
                                                               .corrupt_mask = masks[m]});
                        assert_true(call(&k));
                        if (any_failed(&k))
                            expect_broken_everywhere(&k);
                        calls_close(&k);
                    }
        }
}

static void a_lost_message_ends_by_timeout_that_names_rank_peer_and_phase(void **state)
{
    static const char *const phases[] = {"vote", "fold in", "exchange", "fold out", "allgather"};
    struct calls k;

    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++)
        for (int size = 2; size <= MOST; size++) {
            struct ss_settings settings = settings_of((enum ss_algorithm)a);
            uint64_t sends = sends_of(size, 1, &settings);
            settings.timeout = 0.25;
            for (uint64_t n = 1; n <= sends; n++) {
                bool named = false;
                calls_open(&k, size, N, &settings);
                ss_sim_set_idle(k.job.sim, 0.01);
                ss_sim_set_fault(k.job.sim, (struct ss_sim_fault){.rank = 1, .lose_send = n});
                assert_true(call(&k));
                for (int r = 0; r < size; r++) {
                    char text[300], rank[32];
                    if (k.job.status[r] != SS_ERR_TIMEOUT)
                        continue;
                    ss_call_explain(ss_comm_call(k.job.comm[r]), text, sizeof text);
                    snprintf(rank, sizeof rank, "rank %d: timeout in the ", r);
                    assert_int_equal(strncmp(text, rank, strlen(rank)), 0);
                    assert_non_null(strstr(text, "SPARSESHIM_TIMEOUT=0.25"));
                    for (size_t p = 0; p < sizeof phases / sizeof phases[0]; p++)
                        named = named ||
                                (strncmp(text + strlen(rank), phases[p], strlen(phases[p])) == 0 &&
                                 strstr(text, "talking to rank 1"));
                }
                assert_true(named);
                expect_broken_everywhere(&k);
                calls_close(&k);
            }
        }
}

/* What the vote promised is there, whatever other threads take from the pool meanwhile. */
static void memory_promised_by_the_vote_is_there(void **state)
{
    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++) {
        struct ss_settings settings = settings_of((enum ss_algorithm)a);
        struct calls k;

        calls_open(&k, 4, N, &settings);
        k.job.limit_after_vote = true;
        assert_true(call(&k));
        for (int r = 0; r < 4; r++)
            assert_int_equal(k.job.status[r], SS_OK);
        calls_close(&k);
    }
}

/* A rank that runs out of memory after the vote. */
static void fail_after_vote(enum ss_algorithm algorithm, int size, int poor, size_t n)
{
    struct ss_settings settings = settings_of(algorithm);
    struct calls k;
    char text[300];

    calls_open(&k, size, n, &settings);
    k.in.density = n > N ? 1 : k.in.density;
    for (int r = 0; r < size; r++)
        input_fill(&k.in, r, k.sent[r].data);
    ss_sim_set_eager(k.job.sim, 0);
    k.job.starve_rank = poor;
    k.job.starve_after_vote = true;
    assert_true(call(&k));
    for (int r = 0; r < size; r++)
        assert_int_equal(k.job.status[r], r == poor ? SS_ERR_MEMORY : SS_ERR_PEER);
    k.job.starve_after_vote = false;
    expect_broken_everywhere(&k);
    ss_call_explain(ss_comm_call(k.job.comm[poor]), text, sizeof text);
    assert_non_null(strstr(text, "out of memory"));
    calls_close(&k);
}

static void a_rank_failing_after_the_vote_fails_all(void **state)
{
    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++)
        for (int size = 2; size <= MOST; size++)
            for (int poor = 0; poor < size; poor++) {
                fail_after_vote((enum ss_algorithm)a, size, poor, N);
                if (poor == size / 2)
                    fail_after_vote((enum ss_algorithm)a, size, poor, 110000);
            }
}

static void ranks_in_different_calls_are_told(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO);
    struct calls k;

    (void)state;
    for (int size = 2; size <= MOST; size++) {
        calls_open(&k, size, N, &settings);
        k.job.other_n_rank = size - 1;
        k.job.other_n = N - 1;
        assert_true(call(&k));
        for (int r = 0; r < size; r++) {
            char text[300];
            assert_int_equal(k.job.status[r], SS_ERR_DIFFERENT);
            ss_call_explain(ss_comm_call(k.job.comm[r]), text, sizeof text);
            assert_non_null(strstr(text, "different counts, datatypes or operators"));
        }
        expect_broken_everywhere(&k);
        calls_close(&k);
    }
}

/* The job's call on all ranks but the last, which never comes; told[r]: warnings of rank r. */
struct waiting {
    struct calls *k;
    int told[MOST];
    char text[600];
};

static int step_and_listen(void *ctx, int rank)
{
    struct waiting *w = ctx;
    struct ss_call *c = ss_comm_call(w->k->job.comm[rank]);

    if (rank == w->k->job.size - 1)
        return SS_OK;
    int status = job_step(&w->k->job, rank);
    if (status == SS_PENDING && ss_call_waits(c, w->text, sizeof w->text)) {
        char begin[80];
        snprintf(begin, sizeof begin, "communicator \"sim\" of %d ranks: rank %d has waited ",
                 w->k->job.size, rank);
        assert_int_equal(strncmp(w->text, begin, strlen(begin)), 0);
        w->told[rank]++;
    }
    return status;
}

static void wait_for_the_last(double patience, double timeout, int size, struct waiting *w)
{
    struct ss_settings settings = settings_of(SS_RING);
    struct calls k;

    settings.patience = patience;
    settings.timeout = timeout;
    *w = (struct waiting){.k = &k};
    calls_open(&k, size, N, &settings);
    ss_sim_set_idle(k.job.sim, 0.5);
    set_buffers(&k);
    k.job.n = N;
    assert_true(ss_sim_run(k.job.sim, step_and_listen, w, k.job.status, 100000000));
    for (int r = 0; r + 1 < size; r++)
        assert_int_equal(k.job.status[r], SS_ERR_TIMEOUT);
    calls_close(&k);
}

static void a_long_wait_is_told_once_with_what_may_be_the_cause(void **state)
{
    struct waiting w;

    (void)state;
    for (int size = 2; size <= MOST; size++) {
        wait_for_the_last(30, 100, size, &w);
        for (int r = 0; r + 1 < size; r++)
            assert_int_equal(w.told[r], 1);
        assert_non_null(strstr(w.text, "in the vote of call 1 (allreduce of "));
        assert_non_null(strstr(w.text, "the same count, datatype and operator"));
        assert_non_null(strstr(w.text, "SPARSESHIM_MIN_COUNT"));
        wait_for_the_last(30, 20, size, &w);
        for (int r = 0; r + 1 < size; r++)
            assert_int_equal(w.told[r], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_without_memory_sends_all_native),
        cmocka_unit_test(any_memory_limit_gives_a_result_or_native),
        cmocka_unit_test(kept_work_space_makes_way_for_the_next_collective),
        cmocka_unit_test(other_settings_on_one_rank_send_all_native_for_good),
        cmocka_unit_test(off_on_one_rank_sends_all_native_until_on_again),
        cmocka_unit_test(a_refused_send_ends_on_all_ranks),
        cmocka_unit_test(a_refused_send_amid_long_streams_ends_on_all_ranks),
        cmocka_unit_test(a_damaged_message_ends_on_all_ranks),
        cmocka_unit_test(a_long_wait_is_told_once_with_what_may_be_the_cause),
        cmocka_unit_test(a_lost_message_ends_by_timeout_that_names_rank_peer_and_phase),
        cmocka_unit_test(memory_promised_by_the_vote_is_there),
        cmocka_unit_test(a_rank_failing_after_the_vote_fails_all),
        cmocka_unit_test(ranks_in_different_calls_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
