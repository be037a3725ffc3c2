/* Exact is exact, replicas stay replicas, same input gives the same output: every algorithm,
 * coding, type, operator and kind of input against sums in long double (core/README.md,
 * invariants 1, 2, 4 and 5). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/fp_settings.h"
#include "tests/unit/support/oracle.h"
#include "tests/unit/support/sim_job.h"

struct work {
    struct sim_job job[2]; /* by the clock; adversarial delivery */
    int size;
    enum ss_algorithm algorithm;
    enum ss_coding coding;
    struct array sent[64], out[64];
    struct array first[64]; /* results of job 0 */
    long sparse, native;
    bool loose; /* auto may choose differently by the clock and without one, and back off */
};

static void work_open(struct work *w, int size, enum ss_algorithm algorithm, enum ss_coding coding,
                      uint64_t seed)
{
    struct ss_settings settings = {
        .algorithm = algorithm, .coding = coding, .alpha = 1e-6, .beta = 1e-9, .hash = 1};

    w->size = size;
    w->algorithm = algorithm;
    w->coding = coding;
    job_open(&w->job[0], size, 1e-6, 1e-9, 0, &settings);
    job_open(&w->job[1], size, 1e-6, 1e-9, seed | 1, &settings);
    ss_sim_set_eager(w->job[1].sim, seed % 3 == 0 ? 0 : 512);
}

static void work_close(struct work *w)
{
    job_close(&w->job[0]);
    job_close(&w->job[1]);
}

static void complain(const struct work *w, const struct input *in, bool in_place, int j,
                     const char *what)
{
    print_message("# %s: %s, coding %d, %s, %s\n", what, ss_algorithm_name(w->algorithm), w->coding,
                  in_place ? "in place" : "two buffers", j ? "adversarial" : "by the clock");
    input_print(in);
    fail();
}

/* Runs the call in job j, results in w->out. */
static void run_once(struct work *w, const struct input *in, bool in_place, int j)
{
    struct sim_job *job = &w->job[j];
    size_t esize = ss_type_size(in->type);

    for (int r = 0; r < in->size; r++) {
        w->out[r] = array_make(in->n, esize);
        if (in_place)
            memcpy(w->out[r].data, w->sent[r].data, in->n * esize);
        else
            memset(w->out[r].data, POISON_BYTE, in->n * esize);
        job->in[r] = in_place ? NULL : w->sent[r].data;
        job->out[r] = w->out[r].data;
    }
    if (!job_call(job, in->type, in->op, in->n))
        complain(w, in, in_place, j, "deadlock");
    for (int r = 0; r < in->size; r++)
        if (job->status[r] != job->status[0])
            complain(w, in, in_place, j, "statuses differ");
    if (job->status[0] != SS_OK && job->status[0] != SS_NATIVE)
        complain(w, in, in_place, j, ss_status_text(job->status[0]));
}

static bool all_bytes(const struct array *a, unsigned char byte)
{
    return a->bytes == 0 || (a->data[0] == byte && memcmp(a->data, a->data + 1, a->bytes - 1) == 0);
}

/* The result has the bits of the first job's, which are known to be right. */
static bool is_first_again(const struct work *w, int j, size_t bytes)
{
    return j > 0 && w->job[0].status[0] == SS_OK &&
           memcmp(w->out[0].data, w->first[0].data, bytes) == 0;
}

static void check_once(struct work *w, const struct input *in, bool in_place, int j,
                       const struct array *kept)
{
    size_t bytes = in->n * ss_type_size(in->type);
    bool native = w->job[j].status[0] == SS_NATIVE;

    for (int r = 0; r < in->size; r++) {
        if (!array_guards_hold(&w->out[r]))
            complain(w, in, in_place, j, "wrote past the result");
        if (memcmp(w->sent[r].base, kept[r].base, bytes + 2 * kept[r].guard) != 0)
            complain(w, in, in_place, j, "wrote to the send buffer");
        if (native && (in_place ? memcmp(w->out[r].data, w->sent[r].data, bytes) != 0
                                : !all_bytes(&w->out[r], POISON_BYTE)))
            complain(w, in, in_place, j, "native, yet the result was written");
        if (!native && memcmp(w->out[r].data, w->out[0].data, bytes) != 0)
            complain(w, in, in_place, j, "replicas differ");
    }
    if (!native && !is_first_again(w, j, bytes) &&
        oracle_first_wrong(in, w->sent, w->out[0].data) != in->n)
        complain(w, in, in_place, j, "wrong result");
}

static void free_arrays(struct array *a, int size)
{
    for (int r = 0; r < size; r++)
        free(a[r].base);
}

/* One case in both jobs. */
static void run_case(struct work *w, const struct input *in, bool in_place)
{
    size_t esize = ss_type_size(in->type);
    struct array kept[64];

    for (int r = 0; r < in->size; r++) {
        w->sent[r] = array_make(in->n, esize);
        kept[r] = array_make(in->n, esize);
        input_fill(in, r, w->sent[r].data);
        memcpy(kept[r].data, w->sent[r].data, in->n * esize);
    }
    for (int j = 0; j < 2; j++) {
        run_once(w, in, in_place, j);
        check_once(w, in, in_place, j, kept);
        if (w->job[j].status[0] == SS_OK)
            w->sparse++;
        else
            w->native++;
        if (j == 0)
            memcpy(w->first, w->out, sizeof w->first);
    }
    bool same = w->job[0].status[0] == w->job[1].status[0];
    if (!w->loose && !same)
        complain(w, in, in_place, 1, "delivery order changed the status");
    if (same && (!w->loose || w->algorithm != SS_AUTO) &&
        memcmp(w->first[0].data, w->out[0].data, in->n * esize) != 0)
        complain(w, in, in_place, 1, "delivery order changed the result");
    free_arrays(w->first, in->size);
    free_arrays(w->out, in->size);
    free_arrays(w->sent, in->size);
    free_arrays(kept, in->size);
}

static const struct {
    enum ss_type type;
    enum ss_op op;
} combinations[] = {
    {SS_F32, SS_SUM},  {SS_F64, SS_SUM},  {SS_I32, SS_SUM},  {SS_I32, SS_BOR},
    {SS_I32, SS_BXOR}, {SS_I32, SS_LOR},  {SS_I32, SS_LXOR}, {SS_I64, SS_SUM},
    {SS_I64, SS_BOR},  {SS_I64, SS_BXOR}, {SS_I64, SS_LOR},  {SS_I64, SS_LXOR},
};
static const double densities[] = {0, -1, 1e-4, 0.01, 0.1, 0.6, 1};
static const size_t counts[] = {1, 15, 127, 1021, 4096, 4099};

#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

/* The product of combinations, densities and places, with counts, values and in place or not drawn
 * so that they cover each other; every `stride`th case. */
static void sweep(struct work *w, unsigned stride, size_t count_limit)
{
    unsigned number = 0;

    for (size_t c = 0; c < LENGTH(combinations); c++)
        for (size_t d = 0; d < LENGTH(densities); d++)
            for (int place = 0; place < PLACES; place++) {
                uint64_t h = mix(number + 1000 * (uint64_t)w->size + 100000 * w->algorithm +
                                 (uint64_t)w->coding * 7777777);
                struct input in = {.size = w->size,
                                   .type = combinations[c].type,
                                   .op = combinations[c].op,
                                   .n = counts[h % LENGTH(counts)],
                                   .density = densities[d],
                                   .place = (enum place)place,
                                   .values = (enum values)(h / 64 % VALUES),
                                   .seed = h >> 20};
                if (number++ % stride == h / 4096 % stride && in.n <= count_limit)
                    run_case(w, &in, h >> 40 & 1);
            }
}

static void sweep_size(int size, unsigned stride, size_t count_limit)
{
    static struct work w;

    for (int a = SS_AUTO; a < SS_OKTOPK; a++)
        for (int coding = SS_CODING_AUTO; coding <= SS_CODING_BITMAP; coding++) {
            memset(&w, 0, sizeof w);
            work_open(&w, size, (enum ss_algorithm)a, (enum ss_coding)coding,
                      mix((uint64_t)size * 100 + (uint64_t)a * 10 + (uint64_t)coding));
            sweep(&w, stride, count_limit);
            work_close(&w);
            if (a != SS_AUTO)
                assert_int_equal(w.native, 0);
            else
                assert_true(w.sparse > 0);
        }
}

static void exact_for_any_p_type_operator_and_input(void **state)
{
    (void)state;
    for (int size = 2; size <= 9; size++)
        sweep_size(size, 12, SIZE_MAX);
}

static void exact_for_many_ranks(void **state)
{
    (void)state;
    sweep_size(16, 24, SIZE_MAX);
    sweep_size(31, 24, SIZE_MAX);
    sweep_size(64, 100, 1100);
}

/* Streams of more chunks than there are send slots, where a send is done only when received: 33
 * chunks from 2^20 elements on. Three ranks have the densest input alone. */
static void long_vectors_do_not_stall(void **state)
{
    static const double dense[] = {0.01, 0.6, 1};
    static struct work w;

    (void)state;
    for (int size = 2; size <= 3; size++)
        for (int a = SS_AUTO; a < SS_OKTOPK; a++)
            for (size_t d = size == 3 ? 2 : 0; d < LENGTH(dense); d++) {
                struct input in = {.size = size,
                                   .type = d == 1 ? SS_I64 : SS_F32,
                                   .op = SS_SUM,
                                   .n = ((size_t)1 << 20) + 3,
                                   .density = dense[d],
                                   .values = ORDINARY,
                                   .seed = 5};
                memset(&w, 0, sizeof w);
                work_open(&w, size, (enum ss_algorithm)a, SS_CODING_AUTO, 3);
                run_case(&w, &in, d == 0);
                work_close(&w);
            }
    struct input parts = {.size = 2,
                          .type = SS_F32,
                          .op = SS_SUM,
                          .n = ((size_t)5 << 19) + 7,
                          .density = 1,
                          .values = ORDINARY,
                          .seed = 6};
    memset(&w, 0, sizeof w);
    work_open(&w, 2, SS_RING, SS_CODING_AUTO, 3);
    run_case(&w, &parts, false);
    work_close(&w);
}

/* More ranks than receives are posted or sends fit at once, and streams of two chunks. */
static void many_ranks_do_not_stall(void **state)
{
    static const int sizes[] = {18, 35};
    static struct work w;

    (void)state;
    for (size_t p = 0; p < LENGTH(sizes); p++)
        for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++) {
            struct input in = {.size = sizes[p],
                               .type = SS_F32,
                               .op = SS_SUM,
                               .n = 33000,
                               .density = 1,
                               .values = ORDINARY,
                               .seed = 8};
            memset(&w, 0, sizeof w);
            work_open(&w, in.size, (enum ss_algorithm)a, SS_CODING_AUTO, 3);
            ss_sim_set_eager(w.job[0].sim, 0);
            run_case(&w, &in, false);
            work_close(&w);
        }
}

/* Parts of several messages each, sends that wait for their receives, and more receivers than send
 * slots and windows hold. */
static void long_parts_of_many_ranks_do_not_stall(void **state)
{
    enum { P = 35 };
    static const enum ss_algorithm algorithms[] = {SS_SPLIT_ALLGATHER, SS_DSAR};
    const size_t n = (size_t)P * 33000;

    (void)state;
    for (size_t a = 0; a < LENGTH(algorithms); a++) {
        struct ss_settings settings = {.algorithm = algorithms[a], .alpha = 1e-6, .beta = 1e-9};
        static struct sim_job job;

        job_open(&job, P, 1e-6, 1e-9, 0, &settings);
        ss_sim_set_eager(job.sim, 65536);
        for (int r = 0; r < P; r++) { /* in place; together the ranks leave no element zero */
            uint32_t *buffer = calloc(n, sizeof *buffer);
            assert_non_null(buffer);
            for (size_t i = (size_t)r; i < n; i += P)
                buffer[i] = (uint32_t)i + 1;
            job.out[r] = buffer;
        }
        assert_true(job_call(&job, SS_I32, SS_SUM, n));
        for (int r = 0; r < P; r++) {
            const uint32_t *result = job.out[r];
            assert_int_equal(job.status[r], SS_OK);
            for (size_t i = 0; i < n; i++)
                if (result[i] != (uint32_t)i + 1)
                    fail_msg("rank %d, element %zu: %u", r, i, result[i]);
            free(job.out[r]);
        }
        job_close(&job);
    }
}

/* One communicator through changing calls: lanes, algorithms, memory limits, a rank switched off,
 * Inf on one rank. */
static void any_order_of_calls_stays_exact(void **state)
{
    static struct work w;
    long sparse = 0, native = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 32; seed++) {
        int size = 2 + (int)(seed % 8);
        struct ss_settings settings = {.algorithm = SS_AUTO, .alpha = -1, .beta = -1};

        memset(&w, 0, sizeof w);
        w.size = size;
        for (int j = 0; j < 2; j++) {
            job_open(&w.job[j], size, 1e-6, 1e-8, j == 0 ? 0 : seed, &settings);
            ss_sim_set_eager(w.job[j].sim, seed % 2 ? 0 : 1000);
            job_set_hosts(&w.job[j], "111223333", 64);
        }
        for (uint64_t i = 0; i < 60; i++) {
            uint64_t h = mix(seed * 1000 + i), g = mix(h);
            size_t c = h % LENGTH(combinations);
            struct input in = {.size = size,
                               .type = combinations[c].type,
                               .op = combinations[c].op,
                               .n = h % 11 == 0 ? 70000 : counts[h / 16 % LENGTH(counts)],
                               .density = densities[h / 256 % LENGTH(densities)],
                               .place = (enum place)(h / 4096 % PLACES),
                               .values = (enum values)(h / 65536 % VALUES),
                               .seed = h};
            /* auto may choose differently by the clock and without one: compared only when forced
             */
            w.algorithm = g % 3 ? (enum ss_algorithm)(1 + g / 16 % (SS_OKTOPK - 1)) : SS_AUTO;
            w.loose = true;
            for (int j = 0; j < 2; j++)
                for (int r = 0; r < size; r++) {
                    w.job[j].settings[r].algorithm = w.algorithm;
                    w.job[j].mem[r].limit = 0;
                    w.job[j].comm[r]->caller.off = g % 23 == 0 && r == 1;
                }
            if (g % 5 == 0)
                w.job[0].mem[size - 1].limit = w.job[0].mem[size - 1].used + (g >> 44);
            run_case(&w, &in, g >> 30 & 1);
        }
        sparse += w.sparse;
        native += w.native;
        work_close(&w);
    }
    assert_true(sparse > 500);
    assert_true(native > 50);
}

/* Each rank contributes values[r] at element 7 of n; the result of the forced algorithm, or the
 * status. */
static int reduce_one(enum ss_algorithm algorithm, int size, const float *values, float *result)
{
    struct ss_settings settings = {.algorithm = algorithm, .alpha = 1e-6, .beta = 1e-9};
    float in[9][40] = {{0}}, out[9][40];
    struct sim_job job;

    job_open(&job, size, 1e-6, 1e-9, 0, &settings);
    for (int r = 0; r < size; r++) {
        in[r][7] = values[r];
        job.in[r] = in[r];
        job.out[r] = out[r];
        memset(out[r], POISON_BYTE, sizeof out[r]);
    }
    assert_true(job_call(&job, SS_F32, SS_SUM, 40));
    for (int r = 0; r < size; r++) {
        assert_int_equal(job.status[r], job.status[0]);
        assert_memory_equal(out[r], out[0], sizeof out[0]);
    }
    for (int i = 0; i < 40 && job.status[0] == SS_OK; i++)
        assert_true(i == 7 || out[0][i] == 0);
    *result = out[0][7];
    int status = job.status[0];
    job_close(&job);
    return status;
}

static void an_overflowing_sum_arrives_as_infinity(void **state)
{
    const float values[5] = {3e38f, 0, 3e38f, 0, 2e38f};
    float result;

    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++) {
        assert_int_equal(reduce_one((enum ss_algorithm)a, 5, values, &result), SS_OK);
        assert_true(isinf(result) && result > 0);
    }
}

static void subnormals_survive_an_application_that_flushes_them(void **state)
{
    const float values[5] = {0x1p-149f, 0x1p-149f, 0, 0x1p-148f, 0x1p-140f};
    float result;

    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++) {
        const ss_fpenv before = ss_fpenv_now();
        fp_set(FP_FLUSH | FP_TO_ZERO);
        const ss_fpenv set = fp_settings();
        int status = reduce_one((enum ss_algorithm)a, 5, values, &result);
        const ss_fpenv after = fp_settings();
        ss_fpenv_leave(before);
        assert_int_equal(status, SS_OK);
        assert_int_equal(after, set);
        assert_true(result == 0x1p-149f * (1 + 1 + 2 + 512));
    }
}

static void what_is_not_finite_goes_native_untouched(void **state)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};

    (void)state;
    for (int a = SS_AUTO; a <= SS_DENSE; a++)
        for (int size = 2; size <= 5; size++)
            for (size_t b = 0; b < LENGTH(bad); b++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    struct ss_settings settings = {
                        .algorithm = (enum ss_algorithm)a, .alpha = 1e-6, .beta = 1e-9};
                    float in[5][100] = {{0}}, out[5][100], kept[5][100];
                    struct sim_job job;

                    job_open(&job, size, 1e-6, 1e-9, 0, &settings);
                    for (int r = 0; r < size; r++) {
                        in[r][r] = 1;
                        in[r][99] = r == size - 1 ? bad[b] : 0;
                        memset(out[r], POISON_BYTE, sizeof out[r]);
                        if (in_place)
                            memcpy(out[r], in[r], sizeof in[r]);
                        memcpy(kept[r], out[r], sizeof out[r]);
                        job.in[r] = in_place ? NULL : in[r];
                        job.out[r] = out[r];
                    }
                    assert_true(job_call(&job, SS_F32, SS_SUM, 100));
                    for (int r = 0; r < size; r++) {
                        assert_int_equal(job.status[r], SS_NATIVE);
                        assert_int_equal(ss_call_reason(ss_comm_call(job.comm[r])),
                                         SS_WHY_NOT_FINITE);
                        assert_memory_equal(out[r], kept[r], sizeof out[r]);
                    }
                    job_close(&job);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_for_any_p_type_operator_and_input),
        cmocka_unit_test(exact_for_many_ranks),
        cmocka_unit_test(long_vectors_do_not_stall),
        cmocka_unit_test(many_ranks_do_not_stall),
        cmocka_unit_test(long_parts_of_many_ranks_do_not_stall),
        cmocka_unit_test(any_order_of_calls_stays_exact),
        cmocka_unit_test(an_overflowing_sum_arrives_as_infinity),
        cmocka_unit_test(subnormals_survive_an_application_that_flushes_them),
        cmocka_unit_test(what_is_not_finite_goes_native_untouched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
