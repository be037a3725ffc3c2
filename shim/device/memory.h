/* Whose memory is it: the host's or a device's?
 *
 * The stack of the program, its data and its heap (brk) are the host's. Other addresses cost a look
 * at whether the program has loaded anything since the last one. Once CUDA's driver is among it,
 * each of them is a question to the driver: nothing is remembered, as addresses are used again.
 * CUDA is never loaded by us, and libsparseshim_cuda.so, which asks, only beside it. */
#ifndef SHIM_DEVICE_MEMORY_H
#define SHIM_DEVICE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpu/door.h"

/* Below the bottom of the stack the system maps nothing else within this. */
#define SHIM_STACK 0x4000000

/* Zero until the first look. Read by code in assembly, too. */
struct shim_memory {
    _Atomic uintptr_t heap, heap_size, stack;
};
extern __attribute__((visibility("hidden"))) struct shim_memory shim_memory;

static inline bool shim_is_plain(const void *p)
{
    const uintptr_t at = (uintptr_t)p;

    return at - atomic_load_explicit(&shim_memory.heap, memory_order_relaxed) <
               atomic_load_explicit(&shim_memory.heap_size, memory_order_relaxed) ||
           at - atomic_load_explicit(&shim_memory.stack, memory_order_relaxed) < SHIM_STACK;
}

/* Whether one of two buffers is a device's and the MPI library knows nothing of those. */
bool shim_is_device(const void *a, const void *b);

/* Whether CUDA's driver is there, and asked about addresses. */
bool shim_asks_devices(void);

static inline bool shim_are_plain(const void *a, const void *b)
{
    return shim_is_plain(a) && shim_is_plain(b);
}

static inline bool shim_on_host(const void *a, const void *b)
{
    return shim_are_plain(a, b) || !shim_is_device(a, b);
}

/* Reads from the system where stack and heap are, once; the first shim_is_device does so otherwise.
 */
void shim_memory_find(void);

/* From here on all memory is the host's. */
void shim_memory_ignore(void);

/* What libsparseshim_cuda.so has; after shim_is_device has found a device. */
const struct gpu_door *shim_door(void);

#endif
