/* The tensor of a call: periods by rules, marks and addresses. */
#include "tests/unit/support/identity_job.h"

/* ---- one gradient ---- */

static void test_flat_from_a_kept_buffer(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 100; i++)
        at(&job, 1);
    assert_int_equal(job.first, 3); /* the first call of the program is not seen */
    assert_int_equal(job.lossy_calls, 98);
    assert_int_equal(job.at.ordinal, 0);
    assert_int_equal(job.at.period, 1);
    close_job(&job);
}

static void test_flat_with_a_loss(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (uintptr_t i = 0; i < 100; i++) {
        at(&job, 1 + i); /* fresh arrays: the loss alone shows the step */
        mark(&job);
    }
    assert_int_equal(job.first, 4);
    assert_int_equal(job.lossy_calls, 97);
    assert_int_equal(job.at.period, 1);
    close_job(&job);
}

static void test_fresh_arrays_without_a_loss(void **state)
{
    struct job job = open_job(0, false), ruled = open_job(1, false);

    (void)state;
    for (uintptr_t i = 0; i < 600; i++) {
        at(&job, 1 + i);
        at(&ruled, 1 + i);
    }
    assert_int_equal(job.lossy_calls, 0);
    assert_int_equal(job.told, 1);
    assert_int_equal(ruled.first, 3);
    assert_int_equal(ruled.lossy_calls, 598);
    assert_int_equal(ruled.told, 0);
    close_job(&job);
    close_job(&ruled);
}

/* ---- layers ---- */

static void test_unlike_counts_in_changing_order(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (uint32_t i = 0; i < 40; i++)
        for (uint32_t k = 0; k < LAYERS; k++) {
            uint32_t lane = (i % 3) ^ k;
            call(&job, &(struct made){.lane = lane, .site = 7, .address = 100 + lane});
            assert_int_equal(job.lossy, i >= 2);
        }
    close_job(&job);
}

static void test_own_buffers(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (unsigned k = 1; k < LAYERS; k++) /* one call of the first step is not seen */
        layer(&job, k, 100 + k);
    for (int i = 0; i < 20; i++)
        step(&job, LAYERS, true);
    assert_int_equal(job.first, 3 * LAYERS); /* the first call of the fourth step */
    assert_int_equal(job.lossy_calls, 18 * LAYERS);
    assert_int_equal(job.moved, 0);
    assert_int_equal(ordinals(&job), LAYERS);
    close_job(&job);
}

static void test_own_buffers_and_a_seldom_loss(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 60; i++) {
        step(&job, LAYERS, true);
        if (i % 10 == 9)
            mark(&job);
        if (i == 29)
            count_anew(&job);
    }
    assert_int_equal(job.at.period, LAYERS);
    assert_int_equal(job.lossy_calls, 30 * LAYERS);
    assert_int_equal(job.moved, 0);
    assert_int_equal(ordinals(&job), LAYERS);
    close_job(&job);
}

static void test_scratch_by_calls(void **state)
{
    struct job job = open_job(LAYERS, false);

    (void)state;
    for (int i = 0; i < 20; i++)
        step(&job, LAYERS, false);
    assert_int_equal(job.first, 3 * LAYERS);
    assert_int_equal(job.lossy_calls, 17 * LAYERS + 1);
    assert_int_equal(job.moved, 0);
    assert_int_equal(ordinals(&job), LAYERS);
    close_job(&job);
}

/* Before the first mark one scratch buffer looks like one gradient. */
static void test_scratch_by_marks(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 20; i++) {
        if (i == 1) {
            count_anew(&job);
            memset(job.ordinal, 0, sizeof job.ordinal);
            job.moved = 0;
        }
        step(&job, LAYERS, false);
        mark(&job);
        mark(&job); /* a loss and a metric */
    }
    assert_int_equal(job.first, 2 * LAYERS + 1); /* the first call of the fourth step */
    assert_int_equal(job.lossy_calls, 17 * LAYERS);
    assert_int_equal(job.moved, 0);
    assert_int_equal(ordinals(&job), LAYERS);
    close_job(&job);
}

/* Sums of other counts, and of none between the calls, play no part. */
static void test_accumulation_evaluation_and_others(void **state)
{
    struct job job = open_job(0, false);
    unsigned lossy = 0;

    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        for (int k = 0; k < 4; k++) /* micro-steps that only log */
            mark(&job);
        if (i % 5 == 0)
            call(&job, &(struct made){.lane = 1, .site = 8, .address = 500 + i});
        if (i % 50 == 0)
            call(&job, &(struct made){.lane = 2, .site = 9, .address = 900});
        if (i % 25 == 0) /* an evaluation */
            for (int k = 0; k < 30; k++)
                mark(&job);
        at(&job, 1);
        lossy += job.lossy;
    }
    assert_int_equal(lossy, 98);
    close_job(&job);
}

static void test_two_optimisers(void **state)
{
    struct job counts = open_job(0, false), sites = open_job(0, false), one = open_job(0, false);

    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        call(&counts, &(struct made){.lane = i % 2, .site = 7, .address = 1});
        mark(&counts);
        call(&sites, &(struct made){.site = 7 + i % 2, .address = 1 + i % 2});
        mark(&sites);
        layer(&one, i % 2, 1 + i % 2); /* equal counts, one site: buffers tell */
        mark(&one);
    }
    assert_true(counts.lossy_calls >= 2 * 17);
    assert_true(sites.lossy_calls >= 2 * 17);
    assert_true(one.lossy_calls >= 35);
    assert_int_equal(one.at.period, 2);
    close_job(&counts);
    close_job(&sites);
    close_job(&one);
}

/* ---- ranks ---- */

static void test_sites_that_differ(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 20; i++)
        call(&job, &(struct made){.site = 7, .address = 1, .other_site = i % 4 == 0 ? 8 : 0});
    assert_true(job.lossy);
    assert_int_equal(job.at.label, ALL_SITES + 1);
    assert_true(job.lossy_calls >= 12);
    close_job(&job);
}

static void test_buffers_that_return_on_one_rank(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (uintptr_t i = 0; i < 300; i++)
        call(&job, &(struct made){.site = 7, .address = 1, .other_buffer = 10 + i});
    assert_int_equal(job.lossy_calls, 0);
    close_job(&job);
}

static void test_marks_that_one_rank_sees(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 100; i++) {
        step(&job, LAYERS, true);
        job.marks[1] += (uint64_t)i % 2;
    }
    assert_true(job.lossy);
    close_job(&job);
}

/* ---- rules ---- */

static void test_calls_of_all_sites(void **state)
{
    struct job job = open_job(2, false);

    (void)state;
    for (int i = 0; i < 20; i++)
        for (uint64_t site = 7; site < 9; site++) {
            call(&job, &(struct made){.site = site, .address = 1});
            assert_int_equal(job.at.label, ALL_SITES + 1);
            assert_int_equal(job.at.ordinal, (job.calls) % 2);
        }
    close_job(&job);
}

static void test_calls_of_one_site(void **state)
{
    struct job job = open_job(1, false);

    (void)state;
    job.rule.of_site = true;
    for (int i = 0; i < 20; i++)
        for (uint64_t site = 7; site < 9; site++) {
            call(&job, &(struct made){.site = site, .address = 1});
            assert_int_equal(job.at.label, site - 6);
            assert_int_equal(job.at.ordinal, 0);
        }
    assert_true(job.lossy);
    close_job(&job);
}

/* Gradients of site 7 under site=, averages of sites 8 and 9 that EXCLUDE or no rule takes. Sites
 * do not count, as one call came from unlike sites, or with QUORUM. */
static void each_call_obeys_its_own_rule(bool by_rule, unsigned first)
{
    const struct ss_sequence_rule none = {.excluded = false}, excluded = {.excluded = true};
    struct job job = open_job(1, by_rule);

    job.rule.of_site = true;
    for (unsigned i = 0; i < 60; i++) {
        if (i % 2 == first)
            call(&job, &(struct made){.site = 7, .address = 1});
        if (i > 20 && i % 2 == first)
            assert_true(job.lossy);
        call(&job, &(struct made){.site = 8, .address = 1, .other_site = 10, .rule = &none});
        assert_false(job.lossy);
        call(&job, &(struct made){.site = 9, .address = 1, .buffer = i % 3, .rule = &excluded});
        assert_false(job.lossy);
    }
    close_job(&job);
}

static void test_each_call_obeys_its_own_rule(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 2; first++) {
        each_call_obeys_its_own_rule(false, first);
        each_call_obeys_its_own_rule(true, first);
    }
}

static void test_no_rule(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    job.rule.takes = false;
    for (int i = 0; i < 300; i++)
        at(&job, 1);
    assert_int_equal(job.lossy_calls, 0);
    assert_int_equal(job.told, 0);
    close_job(&job);
}

static void test_registered_buffers(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    job.rule.takes = false;
    for (uint32_t i = 0; i < 20; i++) {
        call(&job, &(struct made){.site = 7, .address = 1, .buffer = 1 + i % 2});
        assert_true(job.lossy);
        assert_int_equal(job.at.ordinal, 0);
        assert_int_equal(job.at.label & 0xffff, 1 + i % 2);
    }
    close_job(&job);
}

static void test_quorum_needs_calls(void **state)
{
    struct job job = open_job(0, true), ruled = open_job(2, true);

    (void)state;
    for (uint32_t i = 0; i < 300; i++) {
        call(&job, &(struct made){.site = 7, .address = 1, .buffer = 1});
        mark(&job);
        call(&ruled, &(struct made){.site = 7 + i % 3, .address = 1 + i});
        job.marks[1] += 3; /* marks do not count */
    }
    assert_int_equal(job.lossy_calls, 0);
    assert_int_equal(job.told, 1);
    assert_int_equal(ruled.lossy_calls, 295);
    assert_int_equal(ruled.at.label, ALL_SITES + 1);
    close_job(&job);
    close_job(&ruled);
}

/* ---- anything ---- */

static void test_random_sequences(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct job job = open_job(seed % 3 ? 0 : (uint32_t)(seed % 9), seed % 7 == 0);
        uint64_t x = seed;
        for (int i = 0; i < 500; i++) {
            x = x * 6364136223846793005ULL + 1442695040888963407ULL;
            unsigned bits = (unsigned)(x >> 33);
            if (bits % 11 == 0)
                mark(&job);
            call(&job, &(struct made){.lane = bits % 3,
                                      .site = bits >> 2 & 3,
                                      .address = 1 + (bits >> 4) % (1 + seed % 5),
                                      .other_site = bits % 97 == 0,
                                      .other_buffer = bits % 89 == 0,
                                      .buffer = bits % 13 == 0});
            assert_true(!job.lossy || job.at.ordinal < job.at.period);
            if (bits % 83 == 0)
                for (int r = 0; r < RANKS; r++)
                    ss_identity_forget(job.identity[r], bits % 4);
        }
        close_job(&job);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_flat_from_a_kept_buffer),
    cmocka_unit_test(test_flat_with_a_loss),
    cmocka_unit_test(test_fresh_arrays_without_a_loss),
    cmocka_unit_test(test_unlike_counts_in_changing_order),
    cmocka_unit_test(test_own_buffers),
    cmocka_unit_test(test_own_buffers_and_a_seldom_loss),
    cmocka_unit_test(test_scratch_by_calls),
    cmocka_unit_test(test_scratch_by_marks),
    cmocka_unit_test(test_accumulation_evaluation_and_others),
    cmocka_unit_test(test_two_optimisers),
    cmocka_unit_test(test_sites_that_differ),
    cmocka_unit_test(test_buffers_that_return_on_one_rank),
    cmocka_unit_test(test_marks_that_one_rank_sees),
    cmocka_unit_test(test_calls_of_all_sites),
    cmocka_unit_test(test_calls_of_one_site),
    cmocka_unit_test(test_each_call_obeys_its_own_rule),
    cmocka_unit_test(test_no_rule),
    cmocka_unit_test(test_registered_buffers),
    cmocka_unit_test(test_quorum_needs_calls),
    cmocka_unit_test(test_random_sequences),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
