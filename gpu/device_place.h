/* A device as a place (core/place/place.h): vectors lie in its memory, and what is asked for is
 * queued there. Results come through pinned memory and are written into the caller's by the poll
 * that says that they are there, so that nothing of it is written once nobody polls. An error of
 * the driver is one for good: polls say SS_ERR_DEVICE and nothing more is done.
 *
 * Functions of the place may be called by any thread. They do not wait for the device but where
 * its memory is made, in make, reserve and the first scans of a kind; no other thread waits for
 * that. What is let go is freed by gpu_place_trim, or where there is no room without that.
 * A claim whose g + r overflowed leaves these entries alone, where the host ends its pass: `stop`
 * is n, and undo knows. */
#ifndef GPU_DEVICE_PLACE_H
#define GPU_DEVICE_PLACE_H

#include <pthread.h>

#include "core/place/place.h"
#include "core/place/place_costs.h"
#include "gpu/device.h"

struct gpu_job;
struct gpu_vector;
struct gpu_gone;

struct gpu_area {
    void *data;
    size_t bytes;
};

/* Pinned, for a kernel to write to. */
struct gpu_word {
    uint32_t *at;
    bool taken;
};
enum { GPU_WORDS = 256, GPU_COUNTS = 256 };

/* Pinned blocks that are handed out by `stage`: a piece of a long sum fits in one. */
enum { GPU_STAGES = 8, GPU_STAGE_BYTES = 4 << 20 };

struct gpu_place {
    struct ss_place place;
    struct ss_place_record record;
    struct gpu_device device;
    pthread_mutex_t lock;
    bool follows;                     /* the program's work, with nothing handed over since */
    struct gpu_job *jobs, **jobs_end; /* not done, in order */
    struct gpu_job *front;            /* the first that is not queued as a whole */
    ss_ticket handed;
    struct gpu_slot *open; /* what uploads take from */
    size_t open_used;
    struct gpu_area crossing, picked, work, list, between, messages; /* device memory */
    void *counts;    /* pinned: of the job in front */
    uint32_t *words; /* pinned: those of `word` */
    struct gpu_word word[GPU_WORDS];
    char *stages; /* pinned */
    bool staged[GPU_STAGES];
    struct gpu_vector *vectors;
    struct gpu_gone *gone; /* memory that is let go when what uses it is done */
};

/* As gpu_device_open, with all pinned memory that it will need: NULL, or why there is none. Without
 * images the place can only copy. */
const char *gpu_place_open(struct gpu_place *p, const struct gpu_driver *driver,
                           const struct gpu_images *images, CUcontext context, int ordinal,
                           char *why);
/* Waits for what is queued. Nothing is given to callers any more. */
void gpu_place_close(struct gpu_place *p);

/* What is asked for from here on comes after what the program has queued: gpu_after_program. */
void gpu_place_after_program(struct gpu_place *p);

/* Frees what was let go and nothing uses any more. May wait for all that the device has to do: a
 * caller that holds a lock calls it only if memory is short. */
void gpu_place_trim(struct gpu_place *p);

/* What has failed for good, as the driver numbers it; 0: nothing. */
int gpu_place_error(struct gpu_place *p);

#endif
