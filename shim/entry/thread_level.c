/* MPI_Init, MPI_Init_thread and MPI_Finalize. The shim raises the program to MPI_THREAD_MULTIPLE,
 * and tells it the level that it asked for, if the user asks for one of
 *
 * - nonblocking calls taken over (PROGRESS=watchdog or thread, or MODE=topk with a REGISTER rule)
 * - allreduces that do not wait for all ranks (QUORUM)
 *
 * Otherwise these calls go on unchanged.
 */
#include <stdlib.h>
#include <strings.h>

#include "core/base/launcher.h"
#include "shim/comm/at_creation.h"
#include "shim/comm/comm.h"
#include "shim/comm/partial_calls.h"
#include "shim/comm/progress.h"
#include "shim/device/memory.h"
#include "shim/entry/calls.h"
#include "shim/job/job.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

bool shim_asked_for_requests(void)
{
    const struct cfg_options *o = &shim.options;

    if (o->mode == CFG_MODE_LEARN)
        return false;
    if (o->progress == CFG_PROGRESS_AUTO)
        return cfg_is_lossy(o) && o->include && o->include[0];
    return o->progress != CFG_PROGRESS_OFF;
}

static bool raises(void)
{
    return shim_prepare() && !shim.process.left_out &&
           (shim.settings.quorum != SS_QUORUM_ALL || shim_asked_for_requests());
}

/* Ends MPI_Init and MPI_Init_thread. Opens the part for CUDA if the program has loaded CUDA's
 * driver: MPI is up now, and the program may soon forbid system calls. Makes the first exchange of
 * MPI_COMM_WORLD if the job serves every nonblocking call. */
static int initialized(int err)
{
    if (err != MPI_SUCCESS || !shim_prepare())
        return err;
    if (shim.options.device != CFG_DEVICE_CPU)
        (void)shim_asks_devices();
    if (!shim_asked_for_requests() || atomic_exchange(&shim.table.world_exchanged, true))
        return err;
    shim_job_start_if_up();
    return shim_comm_exchange_at_creation((uintptr_t)MPI_COMM_WORLD, 0, true);
}

static void remember(int err, int level, int provided)
{
    if (err == MPI_SUCCESS)
        shim.process.thread_level = level < provided ? level : provided;
}

/* Returns the level that Open MPI's MPI_Init gives. */
static int level_of_open_mpi(void)
{
    const long said = ss_environment_number("OMPI_MPI_THREAD_LEVEL", MPI_THREAD_SINGLE);

    return said >= MPI_THREAD_SINGLE && said <= MPI_THREAD_MULTIPLE ? (int)said : -1;
}

/* Returns the level that MPI_Init gives, which MPICH and Open MPI let the user set; -1 if they
 * refuse the setting. */
static int level_of_init(void)
{
    const struct {
        const char *name;
        int level;
    } levels[] = {{"MPI_THREAD_SINGLE", MPI_THREAD_SINGLE},
                  {"MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED},
                  {"MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED},
                  {"MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE}};
    const char *said = getenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL");

    if (shim_abi.kind == SHIM_ABI_OPEN_MPI)
        return level_of_open_mpi();
    if (!said)
        return MPI_THREAD_SINGLE;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcasecmp(said, levels[i].name) == 0)
            return levels[i].level;
    return -1;
}

/* Handles MPI_Init. A profiler between the shim and the library is called unchanged; it comes back
 * through PMPI_Init, which is wrapped as well. */
int shim_init(shim_init_fn *next, int *argc, char ***argv)
{
    int provided = MPI_THREAD_SINGLE, level;
    int err;

    if (!raises() || !shim_real_same_object(next, shim.pmpi.init_thread))
        return initialized(next(argc, argv));
    level = level_of_init();
    if (level < 0)
        return initialized(next(argc, argv));
    err = shim.pmpi.init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    remember(err, level, provided);
    return initialized(err);
}

int shim_init_thread(shim_init_thread_fn *next, int *argc, char ***argv, int required,
                     int *provided)
{
    int got = MPI_THREAD_SINGLE;
    int err;

    if (!raises())
        return initialized(next(argc, argv, required, provided));
    err = next(argc, argv, MPI_THREAD_MULTIPLE, &got);
    remember(err, required, got);
    if (err == MPI_SUCCESS)
        *provided = shim.process.thread_level;
    return initialized(err);
}

/* Handles MPI_Finalize. From its beginning on MPICH takes no lock, before it deletes the attributes
 * of MPI_COMM_SELF (4.0.2): no other thread may be inside it, and nonblocking calls from callbacks
 * pass. Blocking calls are served as before, so that the order in which ranks delete attributes
 * does not matter. */
int shim_finalize(shim_finalize_fn *next)
{
    bool ours = atomic_load(&shim.process.phase) == SHIM_READY && shim_is_this_process();
    int err;

    if (ours) {
        shim_progress_end();
        shim_partial_end();
        shim_report_before_end();
        atomic_store(&shim.process.finalizing, true);
    }
    err = next();
    if (ours) {
        shim_comm_bury();
        atomic_store(&shim.process.finalizing, false);
        atomic_store(&shim.process.finalized, err == MPI_SUCCESS);
    }
    return err;
}

int shim_query_thread(shim_query_thread_fn *next, int *provided)
{
    const int err = next(provided);

    if (err == MPI_SUCCESS && shim.process.thread_level >= 0)
        *provided = shim.process.thread_level;
    return err;
}
