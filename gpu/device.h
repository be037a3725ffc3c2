/* One device as one context of the program sees it: our kernels, our stream, memory and the pinned
 * memory that data crosses in. All work is queued in call order in one stream that waits for no
 * other by itself. Nothing here waits for the device but gpu_device_close.
 *
 * Between gpu_device_enter and gpu_device_leave the calling thread has the context and may use the
 * rest. One thread at a time. What fails is in `queue.error`, the driver's number, and stays:
 * nothing more is queued then, and all tickets have passed. */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include <stdatomic.h>

#include "gpu/driver.h"
#include "gpu/launch.h"

enum { GPU_SLOTS = 32, GPU_SLOT_BYTES = 1 << 20, GPU_MARKS = 64, GPU_IMAGES_MOST = 16 };

/* What the kernels were compiled to: fat binaries, and the CUDA version they need. */
struct gpu_images {
    const void *const *image;
    size_t count;
    int version;             /* as cuDriverGetVersion has it: 13000 */
    const unsigned char *of; /* each kernel: which image it is in; NULL: in the first */
};

/* Work queued so far: it is done once gpu_passed says so, and all before it. 0 is done. */
typedef uint64_t gpu_ticket;

struct gpu_slot {
    void *data; /* GPU_SLOT_BYTES of pinned memory, made when first used if not before */
    gpu_ticket busy;
};

struct gpu_device {
    struct gpu_queue queue; /* for gpu/launch.h */
    const struct gpu_driver *driver;
    CUcontext context;
    CUdevice device;
    bool primary;              /* the context is the device's own, retained */
    void *sign;                /* pinned memory, which is gone with the context; */
    unsigned long long number; /* the driver's number of it */
    CUmodule module[GPU_IMAGES_MOST];
    size_t modules;
    CUfunction kernel[GPU_KERNELS_ALL];
    CUstream stream;
    CUevent ready; /* what the program has queued */
    CUevent mark[GPU_MARKS];
    gpu_ticket marked, passed;
    struct gpu_slot slot[GPU_SLOTS];
    size_t next_slot;
    size_t used, limit;          /* bytes of device memory */
    CUstreamCaptureMode capture; /* of the thread within */
};

/* The state of a context; of NULL the device's primary one. images NULL: for copies alone. NULL, or
 * why there is none: no memory, a driver that is too old, no kernels for this device. `why` has
 * room for 200 bytes. */
const char *gpu_device_open(struct gpu_device *d, const struct gpu_driver *driver,
                            const struct gpu_images *images, CUcontext context, int ordinal,
                            char *why);

/* Waits for what is queued. Where the context is gone, or the process ends, all is gone. */
void gpu_device_close(struct gpu_device *d);

/* The context is gone: that is an error that stays. Never touches the context, since a driver may
 * read what a destroyed one has left. */
void gpu_see_whether_gone(struct gpu_device *d);
/* Notes an error that stays with the context, which may be the program's. */
void gpu_look_for_error(struct gpu_device *d);

/* Also within a capture of a graph that the program has under way, which none of this belongs to.
 * The driver's error. */
int gpu_device_enter(struct gpu_device *d);
void gpu_device_leave(struct gpu_device *d);

/* What is queued from here on comes after what the program has queued in its default stream and in
 * the streams that wait for that. False: it does not, since such a stream is captured, or nothing
 * goes any more. */
bool gpu_after_program(struct gpu_device *d);

gpu_ticket gpu_mark(struct gpu_device *d);
bool gpu_passed(struct gpu_device *d, gpu_ticket ticket);

/* Device memory, aligned to 256 bytes, not cleared: NULL where there is none left, which is not an
 * error that stays. May wait for the device. Whoever can do without it looks first whether so many
 * bytes more are within the limit. */
void *gpu_memory_make(struct gpu_device *d, size_t bytes);
bool gpu_is_within(const struct gpu_device *d, size_t bytes);
void gpu_memory_free(struct gpu_device *d, void *memory, size_t bytes);

/* The same by any thread, beside one that is within: `used` is the caller's to keep. The driver's
 * error. */
int gpu_memory_make_beside(const struct gpu_device *d, size_t bytes, void **memory);
int gpu_memory_free_beside(const struct gpu_device *d, void *memory);
int gpu_pinned_make_beside(const struct gpu_device *d, size_t bytes, void **memory);
int gpu_pinned_free_beside(const struct gpu_device *d, void *memory);
/* What one of them gave: running out is not an error that stays. */
void gpu_note_beside(struct gpu_device *d, int error);

/* Pinned memory of any size. */
void *gpu_pinned_make(struct gpu_device *d, size_t bytes);
void gpu_pinned_free(struct gpu_device *d, void *memory);

/* All slots have their memory from here on. False: there is not enough. */
bool gpu_slots_make(struct gpu_device *d);

/* The next of the slots, if what last crossed in it has passed, else NULL. The caller fills it or
 * lets something come to it, then gives it back with the ticket of its last use (0: it is free). */
struct gpu_slot *gpu_slot_take(struct gpu_device *d);
void gpu_slot_give(struct gpu_slot *slot, gpu_ticket busy);

/* Queued. The host's side is pinned and stays as it is until a ticket after it has passed. */
void gpu_upload(struct gpu_device *d, void *to, const void *from, size_t bytes);
void gpu_download(struct gpu_device *d, void *to, const void *from, size_t bytes);
void gpu_copy(struct gpu_device *d, void *to, const void *from, size_t bytes);

/* What these asked the driver to carry over the link, in all: for who measures it. */
struct gpu_crossed {
    atomic_ullong to_device, to_host;
};
extern struct gpu_crossed gpu_crossed;

/* Whose memory is it? */
struct gpu_where {
    bool device;       /* or managed memory, which its kernels reach, too */
    CUcontext context; /* NULL: of the device at large */
    int ordinal;
    CUresult error; /* the driver does not say: an error of the program's stays with a context */
};
struct gpu_where gpu_where(const struct gpu_driver *driver, const void *p);

#endif
