/* Says at the successful end of the program that `sparseshim run` has become that no report will
 * come, since it made no MPI call. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/config.h"
#include "shim/job/program.h"
#include "shim/mpi/state.h"

/* Returns true if the process may have waited for an MPI program, before its last exec as well:
 * launchers and scripts have, and such programs write reports. Such a program takes 1,500 page
 * faults of 4 KiB and more, and a launcher of ranks on other hosts 700 by itself; ldconfig, which
 * PyTorch runs, takes 60. */
static bool has_waited(void)
{
    enum { MOST = 2 << 20 }; /* bytes; pages may be larger */
    struct rusage children = {.ru_minflt = 0};

    return getrusage(RUSAGE_CHILDREN, &children) != 0 ||
           children.ru_minflt > MOST / sysconf(_SC_PAGESIZE);
}

/* Returns true for programs that start others on other hosts or in a service. */
static bool starts_elsewhere(const char *program)
{
    static const char *const launchers[] = {"mpirun", "mpiexec", "orterun", "prterun"};
    static const char *const names[] = {"srun", "sbatch", "aprun", "jsrun",  "flux",  "prun",
                                        "qsub", "bsub",   "ssh",   "docker", "podman"};

    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (strncmp(program, launchers[i], strlen(launchers[i])) == 0)
            return true; /* "mpiexec.hydra" */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(program, names[i]) == 0)
            return true;
    return false;
}

/* Returns true in the process that `run` wrote into the environment. */
static bool is_run_process(void)
{
    const char *process = secure_getenv(CFG_RUN_PROCESS);

    return process && strtol(process, NULL, 10) == (long)getpid();
}

/* Prints the line. A forked child, whose number is another, prints none. */
static void say(int status, void *unused)
{
    char name[NAME_MAX + 1];

    (void)unused;
    if (status != 0 || atomic_load(&shim.process.phase) != SHIM_NEW || !is_run_process() ||
        has_waited())
        return;
    shim_program_name(name, sizeof name);
    if (!starts_elsewhere(name))
        dprintf(STDERR_FILENO,
                "sparseshim: %s made no MPI call that the library sees, so there is no report; "
                "for PyTorch with gloo or nccl see sparseshim(7), PyTorch\n",
                name);
}

__attribute__((constructor)) static void begin(void)
{
    if (is_run_process())
        on_exit(say, NULL);
}
