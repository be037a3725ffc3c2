/* Values that travel in fewer bits inside calls (design section 8: who rounds, books, once):
 * nothing is lost, replicas stay replicas, residuals stay bounded, the stochastic form is unbiased.
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/sim_job.h"

enum { MOST_P = 9, N = 2003, STEPS = 12 };

enum pattern { HEAVY, SPREAD, CANCELLING, FLAT, PATTERNS };

/* What rounds: a collective and the options. */
struct form {
    enum ss_algorithm algorithm;
    enum ss_values values, quant;
};

static const struct form forms[] = {
    {SS_RECURSIVE_DOUBLING, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_RECURSIVE_DOUBLING, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_RECURSIVE_DOUBLING, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_RECURSIVE_DOUBLING, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_SPLIT_ALLGATHER, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_SPLIT_ALLGATHER, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_SPLIT_ALLGATHER, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_SPLIT_ALLGATHER, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_RING, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_RING, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_RING, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_RING, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_ALLGATHER, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_ALLGATHER, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_ALLGATHER, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_ALLGATHER, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_DSAR, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_DSAR, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_DSAR, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_DSAR, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_DSAR, SS_VALUES_SAME, SS_VALUES_Q8},
    {SS_DSAR, SS_VALUES_SAME, SS_VALUES_Q4},
    {SS_DSAR, SS_VALUES_SAME, SS_VALUES_Q2},
    {SS_DSAR, SS_VALUES_BF16, SS_VALUES_Q4},
    {SS_DSAR, SS_VALUES_Q2, SS_VALUES_Q8},
    {SS_OKTOPK, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_OKTOPK, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_OKTOPK, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_OKTOPK, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_GTOPK, SS_VALUES_BF16, SS_VALUES_SAME},
    {SS_GTOPK, SS_VALUES_Q8, SS_VALUES_SAME},
    {SS_GTOPK, SS_VALUES_Q4, SS_VALUES_SAME},
    {SS_GTOPK, SS_VALUES_Q2, SS_VALUES_SAME},
    {SS_AUTO, SS_VALUES_BF16, SS_VALUES_Q4},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

struct training {
    struct sim_job job;
    struct ss_rules *rules;
    enum ss_type type;
    size_t n;
    void *gradient[MOST_P];
    double *in, *magnitude, *out; /* per element: sums over ranks and steps */
    int sparse;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
}

static double unit(uint64_t x)
{
    return (double)(mix(x) >> 11) * 0x1p-53;
}

static double get(enum ss_type type, const void *v, size_t i)
{
    return type == SS_F32 ? (double)((const float *)v)[i] : ((const double *)v)[i];
}

static void put(enum ss_type type, void *v, size_t i, double x)
{
    if (type == SS_F32)
        ((float *)v)[i] = (float)x;
    else
        ((double *)v)[i] = x;
}

static struct ss_settings settings_of(const struct form *form)
{
    return (struct ss_settings){.algorithm = form->algorithm,
                                .alpha = 1e-5,
                                .beta = 1e-9,
                                .hash = 1,
                                .topk = true,
                                .density = 0.05,
                                .values = form->values,
                                .quant = form->quant,
                                .quant_feedback = true,
                                .quant_bucket = 64,
                                .repartition_period = 64,
                                .seed = 1,
                                .tensors = {.register_after = 0, .threshold_period = 8}};
}

static void training_open(struct training *t, int size, enum ss_type type, size_t n, uint64_t seed,
                          struct ss_settings settings)
{
    char error[200];

    memset(t, 0, sizeof *t);
    assert_int_equal(ss_rules_parse("count=1:", true, &t->rules, error, sizeof error), SS_OK);
    settings.tensors.include = t->rules;
    job_open(&t->job, size, 1e-5, 1e-9, seed, &settings);
    t->type = type;
    t->n = n;
    t->in = calloc(n, sizeof *t->in);
    t->magnitude = calloc(n, sizeof *t->in);
    t->out = calloc(n, sizeof *t->in);
    for (int r = 0; r < size; r++) {
        t->gradient[r] = calloc(n, 8);
        t->job.out[r] = calloc(n, 8);
    }
}

static void training_close(struct training *t)
{
    for (int r = 0; r < t->job.size; r++) {
        free(t->gradient[r]);
        free(t->job.out[r]);
    }
    free(t->in);
    free(t->magnitude);
    free(t->out);
    job_close(&t->job);
    ss_rules_free(t->rules);
}

static double sample(enum pattern pattern, uint64_t step, int rank, size_t i)
{
    uint64_t h = mix(step * 1000003 + (uint64_t)rank * 7919 + i * 104729 + 1);
    double x = 2 * unit(h) - 1, y = unit(h + 1);

    switch (pattern) {
    case SPREAD: /* each element at its own magnitude, from 1e-30 to 1e30 */
        return x * pow(10, 60 * unit(i) - 30);
    case CANCELLING: /* ranks in pairs take each other's gradient back, all but a little */
        h = mix(step * 1000003 + (uint64_t)(rank / 2) * 7919 + i * 104729 + 1);
        return (2 * unit(h) - 1) * (rank % 2 ? -1 : 1) + 1e-6 * x;
    case FLAT:
        return h & 1 ? 0.25 : -0.25;
    default:
        return x * (0.01 + y * y * y * y) * (step % 7 == 3 ? 1e-30 : 1);
    }
}

static void draw(struct training *t, enum pattern pattern, uint64_t step)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++)
            put(t->type, t->gradient[r], i, sample(pattern, step, r, i));
}

/* One call on the gradients: sparse, the same bits on all ranks. */
static void step(struct training *t, bool in_place)
{
    int size = t->job.size;

    for (int r = 0; r < size; r++) {
        for (size_t i = 0; i < t->n; i++) {
            t->in[i] += get(t->type, t->gradient[r], i);
            t->magnitude[i] += fabs(get(t->type, t->gradient[r], i));
        }
        t->job.in[r] = in_place ? NULL : t->gradient[r];
        if (in_place)
            memcpy(t->job.out[r], t->gradient[r], t->n * ss_type_size(t->type));
    }
    assert_true(job_call(&t->job, t->type, SS_SUM, t->n));
    for (int r = 0; r < size; r++)
        assert_int_equal(t->job.status[r], t->job.status[0]);
    if (t->job.status[0] == SS_NATIVE) { /* the MPI library's turn: in double here */
        for (size_t i = 0; i < t->n; i++)
            for (int r = 0; r < size; r++)
                t->out[i] += get(t->type, job_native_input(&t->job, r), i);
        return;
    }
    assert_int_equal(t->job.status[0], SS_OK);
    t->sparse++;
    for (int r = 1; r < size; r++)
        assert_memory_equal(t->job.out[r], t->job.out[0], t->n * ss_type_size(t->type));
    for (size_t i = 0; i < t->n; i++)
        t->out[i] += get(t->type, t->job.out[0], i);
}

static const void *residual(const struct training *t, int rank)
{
    const struct ss_tensor *tensor = ss_tensors_first(t->job.comm[rank]->tensors);

    return tensor ? tensor->residual.data : NULL;
}

static double residual_sum(const struct training *t, size_t i)
{
    double sum = 0;

    for (int r = 0; r < t->job.size; r++)
        sum += residual(t, r) ? get(t->type, residual(t, r), i) : 0;
    return sum;
}

/* Sum of results = sum of inputs - residuals, per element within (S + P + 2) eps sum |in|. */
static void expect_conservation(const struct training *t, const struct form *form, int steps)
{
    double eps = t->type == SS_F32 ? (double)FLT_EPSILON : DBL_EPSILON;

    for (size_t i = 0; i < t->n; i++) {
        double left = residual_sum(t, i);
        double error = fabs(t->in[i] - left - t->out[i]);
        if (error > (steps + t->job.size + 2) * eps * t->magnitude[i])
            fail_msg("%s, values %s, dense %s, P=%d, %s, element %zu: in %g, residuals %g, out %g",
                     ss_algorithm_name(form->algorithm), ss_values_name(form->values),
                     ss_values_name(form->quant), t->job.size, ss_type_name(t->type), i, t->in[i],
                     left, t->out[i]);
    }
}

static void nothing_is_lost_where_values_are_rounded(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (int size = 2; size <= MOST_P; size++)
            for (int pattern = 0; pattern < PATTERNS; pattern++) {
                bool odd = (size + pattern + f) % 2;
                training_open(&t, size, odd ? SS_F64 : SS_F32, N, pattern == 1 ? 5 : 0,
                              settings_of(&forms[f]));
                for (uint64_t s = 0; s < STEPS; s++) {
                    draw(&t, (enum pattern)pattern, s);
                    step(&t, s & 1);
                }
                assert_true(t.sparse >= STEPS - 1);
                expect_conservation(&t, &forms[f], STEPS);
                training_close(&t);
            }
}

/* Streams that turn dense underway, and streams of several chunks whose sends wait for one another:
 * what a rank adds itself is what it has sent. */
static void nothing_is_lost_of_long_streams(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (int large = 0; large < 2; large++)
            for (int size = 2; size <= MOST_P; size += large ? 7 : 1) {
                struct ss_settings settings = settings_of(&forms[f]);
                settings.density = 0.4;
                settings.coding = SS_CODING_BITMAP;
                if (large && forms[f].values != SS_VALUES_Q4 && forms[f].quant != SS_VALUES_Q4)
                    continue;
                training_open(&t, size, SS_F32, large ? 300000 : N, (uint64_t)size * 3, settings);
                if (large)
                    ss_sim_set_eager(t.job.sim, 0);
                for (uint64_t s = 0; s < (large ? 2 : 5); s++) {
                    draw(&t, HEAVY, s);
                    step(&t, s & 1);
                }
                if (forms[f].algorithm != SS_AUTO)
                    assert_int_equal(t.sparse, large ? 2 : 5);
                expect_conservation(&t, &forms[f], 5);
                training_close(&t);
            }
}

/* Integers times 2^-20, small enough that no sum is ever rounded. bf16 and q2 round them to such
 * numbers (the levels of q8 and q4 need not be any): then all balances to the last bit. */
static void integers_balance_to_the_last_bit(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++) {
        if (forms[f].values != SS_VALUES_BF16 && forms[f].values != SS_VALUES_Q2)
            continue;
        if (forms[f].quant != SS_VALUES_SAME && forms[f].quant != SS_VALUES_Q2)
            continue;
        for (int size = 2; size <= MOST_P; size++) {
            training_open(&t, size, SS_F32, N, 0, settings_of(&forms[f]));
            for (uint64_t s = 0; s < STEPS; s++) {
                for (int r = 0; r < size; r++)
                    for (size_t i = 0; i < N; i++)
                        put(SS_F32, t.gradient[r], i,
                            round(2048 * (unit(s * 977 + (uint64_t)r * 7919 + i * 104729) - 0.5)) *
                                0x1p-20);
                step(&t, s & 1);
            }
            for (size_t i = 0; i < N; i++)
                assert_true(t.in[i] == t.out[i] + residual_sum(&t, i));
            training_close(&t);
        }
    }
}

static double residual_norm(const struct training *t)
{
    double square = 0;

    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++) {
            double x = residual(t, r) ? get(t->type, residual(t, r), i) : 0;
            square += x * x;
        }
    return sqrt(square);
}

/* Input of about the same norm for 2,000 steps: what the residual reached in a tenth of them it
 * does not pass by much in the rest. */
static void residuals_stay_bounded(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++) {
        double early = 0, late = 0;
        struct ss_settings settings = settings_of(&forms[f]);
        settings.density = 0.1;
        training_open(&t, 3, SS_F32, 301, 0, settings);
        for (uint64_t s = 0; s < 2000; s++) {
            for (int r = 0; r < 3; r++)
                for (size_t i = 0; i < t.n; i++)
                    put(SS_F32, t.gradient[r], i,
                        2 * unit(s * 1000003 + (uint64_t)r * 7919 + i * 104729) - 1);
            step(&t, false);
            double norm = residual_norm(&t);
            if (s < 200)
                early = fmax(early, norm);
            else
                late = fmax(late, norm);
        }
        if (late > 2 * early)
            fail_msg("%s, values %s, dense %s: residual norm %g in 200 steps, later %g",
                     ss_algorithm_name(forms[f].algorithm), ss_values_name(forms[f].values),
                     ss_values_name(forms[f].quant), early, late);
        training_close(&t);
    }
}

/* Without feedback: the same input again and again gives sums whose mean is the sum, within what
 * Hoeffding's inequality allows with an error probability of 1e-9 in all; and no residual at all.
 */
static void stochastic_sums_are_right_in_the_mean_and_not_booked(void **state)
{
    enum { ELEMENTS = 512, CALLS = 1500 };
    static struct training t;
    static double sum[ELEMENTS], step_of[ELEMENTS];

    (void)state;
    for (enum ss_values quant = SS_VALUES_Q8; quant <= SS_VALUES_Q2; quant++) {
        struct form form = {SS_DSAR, SS_VALUES_SAME, quant};
        struct ss_settings settings = settings_of(&form);
        int levels = quant == SS_VALUES_Q8 ? 127 : quant == SS_VALUES_Q4 ? 7 : 1;
        settings.density = 1;
        settings.quant_feedback = false;
        training_open(&t, 4, SS_F32, ELEMENTS, 0, settings);
        draw(&t, HEAVY, 0);
        memset(sum, 0, sizeof sum);
        for (int calls = 0; calls < CALLS; calls++) {
            step(&t, false);
            assert_int_equal(t.sparse, calls + 1);
            for (size_t i = 0; i < ELEMENTS; i++)
                sum[i] += get(SS_F32, t.job.out[0], i);
            assert_true(residual_norm(&t) == 0);
        }
        for (size_t first = 0; first < ELEMENTS; first += 64) { /* parts are of 128 */
            double square = 0;
            for (size_t i = first; i < first + 64; i++)
                square += t.in[i] / CALLS * (t.in[i] / CALLS);
            for (size_t i = first; i < first + 64; i++)
                step_of[i] = sqrt(square) / levels;
        }
        double limit = sqrt(log(2 * ELEMENTS / 1e-9) / (2 * CALLS)), moved = 0;
        for (size_t i = 0; i < ELEMENTS; i++) {
            double off = (sum[i] - t.in[i]) / CALLS / step_of[i];
            if (fabs(off) > limit + 1e-4)
                fail_msg("%s, element %zu: the mean is off by %g steps", ss_values_name(quant), i,
                         off);
            moved += fabs(off);
        }
        assert_true(moved > 0);
        training_close(&t);
    }
}

/* Two runs give the same bits, whatever the order of delivery; another SEED gives others. */
static void the_stochastic_form_repeats(void **state)
{
    static struct training t[3];
    const struct form form = {SS_DSAR, SS_VALUES_BF16, SS_VALUES_Q4};

    (void)state;
    for (int j = 0; j < 3; j++) {
        struct ss_settings settings = settings_of(&form);
        settings.quant_feedback = false;
        settings.seed = j < 2 ? 1 : 2;
        training_open(&t[j], 5, SS_F32, N, j == 1 ? 99 : 0, settings);
        for (uint64_t s = 0; s < STEPS; s++) {
            draw(&t[j], HEAVY, s);
            step(&t[j], false);
        }
    }
    assert_memory_equal(t[0].out, t[1].out, N * sizeof *t[0].out);
    assert_memory_not_equal(t[0].out, t[2].out, N * sizeof *t[0].out);
    for (int r = 0; r < 5; r++)
        assert_memory_equal(residual(&t[0], r), residual(&t[1], r), N * sizeof(float));
    for (int j = 0; j < 3; j++)
        training_close(&t[j]);
}

/* Two of the largest numbers: the sum is infinite on all ranks, and no residual shows it. */
static void an_overflow_arrives_and_leaves_no_trace(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (int size = 2; size <= 5; size++) {
            if (forms[f].algorithm == SS_AUTO)
                continue;
            training_open(&t, size, SS_F32, N, 0, settings_of(&forms[f]));
            draw(&t, HEAVY, 0);
            step(&t, false);
            draw(&t, HEAVY, 1);
            for (int r = 0; r < 2; r++)
                put(SS_F32, t.gradient[r], 1234, (double)FLT_MAX);
            step(&t, false);
            assert_int_equal(t.sparse, 2);
            for (int r = 0; r < size; r++) {
                assert_true(isinf(get(SS_F32, t.job.out[r], 1234)));
                for (size_t i = 0; i < N; i++)
                    assert_true(isfinite(get(SS_F32, residual(&t, r), i)));
                assert_true(fabs(get(SS_F32, residual(&t, r), 1234)) <= 1);
            }
            t.in[1234] = t.out[1234] = t.magnitude[1234] = 0;
            for (int r = 0; r < size; r++)
                put(SS_F32, ss_tensors_first(t.job.comm[r]->tensors)->residual.data, 1234, 0);
            expect_conservation(&t, &forms[f], 2);
            training_close(&t);
        }
}

static struct ss_shape shape_of(const struct ss_call *c, const struct ss_settings *settings)
{
    const struct ss_ballot *b = &c->vote.ballot;

    return (struct ss_shape){.n = c->n,
                             .size = c->t->size,
                             .type = c->type,
                             .topk = true,
                             .k = b->k_max,
                             .values = settings->values,
                             .quant = settings->quant,
                             .bucket = settings->quant_bucket,
                             .nnz_sum = b->nnz_sum,
                             .nnz_max = b->nnz_max,
                             .part_max = b->part_max,
                             .memory_min = b->memory_min};
}

/* What the plan predicts for rounded values is what is sent, and the work space holds. */
static void bytes_and_memory_are_those_predicted(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (int size = 2; size <= 8; size += size < 4 ? 1 : 4) {
            enum ss_algorithm a = forms[f].algorithm;
            struct ss_settings settings = settings_of(&forms[f]);
            double sent = 0, memory = 0;
            if (a == SS_AUTO)
                continue;
            settings.density = 0.01;
            settings.quant_bucket = 1024;
            training_open(&t, size, SS_F32, 1 << 17, 0, settings);
            draw(&t, HEAVY, 0);
            step(&t, false);
            assert_int_equal(t.sparse, 1);
            const struct ss_call *c = ss_comm_call(t.job.comm[0]);
            const struct ss_plan plan = c->plan;
            struct ss_shape shape = shape_of(c, &settings);
            for (int r = 0; r < size; r++) {
                const struct ss_work *w = &t.job.comm[r]->work;
                c = ss_comm_call(t.job.comm[r]);
                sent = fmax(sent, (double)(c->bytes_sent - c->vote.bytes));
                memory =
                    fmax(memory, (double)(ss_work_kept(w) + w->own_idx.size + w->own_val.size));
            }
            /* oktopk: regions of a few hundred entries differ too much to be told from k */
            if (a != SS_OKTOPK && fabs(plan.bytes[a] - sent) > 0.15 * sent)
                fail_msg("%s, values %s, dense %s, P=%d: %g bytes predicted, %g sent",
                         ss_algorithm_name(a), ss_values_name(forms[f].values),
                         ss_values_name(forms[f].quant), size, plan.bytes[a], sent);
            if (memory > ss_plan_memory(&shape, a))
                fail_msg("%s, values %s, dense %s, P=%d: %g bytes of memory planned, %g used",
                         ss_algorithm_name(a), ss_values_name(forms[f].values),
                         ss_values_name(forms[f].quant), size, ss_plan_memory(&shape, a), memory);
            training_close(&t);
        }
}

static float before[MOST_P][N]; /* gradient + residual of each rank */

static void remember(const struct training *t)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++)
            before[r][i] = ((float *)t->gradient[r])[i] + ((const float *)residual(t, r))[i];
}

/* Where a call fails after the vote, the claims are back to the last bit. */
static void expect_claims_back(const struct training *t, int rank)
{
    for (size_t i = 0; i < t->n; i++)
        if (((const float *)residual(t, rank))[i] != before[rank][i])
            fail_msg("rank %d, element %zu: %a became %a", rank, i, (double)before[rank][i],
                     get(SS_F32, residual(t, rank), i));
}

static void faulty_step(struct training *t)
{
    remember(t);
    for (int r = 0; r < t->job.size; r++)
        t->job.in[r] = t->gradient[r];
    assert_true(job_call(&t->job, SS_F32, SS_SUM, t->n));
    for (int r = 0; r < t->job.size; r++)
        if (t->job.status[r] < 0)
            expect_claims_back(t, r);
}

static void a_rank_without_memory_fails_all_and_returns_the_claims(void **state)
{
    static struct training t;

    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (int which = 0; which < 3; which++) {
            training_open(&t, 3, SS_F32, N, 0, settings_of(&forms[f]));
            draw(&t, HEAVY, 0);
            step(&t, false);
            draw(&t, HEAVY, 1);
            struct ss_work *w = &t.job.comm[1]->work;
            struct ss_buf *buf = which == 0   ? &w->arena
                                 : which == 1 ? &w->own_error
                                              : &w->part_error;
            if (buf->size > 0) {
                ss_buf_free(buf);
                t.job.starve_after_vote = true;
                t.job.starve_rank = 1;
                faulty_step(&t);
                for (int r = 0; r < 3; r++)
                    assert_int_equal(t.job.status[r], r == 1 ? SS_ERR_MEMORY : SS_ERR_PEER);
            }
            training_close(&t);
        }
}

static void a_failing_or_corrupted_send_loses_no_claim(void **state)
{
    static struct training t;
    int failed = 0;

    (void)state;
    for (int f = 0; f < FORMS; f++)
        for (uint64_t n = 1; n <= 24; n++) {
            struct ss_settings settings = settings_of(&forms[f]);
            settings.timeout = 1e-3; /* a message that cannot be told may be waited for */
            training_open(&t, 4, SS_F32, N, 0, settings);
            ss_sim_set_idle(t.job.sim, 1e-4);
            draw(&t, HEAVY, 0);
            step(&t, false);
            draw(&t, HEAVY, 1);
            struct ss_sim_fault fault = {.rank = 1, .corrupt_byte = (size_t)mix(n)};
            uint64_t at = ss_sim_sends(t.job.sim, 1) + 1 + n / 2;
            if (n % 2)
                fault.fail_send = at;
            else
                fault.corrupt_send = at;
            ss_sim_set_fault(t.job.sim, fault);
            faulty_step(&t);
            for (int r = 0; r < 4; r++)
                failed += t.job.status[r] < 0;
            training_close(&t);
        }
    assert_true(failed > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost_where_values_are_rounded),
        cmocka_unit_test(nothing_is_lost_of_long_streams),
        cmocka_unit_test(integers_balance_to_the_last_bit),
        cmocka_unit_test(residuals_stay_bounded),
        cmocka_unit_test(stochastic_sums_are_right_in_the_mean_and_not_booked),
        cmocka_unit_test(the_stochastic_form_repeats),
        cmocka_unit_test(an_overflow_arrives_and_leaves_no_trace),
        cmocka_unit_test(bytes_and_memory_are_those_predicted),
        cmocka_unit_test(a_rank_without_memory_fails_all_and_returns_the_claims),
        cmocka_unit_test(a_failing_or_corrupted_send_loses_no_claim),
    };
    return cmocka_run_group_tests_name("rounding", tests, NULL, NULL);
}
