/* The plan: a pure function of voted values whose predictions hold in the simulator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/coll/algorithms.h"
#include "core/plan/cost.h"
#include "tests/unit/support/oracle.h"
#include "tests/unit/support/sim_job.h"

enum { MOST = 8 };

static const double densities[] = {1e-4, 1e-3, 0.01, 0.05, 0.2};
static const int sizes[] = {2, 3, 4, 8};

#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

struct grid {
    size_t n;
    struct array in[MOST], out[MOST];
};

static void grid_place(struct grid *g, size_t n, int size, double density, enum place place)
{
    struct input shape = {.size = size,
                          .type = SS_F32,
                          .op = SS_SUM,
                          .n = n,
                          .density = density,
                          .place = place,
                          .values = ORDINARY,
                          .seed = n + (uint64_t)size};
    g->n = n;
    for (int r = 0; r < size; r++) {
        g->in[r] = array_make(n, 4);
        g->out[r] = array_make(n, 4);
        input_fill(&shape, r, g->in[r].data);
    }
}

static void grid_fill(struct grid *g, size_t n, int size, double density)
{
    grid_place(g, n, size, density, UNIFORM);
}

static void grid_free(struct grid *g, int size)
{
    for (int r = 0; r < size; r++) {
        free(g->in[r].base);
        free(g->out[r].base);
    }
}

/* What a call took in the simulator, and what a plan from its ballot without local costs says. */
struct outcome {
    double seconds;
    double bytes; /* of the busiest rank, without the vote */
    double vote;  /* seconds */
    struct ss_plan plan;
    struct ss_shape shape;
    double memory; /* most work space of a rank, without receive buffers */
};

static struct ss_shape shape_without_local_costs(const struct ss_call *c, double alpha, double beta)
{
    const struct ss_ballot *b = &c->f.vote.ballot;

    return (struct ss_shape){.algorithms = ss_algorithms(SS_KIND_ALLREDUCE),
                             .n = c->f.c.x.n,
                             .size = c->f.c.x.t->size,
                             .type = c->f.c.x.type,
                             .nnz_sum = b->nnz_sum,
                             .nnz_max = b->nnz_max,
                             .part_max = b->part_max,
                             .memory_min = b->memory_min,
                             .alpha = alpha,
                             .beta = beta};
}

static void run(struct grid *g, int size, enum ss_algorithm algorithm, double alpha, double beta,
                struct outcome *o)
{
    struct ss_settings settings = {.algorithm = algorithm, .alpha = alpha, .beta = beta};
    struct ss_history nothing = {.result_nnz = 0};
    struct sim_job job;

    *o = (struct outcome){.seconds = 0};
    job_open(&job, size, alpha, beta, 0, &settings);
    for (int r = 0; r < size; r++) {
        job.in[r] = g->in[r].data;
        job.out[r] = g->out[r].data;
    }
    assert_true(job_call(&job, SS_F32, SS_SUM, g->n));
    for (int r = 0; r < size; r++) {
        const struct ss_call *c = ss_comm_call(job.comm[r]);
        const struct ss_work *w = &job.comm[r]->works[0];
        double seconds = ss_sim_clock(job.sim, r);
        double bytes = (double)(ss_sim_bytes_sent(job.sim, r) - c->f.vote.bytes);
        double memory =
            (double)(job.mem[r].peak - w->inbox.size - w->scratch.size - w->pieces.size);
        assert_int_equal(job.status[r], SS_OK);
        assert_int_equal(c->f.c.x.bytes_sent, ss_sim_bytes_sent(job.sim, r));
        assert_memory_equal(&c->plan, &ss_comm_call(job.comm[0])->plan, sizeof c->plan);
        o->seconds = seconds > o->seconds ? seconds : o->seconds;
        o->bytes = bytes > o->bytes ? bytes : o->bytes;
        o->memory = memory > o->memory ? memory : o->memory;
        o->vote = c->f.c.x.spans.times.vote > o->vote ? c->f.c.x.spans.times.vote : o->vote;
    }
    o->shape = shape_without_local_costs(ss_comm_call(job.comm[0]), alpha, beta);
    o->shape.vote = o->vote;
    o->shape.balanced = ss_cost_balances(&o->shape);
    ss_plan_make(&o->shape, &nothing, &o->plan);
    job_close(&job);
}

static void expect_near(const char *what, double predicted, double seen, double tolerance,
                        enum ss_algorithm a, int size, double density)
{
    if (predicted <= seen * (1 + tolerance) && predicted >= seen * (1 - tolerance))
        return;
    print_message("# %s of %s, P=%d, density %g: predicted %g, seen %g\n", what,
                  ss_algorithm_name(a), size, density, predicted, seen);
    fail();
}

static void predicted_bytes_are_those_sent(void **state)
{
    static struct grid g;
    struct outcome o;

    (void)state;
    for (size_t p = 0; p < LENGTH(sizes); p++)
        for (size_t d = 0; d < LENGTH(densities); d++) {
            grid_fill(&g, (size_t)1 << 20, sizes[p], densities[d]);
            for (int i = SS_RECURSIVE_DOUBLING; i < SS_TWO_LEVEL; i++) {
                enum ss_algorithm a = (enum ss_algorithm)i;
                run(&g, sizes[p], a, 1e-6, 1e-9, &o);
                expect_near("bytes", o.plan.bytes[a], o.bytes, 0.15, a, sizes[p], densities[d]);
                assert_true(o.memory <= ss_plan_memory(&o.shape, a));
            }
            grid_free(&g, sizes[p]);
        }
}

/* Networks and counts where alpha, beta or both matter, and work on the hosts does not. */
static const struct {
    size_t n;
    double alpha, beta;
} networks[] = {{1 << 18, 20e-6, 8e-8},
                {1 << 16, 100e-6, 1e-8},
                {4096, 20e-6, 8e-9},
                {1 << 17, 1e-6, 8e-8},
                {1 << 18, 1e-4, 8e-9}};

static void predicted_seconds_are_those_of_the_simulator(void **state)
{
    static struct grid g;
    struct outcome o;

    (void)state;
    for (size_t w = 0; w < LENGTH(networks); w++)
        for (size_t p = 0; p < LENGTH(sizes); p++)
            for (size_t d = 0; d < LENGTH(densities); d++) {
                grid_fill(&g, networks[w].n, sizes[p], densities[d]);
                for (int i = SS_RECURSIVE_DOUBLING; i < SS_TWO_LEVEL; i++) {
                    enum ss_algorithm a = (enum ss_algorithm)i;
                    run(&g, sizes[p], a, networks[w].alpha, networks[w].beta, &o);
                    expect_near("seconds", o.plan.seconds[a], o.seconds, 0.25, a, sizes[p],
                                densities[d]);
                }
                grid_free(&g, sizes[p]);
            }
}

static void auto_is_within_a_tenth_of_the_best(void **state)
{
    static struct grid g;
    struct outcome o;

    (void)state;
    for (size_t w = 0; w < LENGTH(networks); w++)
        for (size_t p = 0; p < LENGTH(sizes); p++)
            for (size_t d = 0; d < LENGTH(densities); d++) {
                double best = INFINITY;
                grid_fill(&g, networks[w].n, sizes[p], densities[d]);
                for (int i = SS_RECURSIVE_DOUBLING; i < SS_TWO_LEVEL; i++) {
                    run(&g, sizes[p], (enum ss_algorithm)i, networks[w].alpha, networks[w].beta,
                        &o);
                    best = o.seconds < best ? o.seconds : best;
                }
                run(&g, sizes[p], SS_AUTO, networks[w].alpha, networks[w].beta, &o);
                if (o.seconds > 1.1 * best) {
                    print_message("# P=%d density %g alpha %g beta %g: auto %g, best %g\n",
                                  sizes[p], densities[d], networks[w].alpha, networks[w].beta,
                                  o.seconds, best);
                    fail();
                }
                grid_free(&g, sizes[p]);
            }
}

static struct ss_shape some_shape(void)
{
    return (struct ss_shape){.algorithms = ss_algorithms(SS_KIND_ALLREDUCE),
                             .n = 1 << 20,
                             .size = 4,
                             .type = SS_F32,
                             .nnz_sum = 40000,
                             .nnz_max = 10000,
                             .part_max = 2600,
                             .memory_min = UINT64_MAX,
                             .alpha = 2e-5,
                             .beta = 1e-8,
                             .scan = 1e-10,
                             .code = 4e-9,
                             .merge = 2e-9,
                             .fill = 1e-10,
                             .backend = ss_costs_of_host(4e-9, 2e-9, 1e-10),
                             .vote = 4e-5};
}

static void the_plan_is_a_pure_function(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history history = {.result_nnz = 30000, .result_sum = 40000}, kept = history;
    struct ss_plan a, b;

    (void)state;
    memset(&a, 1, sizeof a);
    memset(&b, 2, sizeof b);
    ss_plan_make(&shape, &history, &a);
    ss_plan_make(&shape, &history, &b);
    assert_int_equal(a.algorithm, b.algorithm);
    assert_memory_equal(a.seconds, b.seconds, sizeof a.seconds);
    assert_memory_equal(a.bytes, b.bytes, sizeof a.bytes);
    assert_memory_equal(&history, &kept, sizeof history);
}

static void memory_excludes_algorithms_one_by_one(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history history = {.result_nnz = 0};
    struct ss_plan plan;
    int before = SS_ALGORITHMS;

    (void)state;
    for (uint64_t memory = (uint64_t)1 << 27; memory > 0; memory /= 2) {
        int can = 0;
        shape.memory_min = memory;
        for (int a = SS_RECURSIVE_DOUBLING; a < SS_TWO_LEVEL; a++) {
            shape.forced = (enum ss_algorithm)a;
            ss_plan_make(&shape, &history, &plan);
            bool fits = ss_plan_memory(&shape, shape.forced) <= (double)memory;
            assert_int_equal(plan.algorithm, fits ? a : SS_DENSE);
            can += fits;
        }
        shape.forced = SS_AUTO;
        ss_plan_make(&shape, &history, &plan);
        assert_true(plan.seconds[plan.algorithm] >= 0);
        assert_true((plan.algorithm == SS_DENSE) == (can == 0));
        assert_true(can <= before);
        before = can;
    }
    assert_int_equal(before, 0);
}

static void dense_input_on_one_rank_is_planned_dense(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history history = {.result_nnz = 0};
    struct ss_plan plan;

    (void)state;
    ss_plan_make(&shape, &history, &plan);
    assert_int_not_equal(plan.algorithm, SS_DENSE);
    shape.nnz_max = shape.n * 4 / 5;
    shape.nnz_sum += shape.nnz_max;
    ss_plan_make(&shape, &history, &plan);
    assert_int_equal(plan.algorithm, SS_DENSE);
}

static void the_union_lies_between_one_set_and_all(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history nothing = {.result_nnz = 0};
    struct ss_history identical = {.result_nnz = 10000, .result_sum = 40000};
    struct ss_history disjoint = {.result_nnz = 40000, .result_sum = 40000};

    (void)state;
    for (int r = 1; r <= 4; r++) {
        double u = ss_plan_union(&shape, &nothing, r);
        assert_true(u >= 10000 * (r > 1 ? 1.0 : 0.999) && u <= 10000.0 * r);
        assert_true(fabs(ss_plan_union(&shape, &identical, r) - 10000) < 1);
        assert_true(ss_plan_union(&shape, &disjoint, r) >= u);
    }
}

/* Chance alone puts more entries into one part than into another; that is no reason to expect more
 * bytes. */
static void chance_is_not_taken_for_skew(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history nothing = {.result_nnz = 0};
    struct ss_plan even, chance, clustered;

    (void)state;
    shape.part_max = 2500;
    ss_plan_make(&shape, &nothing, &even);
    shape.part_max = 2620;
    ss_plan_make(&shape, &nothing, &chance);
    shape.part_max = 10000;
    ss_plan_make(&shape, &nothing, &clustered);
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_TWO_LEVEL; a++)
        assert_true(even.seconds[a] == chance.seconds[a]);
    assert_true(clustered.seconds[SS_RING] > 2 * even.seconds[SS_RING]);
    assert_true(clustered.seconds[SS_SPLIT_ALLGATHER] > 2 * even.seconds[SS_SPLIT_ALLGATHER]);
    assert_true(clustered.seconds[SS_ALLGATHER] == even.seconds[SS_ALLGATHER]);
}

static void balanced_parts_pay_for_skew_where_bytes_cost_more_than_counts(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history nothing = {.result_nnz = 0};
    struct ss_plan even, balanced;

    (void)state;
    shape.part_max = 2500;
    assert_false(ss_cost_balances(&shape));
    ss_plan_make(&shape, &nothing, &even);
    shape.part_max = 10000;
    assert_true(shape.balanced = ss_cost_balances(&shape));
    ss_plan_make(&shape, &nothing, &balanced);
    double split = balanced.seconds[SS_SPLIT_ALLGATHER] - even.seconds[SS_SPLIT_ALLGATHER];
    assert_true(split > 0 && split < 1.2 * ss_cost_balance(&shape));
    assert_true(balanced.seconds[SS_RING] > 2 * even.seconds[SS_RING]);
    shape.alpha = 1;
    assert_false(ss_cost_balances(&shape));
    shape.alpha = 2e-5;
    shape.topk = true;
    assert_false(ss_cost_balances(&shape));
    shape.topk = false;
    shape.kind = SS_KIND_REDUCE;
    assert_false(ss_cost_balances(&shape));
}

/* Plans the next call, which knows the entries of this one's result. The model takes indices to be
 * spread evenly, and so to be longer than they are. */
static void predictions_hold_for_balanced_parts(void **state)
{
    const enum ss_algorithm a = SS_SPLIT_ALLGATHER;
    static struct grid g;
    struct outcome o;

    (void)state;
    for (size_t p = 1; p < LENGTH(sizes); p++)
        for (int d = 1; d <= 2; d++) {
            grid_place(&g, (size_t)1 << 20, sizes[p], 0.01 * d, CLUSTERED);
            run(&g, sizes[p], a, 20e-6, 8e-8, &o);
            struct ss_history last = {.result_sum = o.shape.nnz_sum};
            for (size_t i = 0; i < g.n; i++)
                last.result_nnz += ((const float *)g.out[0].data)[i] != 0;
            ss_plan_make(&o.shape, &last, &o.plan);
            assert_true(o.shape.balanced);
            expect_near("seconds", o.plan.seconds[a], o.seconds, 0.25, a, sizes[p], 0.01 * d);
            assert_true(o.memory <= ss_plan_memory(&o.shape, a));
            grid_free(&g, sizes[p]);
        }
}

static void measurements_correct_the_choice(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history history = {.result_nnz = 0};
    struct ss_plan plan;
    enum ss_algorithm first;

    (void)state;
    shape.learn = true;
    ss_plan_make(&shape, &history, &plan);
    first = plan.algorithm;
    for (int i = 0; i < 20; i++) { /* it takes ten times as long as predicted, the others do not */
        ss_history_planned(&history, &plan, false);
        ss_history_measured(&history,
                            plan.seconds[plan.algorithm] * (plan.algorithm == first ? 10 : 1));
        ss_plan_make(&shape, &history, &plan);
    }
    assert_int_not_equal(plan.algorithm, first);
    assert_true(history.ratio[first] > 5);
}

static void what_the_model_puts_at_twice_the_best_known_is_not_tried(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history history = {.result_nnz = 0};
    struct ss_plan plan;

    (void)state;
    shape.learn = true;
    for (int i = 0; i < 200; i++) {
        double best = 0;
        bool tried[SS_ALGORITHMS];
        for (int a = SS_AUTO + 1; a < SS_ALGORITHMS; a++)
            tried[a] = history.runs[a] > 0;
        ss_plan_make(&shape, &history, &plan);
        for (int a = SS_AUTO + 1; a < SS_ALGORITHMS; a++) {
            double known = plan.seconds[a] * (history.runs[a] >= 2 ? history.ratio[a] : 1);
            if (plan.seconds[a] >= 0 && (best == 0 || known < best))
                best = known;
        }
        assert_true(tried[plan.algorithm] || plan.seconds[plan.algorithm] <= 2 * best);
        ss_history_planned(&history, &plan, false);
        ss_history_measured(&history, 1.8 * plan.seconds[plan.algorithm]);
    }
    assert_int_equal(history.runs[SS_DENSE], 0); /* far slower here */
}

/* Where top-k is told nothing of dense, it finds out once, and rests only on what was confirmed. */
static void topk_tries_dense_once(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history history = {.result_nnz = 0};
    struct ss_plan plan;
    int dense = 0;

    (void)state;
    shape.learn = shape.topk = true;
    shape.k = shape.nnz_max;
    ss_plan_make(&shape, &history, &plan);
    double apart = plan.seconds[SS_DENSE] / 1.9 - plan.seconds[plan.algorithm];
    shape.scan += apart / (double)shape.n; /* dense takes nearly twice as long as the best */
    for (int i = 0; i < 30; i++) {
        ss_plan_make(&shape, &history, &plan);
        dense += plan.algorithm == SS_DENSE;
        assert_true(plan.algorithm != SS_DENSE || !plan.settled);
        ss_history_planned(&history, &plan, false);
        ss_history_measured(&history,
                            plan.seconds[plan.algorithm] * (plan.algorithm == SS_DENSE ? 1.5 : 1));
    }
    assert_int_equal(dense, 1);
}

/* It touches fresh memory: neither itself nor its like are given up for it. */
static void a_first_run_condemns_nobody(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history history = {.result_nnz = 0};
    struct ss_plan plan;

    (void)state;
    shape.learn = shape.topk = true;
    shape.k = shape.nnz_max;
    ss_plan_make(&shape, &history, &plan);
    double apart = plan.seconds[SS_DENSE] / 1.9 - plan.seconds[plan.algorithm];
    shape.scan += apart / (double)shape.n; /* dense takes nearly twice as long */
    ss_plan_make(&shape, &history, &plan);
    enum ss_algorithm first = plan.algorithm;
    ss_history_planned(&history, &plan, false);
    ss_history_measured(&history, 15 * plan.seconds[plan.algorithm]);
    ss_plan_make(&shape, &history, &plan);
    assert_int_equal(plan.algorithm, first);
    ss_history_planned(&history, &plan, false);
    ss_history_measured(&history, plan.seconds[first]);
    assert_true(history.ratio[first] == 1);
}

/* Half of dsar is dense: what makes dense slower than predicted makes it so, too. */
static void dsar_is_judged_by_dense_until_it_was_tried(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history history = {.result_nnz = 0};
    struct ss_plan plan;

    (void)state;
    shape.learn = shape.topk = true;
    shape.k = shape.nnz_max;
    ss_plan_make(&shape, &history, &plan);
    double apart = 3 * plan.seconds[SS_DSAR] - plan.seconds[plan.algorithm];
    shape.scan += apart / (double)shape.n; /* all are alike */
    history.runs[SS_DENSE] = 2;
    history.ratio[SS_DENSE] = 7;
    for (int i = 0; i < 60; i++) {
        ss_plan_make(&shape, &history, &plan);
        assert_int_not_equal(plan.algorithm, SS_DSAR);
        ss_history_planned(&history, &plan, false);
        ss_history_measured(&history, 2 * plan.seconds[plan.algorithm]);
    }
}

/* What rests measures dense first, where the model does not rule it out: nothing has to be undone
 * for it. */
static void what_rests_measures_dense_first(void **state)
{
    struct ss_shape shape = some_shape();
    struct ss_history history = {.result_nnz = 0}, nothing = history;
    struct ss_plan plan;

    (void)state;
    shape.learn = shape.topk = shape.resting = true;
    shape.k = shape.nnz_max;
    ss_plan_make(&shape, &nothing, &plan);
    assert_int_not_equal(plan.algorithm, SS_DENSE); /* ruled out by far */
    double apart = plan.seconds[SS_DENSE] / 1.9 - plan.seconds[plan.algorithm];
    shape.scan += apart / (double)shape.n;
    for (int i = 0; i < 2; i++) {
        ss_plan_make(&shape, &history, &plan);
        assert_int_equal(plan.algorithm, SS_DENSE);
        assert_false(plan.settled);
        ss_history_planned(&history, &plan, false);
        ss_history_measured(&history, plan.seconds[SS_DENSE]);
    }
    ss_plan_make(&shape, &history, &plan);
    assert_int_not_equal(plan.algorithm, SS_DENSE);
    history.ratio[SS_DENSE] = 0.5; /* dense is faster after all */
    ss_plan_make(&shape, &history, &plan);
    assert_int_equal(plan.algorithm, SS_DENSE);
    assert_true(plan.settled);
}

/* A lane's memory must not differ between ranks, whatever their own entries and clocks say. */
static void ranks_plan_alike_call_after_call(void **state)
{
    static struct sim_job job;
    struct ss_settings settings = {.algorithm = SS_AUTO, .alpha = -1, .beta = -1};
    enum { N = 100000, SIZE = 5 };
    struct array in[SIZE], out[SIZE];
    bool ran[SS_ALGORITHMS] = {false};

    (void)state;
    job_open(&job, SIZE, 1e-5, 1e-9, 0, &settings);
    for (int r = 0; r < SIZE; r++) {
        in[r] = array_make(N, 4);
        out[r] = array_make(N, 4);
        job.in[r] = in[r].data;
        job.out[r] = out[r].data;
    }
    for (uint64_t i = 0; i < 300; i++) {
        struct input shape = {.size = SIZE,
                              .type = SS_F32,
                              .op = SS_SUM,
                              .n = N,
                              .density = densities[i % 5],
                              .place = (enum place)(i / 7 % PLACES),
                              .values = CANCELLING,
                              .seed = i};
        for (int r = 0; r < SIZE; r++) {
            input_fill(&shape, r, in[r].data);
            ss_sim_compute(job.sim, r, 1e-6 * (double)(mix(i * SIZE + (uint64_t)r) % 1000));
        }
        assert_true(job_call(&job, SS_F32, SS_SUM, N));
        for (int r = 0; r < SIZE; r++) {
            const struct ss_call *c = ss_comm_call(job.comm[r]), *first = ss_comm_call(job.comm[0]);
            assert_int_equal(job.status[r], job.status[0]);
            if (job.status[r] == SS_OK)
                assert_memory_equal(&c->plan, &first->plan, sizeof c->plan);
        }
        ran[ss_call_algorithm(ss_comm_call(job.comm[0]))] = true;
    }
    int tried = 0;
    for (int a = 0; a < SS_ALGORITHMS; a++)
        tried += ran[a];
    assert_true(tried >= 2);
    for (int r = 0; r < SIZE; r++) {
        free(in[r].base);
        free(out[r].base);
    }
    job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predicted_bytes_are_those_sent),
        cmocka_unit_test(predicted_seconds_are_those_of_the_simulator),
        cmocka_unit_test(auto_is_within_a_tenth_of_the_best),
        cmocka_unit_test(the_plan_is_a_pure_function),
        cmocka_unit_test(memory_excludes_algorithms_one_by_one),
        cmocka_unit_test(dense_input_on_one_rank_is_planned_dense),
        cmocka_unit_test(the_union_lies_between_one_set_and_all),
        cmocka_unit_test(chance_is_not_taken_for_skew),
        cmocka_unit_test(balanced_parts_pay_for_skew_where_bytes_cost_more_than_counts),
        cmocka_unit_test(predictions_hold_for_balanced_parts),
        cmocka_unit_test(measurements_correct_the_choice),
        cmocka_unit_test(ranks_plan_alike_call_after_call),
        cmocka_unit_test(what_the_model_puts_at_twice_the_best_known_is_not_tried),
        cmocka_unit_test(topk_tries_dense_once),
        cmocka_unit_test(a_first_run_condemns_nobody),
        cmocka_unit_test(dsar_is_judged_by_dense_until_it_was_tried),
        cmocka_unit_test(what_rests_measures_dense_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
