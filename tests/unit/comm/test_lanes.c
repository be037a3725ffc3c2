/* The lanes of a communicator: bounded, found at once, forgotten alike on all ranks, and not while
 * they hold a residual (core/README.md, Lanes). */
#include "tests/unit/support/feedback_job.h"

#include <malloc.h>

enum { SMALL = 60 };

/* Of AddressSanitizer's allocator, of which mallinfo2 knows nothing. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t heap(void)
{
    if (__sanitizer_get_current_allocated_bytes)
        return __sanitizer_get_current_allocated_bytes();
    struct mallinfo2 now = mallinfo2();

    return now.uordblks + now.hblkhd;
}

/* Calls on `count` lanes that the training does not have: counts from `first` on. */
static void pass_by(struct training *t, size_t first, size_t count)
{
    static float in[P][6000], out[P][6000];

    for (size_t i = first; i < first + count; i++) {
        for (int r = 0; r < P; r++) {
            in[r][i % SMALL] = (float)(r + 1);
            t->job.in[r] = in[r];
            t->job.out[r] = out[r];
        }
        assert_true(job_call(&t->job, SS_F32, SS_SUM, i));
        for (int r = 0; r < P; r++) {
            assert_int_equal(t->job.status[r], t->job.status[0]);
            assert_int_equal(ss_call_reason(ss_comm_call(t->job.comm[r])),
                             ss_call_reason(ss_comm_call(t->job.comm[0])));
        }
    }
}

static struct ss_lane *lane_of(struct ss_comm *comm, struct ss_lane_key key)
{
    return ss_comm_lane(comm, &key, key.n, key.type);
}

static void a_hundred_thousand_counts_take_no_more_memory_than_a_thousand(void **state)
{
    struct training t;
    size_t before = 0;

    (void)state;
    training_open(&t, "count=6007:6007,site=*:calls=1", settings_of(SS_RING));
    for (uint32_t i = 0; i < 100000; i++) {
        if (i == 3000)
            before = heap();
        lane_of(t.job.comm[0], (struct ss_lane_key){.n = 1 + i});
    }
    assert_true(heap() <= before);
    training_close(&t);
}

/* Every call finds a candidate for top-k: its samples and its tensor go as well. */
static void nor_do_calls_that_could_be_gradients(void **state)
{
    struct ss_settings settings = settings_of(SS_RING);
    static struct training t;
    size_t before;

    (void)state;
    settings.tensors.identity.steps = 3;
    training_open(&t, "", settings);
    pass_by(&t, SMALL, 1500);
    before = heap();
    pass_by(&t, SMALL + 1500, 1500);
    pass_by(&t, SMALL, 1500);
    assert_true(heap() < before + before / 8); /* work space for the larger counts */
    for (int r = 0; r < P; r++) {
        size_t tensors = 0;
        for (struct ss_tensor *x = ss_tensors_first(t.job.comm[r]->tensors); x; x = x->next)
            tensors++;
        assert_in_range(tensors, 1, SS_LANES);
    }
    training_close(&t);
}

static size_t longest_chain(const struct ss_lanes *lanes)
{
    size_t longest = 0;

    for (size_t b = 0; b < SS_LANE_BUCKETS; b++) {
        size_t length = 0;
        for (uint16_t at = lanes->buckets[b]; at > 0; at = lanes->list[at - 1].chain)
            length++;
        longest = length > longest ? length : longest;
    }
    return longest;
}

static void lanes_are_found_at_once_whatever_they_differ_in(void **state)
{
    struct training t;

    (void)state;
    training_open(&t, "count=6007:6007,site=*:calls=1", settings_of(SS_RING));
    for (int field = 0; field < 4; field++) {
        struct ss_lane_key key = {.kind = SS_KIND_REDUCE, .n = 4096};
        for (int i = 0; i < 2 * SS_LANES; i++) {
            if (field == 0)
                key.n += 4096;
            else if (field == 1)
                key.root++;
            else if (field == 2)
                key.window++;
            else
                key.n = (uint64_t)1 << 30 | (uint64_t)i << 16;
            lane_of(t.job.comm[0], key);
        }
        assert_in_range(longest_chain(&t.job.comm[0]->lanes), 1, 8);
    }
    training_close(&t);
}

static void a_lane_in_use_is_remembered_among_those_that_never_recur(void **state)
{
    struct ss_lane_key key = {.n = 4096};
    struct training t;

    (void)state;
    training_open(&t, "count=6007:6007,site=*:calls=1", settings_of(SS_RING));
    struct ss_lane *regular = lane_of(t.job.comm[0], key);
    regular->history.dense_streak = 5;
    for (uint32_t i = 0; i < 50000; i++) {
        lane_of(t.job.comm[0], (struct ss_lane_key){.n = 10000 + i});
        if (i % (SS_LANES - 2) == 0) {
            assert_ptr_equal(lane_of(t.job.comm[0], key), regular);
            assert_int_equal(regular->history.dense_streak, 5);
        }
    }
    for (uint32_t i = 0; i < SS_LANES; i++)
        lane_of(t.job.comm[0], (struct ss_lane_key){.n = 100000 + i});
    assert_int_equal(lane_of(t.job.comm[0], key)->history.dense_streak, 0);
    training_close(&t);
}

static void a_lane_that_was_forgotten_comes_back_to_its_line_of_the_report(void **state)
{
    struct ss_lane_key key = {.n = 4096};
    struct training t;

    (void)state;
    training_open(&t, "count=6007:6007,site=*:calls=1", settings_of(SS_RING));
    struct ss_lane_record *first = lane_of(t.job.comm[0], key)->record;
    for (uint32_t i = 0; i < 2 * SS_LANES; i++)
        lane_of(t.job.comm[0], (struct ss_lane_key){.n = 10000 + i});
    assert_int_equal(t.job.stats[0].lane_count, 1001);
    assert_ptr_equal(lane_of(t.job.comm[0], key)->record, first);
    training_close(&t);
}

/* Backing off, all ranks skip the same calls; a lane that was forgotten votes again on all. */
static void replicas_forget_alike(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO);
    static struct training t;

    (void)state;
    settings.topk = false;
    training_open(&t, "count=6007:6007,site=*:calls=1", settings);
    for (int r = 0; r < P; r++)
        for (size_t i = 0; i < N; i++)
            t.gradient[0][r][i] = 1;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20; i++) {
            assert_int_equal(call(&t, 0, false), SS_NATIVE);
            pass_by(&t, SMALL + (size_t)(20 * round + i) * 3, 3);
        }
        uint32_t voted = t.job.comm[0]->calls;
        assert_int_equal(call(&t, 0, false), SS_NATIVE);
        assert_int_equal(t.job.comm[0]->calls, voted); /* it is backed off */
        pass_by(&t, 1000, SS_LANES);
        voted = t.job.comm[0]->calls;
        assert_int_equal(call(&t, 0, false), SS_NATIVE);
        for (int r = 0; r < P; r++)
            assert_int_equal(t.job.comm[r]->calls, voted + 1);
    }
    training_close(&t);
}

static void a_residual_outlives_lanes_that_never_recur(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, "count=6007:6007,site=*:calls=1", settings_of(SS_SPLIT_ALLGATHER));
    for (int step = 0; step < 12; step++) {
        draw(&t, 0, (uint64_t)step, 1);
        assert_int_equal(call(&t, 0, step % 2), SS_OK);
        if (step % 4 == 3)
            pass_by(&t, SMALL + (size_t)step * 100, SS_LANES + 100);
        for (int r = 0; r < P; r++)
            assert_non_null(tensor_of(&t, r, 0)->residual.values.data);
    }
    expect_conservation(&t, 12);
    training_close(&t);
}

/* Every lane has a residual: what comes when the table is full is exact, on all ranks. */
static void where_all_lanes_hold_residuals_new_ones_are_exact(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, "count=1:,site=*:calls=1", settings_of(SS_SPLIT_ALLGATHER));
    draw(&t, 0, 0, 1);
    assert_int_equal(call(&t, 0, false), SS_OK);
    pass_by(&t, SMALL, SS_LANES + 100);
    for (int r = 0; r < P; r++) {
        size_t residuals = 0;
        for (struct ss_tensor *x = ss_tensors_first(t.job.comm[r]->tensors); x; x = x->next)
            residuals += x->residual.values.data != NULL;
        assert_int_equal(residuals, SS_LANES);
    }
    draw(&t, 0, 1, 1);
    assert_int_equal(call(&t, 0, false), SS_OK);
    expect_conservation(&t, 2);
    draw(&t, 1, 1, 1);
    assert_int_equal(call(&t, 1, false), SS_OK);
    for (size_t i = 0; i < t.n[1]; i++) {
        float sum = 0;
        for (int r = 0; r < P; r++)
            sum += t.gradient[1][r][i];
        assert_true(t.out[1][0][i] == sum);
    }
    training_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_counts_take_no_more_memory_than_a_thousand),
        cmocka_unit_test(nor_do_calls_that_could_be_gradients),
        cmocka_unit_test(lanes_are_found_at_once_whatever_they_differ_in),
        cmocka_unit_test(a_lane_in_use_is_remembered_among_those_that_never_recur),
        cmocka_unit_test(a_lane_that_was_forgotten_comes_back_to_its_line_of_the_report),
        cmocka_unit_test(replicas_forget_alike),
        cmocka_unit_test(a_residual_outlives_lanes_that_never_recur),
        cmocka_unit_test(where_all_lanes_hold_residuals_new_ones_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
