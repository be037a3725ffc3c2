/* A device as one context of the program sees it: the kernels, a stream, device memory, and pinned
 * memory for copies. All work is queued in one stream in the order of the calls. The stream waits
 * for no other stream by itself. Only gpu_device_close waits for the device.
 *
 * Between gpu_device_enter and gpu_device_leave the calling thread has the context and may call the
 * other functions, one thread at a time. The first error stays in `queue.error`, as the driver's
 * number. After an error nothing more is queued, and all tickets have passed.
 */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include <stdatomic.h>

#include "gpu/queue/driver.h"
#include "gpu/queue/launch.h"

enum { GPU_SLOTS = 32, GPU_SLOT_BYTES = 1 << 20, GPU_EVENTS = 64, GPU_MODULES_MOST = 16 };

/* The compiled kernels: fat binaries, and the CUDA version that they need. */
struct gpu_modules {
    const void *const *image;
    size_t count;
    int version;             /* as cuDriverGetVersion returns it: 13000 */
    const unsigned char *of; /* the image of each kernel; NULL: the first */
};

/* Number of the work queued so far. gpu_passed tells whether that work is done. 0 is always
 * done. */
typedef uint64_t gpu_ticket;

struct gpu_slot {
    void *data; /* GPU_SLOT_BYTES of pinned memory; NULL before the first use */
    gpu_ticket busy;
};

struct gpu_device {
    struct gpu_queue queue; /* for gpu/queue/launch.h */
    const struct gpu_driver *driver;
    CUcontext context;
    CUdevice device;
    bool primary;              /* the context is the device's own, retained */
    void *sign;                /* pinned memory that the driver frees with the context */
    unsigned long long number; /* the driver's number of `sign` */
    CUmodule module[GPU_MODULES_MOST];
    size_t modules;
    CUfunction kernel[GPU_KERNELS_ALL];
    CUstream stream;
    CUevent ready; /* the program's work queued before the last gpu_after_program */
    CUevent event[GPU_EVENTS];
    gpu_ticket recorded, passed;
    struct gpu_slot slot[GPU_SLOTS];
    size_t next_slot;
    size_t used, limit;          /* bytes of device memory */
    CUstreamCaptureMode capture; /* capture mode of the thread that has the context */
};

/* Opens a context; for NULL the device's primary one. modules NULL: only copies. Returns NULL, or
 * the reason of a failure: no memory, a driver that is too old, no kernels for this device. `why`
 * has room for 200 bytes. */
const char *gpu_device_open(struct gpu_device *d, const struct gpu_driver *driver,
                            const struct gpu_modules *modules, CUcontext context, int ordinal,
                            char *why);

/* Waits for queued work and frees everything. Frees nothing if the context is gone or the process
 * ends, since the driver has freed it then. */
void gpu_device_close(struct gpu_device *d);

/* Sets the error if the context is gone. Never touches the context, since a driver may read what a
 * destroyed context has left. */
void gpu_see_whether_gone(struct gpu_device *d);
/* Notes an error that stays with the context, even one of the program's own work. */
void gpu_look_for_error(struct gpu_device *d);

/* Gives the context to the calling thread. Works also while the program captures a graph, which
 * does not get this library's work. Returns the driver's error. */
int gpu_device_enter(struct gpu_device *d);
void gpu_device_leave(struct gpu_device *d);

/* Orders all later work after the work that the program has queued in its default stream and in the
 * streams that wait for that one. Returns false if this failed: such a stream is captured, or an
 * error has come. */
bool gpu_after_program(struct gpu_device *d);

gpu_ticket gpu_record(struct gpu_device *d);
bool gpu_passed(struct gpu_device *d, gpu_ticket ticket);

/* Allocates device memory, aligned to 256 bytes and not cleared. Returns NULL if none is left,
 * which is not an error that stays. May wait for the device. For memory that a caller can do
 * without, the caller first asks gpu_is_within whether the limit allows so many bytes more. */
void *gpu_memory_make(struct gpu_device *d, size_t bytes);
bool gpu_is_within(const struct gpu_device *d, size_t bytes);
void gpu_memory_free(struct gpu_device *d, void *memory, size_t bytes);

/* Do the same in any thread, even while another thread has the context. The caller counts `used`.
 * Return the driver's error. */
int gpu_memory_make_beside(const struct gpu_device *d, size_t bytes, void **memory);
int gpu_memory_free_beside(const struct gpu_device *d, void *memory);
/* Notes an error of these functions. Lack of memory is not an error that stays. */
void gpu_note_beside(struct gpu_device *d, int error);

/* Pinned memory of any size. */
void *gpu_pinned_make(struct gpu_device *d, size_t bytes);
void gpu_pinned_free(struct gpu_device *d, void *memory);

/* Makes the memory of all slots. Returns false if there is not enough. */
bool gpu_slots_make(struct gpu_device *d);

/* Takes the next slot if its last use has passed, else returns NULL. The caller fills the slot or
 * lets a copy come to it. The caller then gives the slot back with the ticket of this use (0: the
 * slot is free). */
struct gpu_slot *gpu_slot_take(struct gpu_device *d);
void gpu_slot_give(struct gpu_slot *slot, gpu_ticket busy);

/* Queue a copy. The host's memory is pinned and does not change until a later ticket has passed. */
void gpu_upload(struct gpu_device *d, void *to, const void *from, size_t bytes);
void gpu_download(struct gpu_device *d, void *to, const void *from, size_t bytes);
void gpu_copy(struct gpu_device *d, void *to, const void *from, size_t bytes);

/* Bytes that gpu_upload and gpu_download have copied over the link, for measurements. */
struct gpu_crossed {
    atomic_ullong to_device, to_host;
};
extern struct gpu_crossed gpu_crossed;

/* The owner of an address. */
struct gpu_where {
    bool device;       /* device memory, or managed memory, which kernels reach, too */
    CUcontext context; /* NULL: the memory belongs to no single context */
    int ordinal;
    /* error of the driver's answer; an error of the program stays with its context */
    CUresult error;
};
struct gpu_where gpu_where(const struct gpu_driver *driver, const void *p);

#endif
