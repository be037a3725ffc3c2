/* A call with buffers in device memory, and images of them on the host. Either the images are
 * filled and the call is made with them, or it is served where the buffers lie and the images are
 * left alone: they are there in case that the MPI library is to have the call after all. */
#ifndef SHIM_DEVICE_BOUNCE_H
#define SHIM_DEVICE_BOUNCE_H

#include "core/base/types.h"
#include "gpu/staging.h"
#include "shim/mpi/state.h"

enum shim_images {
    SHIM_IMAGES_EMPTY,
    SHIM_IMAGES_COMING, /* copies of the buffers */
    SHIM_IMAGES_FILLED, /* by the buffers, then by the call */
    SHIM_IMAGES_GOING   /* the result, to its buffer */
};

struct shim_bounce {
    struct gpu_image *send, *recv; /* NULL: that buffer is the host's, or not touched */
    bool filled;                   /* the image of the receive buffer begins as its copy */
    struct gpu_range *written;     /* of it, where there are gaps between slices; else NULL */
    size_t ranges;
    enum shim_images images;
    const void *device_send; /* the buffers, as the program gave them */
    void *device_recv;
    struct ss_place *place; /* of both, while the call is served there; else NULL */
    bool failed;            /* they could not be filled */
    char why[GPU_STAGING_WHY];
};

/* Of a call as the program made it. */
void shim_bounce_begin(struct shim_bounce *b, const struct shim_call *call);

enum shim_taken { SHIM_TAKEN, SHIM_NOT_KNOWN, SHIM_NOT_TAKEN };

/* Makes the images, and the call one of them. `wait`: copies may wait for the device. NOT_KNOWN: it
 * is not a call that MPI accepts. NOT_TAKEN: `why` has the reason. */
enum shim_taken shim_bounce_take(struct shim_bounce *b, struct shim_call *call, bool wait);

/* The call is to be served: in a place, if its buffers lie in one, aligned to their elements, and
 * it is one window; what the program has queued there comes first. */
void shim_bounce_place(struct shim_bounce *b, const struct shim_call *call, enum ss_type type);

/* Queued: copies from and to the device. joined: the call will be in place, and what it reduces
 * stands in the receive buffer. */
void shim_bounce_in(struct shim_bounce *b, bool joined);
void shim_bounce_out(struct shim_bounce *b);

/* Of what was queued last: > 0 it is under way, 0 it is done, < 0 it has failed: `why`. Never
 * waits. */
int shim_bounce_poll(struct shim_bounce *b);

/* Waits. False where it has failed. */
bool shim_bounce_finish(struct shim_bounce *b);

/* The images are filled: now, if they are empty. Waits. False where that fails, which is then for
 * who gives them back to raise. NULL: no images. */
bool shim_bounce_fill(struct shim_bounce *b, bool joined);

/* Nothing is under way. May wait for the device. */
void shim_bounce_give(const struct shim_bounce *b);

/* The MPI code of what has failed, raised on the call's communicator. */
int shim_bounce_failed(uintptr_t comm, const struct shim_bounce *b);

#endif
