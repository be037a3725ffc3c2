/* Copies between a device and memory of the host that is not pinned. The driver's own wait for the
 * device; these go through a few slots of pinned memory, and are polled. */
#ifndef GPU_CROSSING_H
#define GPU_CROSSING_H

#include "gpu/device.h"
#include "gpu/staging.h"

enum { GPU_CROSSING_SLOTS = 4, GPU_CROSSING_BYTES = 256 << 10 };

/* The slots of a context, which all its copies share. */
struct gpu_crossings {
    char *memory; /* pinned, GPU_CROSSING_SLOTS of GPU_CROSSING_BYTES; NULL: there is none */
    bool taken[GPU_CROSSING_SLOTS];
    gpu_ticket busy[GPU_CROSSING_SLOTS]; /* what last left one that is not taken */
};

/* What is on its way through a slot. */
struct gpu_crossing_part {
    unsigned slot;
    size_t from, bytes; /* of the image */
    gpu_ticket ticket;
};

/* One copy. */
struct gpu_crossing {
    char *host, *memory; /* the image, and the range of device memory that it is of */
    bool out;            /* to the device */
    const struct gpu_range *ranges;
    size_t count;
    struct gpu_range whole; /* what is copied where no ranges are given */
    size_t crossed;         /* bytes that went into slots, and out of them */
    size_t range, done;     /* of what is queued next: its range, and bytes of that before it */
    struct gpu_crossing_part part[GPU_CROSSING_SLOTS]; /* to the host: those under way, in order */
    size_t parts;
    gpu_ticket ticket; /* of what was queued last */
};

/* ranges, NULL: all of the `bytes` bytes; else they stay as they are until all is done. `host` and
 * `memory` are where the image begins. */
void gpu_crossing_begin(struct gpu_crossing *x, bool out, void *host, void *memory, size_t bytes,
                        const struct gpu_range *ranges, size_t count);

/* Goes on as far as it gets without waiting, in the context of d. False: all is done. */
bool gpu_crossing_step(struct gpu_crossing *x, struct gpu_crossings *all, struct gpu_device *d);

/* Nobody steps it any more: its slots go to others when what is under way there has passed. */
void gpu_crossing_leave(struct gpu_crossing *x, struct gpu_crossings *all);

#endif
