/* Top-k with error feedback inside calls: who is registered, how much is sent, warm-up, exact
 * buffers beside a gradient. */
#include "core/compute/vector.h"
#include "tests/unit/support/training.h"

enum { N = 6007 };

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
            t.job.comm[r]->caller.site = (struct ss_call_site){.name = "first"};
        training_step(&t, false);
        assert_int_equal(t.job.status[0], SS_OK);
        memcpy(t.job.out, out[1], sizeof out[1]);
        for (int r = 0; r < 4; r++) /* called from elsewhere */
            t.job.comm[r]->caller.site = (struct ss_call_site){.name = "second"};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_is_registered_on_all_ranks_or_on_none),
        cmocka_unit_test(a_call_sends_about_its_share),
        cmocka_unit_test(a_warm_up_comes_down_to_k_of_each_bucket),
        cmocka_unit_test(an_exact_buffer_beside_it_does_not_keep_a_gradient_dense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
