/* The place of the process in its MPI job as the launcher's environment variables give it, before
 * MPI_Init. */
#ifndef CORE_BASE_LAUNCHER_H
#define CORE_BASE_LAUNCHER_H

/* Returns the number in an environment variable; `otherwise` if the variable is unset or holds no
 * number. */
long ss_environment_number(const char *name, long otherwise);

/* Returns the rank in the job; -1 if the launcher does not set it. */
int ss_launcher_rank(void);
/* Returns the rank among the job's ranks on this host; -1 if the launcher does not set it. */
int ss_launcher_local_rank(void);

/* Returns the end of a message about variables that some ranks lack: how the launcher hands them to
 * other hosts, if it does not do so by itself; otherwise "". */
const char *ss_launcher_advice(void);

#endif
