/* The state of a device on a driver for tests, whose memory the host cannot touch and whose work is
 * done late: what is queued comes in order, nothing waits, contexts are left as they were found,
 * and what fails is said once. Each case is a process of its own, as it is for a driver. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "gpu/device.h"
#include "tests/gpu/checks.h"

/* What an application calls. */
#define APPLICATION(X)                                                                             \
    X(cuInit, (unsigned))                                                                          \
    X(cuCtxGetCurrent, (CUcontext *))                                                              \
    X(cuCtxSetCurrent, (CUcontext))                                                                \
    X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                           \
    X(cuDevicePrimaryCtxReset_v2, (CUdevice))                                                      \
    X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                                      \
    X(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))                                          \
    X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned))                                        \
    X(cuMemFree_v2, (CUdeviceptr))                                                                 \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                 \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))                         \
    X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))                                              \
    X(cuStreamCreate, (CUstream *, unsigned))                                                      \
    X(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))                                    \
    X(cuStreamEndCapture, (CUstream, void **))

static struct {
#define MEMBER(name, parameters) CUresult(*name) parameters;
    APPLICATION(MEMBER)
#undef MEMBER
} app;
static void *libcuda;
static struct gpu_driver driver;
static struct gpu_device device;
static char why[200];

static const unsigned fat_binary[] = {0xba55ed50u, 0, 0, 0}, broken[] = {0, 0, 0, 0};
static const void *const good_image[] = {fat_binary}, *const bad_image[] = {broken};
static const struct gpu_images images = {good_image, 1, 13000};

/* ---- in a process of its own ---- */

/* cmocka's do not work in a child. */
#define SAME(a, b)                                                                                 \
    do {                                                                                           \
        const long long a_ = (long long)(a), b_ = (long long)(b);                                  \
        if (a_ != b_) {                                                                            \
            fprintf(stderr, "line %d: %s is %lld, not %lld\n", __LINE__, #a, a_, b_);              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define HOLDS(condition) SAME(!!(condition), 1)
#define DONE(call)       SAME(call, CUDA_SUCCESS)

static void open_driver(void)
{
    char path[4096];

    (void)setenv("TEST_CUDA_KERNELS", beside_me("kernels.so"), 1);
    (void)snprintf(path, sizeof path, "%s", beside_me("driver/libcuda.so.1"));
    libcuda = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    HOLDS(libcuda);
    HOLDS(gpu_driver_find(&driver, libcuda) == NULL);
#define FIND(name, parameters) *(void **)(void *)&app.name = emulated_symbol(libcuda, #name);
    APPLICATION(FIND)
#undef FIND
}

/* Runs what it is given with a variable set ("NAME=VALUE" or NULL). The status of the process. */
static int in_child(void (*run)(void), const char *variable)
{
    int status = 0;
    pid_t child = fork();

    assert_int_not_equal(child, -1);
    if (child == 0) {
        for (int signal = 1; signal < 32; signal++)
            (void)sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
        (void)alarm(120);
        if (variable)
            (void)putenv((char *)(uintptr_t)variable);
        open_driver();
        run();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void passes(void (*run)(void), const char *variable)
{
    assert_int_equal(in_child(run, variable), 0);
}

static void open_device(int ordinal)
{
    const char *text;

    DONE(app.cuInit(0));
    text = gpu_device_open(&device, &driver, &images, NULL, ordinal, why);
    if (text) {
        fprintf(stderr, "%s\n", text);
        _exit(1);
    }
    DONE(gpu_device_enter(&device));
}

static void finish(void)
{
    gpu_ticket all = gpu_mark(&device);

    while (!gpu_passed(&device, all))
        ;
    SAME(device.queue.error, 0);
    gpu_device_leave(&device);
    gpu_device_close(&device);
}

/* ---- opening ---- */

static void leaves_contexts(void)
{
    CUcontext other, now;

    DONE(app.cuInit(0));
    DONE(app.cuDevicePrimaryCtxRetain(&other, 0));
    for (int current = 0; current < 2; current++) {
        DONE(app.cuCtxSetCurrent(current ? other : NULL));
        open_device(1);
        HOLDS(gpu_is_alive(&device));
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
    HOLDS(gpu_device_open(&device, &driver, &images, NULL, 0, why) == why);
    HOLDS(strcmp(why, "the driver is for CUDA 12.4, the kernels need 13.0") == 0);
}

static void an_old_driver_is_told_with_both_versions(void **state)
{
    (void)state;
    passes(open_old, "TEST_CUDA_VERSION=12040");
}

static void open_bad_image(void)
{
    const struct gpu_images bad = {bad_image, 1, 13000};

    DONE(app.cuInit(0));
    HOLDS(gpu_device_open(&device, &driver, &bad, NULL, 1, why) == why);
    HOLDS(strstr(why, "no kernels for test device 1"));
    HOLDS(gpu_device_open(&device, &driver, &images, NULL, 7, why) == why);
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
    HOLDS(gpu_device_open(&device, &driver, &images, NULL, 0, why) == why);
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
    HOLDS(w.device && !w.managed && w.ordinal == 1 && w.context == context);
    w = gpu_where(&driver, (void *)(uintptr_t)pool);
    HOLDS(w.device && w.ordinal == 1 && w.context == NULL);
    w = gpu_where(&driver, (void *)(uintptr_t)managed);
    HOLDS(w.device && w.managed);
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

/* ---- order ---- */

enum { N = 30011 };

/* Input still on its way in the application's default stream; memory of device 1, one buffer from a
 * pool; no context current. */
static void claim_there(void)
{
    const enum ss_type type = SS_F32;
    const size_t bytes = bytes_of(type, N), room = N / 50, work = gpu_claim_work(type, N);
    float *g = malloc(bytes), *r = malloc(bytes), *val = malloc(bytes), *back = malloc(bytes);
    uint32_t *idx = malloc(4 * N);
    struct gpu_input in = {.type = type, .n = N, .base = 3};
    struct gpu_list list = {.room = room};
    struct ss_selection out;
    CUcontext context;
    CUdeviceptr dg, dr;

    for (size_t i = 0; i < N; i++) {
        g[i] = (float)(unit() - 0.5);
        r[i] = (float)(0.1 * (unit() - 0.5));
    }
    DONE(app.cuInit(0));
    DONE(app.cuDevicePrimaryCtxRetain(&context, 1));
    DONE(app.cuCtxSetCurrent(context));
    DONE(app.cuMemAlloc_v2(&dg, bytes));
    DONE(app.cuMemAllocAsync(&dr, bytes, NULL));
    DONE(app.cuMemcpyHtoDAsync_v2(dg, g, bytes, CU_STREAM_LEGACY));
    DONE(app.cuMemcpyHtoDAsync_v2(dr, r, bytes, NULL));
    DONE(app.cuCtxSetCurrent(NULL));

    open_device(gpu_where(&driver, (void *)(uintptr_t)dg).ordinal);
    in.g = (void *)(uintptr_t)dg;
    in.r = (void *)(uintptr_t)dr;
    list.idx = gpu_memory_make(&device, 4 * room);
    list.val = gpu_memory_make(&device, bytes_of(type, room));
    void *area = gpu_memory_make(&device, work);
    struct gpu_claimed *claimed = gpu_pinned_make(&device, sizeof *claimed);
    uint32_t *here = gpu_pinned_make(&device, 4 * room);
    float *values = gpu_pinned_make(&device, 4 * room);
    HOLDS(list.idx && list.val && area && claimed && here && values);
    gpu_after_program(&device);
    gpu_claim(&device.queue, &in, ss_magnitude_of(type, 0.49), NULL, &list, area);
    gpu_download(&device, claimed, area, sizeof *claimed);
    gpu_download(&device, here, list.idx, 4 * room);
    gpu_download(&device, values, list.val, 4 * room);
    gpu_ticket ticket = gpu_mark(&device);
    unsigned polls = 0;
    while (!gpu_passed(&device, ticket))
        polls++;
    HOLDS(polls > 0);
    plain_selectors()->select(type, g, r, N, 3, ss_magnitude_of(type, 0.49), idx, val, room, &out);
    HOLDS(out.claimed == room && out.over > 0);
    SAME(claimed->reached, out.claimed + out.over);
    SAME(claimed->largest, out.largest);
    HOLDS(memcmp(here, idx, 4 * room) == 0 && memcmp(values, val, 4 * room) == 0);
    finish();
    DONE(app.cuCtxSetCurrent(context));
    DONE(app.cuMemcpyDtoH_v2(back, dr, bytes));
    HOLDS(memcmp(back, r, bytes) == 0);
}

static void a_claim_waits_for_the_input_and_equals_the_host(void **state)
{
    static const char *const seeds[] = {"TEST_CUDA_SEED=1", "TEST_CUDA_SEED=2", "TEST_CUDA_SEED=3",
                                        "TEST_CUDA_SEED=77"};

    (void)state;
    for (size_t i = 0; i < 4; i++)
        passes(claim_there, seeds[i]);
}

/* Only this order gives what is wanted in the end. */
static void keep_order(void)
{
    enum { STEPS = 200 };
    gpu_ticket ticket[STEPS];
    uint64_t *seen;
    char *p, *q;

    open_device(0);
    p = gpu_memory_make(&device, 80);
    q = gpu_memory_make(&device, 80);
    seen = gpu_pinned_make(&device, 8 * STEPS);
    for (unsigned i = 0; i < STEPS; i++) {
        DONE(device.queue.fill(&device.queue, p, i, 20));
        gpu_copy(&device, q, p, 80);
        gpu_download(&device, &seen[i], q + 72, 8);
        ticket[i] = gpu_mark(&device);
    }
    for (unsigned i = 0; i < STEPS; i++) {
        while (!gpu_passed(&device, ticket[i]))
            ;
        SAME(seen[i], i * 0x100000001ull);
    }
    HOLDS(gpu_passed(&device, 0) && gpu_passed(&device, ticket[0]));
    finish();
}

static void tickets_pass_in_order_however_many(void **state)
{
    (void)state;
    passes(keep_order, NULL);
}

static void cross_by_slots(void)
{
    enum { TIMES = 100 };
    const size_t bytes = GPU_SLOT_BYTES;
    char *p;
    size_t refused = 0;

    open_device(1);
    p = gpu_memory_make(&device, TIMES * bytes);
    for (int i = 0; i < TIMES; i++) {
        struct gpu_slot *slot;
        while (!(slot = gpu_slot_take(&device)))
            refused++;
        memset(slot->data, i, bytes);
        gpu_upload(&device, p + (size_t)i * bytes, slot->data, bytes);
        gpu_slot_give(slot, gpu_mark(&device));
    }
    HOLDS(refused > 0);
    for (int i = TIMES - 1; i >= 0; i--) {
        struct gpu_slot *slot;
        while (!(slot = gpu_slot_take(&device)))
            ;
        gpu_download(&device, slot->data, p + (size_t)i * bytes, bytes);
        gpu_ticket here = gpu_mark(&device);
        while (!gpu_passed(&device, here))
            ;
        for (size_t j = 0; j < bytes; j += 999)
            SAME(((unsigned char *)slot->data)[j], i);
        gpu_slot_give(slot, 0);
    }
    finish();
}

static void a_slot_is_free_when_what_crossed_in_it_has_passed(void **state)
{
    (void)state;
    passes(cross_by_slots, NULL);
}

static void work_in_a_capture(void)
{
    CUcontext context;
    CUstream stream;
    void *graph;

    DONE(app.cuInit(0));
    DONE(app.cuDevicePrimaryCtxRetain(&context, 0));
    DONE(app.cuCtxSetCurrent(context));
    DONE(app.cuStreamCreate(&stream, 0));
    open_device(0);
    gpu_device_leave(&device);
    DONE(app.cuStreamBeginCapture_v2(stream, 0));
    DONE(gpu_device_enter(&device));
    gpu_after_program(&device);
    float *p = gpu_memory_make(&device, 4000);
    HOLDS(p);
    gpu_clear(&device.queue, SS_F32, p, 1000);
    gpu_memory_free(&device, p, 4000);
    SAME(device.queue.error, 0);
    gpu_device_leave(&device);
    CUdeviceptr q; /* the thread's own mode is back */
    SAME(app.cuMemAlloc_v2(&q, 100), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    DONE(app.cuStreamEndCapture(stream, &graph));
    DONE(gpu_device_enter(&device));
    gpu_after_program(&device);
    finish();
}

static void a_capture_under_way_is_left_alone(void **state)
{
    (void)state;
    passes(work_in_a_capture, NULL);
}

/* ---- what goes wrong ---- */

static void use_all_memory(void)
{
    void *most, *again;

    open_device(0);
    SAME(device.limit, 1 << 20);
    HOLDS(gpu_memory_make(&device, (1 << 20) + 1) == NULL);
    most = gpu_memory_make(&device, 1 << 20);
    HOLDS(most && gpu_memory_make(&device, 1) == NULL);
    gpu_memory_free(&device, most, 1 << 20);
    device.limit = (size_t)-1;
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
    gpu_ticket before = gpu_mark(&device);
    gpu_scale(&device.queue, SS_F32, p, 1000, 2);
    SAME(device.queue.error, 0);
    gpu_scale(&device.queue, SS_F32, p, 1000, 2);
    SAME(device.queue.error, CUDA_ERROR_ILLEGAL_ADDRESS);
    HOLDS(strcmp(gpu_error_name(&driver, device.queue.error), "CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
    gpu_clear(&device.queue, SS_F32, p, 1000);
    HOLDS(gpu_passed(&device, before) && gpu_passed(&device, gpu_mark(&device)));
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
    HOLDS(gpu_is_alive(&device));
    DONE(app.cuDevicePrimaryCtxReset_v2(0));
    HOLDS(!gpu_is_alive(&device));
    DONE(app.cuDevicePrimaryCtxRetain(&context, 0));
    HOLDS(context == device.context && !gpu_is_alive(&device));
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

static void checks_and_measurements_run_through_a_driver(void **state)
{
    (void)state;
    passes(run_checks, NULL);
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
        cmocka_unit_test(a_claim_waits_for_the_input_and_equals_the_host),
        cmocka_unit_test(tickets_pass_in_order_however_many),
        cmocka_unit_test(a_slot_is_free_when_what_crossed_in_it_has_passed),
        cmocka_unit_test(a_capture_under_way_is_left_alone),
        cmocka_unit_test(no_memory_is_not_an_error_that_stays),
        cmocka_unit_test(after_an_error_nothing_is_queued_and_nothing_waits),
        cmocka_unit_test(a_context_that_a_reset_replaced_is_not_taken_for_its_own),
        cmocka_unit_test(checks_and_measurements_run_through_a_driver),
    };
    return cmocka_run_group_tests_name("gpu_device", tests, NULL, NULL);
}
