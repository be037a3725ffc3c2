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

/* Exports the names of the table that the including file defines. */
#define SHIM_EXPORTS(member, name, ...)                                                            \
    EXPORT shim_##member##_fn MPI_##name, PMPI_##name;                                             \
    EXPORT shim_##member##_c_fn MPI_##name##_c;
#define SHIM_EXPORT(member, name, ...)       EXPORT shim_##member##_fn MPI_##name, PMPI_##name;
#define SHIM_EXPORT_INNER(member, name, ...) EXPORT shim_##member##_fn name;
SHIM_WRAPPED_COUNTED(SHIM_EXPORTS)
SHIM_WRAPPED_PLAIN(SHIM_EXPORT)
SHIM_WRAPPED_OPTIONAL(SHIM_EXPORT)
SHIM_WRAPPED_INNER(SHIM_EXPORT_INNER)
#undef SHIM_EXPORTS
#undef SHIM_EXPORT
#undef SHIM_EXPORT_INNER

/* A call, from arguments named alike in all functions below. The ABI of the MPI library must be
 * known before its handles are taken from the arguments. */
#define REDUCTION(is_large, ...)                                                                   \
    (be_ready(), &(struct shim_call){.send = send,                                                 \
                                     .recv = recv,                                                 \
                                     .count = count,                                               \
                                     .type = shim_abi_word(type),                                  \
                                     .op = shim_abi_word(op),                                      \
                                     .comm = shim_abi_word(comm),                                  \
                                     .large = is_large,                                            \
                                     __VA_ARGS__})

/* A gather, from arguments named alike in all functions of the kind. */
#define GATHER(is_large, ...)                                                                      \
    (be_ready(), &(struct shim_call){.send = send,                                                 \
                                     .send_count = send_count,                                     \
                                     .send_type = shim_abi_word(send_type),                        \
                                     .recv = recv,                                                 \
                                     .type = shim_abi_word(type),                                  \
                                     .comm = shim_abi_word(comm),                                  \
                                     .large = is_large,                                            \
                                     .kind = SS_KIND_ALLGATHER,                                    \
                                     __VA_ARGS__})
#define SLICES .counts = counts, .displs = displs, .listed = true
/* A reduce_scatter with a list of counts, which is served if they are equal. */
#define SCATTER(is_large, ...)                                                                     \
    (be_ready(), &(struct shim_call){.send = send,                                                 \
                                     .recv = recv,                                                 \
                                     .count = counts ? *counts : 0,                                \
                                     .type = shim_abi_word(type),                                  \
                                     .op = shim_abi_word(op),                                      \
                                     .comm = shim_abi_word(comm),                                  \
                                     .large = is_large,                                            \
                                     .kind = SS_KIND_REDUCE_SCATTER,                               \
                                     .counts = counts,                                             \
                                     .listed = true,                                               \
                                     __VA_ARGS__})

/* Prepares the shim at the first call. Later calls make no system call before they are checked. */
static inline void be_ready(void)
{
    if (atomic_load_explicit(&shim.process.phase, memory_order_acquire) == SHIM_NEW)
        shim_prepare();
}

/* Returns true if one of Open MPI's Fortran libraries calls (shim/entry/fortran.c). */
static inline bool from_fortran(const void *caller)
{
    be_ready();
    return shim_abi.kind == SHIM_ABI_OPEN_MPI && shim_is_of_fortran(caller);
}
#define FROM_FORTRAN from_fortran(__builtin_return_address(0))

/* ---- calls that pass at once ----
 *
 * A call below MIN_COUNT that is not counted goes to the next function by a jump, with its
 * arguments in their registers. Functions that build a struct shim_call are SLOW, so that this path
 * needs no stack frame.
 */

#define SLOW static __attribute__((noinline)) int

static inline bool below(int64_t count)
{
    return count < atomic_load_explicit(&shim.fast.count, memory_order_acquire);
}

static inline bool is_small(int64_t count, const void *send, const void *recv)
{
    return below(count) && shim_are_plain(send, recv);
}

/* Returns true if both buffers are in host memory. A buffer at MPI_BOTTOM lies where its datatype
 * says: shim_lies_on_device finds that out with the whole call. */
static inline bool on_host(const void *send, uintptr_t send_type, const void *recv, uintptr_t type)
{
    return shim_are_plain(send, recv) ||
           ((send || shim_handle_size(send_type) > 0) && (recv || shim_handle_size(type) > 0) &&
            !shim_is_device(send, recv));
}

/* Acts like is_small after the entry point's fast path, for buffers whose place must be found. */
static inline bool is_small_there(int64_t count, const void *send, const void *recv, uintptr_t type)
{
    return below(count) && on_host(send, type, recv, type);
}

/* Returns true for a small nonblocking call, unless its operator may be the application's. */
static inline bool ibelow(int64_t count, uintptr_t op)
{
    int64_t least = atomic_load_explicit(&shim.fast.nonblocking, memory_order_acquire);

    return count < least && (least == INT64_MAX || shim_is_predefined(op));
}

/* A communicator without an entry. The number of ranks, which decides whether the call is below
 * MIN_COUNT, is the MPI library's to tell, once it has accepted the call: such a call is the
 * library's in any case. */
#define NO_ENTRY UINT64_MAX

/* Returns the bytes of the first slice, of `count` elements, from which slices of one size have
 * MIN_COUNT words of 4 bytes together; NO_ENTRY; or 0 if it is not known without a lock. */
static inline uint64_t slice_limit(int64_t count, uintptr_t comm)
{
    const uint64_t least = atomic_load_explicit(&shim.fast.slice, memory_order_acquire);
    uint64_t content, ranks;

    comm = shim_abi_word(comm);
    if (count >> 31 != 0 || least == 0)
        return 0;
    if (comm == shim_abi.COMM_WORLD)
        return least;
    content = shim_content_of(comm);
    if (content == 0)
        return NO_ENTRY;
    ranks = shim_ranks_in(content, comm);
    return ranks > 0 ? (4 * (uint64_t)shim.min_count + ranks - 1) / ranks : 0;
}

/* Returns true for a slice below such a limit. The size of a derived type is unknown here. */
static inline bool is_little(int64_t count, uintptr_t type, uint64_t limit)
{
    const size_t element = shim_handle_size(shim_abi_word(type));

    return element > 0 && element * (uint64_t)count < limit;
}

/* Acts like is_little for words of 4 bytes. */
static inline bool is_few(int64_t words, uintptr_t type, uint64_t limit)
{
    (void)type;
    return 4 * (uint64_t)words < limit;
}

/* Returns true for a slice on a communicator without an entry, also if another communicator falls
 * into the handle's bucket. */
static inline bool has_no_entry(int64_t count, uintptr_t comm)
{
    return count >> 31 == 0 && atomic_load_explicit(&shim.fast.slice, memory_order_acquire) > 0 &&
           !shim_has_entry(shim_abi_word(comm));
}

/* Returns true for slices below MIN_COUNT on a communicator with an entry. */
static inline bool is_little_there(int64_t count, uintptr_t type, uintptr_t comm)
{
    return count >> 31 == 0 && atomic_load_explicit(&shim.fast.slice, memory_order_acquire) > 0 &&
           shim_is_little_there(count, shim_abi_word(type), shim_abi_word(comm));
}

/* Returns true if nothing is served. */
static inline bool all_pass(void)
{
    return atomic_load_explicit(&shim.fast.count, memory_order_acquire) == INT64_MAX;
}

/* Returns true if no nonblocking call is served. */
static inline bool all_ipass(void)
{
    return atomic_load_explicit(&shim.fast.nonblocking, memory_order_acquire) == INT64_MAX;
}

#endif
