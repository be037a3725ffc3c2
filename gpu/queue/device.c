#include "gpu/queue/device.h"

#include <stdio.h>
#include <string.h>

enum { WHY = 200, SIGN_BYTES = 64 };

static void *host_of(CUdeviceptr p)
{
    return (void *)(uintptr_t)p;
}

static CUdeviceptr device_of(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

/* Keeps the first error. */
static bool good(struct gpu_device *d, CUresult result)
{
    if (d->queue.error == 0)
        d->queue.error = (int)result;
    return result == CUDA_SUCCESS;
}

/* ---- the queue of gpu/queue/launch.h ---- */

static int queue_launch(struct gpu_queue *q, enum gpu_kernel kernel, unsigned blocks, void **params)
{
    struct gpu_device *d = (struct gpu_device *)(void *)q;

    return (int)d->driver->launch(d->kernel[kernel], blocks, 1, 1, GPU_THREADS, 1, 1, 0, d->stream,
                                  params, NULL);
}

static int queue_fill(struct gpu_queue *q, void *to, uint32_t word, size_t words)
{
    struct gpu_device *d = (struct gpu_device *)(void *)q;

    return (int)d->driver->fill(device_of(to), word, words, d->stream);
}

/* ---- contexts ---- */

int gpu_device_enter(struct gpu_device *d)
{
    CUresult result = d->driver->context_push(d->context);

    if (!good(d, result))
        return (int)result;
    d->capture = CU_STREAM_CAPTURE_MODE_RELAXED;
    good(d, d->driver->capture_mode(&d->capture));
    return CUDA_SUCCESS;
}

void gpu_device_leave(struct gpu_device *d)
{
    CUcontext ours;

    good(d, d->driver->capture_mode(&d->capture));
    good(d, d->driver->context_pop(&ours));
}

/* Finds the driver's number of an allocation, which no later one gets; 0: none. Returns false if
 * the driver does not answer. */
static bool find_number(const struct gpu_driver *driver, const void *p, unsigned long long *number)
{
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void *to[] = {number};

    *number = 0;
    return driver->pointer(1, which, to, device_of(p)) == CUDA_SUCCESS;
}

void gpu_see_whether_gone(struct gpu_device *d)
{
    unsigned long long number;

    if (d->queue.error == 0 && find_number(d->driver, d->sign, &number) && number != d->number)
        d->queue.error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* ---- opening ---- */

static const char *failed(const struct gpu_device *d, char *why, const char *what)
{
    (void)snprintf(why, WHY, "%s: %s", what, gpu_error_name(d->driver, (CUresult)d->queue.error));
    return why;
}

static const char *too_old(const struct gpu_driver *driver, int needed, char *why)
{
    int version = 0;

    if (driver->version(&version) == CUDA_SUCCESS && version / 1000 >= needed / 1000)
        return NULL;
    (void)snprintf(why, WHY, "the driver is for CUDA %d.%d, the kernels need %d.%d", version / 1000,
                   version % 1000 / 10, needed / 1000, needed % 1000 / 10);
    return why;
}

static const char *load(struct gpu_device *d, const struct gpu_modules *modules, char *why)
{
    const size_t most = modules->count < GPU_MODULES_MOST ? modules->count : GPU_MODULES_MOST;
    char name[100] = "";

    while (d->modules < most) {
        if (!good(d, d->driver->module_load(&d->module[d->modules], modules->image[d->modules]))) {
            (void)d->driver->device_name(name, sizeof name, d->device);
            (void)snprintf(why, WHY, "no kernels for %s: %s", name,
                           gpu_error_name(d->driver, (CUresult)d->queue.error));
            return why;
        }
        d->modules++;
    }
    return NULL;
}

/* Finds the kernels. Asks each module only for its own kernels, since tools that watch a program
 * report a name that is not found. */
static const char *find_kernels(struct gpu_device *d, const struct gpu_modules *modules, char *why)
{
    static const char *const names[GPU_KERNELS_ALL] = {
#define NAME(file, name) [GPU_##name] = "ss_" #name,
        GPU_KERNELS(NAME)
#undef NAME
    };

    for (int k = 0; k < GPU_KERNELS_ALL; k++) {
        CUmodule module = d->module[modules->of ? modules->of[k] : 0];
        if (!good(d, d->driver->function(&d->kernel[k], module, names[k])))
            return failed(d, why, names[k]);
    }
    return NULL;
}

static const char *make_parts(struct gpu_device *d, const struct gpu_modules *modules, char *why)
{
    size_t memory = 0;
    const char *text;

    if (!good(d, d->driver->context_device(&d->device)) ||
        !good(d, d->driver->pinned_make(&d->sign, SIGN_BYTES, CU_MEMHOSTALLOC_PORTABLE)) ||
        !good(d, d->driver->device_memory(&memory, d->device)))
        return failed(d, why, "the context of the device");
    (void)find_number(d->driver, d->sign, &d->number);
    d->limit = memory / 4;
    text = modules ? load(d, modules, why) : NULL;
    if (modules && !text)
        text = find_kernels(d, modules, why);
    if (text)
        return text;
    good(d, d->driver->stream_make(&d->stream, CU_STREAM_NON_BLOCKING));
    good(d, d->driver->event_make(&d->ready, CU_EVENT_DISABLE_TIMING));
    for (size_t i = 0; i < GPU_EVENTS; i++)
        good(d, d->driver->event_make(&d->event[i], CU_EVENT_DISABLE_TIMING));
    return d->queue.error == 0 ? NULL : failed(d, why, "a stream and its events");
}

const char *gpu_device_open(struct gpu_device *d, const struct gpu_driver *driver,
                            const struct gpu_modules *modules, CUcontext context, int ordinal,
                            char *why)
{
    const char *text = modules ? too_old(driver, modules->version, why) : NULL;

    if (text)
        return text;
    *d = (struct gpu_device){.queue = {.launch = queue_launch, .fill = queue_fill},
                             .driver = driver,
                             .context = context,
                             .primary = context == NULL};
    if (d->primary && (!good(d, driver->device(&d->device, ordinal)) ||
                       !good(d, driver->primary_retain(&d->context, d->device))))
        return failed(d, why, "the primary context of the device");
    if (gpu_device_enter(d) != CUDA_SUCCESS)
        return failed(d, why, "the context of the device");
    text = make_parts(d, modules, why);
    gpu_device_leave(d);
    if (text)
        gpu_device_close(d);
    return text;
}

static void free_parts(struct gpu_device *d)
{
    const struct gpu_driver *driver = d->driver;

    for (size_t i = 0; i < GPU_SLOTS; i++)
        if (d->slot[i].data)
            (void)driver->pinned_free(d->slot[i].data);
    for (size_t i = 0; i < GPU_EVENTS; i++)
        if (d->event[i])
            (void)driver->event_free(d->event[i]);
    if (d->ready)
        (void)driver->event_free(d->ready);
    if (d->stream)
        (void)driver->stream_free(d->stream);
    for (size_t i = 0; i < d->modules; i++)
        (void)driver->module_unload(d->module[i]);
    if (d->sign)
        (void)driver->pinned_free(d->sign);
}

void gpu_device_close(struct gpu_device *d)
{
    if (d->sign)
        gpu_see_whether_gone(d);
    if (d->queue.error != CUDA_ERROR_CONTEXT_IS_DESTROYED && gpu_device_enter(d) == CUDA_SUCCESS) {
        if (d->stream)
            (void)d->driver->stream_finish(d->stream);
        free_parts(d);
        gpu_device_leave(d);
        if (d->primary)
            (void)d->driver->primary_release(d->device);
    }
    *d = (struct gpu_device){.driver = d->driver};
}

/* ---- order ---- */

bool gpu_after_program(struct gpu_device *d)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result;

    if (d->queue.error != 0)
        return false;
    /* An error tells of a capture that work in the default stream would spoil. */
    if (d->driver->stream_capturing(CU_STREAM_LEGACY, &status) != CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_NONE)
        return false;
    result = d->driver->event_record(d->ready, CU_STREAM_LEGACY);
    return result != CUDA_ERROR_STREAM_CAPTURE_IMPLICIT && /* a capture begun just now */
           good(d, result) && good(d, d->driver->stream_wait(d->stream, d->ready, 0));
}

gpu_ticket gpu_record(struct gpu_device *d)
{
    /* If all events are in use, records the newest event again. The tickets of that event then pass
     * later. */
    if (d->recorded - d->passed < GPU_EVENTS || gpu_passed(d, d->passed + 1))
        d->recorded++;
    if (d->queue.error == 0)
        good(d, d->driver->event_record(d->event[d->recorded % GPU_EVENTS], d->stream));
    return d->recorded;
}

bool gpu_passed(struct gpu_device *d, gpu_ticket ticket)
{
    while (d->queue.error == 0 && d->passed < ticket) {
        const CUresult result = d->driver->event_query(d->event[(d->passed + 1) % GPU_EVENTS]);
        if (result == CUDA_ERROR_NOT_READY)
            return false;
        if (good(d, result))
            d->passed++;
    }
    return true;
}

/* ---- memory ---- */

void *gpu_memory_make(struct gpu_device *d, size_t bytes)
{
    CUdeviceptr p = 0;
    CUresult result;

    if (d->queue.error != 0)
        return NULL;
    result = d->driver->memory_make(&p, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY || !good(d, result))
        return NULL;
    d->used += bytes;
    return host_of(p);
}

bool gpu_is_within(const struct gpu_device *d, size_t bytes)
{
    return bytes <= d->limit && d->used <= d->limit - bytes;
}

void gpu_memory_free(struct gpu_device *d, void *memory, size_t bytes)
{
    if (!memory)
        return;
    d->used -= bytes;
    good(d, d->driver->memory_free(device_of(memory)));
}

static CUresult enter_beside(const struct gpu_device *d, CUstreamCaptureMode *mode)
{
    const CUresult result = d->driver->context_push(d->context);

    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (result == CUDA_SUCCESS)
        (void)d->driver->capture_mode(mode);
    return result;
}

static void leave_beside(const struct gpu_device *d, CUstreamCaptureMode *mode)
{
    CUcontext ours;

    (void)d->driver->capture_mode(mode);
    (void)d->driver->context_pop(&ours);
}

void gpu_look_for_error(struct gpu_device *d)
{
    CUstreamCaptureMode mode;
    CUresult result;

    if (d->queue.error != 0 || enter_beside(d, &mode) != CUDA_SUCCESS)
        return;
    result = d->driver->event_query(d->ready);
    leave_beside(d, &mode);
    if (result != CUDA_ERROR_NOT_READY && result != CUDA_ERROR_DEINITIALIZED &&
        result != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        good(d, result);
}

int gpu_memory_make_beside(const struct gpu_device *d, size_t bytes, void **memory)
{
    CUstreamCaptureMode mode;
    CUdeviceptr p = 0;
    CUresult result = enter_beside(d, &mode);

    if (result != CUDA_SUCCESS)
        return (int)result;
    result = d->driver->memory_make(&p, bytes);
    leave_beside(d, &mode);
    *memory = result == CUDA_SUCCESS ? host_of(p) : NULL;
    return (int)result;
}

int gpu_memory_free_beside(const struct gpu_device *d, void *memory)
{
    CUstreamCaptureMode mode;
    CUresult result = enter_beside(d, &mode);

    if (result != CUDA_SUCCESS)
        return (int)result;
    result = d->driver->memory_free(device_of(memory));
    leave_beside(d, &mode);
    return (int)result;
}

void gpu_note_beside(struct gpu_device *d, int error)
{
    if (error != CUDA_ERROR_OUT_OF_MEMORY)
        good(d, (CUresult)error);
}

void *gpu_pinned_make(struct gpu_device *d, size_t bytes)
{
    void *p = NULL;
    CUresult result;

    if (d->queue.error != 0)
        return NULL;
    result = d->driver->pinned_make(&p, bytes, CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_ERROR_OUT_OF_MEMORY || !good(d, result))
        return NULL;
    return p;
}

void gpu_pinned_free(struct gpu_device *d, void *memory)
{
    if (memory)
        good(d, d->driver->pinned_free(memory));
}

bool gpu_slots_make(struct gpu_device *d)
{
    bool all = true;

    for (size_t i = 0; i < GPU_SLOTS && all; i++) {
        if (!d->slot[i].data)
            d->slot[i].data = gpu_pinned_make(d, GPU_SLOT_BYTES);
        all = d->slot[i].data != NULL;
    }
    return all;
}

struct gpu_slot *gpu_slot_take(struct gpu_device *d)
{
    struct gpu_slot *slot = &d->slot[d->next_slot % GPU_SLOTS];

    if (slot->busy == UINT64_MAX || !gpu_passed(d, slot->busy))
        return NULL;
    if (!slot->data && !(slot->data = gpu_pinned_make(d, GPU_SLOT_BYTES)))
        return NULL;
    d->next_slot++;
    slot->busy = UINT64_MAX;
    return slot;
}

void gpu_slot_give(struct gpu_slot *slot, gpu_ticket busy)
{
    slot->busy = busy;
}

struct gpu_crossed gpu_crossed;

static void count(atomic_ullong *crossed, size_t bytes)
{
    atomic_fetch_add_explicit(crossed, bytes, memory_order_relaxed);
}

void gpu_upload(struct gpu_device *d, void *to, const void *from, size_t bytes)
{
    if (d->queue.error == 0 && bytes > 0 &&
        good(d, d->driver->upload(device_of(to), from, bytes, d->stream)))
        count(&gpu_crossed.to_device, bytes);
}

void gpu_download(struct gpu_device *d, void *to, const void *from, size_t bytes)
{
    if (d->queue.error == 0 && bytes > 0 &&
        good(d, d->driver->download(to, device_of(from), bytes, d->stream)))
        count(&gpu_crossed.to_host, bytes);
}

void gpu_copy(struct gpu_device *d, void *to, const void *from, size_t bytes)
{
    if (d->queue.error == 0 && bytes > 0)
        good(d, d->driver->copy(device_of(to), device_of(from), bytes, d->stream));
}

/* Asks for three attributes in one call: with drivers of 2025, a call per attribute is many times
 * slower. */
struct gpu_where gpu_where(const struct gpu_driver *driver, const void *p)
{
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned type = 0;
    struct gpu_where where = {.ordinal = -1};
    void *to[] = {&type, &where.context, &where.ordinal};

    const CUresult result = driver->pointer(3, which, to, device_of(p));

    if (result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_DEINITIALIZED)
        return (struct gpu_where){.ordinal = -1}; /* no device memory exists */
    if (result != CUDA_SUCCESS)
        return (struct gpu_where){.ordinal = -1, .error = result};
    where.device = type == CU_MEMORYTYPE_DEVICE;
    return where;
}
