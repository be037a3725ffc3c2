/* The O(k) sparse allreduce: what it computes, what it sends, and that nothing is lost in it. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/mailbox.h"
#include "tests/unit/sim_job.h"

enum { MAX_P = 9, N = 6007, STEPS = 30 };

/* Where the large gradients of a rank lie. */
enum place { UNIFORM, FRONT, OPPOSITE, MOVING, CONSTANT, PLACES };

struct training {
    struct sim_job job;
    struct ss_rules *rules;
    enum ss_type type;
    enum place place;
    size_t n;
    uint64_t steps;
    void *gradient[SIM_JOB_RANKS];
    double *in, *magnitude, *out; /* per element: sums over ranks and steps */
    int sparse, native;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebULL;
    return x ^ x >> 31;
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

static struct ss_settings settings_of(double density)
{
    return (struct ss_settings){.algorithm = SS_OKTOPK,
                                .alpha = 1e-5,
                                .beta = 1e-9,
                                .hash = 1,
                                .topk = true,
                                .density = density,
                                .repartition_period = 16,
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
        t->gradient[r] = calloc(n, ss_type_size(type));
        t->job.out[r] = calloc(n, ss_type_size(type));
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

/* 1 where the pattern has its large gradients, else a thousandth. */
static double emphasis(const struct training *t, int rank, size_t i)
{
    size_t size = (size_t)t->job.size, tenth = t->n / 10 + 1;
    size_t begin = 0;

    if (t->place == OPPOSITE)
        begin = (size - 1 - (size_t)rank) * t->n / size;
    else if (t->place == MOVING)
        begin = (size_t)(t->steps / 8 * 7) * tenth % t->n;
    else if (t->place != FRONT)
        return 1;
    return i >= begin && i < begin + tenth ? 1 : 1e-3;
}

/* Heavy-tailed values; a power of two scales them all. */
static void draw(struct training *t, double scale)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++) {
            uint64_t h = mix(t->steps * 1000003 + (uint64_t)r * 7919 + i * 104729 + 1);
            double x = (double)(int64_t)h / 9.3e18, y = (double)(mix(h) >> 40) / 16777216.0;
            double value = t->place == CONSTANT ? 0.25 : x * (0.01 + y * y * y * y);
            put(t->type, t->gradient[r], i, scale * emphasis(t, r, i) * value);
        }
}

static const struct ss_call *call_of(const struct training *t, int rank)
{
    return ss_comm_call(t->job.comm[rank]);
}

static void step(struct training *t, bool in_place)
{
    int size = t->job.size;

    t->steps++;
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
    for (int r = 1; r < size; r++)
        assert_int_equal(t->job.status[r], t->job.status[0]);
    if (t->job.status[0] == SS_NATIVE) { /* the MPI library's turn: in double here */
        t->native++;
        for (size_t i = 0; i < t->n; i++)
            for (int r = 0; r < size; r++)
                t->out[i] += get(t->type, t->gradient[r], i);
        return;
    }
    assert_int_equal(t->job.status[0], SS_OK);
    t->sparse++;
    for (int r = 1; r < size; r++)
        assert_memory_equal(t->job.out[r], t->job.out[0], t->n * ss_type_size(t->type));
    for (size_t i = 0; i < t->n; i++)
        t->out[i] += get(t->type, t->job.out[0], i);
}

static struct ss_tensor *tensor_of(const struct training *t, int rank)
{
    return ss_tensors_first(t->job.comm[rank]->tensors);
}

static const void *residual(const struct training *t, int rank)
{
    const struct ss_tensor *tensor = tensor_of(t, rank);

    return tensor ? tensor->residual.data : NULL;
}

static size_t selected(const struct training *t)
{
    size_t count = 0;

    for (size_t i = 0; i < t->n; i++)
        count += get(t->type, t->job.out[0], i) != 0;
    return count;
}

/* Sum of results = sum of inputs - residuals, per element within (S + P + 2) eps sum |in|. */
static void expect_conservation(const struct training *t)
{
    double eps = t->type == SS_F32 ? (double)FLT_EPSILON : DBL_EPSILON;

    for (size_t i = 0; i < t->n; i++) {
        double left = 0;
        for (int r = 0; r < t->job.size; r++)
            left += residual(t, r) ? get(t->type, residual(t, r), i) : 0;
        double error = fabs(t->in[i] - left - t->out[i]);
        if (error > ((double)t->steps + t->job.size + 2) * eps * t->magnitude[i])
            fail_msg("element %zu: in %g, residuals %g, out %g", i, t->in[i], left, t->out[i]);
    }
}

static void no_gradient_is_lost(void **state)
{
    static struct training t;

    (void)state;
    for (int place = 0; place < PLACES; place++)
        for (int size = 2; size <= MAX_P; size++)
            for (int form = 0; form < 4; form++) {
                struct ss_settings settings = settings_of(0.01);
                settings.partition = (enum ss_partition)(form % 3);
                training_open(&t, size, form & 1 ? SS_F64 : SS_F32, N, form == 3 ? 5 : 0, settings);
                t.place = (enum place)place;
                for (int s = 0; s < STEPS; s++) {
                    draw(&t, s % 7 == 3 ? 1e-30 : 1);
                    step(&t, s & 1);
                }
                assert_true(t.sparse >= STEPS - 1);
                assert_int_equal(call_of(&t, 0)->plan.algorithm, SS_OKTOPK);
                expect_conservation(&t);
                training_close(&t);
            }
}

/* The definition (section 3.1), densely: claims of |gradient + residual| >= local threshold, added
 * in the order of the ranks; those >= global threshold are the result; other claims return. */
static void a_call_computes_what_the_thresholds_say(void **state)
{
    static struct training t;
    static float claims[MAX_P][N], rest[MAX_P][N], sum[N];

    (void)state;
    for (int size = 2; size <= MAX_P; size++) {
        training_open(&t, size, SS_F32, N, 0, settings_of(0.02));
        for (int s = 0; s < STEPS; s++) {
            draw(&t, 1);
            for (int r = 0; r < size; r++)
                for (size_t i = 0; i < N; i++) {
                    const float *left = residual(&t, r);
                    rest[r][i] = ((float *)t.gradient[r])[i] + (left ? left[i] : 0);
                }
            step(&t, false);
            memset(sum, 0, sizeof sum);
            for (int r = 0; r < size; r++) {
                ss_magnitude local = tensor_of(&t, r)->threshold.magnitude;
                for (size_t i = 0; i < N; i++) {
                    claims[r][i] =
                        ss_magnitude_of(SS_F32, (double)rest[r][i]) >= local ? rest[r][i] : 0;
                    sum[i] += claims[r][i];
                }
            }
            ss_magnitude global = tensor_of(&t, 0)->agreed.global.magnitude;
            for (size_t i = 0; i < N; i++) {
                bool selected = sum[i] != 0 && ss_magnitude_of(SS_F32, (double)sum[i]) >= global;
                assert_true(((float *)t.job.out[0])[i] == (selected ? sum[i] : 0));
                for (int r = 0; r < size; r++) {
                    float left = selected && claims[r][i] != 0 ? 0 : rest[r][i];
                    assert_true(((const float *)residual(&t, r))[i] == left);
                }
            }
        }
        assert_int_equal(t.native, 0);
        training_close(&t);
    }
}

/* Found every 8 calls (tau'), in between kept; a gradient that grows has it found anew in the same
 * call, one that shrinks in the next. */
static void the_global_threshold_is_kept_and_found_anew(void **state)
{
    enum { GROWING = 80, KEPT = 64 };
    static struct training t;
    const size_t n = 20000, k = 1000;
    uint64_t exact = 0;
    double off = 0;

    (void)state;
    training_open(&t, 4, SS_F32, n, 0, settings_of(0.05));
    for (int s = 0; s < GROWING + KEPT; s++) {
        if (s == GROWING) /* by now the residuals have stopped growing */
            exact = tensor_of(&t, 0)->agreed.global.exact_calls;
        draw(&t, 1);
        step(&t, false);
        assert_in_range(selected(&t), s < 8 ? 1 : k / 2, 4 * k / 3);
        if (s >= GROWING)
            off += fabs((double)selected(&t) - (double)k) / (double)k / KEPT;
    }
    struct ss_threshold *global = &tensor_of(&t, 0)->agreed.global;
    print_message("# mean |selected - k| / k: %.3f, found %d times in %d calls\n", off,
                  (int)(global->exact_calls - exact), KEPT);
    assert_true(off < 0.11);
    assert_in_range(global->exact_calls - exact, KEPT / 8, KEPT / 4);

    while (ss_threshold_due(global, global->k)) {
        draw(&t, 1);
        step(&t, false);
    }
    exact = global->exact_calls;
    draw(&t, 64);
    step(&t, false);
    assert_int_equal(global->exact_calls, exact + 1);
    assert_int_equal(selected(&t), k);
    training_close(&t);
}

/* Too few at the kept threshold: all ranks know, and the next call finds it anew. */
static void too_few_have_the_threshold_found_at_the_next_call(void **state)
{
    static struct training t;

    (void)state;
    struct ss_settings settings = settings_of(0.01);
    settings.tensors.threshold_period = 1000;
    training_open(&t, 4, SS_F32, 60000, 0, settings);
    for (int s = 0; s < 4; s++) {
        draw(&t, s < 3 ? 1 : 64);
        step(&t, false);
    }
    memset(t.gradient[0], 0, t.n * sizeof(float));
    for (int r = 1; r < 4; r++)
        t.gradient[r] = memcpy(t.gradient[r], t.gradient[0], t.n * sizeof(float));
    struct ss_threshold *global = &tensor_of(&t, 0)->agreed.global;
    int few = 0;
    for (int s = 0; s < 60; s++) {
        bool due = global->reevaluate;
        uint64_t exact = global->exact_calls;
        step(&t, false);
        assert_int_equal(global->exact_calls > exact, due);
        if (due)
            assert_int_equal(selected(&t), 600);
        few += selected(&t) < 300;
        assert_int_equal(global->reevaluate, selected(&t) < 300);
    }
    assert_true(few > 1);
    expect_conservation(&t);
    training_close(&t);
}

/* Zeros in, until nothing is left: everything arrives. */
static void the_residual_drains(void **state)
{
    static struct training t;

    (void)state;
    for (int size = 2; size <= 6; size += 2) {
        struct ss_settings settings = settings_of(0.02);
        settings.tensors.threshold_period = 32;
        training_open(&t, size, SS_F32, N, 0, settings);
        for (int s = 0; s < STEPS; s++) {
            draw(&t, 1);
            step(&t, false);
        }
        draw(&t, 0);
        for (int s = 0; s < 150 * size; s++)
            step(&t, false);
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < t.n; i++)
                assert_true(get(SS_F32, residual(&t, r), i) == 0);
        expect_conservation(&t);
        training_close(&t);
    }
}

/* Whatever the order of delivery: the same bits on all ranks, in results and residuals. */
static void replicas_stay_identical_for_any_p(void **state)
{
    static const int sizes[] = {2, 3, 7, 16, 33, 64};
    static struct training t[2];

    (void)state;
    for (size_t p = 0; p < sizeof sizes / sizeof sizes[0]; p++) {
        int size = sizes[p];
        for (int j = 0; j < 2; j++) {
            training_open(&t[j], size, SS_F32, 2000, j == 0 ? 0 : 1234 + p, settings_of(0.02));
            t[j].place = p % 2 == 0 ? UNIFORM : FRONT;
            for (int s = 0; s < 12; s++) {
                draw(&t[j], 1);
                step(&t[j], s % 3 == 0);
            }
            expect_conservation(&t[j]);
        }
        assert_memory_equal(t[0].out, t[1].out, t[0].n * sizeof *t[0].out);
        for (int r = 0; r < size; r++)
            assert_memory_equal(residual(&t[0], r), residual(&t[1], r), t[0].n * sizeof(float));
        training_close(&t[0]);
        training_close(&t[1]);
    }
}

/* Equal values where no order can be told: the set takes k of them. */
static void of_equal_entries_too_many_the_first_are_taken(void **state)
{
    static struct training t;

    (void)state;
    for (int size = 2; size <= MAX_P; size++) {
        training_open(&t, size, size % 2 ? SS_F32 : SS_F64, N, 0, settings_of(0.01));
        size_t k = (size_t)(0.01 * N + 0.5);
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < N; i++)
                put(t.type, t.gradient[r], i, (int)(i % (size_t)size) == r ? 0.5 : 0);
        step(&t, false);
        assert_int_equal(selected(&t), k);
        for (size_t i = 0, before = 0; i < N && before < k; i++)
            before += get(t.type, t.job.out[0], i) != 0;
        for (int s = 0; s < 5; s++)
            step(&t, false);
        expect_conservation(&t);
        training_close(&t);
    }
}

/* Fewer entries than k: all of them. */
static void few_entries_all_arrive(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, 5, SS_F32, N, 0, settings_of(0.01));
    for (int s = 0; s < 12; s++) {
        for (int r = 0; r < 5; r++) {
            memset(t.gradient[r], 0, N * sizeof(float));
            for (size_t i = 0; i < 7; i++)
                put(SS_F32, t.gradient[r], (i * 631 + (size_t)(s * r)) % N, 1.5);
        }
        step(&t, false);
        for (int r = 0; r < 5; r++)
            for (size_t i = 0; i < N; i++)
                assert_true(((const float *)residual(&t, r))[i] == 0);
    }
    training_close(&t);
}

/* Claims that cancel exactly, larger than all else, do not keep the rest from arriving. */
static void what_cancels_does_not_mask_the_rest(void **state)
{
    static struct training t;

    (void)state;
    for (size_t masks = 20; masks <= 200; masks += 60) {
        training_open(&t, 4, SS_F32, N, 0, settings_of(0.01));
        draw(&t, 1);
        for (int r = 0; r < 4; r++)
            for (size_t i = 0; i < masks; i++)
                put(SS_F32, t.gradient[r], i * 29, r % 2 ? 512 : -512);
        step(&t, false);
        draw(&t, 0);
        for (int s = 0; s < 1000; s++)
            step(&t, false);
        for (int r = 0; r < 4; r++)
            for (size_t i = 0; i < N; i++)
                assert_true(((const float *)residual(&t, r))[i] == 0);
        expect_conservation(&t);
        training_close(&t);
    }
}

/* ---- volume ---- */

enum { HEADER = 16 };

/* Over the ranks, max(sent, received) of a phase in words of 4 bytes, headers of its messages left
 * out. Raw indices: an entry of 4 bytes is two words. */
static double words(const struct training *t, enum ss_phase phase, double messages)
{
    double most = 0;

    for (int r = 0; r < t->job.size; r++) {
        double sent = (double)call_of(t, r)->phase_sent[phase];
        double received = (double)call_of(t, r)->phase_received[phase];
        most = fmax(most, fmax(sent, received) - HEADER * messages);
    }
    return most / 4;
}

struct volume {
    double reduce, balance, gather; /* most of any call after the first `settle` */
    double mean;                    /* of their sum */
    double k;
};

static struct volume measure(struct training *t, int steps, int settle)
{
    struct volume v = {.k = (double)ss_warmup_k(t->n, t->job.settings[0].density, 0, 0)};
    double peers = t->job.size - 1;

    for (int s = 0; s < steps; s++) {
        draw(t, 1);
        step(t, false);
        if (s < settle)
            continue;
        double reduce = words(t, SS_PHASE_REDUCE, peers);
        double balance = words(t, SS_PHASE_BALANCE, 0);
        double gather = words(t, SS_PHASE_GATHER, peers);
        v.reduce = fmax(v.reduce, reduce);
        v.balance = fmax(v.balance, balance);
        v.gather = fmax(v.gather, gather);
        v.mean += (reduce + balance + gather) / (steps - settle);
    }
    return v;
}

static struct volume volume_of(enum place place, int size, size_t n, struct ss_settings settings)
{
    static struct training t;

    settings.coding = SS_CODING_U32;
    training_open(&t, size, SS_F32, n, 0, settings);
    t.place = place;
    struct volume v = measure(&t, 24, 8);
    assert_int_equal(t.native, 0);
    training_close(&t);
    print_message("# %d ranks, pattern %d: exchange %.2f k, balancing %.2f k, allgather %.2f k, "
                  "all %.2f k (bound 6 k (P-1)/P = %.2f k)\n",
                  size, place, v.reduce / v.k, v.balance / v.k, v.gather / v.k, v.mean / v.k,
                  6.0 * (size - 1) / size);
    return v;
}

/* Equation 3: 2k (P-1)/P for the exchange, and 4k (P-1)/P for balancing and allgather. Where the
 * large gradients of a rank lie in another's region it has to send them all: 2k. */
static void the_volume_is_within_six_k(void **state)
{
    (void)state;
    for (int size = 2; size <= 16; size *= 2)
        for (int place = UNIFORM; place <= OPPOSITE; place++) {
            struct volume v = volume_of((enum place)place, size, 100000, settings_of(0.02));
            double share = (size - 1.0) / size;
            assert_true(v.mean <= 4 * v.k * share + 2 * v.k * (place == OPPOSITE ? 1 : share));
        }
}

/* k entries of each rank, evenly spread, at the same places on all. */
struct crowd {
    int size;
    size_t n, k;
    struct mailbox *boxes;
    struct ss_comm **comm;
    float *out; /* n of each rank, reduced in place */
};

static void crowd_call(const struct crowd *w)
{
    int left = w->size;
    bool *ended = calloc((size_t)w->size, sizeof *ended);

    for (int r = 0; r < w->size; r++) {
        float *out = w->out + (size_t)r * w->n;
        memset(out, 0, w->n * sizeof *out);
        for (size_t i = 0; i < w->k; i++)
            out[i * w->n / w->k] = 1 + (float)((i + (size_t)r) % 64) / 64;
        assert_int_equal(
            ss_call_start(ss_comm_call(w->comm[r]), w->comm[r], SS_F32, SS_SUM, NULL, out, w->n, 0),
            SS_PENDING);
    }
    for (int turn = 0; left > 0 && turn < 100000; turn++)
        for (int r = 0; r < w->size; r++) {
            if (ended[r])
                continue;
            int status = ss_call_step(ss_comm_call(w->comm[r]));
            if (status == SS_PENDING)
                continue;
            assert_int_equal(status, SS_OK);
            ended[r] = true;
            left--;
        }
    assert_int_equal(left, 0);
    for (int r = 1; r < w->size; r++)
        assert_memory_equal(w->out, w->out + (size_t)r * w->n, w->n * sizeof *w->out);
    free(ended);
}

/* Words of entries in exchange and allgather, most of any rank in each. */
static double crowd_words(const struct crowd *w)
{
    double most[2] = {0, 0}, headers = HEADER * (w->size - 1.0);

    for (int r = 0; r < w->size; r++) {
        const struct ss_call *c = ss_comm_call(w->comm[r]);
        for (int i = 0; i < 2; i++) {
            int phase = i == 0 ? SS_PHASE_REDUCE : SS_PHASE_GATHER;
            most[i] =
                fmax(most[i], fmax((double)c->phase_sent[phase], (double)c->phase_received[phase]) -
                                  headers);
        }
        assert_int_equal(c->phase_sent[SS_PHASE_BALANCE], 0);
    }
    return (most[0] + most[1]) / 4;
}

static double words_of_a_crowd(int size, size_t n, size_t k)
{
    struct crowd w = {.size = size, .n = n, .k = k, .boxes = mailboxes_open(size)};
    struct ss_settings settings = settings_of((double)k / (double)n);
    struct ss_mem mem = {0};
    struct ss_stats stats;
    struct ss_rules *rules;
    char error[200];

    assert_int_equal(ss_rules_parse("count=1:", true, &rules, error, sizeof error), SS_OK);
    settings.tensors.include = rules;
    settings.coding = SS_CODING_U32;
    ss_stats_init(&stats, 0);
    w.comm = calloc((size_t)size, sizeof *w.comm);
    w.out = calloc((size_t)size * n, sizeof *w.out);
    for (int r = 0; r < size; r++)
        w.comm[r] = ss_comm_create(&w.boxes[r].transport, &settings, &mem, &stats, "crowd");
    crowd_call(&w);
    crowd_call(&w);
    double words_sent = crowd_words(&w);
    for (int r = 0; r < size; r++)
        ss_comm_free(w.comm[r]);
    assert_int_equal(atomic_load(&mem.used), 0);
    free(w.comm);
    free(w.out);
    ss_stats_free(&stats);
    mailboxes_close(w.boxes);
    ss_rules_free(rules);
    return words_sent;
}

/* 4 k (P-1)/P in all where things are balanced, however many ranks there are. */
static void the_volume_is_flat_from_8_to_1024_ranks(void **state)
{
    static const int sizes[] = {8, 64, 512, 1024};
    enum { PLACES_OF_ALL = 16384, K = 4096 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        double all = words_of_a_crowd(sizes[i], PLACES_OF_ALL, K);
        double share = (sizes[i] - 1.0) / sizes[i];
        print_message("# %d ranks: %.3f k words, %.3f k (P-1)/P\n", sizes[i], all / K,
                      all / K / share);
        assert_true(all <= 4.6 * K * share);
        assert_true(all >= 3.9 * K * share);
    }
}

/* Packed indices: at this density an entry takes 1.26 words. Per entry that a rank claims and that
 * the global set holds, 1.3 words each, whatever of it is sent or received; agreements left out. */
static void a_steady_call_takes_2_6_words_per_entry(void **state)
{
    static struct training t;
    double sum = 0, entries = 0, agreed = 0, k = 2048;

    (void)state;
    struct ss_settings settings = settings_of(0.0078125);
    settings.tensors.threshold_period = 32;
    settings.repartition_period = 64;
    training_open(&t, 8, SS_F32, 262144, 0, settings);
    for (int s = 0; s < 16; s++) {
        draw(&t, 1);
        step(&t, false);
        entries += (double)call_of(&t, 0)->vote.ballot.nnz_max + (double)selected(&t);
        sum += words(&t, SS_PHASE_REDUCE, 0) + words(&t, SS_PHASE_GATHER, 0);
        agreed += words(&t, SS_PHASE_AGREE, 0) / 16;
    }
    print_message("# %.2f words per entry, %.0f in agreements\n", 2 * sum / entries, agreed);
    assert_true(2 * sum <= 2.6 * entries);
    assert_true(sum / 16 <= 2.6 * 4 * k / 3);
    training_close(&t);
}

/* Between two repartitions the gradients move elsewhere: that call costs more, and the next
 * partition makes it good. */
static void a_shift_costs_until_the_next_partition(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(0.01);
    double shifted = 0, settled = 0;

    (void)state;
    settings.coding = SS_CODING_U32;
    training_open(&t, 8, SS_F32, 40000, 0, settings);
    for (int s = 0; s < 40; s++) {
        t.place = s < 20 ? FRONT : OPPOSITE;
        draw(&t, 1);
        step(&t, false);
        double reduce = words(&t, SS_PHASE_REDUCE, 7);
        if (s >= 20 && s < 32) /* partitions: before calls 1, 17, 33 */
            shifted = fmax(shifted, reduce);
        if (s >= 34)
            settled = fmax(settled, reduce);
    }
    print_message("# exchange after a shift %.0f words, after the next partition %.0f\n", shifted,
                  settled);
    assert_true(settled < 0.6 * shifted);
    expect_conservation(&t);
    training_close(&t);
}

/* The paper's averaged boundaries: worse where the ranks' distributions differ. */
static void averaged_boundaries_fail_where_ranks_differ(void **state)
{
    struct ss_settings settings = settings_of(0.01);
    double reduce[3];

    (void)state;
    for (int how = SS_PARTITION_QUANTILE; how <= SS_PARTITION_EQUAL; how++) {
        settings.partition = (enum ss_partition)how;
        reduce[how] = volume_of(OPPOSITE, 8, 40000, settings).reduce;
    }
    assert_true(reduce[SS_PARTITION_AVERAGE] > 1.5 * reduce[SS_PARTITION_QUANTILE]);
    for (int how = SS_PARTITION_QUANTILE; how <= SS_PARTITION_EQUAL; how++) {
        settings.partition = (enum ss_partition)how;
        reduce[how] = volume_of(FRONT, 8, 40000, settings).reduce;
    }
    assert_true(reduce[SS_PARTITION_EQUAL] > 2 * reduce[SS_PARTITION_QUANTILE]);
}

/* ---- state and failures ---- */

/* What all ranks share has come to differ, in any part: the vote sees it, all begin anew. */
static void state_that_differs_is_made_anew_by_all(void **state)
{
    static struct training t;

    (void)state;
    for (int what = 0; what < 4; what++) {
        training_open(&t, 5, SS_F32, N, 0, settings_of(0.02));
        for (int s = 0; s < 6; s++) {
            draw(&t, 1);
            step(&t, false);
        }
        struct ss_agreed *a = &tensor_of(&t, 3)->agreed;
        uint32_t *bounds = a->bounds.data;
        if (what == 0)
            bounds[2]++;
        else if (what == 1)
            a->calls += 3;
        else if (what == 2)
            a->global.magnitude++;
        else
            ss_agreed_forget(a);
        for (int s = 0; s < 3; s++) {
            draw(&t, 1);
            step(&t, false);
            for (int r = 0; r < 5; r++) {
                const struct ss_agreed *other = &tensor_of(&t, r)->agreed;
                assert_int_equal(other->calls, s + 1);
                assert_int_equal(other->partition_call, 1);
                assert_int_equal(ss_agreed_hash(other, 5), ss_agreed_hash(a, 5));
            }
        }
        expect_conservation(&t);
        training_close(&t);
    }
}

/* Balanced, or with everything in one region, which is then balanced. */
static void open_for_fault(struct training *t, int size, bool uneven)
{
    struct ss_settings settings = settings_of(0.02);

    settings.timeout = 0.25;
    settings.partition = uneven ? SS_PARTITION_EQUAL : SS_PARTITION_QUANTILE;
    training_open(t, size, SS_F32, 1500, 0, settings);
    ss_sim_set_eager(t->job.sim, 0);
    ss_sim_set_idle(t->job.sim, 0.01);
    t->place = uneven ? FRONT : UNIFORM;
}

/* The next call, after `before` good ones; what it should leave in the residuals of failed ranks.
 */
static void faulty_step(struct training *t, float expected[][1500])
{
    draw(t, 1);
    for (int r = 0; r < t->job.size; r++) {
        const float *left = residual(t, r), *g = t->gradient[r];
        for (size_t i = 0; i < t->n; i++)
            expected[r][i] = g[i] + (left ? left[i] : 0);
        t->job.in[r] = g;
    }
    assert_true(job_call(&t->job, SS_F32, SS_SUM, t->n));
    for (int r = 0; r < t->job.size; r++)
        if (t->job.status[r] < 0)
            assert_memory_equal(residual(t, r), expected[r], t->n * sizeof(float));
}

static bool failed_somewhere(const struct training *t)
{
    for (int r = 0; r < t->job.size; r++)
        if (t->job.status[r] < 0)
            return true;
    return false;
}

static void expect_broken_everywhere(struct training *t)
{
    assert_true(job_call(&t->job, SS_F32, SS_SUM, t->n));
    for (int r = 0; r < t->job.size; r++)
        assert_true(t->job.status[r] < 0);
}

static uint64_t sends_of_call(int size, bool uneven, int before, int rank)
{
    static struct training t;
    uint64_t sends = 0;

    open_for_fault(&t, size, uneven);
    for (int s = 0; s <= before; s++) {
        sends = ss_sim_sends(t.job.sim, rank);
        draw(&t, 1);
        step(&t, false);
    }
    assert_int_equal(uneven && size > 4, call_of(&t, 0)->phase_sent[SS_PHASE_BALANCE] > 0);
    sends = ss_sim_sends(t.job.sim, rank) - sends;
    training_close(&t);
    return sends;
}

typedef void fault_of(struct ss_sim_fault *fault, uint64_t send);

static void for_each_send(fault_of *kind, void (*check)(struct training *t))
{
    static struct training t;
    static float expected[7][1500];

    for (int size = 2; size <= 7; size += 5)
        for (int before = 0; before < 3; before += 2)
            for (int rank = 0; rank < size; rank += 2) {
                bool uneven = rank != 2;
                uint64_t sends = sends_of_call(size, uneven, before, rank);
                for (uint64_t n = 1; n <= sends; n++) {
                    open_for_fault(&t, size, uneven);
                    for (int s = 0; s < before; s++) {
                        draw(&t, 1);
                        step(&t, false);
                    }
                    struct ss_sim_fault fault = {.rank = rank};
                    kind(&fault, ss_sim_sends(t.job.sim, rank) + n);
                    ss_sim_set_fault(t.job.sim, fault);
                    faulty_step(&t, expected);
                    check(&t);
                    training_close(&t);
                }
            }
}

static void refuse(struct ss_sim_fault *fault, uint64_t send)
{
    fault->fail_send = send;
}

static void lose(struct ss_sim_fault *fault, uint64_t send)
{
    fault->lose_send = send;
}

static void damage(struct ss_sim_fault *fault, uint64_t send)
{
    fault->corrupt_send = send;
    fault->corrupt_byte = send % 3 == 0 ? 40 : send % 3;
}

/* Without a timeout: the virtual clock must not have stood still. */
static void check_refused(struct training *t)
{
    for (int r = 0; r < t->job.size; r++)
        assert_int_not_equal(t->job.status[r], SS_ERR_TIMEOUT);
    if (failed_somewhere(t))
        expect_broken_everywhere(t);
}

static void a_refused_send_ends_on_all_ranks(void **state)
{
    (void)state;
    for_each_send(refuse, check_refused);
}

static void check_damaged(struct training *t)
{
    if (failed_somewhere(t))
        expect_broken_everywhere(t);
}

static void a_damaged_message_leaves_nobody_waiting(void **state)
{
    (void)state;
    for_each_send(damage, check_damaged);
}

/* The error names the phase, such as that of the agreement, and the rank that does not answer. */
static void check_lost(struct training *t)
{
    static const char *const phases[] = {"vote", "exchange", "agreement", "balancing", "allgather"};
    bool named = false;

    for (int r = 0; r < t->job.size; r++) {
        char text[300], rank[32];
        if (t->job.status[r] != SS_ERR_TIMEOUT)
            continue;
        ss_call_explain(ss_comm_call(t->job.comm[r]), text, sizeof text);
        snprintf(rank, sizeof rank, "rank %d: timeout in the ", r);
        for (size_t p = 0; p < sizeof phases / sizeof phases[0]; p++)
            named = named || (strncmp(text, rank, strlen(rank)) == 0 &&
                              strncmp(text + strlen(rank), phases[p], strlen(phases[p])) == 0);
    }
    assert_true(named);
    expect_broken_everywhere(t);
}

static void a_lost_message_ends_by_timeout(void **state)
{
    (void)state;
    for_each_send(lose, check_lost);
}

/* Out of memory once the vote is over: at the start, after the exchange, before balancing. */
static void a_rank_without_memory_fails_all(void **state)
{
    static struct training t;
    static float expected[7][1500];

    (void)state;
    for (int size = 2; size <= 7; size += 5)
        for (int poor = 0; poor < size; poor++)
            for (int what = 0; what < (size > 4 ? 5 : 4); what++) {
                open_for_fault(&t, size, true);
                for (int s = 0; s < 2; s++) {
                    draw(&t, 1);
                    step(&t, false);
                }
                struct ss_work *w = &t.job.comm[poor]->work;
                struct ss_buf *gone[] = {&w->arena, &w->marks, &w->idx[2], &w->idx[0], &w->idx[1]};
                ss_buf_free(gone[what]);
                t.job.starve_rank = poor;
                t.job.starve_after_vote = true;
                faulty_step(&t, expected);
                for (int r = 0; r < size; r++)
                    assert_int_equal(t.job.status[r], r == poor ? SS_ERR_MEMORY : SS_ERR_PEER);
                t.job.starve_after_vote = false;
                expect_broken_everywhere(&t);
                training_close(&t);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_gradient_is_lost),
        cmocka_unit_test(a_call_computes_what_the_thresholds_say),
        cmocka_unit_test(the_global_threshold_is_kept_and_found_anew),
        cmocka_unit_test(too_few_have_the_threshold_found_at_the_next_call),
        cmocka_unit_test(the_residual_drains),
        cmocka_unit_test(replicas_stay_identical_for_any_p),
        cmocka_unit_test(of_equal_entries_too_many_the_first_are_taken),
        cmocka_unit_test(few_entries_all_arrive),
        cmocka_unit_test(what_cancels_does_not_mask_the_rest),
        cmocka_unit_test(the_volume_is_within_six_k),
        cmocka_unit_test(a_steady_call_takes_2_6_words_per_entry),
        cmocka_unit_test(the_volume_is_flat_from_8_to_1024_ranks),
        cmocka_unit_test(a_shift_costs_until_the_next_partition),
        cmocka_unit_test(averaged_boundaries_fail_where_ranks_differ),
        cmocka_unit_test(state_that_differs_is_made_anew_by_all),
        cmocka_unit_test(a_refused_send_ends_on_all_ranks),
        cmocka_unit_test(a_damaged_message_leaves_nobody_waiting),
        cmocka_unit_test(a_lost_message_ends_by_timeout),
        cmocka_unit_test(a_rank_without_memory_fails_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
