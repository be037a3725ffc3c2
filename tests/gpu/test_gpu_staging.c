/* What the preloaded library asks of the one for devices, on the driver for tests: images of device
 * memory, and places. */
#include "core/place/place.h"
#include "gpu/images.h"
#include "gpu/staging.h"
#include "tests/gpu/device_case.h"

const struct gpu_images gpu_images = {good_image, 1, 13000, NULL};

static const struct gpu_staging *const staging = &sparseshim_cuda;

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
    HOLDS(staging->start(libcuda) == NULL);
}

static void write_from(CUdeviceptr to, const int *from, size_t n)
{
    DONE(app.cuMemcpyHtoDAsync_v2(to, from, n * sizeof *from, CU_STREAM_LEGACY));
}

static int *pinned(size_t n, int value)
{
    void *p;

    DONE(app.cuMemHostAlloc(&p, n * sizeof(int), 0));
    for (size_t i = 0; i < n; i++)
        ((int *)p)[i] = value;
    return p;
}

/* Fetched in 64 images, of which each was asked for between two writes of the program. How many
 * hold what was there when they were asked for; the others have the later one. */
static unsigned fetch_between(bool behind)
{
    enum { N = 1000, TURNS = 64 };
    const CUdeviceptr p = memory_of(0, N * sizeof(int));
    unsigned early = 0;
    int *written[2];

    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < 2; i++)
            written[i] = pinned(N, 10 * turn + i);
        struct gpu_image *image = staging->take(pointer(p), N * sizeof(int), 1 << 20, true, why);
        HOLDS(image);
        write_from(p, written[0], N);
        if (behind)
            staging->behind(image);
        write_from(p, written[1], N);
        staging->download(image);
        while (staging->poll(image) > 0)
            ;
        SAME(staging->poll(image), 0);
        const int *got = staging->host(image);
        for (size_t i = 1; i < N; i++)
            SAME(got[i], got[0]);
        HOLDS(got[0] == 10 * turn || got[0] == 10 * turn + 1);
        early += got[0] == 10 * turn;
        staging->give(image);
    }
    return early;
}

static void fetch_behind(void)
{
    begin();
    HOLDS(fetch_between(true) > 0);
}

static void fetch_at_the_end(void)
{
    begin();
    SAME(fetch_between(false), 0);
}

/* Pieces of one call come after what the program has queued when it made the call, and do not wait
 * for what it queues behind it. */
static void an_image_comes_behind_what_was_queued_when_it_was_said(void **state)
{
    (void)state;
    passes(fetch_behind, "TEST_CUDA_SEED=1");
    passes(fetch_behind, "TEST_CUDA_SEED=7");
    passes(fetch_at_the_end, "TEST_CUDA_SEED=1");
    passes(fetch_at_the_end, "TEST_CUDA_SEED=7");
}

/* An image that nothing is under way for: whoever may look at it is told so. */
static struct {
    struct gpu_image *idle;
    CUdeviceptr other; /* memory of another device */
    unsigned pins, frees, loads, held;
} watch;

static void look(const char *function)
{
    static bool within;

    watch.pins += strcmp(function, "cuMemHostAlloc") == 0;
    watch.frees += strcmp(function, "cuMemFreeHost") == 0;
    watch.loads += strcmp(function, "cuModuleLoadData") == 0;
    if (within)
        return;
    within = true;
    if (watch.idle)
        watch.held += staging->poll(watch.idle) != 0;
    if (watch.other)
        HOLDS(staging->place(pointer(watch.other), 1000, pointer(watch.other), 1000, why));
    within = false;
}

static void begin_watched(void)
{
    void (*set)(void (*)(const char *));

    begin();
    *(void **)&set = emulated_symbol(libcuda, "test_cuda_watch");
    set(look);
}

/* More of them than are kept, and more bytes than may be pinned. */
static void pin_and_free(void)
{
    enum { IMAGES = 40, BYTES = 300000 };
    struct gpu_image *image[IMAGES];
    CUdeviceptr p;

    begin_watched();
    p = memory_of(0, BYTES);
    watch.idle = staging->take(pointer(p), BYTES, (size_t)-1, true, why);
    for (int round = 0; round < 3; round++) {
        const size_t bytes = BYTES >> (2 * round), limit = round < 2 ? (size_t)-1 : 20 * BYTES;
        for (int i = 0; i < IMAGES; i++) {
            image[i] = staging->take(pointer(p), bytes, limit, false, why);
            HOLDS(image[i]);
            memset(staging->host(image[i]), i, bytes);
        }
        for (int i = 0; i < IMAGES; i++) {
            HOLDS(((char *)staging->host(image[i]))[bytes - 1] == i);
            staging->give(image[i]);
        }
        const unsigned frees = watch.frees;
        staging->give(staging->take(pointer(p), bytes, limit, false, why));
        HOLDS(round > 0 || watch.frees == frees);
        staging->trim();
    }
    HOLDS(watch.pins > IMAGES && watch.frees > IMAGES);
    SAME(watch.held, 0);
    HOLDS(staging->take(pointer(p), BYTES, 0, true, why) == NULL);
    HOLDS(strstr(why, "no memory on the host for 300000 bytes of a device"));
    staging->give(watch.idle);
    watch.idle = NULL;
}

static void run_out(void)
{
    enum { BYTES = 300000 };
    struct gpu_image *image;
    CUdeviceptr p;

    begin();
    p = memory_of(0, BYTES);
    HOLDS(staging->take(pointer(p), BYTES, (size_t)-1, true, why) == NULL);
    image = staging->take(pointer(p), BYTES, BYTES + 1, false, why); /* no longer out of memory */
    HOLDS(image && staging->poll(image) == 0);
    staging->give(image);
}

static void nobody_waits_while_memory_is_pinned_or_let_go(void **state)
{
    (void)state;
    passes(pin_and_free, NULL);
    passes(run_out, "TEST_CUDA_FAIL=cuMemHostAlloc:1:2");
}

/* While the first place loads its kernels another thread asks for that of another device. */
static void open_two(void)
{
    CUdeviceptr first;

    begin_watched();
    first = memory_of(0, 1000);
    watch.other = memory_of(1, 1000);
    struct ss_place *a = staging->place(pointer(first), 1000, pointer(first), 1000, why);
    struct ss_place *b =
        staging->place(pointer(watch.other), 1000, pointer(watch.other), 1000, why);
    HOLDS(a && b && a != b);
    SAME(watch.loads, 2);
    HOLDS(staging->place(pointer(first), 1000, pointer(watch.other), 1000, why) == NULL);
    SAME(why[0], 0);
}

static void a_place_that_is_opened_does_not_hold_up_another(void **state)
{
    (void)state;
    passes(open_two, NULL);
}

/* What a place has let go lies in a context that is gone when a call comes that uses no place. */
static void reset_behind_a_drop(void)
{
    enum { BYTES = 4000 };
    struct gpu_image *image;
    struct ss_place *place;
    struct ss_buf buf;
    CUdeviceptr p;

    begin();
    p = memory_of(0, BYTES);
    place = staging->place(pointer(p), BYTES, pointer(p), BYTES, why);
    HOLDS(place && place->ops->make(place, NULL, &buf, BYTES) == SS_OK);
    place->ops->drop(place, &buf);
    DONE(app.cuDevicePrimaryCtxReset_v2(0));
    p = memory_of(0, BYTES);
    image = staging->take(pointer(p), BYTES, (size_t)-1, false, why);
    HOLDS(image);
    staging->download(image);
    while (staging->poll(image) > 0)
        ;
    staging->give(image);
    staging->trim();
}

static void what_is_let_go_before_a_reset_is_not_looked_at_after_it(void **state)
{
    (void)state;
    passes(reset_behind_a_drop, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_image_comes_behind_what_was_queued_when_it_was_said),
        cmocka_unit_test(nobody_waits_while_memory_is_pinned_or_let_go),
        cmocka_unit_test(a_place_that_is_opened_does_not_hold_up_another),
        cmocka_unit_test(what_is_let_go_before_a_reset_is_not_looked_at_after_it),
    };
    return cmocka_run_group_tests_name("gpu_staging", tests, NULL, NULL);
}
