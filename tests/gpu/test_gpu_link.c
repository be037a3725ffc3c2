/* What crosses the link between host and device: bitmaps home, messages as they came there. */
#include "core/wire/rice.h"
#include "tests/gpu/gpu_ranks.h"
#include "tests/unit/support/training.h"

static struct ss_backend *backend;

/* Indices of dense vectors come home as bitmaps, several of a long one. */
static void a_dense_scan_comes_home_in_fewer_bytes(void **state)
{
    const size_t n = (2 << 20) + 70007, every[] = {2, 3, 40};
    uint32_t *idx[2] = {malloc(4 * n), malloc(4 * n)};
    float *val[2] = {malloc(4 * n), malloc(4 * n)}, *near;
    struct ss_scan scan[2];

    (void)state;
    backend = &gpu_rank(0)->backend;
    near = gpu_rank_make(0, 4 * n);
    for (size_t d = 0; d < 3; d++) {
        const size_t room = d == 1 ? n / 10 : n; /* cut: no bitmap */
        unsigned long long before, after, up;
        for (size_t i = 0; i < n; i++)
            near[i] = i % every[d] == 1 ? (float)i : 0;
        gpu_ranks.crossed(&before, &up);
        backend->ops->scan(backend, SS_F32, SS_SUM, gpu_far(near), n, 3, idx[0], val[0], room,
                           &scan[0]);
        gpu_ranks_finish();
        gpu_ranks.crossed(&after, &up);
        ss_host.ops->scan(&ss_host, SS_F32, SS_SUM, near, n, 3, idx[1], val[1], room, &scan[1]);
        assert_int_equal(scan[0].stored, scan[1].stored);
        assert_int_equal(scan[0].nnz, scan[1].nnz);
        assert_memory_equal(idx[0], idx[1], 4 * scan[1].stored);
        assert_memory_equal(val[0], val[1], 4 * scan[1].stored);
        const size_t as_list = 8 * scan[1].stored, as_bitmap = 4 * scan[1].stored + n / 8;
        assert_true(after - before <= (d == 0 ? as_bitmap : as_list) + 4096);
    }
    for (int i = 0; i < 2; i++) {
        free(idx[i]);
        free(val[i]);
    }
    gpu_ranks_end();
}

/* More than words for what is refused: those wait whose results nobody has asked for. */
static void many_messages_are_decoded_before_anybody_asks(void **state)
{
    enum { SENT = GPU_WORDS + 40, ENTRIES = SS_RICE_LONG };
    static uint32_t idx[ENTRIES], scratch[ENTRIES];
    static float val[ENTRIES];
    const struct ss_wire_key key = {SS_F32, 1, 1};
    struct ss_coded coded;
    const struct ss_wire_scratch as = {.idx = scratch, .coded = &coded};
    struct ss_chunk chunk;
    const enum ss_op op = SS_SUM;
    atomic_int refused[SENT] = {0};
    float *near;

    (void)state;
    backend = &gpu_rank(0)->backend;
    near = gpu_rank_make(0, 4 * 2 * ENTRIES);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        idx[i] = 2 * i;
        val[i] = 1;
    }
    char *msg = malloc(ss_wire_bound(SS_F32, ENTRIES));
    size_t length = ss_wire_encode(msg, &key, SS_CODING_PACKED, idx, val, ENTRIES, true, NULL);
    assert_int_equal(ss_wire_decode(msg, length, &key, 0, 2 * ENTRIES, &as, &chunk), SS_OK);
    for (int i = 0; i < SENT; i++) {
        coded.sender = i;
        if (i == 50 || i == SENT - 1) /* a gap is another one */
            msg[length - 40] ^= 1;
        backend->ops->decode(backend, SS_F32, &op, gpu_far(near), 0, &coded, &refused[i]);
        if (i == 50)
            msg[length - 40] ^= 1;
    }
    for (int i = 0; i < SENT; i++)
        assert_int_equal(refused[i], 0);
    gpu_ranks_finish();
    for (int i = 0; i < SENT; i++)
        assert_int_equal(refused[i], i == 50 || i == SENT - 1 ? i + 1 : 0);
    for (uint32_t i = 0; i < 2 * ENTRIES; i++)
        assert_true(near[i] == (i % 2 ? 0 : SENT - 2));
    free(msg);
    gpu_ranks_end();
}

/* ---- calls ---- */

enum { CALL_RANKS = 3, CALL_N = 300001, CALLS = 2 };

static void open_calls(struct training *t, enum ss_algorithm algorithm, enum ss_values values)
{
    struct ss_settings settings = training_settings(algorithm);

    settings.value_type = values;
    settings.quant_bucket = 1024;
    settings.density = 0.1;
    settings.guard = SS_GUARD_OFF;
    gpu_ranks_driver();
    training_open(t, CALL_RANKS, SS_F32, CALL_N, 0, settings);
    t->job.far = gpu_ranks.far;
    ss_sim_set_idle(t->job.sim, 1e-6);
    for (int r = 0; r < CALL_RANKS; r++) {
        t->job.backend[r] = &gpu_rank(r)->backend;
        free(t->gradient[r]);
        free(t->job.out[r]);
        t->gradient[r] = gpu_rank_make(r, (size_t)CALL_N * 8);
        t->job.out[r] = gpu_rank_make(r, (size_t)CALL_N * 8);
    }
}

static void close_calls(struct training *t)
{
    for (int r = 0; r < CALL_RANKS; r++)
        t->gradient[r] = t->job.out[r] = NULL;
    training_close(t);
    gpu_ranks_end();
}

/* Messages that went out, each counted once, and those that came. */
static void coded_bytes(const struct training *t, uint64_t *out, uint64_t *in)
{
    *out = *in = 0;
    for (int r = 0; r < CALL_RANKS; r++) {
        const struct ss_exchange *x = &ss_comm_call(t->job.comm[r])->f.c.x;
        *out += x->phase_sent[SS_PHASE_REDUCE] + x->phase_sent[SS_PHASE_GATHER] / (CALL_RANKS - 1);
        *in += x->phase_received[SS_PHASE_REDUCE] + x->phase_received[SS_PHASE_GATHER];
    }
}

/* Gradients stay where they are: what crosses is at most a tenth more than the coded streams. */
static void calls_cross_the_link_in_the_bytes_of_their_messages(void **state)
{
    static const enum ss_algorithm algorithms[] = {SS_ALLGATHER, SS_SPLIT_ALLGATHER};
    static const enum ss_values values[] = {SS_VALUES_SAME, SS_VALUES_BF16, SS_VALUES_Q8};
    static struct training t;
    const bool full = getenv("GPU_FULL"); /* else an algorithm for each, by turns */

    (void)state;
    for (size_t c = 0; c < 6; c++) {
        unsigned long long home[2], there[2];
        uint64_t out, in;
        if (!full && c % 2 != c / 2 % 2)
            continue;
        open_calls(&t, algorithms[c % 2], values[c / 2]);
        for (uint64_t s = 0; s < CALLS; s++) {
            for (int r = 0; r < CALL_RANKS; r++)
                for (size_t i = 0; i < CALL_N; i++) {
                    const uint64_t h = mix(s * 1000003 + (uint64_t)r * 7919 + i + 1);
                    const double x = (double)(h >> 11) * 0x1p-53 - 0.5;
                    put(SS_F32, t.gradient[r], i, x * x * x);
                }
            gpu_ranks_finish();
            gpu_ranks.crossed(&home[0], &there[0]);
            training_call(&t, false);
            gpu_ranks_finish();
            gpu_ranks.crossed(&home[1], &there[1]);
            assert_int_equal(t.job.status[0], SS_OK);
        }
        coded_bytes(&t, &out, &in);
        assert_true(out > 100000 && in > 200000);
        if ((double)(home[1] - home[0]) > 1.1 * (double)out ||
            (double)(there[1] - there[0]) > 1.1 * (double)in)
            fail_msg("%s, %s: home %llu bytes of %llu coded ones, there %llu of %llu",
                     ss_algorithm_name(algorithms[c % 2]), ss_value_type_name(values[c / 2]),
                     home[1] - home[0], (unsigned long long)out, there[1] - there[0],
                     (unsigned long long)in);
        close_calls(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_scan_comes_home_in_fewer_bytes),
        cmocka_unit_test(many_messages_are_decoded_before_anybody_asks),
        cmocka_unit_test(calls_cross_the_link_in_the_bytes_of_their_messages),
    };
    return cmocka_run_group_tests_name("gpu_link", tests, NULL, NULL);
}
