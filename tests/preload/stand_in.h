/* Memory of a device that stands for a buffer of the host, in all calls on it
 * (tests/preload/to_device.c), and what ON_DEVICE says of it. */
#ifndef TESTS_PRELOAD_STAND_IN_H
#define TESTS_PRELOAD_STAND_IN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/mpi/device/device_memory.h"

enum { SLOTS = 1 << 16, MOST_BYTES = 1 << 29 /* longer buffers stay on the host */ };

struct slot {
    const void *host;
    enum kind kind;
    char *device;
    size_t bytes;
};

static struct {
    pthread_mutex_t lock;
    bool open;
    struct slot slots[SLOTS];
} stand_ins = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline struct slot *slot_of(const void *host, enum kind kind, size_t bytes)
{
    size_t i = ((uintptr_t)host >> 4) * 31 + kind;

    for (size_t n = 0; n < SLOTS; n++, i++) {
        struct slot *s = &stand_ins.slots[i % SLOTS];
        if (!s->host || (s->host == host && s->kind == kind && s->bytes >= bytes))
            return s;
    }
    fprintf(stderr, "to_device: too many buffers\n");
    abort();
}

static inline char *stand_in(const void *host, enum kind kind, size_t bytes)
{
    struct slot *s;

    (void)pthread_mutex_lock(&stand_ins.lock);
    if (!stand_ins.open)
        cuda_open();
    stand_ins.open = true;
    s = slot_of(host, kind, bytes);
    if (!s->host)
        *s = (struct slot){host, kind, cuda_memory(kind, bytes), bytes};
    (void)pthread_mutex_unlock(&stand_ins.lock);
    return s->device;
}

/* What stands for a buffer, with what it holds. */
static inline void *put(const void *host, enum kind kind, size_t bytes)
{
    char *device;

    if (kind == HOST || bytes == 0)
        return (void *)(uintptr_t)host;
    device = stand_in(host, kind, bytes);
    cuda_write(kind, device, host, bytes);
    return device;
}

static inline void take(void *host, enum kind kind, const void *device, size_t bytes)
{
    if (device != host && bytes > 0)
        cuda_read(kind, host, device, bytes);
}

/* What stands for a buffer of so many bytes at least; NULL: nothing does so far. */
static inline char *stands_in(const void *host, enum kind kind, size_t bytes)
{
    char *device;

    (void)pthread_mutex_lock(&stand_ins.lock);
    device = slot_of(host, kind, bytes)->device;
    (void)pthread_mutex_unlock(&stand_ins.lock);
    return device;
}

static inline enum kind kind_of(char letter)
{
    static const char letters[] = "HDSP_M"; /* as enum kind has them */

    return (enum kind)(strchr(letters, letter) - letters);
}

/* The pairs of ON_DEVICE, as many as are said; NULL: all buffers are of the host. */
static inline const char *pairs_of(size_t *pairs)
{
    const char *list = getenv("ON_DEVICE");

    *pairs = list ? (strlen(list) + 1) / 3 : 0;
    return *pairs == 0 || getenv("SPARSESHIM_DISABLE") || !dlsym(RTLD_NEXT, "sparseshim_1_register")
               ? NULL
               : list;
}

/* What stands for a receive buffer, where its calls have been made; with `count` elements, of
 * whatever size: from now on. */
static inline const void *named(const void *buffer, size_t count)
{
    size_t pairs;
    const char *list = pairs_of(&pairs);
    const enum kind kind = list ? kind_of(list[1]) : HOST;
    const char *device;

    if (!buffer || kind == HOST)
        return buffer;
    device = stands_in(buffer, kind, count * sizeof(float));
    if (!device && count > 0)
        device = stand_in(buffer, kind, count * sizeof(double));
    return device ? device : buffer;
}

#endif
