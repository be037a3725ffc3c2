/* Nothing but the functions of a backend touches the elements of inputs, results and residuals:
 * every collective and mode with buffers whose addresses lead to pages without access, bit for bit
 * as with ordinary ones. */
#include <float.h>
#include <math.h>

#include "core/call/tensor_access.h"
#include "core/coll/algorithms.h"
#include "tests/unit/support/backend_training.h"
#include "tests/unit/support/far_backend.h"
#include "tests/unit/support/kind_job.h"

enum { STEPS = 40 };

static void *far_make_of(int rank, size_t bytes)
{
    (void)rank;
    return far_make(bytes);
}

static const struct backend_kind far_kind = {far_backend_of, far_make_of, far_forget_all, FAR};

static void far_job(struct sim_job *job)
{
    backend_ranks(job, &far_kind, 0);
}

/* ---- trainings ---- */

static void open_training(struct training *t, const struct form *f, int size, bool far)
{
    open_form(t, f, size);
    if (far)
        backend_training(t, &far_kind, 0);
}

static void close_training(struct training *t)
{
    if (t->job.far > 0)
        close_backends(t, &far_kind, 0);
    else
        training_close(t);
}

static bool close_to(double a, double b)
{
    return a == b || fabs(a - b) <= 0x1p-30 * fabs(b);
}

/* Asserts equal votes on the inputs and equal results of GUARD. A backend adds the squares of
 * claims that stay in it in its own order, so that these are equal up to rounding. */
static void assert_same_sight(const struct training *near, const struct training *far)
{
    const struct ss_ballot *a = &ss_comm_call(near->job.comm[0])->f.vote.ballot,
                           *b = &ss_comm_call(far->job.comm[0])->f.vote.ballot;
    const struct ss_tensor *t = ss_tensors_first(near->job.comm[0]->tensors),
                           *u = ss_tensors_first(far->job.comm[0]->tensors);

    assert_true(close_to(ss_bits_double(a->ratio_max), ss_bits_double(b->ratio_max)));
    assert_true(!t == !u);
    if (!t)
        return;
    assert_int_equal(t->guarding.checks, u->guarding.checks);
    assert_true(t->guarding.far == u->guarding.far && t->guarding.cosine == u->guarding.cosine);
    assert_true(close_to(t->guarding.ratio, u->guarding.ratio));
}

/* Returns true if claims stay in the backend of the buffers and are encoded there. */
static bool is_encoded_there(const struct form *f)
{
    const struct ss_algorithm_def *def = ss_algorithms(SS_KIND_ALLREDUCE)[f->algorithm];

    return def && def->in_backend && f->values != SS_VALUES_Q4;
}

static void trainings_are_the_same_bit_for_bit(void **state)
{
    static struct training near, far;

    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++)
        for (int size = 2; size <= 5; size++) {
            far_memory.calls = far_memory.encoded = 0;
            open_training(&near, &forms[f], size, false);
            open_training(&far, &forms[f], size, true);
            for (uint64_t s = 0; s < STEPS; s++) {
                step_alike(&near, &far, s);
                assert_true(far_all_written());
                assert_same_sight(&near, &far);
            }
            expect_same_residuals(&near, &far);
            assert_true(far_memory.calls > 0);
            if (forms[f].algorithm != SS_AUTO)
                assert_true((far_memory.encoded > 0) == is_encoded_there(&forms[f]));
            close_training(&near);
            close_training(&far);
        }
}

static void a_residual_is_scaled_where_the_buffers_lie(void **state)
{
    static struct training near, far;

    (void)state;
    for (size_t f = 0; f < sizeof scaled_forms / sizeof scaled_forms[0]; f++)
        for (int size = 2; size <= 3; size++) {
            open_training(&near, &scaled_forms[f], size, false);
            open_training(&far, &scaled_forms[f], size, true);
            for (uint64_t s = 0; s < STEPS / 2; s++)
                scaled_step_alike(&near, &far, s);
            expect_same_residuals(&near, &far);
            close_training(&near);
            close_training(&far);
        }
}

static void vectors_of_any_length_are_the_same_bit_for_bit(void **state)
{
    enum { FORMS = sizeof sized_forms / sizeof sized_forms[0], LONG_STEPS = 8 };
    static struct training near, far;

    (void)state;
    for (size_t c = 0; c < 2 * FORMS * sizeof sizes_of_vectors / sizeof sizes_of_vectors[0]; c++)
        for (int size = 2; size <= 5; size++) {
            const struct form *f = &sized_forms[c / 2 % FORMS];
            const size_t n = sizes_of_vectors[c / 2 / FORMS];
            open_form_of(&near, f, size, c % 2 ? SS_F64 : SS_F32, n);
            open_form_of(&far, f, size, c % 2 ? SS_F64 : SS_F32, n);
            backend_training(&far, &far_kind, 0);
            for (uint64_t s = 0; s < LONG_STEPS; s++)
                sized_step_alike(&near, &far, s);
            expect_same_residuals_of(&near, &far);
            close_training(&near);
            close_training(&far);
        }
}

/* Of what is claimed, or of what is reduced of it. */
static void what_finds_no_room_to_stay_comes_to_the_host(void **state)
{
    static struct training near, far;
    unsigned stayed = 0, came = 0;

    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++)
        for (size_t from = 0; is_encoded_there(&forms[f]) && from < 4000;
             from += 1 + from / 3 + 99) {
            far_memory.encoded = 0;
            open_training(&near, &forms[f], 3, false);
            open_training(&far, &forms[f], 3, true);
            for (int r = 0; r < 3; r++) {
                far_backends[r].lacks_from = from;
                far_backends[r].lacks_to = (size_t)N * 4; /* the residual has room */
            }
            for (uint64_t s = 0; s < STEPS / 2; s++)
                step_alike(&near, &far, s);
            expect_same_residuals(&near, &far);
            stayed += far_memory.encoded > 0;
            came += far_memory.encoded == 0;
            close_training(&near);
            close_training(&far);
        }
    assert_true(stayed > 5 && came > 5);
}

/* ---- exact calls of every kind ---- */

static void into_far(struct array *a)
{
    struct array moved = *a;

    moved.base = far_make(a->bytes + 2 * a->guard);
    moved.data = moved.base + a->guard;
    memcpy(moved.base, a->base, a->bytes + 2 * a->guard);
    free(a->base);
    *a = moved;
}

static void every_kind_is_right(void **state)
{
    static struct kind_job k;
    static const enum ss_kind kinds[] = {SS_KIND_ALLGATHER, SS_KIND_REDUCE_SCATTER, SS_KIND_REDUCE};
    struct ss_settings settings = {
        .algorithm = SS_SPLIT_ALLGATHER, .alpha = 1e-6, .beta = 1e-9, .hash = 1};

    (void)state;
    for (int c = 0; c < 60; c++) {
        struct kind_case kind = {
            .kind = kinds[c % 3],
            .in = {.size = 2 + c % 5,
                   .type = (enum ss_type)(c / 3 % 4),
                   .op = SS_SUM,
                   .n = 2003,
                   .density = 0.05,
                   .place = UNIFORM,
                   .seed = (uint64_t)c},
            .division = kinds[c % 3] == SS_KIND_REDUCE ? EQUAL_LISTED : UNEVEN,
            .in_place = c / 12 % 2,
            .root = c % 2,
        };
        memset(&k, 0, sizeof k);
        k.cannot = -1;
        job_open(&k.job, kind.in.size, 1e-6, 1e-9, 0, &settings);
        far_job(&k.job);
        kind_arrays_make(&k, &kind);
        for (int r = 0; r < kind.in.size; r++) {
            into_far(&k.input[r]);
            into_far(&k.out[r]);
        }
        assert_true(kind_call(&k, &kind));
        assert_true(far_all_written());
        assert_null(kind_complaint(&k, &kind));
        assert_int_equal(k.job.status[0], SS_OK);
        for (int r = 0; r < kind.in.size; r++) {
            free(k.sent[r].base);
        }
        job_close(&k.job);
        far_forget_all();
    }
}

static void exact_allreduces_are_right(void **state)
{
    static struct sim_job job;
    static float sums[N];

    (void)state;
    for (int a = SS_AUTO; a < SS_TWO_LEVEL; a++)
        for (int size = 2; size <= 5; size++)
            for (int dense = 0; dense < 2; dense++) {
                struct ss_settings settings = {.algorithm = (enum ss_algorithm)a,
                                               .alpha = 1e-6,
                                               .beta = 1e-8,
                                               .hash = 1,
                                               .observe = a == SS_AUTO};
                float *in[5], *out[5];
                memset(sums, 0, sizeof sums);
                job_open(&job, size, 1e-6, 1e-8, 0, &settings);
                far_job(&job);
                for (int r = 0; r < size; r++) {
                    in[r] = far_make((size_t)N * 4);
                    out[r] = far_make((size_t)N * 4);
                    for (size_t i = (size_t)r; i < N; i += dense ? 2 : 40)
                        sums[i] += in[r][i] = (float)(i % 97 + 1);
                    job.in[r] = in[r];
                    job.out[r] = out[r];
                }
                assert_true(job_call(&job, SS_F32, SS_SUM, N));
                assert_true(far_all_written());
                for (int r = 0; r < size && job.status[0] == SS_OK; r++)
                    assert_memory_equal(out[r], sums, sizeof sums);
                assert_int_equal(job.status[0] == SS_NATIVE, a == SS_AUTO);
                job_close(&job);
                far_forget_all();
            }
}

/* Each clearing is a launch on a device: a result has a few of them however long it is, and all of
 * it is written once. */
static void a_long_result_is_cleared_in_few_pieces(void **state)
{
    enum { SIZE = 3, LONG = 5000017, CLEARED_MOST = 18 }; /* 16 pieces, and what a part cuts off */
    static const enum ss_algorithm algorithms[] = {SS_SPLIT_ALLGATHER, SS_RECURSIVE_DOUBLING,
                                                   SS_RING, SS_ALLGATHER};
    static struct sim_job job;
    static float sums[LONG], rubbish[LONG];

    (void)state;
    memset(rubbish, 0x5a, sizeof rubbish);
    for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++)
        for (int in_place = 0; in_place < 2; in_place++) {
            struct ss_settings settings = {
                .algorithm = algorithms[a], .alpha = 1e-6, .beta = 1e-8, .hash = 1};
            memset(sums, 0, sizeof sums);
            job_open(&job, SIZE, 1e-6, 1e-8, 0, &settings);
            far_job(&job);
            for (int r = 0; r < SIZE; r++) {
                float *in = far_make(sizeof sums), *out = in_place ? in : far_make(sizeof sums);
                if (!in_place)
                    memcpy(out, rubbish, sizeof rubbish);
                for (size_t i = (size_t)r; i < LONG; i += 5003)
                    sums[i] += in[i] = (float)(i % 97 + 1);
                job.in[r] = in;
                job.out[r] = out;
            }
            far_memory.cleared = 0;
            assert_true(job_call(&job, SS_F32, SS_SUM, LONG));
            assert_true(far_all_written());
            for (int r = 0; r < SIZE; r++) {
                assert_int_equal(job.status[r], SS_OK);
                assert_memory_equal(job.out[r], sums, sizeof sums);
            }
            assert_true(far_memory.cleared <= (uint64_t)SIZE * CLEARED_MOST);
            job_close(&job);
            far_forget_all();
        }
}

/* A lane whose inputs are dense is asked by a sample. */
static void a_dense_lane_is_sampled(void **state)
{
    enum { LARGE = 1 << 18 };
    static struct sim_job job;
    struct ss_settings settings = {.algorithm = SS_AUTO, .alpha = 1e-6, .beta = 1e-8, .hash = 1};

    (void)state;
    job_open(&job, 2, 1e-6, 1e-8, 0, &settings);
    far_job(&job);
    for (int r = 0; r < 2; r++) {
        float *in = far_make((size_t)LARGE * 4);
        for (size_t i = 0; i < LARGE; i++)
            in[i] = 1;
        job.in[r] = in;
        job.out[r] = far_make((size_t)LARGE * 4);
    }
    int sampled = 0;
    for (int c = 0; c < 40; c++) {
        const struct ss_call *call = ss_comm_call(job.comm[1]);
        assert_true(job_call(&job, SS_F32, SS_SUM, LARGE));
        assert_int_equal(job.status[0], SS_NATIVE);
        sampled += call->look.sampled;
        assert_true(!call->look.sampled || call->f.c.scan.nnz == LARGE);
    }
    assert_true(sampled > 0);
    job_close(&job);
    far_forget_all();
}

/* Buffers that move from backend to backend, on one rank at other times than on others. */
static void a_residual_follows_its_buffers(void **state)
{
    enum { SIZE = 3 };
    static struct training near, moving;

    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        open_training(&near, &forms[f], SIZE, false);
        open_training(&moving, &forms[f], SIZE, true);
        for (uint64_t s = 0; s < STEPS; s++) {
            for (int r = 0; r < SIZE; r++)
                moving.job.backend[r] = (s + (uint64_t)r) / 5 % 2 ? NULL : &far_backends[r].backend;
            draw(&near, s);
            draw(&moving, s);
            training_call(&near, s & 1);
            training_call(&moving, s & 1);
            assert_int_equal(near.job.status[0], moving.job.status[0]);
            for (int r = 0; near.job.status[0] == SS_OK && r < SIZE; r++)
                assert_memory_equal(near.job.out[r], moving.job.out[r], (size_t)N * 4);
        }
        close_training(&near);
        close_training(&moving);
    }
}

/* A backend that fails before the vote sends all ranks to the MPI library; after it all hear of it,
 * in the next call where it fails last; nobody waits for ever. */
static void a_backend_that_fails_is_an_error_for_all(void **state)
{
    enum { SIZE = 3, CALLS = 6, MOST = 400 };
    static const enum ss_algorithm algorithms[] = {SS_EXACT_LIST(SS_CHOICE_ID) SS_OKTOPK};
    int native = 0, failed = 0, late = 0;

    (void)state;
    for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++)
        for (uint64_t at = 1; at < MOST; at += 1 + at / 16) {
            static struct training t;
            struct form form = {.algorithm = algorithms[a], .density = 0.3};
            open_training(&t, &form, SIZE, true);
            far_backends[1].fails_at = at;
            for (uint64_t c = 0; c < CALLS; c++) {
                draw(&t, c);
                for (int r = 0; r < SIZE; r++)
                    t.job.in[r] = t.gradient[r];
                assert_true(job_call(&t.job, SS_F32, SS_SUM, N));
                bool error = t.job.status[1] < 0;
                if (error && (t.job.status[0] == SS_OK || t.job.status[2] == SS_OK)) {
                    late++;
                    assert_true(job_call(&t.job, SS_F32, SS_SUM, N));
                }
                for (int r = 0; r < SIZE; r++)
                    assert_int_equal(t.job.status[r] < 0, error);
                if (t.job.status[1] == SS_OK) { /* nothing of it was waited for any more */
                    assert_true(far_backends[1].works < at + 8);
                    continue;
                }
                if (far_backends[1].works < at) {
                    assert_false(error);
                    continue;
                }
                assert_true(!error || t.job.status[1] == SS_ERR_DEVICE);
                native += !error;
                failed += error;
                break;
            }
            close_training(&t);
        }
    assert_true(native == 0 && failed > late && late > 0);
}

/* What was claimed and taken back: the rounding of a sum and a difference is left. */
static void same_residual(const struct training *t, int r, const float *before)
{
    const float *now = training_residual(t, r), *g = t->gradient[r];

    for (size_t i = 0; i < N; i++)
        assert_true(fabsf(now[i] - before[i]) <=
                    2 * FLT_EPSILON * (fabsf(before[i]) + fabsf(g[i])));
}

/* A backend short of memory says so before the vote: all ranks go native, and no residual changes.
 */
static void a_backend_short_of_memory_is_native_for_all(void **state)
{
    enum { SIZE = 3, CALLS = 8, SHORT = 4 };
    static float before[SIZE][N];

    (void)state;
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++)
        for (uint64_t late = 0; forms[f].algorithm != SS_AUTO && late < 3; late++) {
            static struct training t;
            int native = 0;

            open_training(&t, &forms[f], SIZE, true);
            for (uint64_t c = 0; c < CALLS; c++) {
                if (c == SHORT) {
                    far_backends[1].lacks_at = far_backends[1].reserved + 1 + late;
                    for (int r = 0; r < SIZE; r++)
                        memcpy(before[r], training_residual(&t, r), sizeof before[r]);
                }
                draw(&t, c);
                for (int r = 0; r < SIZE; r++)
                    t.job.in[r] = t.gradient[r];
                assert_true(job_call(&t.job, SS_F32, SS_SUM, N));
                for (int r = 0; r < SIZE; r++)
                    assert_int_equal(t.job.status[r], t.job.status[0]);
                if (c == SHORT && t.job.status[0] == SS_NATIVE) {
                    native++;
                    for (int r = 0; r < SIZE; r++)
                        same_residual(&t, r, before[r]);
                }
                assert_true(t.job.status[0] == SS_NATIVE || c != SHORT || late > 0);
                far_backends[1].lacks_at = 0;
            }
            assert_true(native == 1 || late > 0);
            close_training(&t);
        }
}

/* What lies in a backend that has failed is lost: it is said once, by that rank, with its norm;
 * then the tensor begins anew where its buffers are. */
static void a_residual_lost_with_its_backend_is_told(void **state)
{
    enum { SIZE = 3, LOST = 1, CALLS = 8 };

    (void)state;
    for (int far = 0; far < 2; far++) {
        static struct training t;
        struct form form = {.algorithm = SS_SPLIT_ALLGATHER, .density = 0.1};
        struct ss_backend *other = far ? &far_backends[SIZE].backend : NULL;
        double norm = 0;
        int told = 0;

        open_training(&t, &form, SIZE, true);
        if (far)
            (void)far_backend_of(SIZE);
        for (uint64_t c = 0; c < CALLS; c++) {
            char text[800] = "", wanted[64];
            bool own = false;

            if (c == 5) {
                norm = sqrt(ss_vector_square(SS_F32, training_residual(&t, LOST), N));
                far_backends[LOST].fails_at = 1;
                t.job.backend[LOST] = other;
            }
            draw(&t, c);
            training_call(&t, false);
            assert_int_equal(t.job.status[0], SS_OK);
            if (!ss_comm_warning(t.job.comm[LOST], text, sizeof text, &own))
                continue;
            (void)snprintf(wanted, sizeof wanted, "of norm %.3g, is lost", norm);
            assert_non_null(strstr(text, wanted));
            assert_true(own && c == 5);
            told++;
        }
        assert_true(told == 1 && norm > 0);
        assert_non_null(training_residual(&t, LOST));
        close_training(&t);
    }
}

/* No call follows: it is told at the end, once. */
static void a_residual_lost_after_the_last_call_is_told_at_the_end(void **state)
{
    enum { SIZE = 2, LOST = 1, CALLS = 6 };
    static struct training t;
    struct form form = {.algorithm = SS_SPLIT_ALLGATHER, .density = 0.1};
    char text[800] = "", wanted[64];

    (void)state;
    open_training(&t, &form, SIZE, true);
    for (uint64_t c = 0; c < CALLS; c++) {
        draw(&t, c);
        training_call(&t, false);
        assert_int_equal(t.job.status[0], SS_OK);
    }
    assert_int_equal(ss_comm_lost(t.job.comm[LOST], text, sizeof text), 0);
    const double norm = sqrt(ss_vector_square(SS_F32, training_residual(&t, LOST), N));
    far_backends[LOST].fails_at = 1;
    assert_int_equal(ss_comm_lost(t.job.comm[0], text, sizeof text), 0);
    assert_int_equal(ss_comm_lost(t.job.comm[LOST], text, sizeof text), 1);
    (void)snprintf(wanted, sizeof wanted, "of norm %.3g, is lost", norm);
    assert_non_null(strstr(text, wanted));
    assert_int_equal(ss_comm_lost(t.job.comm[LOST], text, sizeof text), 0);
    close_training(&t);
}

/* A backend that is so late that TIMEOUT passes: what it claimed in the meantime comes back. */
static void claims_of_a_call_that_is_given_up_come_back(void **state)
{
    enum { SIZE = 2, SLOW = 1 };
    static struct training t;
    static float sum[N];
    struct form form = {.algorithm = SS_SPLIT_ALLGATHER, .density = 0.1};

    (void)state;
    open_training(&t, &form, SIZE, true);
    for (int r = 0; r < SIZE; r++)
        t.job.settings[r].timeout = 1e-4;
    for (uint64_t s = 0; s < 5; s++) {
        draw(&t, s);
        training_call(&t, false);
        assert_int_equal(t.job.status[0], SS_OK);
    }
    draw(&t, 5);
    for (size_t i = 0; i < N; i++)
        sum[i] = ((float *)t.gradient[SLOW])[i] + ((const float *)training_residual(&t, SLOW))[i];
    far_backends[SLOW].stalls = 100000;
    for (int r = 0; r < SIZE; r++)
        t.job.in[r] = t.gradient[r];
    assert_true(job_call(&t.job, SS_F32, SS_SUM, N));
    assert_int_equal(t.job.status[SLOW], SS_ERR_TIMEOUT);
    assert_true(t.job.status[0] < 0);
    assert_memory_equal(training_residual(&t, SLOW), sum, sizeof sum);
    close_training(&t);
}

/* One residual per host is for buffers of the host alone. If some ranks have others, the tensor is
 * exact on all ranks. */
static void ranks_whose_buffers_lie_elsewhere_have_no_residual_per_host(void **state)
{
    enum { SIZE = 4, ALL = 15 };
    static const unsigned hosts[] = {0, 1, 13, ALL};
    static struct training t;

    (void)state;
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        struct ss_settings settings = training_settings(SS_AUTO);

        settings.aggregation = SS_AGGREGATION_ON;
        settings.beta = 1e-6; /* sparse is faster */
        training_open(&t, SIZE, SS_F32, N, 0, settings);
        job_set_hosts(&t.job, "1122", 64);
        backend_training(&t, &far_kind, hosts[i]);
        for (uint64_t s = 0; s < 4; s++) {
            draw(&t, s);
            training_step(&t, s & 1);
        }
        expect_conservation(&t, "residuals per host");
        assert_int_equal(t.sparse, hosts[i] == 0 || hosts[i] == ALL ? 4 : 0);
        close_backends(&t, &far_kind, hosts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_allreduces_are_right),
        cmocka_unit_test(a_long_result_is_cleared_in_few_pieces),
        cmocka_unit_test(a_dense_lane_is_sampled),
        cmocka_unit_test(a_residual_follows_its_buffers),
        cmocka_unit_test(a_backend_short_of_memory_is_native_for_all),
        cmocka_unit_test(a_residual_lost_with_its_backend_is_told),
        cmocka_unit_test(a_residual_lost_after_the_last_call_is_told_at_the_end),
        cmocka_unit_test(claims_of_a_call_that_is_given_up_come_back),
        cmocka_unit_test(a_backend_that_fails_is_an_error_for_all),
        cmocka_unit_test(ranks_whose_buffers_lie_elsewhere_have_no_residual_per_host),
        cmocka_unit_test(every_kind_is_right),
        cmocka_unit_test(trainings_are_the_same_bit_for_bit),
        cmocka_unit_test(a_residual_is_scaled_where_the_buffers_lie),
        cmocka_unit_test(vectors_of_any_length_are_the_same_bit_for_bit),
        cmocka_unit_test(what_finds_no_room_to_stay_comes_to_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
