/* Allgather, reduce_scatter and reduce: predictions that hold in the simulator, volume, modes, and
 * what is booked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/call/tensor_access.h"
#include "core/report/tensor_record.h"
#include "tests/unit/support/kind_job.h"

#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

static struct kind_case case_of(enum ss_kind kind, int size, size_t n, double density)
{
    return (struct kind_case){.kind = kind,
                              .in = {.size = size,
                                     .type = SS_F32,
                                     .op = SS_SUM,
                                     .n = n,
                                     .density = density,
                                     .place = UNIFORM,
                                     .values = ORDINARY,
                                     .seed = n + (uint64_t)size},
                              .division = n % (size_t)size == 0 ? EQUAL : EQUAL_LISTED};
}

static struct ss_settings settings_of(enum ss_algorithm algorithm, double alpha, double beta)
{
    return (struct ss_settings){.algorithm = algorithm, .alpha = alpha, .beta = beta, .hash = 1};
}

static void calls_open(struct kind_job *k, const struct kind_case *c,
                       const struct ss_settings *settings)
{
    memset(k, 0, sizeof *k);
    k->cannot = -1;
    job_open(&k->job, c->in.size, settings->alpha, settings->beta, 0, settings);
    kind_arrays_make(k, c);
}

static void calls_close(struct kind_job *k, const struct kind_case *c)
{
    kind_arrays_free(k, c->in.size);
    job_close(&k->job);
}

static int call(struct kind_job *k, const struct kind_case *c)
{
    assert_true(kind_call(k, c));
    for (int r = 0; r < c->in.size; r++)
        assert_int_equal(k->job.status[r], k->job.status[0]);
    assert_null(kind_complaint(k, c));
    return k->job.status[0];
}

/* The plan of a call without local costs, from its ballot. */
static struct ss_plan plan_of(const struct ss_call *c, double alpha, double beta, double vote,
                              double *memory)
{
    struct ss_shape shape = ss_ballot_shape(&c->f, &c->member);
    struct ss_history nothing = {.result_nnz = 0};
    struct ss_plan plan;

    shape.alpha = alpha;
    shape.beta = beta;
    shape.scan = shape.code = shape.merge = shape.fill = 0;
    shape.backend = (struct ss_backend_costs){0};
    shape.vote = vote;
    ss_plan_make(&shape, &nothing, &plan);
    *memory = ss_plan_memory(&shape, ss_kind_algorithm(c->f.c.kind));
    return plan;
}

static void expect_near(const char *what, double predicted, double seen, double tolerance,
                        const struct kind_case *c)
{
    if (predicted <= seen * (1 + tolerance) && predicted >= seen * (1 - tolerance))
        return;
    kind_print(c, what);
    print_message("# predicted %g, seen %g\n", predicted, seen);
    fail();
}

static void compare(const struct kind_case *c, double alpha, double beta)
{
    struct ss_settings settings = settings_of(SS_RING, alpha, beta);
    double seconds = 0, bytes = 0, vote = 0, memory;
    struct kind_job k;

    calls_open(&k, c, &settings);
    assert_int_equal(call(&k, c), SS_OK);
    for (int r = 0; r < c->in.size; r++) {
        const struct ss_call *done = ss_comm_call(k.job.comm[r]);
        double sent = (double)(ss_sim_bytes_sent(k.job.sim, r) - done->f.vote.bytes);
        assert_int_equal(done->f.c.x.bytes_sent, ss_sim_bytes_sent(k.job.sim, r));
        seconds = fmax(seconds, ss_sim_clock(k.job.sim, r));
        bytes = fmax(bytes, sent);
        vote = fmax(vote, done->f.c.x.spans.times.vote);
    }
    const struct ss_call *first = ss_comm_call(k.job.comm[0]);
    struct ss_plan plan = plan_of(first, alpha, beta, vote, &memory);
    enum ss_algorithm a = ss_kind_algorithm(c->kind);
    expect_near("bytes", plan.bytes[a], bytes, 0.2, c);
    expect_near("seconds", plan.seconds[a], seconds, 0.3, c);
    for (int r = 0; r < c->in.size; r++) {
        const struct ss_work *w = &k.job.comm[r]->works[0];
        assert_true((double)(k.job.mem[r].peak - w->inbox.size - w->scratch.size -
                             w->pieces.size) <= memory);
    }
    calls_close(&k, c);
}

static void predictions_are_those_of_the_simulator(void **state)
{
    static const int sizes[] = {2, 3, 4, 8};
    static const double densities[] = {1e-3, 0.01, 0.05, 0.2};
    static const struct {
        size_t n;
        double alpha, beta;
    } networks[] = {
        {1 << 18, 20e-6, 8e-8}, {1 << 16, 100e-6, 1e-8}, {1 << 17, 1e-6, 8e-8}, {4096, 2e-5, 8e-9}};

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (size_t w = 0; w < LENGTH(networks); w++)
            for (size_t p = 0; p < LENGTH(sizes); p++)
                for (size_t d = 0; d < LENGTH(densities); d++) {
                    struct kind_case c =
                        case_of((enum ss_kind)kind, sizes[p], networks[w].n, densities[d]);
                    compare(&c, networks[w].alpha, networks[w].beta);
                }
}

/* 100 coordinates of each of 8 ranks out of the dimension of the URL data set (SparCML section
 * 8.2). */
static void a_sparse_allgather_sends_a_hundredth_of_the_dense_one_at_most(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO, 20e-6, 8e-8);
    struct kind_case c = case_of(SS_KIND_ALLGATHER, 8, 3231961, 0);
    struct kind_job k;

    (void)state;
    calls_open(&k, &c, &settings);
    for (int r = 0; r < 8; r++)
        for (uint64_t i = 0; i < 100; i++) {
            uint64_t at = mix(i + (uint64_t)r * 100) % part_size(&k, r);
            float value = (float)(i + 1);
            memcpy(k.input[r].data + at * 4, &value, 4);
            memcpy(k.sent[r].data + (k.parts[r] + at) * 4, &value, 4);
        }
    for (int i = 0; i < 3; i++)
        assert_int_equal(call(&k, &c), SS_OK);
    for (int r = 0; r < 8; r++) {
        const struct ss_lane_record *record = k.job.stats[r].lanes;
        assert_int_equal(record->bytes_dense, 3 * 7 * (3231961ull * 4 / 8));
        assert_int_equal(record->bytes_sent, ss_sim_bytes_sent(k.job.sim, r));
        assert_true(record->bytes_sent * 100 <= record->bytes_dense);
    }
    calls_close(&k, &c);
}

static void auto_takes_the_sparse_way_where_it_pays(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO, 20e-6, 8e-8);
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (int size = 2; size <= 8; size++) {
            struct kind_case sparse = case_of((enum ss_kind)kind, size, 5040 * 8, 1e-3);
            struct kind_case dense = case_of((enum ss_kind)kind, size, 5040 * 8, 0.9);
            calls_open(&k, &sparse, &settings);
            assert_int_equal(call(&k, &sparse), SS_OK);
            calls_close(&k, &sparse);
            calls_open(&k, &dense, &settings);
            assert_int_equal(call(&k, &dense), SS_NATIVE);
            assert_int_equal(ss_call_reason(ss_comm_call(k.job.comm[0])), SS_WHY_DENSE);
            assert_int_equal(call(&k, &dense), SS_NATIVE);
            assert_int_equal(ss_call_reason(ss_comm_call(k.job.comm[0])), SS_WHY_BACKED_OFF);
            calls_close(&k, &dense);
        }
}

/* A small slice may be dense without making the call dense. */
static void a_dense_small_slice_does_not_make_an_allgather_dense(void **state)
{
    struct ss_settings settings = settings_of(SS_AUTO, 20e-6, 8e-8);
    struct kind_case c = case_of(SS_KIND_ALLGATHER, 4, 100000, 1e-3);
    static const uint32_t parts[] = {0, 100, 50000, 50000, 100000};
    struct kind_job k;

    (void)state;
    c.division = UNEVEN;
    calls_open(&k, &c, &settings);
    kind_arrays_free(&k, 4);
    memcpy(k.parts, parts, sizeof parts);
    for (int r = 0; r < 4; r++) {
        k.sent[r] = array_make(c.in.n, 4);
        input_fill(&c.in, r, k.sent[r].data);
        if (r == 0)
            memset(k.sent[r].data, 0x3f, 400);
        k.input[r] = array_make((size_t)part_size(&k, r), 4);
        memcpy(k.input[r].data, k.sent[r].data + parts[r] * 4, k.input[r].bytes);
        k.out[r] = array_make(c.in.n, 4);
    }
    assert_int_equal(call(&k, &c), SS_OK);
    calls_close(&k, &c);
}

static void settings_that_name_an_algorithm_or_change_nothing_hold(void **state)
{
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++)
        for (int a = SS_RECURSIVE_DOUBLING; a < SS_ALGORITHMS; a++)
            for (int observe = 0; observe < 2; observe++) {
                struct ss_settings settings = settings_of((enum ss_algorithm)a, 20e-6, 8e-8);
                bool free_choice = (SS_GLOBAL_ALGORITHMS | SS_WHOLE_ALGORITHMS) >> a &
                                   1; /* not theirs: the plan's */
                struct kind_case c = case_of((enum ss_kind)kind, 4, 50000, 0.9);
                settings.observe = observe;
                calls_open(&k, &c, &settings);
                int status = call(&k, &c);
                enum ss_reason reason = ss_call_reason(ss_comm_call(k.job.comm[0]));
                if (observe)
                    assert_true(status == SS_NATIVE && reason == SS_WHY_OBSERVE);
                else if (a == SS_DENSE || free_choice)
                    assert_true(status == SS_NATIVE && reason == SS_WHY_DENSE);
                else
                    assert_int_equal(status, SS_OK);
                calls_close(&k, &c);
            }
}

static void what_a_call_did_is_booked_under_its_kind(void **state)
{
    struct ss_settings settings = settings_of(SS_RING, 20e-6, 8e-8);
    const uint64_t n = 4000, part = n * 4 / 4;
    struct kind_job k;

    (void)state;
    for (int kind = SS_KIND_ALLGATHER; kind < SS_KINDS; kind++) {
        struct kind_case c = case_of((enum ss_kind)kind, 4, n, 0.1);
        calls_open(&k, &c, &settings);
        for (int i = 0; i < 4; i++) {
            c.root = 0;
            assert_int_equal(call(&k, &c), SS_OK);
        }
        for (int r = 0; r < 4; r++) {
            const struct ss_lane_record *record = k.job.stats[r].lanes;
            uint64_t dense = kind == SS_KIND_REDUCE && r > 0 ? 4 * part : 3 * part;
            bool sees_all = kind == SS_KIND_ALLGATHER || (kind == SS_KIND_REDUCE && r == 0);
            assert_int_equal(k.job.stats[r].lane_count, 1);
            assert_int_equal(record->kind, kind);
            assert_int_equal(record->count, n);
            assert_int_equal(record->type, SS_F32);
            assert_int_equal(record->calls, 4);
            assert_int_equal(record->sparse[ss_kind_algorithm((enum ss_kind)kind)], 4);
            assert_int_equal(record->bytes_dense, 4 * dense);
            assert_int_equal(record->fillin_calls, sees_all ? 4 : 0);
            assert_true(fabs(record->density_sum / 4 - 0.1) < 0.03);
            assert_true(fabs(record->density_max - 0.1) < 0.03);
            if (sees_all)
                assert_true(record->fillin_sum / 4 > (kind == SS_KIND_REDUCE ? 0.3 : 0.07));
        }
        calls_close(&k, &c);
    }
}

/* Other ranks are done with a reduce when their part has left: what all believe of its duration is
 * the root's. */
static void a_reduce_takes_as_long_as_its_root(void **state)
{
    struct ss_settings settings = settings_of(SS_RING, 20e-6, 8e-8);
    struct kind_case c = case_of(SS_KIND_REDUCE, 8, 40000, 0.2);
    double seconds[8], least = INFINITY;
    struct kind_job k;

    (void)state;
    c.root = 3;
    calls_open(&k, &c, &settings);
    assert_int_equal(call(&k, &c), SS_OK);
    for (int r = 0; r < 8; r++) {
        seconds[r] = ss_comm_call(k.job.comm[r])->f.lane->history.last_seconds;
        least = fmin(least, seconds[r]);
    }
    assert_true(least < seconds[3]);
    assert_int_equal(call(&k, &c), SS_OK);
    assert_true(ss_bits_double(ss_comm_call(k.job.comm[0])->f.vote.ballot.last_min) == seconds[3]);
    calls_close(&k, &c);
}

/* Reduces to different roots are lanes of their own, and one line of the report. */
static void a_root_that_changes_is_no_error(void **state)
{
    struct ss_settings settings = settings_of(SS_RING, 20e-6, 8e-8);
    struct kind_case c = case_of(SS_KIND_REDUCE, 5, 1000, 0.1);

    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        struct kind_job k;
        calls_open(&k, &c, &settings);
        kind_arrays_free(&k, 5);
        c.in_place = in_place;
        for (c.root = 0; c.root < 5; c.root++) {
            kind_arrays_make(&k, &c);
            assert_int_equal(call(&k, &c), SS_OK);
            kind_arrays_free(&k, 5);
        }
        c.root = 0;
        kind_arrays_make(&k, &c);
        assert_int_equal(k.job.stats[0].lane_count, 1);
        assert_int_equal(k.job.stats[0].lanes->calls, 5);
        calls_close(&k, &c);
    }
}

static void top_k_step(struct kind_job *k, struct array *sent, struct array *out, size_t n)
{
    for (int r = 0; r < k->job.size; r++) {
        k->job.in[r] = sent[r].data;
        k->job.out[r] = out[r].data;
    }
    assert_true(job_call(&k->job, SS_F32, SS_SUM, n));
    assert_int_equal(k->job.status[0], SS_OK);
}

/* MODE=topk: other kinds between allreduces of the same count stay exact, and the allreduces do not
 * notice them. */
static void other_kinds_stay_exact_beside_top_k(void **state)
{
    enum { P = 4, CALLS = 40 };
    struct ss_settings settings = settings_of(SS_AUTO, 20e-6, 8e-8);
    struct kind_case c = case_of(SS_KIND_ALLGATHER, P, 4096, 0.05);
    struct kind_job alone, mixed;
    struct array sent[P], out[2][P];
    struct ss_rules *rules;
    char error[200];

    (void)state;
    assert_int_equal(ss_rules_parse("count=4096:calls=1", true, &rules, error, sizeof error),
                     SS_OK);
    settings.topk = true;
    settings.density = 0.01;
    settings.tensors = (struct ss_tensor_settings){.include = rules, .threshold_period = 8};
    calls_open(&alone, &c, &settings);
    calls_open(&mixed, &c, &settings);
    for (int r = 0; r < P; r++) {
        sent[r] = array_make(c.in.n, 4);
        input_fill(&c.in, r, sent[r].data);
        out[0][r] = array_make(c.in.n, 4);
        out[1][r] = array_make(c.in.n, 4);
    }
    for (int i = 0; i < CALLS; i++) {
        top_k_step(&alone, sent, out[0], c.in.n);
        top_k_step(&mixed, sent, out[1], c.in.n);
        for (int r = 0; r < P; r++)
            assert_memory_equal(out[0][r].data, out[1][r].data, c.in.n * 4);
        kind_arrays_free(&mixed, P);
        c.kind = (enum ss_kind)(SS_KIND_ALLGATHER + i % 3);
        kind_arrays_make(&mixed, &c);
        assert_int_equal(call(&mixed, &c), SS_OK);
    }
    for (int r = 0; r < P; r++) {
        assert_int_equal(ss_comm_tensors(mixed.job.comm[r], NULL),
                         ss_comm_tensors(alone.job.comm[r], NULL));
        ss_comm_book_tensors(mixed.job.comm[r], true);
        assert_true(mixed.job.stats[r].tensors->topk_calls > CALLS / 2);
        free(sent[r].base);
        free(out[0][r].base);
        free(out[1][r].base);
    }
    calls_close(&mixed, &c);
    calls_close(&alone, &c);
    ss_rules_free(rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_are_those_of_the_simulator),
        cmocka_unit_test(a_sparse_allgather_sends_a_hundredth_of_the_dense_one_at_most),
        cmocka_unit_test(auto_takes_the_sparse_way_where_it_pays),
        cmocka_unit_test(a_dense_small_slice_does_not_make_an_allgather_dense),
        cmocka_unit_test(settings_that_name_an_algorithm_or_change_nothing_hold),
        cmocka_unit_test(what_a_call_did_is_booked_under_its_kind),
        cmocka_unit_test(a_reduce_takes_as_long_as_its_root),
        cmocka_unit_test(a_root_that_changes_is_no_error),
        cmocka_unit_test(other_kinds_stay_exact_beside_top_k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
