/* Tells memory of the host from memory of a device.
 *
 * The stack of the program, its data and its heap (brk) are on the host. For any other address, the
 * shim looks whether the program has loaded a library since the last look. Once the program has
 * loaded CUDA's driver, the shim asks the driver about each such address and remembers no answer,
 * since addresses are used again. The shim never loads CUDA itself, and loads
 * libsparseshim_cuda.so, which asks the driver, only for a program that has loaded the driver.
 */
#ifndef SHIM_DEVICE_MEMORY_H
#define SHIM_DEVICE_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gpu/door.h"

/* Bytes below the bottom of the stack in which the system maps only the stack. */
#define SHIM_STACK 0x4000000

/* Ranges of the host's memory, zero until the first look. */
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

/* Returns true if one of two buffers is in device memory that the MPI library does not know. */
bool shim_is_device(const void *a, const void *b);

/* Returns true if one of two buffers is in device memory, which the MPI library knows: the call is
 * the MPI library's on all ranks. NULL and MPI_IN_PLACE are no buffers. */
bool shim_leaves(const void *a, const void *b);

/* Returns true if CUDA's driver is loaded and the shim copies buffers in device memory. */
bool shim_asks_devices(void);

static inline bool shim_are_plain(const void *a, const void *b)
{
    return shim_is_plain(a) && shim_is_plain(b);
}

/* Reads the place of stack and heap from the system, once. Without this call, the first
 * shim_is_device does. */
void shim_memory_find(void);

/* From this call on, treats all memory as the host's. */
void shim_memory_ignore(void);

/* Returns the functions of libsparseshim_cuda.so, once shim_is_device has found a device. */
const struct gpu_door *shim_door(void);

#endif
