/* Long packed messages go to a backend as they came and are decoded there: what comes of them is
 * what the host makes of them, and what is malformed is an error of the call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/far_backend.h"
#include "tests/unit/support/sim_job.h"

enum { N = 160000, EACH = 17, MOST = 4 };

static const enum ss_algorithm algorithms[] = {SS_SPLIT_ALLGATHER, SS_DSAR, SS_RING, SS_ALLGATHER};
enum { ALGORITHMS = sizeof algorithms / sizeof algorithms[0] };

static struct sim_job job;
static char *out[MOST]; /* as the test sees it */

/* One element in EACH is not zero, and small: sums are exact. */
static uint64_t element(int rank, size_t i)
{
    uint64_t h = (i * MOST + (size_t)rank + 1) * 0x9e3779b97f4a7c15u;

    h ^= h >> 29;
    return h % EACH == 0 ? h / EACH % 1000 + 1 : 0;
}

static void set_element(enum ss_type type, void *v, size_t i, uint64_t x)
{
    if (type == SS_F32)
        ((float *)v)[i] = (float)x;
    else if (type == SS_F64)
        ((double *)v)[i] = (double)x;
    else
        memcpy((char *)v + i * ss_type_size(type), &x, ss_type_size(type));
}

/* Buffers of the ranks in `hosts` are ordinary ones. */
static void open_ranks(enum ss_algorithm algorithm, int size, enum ss_type type, unsigned hosts,
                       double timeout)
{
    struct ss_settings settings = {
        .algorithm = algorithm, .alpha = 1e-6, .beta = 1e-8, .hash = 1, .timeout = timeout};

    job_open(&job, size, 1e-6, 1e-8, 0, &settings);
    ss_sim_set_idle(job.sim, timeout > 0 ? timeout / 10 : 1e-6);
    job.far = FAR;
    far_memory.decoded = 0;
    for (int r = 0; r < size; r++) {
        const bool here = hosts >> r & 1;
        char *in = far_make((size_t)N * 8);
        out[r] = far_make((size_t)N * 8);
        for (size_t i = 0; i < N; i++)
            set_element(type, in, i, element(r, i));
        job.backend[r] = here ? NULL : far_backend_of(r);
        job.in[r] = in;
        job.out[r] = out[r];
    }
}

static void close_ranks(void)
{
    job_close(&job);
    far_forget_all();
}

static void expect_results(enum ss_type type, enum ss_op op, int size)
{
    char *want = malloc((size_t)N * 8);

    for (size_t i = 0; i < N; i++) {
        uint64_t sum = 0;
        for (int r = 0; r < size; r++)
            sum = op == SS_BXOR ? sum ^ element(r, i) : sum + element(r, i);
        set_element(type, want, i, sum);
    }
    for (int r = 0; r < size; r++)
        assert_memory_equal(out[r], want, (size_t)N * ss_type_size(type));
    free(want);
}

static void messages_are_decoded_in_the_backend_with_the_same_result(void **state)
{
    (void)state;
    for (size_t a = 0; a < ALGORITHMS; a++)
        for (int size = 2; size <= MOST; size++)
            for (int type = 0; type < SS_TYPES; type++)
                for (unsigned hosts = 0; hosts < 1u << size; hosts += 1 + hosts) {
                    const bool floats = ss_type_is_float((enum ss_type)type);
                    const enum ss_op op = floats || size % 2 ? SS_SUM : SS_BXOR;
                    open_ranks(algorithms[a], size, (enum ss_type)type, hosts, 0);
                    assert_true(job_call(&job, (enum ss_type)type, op, N));
                    assert_true(far_all_written());
                    for (int r = 0; r < size; r++)
                        assert_int_equal(job.status[r], SS_OK);
                    expect_results((enum ss_type)type, op, size);
                    assert_true(hosts == (1u << size) - 1 || far_memory.decoded > 0);
                    close_ranks();
                }
}

/* A backend that is slow is waited for: what it has not come to lies in memory that nobody counts.
 */
static void few_messages_wait_in_the_backend_to_be_decoded(void **state)
{
    enum { LONG = 1900000, FIFTH = 5 };
    struct ss_settings settings = {
        .algorithm = SS_ALLGATHER, .alpha = 1e-6, .beta = 1e-8, .hash = 1};
    float *to[MOST];

    (void)state;
    job_open(&job, MOST, 1e-6, 1e-8, 0, &settings);
    ss_sim_set_idle(job.sim, 1e-6);
    job.far = FAR;
    far_memory.decoded = far_memory.most_decoding = 0;
    for (int r = 0; r < MOST; r++) {
        float *in = far_make((size_t)LONG * 4);
        to[r] = far_make((size_t)LONG * 4);
        for (size_t i = 0; i < LONG; i++)
            in[i] = ((i * MOST + (size_t)r + 1) * 0x9e3779b97f4a7c15u >> 40) % FIFTH == 0;
        job.backend[r] = far_backend_of(r);
        job.in[r] = in;
        job.out[r] = to[r];
    }
    assert_true(job_call(&job, SS_F32, SS_SUM, LONG));
    assert_true(far_memory.decoded > 3 * SS_DECODING_MOST);
    assert_true(far_memory.most_decoding <= SS_DECODING_MOST);
    for (int r = 1; r < MOST; r++)
        assert_memory_equal(to[r], to[0], (size_t)LONG * 4);
    close_ranks();
}

/* Streams that are short are decoded on the host as ever. */
static void short_messages_are_the_hosts(void **state)
{
    (void)state;
    open_ranks(SS_ALLGATHER, 2, SS_F32, 0, 0);
    assert_true(job_call(&job, SS_F32, SS_SUM, 1500 * EACH));
    assert_int_equal(job.status[0], SS_OK);
    assert_int_equal(far_memory.decoded, 0);
    close_ranks();
}

struct outcome {
    bool ended;
    int status[MOST];
    char *bits[MOST];
};

static struct outcome with_fault(enum ss_algorithm algorithm, int size, unsigned hosts,
                                 struct ss_sim_fault fault)
{
    struct outcome o = {.ended = false};

    open_ranks(algorithm, size, SS_F32, hosts, 1);
    ss_sim_set_fault(job.sim, fault);
    o.ended = job_call(&job, SS_F32, SS_SUM, N);
    for (int r = 0; r < size; r++) {
        o.status[r] = job.status[r];
        o.bits[r] = malloc((size_t)N * 4);
        memcpy(o.bits[r], out[r], (size_t)N * 4);
    }
    close_ranks();
    return o;
}

/* What the host refuses the backend refuses, on the rank that it came to; what nobody can see is
 * the same for both. */
static void a_malformed_message_is_an_error_in_the_backend_as_on_the_host(void **state)
{
    unsigned refused = 0, by_backend = 0, unseen = 0;

    (void)state;
    for (size_t a = 0; a < ALGORITHMS; a++)
        for (int size = 2; size <= 3; size++)
            for (uint64_t at = 1; at < 70; at++) {
                const size_t entries =
                    N / EACH / (algorithms[a] == SS_ALLGATHER ? 1 : (size_t)size);
                const struct ss_sim_fault fault = {
                    .rank = (int)at % size,
                    .corrupt_send = 1 + at % 7,
                    .corrupt_byte = at % 4 ? 4 * entries + 400 + at * 1013 % 1500 : at * 7919,
                    .corrupt_mask = (unsigned char)(1u << at % 8)};
                struct outcome near = with_fault(algorithms[a], size, (1u << size) - 1, fault),
                               far = with_fault(algorithms[a], size, 0, fault);
                bool near_failed = false, far_failed = false;
                assert_true(near.ended && far.ended);
                for (int r = 0; r < size; r++) {
                    near_failed = near_failed || near.status[r] < 0;
                    far_failed = far_failed || far.status[r] < 0;
                    if (near.status[r] == SS_ERR_MESSAGE) {
                        assert_true(far.status[r] < 0);
                        by_backend += far.status[r] == SS_ERR_MESSAGE;
                    }
                }
                assert_int_equal(near_failed, far_failed);
                for (int r = 0; r < size; r++) {
                    if (near.status[r] == SS_OK && !near_failed)
                        assert_memory_equal(near.bits[r], far.bits[r], (size_t)N * 4);
                    free(near.bits[r]);
                    free(far.bits[r]);
                }
                refused += near_failed;
                unseen += !near_failed;
            }
    if (refused < 50 || by_backend < 50 || unseen < 50)
        fail_msg("%u refused, %u of them by the backend, %u not seen", refused, by_backend, unseen);
}

/* Of a ring, where one is the author of a message and others forward it before they know that it is
 * malformed. */
static void a_malformed_message_is_its_authors_whoever_forwarded_it(void **state)
{
    enum { SIZE = 4 };
    unsigned seen = 0;

    (void)state;
    for (uint64_t at = 0; at < 60; at++) {
        const int author = (int)at % SIZE;
        int refusing = 0, named = -1;
        open_ranks(SS_RING, SIZE, SS_F32, 0, 1);
        ss_sim_set_fault(
            job.sim, (struct ss_sim_fault){.rank = author,
                                           .corrupt_send = 3 + at / SIZE % 6,
                                           .corrupt_byte = 4 * (N / EACH) + 300 + at * 131 % 900,
                                           .corrupt_mask = (unsigned char)(1u << at % 8)});
        assert_true(job_call(&job, SS_F32, SS_SUM, N));
        for (int r = 0; r < SIZE; r++) {
            if (job.status[r] != SS_ERR_MESSAGE || job.comm[r]->failed_phase != SS_PHASE_GATHER)
                continue;
            assert_true(refusing == 0 || job.comm[r]->failed_peer == named);
            named = job.comm[r]->failed_peer;
            refusing++;
        }
        seen += refusing > 1;
        close_ranks();
    }
    assert_true(seen > 2);
}

/* Four lossy steps; the results of all ranks, one behind the other. */
static float *lossy_steps(enum ss_algorithm algorithm, enum ss_values values, bool far)
{
    enum { SIZE = 2, STEPS = 4 };
    char error[200];
    struct ss_settings settings = {.algorithm = algorithm,
                                   .alpha = 1e-6,
                                   .beta = 1e-8,
                                   .hash = 1,
                                   .topk = true,
                                   .density = 0.08,
                                   .value_type = values,
                                   .quant_bucket = 64,
                                   .repartition_period = 16,
                                   .tensors = {.threshold_period = 8}};
    float *results = malloc((size_t)SIZE * STEPS * N * 4), *next = results;
    struct ss_rules *rules;

    assert_int_equal(ss_rules_parse("count=1:,site=*:calls=1", true, &rules, error, sizeof error),
                     SS_OK);
    settings.tensors.include = rules;
    job_open(&job, SIZE, 1e-6, 1e-8, 0, &settings);
    ss_sim_set_idle(job.sim, 1e-6);
    job.far = far ? FAR : 0;
    far_memory.decoded = 0;
    for (int r = 0; r < SIZE; r++) {
        job.backend[r] = far ? far_backend_of(r) : NULL;
        job.in[r] = far_make((size_t)N * 4);
        job.out[r] = far_make((size_t)N * 4);
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        for (int r = 0; r < SIZE; r++)
            for (size_t i = 0; i < N; i++) {
                const uint64_t h = ((step * N + i) * SIZE + (uint64_t)r + 1) * 0x9e3779b97f4a7c15u;
                ((float *)(uintptr_t)job.in[r])[i] = (float)(int64_t)h * 0x1p-63f;
            }
        assert_true(job_call(&job, SS_F32, SS_SUM, N));
        for (int r = 0; r < SIZE; r++, next += N) {
            assert_int_equal(job.status[r], step == 0 ? job.status[0] : SS_OK);
            memcpy(next, job.out[r], (size_t)N * 4);
        }
    }
    assert_int_equal(far_memory.decoded > 0, far);
    close_ranks();
    ss_rules_free(rules);
    return results;
}

static void rounded_values_are_decoded_in_the_backend_with_the_same_result(void **state)
{
    static const enum ss_values values[] = {SS_VALUES_BF16, SS_VALUES_Q8};

    (void)state;
    for (size_t a = 0; a < ALGORITHMS; a++)
        for (size_t v = 0; v < 2; v++) {
            if (algorithms[a] == SS_DSAR) /* its slices are those of split_allgather */
                continue;
            float *near = lossy_steps(algorithms[a], values[v], false),
                  *far = lossy_steps(algorithms[a], values[v], true);
            assert_memory_equal(near, far, (size_t)2 * 4 * N * 4);
            free(near);
            free(far);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_decoded_in_the_backend_with_the_same_result),
        cmocka_unit_test(rounded_values_are_decoded_in_the_backend_with_the_same_result),
        cmocka_unit_test(few_messages_wait_in_the_backend_to_be_decoded),
        cmocka_unit_test(short_messages_are_the_hosts),
        cmocka_unit_test(a_malformed_message_is_an_error_in_the_backend_as_on_the_host),
        cmocka_unit_test(a_malformed_message_is_its_authors_whoever_forwarded_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
