/* The state of a device on a driver for tests, whose memory the host cannot touch: contexts are
 * left as they were found, whose memory is known, and what fails is said once. */
#include <fcntl.h>

#include "tests/gpu/device_case.h"

/* ---- opening ---- */

static void leaves_contexts(void)
{
    CUcontext other, now;

    DONE(app.cuInit(0));
    DONE(app.cuDevicePrimaryCtxRetain(&other, 0));
    for (int current = 0; current < 2; current++) {
        DONE(app.cuCtxSetCurrent(current ? other : NULL));
        open_device(1);
        finish();
        DONE(app.cuCtxGetCurrent(&now));
        HOLDS(now == (current ? other : NULL));
    }
}

static void contexts_are_left_as_they_were(void **state)
{
    (void)state;
    passes(leaves_contexts, NULL);
}

static void a_missing_function_is_named(void **state)
{
    struct gpu_driver none;
    void *libm = dlopen("libm.so.6", RTLD_NOW);

    (void)state;
    assert_non_null(libm);
    assert_string_equal(gpu_driver_find(&none, libm), "cuDriverGetVersion");
}

static void open_old(void)
{
    DONE(app.cuInit(0));
    HOLDS(gpu_device_open(&device, &driver, &modules, NULL, 0, why) == why);
    HOLDS(strcmp(why, "the driver is for CUDA 12.4, the kernels need 13.0") == 0);
}

static void an_old_driver_is_told_with_both_versions(void **state)
{
    (void)state;
    passes(open_old, "TEST_CUDA_VERSION=12040");
}

static void open_bad_image(void)
{
    static const unsigned broken[] = {0, 0, 0, 0};
    static const void *const bad_image[] = {broken};
    const struct gpu_modules bad = {bad_image, 1, 13000, NULL};

    DONE(app.cuInit(0));
    HOLDS(gpu_device_open(&device, &driver, &bad, NULL, 1, why) == why);
    HOLDS(strstr(why, "no kernels for test device 1"));
    HOLDS(gpu_device_open(&device, &driver, &modules, NULL, 7, why) == why);
}

static void without_kernels_for_it_the_device_is_named(void **state)
{
    (void)state;
    passes(open_bad_image, NULL);
}

static void open_failing(void)
{
    CUcontext now;

    DONE(app.cuInit(0));
    HOLDS(gpu_device_open(&device, &driver, &modules, NULL, 0, why) == why);
    DONE(app.cuCtxGetCurrent(&now));
    HOLDS(now == NULL);
}

static void an_error_while_opening_leaves_nothing(void **state)
{
    static const char *const faults[] = {
        "TEST_CUDA_FAIL=cuDevicePrimaryCtxRetain:1:2", "TEST_CUDA_FAIL=cuCtxPushCurrent_v2:1:201",
        "TEST_CUDA_FAIL=cuModuleLoadData:1:209",       "TEST_CUDA_FAIL=cuModuleGetFunction:9:500",
        "TEST_CUDA_FAIL=cuStreamCreate:1:2",           "TEST_CUDA_FAIL=cuEventCreate:30:2",
    };

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        passes(open_failing, faults[i]);
}

/* ---- whose memory ---- */

static void ask(void)
{
    CUcontext context;
    CUdeviceptr own, pool, managed;
    void *pinned;
    struct gpu_where w;

    DONE(app.cuInit(0));
    HOLDS(!gpu_where(&driver, why).device);
    DONE(app.cuDevicePrimaryCtxRetain(&context, 1));
    DONE(app.cuCtxSetCurrent(context));
    DONE(app.cuMemAlloc_v2(&own, 1000));
    DONE(app.cuMemAllocAsync(&pool, 1000, NULL));
    DONE(app.cuMemAllocManaged(&managed, 1000, 1));
    DONE(app.cuMemHostAlloc(&pinned, 1000, 0));
    DONE(app.cuCtxSetCurrent(NULL));
    w = gpu_where(&driver, (char *)(uintptr_t)own + 999);
    HOLDS(w.device && w.ordinal == 1 && w.context == context);
    w = gpu_where(&driver, (void *)(uintptr_t)pool);
    HOLDS(w.device && w.ordinal == 1 && w.context == NULL);
    w = gpu_where(&driver, (void *)(uintptr_t)managed);
    HOLDS(w.device);
    HOLDS(!gpu_where(&driver, pinned).device);
    HOLDS(!gpu_where(&driver, why).device && !gpu_where(&driver, &w).device);
    HOLDS(!gpu_where(&driver, NULL).device);
}

static void every_kind_of_memory_is_known(void **state)
{
    (void)state;
    passes(ask, NULL);
}

static void touch(void)
{
    open_device(0);
    *(volatile char *)gpu_memory_make(&device, 100) = 1;
}

static void free_twice(void)
{
    void *p;

    open_device(0);
    p = gpu_memory_make(&device, 100);
    gpu_memory_free(&device, p, 100);
    gpu_memory_free(&device, p, 100);
}

static void use_freed(void)
{
    void *p;

    open_device(0);
    p = gpu_memory_make(&device, 100);
    gpu_memory_free(&device, p, 100);
    gpu_clear(&device.queue, SS_F32, p, 25);
}

static void use_past_the_end(void)
{
    open_device(0);
    gpu_clear(&device.queue, SS_F32, gpu_memory_make(&device, 100), 26);
}

static void use_other_device(void)
{
    CUcontext other;
    CUdeviceptr p;

    DONE(app.cuInit(0));
    DONE(app.cuDevicePrimaryCtxRetain(&other, 1));
    DONE(app.cuCtxSetCurrent(other));
    DONE(app.cuMemAlloc_v2(&p, 100));
    open_device(0);
    gpu_clear(&device.queue, SS_F32, (void *)(uintptr_t)p, 25);
    finish();
}

static void what_the_driver_for_tests_forbids_ends_a_test(void **state)
{
    (void)state;
    int status = in_child(touch, NULL);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    void (*const wrong[])(void) = {free_twice, use_freed, use_past_the_end, use_other_device};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        status = in_child(wrong[i], NULL);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

/* ---- what goes wrong ---- */

static void use_all_memory(void)
{
    void *most, *again;

    open_device(0);
    SAME(device.limit, 1 << 20);
    HOLDS(!gpu_is_within(&device, (1 << 20) + 1) && gpu_is_within(&device, 1 << 20));
    most = gpu_memory_make(&device, 1 << 20);
    HOLDS(most && !gpu_is_within(&device, 1));
    gpu_memory_free(&device, most, 1 << 20);
    HOLDS(gpu_is_within(&device, 1 << 20));
    HOLDS(gpu_memory_make(&device, 5 << 20) == NULL);
    again = gpu_memory_make(&device, 4 << 20);
    HOLDS(again);
    finish();
}

static void no_memory_is_not_an_error_that_stays(void **state)
{
    (void)state;
    passes(use_all_memory, "TEST_CUDA_MEMORY=4194304");
}

static void meet_sticky_error(void)
{
    float *p;

    open_device(0);
    p = gpu_memory_make(&device, 4000);
    gpu_ticket before = gpu_record(&device);
    gpu_scale(&device.queue, SS_F32, p, 1000, 2);
    SAME(device.queue.error, 0);
    gpu_scale(&device.queue, SS_F32, p, 1000, 2);
    SAME(device.queue.error, CUDA_ERROR_ILLEGAL_ADDRESS);
    HOLDS(strcmp(gpu_error_name(&driver, device.queue.error), "CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
    gpu_clear(&device.queue, SS_F32, p, 1000);
    HOLDS(gpu_passed(&device, before) && gpu_passed(&device, gpu_record(&device)));
    HOLDS(gpu_memory_make(&device, 10) == NULL && gpu_slot_take(&device) == NULL);
    gpu_device_leave(&device);
    gpu_device_close(&device);
}

static void after_an_error_nothing_is_queued_and_nothing_waits(void **state)
{
    (void)state;
    passes(meet_sticky_error, "TEST_CUDA_FAIL=cuLaunchKernel:2:700");
}

static void reset_device(void)
{
    CUcontext context;

    open_device(0);
    (void)gpu_memory_make(&device, 100);
    gpu_device_leave(&device);
    gpu_see_whether_gone(&device);
    SAME(device.queue.error, 0);
    DONE(app.cuDevicePrimaryCtxReset_v2(0));
    DONE(app.cuDevicePrimaryCtxRetain(&context, 0));
    HOLDS(context == device.context);
    gpu_see_whether_gone(&device);
    SAME(device.queue.error, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    gpu_device_close(&device);
    open_device(0);
    finish();
}

static void a_context_that_a_reset_replaced_is_not_taken_for_its_own(void **state)
{
    (void)state;
    passes(reset_device, NULL);
}

/* The programs that look at real devices. */
static void run_program(const char *name, const char *argument)
{
    char path[4096];

    (void)snprintf(path, sizeof path, "%s", beside_me("driver/libcuda.so.1"));
    (void)setenv("GPU_LIBCUDA", path, 1);
    (void)dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    (void)execl(beside_me(name), name, argument, (char *)NULL);
    _exit(1);
}

static void run_checks(void)
{
    run_program("gpu_check", "6");
}

static void run_measurements(void)
{
    run_program("gpu_bench", "0");
}

static void run_long_vectors(void)
{
    run_program("gpu_large", "30001");
}

static void checks_and_measurements_run_through_a_driver(void **state)
{
    (void)state;
    passes(run_checks, NULL);
    passes(run_long_vectors, NULL);
    passes(run_measurements, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_function_is_named),
        cmocka_unit_test(contexts_are_left_as_they_were),
        cmocka_unit_test(an_old_driver_is_told_with_both_versions),
        cmocka_unit_test(without_kernels_for_it_the_device_is_named),
        cmocka_unit_test(an_error_while_opening_leaves_nothing),
        cmocka_unit_test(every_kind_of_memory_is_known),
        cmocka_unit_test(what_the_driver_for_tests_forbids_ends_a_test),
        cmocka_unit_test(no_memory_is_not_an_error_that_stays),
        cmocka_unit_test(after_an_error_nothing_is_queued_and_nothing_waits),
        cmocka_unit_test(a_context_that_a_reset_replaced_is_not_taken_for_its_own),
        cmocka_unit_test(checks_and_measurements_run_through_a_driver),
    };
    return cmocka_run_group_tests_name("gpu_device", tests, NULL, NULL);
}
