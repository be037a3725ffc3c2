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

/* shim/job/report_file.c: writes the report of this process, which holds everything since the
 * process began. Called without a communicator's lock. If REPORT_DIR is given, the process has one
 * file. Text goes to stderr, of rank 0 or, without REPORT_DIR, of each rank that REPORT names.
 * file, text: which of the two is due. The report says that the job has ended. */
void shim_report(bool file, bool text);
/* Writes the same report, which says that the job goes on. */
void shim_report_so_far(void);

/* Resolves a directory that an option names, from the directory in which the program began. Returns
 * false if the path is too long. */
bool shim_directory_of(const char *option, char *directory, size_t size);

/* Prepares the interim reports, once the settings are known. */
void shim_report_prepare(void);
/* Writes the file anew if 10 s have passed since the last time, so that a job that is killed leaves
 * its last report. Called after a call, without a lock and outside of MPI. now: of shim_now. */
void shim_report_while_running(double now);

/* Begins a job that was asked for a report, if no call has begun it. Called in MPI_Finalize before
 * the MPI library's function. */
void shim_report_before_end(void);

/* Handles MPI_Pcontrol: 0 votes the library off, 1 on again, 2 writes the report so far. */
void shim_pcontrol(int level);

#endif
