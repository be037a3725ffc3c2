/* The only symbol of libsparseshim_cuda.so, sparseshim_cuda. The preloaded library asks it who owns
 * an address, and for the backend (core/backend/backend.h) that serves a buffer there. Any thread
 * may call the functions. The program's contexts stay as they were. */
#ifndef GPU_DOOR_H
#define GPU_DOOR_H

#include <stdbool.h>
#include <stddef.h>

struct ss_backend;

enum { GPU_DOOR_VERSION = 8, GPU_WHY = 200 };

struct gpu_door {
    unsigned version;

    /* Called once, before all else. library: a handle of the libcuda that the program has loaded.
     * Returns NULL, or the name of a function that it lacks. */
    const char *(*start)(void *library);

    /* Returns true for memory of a device and managed memory. */
    bool (*on_device)(const void *p);

    /* Returns the backend of two buffers. The backend orders its work after what the program has
     * queued in its default stream by now. A backend lasts as long as the process. May wait for the
     * device: call it without a lock. A backend that can only copy (`reserve` is NULL) says why, in
     * GPU_WHY bytes, the first time. Returns NULL if the buffers have no backend in common or the
     * device has failed; `why` then says what is wrong with the device, or nothing. */
    struct ss_backend *(*backend)(const void *a, const void *b, char *why);

    /* Returns the driver's name of the error of a backend that has failed. */
    const char *(*error)(struct ss_backend *backend);
};

extern const struct gpu_door sparseshim_cuda;

#endif
