/* Beginning and end of a job in this process. */
#ifndef SHIM_JOB_JOB_H
#define SHIM_JOB_JOB_H

#include "shim/mpi/state.h"

/* Does the part of the job's beginning that needs MPI: rank, thread level, end-of-job hook, memory
 * limit, messages about settings. Called after a native call on comm has succeeded, which proves
 * that MPI is up even if MPI_Init was never called. */
void shim_job_start(uintptr_t comm);

/* Does the same ahead of a call, if MPI_Init has been called. */
void shim_job_start_if_up(void);

/* Writes the report's file and frees all MPI objects, after a Sessions-only program has freed its
 * last known communicator. If more communicators follow, the file is written anew; the text comes
 * once, when the process exits. */
void shim_job_pause(void);

/* shim/job/report_file.c: the report of this process. rank0: text on stderr, and a file where
 * REPORT_DIR is given. all: a file per rank, or text of every rank. `file` and `text` say which of
 * them is due. A process has one file, and each report holds everything since its beginning; the
 * first form says that the job has ended. Both under no lock of a communicator. */
void shim_report(bool file, bool text);
void shim_report_so_far(void);

/* Resolves a directory that an option names, from the directory in which the program began. Returns
 * false if the path is too long. */
bool shim_directory_of(const char *option, char *directory, size_t size);

/* The file is written anew in calls, every 10 s, so that a job that is killed leaves its last one.
 * prepare: settings are known. while_running: after a call, under no lock and outside of MPI; now:
 * of shim_now. */
void shim_report_prepare(void);
void shim_report_while_running(double now);

/* MPI_Finalize, before the MPI library's: a job that was asked for a report begins here at the
 * latest. */
void shim_report_before_end(void);

/* Handles MPI_Pcontrol: 0 votes the library off, 1 on again, 2 writes the report so far. */
void shim_pcontrol(int level);

#endif
