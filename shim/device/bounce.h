/* A call with buffers in device memory, and images of them on the host. Either the images are made
 * and filled and the call is made with them, or it is served where the buffers lie: then there are
 * none until the MPI library is to have the call after all, and not in pieces
 * (shim/device/pieces.h). */
#ifndef SHIM_DEVICE_BOUNCE_H
#define SHIM_DEVICE_BOUNCE_H

#include "core/base/types.h"
#include "gpu/staging.h"
#include "shim/device/pieces.h"
#include "shim/mpi/state.h"

enum shim_images {
    SHIM_IMAGES_EMPTY,
    SHIM_IMAGES_COMING, /* copies of the buffers */
    SHIM_IMAGES_FILLED, /* by the buffers, then by the call */
    SHIM_IMAGES_GOING   /* the result, to its buffer */
};

struct shim_held;

struct shim_bounce {
    bool taken;                    /* the images have been made, */
    bool lacking;                  /* or were not to be had, which stays so */
    struct gpu_image *send, *recv; /* NULL: that buffer is the host's, or not touched */
    bool filled;                   /* the image of the receive buffer begins as its copy */
    struct gpu_range *written;     /* of it, where there are gaps between slices; else NULL */
    size_t ranges;
    enum shim_images images;
    bool moved;              /* some of what is copied had when it was polled last */
    const void *device_send; /* the buffers, as the program gave them */
    void *device_recv;
    const void *host_send; /* and as the call with images has them */
    void *host_recv;
    struct shim_pieces pieces; /* of them, while the MPI library gets the call so */
    struct ss_place *place;    /* of both, while the call is served there; else NULL */
    bool failed;               /* they could not be made, or filled */
    const void *frame;         /* blocking: where on the stack it lies; */
    struct shim_held *held;    /* it has images */
    char why[GPU_STAGING_WHY];
};

/* Of a call as the program made it. False: it is not one that MPI accepts. */
bool shim_bounce_begin(struct shim_bounce *b, const struct shim_call *call);

/* The call was handed to the MPI library for want of memory: said once where a device had none. */
void shim_bounce_tell_memory(const struct shim_bounce *b, const struct shim_call *call,
                             enum ss_type type);

/* Makes the images, and the call one of them, unless that is so. `wait`: copies may wait for the
 * device. False: `why` has the reason. */
bool shim_bounce_take(struct shim_bounce *b, struct shim_call *call, bool wait);

/* The call is to be served: in a place, if its buffers lie in one, aligned to their elements, and
 * it is one window; what the program has queued there comes first. */
void shim_bounce_place(struct shim_bounce *b, const struct shim_call *call, enum ss_type type);

/* A blocking call with it has ended, and with it what the program had queued before: a place that
 * was always busy when a call came has nothing to do now, and learns its costs. */
void shim_bounce_learn(const struct shim_bounce *b);

/* An allreduce of more than a piece, which goes in pieces where all ranks know. */
bool shim_bounce_is_long(const struct shim_call *call, enum ss_type type);

/* Queued: copies from and to the device. joined: the call will be in place, and what it reduces
 * stands in the receive buffer. */
void shim_bounce_in(struct shim_bounce *b, bool joined);
void shim_bounce_out(struct shim_bounce *b);

/* Of what was queued last: > 0 it is under way, 0 it is done, < 0 it has failed: `why`. Never
 * waits. */
int shim_bounce_poll(struct shim_bounce *b);

/* Waits. False where it has failed. */
bool shim_bounce_finish(struct shim_bounce *b);

/* The call has images, and they are filled: now, if they are not. Waits. False where that fails,
 * which is then for who gives them back to raise. Nothing to do for a call on buffers of the host.
 */
bool shim_bounce_fill(struct shim_call *call, bool joined);

/* Nothing is under way. Does not wait; shim_staging()->trim is to follow. */
void shim_bounce_give(const struct shim_bounce *b);

/* The MPI code of what has failed, raised on the call's communicator. */
int shim_bounce_failed(uintptr_t comm, const struct shim_bounce *b);

#endif
