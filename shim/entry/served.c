/* Defines the served functions, which the dynamic linker finds before the MPI library's. A call
 * that is too small goes on by a jump. A gather or reduce_scatter on another communicator than
 * MPI_COMM_WORLD needs its number of ranks: an entry has it, and is read without a lock if it is
 * alone in its bucket. On a communicator without an entry the MPI library makes the call, and is
 * then asked. */
#include "shim/entry/entry.h"

/* Returns true if a gather or reduce_scatter has failed, or the MPI library has made it and it is
 * below MIN_COUNT, or on one rank alone; `count` elements of `type` are its first slice. Otherwise
 * the call goes to shim_collective as one that is `made`, without its buffers. */
static inline bool is_over(int err, int64_t count, uintptr_t type, uintptr_t comm)
{
    int size = 0;

    return err != 0 || shim.library.comm_size(shim_abi_word(comm), &size) != 0 || size < 2 ||
           shim_is_little(count, shim_abi_word(type), size);
}

/* The slices of a call:
 * NUMBER     count of the first one
 * THERE      there is one: the program's list may be NULL
 * KNOWN      the same, once the limit is known
 * UNIT       type of its elements; a word if the count alone decides
 * SENT       type of the send buffer
 * IS_LITTLE  tells small slices without a lock
 * CALL       the call, with further members
 * MADE       the call, once the MPI library has made it */
#define NUMBER_GATHER     count
#define THERE_GATHER      true
#define KNOWN_GATHER      true
#define UNIT_GATHER       type
#define SENT_GATHER       send_type
#define IS_LITTLE_GATHER  is_little
#define CALL_GATHER(...)  GATHER(LARGE, .count = count, __VA_ARGS__)
#define MADE_GATHER       MADE, .kind = SS_KIND_ALLGATHER, .count = count
#define NUMBER_GATHERV    (*counts)
#define THERE_GATHERV     counts
#define KNOWN_GATHERV     (limit > 0)
#define UNIT_GATHERV      type
#define SENT_GATHERV      send_type
#define IS_LITTLE_GATHERV is_little
#define CALL_GATHERV(...) GATHER(LARGE, SLICES, __VA_ARGS__)
#define MADE_GATHERV      MADE, .kind = SS_KIND_ALLGATHER, .counts = counts, .listed = true
#define NUMBER_BLOCK      count
#define THERE_BLOCK       true
#define KNOWN_BLOCK       true
#define UNIT_BLOCK        shim_abi.INT
#define SENT_BLOCK        type
#define IS_LITTLE_BLOCK   is_few
#define CALL_BLOCK(...)   REDUCTION(LARGE, .kind = SS_KIND_REDUCE_SCATTER, __VA_ARGS__)
#define MADE_BLOCK        MADE, .kind = SS_KIND_REDUCE_SCATTER, .op = shim_abi_word(op), .count = count
#define NUMBER_SCATTER    (*counts)
#define THERE_SCATTER     counts
#define KNOWN_SCATTER     (limit > 0)
#define UNIT_SCATTER      shim_abi.INT
#define SENT_SCATTER      type
#define IS_LITTLE_SCATTER is_few
#define CALL_SCATTER(...) SCATTER(LARGE, __VA_ARGS__)
#define MADE_SCATTER                                                                               \
    MADE, .kind = SS_KIND_REDUCE_SCATTER, .op = shim_abi_word(op), .counts = counts,               \
          .listed = true, .count = *counts
#define MADE .type = shim_abi_word(type), .comm = shim_abi_word(comm), .made = true, .large = LARGE

/* Serves a call; whether all calls pass, and whether that is asked first. */
#define SERVE_BLOCKING         shim_collective
#define PASSES_BLOCKING        all_pass
#define AT_ONCE_BLOCKING       false
#define SERVE_NONBLOCKING(...) shim_icollective(__VA_ARGS__, request)
#define PASSES_NONBLOCKING     all_ipass
#define AT_ONCE_NONBLOCKING    all_ipass()

/* Returns true if no PMPI name is served. */
static inline bool others_pass(void)
{
    return atomic_load_explicit(&shim.process.phase, memory_order_acquire) != SHIM_NEW &&
           shim_abi.kind != SHIM_ABI_OPEN_MPI;
}

/* Defines PMPI_X, which Open MPI's Fortran libraries call (shim/entry/fortran.c). `passes` says if
 * their call is below MIN_COUNT. */
#define FORTRAN_NAME(name, member, signature, passes, serve)                                       \
    SLOW door_##member(signature(int), const void *site)                                           \
    {                                                                                              \
        if (!from_fortran(site) || (passes))                                                       \
            return shim.pmpi.member(signature##_ARGUMENTS);                                        \
        return serve;                                                                              \
    }                                                                                              \
    int PMPI_##name(signature(int))                                                                \
    {                                                                                              \
        if (others_pass())                                                                         \
            return shim.pmpi.member(signature##_ARGUMENTS);                                        \
        return door_##member(signature##_ARGUMENTS, __builtin_return_address(0));                  \
    }
#define BY_FORTRAN .pmpi = true, .site = site

#define N     int
#define AS(x) x
#define LARGE false
#include "shim/entry/served.inc"
#undef N
#undef AS
#undef LARGE
#undef FORTRAN_NAME

#define N     int64_t
#define AS(x) x##_c
#define LARGE true
#define FORTRAN_NAME(...)
#include "shim/entry/served.inc"
