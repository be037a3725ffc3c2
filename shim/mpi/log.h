/* The DEBUG channel, and file names with %h %p %r %j %u. */
#ifndef SHIM_MPI_LOG_H
#define SHIM_MPI_LOG_H

#include "shim/mpi/state.h"

/* Writes a line, prefixed with the rank, in one write, if DEBUG is at least `level`. Opens
 * DEBUG_FILE for appending at the first line; if that fails, writes to stderr, after one line with
 * the reason. Preserves errno. */
void shim_say(enum cfg_debug level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Replaces in pattern: %h host name, %p process id, %r rank in the world, %j job, %u user, %% a
 * percent sign; other letters after % stay. The job is SLURM_JOB_ID, PBS_JOBID, LSB_JOBID,
 * FLUX_JOB_ID, JOB_ID or PMIX_NAMESPACE. Without these it is the id of the parent process, which is
 * shared by the ranks that one launcher has started on a host. The user is USER, LOGNAME or the
 * user's number. Returns false if the result does not fit. */
bool shim_expand(char *out, size_t size, const char *pattern);

/* Writes all of text. Returns 0 or an errno. */
int shim_write(int fd, const char *text, size_t len);

void shim_log_close(void);

#endif
