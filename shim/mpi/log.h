/* The DEBUG channel, and names of files with %h %p %r %j %u in them. */
#ifndef SHIM_MPI_LOG_H
#define SHIM_MPI_LOG_H

#include "shim/mpi/state.h"

/* One line, prefixed with the rank, in one write, where DEBUG is at least `level`. Goes to
 * DEBUG_FILE, which is opened at the first line (appending); to stderr, which is told once why,
 * where that fails. errno is left as it was. */
void shim_say(enum cfg_debug level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Replaces in pattern: %h host name, %p process id, %r rank in the world, %j job, %u user, %% a
 * percent sign; other letters after % stay as they are. The job is SLURM_JOB_ID, PBS_JOBID,
 * LSB_JOBID, FLUX_JOB_ID or JOB_ID, else the id of the parent process, which the ranks that one
 * launcher started on a host share. The user is USER, LOGNAME or the user's number. False when the
 * result does not fit. */
bool shim_expand(char *out, size_t size, const char *pattern);

/* Writes all of text. Returns 0 or an errno. */
int shim_write(int fd, const char *text, size_t len);

void shim_log_close(void);

#endif
