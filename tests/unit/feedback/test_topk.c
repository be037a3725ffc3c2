/* Top-k with error feedback inside calls: no gradient is lost (invariant 3), replicas stay
 * replicas, what is not finite passes and leaves no trace. */
#include "core/compute/vector.h"
#include "tests/unit/support/training.h"

enum { MAX_P = 9, N = 6007, STEPS = 30, DRAIN = 400 };

static struct ss_settings settings_of(enum ss_algorithm algorithm)
{
    return (struct ss_settings){.algorithm = algorithm,
                                .alpha = 1e-5,
                                .beta = 1e-9,
                                .hash = 1,
                                .topk = true,
                                .density = 0.01,
                                .tensors = {.threshold_period = 8}};
}

/* Heavy-tailed values; a power of two scales them all. */
static void draw(struct training *t, uint64_t step, double scale)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++) {
            uint64_t h = mix(step * 1000003 + (uint64_t)r * 7919 + i * 104729 + 1);
            double x = (double)(int64_t)h / 9.3e18, y = (double)(mix(h) >> 40) / 16777216.0;
            put(t->type, t->gradient[r], i, scale * x * (0.01 + y * y * y * y));
        }
}

static void no_gradient_is_lost_whatever_the_algorithm(void **state)
{
    static struct training t;

    (void)state;
    for (int a = SS_AUTO; a < SS_OKTOPK; a++)
        for (int size = 2; size <= MAX_P; size++)
            for (int form = 0; form < 4; form++) {
                struct ss_settings settings = settings_of((enum ss_algorithm)a);
                if (form & 2) {
                    settings.k = 4;
                    settings.bucket = 512;
                }
                training_open(&t, size, form & 1 ? SS_F64 : SS_F32, N, form == 3 ? 5 : 0, settings);
                for (uint64_t s = 0; s < STEPS; s++) {
                    draw(&t, s, s % 7 == 3 ? 1e-30 : 1);
                    training_step(&t, s & 1);
                }
                assert_true(t.sparse >= STEPS - 1);
                expect_conservation(&t, "top-k");
                training_close(&t);
            }
}

/* Zeros in, until nothing is left: everything arrives. */
static void the_residual_drains(void **state)
{
    static struct training t;

    (void)state;
    struct ss_settings settings = settings_of(SS_AUTO);
    settings.density = 0.02;
    training_open(&t, 4, SS_F32, N, 0, settings);
    for (uint64_t s = 0; s < STEPS; s++) {
        draw(&t, s, 1);
        training_step(&t, false);
    }
    draw(&t, 0, 0);
    for (int s = 0; s < DRAIN; s++)
        training_step(&t, false);
    for (int r = 0; r < 4; r++)
        for (size_t i = 0; i < t.n; i++)
            assert_true(get(SS_F32, training_residual(&t, r), i) == 0);
    expect_conservation(&t, "top-k");
    training_close(&t);
}

/* Inf on one rank: native on all, on the raw input; the residual stays what it was, within one
 * rounding of its parts. */
static void what_is_not_finite_passes_and_leaves_no_trace(void **state)
{
    static struct training t;
    static float before[3][N];

    (void)state;
    training_open(&t, 3, SS_F32, N, 0, settings_of(SS_SPLIT_ALLGATHER));
    for (uint64_t s = 0; s < STEPS; s++) {
        draw(&t, s, 1);
        training_step(&t, false);
    }
    for (int r = 0; r < 3; r++)
        memcpy(before[r], training_residual(&t, r), sizeof before[r]);
    draw(&t, STEPS, 1);
    ((float *)t.gradient[1])[1234] = INFINITY;
    for (int r = 0; r < 3; r++)
        t.job.in[r] = t.gradient[r];
    assert_true(job_call(&t.job, SS_F32, SS_SUM, N));
    for (int r = 0; r < 3; r++) {
        assert_int_equal(t.job.status[r], SS_NATIVE);
        assert_int_equal(ss_call_reason(ss_comm_call(t.job.comm[r])), SS_WHY_NOT_FINITE);
        for (size_t i = 0; i < N; i++) {
            float g = ((float *)t.gradient[r])[i],
                  now = ((const float *)training_residual(&t, r))[i];
            assert_true(isfinite(now));
            if (isfinite(g))
                assert_true(fabsf(now - before[r][i]) <=
                            FLT_EPSILON * (fabsf(g) + fabsf(before[r][i])));
            else
                assert_true(now == before[r][i]);
        }
    }
    training_close(&t);
}

/* A rank out of memory for its residual keeps the tensor exact on all ranks. */
static void a_tensor_is_registered_on_all_ranks_or_on_none(void **state)
{
    static struct training t;

    (void)state;
    training_open(&t, 4, SS_F32, N, 0, settings_of(SS_AUTO));
    t.job.mem[2].limit = 1;
    for (uint64_t s = 0; s < 12; s++) {
        draw(&t, s, 1);
        training_step(&t, false);
    }
    assert_int_equal(t.sparse, 0);
    for (int r = 0; r < 4; r++)
        for (size_t i = 0; training_residual(&t, r) && i < N; i++)
            assert_true(get(SS_F32, training_residual(&t, r), i) == 0);
    training_close(&t);
}

/* About k entries of each rank travel, and the warm-up comes down to that. */
static void a_call_sends_about_its_share(void **state)
{
    static struct training t;
    size_t first = 0, last = 0;

    (void)state;
    struct ss_settings settings = settings_of(SS_ALLGATHER);
    settings.warmup_steps = 10;
    training_open(&t, 2, SS_F32, N, 0, settings);
    for (uint64_t s = 0; s < 40; s++) {
        draw(&t, s, 1);
        training_step(&t, false);
        size_t nnz = ss_comm_call(t.job.comm[0])->f.c.scan.nnz;
        if (t.job.status[0] == SS_OK && first == 0)
            first = nnz;
        last = nnz;
        if (s > 20)
            assert_in_range(nnz, N / 100 / 2, N / 100 * 4 / 3 + 1);
    }
    assert_true(first > 10 * last);
    training_close(&t);
}

static void a_warm_up_comes_down_to_k_of_each_bucket(void **state)
{
    static struct training t;
    enum { BUCKETS = (N + 511) / 512 };
    size_t before = N + 1;

    (void)state;
    struct ss_settings settings = settings_of(SS_SPLIT_ALLGATHER);
    settings.k = 4;
    settings.bucket = 512;
    settings.warmup_steps = 10;
    training_open(&t, 3, SS_F32, N, 0, settings);
    for (uint64_t s = 0; s < 30; s++) {
        draw(&t, s, 1);
        training_step(&t, s & 1);
        if (t.job.status[0] != SS_OK)
            continue;
        size_t nnz = ss_comm_call(t.job.comm[0])->f.c.scan.nnz;
        if (before > N) /* (4 / 512)^(1 / 11) and of all elements, and the last bucket is shorter */
            assert_in_range(nnz, N * 6 / 10, N * 7 / 10);
        assert_true(nnz <= before);
        before = nnz;
    }
    assert_int_equal(before, 4 * BUCKETS);
    expect_conservation(&t, "warm-up");
    training_close(&t);
}

/* A gradient, and a buffer of the same count that is summed exactly: only calls of the latter are
 * dense, whatever auto finds best for it. */
static void an_exact_buffer_beside_it_does_not_keep_a_gradient_dense(void **state)
{
    static struct training t;
    struct ss_settings settings = settings_of(SS_AUTO);
    unsigned dense = 0, backed_off = 0;
    void *out[2][4];

    (void)state;
    settings.beta = 8e-8;
    training_open(&t, 4, SS_F32, N, 0, settings);
    for (int r = 0; r < 4; r++) {
        out[0][r] = t.job.out[r];
        out[1][r] = calloc(N, sizeof(float));
    }
    for (uint64_t s = 0; s < 100; s++) {
        draw(&t, s, 1);
        for (int r = 0; r < 4; r++)
            ss_comm_set_site(t.job.comm[r], &(struct ss_call_site){.name = "first"});
        training_step(&t, false);
        assert_int_equal(t.job.status[0], SS_OK);
        memcpy(t.job.out, out[1], sizeof out[1]);
        for (int r = 0; r < 4; r++) /* called from elsewhere */
            ss_comm_set_site(t.job.comm[r], &(struct ss_call_site){.name = "second"});
        training_call(&t, false);
        for (int r = 0; r < 4 && s == 0; r++)
            ss_tensor_settle(ss_tensors_first(t.job.comm[r]->tensors), false, SS_TENSOR_OTHERS);
        memcpy(t.job.out, out[0], sizeof out[0]);
        assert_int_equal(t.job.status[0], s == 0 ? SS_OK : SS_NATIVE);
        dense += ss_call_reason(ss_comm_call(t.job.comm[0])) == SS_WHY_DENSE;
    }
    assert_int_equal(dense, 99);
    /* Without the gradient it is alone on its lane, which backs off. */
    for (int r = 0; r < 4; r++)
        ss_tensor_settle(ss_tensors_first(t.job.comm[r]->tensors)->next, false, SS_TENSOR_OTHERS);
    memcpy(t.job.out, out[1], sizeof out[1]);
    for (uint64_t s = 0; s < 50; s++) {
        training_call(&t, false);
        backed_off += ss_call_reason(ss_comm_call(t.job.comm[0])) == SS_WHY_BACKED_OFF;
    }
    assert_true(backed_off > 40);
    memcpy(t.job.out, out[0], sizeof out[0]);
    for (int r = 0; r < 4; r++)
        free(out[1][r]);
    training_close(&t);
}

/* The same run twice gives the same bits, and so does another order of delivery. */
static void runs_repeat_bit_for_bit(void **state)
{
    static struct training t[2];

    (void)state;
    for (int j = 0; j < 2; j++) {
        training_open(&t[j], 5, SS_F32, N, j == 0 ? 0 : 99, settings_of(SS_AUTO));
        for (uint64_t s = 0; s < STEPS; s++) {
            draw(&t[j], s, 1);
            training_step(&t[j], s % 3 == 0);
        }
    }
    expect_same_bits(&t[0], &t[1]);
    training_close(&t[0]);
    training_close(&t[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_gradient_is_lost_whatever_the_algorithm),
        cmocka_unit_test(the_residual_drains),
        cmocka_unit_test(what_is_not_finite_passes_and_leaves_no_trace),
        cmocka_unit_test(a_tensor_is_registered_on_all_ranks_or_on_none),
        cmocka_unit_test(a_call_sends_about_its_share),
        cmocka_unit_test(a_warm_up_comes_down_to_k_of_each_bucket),
        cmocka_unit_test(an_exact_buffer_beside_it_does_not_keep_a_gradient_dense),
        cmocka_unit_test(runs_repeat_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
