/* Beginning and end of a job as this process sees it, and errors of our own. */
#ifndef SHIM_JOB_H
#define SHIM_JOB_H

#include <mpi.h>

#include "shim/shim.h"

/* The part of the beginning that needs MPI: rank, thread level, end-of-job hook, memory limit,
 * messages about settings. Called after a native call on comm succeeded, which proves that MPI is
 * up even where MPI_Init was never called. */
void shim_job_start(uintptr_t comm);

/* The same ahead of a call, where MPI_Init has been called. */
void shim_job_start_if_up(void);

/* shim/prepare.c: no nonblocking call will be taken over. Where none is counted, they pass at once.
 */
void shim_requests_pass(void);

/* A Sessions-only program freed its last known communicator: write the report's file, and let go of
 * everything of MPI's. Nothing tells whether more will follow; the file is then written anew, and
 * the text comes once, when the process exits. */
void shim_job_pause(void);

/* Steady clock, seconds since the first intercepted call, in steps of 2^-28 s: up to 2^25 s their
 * differences and sums are exact, so that they raise no floating-point exception and depend on no
 * rounding mode of the application. Anything else is computed as core/base/fpenv.h has it. */
double shim_now(void);

/* Raises an error of ours on the error handler of the application's communicator. Returns the MPI
 * error code, of which MPI_Error_string says `text`. */
int shim_raise(MPI_Comm comm, int status, const char *text);

/* shim/output.c: the report of this process. rank0: text on stderr, and a file where REPORT_DIR is
 * given. all: a file per rank, or text of every rank. `file` and `text` say which of them is due.
 * A process has one file, and each report holds everything since its beginning; the first form
 * says that the job has ended. Both under no lock of a communicator. */
void shim_report(bool file, bool text);
void shim_report_so_far(void);

/* The file is written anew in calls, every 10 s, so that a job that is killed leaves its last one.
 * prepare: settings are known. while_running: after a call, under no lock and outside of MPI; now:
 * of shim_now. */
void shim_report_prepare(void);
void shim_report_while_running(double now);

/* MPI_Finalize, before the MPI library's: a job that was asked for a report begins here at the
 * latest. */
void shim_report_before_end(void);
bool shim_report_is_due(void); /* whether this process will write one */

/* One warning per job, of rank 0: tensors that automatic registration has refused. */
void shim_tell_refusals(struct ss_comm *comm);
/* Once: what tensors of it that have left top-k still hold back, as it goes or the job ends. */
void shim_tell_held_back(struct ss_comm *comm);

#endif
