/* The process as the launcher of an MPI job tells it in the environment, before MPI_Init. */
#ifndef CORE_BASE_LAUNCHER_H
#define CORE_BASE_LAUNCHER_H

/* Returns the number in an environment variable; `otherwise` where there is none. */
long ss_environment_number(const char *name, long otherwise);

/* Rank in the job, and among its ranks on this host; -1 where the launcher does not tell it. */
int ss_launcher_rank(void);
int ss_launcher_local_rank(void);

#endif
