/* A call with buffers in device memory, on images of them on the host. */
#ifndef SHIM_DEVICE_BOUNCE_H
#define SHIM_DEVICE_BOUNCE_H

#include "gpu/staging.h"
#include "shim/mpi/state.h"

struct shim_bounce {
    struct gpu_image *send, *recv; /* NULL: that buffer is the host's, or not touched */
    bool filled;                   /* the image of the receive buffer begins as its copy */
    bool back;                     /* it is being copied back */
    char why[GPU_STAGING_WHY];
};

enum shim_taken { SHIM_TAKEN, SHIM_NOT_KNOWN, SHIM_NOT_TAKEN };

/* Makes the images, and the call one of them. `wait`: copies may wait for the device. NOT_KNOWN: it
 * is not a call that MPI accepts. NOT_TAKEN: `why` has the reason. */
enum shim_taken shim_bounce_take(struct shim_bounce *b, struct shim_call *call, bool wait);

/* Queued: copies from and to the device. */
void shim_bounce_in(struct shim_bounce *b);
void shim_bounce_out(struct shim_bounce *b);

/* Of what was queued last: > 0 it is under way, 0 it is done, < 0 it has failed: `why`. Never
 * waits. */
int shim_bounce_poll(struct shim_bounce *b);

/* Waits. False where it has failed. */
bool shim_bounce_finish(struct shim_bounce *b);

/* Nothing is under way. May wait for the device. */
void shim_bounce_give(const struct shim_bounce *b);

/* The MPI code of what has failed, raised on the call's communicator. */
int shim_bounce_failed(uintptr_t comm, const struct shim_bounce *b);

#endif
