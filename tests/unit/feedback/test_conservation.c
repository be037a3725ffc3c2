/* No gradient is lost (invariant 3): every algorithm, value type, number of ranks from 2 on and
 * pattern, per element, with the residuals read. Equal communicators give equal bits. */
#include <stdio.h>

#include "tests/unit/support/training.h"

enum { N = 1100, STEPS = 7, MOST_P = 9, DRAIN = 3000 };

static const enum ss_algorithm algorithms[] = {SS_AUTO, SS_ONE_LEVEL_LIST(SS_CHOICE_ID)
                                                            SS_WHOLE_LIST(SS_CHOICE_ID)};
enum { ALGORITHMS = sizeof algorithms / sizeof algorithms[0] };

/* ---- patterns ---- */

static double uniform(uint64_t h)
{
    return (double)(mix(h) >> 11) / 4503599627370496.0 - 1; /* -1..1 */
}

/* Returns the input of step s, rank r of P, element i. */
typedef double pattern(uint64_t s, uint64_t r, uint64_t size, uint64_t i);

static uint64_t hash(uint64_t s, uint64_t r, uint64_t i)
{
    return mix(s * 1000003 + r * 7919 + i * 104729 + 1);
}

static double heavy_tailed(uint64_t s, uint64_t r, uint64_t size, uint64_t i)
{
    double y = uniform(hash(s, r, i) + 1);

    (void)size;
    return uniform(hash(s, r, i)) * (0.01 + y * y * y * y);
}

static double sparse(uint64_t s, uint64_t r, uint64_t size, uint64_t i)
{
    (void)size;
    return hash(s, r, i) % 200 == 0 ? uniform(hash(s, r, i) + 1) : 0;
}

static double all_equal(uint64_t s, uint64_t r, uint64_t size, uint64_t i)
{
    (void)s, (void)r, (void)size, (void)i;
    return 0.7;
}

static double in_interval(uint64_t interval, uint64_t intervals, uint64_t i)
{
    return i * intervals / N == interval ? 1 : 1e-4;
}

static double one_interval(uint64_t s, uint64_t r, uint64_t size, uint64_t i)
{
    (void)size;
    return uniform(hash(s, r, i)) * in_interval(s < 4 ? 1 : 6, 8, i); /* it moves once */
}

static double opposite_intervals(uint64_t s, uint64_t r, uint64_t size, uint64_t i)
{
    return uniform(hash(s, r, i)) * in_interval(size - 1 - r, size, i);
}

static double all_magnitudes(uint64_t s, uint64_t r, uint64_t size, uint64_t i)
{
    (void)size;
    return uniform(hash(s, r, i)) * pow(10, -15 + 15 * uniform(hash(s, r, i) + 1));
}

/* Neighbouring ranks hold the negative of each other; the last of an odd number is alone. */
static double cancelling(uint64_t s, uint64_t r, uint64_t size, uint64_t i)
{
    double x = heavy_tailed(s, r / 2, size, i);

    return r & 1 ? -x : x;
}

enum {
    HEAVY_TAILED,
    SPARSE,
    ALL_EQUAL,
    ONE_INTERVAL,
    OPPOSITE_INTERVALS,
    ALL_MAGNITUDES,
    CANCELLING,
    PATTERNS
};

static const struct {
    const char *name;
    pattern *draw;
} patterns[PATTERNS] = {
    [HEAVY_TAILED] = {"heavy-tailed", heavy_tailed},
    [SPARSE] = {"sparse", sparse},
    [ALL_EQUAL] = {"all equal", all_equal},
    [ONE_INTERVAL] = {"one interval", one_interval},
    [OPPOSITE_INTERVALS] = {"opposite intervals", opposite_intervals},
    [ALL_MAGNITUDES] = {"magnitudes 1e-30 to 1", all_magnitudes},
    [CANCELLING] = {"cancelling", cancelling},
};

/* The factor of a step's inputs: 1, powers of two that hold for some steps, a drift, or log-normal.
 */
enum { STEADY, IN_STEPS, DRIFTING, LOG_NORMAL, NORMS };

static double norm_of(int norms, uint64_t step)
{
    double normal = 0;

    switch (norms) {
    case IN_STEPS:
        return ldexp(1, (int)(mix(step * 3 / 8 + 77) % 11) - 5);
    case DRIFTING:
        return pow(1.3, (double)step);
    case LOG_NORMAL:
        for (uint64_t i = 0; i < 3; i++)
            normal += uniform(step * 31 + i + 5);
        return exp(normal);
    default:
        return 1;
    }
}

static void draw(struct training *t, pattern *p, uint64_t step, double norm)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++)
            put(t->type, t->gradient[r], i, norm * p(step, (uint64_t)r, (uint64_t)t->job.size, i));
}

/* A call with Inf or NaN on one rank is in neither sum; claims return within eps (|g| + |r|). */
static void step_not_finite(struct training *t, uint64_t step)
{
    int rank = (int)(step % (uint64_t)t->job.size);
    size_t at = (size_t)(mix(step) % t->n);

    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++)
            t->magnitude[i] += (long double)fabs(get(t->type, t->gradient[r], i));
    put(t->type, t->gradient[rank], at, step & 1 ? (double)INFINITY : (double)NAN);
    training_call(t, step % 4 == 1);
    assert_int_equal(t->job.status[0], SS_NATIVE);
    assert_false(ss_call_joined(ss_comm_call(t->job.comm[rank])));
}

/* ---- the cross ---- */

struct combination {
    enum ss_algorithm algorithm;
    enum ss_values values;
    int size;
    enum ss_type type;
    int pattern;
};

static struct ss_settings settings_of(const struct combination *k)
{
    struct ss_settings settings = training_settings(k->algorithm);

    settings.density = SS_WHOLE_ALGORITHMS >> k->algorithm & 1u ? 1 : 0.03;
    settings.value_type = k->values;
    settings.tensors.threshold_period = 4;
    return settings;
}

static void describe(const struct combination *k, char *text, size_t size)
{
    snprintf(text, size, "%s, values %s, P = %d, %s, %s",
             k->algorithm == SS_AUTO ? "auto" : ss_algorithm_name(k->algorithm),
             ss_value_type_name(k->values), k->size, ss_type_name(k->type),
             patterns[k->pattern].name);
}

/* What is left of element i. oktopk selects from sums, where those of exactly zero are not to be
 * seen: claims that cancel stay with their ranks. */
static long double left_of(const struct training *t, const struct combination *k, size_t i)
{
    long double most = 0;

    if (k->algorithm == SS_OKTOPK)
        return fabsl(training_left(t, i));
    for (int r = 0; r < t->job.size; r++)
        most = fmaxl(most, fabsl((long double)get(t->type, training_residual(t, r), i)));
    return most;
}

/* Zeros in, until all has arrived; where values are rounded, all but a billionth of the largest. */
static bool drain(struct training *t, const struct combination *k)
{
    long double limit = 0;
    bool drained = false;

    for (size_t i = 0; k->values != SS_VALUES_SAME && i < t->n; i++)
        limit = fmaxl(limit, 1e-9L * t->magnitude[i]);
    for (int step = 0; step < DRAIN && !drained; step += 10) {
        training_drain(t, 10);
        drained = true;
        for (size_t i = 0; drained && i < t->n; i++)
            drained = left_of(t, k, i) <= limit;
    }
    return drained;
}

static void expect_nothing_lost(const struct combination *k, bool draining)
{
    static struct training t;
    char text[200];

    describe(k, text, sizeof text);
    struct ss_settings settings = settings_of(k);
    uint64_t seed = k->size % 3 == 2 ? (uint64_t)k->size : 0; /* some with delivery at random */
    training_open(&t, k->size, k->type, N, seed, settings);
    for (uint64_t s = 0; s < STEPS; s++) {
        uint64_t word = mix((uint64_t)k->size * 977 + (uint64_t)k->pattern * 31 + s);
        double norm = norm_of((k->pattern + k->size + (int)k->type) % NORMS, s);
        if (word % 4 == 0) {
            draw(&t, patterns[k->pattern].draw, s + 100, norm);
            step_not_finite(&t, word);
        }
        draw(&t, patterns[k->pattern].draw, s, norm);
        training_step(&t, s % 3 == 2);
    }
    expect_conservation(&t, text);
    if (k->algorithm != SS_AUTO && t.sparse < STEPS - 1)
        fail_msg("%s: %d of %d calls sparse", text, t.sparse, STEPS);
    if (draining) {
        if (!drain(&t, k))
            fail_msg("%s: not drained in %d steps", text, DRAIN);
        expect_conservation(&t, text);
    }
    training_close(&t);
}

/* float and double by turns: each with every value type, number of ranks and pattern, but not with
 * all three. A pattern and a value type meet on every second number of ranks. */
static void cross(enum ss_algorithm algorithm)
{
    for (int values = SS_WHOLE_ALGORITHMS >> algorithm & 1; values < SS_VALUE_TYPES; values++)
        for (int size = 2; size <= MOST_P; size++)
            for (int p = (values + size / 2) % 2; p < PATTERNS; p += 2) {
                struct combination k = {.algorithm = algorithm,
                                        .values = (enum ss_values)values,
                                        .size = size,
                                        .type = (values + size + p / 2) % 2 ? SS_F64 : SS_F32,
                                        .pattern = p};
                expect_nothing_lost(&k, false);
            }
}

#define DEFINE_CROSS(algorithm, name)                                                              \
    static void name##_loses_nothing(void **state)                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        cross(algorithm);                                                                          \
    }
SS_ONE_LEVEL_LIST(DEFINE_CROSS)
SS_WHOLE_LIST(DEFINE_CROSS)
DEFINE_CROSS(SS_AUTO, auto)

/* Where large claims cancel, oktopk's ranks make them again and again and others wait. */
static void every_residual_drains(void **state)
{
    static const int of[] = {HEAVY_TAILED, SPARSE, ALL_EQUAL, ALL_MAGNITUDES, CANCELLING};

    (void)state;
    for (int a = 0; a < ALGORITHMS; a++)
        for (int values = SS_WHOLE_ALGORITHMS >> algorithms[a] & 1; values < SS_VALUE_TYPES;
             values++)
            for (size_t p = 0; p < sizeof of / sizeof of[0]; p++) {
                if (algorithms[a] == SS_OKTOPK && of[p] == CANCELLING)
                    continue;
                struct combination k = {.algorithm = algorithms[a],
                                        .values = (enum ss_values)values,
                                        .size = 3 + (a + values + (int)p) % 3,
                                        .type = (a + values) & 1 ? SS_F64 : SS_F32,
                                        .pattern = of[p]};
                expect_nothing_lost(&k, true);
            }
}

/* ---- equal communicators ---- */

/* A grid of 2 x 3: a row has 3 ranks, a column 2. Rows that are given the same, and columns, must
 * agree bit for bit, whatever the order of delivery in each. */
static void communicators_of_equal_size_and_layout_give_equal_bits(void **state)
{
    static struct training t[2];

    (void)state;
    for (int a = 0; a < ALGORITHMS; a++)
        for (int values = SS_WHOLE_ALGORITHMS >> algorithms[a] & 1; values < SS_VALUE_TYPES;
             values++)
            for (int size = 2; size <= 3; size++) {
                struct combination k = {.algorithm = algorithms[a],
                                        .values = (enum ss_values)values,
                                        .size = size,
                                        .type = SS_F32};
                for (int i = 0; i < 2; i++) {
                    training_open(&t[i], size, SS_F32, N, (uint64_t)i * 1234567, settings_of(&k));
                    for (uint64_t s = 0; s < STEPS; s++) {
                        draw(&t[i], heavy_tailed, s, 1);
                        training_step(&t[i], false);
                    }
                    assert_true(t[i].sparse > 0);
                }
                expect_same_bits(&t[0], &t[1]);
                assert_memory_equal(t[0].job.out[0], t[1].job.out[size - 1], N * sizeof(float));
                training_close(&t[0]);
                training_close(&t[1]);
            }
}

/* ---- random calls ---- */

enum { WAYS = 2, LAYERS = 5, BUFFERS = LAYERS + 3, PROGRAMS = 8 };

static const size_t way_n[WAYS] = {300, 450};

/* A program that sums layers of two counts: with calls left out and added, from buffers of their
 * own or of others, with small sums that come and go, beside native and not finite calls. */
struct program {
    struct sim_job job;
    uint64_t random;
    int layers, scalars, buffers;
    void *in[SIM_JOB_RANKS], *out[SIM_JOB_RANKS][BUFFERS];
    long double sum[WAYS][450], magnitude[WAYS][450]; /* inputs minus results; |inputs| */
    int calls, sparse;
};

static unsigned chance(struct program *p, unsigned of)
{
    p->random += 0x9e3779b97f4a7c15ULL;
    return (unsigned)(mix(p->random) % of);
}

static void add(struct program *p, int way, const void *v, int sign)
{
    for (size_t i = 0; i < way_n[way]; i++) {
        p->sum[way][i] += sign * (long double)get(SS_F32, v, i);
        if (sign > 0)
            p->magnitude[way][i] += (long double)fabs(get(SS_F32, v, i));
    }
}

/* One sum of that layer; some with NaN, and some that a rank cannot serve. */
static void sum_layer(struct program *p, int way, int layer)
{
    const bool bad = chance(p, 15) == 0;
    const int off = chance(p, 15) == 0 ? (int)chance(p, (unsigned)p->job.size) : -1;
    struct sim_job *job = &p->job;
    int scratch = LAYERS + (int)chance(p, 3);

    for (int r = 0; r < job->size; r++) {
        bool own = p->buffers == 0 || (p->buffers == 1 && chance(p, 20) > 0) ||
                   (p->buffers == 2 && r == 0);
        for (size_t i = 0; i < way_n[way]; i++)
            put(SS_F32, p->in[r], i, heavy_tailed((uint64_t)p->calls, (uint64_t)r, 0, i));
        add(p, way, p->in[r], 1);
        if (bad) { /* in neither sum, but claims come back rounded */
            for (size_t i = 0; i < way_n[way]; i++)
                p->sum[way][i] -= (long double)get(SS_F32, p->in[r], i);
            put(SS_F32, p->in[r], 3, r == 0 ? (double)NAN : 1);
        }
        job->in[r] = p->in[r];
        job->out[r] = p->out[r][p->buffers == 3 ? LAYERS : own ? layer : scratch];
        job->comm[r]->caller.off = r == off;
    }
    p->calls++;
    assert_true(job_call(job, SS_F32, SS_SUM, way_n[way]));
    assert_true(job->status[0] == SS_OK || job->status[0] == SS_NATIVE);
    p->sparse += job->status[0] == SS_OK;
    for (int r = 0; r < job->size; r++) {
        assert_int_equal(job->status[r], job->status[0]);
        if (job->status[0] == SS_NATIVE && !bad)
            add(p, way, job_native_input(job, r), -1);
    }
    if (job->status[0] == SS_NATIVE)
        return;
    assert_false(bad);
    add(p, way, job->out[0], -1);
}

static void sum_scalar(struct program *p)
{
    static float one[SIM_JOB_RANKS];

    for (int r = 0; r < p->job.size; r++) {
        one[r] = 1;
        p->job.in[r] = &one[r];
        p->job.out[r] = p->out[r][0];
        p->job.comm[r]->caller.off = false;
    }
    assert_true(job_call(&p->job, SS_F32, SS_SUM, 1));
}

static void step_program(struct program *p, int step)
{
    for (int k = 0; k < p->layers; k++) {
        unsigned word = chance(p, 40);
        for (int times = word == 0 ? 0 : word == 1 ? 2 : 1; times > 0; times--)
            sum_layer(p, 0, k);
        if (chance(p, 12) == 0)
            sum_layer(p, 1, (int)chance(p, LAYERS));
    }
    if (p->scalars == 1 || (p->scalars == 2 && step / 12 % 2 == 0) ||
        (p->scalars == 3 && chance(p, 3) == 0))
        sum_scalar(p);
}

static double expect_kept(const struct program *p, const char *rule)
{
    double kept = 0;

    for (int way = 0; way < WAYS; way++)
        for (size_t i = 0; i < way_n[way]; i++) {
            long double left = 0;
            for (int r = 0; r < p->job.size; r++)
                for (const struct ss_tensor *t = ss_tensors_first(p->job.comm[r]->tensors); t;
                     t = t->next)
                    if (t->n == way_n[way] && t->residual.values.data)
                        left += (long double)get(SS_F32, t->residual.values.data, i);
            kept += fabs((double)left);
            if (fabsl(p->sum[way][i] - left) >
                (p->calls + p->job.size + 2) * (long double)FLT_EPSILON * p->magnitude[way][i])
                fail_msg(
                    "P = %d, %s, scalars %d, buffers %d, %d layers, %zu elements, element %zu: "
                    "inputs minus results %Lg, residuals %Lg",
                    p->job.size, rule, p->scalars, p->buffers, p->layers, way_n[way], i,
                    p->sum[way][i], left);
        }
    return kept;
}

static double run_program(int size, uint64_t seed)
{
    static const char *const texts[] = {"count=300:", "count=300::calls=1", "count=300::calls=3",
                                        "count=300::calls=5", "count=300:400:calls=4;*"};
    static struct program p;
    struct ss_settings settings = training_settings(algorithms[seed % ALGORITHMS]);
    const char *text = texts[mix(seed) % (sizeof texts / sizeof texts[0])];
    struct ss_rules *rules;
    char error[200];

    memset(&p, 0, sizeof p);
    p.random = seed * 1000 + (uint64_t)size;
    p.layers = 1 + (int)chance(&p, LAYERS);
    p.scalars = (int)chance(&p, 4);
    p.buffers = (int)chance(&p, 4);
    assert_int_equal(ss_rules_parse(text, true, &rules, error, sizeof error), SS_OK);
    settings.density = 0.05;
    settings.tensors.include = rules;
    settings.tensors.identity.steps = chance(&p, 4);
    settings.tensors.identity.by_rule = chance(&p, 5) == 0;
    job_open(&p.job, size, 1e-5, 1e-9, seed % 2 ? seed : 0, &settings);
    for (int r = 0; r < size; r++) {
        p.in[r] = calloc(450, sizeof(float));
        for (int b = 0; b < BUFFERS; b++)
            p.out[r][b] = calloc(450, sizeof(float));
    }
    for (int step = 0; step < 60; step++)
        step_program(&p, step);
    double kept = expect_kept(&p, text);
    for (int r = 0; r < size; r++) {
        free(p.in[r]);
        for (int b = 0; b < BUFFERS; b++)
            free(p.out[r][b]);
    }
    job_close(&p.job);
    ss_rules_free(rules);
    return kept;
}

static void random_calls_lose_nothing(void **state)
{
    int lossy = 0;

    (void)state;
    for (int size = 2; size <= MOST_P; size++)
        for (uint64_t seed = 1; seed <= PROGRAMS; seed++)
            lossy += run_program(size, seed) > 0;
    print_message("# %d of %d programs were lossy\n", lossy, PROGRAMS * (MOST_P - 1));
    assert_true(lossy > PROGRAMS * (MOST_P - 1) / 2);
}

#define CROSS(algorithm, name) cmocka_unit_test(name##_loses_nothing),

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_loses_nothing), cmocka_unit_test(every_residual_drains),
        cmocka_unit_test(communicators_of_equal_size_and_layout_give_equal_bits),
        cmocka_unit_test(random_calls_lose_nothing), SS_ONE_LEVEL_LIST(CROSS) SS_WHOLE_LIST(CROSS)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
