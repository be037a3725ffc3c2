/* What moves nonblocking calls on: the application's own calls of MPI_Wait, MPI_Test and
 * MPI_Allreduce; a watchdog where the application is busy or blocked elsewhere; a thread of its own
 * with PROGRESS=thread. */
#ifndef SHIM_PROGRESS_H
#define SHIM_PROGRESS_H

#include "shim/comm.h"

/* A communicator has got calls that others than their caller must move: under its lock. */
void shim_progress_enter(struct shim_comm *comm);

/* Steps all of them but those that another thread is stepping. Returns whether something moved. */
bool shim_progress(void);

/* Nothing is under way. */
static inline bool shim_progress_idle(void)
{
    return atomic_load_explicit(&shim.active_count, memory_order_relaxed) == 0;
}

/* The end of the job: what is pending gets a second to end; the thread is joined. Only the first
 * call does something. */
void shim_progress_end(void);

#endif
