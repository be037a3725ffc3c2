/* Together or not at all (core/README.md, invariant 6), where nothing is broken: what one rank
 * cannot or will not do, no rank does, and all say why. */
#include "tests/unit/support/fault_job.h"

static struct subject subject_of(int kind, enum ss_algorithm algorithm)
{
    return (struct subject){.kind = (enum ss_kind)kind, .algorithm = algorithm};
}

static void open_call(struct fault_job *j, const struct subject *s, int size, size_t n)
{
    fault_open(j, s, size, n, 0);
}

static void close_call(struct fault_job *j)
{
    assert_null(fault_close(j));
}

/* Inputs of another density, from the next call on. */
static void fill_again(struct fault_job *j, double density)
{
    j->c.in.density = density;
    for (int r = 0; r < j->c.in.size; r++) {
        size_t first = kind_own_place(&j->k, &j->c, r);
        input_fill(&j->c.in, r, j->k.sent[r].data);
        memcpy(j->k.input[r].data, j->k.sent[r].data + first, j->k.input[r].bytes);
    }
}

static void all_are_native(const struct fault_job *j, enum ss_reason reason)
{
    for (int r = 0; r < j->c.in.size; r++) {
        assert_int_equal(j->k.job.status[r], SS_NATIVE);
        assert_int_equal(ss_call_reason(ss_comm_call(j->k.job.comm[r])), reason);
        assert_true(kind_untouched(&j->k, &j->c, r));
    }
}

/* On the rank `poor` because of its limit, on the others since a rank has no memory. */
static void expect_limited(struct fault_job *j, int poor)
{
    assert_true(kind_call(&j->k, &j->c));
    for (int r = 0; r < j->c.in.size; r++) {
        assert_int_equal(j->k.job.status[r], SS_NATIVE);
        assert_int_equal(ss_call_reason(ss_comm_call(j->k.job.comm[r])),
                         r == poor ? SS_WHY_LIMIT : SS_WHY_CANNOT);
        assert_true(kind_untouched(&j->k, &j->c, r));
    }
}

static void expect_native(struct fault_job *j, enum ss_reason reason)
{
    assert_true(kind_call(&j->k, &j->c));
    all_are_native(j, reason);
}

static void expect_right(struct fault_job *j)
{
    assert_null(good_call(j));
}

static void one_rank_without_memory_sends_all_native(void **state)
{
    static struct fault_job j;

    (void)state;
    for (int kind = 0; kind < SS_KINDS; kind++)
        for (int size = 2; size <= 6; size++)
            for (int poor = 0; poor < size; poor++) {
                struct subject s = subject_of(kind, SS_AUTO);
                open_call(&j, &s, size, N);
                fill_again(&j, 0.01);
                j.k.job.mem[poor].limit = 1;
                expect_limited(&j, poor);
                if (kind == SS_KIND_ALLREDUCE)
                    expect_limited(&j, poor);
                j.k.job.mem[poor].limit = 0;
                expect_right(&j);
                close_call(&j);
            }
}

/* From none to plenty: native, then sparse, never an error, never past the limit. */
static void try_limits(const struct subject *s, size_t most, bool *native, bool *sparse)
{
    static struct fault_job j;

    for (size_t limit = 1 << 15; limit < most; limit += limit / 3) {
        open_call(&j, s, 3, 50000);
        j.k.job.mem[1].limit = limit;
        for (int i = 0; i < 3; i++) {
            fill_again(&j, i == 1 ? 0.3 : 0.002);
            assert_true(kind_call(&j.k, &j.c));
            for (int r = 0; r < 3; r++)
                assert_int_equal(j.k.job.status[r], j.k.job.status[0]);
            assert_true(j.k.job.status[0] >= 0);
            assert_null(kind_complaint(&j.k, &j.c));
            *native = *native || j.k.job.status[0] == SS_NATIVE;
            *sparse = *sparse || j.k.job.status[0] == SS_OK;
            assert_true(j.k.job.mem[1].peak <= limit);
        }
        close_call(&j);
    }
}

static void any_memory_limit_gives_a_result_or_native(void **state)
{
    (void)state;
    for (int kind = 0; kind < SS_KINDS; kind++)
        for (int a = SS_AUTO; a < SS_OKTOPK; a++) {
            struct subject s = subject_of(kind, (enum ss_algorithm)a);
            bool native = false, sparse = false;
            if (kind != SS_KIND_ALLREDUCE && a != SS_RING)
                continue;
            try_limits(&s, (size_t)1 << (kind == SS_KIND_ALLREDUCE ? 24 : 22), &native, &sparse);
            assert_true(native && sparse);
        }
}

/* Work space that an earlier call filled for another collective must not stand in the way of one
 * the plan found room for. */
static void kept_work_space_makes_way_for_the_next_collective(void **state)
{
    static const enum ss_algorithm order[] = {SS_RECURSIVE_DOUBLING, SS_RING,
                                              SS_SPLIT_ALLGATHER,    SS_ALLGATHER,
                                              SS_RECURSIVE_DOUBLING, SS_DSAR};
    enum { ORDER = sizeof order / sizeof order[0] };
    const struct subject s = subject_of(SS_KIND_ALLREDUCE, SS_AUTO);
    static struct fault_job j;

    (void)state;
    for (size_t limit = (size_t)1 << 20; limit < (size_t)16 << 20; limit += limit / 8) {
        open_call(&j, &s, 2, 100000);
        j.k.job.mem[0].limit = limit;
        for (size_t i = 0; i < 4 * ORDER; i++) {
            for (int r = 0; r < 2; r++)
                j.k.job.settings[r].algorithm = order[i % ORDER];
            if (i % 5 <= 1)
                fill_again(&j, i % 5 == 0 ? 0.6 : 0.1);
            assert_true(kind_call(&j.k, &j.c));
            for (int r = 0; r < 2; r++)
                if (j.k.job.status[r] < 0)
                    fail_msg("limit %zu, call %zu: %s", limit, i,
                             ss_status_text(j.k.job.status[r]));
            assert_true(j.k.job.mem[0].peak <= limit);
        }
        close_call(&j);
    }
}

static void other_settings_on_one_rank_send_all_native_for_good(void **state)
{
    static struct fault_job j;

    (void)state;
    for (int kind = 0; kind < SS_KINDS; kind++)
        for (int size = 2; size <= 6; size++) {
            struct subject s = subject_of(kind, SS_AUTO);
            open_call(&j, &s, size, N);
            j.k.job.settings[size - 1].hash = 2;
            expect_native(&j, SS_WHY_SETTINGS);
            uint64_t sent = ss_sim_bytes_sent(j.k.job.sim, 0);
            expect_native(&j, SS_WHY_SETTINGS);
            assert_int_equal(ss_sim_bytes_sent(j.k.job.sim, 0), sent);
            close_call(&j);
        }
}

static void off_on_one_rank_sends_all_native_until_on_again(void **state)
{
    static struct fault_job j;

    (void)state;
    for (int kind = 0; kind < SS_KINDS; kind++) {
        struct subject s = subject_of(kind, SS_RING);
        open_call(&j, &s, 5, N);
        j.k.job.comm[3]->caller.off = true;
        expect_native(&j, SS_WHY_OFF);
        j.k.job.comm[3]->caller.off = false;
        expect_right(&j);
        close_call(&j);
    }
}

/* ---- arguments that some rank cannot serve, or that ranks describe differently ---- */

/* Such a rank knows how much the call is about, not how it lies. */
static void hide_layout(struct fault_job *j, int odd)
{
    struct ss_collective *what = &j->k.what[odd];

    j->k.cannot = odd;
    kind_prepare(&j->k, &j->c);
    what->parts = NULL;
    what->in = NULL;
    what->out = NULL;
    if (what->kind == SS_KIND_ALLGATHER) {
        what->type = SS_F64;
        what->n /= 2;
    }
}

/* The lane votes ever more rarely, and serves the call as soon as it comes in a layout that all
 * can. */
static void a_layout_that_one_rank_cannot_serve_sends_all_native(void **state)
{
    static struct fault_job j;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (int size = 2; size <= 6; size++)
            for (int odd = 0; odd < size; odd++) {
                struct subject s = subject_of(kind, SS_RING);
                open_call(&j, &s, size, N);
                hide_layout(&j, odd);
                assert_true(kind_run(&j.k));
                all_are_native(&j, SS_WHY_BUFFER);
                expect_native(&j, SS_WHY_BACKED_OFF);
                expect_native(&j, SS_WHY_BUFFER);
                j.k.cannot = -1;
                for (int i = 0; i < 3; i++)
                    expect_native(&j, SS_WHY_BACKED_OFF);
                expect_right(&j);
                expect_right(&j);
                close_call(&j);
            }
}

/* In that call, and in all that follow. */
static void elements_that_one_rank_cannot_read_fail_the_call_on_all(void **state)
{
    static struct fault_job j;

    (void)state;
    for (int kind = 0; kind < SS_KINDS; kind++)
        for (int size = 2; size <= 6; size++)
            for (int odd = 0; odd < size; odd++) {
                struct subject s = subject_of(kind, SS_RING);
                open_call(&j, &s, size, N);
                expect_right(&j);
                hide_layout(&j, odd);
                j.k.what[odd].broken = true;
                assert_true(kind_run(&j.k));
                for (int r = 0; r < size; r++)
                    assert_int_equal(j.k.job.status[r], r == odd ? SS_ERR_DEVICE : SS_ERR_PEER);
                j.k.cannot = -1;
                kind_prepare(&j.k, &j.c);
                assert_true(kind_run(&j.k));
                for (int r = 0; r < size; r++)
                    assert_int_equal(j.k.job.status[r], r == odd ? SS_ERR_DEVICE : SS_ERR_PEER);
                close_call(&j);
            }
}

static void slices_of_different_words_go_native(void **state)
{
    const struct subject s = subject_of(SS_KIND_ALLGATHER, SS_RING);
    static struct fault_job j;

    (void)state;
    for (int size = 2; size <= 6; size++)
        for (int odd = 0; odd < size; odd++) {
            open_call(&j, &s, size, N);
            kind_arrays_free(&j.k, size);
            j.c.in.type = SS_F64;
            kind_arrays_make(&j.k, &j.c);
            kind_prepare(&j.k, &j.c);
            j.k.what[odd].type = SS_I32;
            j.k.what[odd].n *= 2;
            assert_true(kind_run(&j.k));
            all_are_native(&j, SS_WHY_TYPE);
            expect_native(&j, SS_WHY_BACKED_OFF);
            kind_prepare(&j.k, &j.c);
            j.k.what[odd].type = SS_I64; /* other words of that size are as good */
            assert_true(kind_run(&j.k));
            assert_int_equal(j.k.job.status[0], SS_OK);
            assert_null(kind_complaint(&j.k, &j.c));
            close_call(&j);
        }
}

static void parts_that_differ_go_native(void **state)
{
    static const uint32_t parts[] = {0, 180, 360, 541, 720};
    static struct fault_job j;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind <= SS_KIND_REDUCE_SCATTER; kind++) {
        struct subject s = subject_of(kind, SS_RING);
        open_call(&j, &s, 4, N);
        kind_prepare(&j.k, &j.c);
        j.k.what[0].parts = parts;
        assert_true(kind_run(&j.k));
        all_are_native(&j, SS_WHY_TYPE);
        close_call(&j);
    }
}

static void sums_of_what_is_not_finite_go_native(void **state)
{
    static struct fault_job j;

    (void)state;
    for (int kind = 0; kind < SS_KINDS; kind++)
        for (int in_place = 0; in_place < 2 && kind != SS_KIND_ALLGATHER; in_place++) {
            struct subject s = subject_of(kind, SS_RING);
            open_call(&j, &s, 5, N);
            j.c.in_place = in_place;
            kind_arrays_free(&j.k, 5);
            kind_arrays_make(&j.k, &j.c);
            ((float *)j.k.input[4].data)[3] = NAN;
            expect_native(&j, SS_WHY_NOT_FINITE);
            close_call(&j);
        }
}

/* One entry travels from rank 1 to rank 0, as an index of 4 bytes; one bit of it moves the entry
 * into a part that is not the receiver's, or a slice that is not the sender's. */
static void an_entry_in_the_wrong_part_is_a_malformed_message(void **state)
{
    static struct fault_job j;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++) {
        struct subject s = subject_of(kind, SS_RING);
        size_t at = kind == SS_KIND_ALLGATHER ? 460 - N / 2 : 100;
        open_call(&j, &s, 2, N);
        fill_again(&j, 0);
        j.c.root = 0;
        kind_arrays_free(&j.k, 2);
        kind_arrays_make(&j.k, &j.c);
        for (int r = 0; r < 2; r++)
            j.k.job.settings[r].coding = SS_CODING_U32;
        ((float *)j.k.input[1].data)[at] = 1;
        ss_sim_set_fault(j.k.job.sim,
                         (struct ss_sim_fault){.rank = 1,
                                               .corrupt_send = 2, /* after the vote */
                                               .corrupt_byte = SS_WIRE_HEADER + 4 + 1,
                                               .corrupt_mask = kind == SS_KIND_ALLGATHER ? 1 : 2});
        assert_true(kind_call(&j.k, &j.c));
        assert_int_equal(j.k.job.status[0], SS_ERR_MESSAGE);
        assert_null(broken_complaint(&j));
        close_call(&j);
    }
}

/* ---- waiting ---- */

/* The job's call on all ranks but the last, which never comes; told[r]: warnings of rank r. */
struct waiting {
    struct fault_job *j;
    int told[MOST];
    char text[600];
};

static int step_and_listen(void *ctx, int rank)
{
    struct waiting *w = ctx;
    struct sim_job *job = &w->j->k.job;
    struct ss_call *c = ss_comm_call(job->comm[rank]);

    if (rank == job->size - 1)
        return SS_OK;
    int status = kind_job_step(&w->j->k, rank);
    if (status == SS_PENDING && ss_call_waits(c, w->text, sizeof w->text)) {
        char begin[80];
        snprintf(begin, sizeof begin, "communicator \"sim\" of %d ranks: rank %d has waited ",
                 job->size, rank);
        assert_int_equal(strncmp(w->text, begin, strlen(begin)), 0);
        w->told[rank]++;
    }
    return status;
}

static void wait_for_the_last(double patience, double timeout, int size, struct waiting *w)
{
    const struct subject s = subject_of(SS_KIND_ALLREDUCE, SS_RING);
    static struct fault_job j;

    *w = (struct waiting){.j = &j};
    fault_open(&j, &s, size, N, timeout);
    for (int r = 0; r < size; r++)
        j.k.job.settings[r].patience = patience;
    ss_sim_set_idle(j.k.job.sim, 0.5);
    kind_prepare(&j.k, &j.c);
    assert_true(ss_sim_run(j.k.job.sim, step_and_listen, w, j.k.job.status, 100000000));
    for (int r = 0; r + 1 < size; r++)
        assert_int_equal(j.k.job.status[r], SS_ERR_TIMEOUT);
    close_call(&j);
}

static void a_long_wait_is_told_once_with_what_may_be_the_cause(void **state)
{
    struct waiting w;

    (void)state;
    for (int size = 2; size <= 6; size++) {
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
        cmocka_unit_test(a_layout_that_one_rank_cannot_serve_sends_all_native),
        cmocka_unit_test(elements_that_one_rank_cannot_read_fail_the_call_on_all),
        cmocka_unit_test(slices_of_different_words_go_native),
        cmocka_unit_test(parts_that_differ_go_native),
        cmocka_unit_test(sums_of_what_is_not_finite_go_native),
        cmocka_unit_test(an_entry_in_the_wrong_part_is_a_malformed_message),
        cmocka_unit_test(a_long_wait_is_told_once_with_what_may_be_the_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
