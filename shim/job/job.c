/* Begins the job in the first call after MPI_Init, and ends it in MPI_Finalize. */
#include "shim/job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/launcher.h"
#include "core/compute/kernels.h"
#include "shim/comm/clock.h"
#include "shim/comm/comm.h"
#include "shim/comm/partial_calls.h"
#include "shim/comm/progress.h"
#include "shim/job/trace.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

/* Returns the number of ranks on this host if the launcher sets it, otherwise of the job: known
 * without communication, and never too small. SLURM_TASKS_PER_NODE reads "4" or "4(x2),3". */
static long ranks_here(void)
{
    static const char *const names[] = {
        "MPI_LOCALNRANKS",     "MV2_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
        "PMI_LOCAL_SIZE",      "PALS_LOCAL_SIZE",           "SLURM_NTASKS_PER_NODE",
        "SLURM_TASKS_PER_NODE"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        long n = ss_environment_number(names[i], 0);

        if (n > 0)
            return n;
    }
    return shim.process.ranks > 0 ? shim.process.ranks : 1;
}

static size_t memory_limit(void)
{
    if (shim.options.max_memory > 0)
        return (size_t)shim.options.max_memory;
    return shim.process.memory / 4 / (size_t)ranks_here();
}

/* Warns once of processes that the mpirun of another MPI library has started, so that each is a job
 * of one rank. A variable of their own library's launcher shows that they were started anew. */
static void warn_of_singletons(void)
{
    static const struct {
        const char *size, *own, *whose;
    } launchers[] = {{"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "Open MPI's"},
                     {"PMI_SIZE", "OMPI_COMM_WORLD_RANK", "MPICH's"}};

    if (shim.process.sessions || shim.process.ranks != 1 || ss_launcher_rank() > 0)
        return;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        long started = ss_environment_number(launchers[i].size, 1);

        if (started > 1 && ss_environment_number(launchers[i].own, -1) < 0)
            shim_say(CFG_DEBUG_WARN,
                     "%s mpirun has started %ld processes of this program, and each is a job of "
                     "one rank under %s: start it by the mpirun of its own MPI library",
                     launchers[i].whose, started, shim.library.text);
    }
}

/* Warns on rank 0 that a lossy mode has no rule. */
static void tell_no_rule(void)
{
    if (shim.process.rank == 0 && shim.settings.topk && !shim.settings.tensors.include &&
        !shim.problems.rules[0][0])
        shim_say(CFG_DEBUG_WARN,
                 "MODE=%s makes nothing lossy: SPARSESHIM_REGISTER is empty; 'sparseshim learn' "
                 "finds the gradients of a program and writes the rules",
                 shim.options.mode == CFG_MODE_QUANT ? "quant" : "topk");
}

/* Logs the problems of the settings. Returns true if one of them is an error: any if STRICT says
 * so, and a CONFIG that cannot be read, as `sparseshim run` refuses it. */
static bool tell_problems(void)
{
    const char *problem;
    bool any = false, fatal = false;

    for (size_t i = 0; (problem = cfg_problem(shim.cfg, i, &fatal)); i++) {
        any = any || fatal;
        if (shim.process.rank == 0)
            shim_say(CFG_DEBUG_WARN, "%s", problem);
    }
    for (int i = 0; i < 2; i++) {
        any = any || shim.problems.rules[i][0];
        if (shim.process.rank == 0 && shim.problems.rules[i][0])
            shim_say(CFG_DEBUG_WARN, "%s", shim.problems.rules[i]);
    }
    return (any && shim.options.strict) || cfg_config_problem(shim.cfg);
}

/* Ends the job. Communicators, settings and counters stay, since calls may follow: from callbacks
 * of attributes that are deleted later, in an order that may differ between the ranks, and on
 * communicators of sessions. */
static void job_end(void)
{
    MPI_Comm single = (MPI_Comm)shim.library.single;

    shim_report(true, true);
    shim_clock_measure_again();
    shim_trace_end();
    shim_comm_sweep();
    shim_costs_forget();
    shim_pairs_forget();
    shim_comm_end_keys();
    if (shim.library.single != 0 && single != MPI_COMM_NULL)
        shim_real.Comm_free(&single);
    shim.library.single = 0;
    shim_log_close();
}

/* Runs when MPI_Finalize deletes the attributes of MPI_COMM_SELF, before anything else; MPI still
 * works here. */
static int on_finalize(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    if (shim_is_this_process())
        job_end();
    return MPI_SUCCESS;
}

static void hook_finalize(void)
{
    int keyval;

    if (shim_real.Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &keyval, NULL) !=
        MPI_SUCCESS)
        return;
    shim_real.Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    shim_real.Comm_free_keyval(&keyval);
}

/* Takes nonblocking calls over if the program runs at MPI_THREAD_MULTIPLE, by itself or because the
 * user wants it. */
static void start_requests(void)
{
    int level = MPI_THREAD_SINGLE;

    if (shim.options.progress != CFG_PROGRESS_OFF && shim.options.mode != CFG_MODE_LEARN &&
        shim_real.Query_thread(&level) == MPI_SUCCESS)
        shim.requests.taken = level == MPI_THREAD_MULTIPLE;
    shim.requests.polled = shim.requests.taken && !shim_real_grequest_start;
    if (!shim.requests.taken)
        shim_requests_pass();
    shim.requests.by_thread = shim.requests.taken && shim.options.progress == CFG_PROGRESS_THREAD;
}

static void pass_small_slices(void)
{
    int64_t least = atomic_load(&shim.fast.count);

    if (least > 0 && least < INT64_MAX / 4)
        atomic_store(&shim.fast.slice, (4 * (uint64_t)least + (uint64_t)shim.process.ranks - 1) /
                                           (uint64_t)shim.process.ranks);
}

static void start(MPI_Comm comm)
{
    int up = 0;

    /* not initialised in a program that only opened MPI sessions, which has no world */
    shim.process.sessions = shim_real.Initialized(&up) != MPI_SUCCESS || !up;
    if (!shim.process.sessions)
        comm = MPI_COMM_WORLD;
    shim_real.Comm_rank(comm, &shim.process.rank);
    shim_real.Comm_size(comm, &shim.process.ranks);
    shim.mem.limit = memory_limit();
    shim_trace_start();
    warn_of_singletons();
    tell_no_rule();
    if (tell_problems())
        atomic_store(&shim.problems.objects, true);
    if (!shim.process.sessions) {
        pass_small_slices();
        hook_finalize();
        start_requests();
        shim_partial_start();
    }
    if (shim.process.rank == 0)
        shim_say(CFG_DEBUG_INFO, "version %s, %s, %s, memory limit %zu bytes", SPARSESHIM_VERSION,
                 shim.library.text, ss_kernels()->name, shim.mem.limit);
}

void shim_job_start(uintptr_t comm)
{
    if (atomic_load_explicit(&shim.process.started, memory_order_acquire))
        return;
    pthread_mutex_lock(&shim.process.start_lock);
    if (!atomic_load(&shim.process.started)) {
        start((MPI_Comm)comm);
        atomic_store(&shim.process.started, true);
    }
    pthread_mutex_unlock(&shim.process.start_lock);
}

void shim_job_start_if_up(void)
{
    int up = 0, over = 0;

    if (atomic_load_explicit(&shim.process.started, memory_order_acquire))
        return;
    if (shim_real.Initialized(&up) == MPI_SUCCESS && up &&
        shim_real.Finalized(&over) == MPI_SUCCESS && !over)
        shim_job_start((uintptr_t)MPI_COMM_WORLD);
}

static void text_at_exit(void)
{
    if (shim_is_this_process())
        shim_report(false, true);
}

void shim_job_pause(void)
{
    if (!atomic_exchange(&shim.report.exit_hooked, true) && atexit(text_at_exit) != 0)
        shim_say(CFG_DEBUG_WARN, "no report will be printed: no memory for an exit handler");
    shim_report(true, false);
    shim_trace_flush();
    shim_comm_close_all();
}

void shim_pcontrol(int level)
{
    if (level == 0 || level == 1)
        atomic_store(&shim.off, level == 0);
    if (level != 2 || atomic_load(&shim.process.phase) != SHIM_READY)
        return;
    if (shim.options.report != CFG_REPORT_OFF)
        shim_report_so_far();
    else if (ss_launcher_rank() <= 0)
        shim_say(CFG_DEBUG_INFO, "MPI_Pcontrol(2) writes a report where SPARSESHIM_REPORT is rank0 "
                                 "or all; it is off");
}
