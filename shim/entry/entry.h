/* Shared by the entry points. */
#ifndef SHIM_ENTRY_ENTRY_H
#define SHIM_ENTRY_ENTRY_H

#include "shim/device/memory.h"
#include "shim/device/span.h"
#include "shim/entry/callbacks.h"
#include "shim/entry/calls.h"
#include "shim/job/job.h"
#include "shim/mpi/handles.h"
#include "shim/mpi/state.h"
#include "shim/task/request.h"

#define EXPORT __attribute__((visibility("default")))

/* Prepares the shim at the first call. Later calls make no system call before they are checked. */
static inline void be_ready(void)
{
    if (atomic_load_explicit(&shim.phase, memory_order_acquire) == SHIM_NEW)
        shim_prepare();
}

/* ---- calls that pass at once ----
 *
 * A call below MIN_COUNT that is not counted goes to the next function by a jump, with its
 * arguments in their registers. Functions that build a struct shim_call are SLOW, so that this path
 * needs no stack frame.
 */

#define SLOW static __attribute__((noinline)) int

static inline bool below(int64_t count)
{
    return count < atomic_load_explicit(&shim.min_fast, memory_order_acquire);
}

static inline bool is_small(int64_t count, const void *send, const void *recv, uintptr_t comm)
{
    if (!below(count) || !shim_are_plain(send, recv))
        return false;
    shim_count_small(count, comm);
    return true;
}

/* Returns true if both buffers are in host memory. A buffer at MPI_BOTTOM lies where its datatype
 * says: shim_lies_on_device finds that out with the whole call. */
static inline bool on_host(const void *send, uintptr_t send_type, const void *recv, uintptr_t type)
{
    return (send || shim_handle_size(send_type) > 0) && (recv || shim_handle_size(type) > 0) &&
           shim_on_host(send, recv);
}

/* Acts like is_small after the entry point's fast path, for buffers whose place must be found. */
static inline bool is_small_there(int64_t count, const void *send, const void *recv, uintptr_t type,
                                  uintptr_t comm)
{
    if (!below(count) || !on_host(send, type, recv, type))
        return false;
    shim_count_small(count, comm);
    return true;
}

/* Returns true for a small nonblocking call, unless its operator may be the application's. */
static inline bool ibelow(int64_t count, uintptr_t op)
{
    int64_t least = atomic_load_explicit(&shim.min_fast_nonblocking, memory_order_acquire);

    return count < least && (shim_is_predefined(op) || least == INT64_MAX);
}

/* Returns true for a call on MPI_COMM_WORLD whose slices have fewer than MIN_COUNT words together,
 * if all are as long as this one. The size of other communicators is unknown here. A predefined
 * datatype has the size of an element in the second byte; other handles have more bits set. A
 * negative count makes a large product. */
static inline bool little(int count, uintptr_t type, uintptr_t comm)
{
    uint32_t element = (uint32_t)type ^ 0x4c000000u;

    return (uint32_t)comm == SHIM_WORLD && element < 0x10000 &&
           (uint64_t)(element >> 8) * (uint64_t)count <
               atomic_load_explicit(&shim.min_fast_slice, memory_order_acquire);
}

static inline bool little_c(int64_t count, uintptr_t type, uintptr_t comm)
{
    return count >> 31 == 0 && little((int)count, type, comm);
}

/* Returns true if nothing is served. */
static inline bool all_pass(void)
{
    return atomic_load_explicit(&shim.min_fast, memory_order_acquire) == INT64_MAX;
}

/* Returns true if no nonblocking call is served. */
static inline bool all_ipass(void)
{
    return atomic_load_explicit(&shim.min_fast_nonblocking, memory_order_acquire) == INT64_MAX;
}

#endif
