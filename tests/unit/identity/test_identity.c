/* The tensor of a call: periods by rules, marks and addresses, and the events that end them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/identity/identity.h"

enum { RANKS = 2, LAYERS = 8, MOST = 1024, ALL_SITES = 0x10000 };

/* Two ranks of one communicator, voting by hand. */
struct job {
    struct ss_identity *identity[RANKS];
    struct ss_sequence_rule rule;
    uint64_t marks[RANKS];
    struct ss_standing at; /* of the last call on rank 0 */
    bool lossy;            /* it was */
    unsigned calls, lossy_calls, told;
    unsigned first; /* number of the first lossy call, from 1 */
    /* Ordinals that layers have had, + 1. */
    uint32_t ordinal[LAYERS + 2];
    unsigned moved; /* lossy calls of a layer with another ordinal than before */
};

static struct job open_job(uint32_t calls, bool by_rule)
{
    const struct ss_identity_way how = {.by_rule = by_rule, .steps = 3};
    struct job job = {.rule = {.takes = true, .calls = calls, .number = 1}};

    for (int r = 0; r < RANKS; r++) {
        job.identity[r] = ss_identity_create(&how);
        assert_non_null(job.identity[r]);
    }
    return job;
}

static void close_job(struct job *job)
{
    for (int r = 0; r < RANKS; r++)
        ss_identity_free(job->identity[r]);
}

struct made {
    uint32_t lane;
    uint64_t site;
    uintptr_t address;
    uint64_t other_site;    /* on rank 1, 0: the same */
    uintptr_t other_buffer; /* likewise */
    uint32_t buffer;
    uintptr_t from;                      /* 0: in place */
    const struct ss_sequence_rule *rule; /* NULL: the job's */
};

static void call(struct job *job, const struct made *made)
{
    struct ss_standing at[RANKS];

    for (int r = 0; r < RANKS; r++) {
        const struct ss_identity_call seen = {
            .rule = made->rule ? *made->rule : job->rule,
            .lane = made->lane,
            .site = r > 0 && made->other_site > 0 ? made->other_site : made->site,
            .buffer = made->buffer,
            .address = (const void *)(r > 0 && made->other_buffer > 0 ? made->other_buffer
                                                                      : made->address),
            .from = (const void *)(made->from > 0 ? made->from : made->address),
            .marks = job->marks[r],
        };
        struct ss_sequence *s = ss_identity_next(job->identity[r], &seen);
        assert_non_null(s);
        at[r] = ss_sequence_count(s, &seen);
    }
    const uint64_t code[RANKS] = {ss_standing_code(&at[0]), ss_standing_code(&at[1])};
    bool label = at[0].label == at[1].label, same = code[0] == code[1];
    for (int r = 0; r < RANKS; r++)
        ss_identity_vote(job->identity[r], made->lane, label, same, code[0] > 0 && code[1] > 0);
    job->at = at[0];
    job->calls++;
    job->lossy = label && same && at[0].known;
    job->lossy_calls += job->lossy;
    job->told += at[0].tell;
    if (job->lossy && job->first == 0)
        job->first = job->calls;
}

static void at(struct job *job, uintptr_t address)
{
    call(job, &(struct made){.site = 7, .address = address});
}

static void mark(struct job *job)
{
    for (int r = 0; r < RANKS; r++)
        job->marks[r]++;
}

/* A call of that layer of equal ones. */
static void layer(struct job *job, unsigned k, uintptr_t address)
{
    at(job, address);
    if (!job->lossy)
        return;
    job->moved += job->ordinal[k] > 0 && job->ordinal[k] != job->at.ordinal + 1;
    job->ordinal[k] = job->at.ordinal + 1;
}

/* A step of them: each in its own buffer, or all in one. */
static void step(struct job *job, unsigned layers, bool own)
{
    for (unsigned k = 0; k < layers; k++)
        layer(job, k, own ? 100 + k : 100);
}

static unsigned ordinals(const struct job *job)
{
    unsigned count = 0;

    for (unsigned o = 1; o <= LAYERS + 2; o++) {
        bool had = false;
        for (unsigned k = 0; k < LAYERS + 2; k++)
            had = had || job->ordinal[k] == o;
        count += had;
    }
    return count;
}

/* Forgets what was lossy so far. */
static void count_anew(struct job *job)
{
    job->calls = job->lossy_calls = job->first = 0;
}

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

static void test_frozen_and_unfrozen(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 120; i++) {
        unsigned layers = i / 20 % 2 ? LAYERS - 2 : LAYERS;
        step(&job, layers, false);
        mark(&job);
        if (i == 0)
            count_anew(&job);
        if (i % 20 > 3)
            assert_true(job.lossy);
    }
    assert_int_equal(ordinals(&job), LAYERS);
    close_job(&job);
}

/* The first layers freeze: the first short step cannot be told from a whole one before its end, the
 * next one is exact. */
static void test_the_first_layers_freeze(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 40; i++) {
        unsigned first = i >= 20 ? 2 : 0;
        count_anew(&job);
        for (unsigned k = first; k < LAYERS; k++)
            layer(&job, k, 100);
        mark(&job);
        if (i > 3)
            assert_int_equal(job.lossy_calls, i == 21 ? 0 : LAYERS - first);
        if (i == 20)
            memset(job.ordinal, 0, sizeof job.ordinal);
        if (i == 20)
            job.moved = 0;
    }
    assert_int_equal(job.moved, 0);
    close_job(&job);
}

/* ---- marks beside addresses ---- */

static void test_one_sum_before_the_training(void **state)
{
    struct job scratch = open_job(LAYERS, false), flat = open_job(0, false);

    (void)state;
    mark(&scratch);
    mark(&flat);
    for (int i = 0; i < 20; i++) {
        step(&scratch, LAYERS, false);
        at(&flat, 1);
    }
    assert_int_equal(scratch.first, 3 * LAYERS);
    assert_int_equal(flat.first, 3);
    close_job(&scratch);
    close_job(&flat);
}

/* Later than that it delays the lossy calls by three steps at most. */
static void test_one_sum_in_the_training(void **state)
{
    struct job job = open_job(LAYERS, false);

    (void)state;
    for (int i = 0; i < 20; i++) {
        step(&job, LAYERS, false);
        if (i == 1)
            mark(&job);
    }
    assert_int_equal(job.first, 6 * LAYERS);
    assert_int_equal(job.lossy_calls, 14 * LAYERS + 1);
    close_job(&job);
}

static void test_a_loss_every_few_steps(void **state)
{
    (void)state;
    for (int every = 1; every < 70; every++) {
        struct job flat = open_job(0, false), own = open_job(0, false);
        for (int i = 0; i < 200; i++) {
            call(&flat, &(struct made){.site = 7, .address = 1, .from = 2});
            step(&own, LAYERS, true);
            if (i % every == 0) {
                mark(&flat);
                mark(&own);
            }
        }
        assert_int_equal(flat.first, 3);
        assert_int_equal(flat.lossy_calls, 198);
        assert_int_equal(flat.at.period, 1);
        assert_true(own.lossy_calls >= 170 * LAYERS);
        assert_int_equal(own.moved, 0);
        assert_int_equal(own.at.period, LAYERS);
        close_job(&flat);
        close_job(&own);
    }
}

/* Layers through one receive buffer wait for the first mark, 64 calls at most. */
static void test_scratch_with_other_send_buffers(void **state)
{
    struct job marked = open_job(0, false), unmarked = open_job(0, false);

    (void)state;
    for (int i = 0; i < 100; i++) {
        for (unsigned k = 0; k < LAYERS; k++) {
            call(&marked, &(struct made){.site = 7, .address = 1, .from = 100 + k});
            assert_true(!marked.lossy || marked.at.ordinal == k);
        }
        mark(&marked);
        call(&unmarked, &(struct made){.site = 7, .address = 1, .from = 100 + (uintptr_t)i});
    }
    assert_int_equal(marked.first, 3 * LAYERS + 1);
    assert_int_equal(marked.lossy_calls, 97 * LAYERS);
    assert_int_equal(unmarked.first, SS_MARKS_APART + 1);
    close_job(&marked);
    close_job(&unmarked);
}

/* ---- steps of other lengths ---- */

static void test_extra_and_missing_calls_with_marks(void **state)
{
    struct job job = open_job(LAYERS, false);

    (void)state;
    for (int i = 0; i < 40; i++) {
        count_anew(&job);
        if (i == 20) {
            step(&job, LAYERS, false);
            at(&job, 100);
            assert_false(job.lossy); /* and all behind it, up to the mark */
            at(&job, 100);
            assert_false(job.lossy);
        } else {
            step(&job, i == 30 ? LAYERS - 1 : LAYERS, false);
        }
        if (i > 3)
            assert_int_equal(job.lossy_calls, i == 30 ? LAYERS - 1 : i == 31 ? 0 : LAYERS);
        mark(&job);
    }
    assert_int_equal(job.moved, 0);
    assert_int_equal(ordinals(&job), LAYERS);
    close_job(&job);
}

/* Where each layer has its buffer, the calls behind a missing or additional one are exact. */
static void test_a_missing_call_among_own_buffers(void **state)
{
    (void)state;
    for (uint32_t n = 0; n <= LAYERS; n += LAYERS)
        for (unsigned odd = 0; odd < LAYERS; odd++) {
            struct job job = open_job(n, false);
            for (unsigned i = 0; i < 50; i++) {
                count_anew(&job);
                if (i == 40)
                    at(&job, 999);
                for (unsigned k = 0; k < LAYERS; k++)
                    if (i != 20 || k != odd)
                        layer(&job, k, 100 + k);
                if (i > 3)
                    assert_int_equal(job.lossy_calls, i == 20              ? odd
                                                      : i == 21 || i == 40 ? 0
                                                                           : LAYERS);
                mark(&job);
            }
            assert_int_equal(job.moved, 0);
            assert_int_equal(ordinals(&job), LAYERS);
            close_job(&job);
        }
}

/* Without marks calls=N is the user's word. */
static void test_extra_call_without_marks(void **state)
{
    struct job job = open_job(LAYERS, false);

    (void)state;
    for (int i = 0; i < 10; i++)
        step(&job, LAYERS, false);
    at(&job, 100);
    count_anew(&job);
    for (int i = 0; i < 10; i++)
        step(&job, LAYERS, false);
    assert_int_equal(job.lossy_calls, 10 * LAYERS);
    assert_int_equal(job.moved, LAYERS);
    close_job(&job);
}

static void test_extra_call_among_own_buffers(void **state)
{
    struct job job = open_job(0, false);

    (void)state;
    for (int i = 0; i < 10; i++)
        step(&job, LAYERS, true);
    at(&job, 999);
    assert_false(job.lossy);
    count_anew(&job);
    for (int i = 0; i < 10; i++)
        step(&job, LAYERS, true);
    assert_int_equal(job.first, 3 * LAYERS);
    assert_int_equal(job.moved, 0); /* addresses keep their ordinals */
    assert_int_equal(ordinals(&job), LAYERS);
    close_job(&job);
}

static void test_irregular_marks_are_ignored(void **state)
{
    struct job job = open_job(0, false);
    uint64_t x = 1;

    (void)state;
    for (int i = 0; i < 400; i++) {
        step(&job, LAYERS, true);
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        if (x >> 62 == 0)
            mark(&job);
        if (i == 100)
            count_anew(&job);
    }
    assert_true(job.lossy_calls >= 299 * LAYERS * 9 / 10);
    close_job(&job);
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
    cmocka_unit_test(test_frozen_and_unfrozen),
    cmocka_unit_test(test_the_first_layers_freeze),
    cmocka_unit_test(test_one_sum_before_the_training),
    cmocka_unit_test(test_one_sum_in_the_training),
    cmocka_unit_test(test_a_loss_every_few_steps),
    cmocka_unit_test(test_scratch_with_other_send_buffers),
    cmocka_unit_test(test_extra_and_missing_calls_with_marks),
    cmocka_unit_test(test_a_missing_call_among_own_buffers),
    cmocka_unit_test(test_extra_call_without_marks),
    cmocka_unit_test(test_extra_call_among_own_buffers),
    cmocka_unit_test(test_irregular_marks_are_ignored),
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
