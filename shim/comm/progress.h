/* Moves nonblocking calls on: in the application's calls of MPI_Wait, MPI_Test and MPI_Allreduce;
 * by a watchdog while the application is busy or blocked elsewhere; and by a thread with
 * PROGRESS=thread. */
#ifndef SHIM_COMM_PROGRESS_H
#define SHIM_COMM_PROGRESS_H

#include <pthread.h>

#include "core/base/fpenv.h"
#include "shim/comm/lists.h"

/* Enters a communicator into the active list: it has calls that other threads than their caller may
 * move. Called under its lock. */
void shim_progress_enter(struct shim_comm *comm);

/* Steps all active communicators except those that another thread is stepping. Returns true if
 * something moved. */
bool shim_progress(void);

/* Returns true if no communicator is active. */
static inline bool shim_progress_idle(void)
{
    return shim_list_is_empty(SHIM_ACTIVE);
}

/* Wakes the thread, or starts it. */
void shim_progress_wake(void);
/* Returns true if the system has refused the thread. */
bool shim_progress_refused(void);

/* Keeps the shim's threads out of MPI, which may run code of the program in any thread inside of it
 * (shim/entry/callbacks.h), until as many calls of shim_progress_resume. Returns when threads
 * inside have left, or after LEAVING seconds. */
void shim_progress_stop(void);
void shim_progress_resume(void);
/* Acts like shim_progress_stop, but if another thread of the shim is inside, stops none and returns
 * false. */
bool shim_progress_try_stop(void);
/* Stops the threads until the job ends; this rank votes so. */
void shim_progress_keep_out(void);

/* Returns true if threads of the shim may call MPI. Asked after the thread counts as inside. */
bool shim_progress_is_open(void);

/* Begins a sum with a rounding mode of its own: threads of the shim are in MPI in the rounding mode
 * of `env` until the sum ends. */
void shim_progress_round_as(ss_fpenv env);
/* Ends such a sum. */
void shim_progress_round_as_before(void);

/* Starts a thread of the shim, with a stack of fixed size and without signals, which go to the
 * application's threads. Returns 0 or an errno. */
int shim_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Sets *used to the processor seconds of the watchdog, and *lived to the seconds of its life. */
void shim_progress_used(double *used, double *lived);

/* Waits for the calls in progress and ends the thread, when MPI_Finalize begins. */
void shim_progress_end(void);

#endif
