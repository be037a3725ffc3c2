/* What the entry points call: every call that may be eligible, and the others that are wrapped. */
#ifndef SHIM_ENTRY_CALLS_H
#define SHIM_ENTRY_CALLS_H

#include "shim/mpi/state.h"

/* shim/entry/allreduce.c: every call that is not below min_fast. Returns an MPI error code. */
int shim_allreduce(const struct shim_call *call);
int shim_iallreduce(const struct shim_call *call, void *request);

/* shim/entry/collective.c: the other collectives; request NULL: blocking. */
int shim_collective(const struct shim_call *call, void *request);

/* shim/entry/operators.c: a nonblocking reduction whose operator is the program's own. reason: why
 * it is not served, where the call is counted. */
enum { SHIM_NOT_COUNTED = -1 };
int shim_own_reduction(const struct shim_call *call, int reason, void *request);
/* MPI_Start or MPI_Startall comes, which may start a persistent reduction with such an operator. */
void shim_own_start(void);
/* MPI_Op_free through `next`. */
int shim_op_free(shim_op_free_fn *next, void *op);

/* shim/entry/count.c: hands a call on and books it. */
int shim_pass_for(const struct shim_call *call, enum ss_reason reason, void *request);

/* Counts a call and, where a report wants it, its time on its way through `route`. */
typedef int shim_route_fn(const struct shim_call *call, void *request);
int shim_timed(shim_route_fn *route, const struct shim_call *call, void *request);

/* shim/entry/on_device.c: a blocking call with a buffer in device memory, on its way through
 * `route` with copies on the host. */
int shim_bounced(shim_route_fn *route, const struct shim_call *call);
/* A nonblocking call with such a buffer that is not served: an error on the communicator. */
int shim_refuse_nonblocking(const struct shim_call *call);

/* shim/entry/thread_level.c: whether the user wants nonblocking calls taken over in every program:
 * it is raised to MPI_THREAD_MULTIPLE then. */
bool shim_asked_for_requests(void);

/* MPI_Init and MPI_Init_thread through `next`, which raise it where that is asked for. */
int shim_init(shim_init_fn *next, int *argc, char ***argv);
int shim_init_thread(shim_init_thread_fn *next, int *argc, char ***argv, int required,
                     int *provided);
int shim_query_thread(int *provided);
/* MPI_Finalize: ends the progress of nonblocking calls first. */
int shim_finalize(shim_finalize_fn *next);

/* shim/entry/prepare.c: finds functions and reads settings, once. False when the call at hand must
 * be passed on. Afterwards shim.next is never NULL. */
bool shim_prepare(void);

#endif
