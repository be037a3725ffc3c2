/* What work costs on a device is measured in its own backend: on the driver for tests, where
 * figures mean nothing, what it leaves behind. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/gpu_ranks.h"

enum { N = 2000 };

static void expect_amounts(const struct ss_backend_costs *c)
{
    const double *cost = (const double *)(const void *)c;

    for (size_t i = 0; i < sizeof *c / sizeof *cost; i++)
        assert_true(cost[i] > 0 && isfinite(cost[i]));
}

static void expect_usable(struct ss_backend *p)
{
    static const uint32_t idx[] = {1, 700, 1999};
    static const float val[] = {3, -2, 8};
    struct ss_buf v;
    float back[N];

    assert_int_equal(p->ops->reserve(p, SS_F32, &(struct ss_backend_need){.n = N}), SS_OK);
    assert_int_equal(p->ops->make(p, NULL, &v, sizeof back), SS_OK);
    p->ops->scatter(p, SS_F32, v.data, 0, idx, val, 3);
    assert_int_equal(ss_backend_wait(p, p->ops->read(p, SS_F32, v.data, N, back)), SS_OK);
    for (uint32_t i = 0, j = 0; i < N; i++) {
        assert_true(back[i] == (j < 3 && idx[j] == i ? val[j] : 0));
        j += j < 3 && idx[j] == i;
    }
    p->ops->drop(p, &v);
}

static void a_device_is_measured_and_no_vector_is_left_behind(void **state)
{
    struct gpu_backend *backend = gpu_rank(0);

    (void)state;
    expect_amounts(ss_backend_costs(&backend->backend));
    ss_backend_measure(&backend->backend);
    expect_amounts(ss_backend_costs(&backend->backend));
    assert_ptr_equal(ss_backend_costs(&backend->backend), &backend->record.seen);
    gpu_ranks_finish();
    assert_null(backend->vectors);
    expect_usable(&backend->backend);
    gpu_ranks_end();
}

static void without_memory_a_device_costs_what_is_expected(void **state)
{
    (void)state;
    for (size_t limit = 1000; limit < (size_t)64 << 20; limit *= 4) {
        struct gpu_backend *backend = gpu_rank(0);
        const struct ss_backend_costs expected = *ss_backend_costs(&backend->backend);

        backend->device.limit = limit;
        ss_backend_measure(&backend->backend);
        expect_amounts(ss_backend_costs(&backend->backend));
        if (limit < N * 1000) /* the vector alone takes more */
            assert_memory_equal(ss_backend_costs(&backend->backend), &expected, sizeof expected);
        gpu_ranks_finish();
        assert_null(backend->vectors);
        backend->device.limit = (size_t)1 << 30;
        expect_usable(&backend->backend);
        gpu_ranks_end();
    }
}

static void an_error_while_it_is_measured_is_for_good(void **state)
{
    static const char *const functions[] = {"cuLaunchKernel", "cuMemcpyHtoDAsync_v2",
                                            "cuMemcpyDtoHAsync_v2", "cuEventQuery",
                                            "cuEventRecord"};

    (void)state;
    for (size_t c = 0; c < 30; c++) {
        struct gpu_backend *backend = gpu_rank(0);
        const struct ss_backend_costs expected = *ss_backend_costs(&backend->backend);
        char plan[100];

        (void)snprintf(plan, sizeof plan, "%s:+%zu:400", functions[c % 5], 1 + c / 5);
        (void)setenv("TEST_CUDA_FAIL", plan, 1);
        ss_backend_measure(&backend->backend);
        (void)unsetenv("TEST_CUDA_FAIL");
        expect_amounts(ss_backend_costs(&backend->backend));
        if (gpu_backend_error(backend) != 0)
            assert_memory_equal(ss_backend_costs(&backend->backend), &expected, sizeof expected);
        gpu_ranks_end();
    }
}

/* A device whose work does not end before somebody makes memory there. */
static struct {
    struct gpu_driver driver, watched;
    bool busy, made;
} watch;

static CUresult query(CUevent e)
{
    return watch.busy && !watch.made ? CUDA_ERROR_NOT_READY : watch.driver.event_query(e);
}

static CUresult make_memory(CUdeviceptr *p, size_t bytes)
{
    watch.made = true;
    return watch.driver.memory_make(p, bytes);
}

static void a_device_at_work_for_the_program_is_measured_later(void **state)
{
    struct gpu_backend *backend = gpu_rank(0);
    const struct gpu_driver *before = backend->device.driver;

    (void)state;
    watch.driver = watch.watched = *before;
    watch.watched.event_query = query;
    watch.watched.memory_make = make_memory;
    watch.busy = true;
    backend->device.driver = &watch.watched;
    gpu_backend_after_program(backend);
    ss_backend_measure(&backend->backend);
    assert_false(watch.made);
    assert_ptr_equal(ss_backend_costs(&backend->backend), &backend->record.expected);
    watch.busy = false;
    gpu_backend_after_program(backend);
    ss_backend_measure(&backend->backend);
    assert_true(watch.made);
    assert_ptr_equal(ss_backend_costs(&backend->backend), &backend->record.seen);
    gpu_ranks_finish();
    backend->device.driver = before;
    gpu_ranks_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_is_measured_and_no_vector_is_left_behind),
        cmocka_unit_test(a_device_at_work_for_the_program_is_measured_later),
        cmocka_unit_test(without_memory_a_device_costs_what_is_expected),
        cmocka_unit_test(an_error_while_it_is_measured_is_for_good),
    };

    return cmocka_run_group_tests_name("gpu_costs", tests, NULL, NULL);
}
