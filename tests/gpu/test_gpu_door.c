/* What the preloaded library asks of the one for devices, on the driver for tests: backends, and
 * copies of what lies there. */
#include "core/backend/pieces.h"
#include "gpu/door.h"
#include "gpu/queue/modules.h"
#include "tests/gpu/device_case.h"

const struct gpu_modules gpu_modules = {good_image, 1, 13000, NULL};

static const struct gpu_door *const door = &sparseshim_cuda;

/* Memory of a device, made by the program. */
static CUdeviceptr memory_of(int ordinal, size_t bytes)
{
    CUcontext context;
    CUdeviceptr p;

    DONE(app.cuDevicePrimaryCtxRetain(&context, ordinal));
    DONE(app.cuCtxSetCurrent(context));
    DONE(app.cuMemAlloc_v2(&p, bytes));
    return p;
}

static const void *pointer(CUdeviceptr p)
{
    return (const void *)(uintptr_t)p;
}

static void begin(void)
{
    DONE(app.cuInit(0));
    HOLDS(door->start(libcuda) == NULL);
}

static int wait_for(const struct ss_staged *s)
{
    int status;

    while ((status = ss_staged_poll(s)) == SS_PENDING)
        ;
    return status;
}

/* Copies a range of a vector to the host, changes it, and copies it back: short and long, through
 * pinned blocks, and through slots once all blocks are out. */
static void copy_there_and_back(void)
{
    static const size_t lengths[] = {1, 1000, (4 << 20) - 3, (9 << 20) + 1};
    enum { BLOCKS = 10 };
    struct ss_staged out[BLOCKS] = {{NULL}};
    const CUdeviceptr p = memory_of(0, 10 << 20);
    unsigned char *seen = malloc(10 << 20);
    struct ss_backend *backend = door->backend(pointer(p), pointer(p), why);

    HOLDS(backend && !why[0]);
    for (int round = 0; round < 2; round++) {
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            const size_t n = lengths[l];
            struct ss_staged s = {NULL};
            memset(seen, (int)(1 + l), 10 << 20);
            DONE(app.cuMemcpyHtoDAsync_v2(p, seen, 10 << 20, CU_STREAM_LEGACY));
            HOLDS(door->backend(pointer(p), pointer(p), why) == backend); /* behind that copy */
            HOLDS(ss_staged_make(&s, backend, pointer(p + 5), n));
            ss_staged_fetch(&s);
            SAME(wait_for(&s), SS_OK);
            HOLDS(s.host[0] == (char)(1 + l) && s.host[n - 1] == (char)(1 + l));
            memset(s.host, 99, n);
            ss_staged_store(&s, n / 2, n - n / 2);
            SAME(wait_for(&s), SS_OK);
            ss_staged_free(&s);
            DONE(app.cuMemcpyDtoH_v2(seen, p, 10 << 20));
            for (size_t i = 0; i < 10 << 20; i++)
                SAME(seen[i], i < 5 + n / 2 || i >= 5 + n ? 1 + l : 99);
        }
        for (int i = 0; i < BLOCKS && round == 0; i++)
            HOLDS(ss_staged_make(&out[i], backend, pointer(p), 10));
    }
    for (int i = 0; i < BLOCKS; i++)
        ss_staged_free(&out[i]);
}

static void begin_and_copy(void)
{
    begin();
    copy_there_and_back();
}

static void ranges_come_and_go(void **state)
{
    (void)state;
    passes(begin_and_copy, "TEST_CUDA_SEED=1");
    passes(begin_and_copy, "TEST_CUDA_SEED=7");
}

static void copy_without_kernels(void)
{
    struct ss_backend *backend;
    CUdeviceptr p;

    begin();
    p = memory_of(0, 100);
    backend = door->backend(pointer(p), pointer(p), why);
    HOLDS(backend && !backend->ops->reserve);
    HOLDS(strstr(why, "the kernels need 13.0"));
    HOLDS(door->backend(pointer(p), pointer(p), why) == backend && !why[0]);
    copy_there_and_back();
}

static void a_device_without_kernels_copies_all_the_same(void **state)
{
    (void)state;
    passes(copy_without_kernels, "TEST_CUDA_VERSION=12040");
}

static void find_none(void)
{
    CUdeviceptr p;

    begin();
    p = memory_of(0, 100);
    for (int i = 0; i < 2; i++) {
        HOLDS(door->backend(pointer(p), pointer(p), why) == NULL);
        HOLDS(strstr(why, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    }
}

static void a_device_that_has_failed_has_no_backend(void **state)
{
    (void)state;
    passes(find_none, "TEST_CUDA_FAIL=cuMemHostAlloc:1:700");
}

static void reset_behind_a_drop(void)
{
    enum { BYTES = 4000 };
    struct ss_staged s = {NULL};
    struct ss_backend *backend;
    struct ss_buf buf;
    CUdeviceptr p;

    begin();
    p = memory_of(0, BYTES);
    backend = door->backend(pointer(p), pointer(p), why);
    HOLDS(backend && backend->ops->make(backend, NULL, &buf, BYTES) == SS_OK);
    backend->ops->drop(backend, &buf);
    HOLDS(ss_staged_make(&s, backend, pointer(p), BYTES));
    DONE(app.cuDevicePrimaryCtxReset_v2(0));
    p = memory_of(0, BYTES);
    HOLDS(door->backend(pointer(p), pointer(p), why) == NULL);
    HOLDS(strcmp(why, "CUDA_ERROR_CONTEXT_IS_DESTROYED") == 0);
    ss_staged_fetch(&s);
    SAME(wait_for(&s), SS_ERR_DEVICE);
    HOLDS(strcmp(door->error(backend), why) == 0);
    ss_staged_free(&s);
}

static void behind_a_reset_the_backend_has_failed(void **state)
{
    (void)state;
    passes(reset_behind_a_drop, NULL);
}

/* Asks for the backend of another device whenever the driver is at work that may take long. */
static struct {
    CUdeviceptr other;
    unsigned loads;
} watch;

static void look(const char *function)
{
    static bool within;

    watch.loads += strcmp(function, "cuModuleLoadData") == 0;
    if (within || !watch.other)
        return;
    within = true;
    HOLDS(door->backend(pointer(watch.other), pointer(watch.other), why));
    within = false;
}

/* While the first backend loads its kernels another thread asks for that of another device. */
static void open_two(void)
{
    void (*set)(void (*)(const char *));
    CUdeviceptr first;

    begin();
    *(void **)&set = emulated_symbol(libcuda, "test_cuda_watch");
    set(look);
    first = memory_of(0, 1000);
    watch.other = memory_of(1, 1000);
    struct ss_backend *a = door->backend(pointer(first), pointer(first), why);
    struct ss_backend *b = door->backend(pointer(watch.other), pointer(watch.other), why);
    HOLDS(a && b && a != b);
    SAME(watch.loads, 2);
    HOLDS(door->backend(pointer(first), pointer(watch.other), why) == NULL);
    SAME(why[0], 0);
}

static void a_backend_that_is_opened_does_not_hold_up_another(void **state)
{
    (void)state;
    passes(open_two, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_come_and_go),
        cmocka_unit_test(a_device_without_kernels_copies_all_the_same),
        cmocka_unit_test(a_device_that_has_failed_has_no_backend),
        cmocka_unit_test(behind_a_reset_the_backend_has_failed),
        cmocka_unit_test(a_backend_that_is_opened_does_not_hold_up_another),
    };
    return cmocka_run_group_tests_name("gpu_door", tests, NULL, NULL);
}
