/* MERGE_SELECT=group: the largest entries of all calls of a group are sent, by one threshold, and
 * nothing is lost, whoever posts what when. */
#include <math.h>

#include "tests/unit/support/beside_job.h"

static struct beside_job job;

/* Each has a lane, and so a tensor, of its own from the first call on. */
static const size_t unlike_count[LAYERS] = {700, 3000, 64, 65, 1800, 701, 2000, 66, 1801, 5, 2600};
enum { STEP_BYTES = 8 * (700 + 3000 + 64 + 65 + 1800 + 701 + 2000 + 66 + 1801 + 5 + 2600) };

static const double DENSITY = 0.02;

static struct ss_settings fixed(enum ss_algorithm algorithm)
{
    return (struct ss_settings){.algorithm = algorithm,
                                .alpha = 1e-5,
                                .beta = 1e-8,
                                .hash = 1,
                                .topk = true,
                                .density = DENSITY,
                                .merge_select = true,
                                .quant_bucket = 64,
                                .tensors = {.register_after = 0, .threshold_period = 1}};
}

static struct beside_plan plan_of(int size, int steps, uint64_t seed, uint64_t merge)
{
    return (struct beside_plan){.size = size,
                                .calls = steps * LAYERS,
                                .seed = seed,
                                .inputs = 5,
                                .type = SS_F64,
                                .density = 1,
                                .in_flight = SS_BESIDE,
                                .merge = merge};
}

/* ---- what is to come out ---- */

static double *residual[MOST_RANKS][LAYERS], *expected[MOST_CALLS];

static int by_size(const void *a, const void *b)
{
    double x = fabs(*(const double *)a), y = fabs(*(const double *)b);

    return x < y ? 1 : x > y ? -1 : 0;
}

/* Of gradient and residual; an input that is not finite is none, and leaves its residual. */
static double sum_of(const struct beside_job *b, int rank, int c, size_t i)
{
    double x = residual[rank][c % LAYERS][i] + element_of(b->plan, rank, c, i);

    return isfinite(x) ? x : 0;
}

static void take(const struct beside_job *b, int rank, int c, double least)
{
    double *r = residual[rank][c % LAYERS];

    if (c == b->plan->not_finite && c > 0) /* native, with all ranks */
        return;
    for (size_t i = 0; i < count_of(c); i++) {
        double x = sum_of(b, rank, c, i);
        r[i] = fabs(x) >= least ? 0 : x;
        expected[c][i] += x - r[i];
    }
}

/* The calls from..from + n of a rank have one threshold: that of the k-th largest of all. */
static void select_from(const struct beside_job *b, int rank, int from, int n)
{
    double *all = malloc((size_t)n * 3000 * sizeof *all);
    size_t count = 0, k = 0;

    for (int c = from; c < from + n; c++) {
        for (size_t i = 0; i < count_of(c); i++)
            all[count++] = sum_of(b, rank, c, i);
        k += ss_warmup_k(count_of(c), DENSITY, 0, 0);
    }
    qsort(all, count, sizeof *all, by_size);
    double least = fabs(all[k - 1]);
    free(all);
    for (int c = from; c < from + n; c++)
        take(b, rank, c, least);
}

/* What was undone no longer tells; it is in the midst of others. */
static bool is_of(const struct beside_job *b, int rank, int c, uint64_t part)
{
    if (c >= b->plan->calls || part == 0)
        return false;
    return b->shared[rank][c] == part || (c > 0 && c == b->plan->not_finite);
}

/* The groups that the rank had; returns calls of groups. */
static int select_all(const struct beside_job *b, int rank)
{
    int grouped = 0;

    for (int c = 0, n; c < b->plan->calls; c += n) {
        uint64_t part = b->shared[rank][c];
        for (n = 1; is_of(b, rank, c + n, part); n++)
            ;
        assert_true(n <= LAYERS);
        assert_true(part == 0 || n > 1);
        grouped += part > 0 ? n : 0;
        select_from(b, rank, c, n);
    }
    return grouped;
}

static void expect(const struct beside_job *b, int c)
{
    const double *out = b->out[0][c];

    if (c == b->plan->not_finite && c > 0) {
        assert_int_equal(b->status[0][c], SS_NATIVE);
        return;
    }
    assert_int_equal(b->status[0][c], SS_OK);
    for (size_t i = 0; i < count_of(c); i++)
        if (fabs(out[i] - expected[c][i]) > 1e-12)
            fail_msg("P = %d, seed %llu, call %d, element %zu: %g, not %g", b->plan->size,
                     (unsigned long long)b->plan->seed, c, i, out[i], expected[c][i]);
}

/* Share of the calls that were selected from with others, of all ranks'. */
static double check(const struct beside_job *b)
{
    int grouped = 0;

    for (int r = 0; r < b->plan->size; r++)
        for (int l = 0; l < LAYERS; l++)
            residual[r][l] = calloc(count_of(l), sizeof(double));
    for (int c = 0; c < b->plan->calls; c++)
        expected[c] = calloc(count_of(c), sizeof(double));
    for (int r = 0; r < b->plan->size; r++)
        grouped += select_all(b, r);
    beside_agrees(b);
    for (int c = 0; c < b->plan->calls; c++)
        expect(b, c);
    for (int r = 0; r < b->plan->size; r++)
        for (int l = 0; l < LAYERS; l++)
            free(residual[r][l]);
    for (int c = 0; c < b->plan->calls; c++)
        free(expected[c]);
    return (double)grouped / b->plan->size / b->plan->calls;
}

static double run(struct beside_plan plan, struct ss_settings settings)
{
    struct ss_rules *rules;
    char error[200];

    assert_int_equal(ss_rules_parse("count=1:", true, &rules, error, sizeof error), SS_OK);
    settings.tensors.include = rules;
    beside_open_job(&job, &plan, settings);
    beside_run(&job);
    double grouped = check(&job);
    beside_close_job(&job);
    ss_rules_free(rules);
    return grouped;
}

/* ---- the promises ---- */

static const enum ss_algorithm tried[] = {SS_RECURSIVE_DOUBLING, SS_SPLIT_ALLGATHER, SS_ALLGATHER};

static void a_group_sends_the_largest_entries_of_all_its_calls(void **state)
{
    (void)state;
    for (int size = 2; size <= MOST_RANKS; size++)
        for (size_t a = 0; a < 3; a++)
            assert_true(run(plan_of(size, 6, 0, STEP_BYTES), fixed(tried[a])) > 0.7);
}

static void groups_of_some_layers_do_too(void **state)
{
    (void)state;
    for (uint64_t merge = 3000; merge < STEP_BYTES; merge *= 2)
        assert_true(run(plan_of(3, 6, merge, merge), fixed(SS_ALLGATHER)) > 0.2);
}

/* Ranks differ in what they select by; nothing is lost, and all have the same result. */
static void a_group_that_is_cut_short_selects_per_call(void **state)
{
    double grouped = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        for (int size = 2; size <= MOST_RANKS; size += 2) {
            struct beside_plan plan = plan_of(size, 6, seed, STEP_BYTES >> seed % 4);
            plan.hurries = 2 + (int)(seed % 7) * 8;
            plan.in_flight = 1 + (unsigned)seed % SS_BESIDE;
            double share = run(plan, fixed(tried[seed % 3]));
            assert_true(share < 1);
            grouped += share;
        }
    assert_true(grouped > 1);
}

static void a_call_that_is_not_finite_leaves_the_others_of_its_group(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) {
        struct beside_plan plan = plan_of(size, 6, 0, STEP_BYTES);
        plan.not_finite = 3 * LAYERS + 4;
        assert_true(run(plan, fixed(tried[size % 3])) > 0.4);
    }
}

static void planned_groups_select_together(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) {
        struct beside_plan plan = plan_of(size, 70, (uint64_t)size, SS_MERGE_AUTO);
        assert_true(run(plan, fixed(SS_ALLGATHER)) > 0.02); /* until then parts are cut short */
    }
}

/* Kept thresholds: nearly as many as asked for of all calls together. */
static void a_kept_threshold_of_a_group_follows_its_calls(void **state)
{
    struct ss_settings s = fixed(SS_ALLGATHER);
    struct beside_plan plan = plan_of(3, 40, 0, STEP_BYTES);
    struct ss_rules *rules;
    double sent = 0, asked = 0;
    char error[200];

    (void)state;
    assert_int_equal(ss_rules_parse("count=1:", true, &rules, error, sizeof error), SS_OK);
    s.tensors.include = rules;
    s.tensors.threshold_period = 16;
    beside_open_job(&job, &plan, s);
    beside_run(&job);
    beside_agrees(&job);
    for (int c = 0; c < plan.calls; c++) {
        sent += (double)job.claimed[0][c];
        asked += DENSITY * (double)count_of(c);
    }
    assert_true(sent > 0.8 * asked && sent < 1.2 * asked);
    beside_close_job(&job);
    ss_rules_free(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_sends_the_largest_entries_of_all_its_calls),
        cmocka_unit_test(groups_of_some_layers_do_too),
        cmocka_unit_test(a_group_that_is_cut_short_selects_per_call),
        cmocka_unit_test(a_call_that_is_not_finite_leaves_the_others_of_its_group),
        cmocka_unit_test(planned_groups_select_together),
        cmocka_unit_test(a_kept_threshold_of_a_group_follows_its_calls),
    };
    beside_layers = unlike_count;
    return cmocka_run_group_tests_name("merged_select", tests, NULL, NULL);
}
