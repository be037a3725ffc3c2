/* What moves nonblocking calls on: the application's own calls of MPI_Wait, MPI_Test and
 * MPI_Allreduce; a watchdog where the application is busy or blocked elsewhere; a thread of its own
 * with PROGRESS=thread. */
#ifndef SHIM_COMM_PROGRESS_H
#define SHIM_COMM_PROGRESS_H

#include <pthread.h>

#include "core/base/fpenv.h"
#include "shim/comm/lists.h"

/* A communicator has got calls that others than their caller must move: under its lock. */
void shim_progress_enter(struct shim_comm *comm);

/* Steps all of them but those that another thread is stepping. Returns whether something moved. */
bool shim_progress(void);

/* Nothing is under way. */
static inline bool shim_progress_idle(void)
{
    return shim_list_is_empty(SHIM_ACTIVE);
}

/* There is something for the thread to do. */
void shim_progress_wake(void);
bool shim_progress_refused(void); /* there is no such thread to be had */

/* Keeps threads of ours out of MPI, which may run code of the program in any thread that is inside
 * (shim/entry/callbacks.h), until as many calls of shim_progress_unbar. Returns once threads inside
 * have left, at the latest after a second. */
void shim_progress_bar(void);
void shim_progress_unbar(void);
/* As shim_progress_bar, but if another thread of ours is inside, bars nobody and returns false. */
bool shim_progress_try_bar(void);
/* Bars them for good; this rank votes so. */
void shim_progress_keep_out(void);

/* Returns whether threads of ours may call MPI now; asked once they count as inside. */
bool shim_progress_is_open(void);

/* From here on threads of ours are in MPI in the rounding mode of `env`, until as many calls of the
 * second one: a sum begins, and ends, that has it. */
void shim_progress_round_as(ss_fpenv env);
void shim_progress_round_as_before(void);

/* A thread of ours: with a stack of its own size, and without signals, which go to the
 * application's own threads. Returns 0 or an errno. */
int shim_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* Seconds of a processor that the watchdog has used, of how many that it was there. */
void shim_progress_used(double *used, double *lived);

/* MPI_Finalize begins: waits for what is under way, and ends the thread. */
void shim_progress_end(void);

#endif
