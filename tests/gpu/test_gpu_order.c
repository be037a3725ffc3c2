/* Work of a device on a driver for tests, which does it late: what is queued comes in order, behind
 * the application's own, and nothing waits. */
#include "tests/gpu/check_cases.h"
#include "tests/gpu/device_case.h"

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
    gpu_ticket ticket = gpu_record(&device);
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
        ticket[i] = gpu_record(&device);
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
        gpu_slot_give(slot, gpu_record(&device));
    }
    HOLDS(refused > 0);
    for (int i = TIMES - 1; i >= 0; i--) {
        struct gpu_slot *slot;
        while (!(slot = gpu_slot_take(&device)))
            ;
        gpu_download(&device, slot->data, p + (size_t)i * bytes, bytes);
        gpu_ticket here = gpu_record(&device);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_waits_for_the_input_and_equals_the_host),
        cmocka_unit_test(tickets_pass_in_order_however_many),
        cmocka_unit_test(a_slot_is_free_when_what_crossed_in_it_has_passed),
        cmocka_unit_test(a_capture_under_way_is_left_alone),
    };
    return cmocka_run_group_tests_name("gpu_order", tests, NULL, NULL);
}
