/* Says at the end of the program that `sparseshim run` has become that no report will come, since
 * it made no MPI call. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/config.h"
#include "shim/job/program.h"
#include "shim/mpi/state.h"

/* 0: this is not that program. */
static pid_t run_process;
static long faults_before;

/* Returns the page faults of the processes that this one has waited for, which only grow. */
static long faults_of_children(void)
{
    struct rusage children = {.ru_minflt = 0};

    getrusage(RUSAGE_CHILDREN, &children);
    return children.ru_minflt;
}

/* A program that has waited for others may be a launcher or a script, and those write reports. */
static void say(int status, void *unused)
{
    char name[NAME_MAX + 1];

    (void)unused;
    if (status != 0 || run_process != getpid() || faults_of_children() != faults_before ||
        atomic_load(&shim.process.phase) != SHIM_NEW)
        return;
    shim_program_name(name, sizeof name);
    dprintf(STDERR_FILENO,
            "sparseshim: %s made no MPI call that the library sees, so there is no report; for "
            "PyTorch with gloo or nccl see sparseshim(7), PyTorch\n",
            name);
}

__attribute__((constructor)) static void begin(void)
{
    const char *process = secure_getenv(CFG_RUN_PROCESS);

    if (!process || strtol(process, NULL, 10) != (long)getpid())
        return;
    run_process = getpid();
    faults_before = faults_of_children();
    on_exit(say, NULL);
}
