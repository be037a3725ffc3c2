/* Together or not at all, for allgather, reduce_scatter and reduce: refused, damaged and lost
 * messages, memory that is short before and after the vote, arguments that some rank cannot serve
 * or that ranks describe differently (design section 3, invariant 6). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/kind_job.h"

enum { N = 720, LONG = 110040, MOST = 6 }; /* multiples of any number of ranks up to 6 */

static struct ss_settings settings_of(enum ss_algorithm algorithm)
{
    return (struct ss_settings){.algorithm = algorithm, .alpha = 1e-6, .beta = 1e-9, .hash = 1};
}

/* A case with entries from every rank for every other. */
static struct kind_case case_of(enum ss_kind kind, int size, size_t n)
{
    return (struct kind_case){.kind = kind,
                              .in = {.size = size,
                                     .type = SS_F32,
                                     .op = SS_SUM,
                                     .n = n,
                                     .density = n > N ? 1 : 0.2,
                                     .place = UNIFORM,
                                     .values = ORDINARY,
                                     .seed = 11},
                              .division = n % (size_t)size == 0 ? EQUAL : EQUAL_LISTED,
                              .root = size - 1};
}

static void calls_open(struct kind_job *k, const struct kind_case *c,
                       const struct ss_settings *settings)
{
    memset(k, 0, sizeof *k);
    k->cannot = -1;
    job_open(&k->job, c->in.size, 1e-6, 1e-9, 0, settings);
    kind_arrays_make(k, c);
}

static void calls_close(struct kind_job *k, const struct kind_case *c)
{
    for (int r = 0; r < c->in.size; r++) {
        assert_true(array_guards_hold(&k->out[r]));
        assert_true(array_guards_hold(&k->input[r]));
    }
    kind_arrays_free(k, c->in.size);
    job_close(&k->job);
}

static void expect_right(struct kind_job *k, const struct kind_case *c)
{
    assert_true(kind_call(k, c));
    for (int r = 0; r < c->in.size; r++)
        assert_int_equal(k->job.status[r], SS_OK);
    assert_null(kind_complaint(k, c));
}

static void all_are_native(const struct kind_job *k, const struct kind_case *c,
                           enum ss_reason reason)
{
    for (int r = 0; r < c->in.size; r++) {
        assert_int_equal(k->job.status[r], SS_NATIVE);
        assert_int_equal(ss_call_reason(ss_comm_call(k->job.comm[r])), reason);
        assert_true(kind_untouched(k, c, r));
    }
}

static void expect_native(struct kind_job *k, const struct kind_case *c, enum ss_reason reason)
{
    assert_true(kind_call(k, c));
    all_are_native(k, c, reason);
}

static bool any_failed(const struct kind_job *k)
{
    for (int r = 0; r < k->job.size; r++)
        if (k->job.status[r] < 0)
            return true;
    return false;
}

/* After an error on any rank: all ranks have had one by the end of the next call, and from then on
 * without a message. */
static void expect_broken_everywhere(struct kind_job *k, const struct kind_case *c)
{
    assert_true(kind_call(k, c));
    for (int r = 0; r < c->in.size; r++) {
        assert_true(k->job.status[r] < 0);
        assert_true(ss_comm_status(k->job.comm[r]) < 0);
    }
    uint64_t sent = ss_sim_bytes_sent(k->job.sim, 0);
    assert_true(kind_call(k, c));
    for (int r = 0; r < c->in.size; r++)
        assert_true(k->job.status[r] < 0);
    assert_int_equal(ss_sim_bytes_sent(k->job.sim, 0), sent);
}

static uint64_t sends_of(const struct kind_case *c, int rank)
{
    struct ss_settings settings = settings_of(SS_RING);
    struct kind_job k;

    calls_open(&k, c, &settings);
    expect_right(&k, c);
    uint64_t sends = ss_sim_sends(k.job.sim, rank);
    calls_close(&k, c);
    return sends;
}

static void refuse_send(const struct kind_case *c, int rank, uint64_t n)
{
    struct ss_settings settings = settings_of(SS_RING);
    struct kind_job k;

    calls_open(&k, c, &settings);
    ss_sim_set_eager(k.job.sim, 0);
    ss_sim_set_fault(k.job.sim, (struct ss_sim_fault){.rank = rank, .fail_send = n});
    assert_true(kind_call(&k, c));
    bool failed = any_failed(&k);
    ss_sim_set_fault(k.job.sim, (struct ss_sim_fault){.rank = -1});
    if (failed)
        expect_broken_everywhere(&k, c);
    else
        expect_right(&k, c);
    calls_close(&k, c);
}

static void a_refused_send_ends_on_all_ranks(void **state)
{
    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (int size = 2; size <= MOST; size++)
            for (int rank = 0; rank < size; rank++) {
                struct kind_case c = case_of((enum ss_kind)kind, size, N);
                uint64_t sends = sends_of(&c, rank);
                for (uint64_t n = 1; n <= sends; n++)
                    refuse_send(&c, rank, n);
            }
}

/* Streams of several chunks, where each send waits for its receive. */
static void a_refused_send_amid_long_streams_ends_on_all_ranks(void **state)
{
    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (int size = 2; size <= 4; size++) {
            struct kind_case c = case_of((enum ss_kind)kind, size, LONG);
            uint64_t sends = sends_of(&c, 1);
            for (uint64_t n = 2; n <= sends; n += 2)
                refuse_send(&c, 1, n);
        }
}

/* What no check can see may give another result, all else is an error; nobody waits for ever or
 * writes where he must not. */
static void a_damaged_message_ends_on_all_ranks(void **state)
{
    static const size_t bytes[] = {0, 1, 2, 3, 4, 8, 9, 12, 13, 16, 19, 40, 1000003};
    static const unsigned char masks[] = {0x10, 0x01, 0x80, 0xff};
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (int size = 2; size <= MOST; size++) {
            struct kind_case c = case_of((enum ss_kind)kind, size, N);
            struct ss_settings settings = settings_of(SS_RING);
            int rank = size / 2;
            uint64_t sends = sends_of(&c, rank);
            settings.timeout = 1e-3;
            for (uint64_t n = 1; n <= sends; n++)
                for (size_t b = 0; b < sizeof bytes / sizeof bytes[0] * sizeof masks; b++) {
                    calls_open(&k, &c, &settings);
                    ss_sim_set_idle(k.job.sim, 1e-4);
                    ss_sim_set_fault(
                        k.job.sim, (struct ss_sim_fault){.rank = rank,
                                                         .corrupt_send = n,
                                                         .corrupt_byte = bytes[b / sizeof masks],
                                                         .corrupt_mask = masks[b % sizeof masks]});
                    assert_true(kind_call(&k, &c));
                    if (any_failed(&k))
                        expect_broken_everywhere(&k, &c);
                    calls_close(&k, &c);
                }
        }
}

/* One entry travels from rank 1 to rank 0, as an index of 4 bytes; one bit of it moves the entry
 * into a part that is not the receiver's, or a slice that is not the sender's. */
static void an_entry_in_the_wrong_part_is_a_malformed_message(void **state)
{
    struct ss_settings settings = settings_of(SS_RING);
    struct kind_job k;

    (void)state;
    settings.coding = SS_CODING_U32;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++) {
        struct kind_case c = case_of((enum ss_kind)kind, 2, N);
        size_t at = kind == SS_KIND_ALLGATHER ? 460 - N / 2 : 100;
        c.in.density = 0;
        c.root = 0;
        calls_open(&k, &c, &settings);
        ((float *)k.input[1].data)[at] = 1;
        ss_sim_set_fault(k.job.sim,
                         (struct ss_sim_fault){.rank = 1,
                                               .corrupt_send = 2, /* after the vote */
                                               .corrupt_byte = SS_WIRE_HEADER + 4 + 1,
                                               .corrupt_mask = kind == SS_KIND_ALLGATHER ? 1 : 2});
        assert_true(kind_call(&k, &c));
        assert_int_equal(k.job.status[0], SS_ERR_MESSAGE);
        expect_broken_everywhere(&k, &c);
        calls_close(&k, &c);
    }
}

static void a_lost_message_ends_by_timeout_that_names_the_collective(void **state)
{
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (int size = 2; size <= MOST; size++) {
            struct kind_case c = case_of((enum ss_kind)kind, size, N);
            struct ss_settings settings = settings_of(SS_RING);
            uint64_t sends = sends_of(&c, 1);
            settings.timeout = 0.25;
            for (uint64_t n = 1; n <= sends; n++) {
                int timeouts = 0;
                calls_open(&k, &c, &settings);
                ss_sim_set_idle(k.job.sim, 0.01);
                ss_sim_set_fault(k.job.sim, (struct ss_sim_fault){.rank = 1, .lose_send = n});
                assert_true(kind_call(&k, &c));
                for (int r = 0; r < size; r++) {
                    char text[300], name[40];
                    if (k.job.status[r] != SS_ERR_TIMEOUT)
                        continue;
                    timeouts++;
                    ss_call_explain(ss_comm_call(k.job.comm[r]), text, sizeof text);
                    snprintf(name, sizeof name, "(%s, 720 ", ss_kind_name(c.kind));
                    assert_non_null(strstr(text, name));
                    assert_non_null(strstr(text, "SPARSESHIM_TIMEOUT=0.25"));
                }
                assert_true(timeouts > 0);
                expect_broken_everywhere(&k, &c);
                calls_close(&k, &c);
            }
        }
}

static void fail_after_vote(enum ss_kind kind, int size, int poor, size_t n)
{
    struct ss_settings settings = settings_of(SS_RING);
    struct kind_case c = case_of(kind, size, n);
    struct kind_job k;

    calls_open(&k, &c, &settings);
    ss_sim_set_eager(k.job.sim, 0);
    k.job.starve_rank = poor;
    k.job.starve_after_vote = true;
    assert_true(kind_call(&k, &c));
    for (int r = 0; r < size; r++)
        assert_int_equal(k.job.status[r], r == poor ? SS_ERR_MEMORY : SS_ERR_PEER);
    k.job.starve_after_vote = false;
    expect_broken_everywhere(&k, &c);
    calls_close(&k, &c);
}

static void a_rank_failing_after_the_vote_fails_all(void **state)
{
    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (int size = 2; size <= MOST; size++)
            for (int poor = 0; poor < size; poor++) {
                fail_after_vote((enum ss_kind)kind, size, poor, N);
                if (poor == size / 2)
                    fail_after_vote((enum ss_kind)kind, size, poor, LONG);
            }
}

static void one_rank_without_memory_sends_all_native(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO);
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (int size = 2; size <= MOST; size++) {
            struct kind_case c = case_of((enum ss_kind)kind, size, N);
            c.in.density = 0.01;
            calls_open(&k, &c, &settings);
            k.job.mem[size / 2].limit = 1;
            expect_native(&k, &c, SS_WHY_CANNOT);
            k.job.mem[size / 2].limit = 0;
            expect_right(&k, &c);
            calls_close(&k, &c);
        }
}

/* What the vote promised is there, whatever other threads take from the pool meanwhile. */
static void memory_promised_by_the_vote_is_there(void **state)
{
    struct ss_settings settings = settings_of(SS_RING);
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++) {
        struct kind_case c = case_of((enum ss_kind)kind, 4, N);
        calls_open(&k, &c, &settings);
        k.job.limit_after_vote = true;
        expect_right(&k, &c);
        calls_close(&k, &c);
    }
}

/* From none to plenty: native, then sparse, never an error, never past the limit. */
static void any_memory_limit_gives_a_result_or_native(void **state)
{
    struct ss_settings settings = settings_of(SS_RING);
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++) {
        bool native = false, sparse = false;
        for (size_t limit = 1 << 16; limit < (size_t)1 << 24; limit += limit / 3) {
            struct kind_case c = case_of((enum ss_kind)kind, 3, 150000);
            for (int i = 0; i < 3; i++) {
                c.in.density = i == 1 ? 0.3 : 0.002;
                calls_open(&k, &c, &settings);
                k.job.mem[1].limit = limit;
                assert_true(kind_call(&k, &c));
                for (int r = 0; r < 3; r++)
                    assert_int_equal(k.job.status[r], k.job.status[0]);
                assert_true(k.job.status[0] >= 0);
                assert_null(kind_complaint(&k, &c));
                native = native || k.job.status[0] == SS_NATIVE;
                sparse = sparse || k.job.status[0] == SS_OK;
                assert_true(k.job.mem[1].peak <= limit);
                calls_close(&k, &c);
            }
        }
        assert_true(native && sparse);
    }
}

/* Such a rank knows how much the call is about, not how it lies. The lane votes ever more rarely,
 * and serves the call as soon as it comes in a layout that all can. */
static void a_layout_that_one_rank_cannot_serve_sends_all_native(void **state)
{
    struct ss_settings settings = settings_of(SS_RING);
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (int size = 2; size <= MOST; size++)
            for (int odd = 0; odd < size; odd++) {
                struct kind_case c = case_of((enum ss_kind)kind, size, N);
                calls_open(&k, &c, &settings);
                k.cannot = odd;
                kind_prepare(&k, &c);
                k.what[odd].parts = NULL;
                k.what[odd].in = NULL;
                k.what[odd].out = NULL;
                if (kind == SS_KIND_ALLGATHER) {
                    k.what[odd].type = SS_F64;
                    k.what[odd].n /= 2;
                }
                assert_true(kind_run(&k));
                all_are_native(&k, &c, SS_WHY_BUFFER);
                expect_native(&k, &c, SS_WHY_BACKED_OFF);
                expect_native(&k, &c, SS_WHY_BUFFER);
                k.cannot = -1;
                for (int i = 0; i < 3; i++)
                    expect_native(&k, &c, SS_WHY_BACKED_OFF);
                expect_right(&k, &c);
                expect_right(&k, &c);
                calls_close(&k, &c);
            }
}

static void slices_of_different_words_go_native(void **state)
{
    struct ss_settings settings = settings_of(SS_RING);
    struct kind_job k;

    (void)state;
    for (int size = 2; size <= MOST; size++)
        for (int odd = 0; odd < size; odd++) {
            struct kind_case c = case_of(SS_KIND_ALLGATHER, size, N);
            c.in.type = SS_F64;
            calls_open(&k, &c, &settings);
            kind_prepare(&k, &c);
            k.what[odd].type = SS_I32;
            k.what[odd].n *= 2;
            assert_true(kind_run(&k));
            all_are_native(&k, &c, SS_WHY_TYPE);
            expect_native(&k, &c, SS_WHY_BACKED_OFF);
            kind_prepare(&k, &c);
            k.what[odd].type = SS_I64; /* other words of that size are as good */
            assert_true(kind_run(&k));
            assert_int_equal(k.job.status[0], SS_OK);
            assert_null(kind_complaint(&k, &c));
            calls_close(&k, &c);
        }
}

static void parts_that_differ_go_native(void **state)
{
    struct ss_settings settings = settings_of(SS_RING);
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind <= SS_KIND_REDUCE_SCATTER; kind++) {
        struct kind_case c = case_of((enum ss_kind)kind, 4, N);
        static const uint32_t parts[] = {0, 180, 360, 541, 720};
        calls_open(&k, &c, &settings);
        kind_prepare(&k, &c);
        k.what[0].parts = parts;
        assert_true(kind_run(&k));
        all_are_native(&k, &c, SS_WHY_TYPE);
        calls_close(&k, &c);
    }
}

/* Another kind, root, size or operator on one rank: the program is wrong, and is told so. */
static void ranks_in_different_calls_are_told(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO);
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (int fault = 0; fault < 4; fault++) {
            struct kind_case c = case_of((enum ss_kind)kind, 4, N);
            if ((fault == 1 && kind != SS_KIND_REDUCE) || (fault == 2 && kind == SS_KIND_ALLGATHER))
                continue;
            calls_open(&k, &c, &settings);
            kind_prepare(&k, &c);
            struct ss_collective *what = &k.what[1];
            what->in = k.sent[1].data;
            if (fault == 0)
                what->kind = kind == SS_KIND_REDUCE ? SS_KIND_ALLGATHER : SS_KIND_REDUCE;
            else if (fault == 1)
                what->root = 0;
            else if (fault == 2)
                what->type = SS_I32;
            else
                what->n -= 4;
            assert_true(kind_run(&k));
            for (int r = 0; r < 4; r++)
                assert_int_equal(k.job.status[r], SS_ERR_DIFFERENT);
            calls_close(&k, &c);
        }
}

static void sums_of_what_is_not_finite_go_native(void **state)
{
    struct ss_settings settings = settings_of(SS_RING);
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_REDUCE_SCATTER; kind < SS_KINDS; kind++)
        for (int in_place = 0; in_place < 2; in_place++) {
            struct kind_case c = case_of((enum ss_kind)kind, 5, N);
            c.in_place = in_place;
            calls_open(&k, &c, &settings);
            ((float *)k.input[4].data)[3] = NAN;
            expect_native(&k, &c, SS_WHY_NOT_FINITE);
            calls_close(&k, &c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_send_ends_on_all_ranks),
        cmocka_unit_test(a_refused_send_amid_long_streams_ends_on_all_ranks),
        cmocka_unit_test(a_damaged_message_ends_on_all_ranks),
        cmocka_unit_test(an_entry_in_the_wrong_part_is_a_malformed_message),
        cmocka_unit_test(a_lost_message_ends_by_timeout_that_names_the_collective),
        cmocka_unit_test(a_rank_failing_after_the_vote_fails_all),
        cmocka_unit_test(one_rank_without_memory_sends_all_native),
        cmocka_unit_test(memory_promised_by_the_vote_is_there),
        cmocka_unit_test(any_memory_limit_gives_a_result_or_native),
        cmocka_unit_test(a_layout_that_one_rank_cannot_serve_sends_all_native),
        cmocka_unit_test(slices_of_different_words_go_native),
        cmocka_unit_test(parts_that_differ_go_native),
        cmocka_unit_test(ranks_in_different_calls_are_told),
        cmocka_unit_test(sums_of_what_is_not_finite_go_native),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
