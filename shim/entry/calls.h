/* Functions behind the entry points: calls that may be eligible, and the other wrapped calls. */
#ifndef SHIM_ENTRY_CALLS_H
#define SHIM_ENTRY_CALLS_H

#include "shim/mpi/state.h"

/* shim/entry/act.c: handle a call that is not below shim.fast.count. Return an MPI error code. */
int shim_allreduce(const struct shim_call *call);
int shim_iallreduce(const struct shim_call *call, void *request);
/* The same for the other collectives. */
int shim_collective(const struct shim_call *call);
int shim_icollective(const struct shim_call *call, void *request);

/* shim/entry/route_slices.c: returns true if a communicator has an entry, and was not only seen. */
bool shim_has_entry(uintptr_t comm);
/* Returns true if a gather or reduce_scatter is below MIN_COUNT, or on one rank alone; `count`
 * elements of `type` are its first slice. The communicator has an entry, or none: then false. */
bool shim_is_little_there(int64_t count, uintptr_t type, uintptr_t comm);
/* Returns true if slices of this size on all `size` ranks have fewer than MIN_COUNT words. */
bool shim_is_little(int64_t count, uintptr_t type, int size);

/* shim/entry/operators.c: handles a nonblocking reduction with an operator of the program. reason:
 * why the call is not served, if it is counted. */
enum { SHIM_NOT_COUNTED = -1 };
int shim_user_reduction(const struct shim_call *call, int reason, void *request);
/* Handles MPI_Start and MPI_Startall, which may start a persistent reduction with such an
 * operator. */
void shim_user_start(void);
/* Handles MPI_Op_free, which `next` completes. */
int shim_op_free(shim_op_free_fn *next, void *op);

/* shim/entry/count.c: passes a call on and counts it. */
int shim_pass_for(const struct shim_call *call, enum ss_reason reason, void *request);

/* Counts a call. If a report wants its time, enters `small` into the call and returns the time. */
double shim_timing_begin(struct shim_call *call, struct shim_small *small);
/* Books the time of a call, where calls are timed. */
void shim_timing_end(const struct shim_call *call, double begin, int err);

/* shim/entry/on_device.c: raises an error for a nonblocking call with such a buffer that is not
 * served. */
int shim_refuse_nonblocking(const struct shim_call *call);

/* shim/entry/thread_level.c: returns true if the user wants nonblocking calls taken over in every
 * program, which is then raised to MPI_THREAD_MULTIPLE. */
bool shim_asked_for_requests(void);

/* Returns why a nonblocking call on a communicator without an entry passes. */
static inline enum ss_reason shim_before_blocking(void)
{
    return shim_asked_for_requests() ? SS_WHY_COMMUNICATOR : SS_WHY_BEFORE_BLOCKING;
}

/* Handle MPI_Init and MPI_Init_thread through `next`, and raise the level if asked for. */
int shim_init(shim_init_fn *next, int *argc, char ***argv);
int shim_init_thread(shim_init_thread_fn *next, int *argc, char ***argv, int required,
                     int *provided);
int shim_query_thread(shim_query_thread_fn *next, int *provided);
/* Handles MPI_Finalize; ends the progress of nonblocking calls first. */
int shim_finalize(shim_finalize_fn *next);

/* shim/entry/fortran.c: returns true if the address lies in one of Open MPI's Fortran libraries. */
bool shim_is_of_fortran(const void *caller);

/* shim/entry/prepare.c: finds functions and reads settings, once. Returns false if the current call
 * must pass. Afterwards shim.next is never NULL. */
bool shim_prepare(void);

#endif
