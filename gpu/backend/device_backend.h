/* A device as a backend (core/backend/backend.h). Vectors lie in device memory, and work is queued
 * in the device's stream. Results come through pinned memory; the poll that returns SS_OK copies
 * them to the caller's memory. Without a poll, nothing is written there. An error of the driver
 * stays: polls then return SS_ERR_DEVICE, and no more work is done.
 *
 * Any thread may call the functions of the backend. A function waits for the device only to
 * allocate its memory: in make, in reserve, and in the first scans of a kind. No other thread waits
 * meanwhile. Memory that was let go is freed by gpu_backend_trim, or when memory is short.
 *
 * If g + r of an entry overflows, a claim leaves that entry alone and goes on, with `stop` at n,
 * whereas the host ends its pass. undo knows these entries.
 */
#ifndef GPU_DEVICE_BACKEND_H
#define GPU_DEVICE_BACKEND_H

#include <pthread.h>

#include "core/backend/backend.h"
#include "core/backend/backend_costs.h"
#include "gpu/queue/device.h"

struct gpu_job;
struct gpu_vector;
struct gpu_gone;

struct gpu_area {
    void *data;
    size_t bytes;
};

/* A word of pinned memory that a kernel writes. */
struct gpu_word {
    uint32_t *at;
    bool taken;
};
enum { GPU_WORDS = 256, GPU_COUNTS = 256 };

/* Pinned blocks for `stage`. Each holds a piece of a long sum. */
enum { GPU_STAGES = 8, GPU_STAGE_BYTES = 4 << 20 };

struct gpu_backend {
    struct ss_backend backend;
    struct ss_backend_record record;
    struct gpu_device device;
    pthread_mutex_t lock;
    bool follows;                     /* no work was handed over since gpu_backend_after_program */
    struct gpu_job *jobs, **jobs_end; /* jobs that are not done, in order */
    struct gpu_job *front;            /* first job of which some part is not queued */
    ss_ticket handed;
    struct gpu_slot *open; /* slot from which uploads take their room */
    size_t open_used;
    struct gpu_area crossing, picked, work, list, between, messages; /* device memory */
    void *counts;    /* pinned: counts of the job in front */
    uint32_t *words; /* pinned: memory of `word` */
    struct gpu_word word[GPU_WORDS];
    char *stages; /* pinned */
    bool staged[GPU_STAGES];
    struct gpu_vector *vectors;
    struct gpu_gone *gone; /* memory to free once the work that uses it is done */
};

static inline struct gpu_backend *gpu_backend_of(struct ss_backend *p)
{
    return (struct gpu_backend *)(void *)p;
}

/* Opens the backend, with all pinned memory that it will need. All else is as in gpu_device_open.
 * Without modules the backend can only copy. */
const char *gpu_backend_open(struct gpu_backend *p, const struct gpu_driver *driver,
                             const struct gpu_modules *modules, CUcontext context, int ordinal,
                             char *why);
/* Waits for queued work. Gives no more results to callers. */
void gpu_backend_close(struct gpu_backend *p);

/* Orders all later work after the program's work (gpu_after_program). */
void gpu_backend_after_program(struct gpu_backend *p);

/* Frees memory that was let go and that no work uses any more. May wait for all work of the device,
 * so that a caller with a lock calls this function only if memory is short. */
void gpu_backend_trim(struct gpu_backend *p);

/* Returns the driver's number of the error that stays, or 0. */
int gpu_backend_error(struct gpu_backend *p);

#endif
