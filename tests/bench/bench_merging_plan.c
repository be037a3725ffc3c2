/* The planner of merged calls (core/plan/merging.h), without MPI.
 *
 *     bench_merging_plan time            milliseconds that planning takes
 *     bench_merging_plan random          how often and by how much Algorithm 1 of the paper misses
 * the optimum, on random steps bench_merging_plan paper           Tables V and VI of the paper by
 * its own costs bench_merging_plan measured FILE   predictions beside what was measured
 *
 * FILE has lines of numbers in seconds; a step begins with its costs:
 *
 *     costs exchange=2e-4 entry=1.3e-8 element=1e-9 call=1e-5 group=0 sort=0 flight=1
 *     call ELEMENTS ENTRIES ARRIVAL      in order of arrival, without the selections before it
 *     plan SECONDS END...                what a grouping took to the end of the step: the number of
 *                                        calls up to the end of each group */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"
#include "core/plan/merging.h"
#include "tests/bench/measure.h"
#include "tests/bench/merging_models.h"

#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

struct planning {
    struct ss_merging_step step;
    struct ss_merging_call calls[SS_MERGING_CALLS];
    uint32_t ends[SS_MERGING_CALLS];
    struct ss_merging_plan plan;
    void *work;
    uint64_t state;
};

static void open_planning(struct planning *p)
{
    p->work = malloc(ss_merging_work_size(SS_MERGING_CALLS));
    if (!p->work) {
        fprintf(stderr, "bench_merging_plan: no memory\n");
        exit(1);
    }
}

static double plan(struct planning *p, enum ss_merging_policy policy, uint64_t threshold)
{
    p->plan = (struct ss_merging_plan){.ends = p->ends};
    enum ss_merging_status status = ss_merging_make(&p->step, policy, threshold, p->work, &p->plan);

    if (status != SS_MERGING_OK) {
        fprintf(stderr, "bench_merging_plan: %s\n", ss_merging_status_text(status));
        exit(1);
    }
    return p->plan.times.end;
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
static void draw(struct planning *p, uint32_t count, enum selection selection, unsigned flight,
                 uint64_t seed)
{
    p->state = seed;
    double at = spread(p, 1e-3, 1), gap = spread(p, 1e-5, 1e-2);
    p->step = (struct ss_merging_step){p->calls, count, {.flight = flight}};
    for (uint32_t i = 0; i < count; i++) {
        uint64_t elements = (uint64_t)spread(p, 10, 1e7);
        at += uniform(p) < 0.2 ? 0 : 2 * gap * uniform(p);
        p->calls[i] = (struct ss_merging_call){elements, (elements + 999) / 1000, at};
    }
    p->step.costs.exchange = spread(p, 1e-5, 3e-2);
    p->step.costs.entry = spread(p, 1e-9, 1e-5);
    if (selection == SORTING)
        p->step.costs.select_sort = spread(p, 1e-11, 1e-9);
    else
        p->step.costs.select_element = spread(p, 1e-10, 1e-8);
    if (selection == PER_GROUP)
        p->step.costs.select_group = spread(p, 1e-6, 1e-3);
}

static void time_of(struct planning *p, uint32_t count, enum selection selection, unsigned flight)
{
    enum { DRAWS = 200 };
    double ms[DRAWS], most = 0, sum = 0;
    int exact = 0;

    for (int i = 0; i < DRAWS; i++) {
        draw(p, count, selection, flight, (uint64_t)i + 1);
        double begin = measure_cpu_seconds();
        plan(p, SS_MERGING_OPTIMAL, 0);
        ms[i] = 1e3 * (measure_cpu_seconds() - begin);
        exact += p->plan.exact;
        double gap = p->plan.times.end / p->plan.bound - 1;
        most = fmax(most, gap);
        sum += gap;
    }
    qsort(ms, DRAWS, sizeof *ms, measure_by_value);
    printf("%5u  %-22s %6u %9.3f %9.3f %9.3f %8.1f %% %8.2f %% %7.2f %%\n", count,
           selections[selection], flight, ms[DRAWS / 2], ms[DRAWS * 9 / 10], ms[DRAWS - 1],
           100.0 * exact / DRAWS, 100 * sum / DRAWS, 100 * most);
}

static void part_time(struct planning *p)
{
    static const uint32_t counts[] = {11, 54, 161, 449};

    printf("CPU time of planning, ms, 200 random steps each; proven: share of plans known to be "
           "optimal;\n"
           "how far a plan can be from the optimum, in the mean of all and at most\n"
           "calls  selection             at once    median      90 %%      most    proven   in "
           "mean   at most\n");
    for (size_t i = 0; i < LENGTH(counts); i++)
        for (enum selection s = LINEAR; s < SELECTIONS; s++)
            for (unsigned flight = 1; flight <= 4; flight += 3)
                time_of(p, counts[i], s, flight);
}

static void miss_of(struct planning *p, uint32_t least, uint32_t most, enum selection selection)
{
    enum { DRAWS = 2000 };
    double worst = 0, sum = 0;
    int missed = 0;

    for (int i = 0; i < DRAWS; i++) {
        draw(p, least + (uint32_t)i % (most - least + 1), selection, 1, (uint64_t)i + 1);
        double best = plan(p, SS_MERGING_OPTIMAL, 0);
        double excess = plan(p, SS_MERGING_ALGORITHM1, 0) / best - 1;
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
           "steps each, one exchange at a time\n"
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

enum { THRESHOLD = 8192 };

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
    p->step = (struct ss_merging_step){p->calls,
                                       (uint32_t)m->tensors,
                                       {.select_sort = g->gamma,
                                        .exchange = 2 * g->alpha,
                                        .entry = 2 * 16 * 4 * g->beta,
                                        .flight = 1}};
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
                      const struct guess *g, enum ss_merging_policy policy)
{
    set_step(p, m, row, g);
    return plan(p, policy, THRESHOLD);
}

/* A ratio, and (less) where the paper has measured a larger one. */
static void print_ratio(double ratio, double paper)
{
    printf(" %6.3f %-6s", ratio, ratio >= paper ? "" : "(less)");
}

static void print_line(struct planning *p, const struct model *m, const struct row *row,
                       const struct guess *g)
{
    double seconds[SS_MERGING_POLICIES];
    uint32_t groups[SS_MERGING_POLICIES];
    char what[64];

    snprintf(what, sizeof what, "%.3f %5.1f %5.2f %5.2f", g->computation, 1e3 * g->alpha,
             1e8 * g->beta, 1e10 * g->gamma);
    set_step(p, m, row, g);
    for (enum ss_merging_policy i = SS_MERGING_ALGORITHM1; i < SS_MERGING_POLICIES; i++) {
        seconds[i] = plan(p, i, THRESHOLD);
        groups[i] = p->plan.groups;
    }
    double begin = measure_cpu_seconds(), best = plan(p, SS_MERGING_OPTIMAL, 0);
    double ms = 1e3 * (measure_cpu_seconds() - begin);
    double single = seconds[SS_MERGING_SINGLE], threshold = seconds[SS_MERGING_THRESHOLD];
    printf("%-13s%-25s %6.3f %6.3f %6.3f %6.3f %5u %4u %4u", row->name, what, single, threshold,
           seconds[SS_MERGING_ALGORITHM1], best, groups[SS_MERGING_THRESHOLD],
           groups[SS_MERGING_ALGORITHM1], p->plan.groups);
    print_ratio(single / best, row->seconds[0] / row->seconds[2]);
    print_ratio(threshold / best, row->seconds[1] / row->seconds[2]);
    printf(" %5.2f %% %6.2f\n", 100 * (best / p->plan.bound - 1), ms);
}

/* Sets the unknown, which is in g, so that one group is predicted to take what was measured: a sum
 * in which it is a factor of one term (eq. 4). False where it would be negative. */
static bool fit_single(struct planning *p, const struct model *m, const struct row *row,
                       struct guess *g, double *unknown)
{
    *unknown = 0;
    double without = predict(p, m, row, g, SS_MERGING_SINGLE);
    *unknown = 1;
    *unknown = (row->seconds[0] - without) / (predict(p, m, row, g, SS_MERGING_SINGLE) - without);
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
        if (fit_single(p, m, row, g, unknown) &&
            predict(p, m, row, g, SS_MERGING_THRESHOLD) < row->seconds[1])
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
           "was measured for the paper's; how far the plan can be from the optimum; CPU time of "
           "planning,\n"
           "ms. Rebuilt from computation, s; alpha, ms; beta, 1e-8 s; gamma, 1e-10 s: that of the "
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
           "thres.        at most   plan\n");
    for (size_t i = 0; i < LENGTH(rows); i++)
        paper_model(p, &rows[i], &cluster);
}

/* ---- what was measured ---- */

static void refuse(const char *file, int line, const char *why)
{
    fprintf(stderr, "bench_merging_plan: %s: line %d: %s\n", file, line, why);
    exit(2);
}

static double *cost_named(struct ss_merging_costs *c, const char *name, size_t length)
{
    const struct {
        const char *name;
        double *value;
    } known[] = {{"exchange", &c->exchange},      {"entry", &c->entry},
                 {"element", &c->select_element}, {"call", &c->select_call},
                 {"group", &c->select_group},     {"sort", &c->select_sort}};

    for (size_t i = 0; i < LENGTH(known); i++)
        if (strlen(known[i].name) == length && strncmp(known[i].name, name, length) == 0)
            return known[i].value;
    return NULL;
}

static void read_costs(struct planning *p, char *words, const char *file, int line)
{
    p->step = (struct ss_merging_step){p->calls, 0, {.flight = 1}};
    for (char *save, *word = strtok_r(words, " \t\n", &save); word;
         word = strtok_r(NULL, " \t\n", &save)) {
        char *equals = strchr(word, '='), *end = NULL;
        double value = equals ? strtod(equals + 1, &end) : 0;
        if (!equals || end == equals + 1 || *end != '\0')
            refuse(file, line, "costs are NAME=NUMBER");
        double *cost = cost_named(&p->step.costs, word, (size_t)(equals - word));
        if (cost)
            *cost = value;
        else if (strncmp(word, "flight=", 7) == 0 && value >= 1 && value <= SS_MERGING_FLIGHT &&
                 value == floor(value))
            p->step.costs.flight = (unsigned)value;
        else
            refuse(
                file, line,
                "a cost is exchange, entry, element, call, group or sort, or flight from 1 to 64");
    }
}

static void read_call(struct planning *p, const char *words, const char *file, int line)
{
    unsigned long long elements, entries;
    double arrival;
    char more;

    if (p->step.count == SS_MERGING_CALLS)
        refuse(file, line, "more calls than 4096");
    if (sscanf(words, "%llu %llu %lf %c", &elements, &entries, &arrival, &more) != 3)
        refuse(file, line, "a call is ELEMENTS ENTRIES ARRIVAL");
    p->calls[p->step.count++] = (struct ss_merging_call){elements, entries, arrival};
}

/* Predicted and measured end of a grouping; the optimum beside it. */
static void compare(struct planning *p, const char *words, const char *file, int line)
{
    struct ss_merging_times times;
    char *at;
    double measured = strtod(words, &at);
    uint32_t groups = 0;

    if (at == words || !(measured > 0))
        refuse(file, line, "a plan is SECONDS END...");
    for (char *next; groups < SS_MERGING_CALLS; at = next) {
        unsigned long end = strtoul(at, &next, 10);
        if (next == at)
            break;
        p->ends[groups++] = end <= SS_MERGING_CALLS ? (uint32_t)end : SS_MERGING_CALLS + 1;
    }
    if (at[strspn(at, " \t\n")] != '\0')
        refuse(file, line, "the ends of groups are whole numbers");
    enum ss_merging_status status = ss_merging_evaluate(&p->step, p->ends, groups, &times);
    if (status != SS_MERGING_OK)
        refuse(file, line, ss_merging_status_text(status));
    double best = plan(p, SS_MERGING_OPTIMAL, 0);
    printf("%6u %6u %6u %10.3f %10.3f %9.3f %8.3f %12.3f %6u\n", p->step.count,
           p->step.costs.flight, groups, 1e3 * times.end, 1e3 * measured, times.end / measured,
           1e3 * times.exposed, 1e3 * best, p->plan.groups);
}

static void part_measured(struct planning *p, const char *path)
{
    char line[65536], word[16];
    int number = 0, used, plans = 0;
    FILE *file = fopen(path, "r");

    if (!file) {
        perror(path);
        exit(1);
    }
    p->step.count = 0;
    printf("ends of steps, ms; exposed: predicted communication after the computation\n"
           " calls atonce groups  predicted   measured     ratio  exposed      optimum groups\n");
    while (fgets(line, sizeof line, file)) {
        number++;
        if (sscanf(line, "%15s%n", word, &used) != 1 || word[0] == '#')
            continue;
        if (strcmp(word, "costs") == 0)
            read_costs(p, line + used, path, number);
        else if (p->step.costs.flight == 0)
            refuse(path, number, "a step begins with its costs");
        else if (strcmp(word, "call") == 0)
            read_call(p, line + used, path, number);
        else if (strcmp(word, "plan") == 0)
            compare(p, line + used, path, number), plans++;
        else
            refuse(path, number, "a line begins with costs, call or plan");
    }
    fclose(file);
    if (plans == 0)
        refuse(path, number, "no plan was measured");
}

int main(int argc, char **argv)
{
    static struct planning p;
    const char *part = argc > 1 ? argv[1] : "";

    open_planning(&p);
    if (argc == 2 && strcmp(part, "time") == 0)
        part_time(&p);
    else if (argc == 2 && strcmp(part, "random") == 0)
        part_random(&p);
    else if (argc == 2 && strcmp(part, "paper") == 0)
        part_paper(&p);
    else if (argc == 3 && strcmp(part, "measured") == 0)
        part_measured(&p, argv[2]);
    else {
        fprintf(stderr, "usage: bench_merging_plan time | random | paper | measured FILE\n");
        return 2;
    }
    free(p.work);
    return 0;
}
