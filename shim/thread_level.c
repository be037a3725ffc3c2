#define _GNU_SOURCE 1
/* MPI_Init, MPI_Init_thread and MPI_Finalize. The watchdog of nonblocking calls needs
 * MPI_THREAD_MULTIPLE: it is asked for in the application's name, which is told the level it asked
 * for. */
#include <stdlib.h>
#include <unistd.h>

#include "shim/job.h"
#include "shim/log.h"
#include "shim/progress.h"
#include "shim/real.h"

static bool wants_requests(void)
{
    return shim_prepare() && shim.options.progress != CFG_PROGRESS_OFF &&
           shim_real_grequest_start != NULL;
}

static void remember(int err, int level, int provided)
{
    if (err != MPI_SUCCESS)
        return;
    shim.thread_level = level;
    shim.takes_requests = provided == MPI_THREAD_MULTIPLE;
    shim.own_thread = shim.takes_requests && shim.options.progress == CFG_PROGRESS_THREAD;
    if (!shim.takes_requests)
        shim_say(CFG_DEBUG_INFO, "no MPI_THREAD_MULTIPLE: nonblocking calls pass through");
}

/* A profiler that stands between us and the library is called as it is; it comes back through
 * PMPI_Init, which is ours as well. */
int shim_init(shim_init_fn *next, int *argc, char ***argv)
{
    int provided = MPI_THREAD_SINGLE;
    int err;

    if (!wants_requests() || !shim_real_same_object(next, shim.next.pmpi_init_thread))
        return next(argc, argv);
    /* The user has chosen another level for MPI_Init: the application may ask for it. */
    if (getenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL"))
        return next(argc, argv);
    err = shim.next.pmpi_init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    remember(err, MPI_THREAD_SINGLE, provided);
    return err;
}

int shim_init_thread(shim_init_thread_fn *next, int *argc, char ***argv, int required,
                     int *provided)
{
    int got = MPI_THREAD_SINGLE;
    int err;

    if (!wants_requests())
        return next(argc, argv, required, provided);
    err = next(argc, argv, MPI_THREAD_MULTIPLE, &got);
    remember(err, required < got ? required : got, got);
    if (err == MPI_SUCCESS)
        *provided = shim.thread_level;
    return err;
}

/* MPICH takes no lock any more from the beginning of MPI_Finalize on, before it deletes the
 * attributes of MPI_COMM_SELF (seen in 4.0.2): no other thread may be inside of it then. */
int shim_finalize(shim_finalize_fn *next)
{
    if (atomic_load(&shim.phase) == SHIM_READY && getpid() == shim.pid)
        shim_progress_end();
    return next();
}

int shim_query_thread(int *provided)
{
    int err;

    shim_prepare();
    err = shim.next.query_thread(provided);
    if (err == MPI_SUCCESS && shim.thread_level >= 0)
        *provided = shim.thread_level;
    return err;
}
