/* The planner of merged calls (core/plan/merging.h) and the experiment of the OMGS-SGD paper
 * (tests/bench/groupings.h), without MPI:
 *
 *     bench_merging_plan time      milliseconds that planning takes
 *     bench_merging_plan random    how often and by how much Algorithm 1 misses the optimum
 *     bench_merging_plan paper     Tables V and VI of the paper by its own costs
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"
#include "core/plan/merging.h"
#include "tests/bench/groupings.h"
#include "tests/bench/measure.h"
#include "tests/bench/merging_models.h"

#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

struct planning {
    struct grouping_step step;
    struct ss_merging_call calls[MOST_CALLS];
    struct grouping plan;
    bool exact; /* no grouping ends before the plan */
    struct ss_merging_work work;
    struct ss_merging_plan library;
    uint64_t state;
};

enum policy { OPTIMAL, ALGORITHM1, SINGLE, THRESHOLD, POLICIES };
enum { THRESHOLD_ELEMENTS = 8192 };

static double plan(struct planning *p, enum policy policy)
{
    if (policy == OPTIMAL)
        p->exact = grouping_optimum(&p->step, &p->plan);
    else if (policy == ALGORITHM1)
        grouping_algorithm1(&p->step, &p->plan);
    else
        grouping_by_threshold(&p->step, policy == SINGLE ? UINT64_MAX : THRESHOLD_ELEMENTS,
                              &p->plan);
    return p->plan.seconds;
}

static void library_plan(struct planning *p)
{
    const struct grouping_costs *c = &p->step.costs;
    const struct ss_merging_costs costs = {c->element, c->group, c->exchange, c->entry};

    ss_merging_make(p->calls, p->step.count, &costs, &p->work, &p->library);
}

/* ---- random steps ---- */

static double uniform(struct planning *p)
{
    p->state = p->state * 6364136223846793005ULL + 1442695040888963407ULL;
    return ((double)(ss_mix(1, p->state) >> 11) + 0.5) / 0x1p53;
}

static double spread(struct planning *p, double least, double most)
{
    return least * pow(most / least, uniform(p));
}

enum selection { LINEAR, SORTING, PER_GROUP, SELECTIONS };
static const char *const selections[] = {"linear in d", "d log d", "linear, and per group"};

/* Between 10 and 10 million elements a call, d = 0.1 %, all costs over some decades. */
static void draw(struct planning *p, uint32_t count, enum selection selection, uint64_t seed)
{
    p->state = seed;
    double at = spread(p, 1e-3, 1), gap = spread(p, 1e-5, 1e-2);
    p->step = (struct grouping_step){.calls = p->calls, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        uint64_t elements = (uint64_t)spread(p, 10, 1e7);
        at += uniform(p) < 0.2 ? 0 : 2 * gap * uniform(p);
        p->calls[i] = (struct ss_merging_call){elements, (elements + 999) / 1000, at};
    }
    p->step.costs.exchange = spread(p, 1e-5, 3e-2);
    p->step.costs.entry = spread(p, 1e-9, 1e-5);
    if (selection == SORTING)
        p->step.costs.sort = spread(p, 1e-11, 1e-9);
    else
        p->step.costs.element = spread(p, 1e-10, 1e-8);
    if (selection == PER_GROUP)
        p->step.costs.group = spread(p, 1e-6, 1e-3);
}

static void time_of(struct planning *p, uint32_t count, enum selection selection)
{
    enum { DRAWS = 200 };
    double ms[DRAWS];

    for (int i = 0; i < DRAWS; i++) {
        draw(p, count, selection, (uint64_t)i + 1);
        double begin = measure_cpu_seconds();
        library_plan(p);
        ms[i] = 1e3 * (measure_cpu_seconds() - begin);
    }
    qsort(ms, DRAWS, sizeof *ms, measure_by_value);
    printf("%5u  %-22s %9.3f %9.3f %9.3f\n", count, selections[selection], ms[DRAWS / 2],
           ms[DRAWS * 9 / 10], ms[DRAWS - 1]);
}

static void part_time(struct planning *p)
{
    static const uint32_t counts[] = {11, 54, 161, SS_MERGED};

    printf("CPU time of planning, ms, 200 random steps each\n"
           "calls  selection                 median      90 %%      most\n");
    for (size_t i = 0; i < LENGTH(counts); i++) {
        time_of(p, counts[i], LINEAR);
        time_of(p, counts[i], PER_GROUP);
    }
}

static void miss_of(struct planning *p, uint32_t least, uint32_t most, enum selection selection)
{
    enum { DRAWS = 2000 };
    double worst = 0, sum = 0;
    int missed = 0;

    for (int i = 0; i < DRAWS; i++) {
        draw(p, least + (uint32_t)i % (most - least + 1), selection, (uint64_t)i + 1);
        double best = plan(p, OPTIMAL), excess = plan(p, ALGORITHM1) / best - 1;
        missed += excess > 1e-6;
        sum += excess;
        worst = fmax(worst, excess);
    }
    printf("%3u to %3u  %-22s %8.1f %% %9.2f %% %9.1f %%\n", least, most, selections[selection],
           100.0 * missed / DRAWS, 100 * sum / (missed > 0 ? missed : 1), 100 * worst);
}

static void part_random(struct planning *p)
{
    printf("How often Algorithm 1 misses the optimum, and how much later its steps then end, 2000 "
           "random\n"
           "steps each\n"
           "calls       selection                 missed  in the mean    at most\n");
    for (enum selection s = LINEAR; s < SELECTIONS; s++) {
        miss_of(p, 2, 14, s);
        miss_of(p, 15, 60, s);
    }
}

/* ---- Tables V and VI ---- */

struct row {
    const char *name;
    void (*make)(struct model *m);
    double density;    /* Table IV */
    double stated;     /* seconds of computation in the text, 0: none */
    double seconds[3]; /* Table VI: TopK-SGD, MGS-SGD, OMGS-SGD */
    int groups[4];     /* Table V: LAGS-SGD, MGS-SGD, OMGS-SGD */
};

static const struct row rows[] = {
    {"VGG-16", vgg16, 0.001, 0, {0.336, 0.523, 0.331}, {54, 13, 2}},
    {"ResNet-50", resnet50, 0.001, 0.18, {0.666, 1.217, 0.507}, {161, 53, 2}},
    {"Inception-v4", inception_v4, 0.001, 0, {1.602, 3.389, 1.247}, {449, 150, 7}},
    {"LSTM-PTB", lstm_ptb, 0.005, 0, {1.019, 0.956, 0.916}, {11, 9, 6}}};

/* What a step is rebuilt from. */
struct guess {
    double computation; /* seconds, forward and backward */
    double alpha, beta, gamma;
};

/* The paper prints gamma (rho is in it). The base of its logarithm, and alpha and beta, which are
 * in its Figure 2 only, are those of the authors' program (github.com/HKBU-HPML/OMGS-SGD,
 * utils.py). */
static const struct guess authors = {.alpha = 1.1e-2, .beta = 1.7e-8, .gamma = 2.18896957e-10};

/* An exchange is an allgather of values and one of indices, of 4 bytes an entry from 16 ranks each.
 * A third of the computation is the forward pass, the rest is shared out by multiplications. */
static void set_step(struct planning *p, const struct model *m, const struct row *row,
                     const struct guess *g)
{
    double work = 0, done = 0;

    for (int t = 0; t < m->tensors; t++)
        work += m->work[t];
    p->step = (struct grouping_step){
        .calls = p->calls,
        .count = (uint32_t)m->tensors,
        .costs = {.sort = g->gamma, .exchange = 2 * g->alpha, .entry = 2 * 16 * 4 * g->beta}};
    for (int t = 0; t < m->tensors; t++) {
        int l = m->tensors - 1 - t;
        done += m->work[l];
        p->calls[t] =
            (struct ss_merging_call){.elements = (uint64_t)m->elements[l],
                                     .entries = (uint64_t)fmax(1, row->density * m->elements[l]),
                                     .arrival = g->computation * (1 + 2 * done / work) / 3};
    }
}

static double predict(struct planning *p, const struct model *m, const struct row *row,
                      const struct guess *g, enum policy policy)
{
    set_step(p, m, row, g);
    return plan(p, policy);
}

/* A ratio, and (less) where the paper has measured a larger one. */
static void print_ratio(double ratio, double paper)
{
    printf(" %6.3f %-6s", ratio, ratio >= paper ? "" : "(less)");
}

static void print_line(struct planning *p, const struct model *m, const struct row *row,
                       const struct guess *g)
{
    double seconds[POLICIES];
    uint32_t groups[POLICIES];
    char what[64];

    snprintf(what, sizeof what, "%.3f %5.1f %5.2f %5.2f", g->computation, 1e3 * g->alpha,
             1e8 * g->beta, 1e10 * g->gamma);
    set_step(p, m, row, g);
    for (enum policy i = ALGORITHM1; i < POLICIES; i++) {
        seconds[i] = plan(p, i);
        groups[i] = p->plan.groups;
    }
    double begin = measure_cpu_seconds(), best = plan(p, OPTIMAL);
    double ms = 1e3 * (measure_cpu_seconds() - begin);
    double single = seconds[SINGLE], threshold = seconds[THRESHOLD];
    printf("%-13s%-25s %6.3f %6.3f %6.3f %6.3f %5u %4u %4u", row->name, what, single, threshold,
           seconds[ALGORITHM1], best, groups[THRESHOLD], groups[ALGORITHM1], p->plan.groups);
    print_ratio(single / best, row->seconds[0] / row->seconds[2]);
    print_ratio(threshold / best, row->seconds[1] / row->seconds[2]);
    printf("  %-5s %7.2f\n", p->exact ? "yes" : "no", ms);
}

/* Sets the unknown, which is in g, so that one group is predicted to take what was measured: a sum
 * in which it is a factor of one term (eq. 4). False where it would be negative. */
static bool fit_single(struct planning *p, const struct model *m, const struct row *row,
                       struct guess *g, double *unknown)
{
    *unknown = 0;
    double without = predict(p, m, row, g, SINGLE);
    *unknown = 1;
    *unknown = (row->seconds[0] - without) / (predict(p, m, row, g, SINGLE) - without);
    return *unknown >= 0;
}

/* The same, and alpha so that the threshold, too, takes what was measured: each exchange more costs
 * an alpha. */
static bool fit_both(struct planning *p, const struct model *m, const struct row *row,
                     struct guess *g, double *unknown)
{
    double low = 0, high = 0.1;

    for (int i = 0; i < 60; i++) {
        g->alpha = (low + high) / 2;
        if (fit_single(p, m, row, g, unknown) && predict(p, m, row, g, THRESHOLD) < row->seconds[1])
            low = g->alpha;
        else
            high = g->alpha;
    }
    g->alpha = low;
    return low > 0 && fit_single(p, m, row, g, unknown);
}

static void computation_in_text(struct planning *p, const struct model *m, const struct row *row)
{
    struct guess g = authors;
    double *const unknown[] = {&g.gamma, &g.beta};

    g.computation = row->stated;
    print_line(p, m, row, &g);
    for (int i = 0; i < 2; i++) {
        g = authors;
        g.computation = row->stated;
        if (fit_both(p, m, row, &g, unknown[i]))
            print_line(p, m, row, &g);
    }
}

static void computation_fitted(struct planning *p, const struct model *m, const struct row *row,
                               const struct guess *cluster)
{
    struct guess g = authors;

    if (!fit_single(p, m, row, &g, &g.computation)) {
        printf("%-13snot to be rebuilt: one group without any computation is predicted to take "
               "%.3f s\n",
               row->name, row->seconds[0] - g.computation);
        return;
    }
    print_line(p, m, row, &g);
    if (fit_both(p, m, row, &g, &g.computation))
        print_line(p, m, row, &g);
    g = *cluster;
    if (row->stated == 0 && fit_single(p, m, row, &g, &g.computation))
        print_line(p, m, row, &g);
}

static void make_model(struct model *m, const struct row *row)
{
    *m = (struct model){.name = row->name};
    row->make(m);
    if (m->tensors == row->groups[0])
        return;
    fprintf(stderr, "bench_merging_plan: %s has %d tensors, in the paper %d\n", row->name,
            m->tensors, row->groups[0]);
    exit(1);
}

static void paper_model(struct planning *p, const struct row *row, const struct guess *cluster)
{
    static struct model m;
    double elements = 0;

    make_model(&m, row);
    for (int t = 0; t < m.tensors; t++)
        elements += m.elements[t];
    printf("\n%s: %d tensors, %.0f parameters\n", row->name, m.tensors, elements);
    printf("%-13s%-25s %6.3f %6.3f %6s %6.3f %5d %4s %4d %6.3f %6s %6.3f\n", row->name,
           "measured in the paper", row->seconds[0], row->seconds[1], "", row->seconds[2],
           row->groups[1], "", row->groups[2], row->seconds[0] / row->seconds[2], "",
           row->seconds[1] / row->seconds[2]);
    if (row->stated > 0)
        computation_in_text(p, &m, row);
    computation_fitted(p, &m, row, cluster);
}

/* Alpha and beta from the one network whose computation the text has. */
static struct guess fit_cluster(struct planning *p)
{
    static struct model m;
    const struct row *row = rows;
    struct guess g = authors;

    while (row->stated == 0)
        row++;
    make_model(&m, row);
    g.computation = row->stated;
    if (!fit_both(p, &m, row, &g, &g.beta)) {
        fprintf(stderr, "bench_merging_plan: no alpha and beta fit %s\n", row->name);
        exit(1);
    }
    return g;
}

static void part_paper(struct planning *p)
{
    const struct guess cluster = fit_cluster(p);

    printf("Tables V and VI of the OMGS-SGD paper (16 nodes, 1 Gbit/s) by its model: seconds of a "
           "step in\n"
           "one group (TopK-SGD), with its threshold of 8192 (MGS-SGD), with its Algorithm 1 "
           "(OMGS-SGD) and\n"
           "with the optimal plan; groups; one group and threshold over the optimal plan, (less) "
           "than what\n"
           "was measured for the paper's; whether no grouping ends before the optimal plan; CPU "
           "time of\n"
           "its search, ms. Rebuilt from computation, s; alpha, ms; beta, 1e-8 s; gamma, 1e-10 s: "
           "that of the "
           "text and\n"
           "the authors' costs; the same with gamma and alpha, and with beta and alpha, such that "
           "one group\n"
           "and threshold take what was measured; the authors' costs and the computation with "
           "which one\n"
           "group does; computation and alpha with which both do; alpha and beta of ResNet-50's "
           "third line and\n"
           "the computation with which one group does.\n\n"
           "model        comput. alpha  beta gamma  single thres. alg. 1   opt.  thr. alg1 opt. "
           "single        "
           "thres.        proven    ms\n");
    for (size_t i = 0; i < LENGTH(rows); i++)
        paper_model(p, &rows[i], &cluster);
}

int main(int argc, char **argv)
{
    static struct planning p;
    const char *part = argc > 1 ? argv[1] : "";

    if (argc == 2 && strcmp(part, "time") == 0)
        part_time(&p);
    else if (argc == 2 && strcmp(part, "random") == 0)
        part_random(&p);
    else if (argc == 2 && strcmp(part, "paper") == 0)
        part_paper(&p);
    else {
        fprintf(stderr, "usage: bench_merging_plan time | random | paper\n");
        return 2;
    }
    return 0;
}
