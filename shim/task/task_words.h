/* Writes log lines and error texts about calls. */
#ifndef SHIM_TASK_TASK_WORDS_H
#define SHIM_TASK_TASK_WORDS_H

#include "shim/task/task.h"

/* Warns once, on rank 0, that the ranks' settings differ. */
void shim_tell_mismatch(const struct shim_comm *comm);

/* Logs a warning of core, on rank 0 if all ranks have it. */
void shim_tell_warning(struct shim_comm *comm);

/* DEBUG=info: logs decisions, on the first rank of the communicator. */
void shim_tell_decisions(struct shim_comm *comm);

/* Warns of a long wait: how long a step has waited and for which rank. */
void shim_tell_wait(const struct shim_task *task, int status);

/* DEBUG=trace: logs a line about a call. status: result of core's call. */
void shim_task_trace(const struct shim_task *task, int status);

/* Records a call that waits for all ranks, for the report of partial calls: a task's. */
void shim_task_book_synchronous(const struct shim_task *task);
/* Records such a call that the MPI library has made. */
void shim_book_synchronous(const struct shim_call *call);

/* Writes why a communicator has failed. */
void shim_explain_failed(const struct shim_comm *comm, char *text, size_t size);

#endif
