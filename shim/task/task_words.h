/* Log lines and error texts about calls. */
#ifndef SHIM_TASK_TASK_WORDS_H
#define SHIM_TASK_TASK_WORDS_H

#include "shim/task/task.h"

/* The settings of the ranks differ: once, by rank 0. */
void shim_tell_mismatch(const struct shim_comm *comm);

/* What core has found, on all ranks: by rank 0. */
void shim_tell_warning(struct shim_comm *comm);

/* DEBUG=info: what was decided, by the first rank of the communicator. */
void shim_tell_decisions(struct shim_comm *comm);

/* How long a step has waited for whom, where core finds that worth a line. */
void shim_tell_wait(const struct shim_task *task, int status);

/* What MODE=topk keeps exact, and why: in calls whose number is a power of two. */
void shim_tell_task_refusals(const struct shim_task *task);

/* DEBUG=trace: one line. status: what core ended the call with. */
void shim_task_trace(const struct shim_task *task, int status);

/* For the report of partial calls: one of another kind, which waits for all ranks. A task's, or one
 * that the MPI library has done. */
void shim_task_book_synchronous(const struct shim_task *task);
void shim_book_synchronous(const struct shim_call *call);

/* Why a communicator can serve nothing any more. */
void shim_explain_failed(const struct shim_comm *comm, char *text, size_t size);

#endif
