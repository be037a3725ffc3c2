/* Memory: the pool's limit and counters, what communicators give back, and what work space may hold
 * (core/README.md, Memory). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/oracle.h"
#include "tests/unit/support/sim_job.h"

static void buffers_are_counted_against_the_limit(void **state)
{
    struct ss_mem mem = {.limit = 1000};
    struct ss_buf a = {0}, b = {0};

    (void)state;
    assert_int_equal(ss_buf_reserve(&a, &mem, 500), SS_OK);
    assert_int_equal((uintptr_t)a.data % 64, 0);
    assert_int_equal(mem.used, a.size);
    assert_int_equal(ss_buf_reserve(&b, &mem, 600), SS_ERR_MEMORY);
    assert_null(b.data);
    assert_int_equal(mem.used, a.size);
    assert_int_equal(ss_buf_reserve(&a, &mem, 900), SS_OK); /* the old one is let go first */
    assert_int_equal(mem.used, a.size);
    assert_true(mem.peak <= mem.limit);
    ss_buf_free(&a);
    assert_int_equal(mem.used, 0);
}

static void what_the_system_refuses_is_noted(void **state)
{
    struct ss_mem mem = {.limit = 1000}, all = {.limit = 0};
    struct ss_buf a = {0};

    (void)state;
    assert_int_equal(ss_buf_reserve(&a, &mem, 2000), SS_ERR_MEMORY);
    assert_false(mem.refused); /* the limit did */
    assert_int_equal(ss_buf_reserve(&a, &all, SIZE_MAX / 4), SS_ERR_MEMORY);
    assert_true(all.refused);
    assert_int_equal(all.used, 0);
}

static void growing_keeps_what_is_asked_for(void **state)
{
    struct ss_mem mem = {.limit = 4096};
    struct ss_buf a = {0};

    (void)state;
    assert_int_equal(ss_buf_reserve(&a, &mem, 256), SS_OK);
    memset(a.data, 7, 256);
    assert_int_equal(ss_buf_grow(&a, &mem, 2048, 256), SS_OK);
    for (int i = 0; i < 256; i++)
        assert_int_equal(((unsigned char *)a.data)[i], 7);
    void *before = a.data;
    assert_int_equal(ss_buf_grow(&a, &mem, 4096, 256), SS_ERR_MEMORY);
    assert_ptr_equal(a.data, before);
    assert_int_equal(ss_buf_grow(&a, &mem, SIZE_MAX, 0), SS_ERR_MEMORY);
    ss_buf_free(&a);
    assert_int_equal(mem.used, 0);
}

static void sizes_that_creep_up_cost_few_allocations(void **state)
{
    struct ss_mem mem = {.limit = 0};
    struct ss_buf a = {0};
    size_t allocations = 0, before = 0;

    (void)state;
    for (size_t size = 1000; size <= 1000000; size += 1000) {
        assert_int_equal(ss_buf_reserve(&a, &mem, size), SS_OK);
        assert_true(a.size >= size && a.size <= size + size / 2 + 64);
        allocations += a.size != before;
        before = a.size;
    }
    assert_true(allocations <= 20); /* 1 + log(1000) / log(1.5) = 18 */
    ss_buf_free(&a);
}

/* Others were promised the rest. */
static void slack_is_taken_from_the_first_half_of_the_pool_only(void **state)
{
    struct ss_mem mem = {.limit = 64000};
    struct ss_buf a = {0}, b = {0};

    (void)state;
    assert_int_equal(ss_buf_reserve(&a, &mem, 6400), SS_OK);
    assert_int_equal(a.size, 6400); /* none at first */
    assert_int_equal(ss_buf_reserve(&a, &mem, 6464), SS_OK);
    assert_int_equal(a.size, 9600);
    assert_int_equal(ss_buf_reserve(&b, &mem, 22400), SS_OK);
    assert_int_equal(ss_buf_reserve(&a, &mem, 9664), SS_OK);
    assert_int_equal(a.size, 9664);
    assert_int_equal(ss_buf_reserve(&a, &mem, 41600), SS_OK); /* all there is */
    assert_int_equal(mem.used, mem.limit);
    assert_true(mem.peak <= mem.limit);
    ss_buf_free(&a);
    ss_buf_free(&b);
    assert_int_equal(mem.used, 0);
}

enum { MOST = 9 };

struct calls {
    struct sim_job job;
    struct array in[MOST], out[MOST];
    struct input shape;
};

static void calls_open(struct calls *k, struct input shape, const struct ss_settings *settings)
{
    memset(k, 0, sizeof *k);
    k->shape = shape;
    job_open(&k->job, shape.size, 1e-6, 1e-9, 0, settings);
    for (int r = 0; r < shape.size; r++) {
        k->in[r] = array_make(shape.n, ss_type_size(shape.type));
        k->out[r] = array_make(shape.n, ss_type_size(shape.type));
    }
}

static void calls_run(struct calls *k)
{
    for (int r = 0; r < k->shape.size; r++) {
        input_fill(&k->shape, r, k->in[r].data);
        k->job.in[r] = k->in[r].data;
        k->job.out[r] = k->out[r].data;
    }
    assert_true(job_call(&k->job, k->shape.type, k->shape.op, k->shape.n));
    for (int r = 0; r < k->shape.size; r++)
        assert_true(k->job.status[r] >= 0);
}

static void calls_close(struct calls *k)
{
    for (int r = 0; r < k->shape.size; r++) {
        ss_comm_free(k->job.comm[r]);
        k->job.comm[r] = NULL;
        assert_int_equal(k->job.mem[r].used, 0);
        free(k->in[r].base);
        free(k->out[r].base);
    }
    job_close(&k->job);
}

static void work_space_does_not_grow_over_a_thousand_calls(void **state)
{
    static struct calls k;

    (void)state;
    for (int a = SS_AUTO; a < SS_OKTOPK; a++) {
        struct ss_settings settings = {
            .algorithm = (enum ss_algorithm)a, .alpha = 1e-6, .beta = 1e-9};
        size_t used[MOST] = {0};

        calls_open(&k,
                   (struct input){.size = 5,
                                  .type = SS_F32,
                                  .op = SS_SUM,
                                  .n = 1000,
                                  .density = 0.05,
                                  .place = UNIFORM,
                                  .values = ORDINARY},
                   &settings);
        for (int i = 0; i < 1000; i++) {
            k.shape.seed = (uint64_t)i % 8;
            calls_run(&k);
            for (int r = 0; r < 5; r++) {
                if (i == 8)
                    used[r] = k.job.mem[r].used;
                else if (i > 8)
                    assert_int_equal(k.job.mem[r].used, used[r]);
            }
        }
        calls_close(&k);
    }
}

/* Work space of a rank whose size has changed since `was`. */
static size_t regrown(const struct ss_work *w, size_t *was)
{
    const struct ss_buf *all[] = {&w->own_idx, &w->own_val, &w->idx[0], &w->idx[1], &w->idx[2],
                                  &w->val[0],  &w->val[1],  &w->val[2], &w->arena};
    size_t count = 0;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        count += all[i]->size != was[i];
        was[i] = all[i]->size;
    }
    return count;
}

static void counts_that_creep_up_cost_few_allocations(void **state)
{
    static struct calls k;
    enum { CALLS = 300 };

    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++) {
        struct ss_settings settings = {
            .algorithm = (enum ss_algorithm)a, .alpha = 1e-6, .beta = 1e-9};
        size_t was[9] = {0}, allocations = 0;

        calls_open(&k,
                   (struct input){.size = 4,
                                  .type = SS_F32,
                                  .op = SS_SUM,
                                  .n = 7000,
                                  .place = UNIFORM,
                                  .values = ORDINARY},
                   &settings);
        for (int i = 1; i <= CALLS; i++) {
            k.shape.density = 0.1 * i / CALLS;
            calls_run(&k);
            allocations += regrown(&k.job.comm[0]->works[0], was);
        }

        assert_true(allocations <= 9 * 16); /* 1 + log(300) / log(1.5) = 15 of each */
        calls_close(&k);
    }
}

/* Peak memory in elements against min(N, P k) + N / P, after what does not grow: receive buffers,
 * index scratch. */
static void check_bound(enum place place, double beta)
{
    static const double densities[] = {0.0005, 0.005, 0.05, 0.3};
    static const double more[SS_ALGORITHMS] = {[SS_RECURSIVE_DOUBLING] = 12, [SS_TWO_LEVEL] = 24};
    static struct calls k;

    for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++)
        for (int size = 2; size <= 8; size *= 2)
            for (size_t d = 0; d < sizeof densities / sizeof densities[0]; d++) {
                struct ss_settings settings = {
                    .algorithm = (enum ss_algorithm)a, .alpha = 1e-6, .beta = beta};
                double n = 200000, most = size * densities[d] * n;
                double bound = (most < n ? most : n) + n / size;

                calls_open(&k,
                           (struct input){.size = size,
                                          .type = SS_F32,
                                          .op = SS_SUM,
                                          .n = 200000,
                                          .density = densities[d],
                                          .place = place,
                                          .values = ORDINARY,
                                          .seed = 3},
                           &settings);
                calls_run(&k);
                for (int r = 0; r < size; r++) {
                    const struct ss_work *w = &k.job.comm[r]->works[0];
                    double fixed = (double)(w->inbox.size + w->scratch.size);
                    double elements = ((double)k.job.mem[r].peak - fixed) / 4;
                    assert_true(elements <= (more[a] > 0 ? more[a] : 8) * bound);
                }
                calls_close(&k);
            }
}

static void work_space_is_bounded_by_the_sparse_data_and_a_part(void **state)
{
    (void)state;
    check_bound(UNIFORM, 1e-9);
}

/* Entries crowd in one part, or at the end, and parts are balanced. */
static void work_space_of_skewed_inputs_is_bounded_alike(void **state)
{
    (void)state;
    check_bound(CLUSTERED, 1e-6);
    check_bound(AT_END, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_counted_against_the_limit),
        cmocka_unit_test(growing_keeps_what_is_asked_for),
        cmocka_unit_test(what_the_system_refuses_is_noted),
        cmocka_unit_test(work_space_does_not_grow_over_a_thousand_calls),
        cmocka_unit_test(sizes_that_creep_up_cost_few_allocations),
        cmocka_unit_test(slack_is_taken_from_the_first_half_of_the_pool_only),
        cmocka_unit_test(counts_that_creep_up_cost_few_allocations),
        cmocka_unit_test(work_space_is_bounded_by_the_sparse_data_and_a_part),
        cmocka_unit_test(work_space_of_skewed_inputs_is_bounded_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
