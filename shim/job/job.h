/* Beginning and end of a job as this process sees it. */
#ifndef SHIM_JOB_JOB_H
#define SHIM_JOB_JOB_H

#include "shim/mpi/state.h"

/* The part of the beginning that needs MPI: rank, thread level, end-of-job hook, memory limit,
 * messages about settings. Called after a native call on comm succeeded, which proves that MPI is
 * up even where MPI_Init was never called. */
void shim_job_start(uintptr_t comm);

/* The same ahead of a call, where MPI_Init has been called. */
void shim_job_start_if_up(void);

/* A Sessions-only program freed its last known communicator: write the report's file, and let go of
 * everything of MPI's. Nothing tells whether more will follow; the file is then written anew, and
 * the text comes once, when the process exits. */
void shim_job_pause(void);

/* shim/job/report_file.c: the report of this process. rank0: text on stderr, and a file where
 * REPORT_DIR is given. all: a file per rank, or text of every rank. `file` and `text` say which of
 * them is due. A process has one file, and each report holds everything since its beginning; the
 * first form says that the job has ended. Both under no lock of a communicator. */
void shim_report(bool file, bool text);
void shim_report_so_far(void);

/* A directory that an option names, from that in which the program began. False: it is too long. */
bool shim_directory_of(const char *option, char *directory, size_t size);

/* The file is written anew in calls, every 10 s, so that a job that is killed leaves its last one.
 * prepare: settings are known. while_running: after a call, under no lock and outside of MPI; now:
 * of shim_now. */
void shim_report_prepare(void);
void shim_report_while_running(double now);

/* MPI_Finalize, before the MPI library's: a job that was asked for a report begins here at the
 * latest. */
void shim_report_before_end(void);

/* MPI_Pcontrol: 0 votes the library off, 1 on again, 2 writes the report as it stands. */
void shim_pcontrol(int level);

#endif
