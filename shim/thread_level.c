#define _GNU_SOURCE 1
/* MPI_Init, MPI_Init_thread and MPI_Finalize. The watchdog of nonblocking calls needs
 * MPI_THREAD_MULTIPLE: it is asked for in the application's name, which is told the level it asked
 * for. */
#include <stdlib.h>
#include <strings.h>
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

/* The level that MPI_Init gives: MPICH leaves it to the user. -1 where it refuses what he says. */
static int level_of_init(void)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"MPI_THREAD_SINGLE", MPI_THREAD_SINGLE},
                  {"MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED},
                  {"MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED},
                  {"MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE}};
    const char *said = getenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL");

    if (!said)
        return MPI_THREAD_SINGLE;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcasecmp(said, levels[i].name) == 0)
            return levels[i].level;
    return -1;
}

/* A profiler that stands between us and the library is called as it is; it comes back through
 * PMPI_Init, which is ours as well. */
int shim_init(shim_init_fn *next, int *argc, char ***argv)
{
    int provided = MPI_THREAD_SINGLE, level;
    int err;

    if (!wants_requests() || !shim_real_same_object(next, shim.next.pmpi_init_thread))
        return next(argc, argv);
    level = level_of_init();
    if (level < 0)
        return next(argc, argv);
    err = shim.next.pmpi_init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    remember(err, level < provided ? level : provided, provided);
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
