/* Prepares the shim at the first intercepted call: finds the next functions, identifies the MPI
 * library, reads the settings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/fpenv.h"
#include "core/base/launcher.h"
#include "shim/device/memory.h"
#include "shim/entry/calls.h"
#include "shim/entry/core_settings.h"
#include "shim/entry/learn.h"
#include "shim/job/job.h"
#include "shim/job/program.h"
#include "shim/job/trace.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"
#include "shim/task/task.h"

/* Returns true if the library's version text is of MPICH's ABI family. */
static bool is_of_mpich(void)
{
    static const char *const family[] = {"MPICH", "MVAPICH", "Intel(R) MPI"};

    for (size_t i = 0; i < sizeof family / sizeof *family; i++)
        if (strstr(shim.library.text, family[i]))
            return true;
    return false;
}

/* Returns true for MPICH from 5.0 on. */
static bool library_hides_errors(void)
{
    static const char label[] = "MPICH Version:";
    const char *at = strstr(shim.library.text, label);

    return at && atoi(at + sizeof label - 1) >= 5;
}

/* Returns a number that differs between processes and runs, as far as clock and process number
 * do. */
static uint64_t make_salt(void)
{
    struct timespec now;
    uint64_t salt;

    clock_gettime(CLOCK_REALTIME, &now);
    salt = (uint64_t)now.tv_nsec * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)now.tv_sec;
    return (salt ^ (uint64_t)getpid()) * UINT64_C(0xff51afd7ed558ccd);
}

static void refuse(const char *why, const char *what)
{
    if (ss_launcher_rank() <= 0)
        shim_say(CFG_DEBUG_WARN, "%s%s; every call passes through%s", why, what,
                 shim.options.report != CFG_REPORT_OFF ? ", and no report is written" : "");
}

/* Parses the rules of an option. A text that cannot be parsed counts as empty; its problem is
 * reported with the others. */
static const struct ss_rules *rules_of(const char *name, const char *text, bool with_settings,
                                       char *problem, size_t size)
{
    struct ss_rules *rules = NULL;
    char error[400] = "out of memory";

    if (ss_rules_parse(text, with_settings, &rules, error, sizeof error) != SS_OK)
        snprintf(problem, size, "SPARSESHIM_%s: %s", name, error);
    return rules;
}

static void prepare_rules(void)
{
    struct ss_tensor_settings *t = &shim.settings.tensors;
    size_t size = sizeof shim.problems.rules[0];

    ss_registry_init(&shim.registry);
    t->registry = &shim.registry;
    t->include = rules_of("REGISTER", shim.options.include, true, shim.problems.rules[0], size);
    t->exclude = rules_of("EXCLUDE", shim.options.exclude, false, shim.problems.rules[1], size);
}

/* Returns a count as a number of elements from 1 on. */
static int64_t at_least_one(uint64_t count)
{
    if (count == 0)
        return 1; /* there is nothing to reduce in an empty call */
    return count > INT64_MAX ? INT64_MAX : (int64_t)count;
}

static void prepare_counts(void)
{
    uint64_t named = ss_rules_least_named(shim.settings.tensors.include);

    shim.min_count = at_least_one(shim.options.min_count);
    shim.least_named = at_least_one(shim.settings.merge > 0 ? named : UINT64_MAX);
}

static size_t host_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : 0;
}

/* Asks the system for values that later calls need, since a program may forbid system calls once
 * MPI runs. */
static void ask_system(void)
{
    shim.process.memory = host_memory();
    if (!getcwd(shim.report.start_directory, sizeof shim.report.start_directory))
        shim.report.start_directory[0] = '\0';
    if (shim.options.device != CFG_DEVICE_CPU)
        shim_memory_find();
    if (shim.settings.topk || shim_learns())
        shim_site_open();
}

static bool prepare_settings(void)
{
    shim.cfg = cfg_load();
    if (!shim.cfg)
        return false;
    shim.options = *cfg_options(shim.cfg);
    shim.settings = shim_settings_of(shim.cfg, &shim.options);
    prepare_rules();
    prepare_counts();
    shim.process.left_out =
        cfg_misread_policy(shim.cfg) || !shim_program_is_served(shim.options.programs);
    ss_stats_init(&shim.stats, shim_now());
    shim.stats.timed = shim.options.report != CFG_REPORT_OFF || shim.settings.observe;
    shim.report.start_unix = (int64_t)time(NULL);
    shim_report_prepare();
    return true;
}

/* Returns true for Open MPI before 4.0. Derived libraries, such as Spectrum MPI, have version texts
 * of their own. */
static bool is_old_open_mpi(void)
{
    static const char label[] = "Open MPI v";
    const char *at = strstr(shim.library.text, label);

    return at && atoi(at + sizeof label - 1) < 4;
}

static void set_open_mpi(void)
{
    if (is_old_open_mpi())
        refuse("this MPI library is not served: ", shim.library.text);
    else if (!shim_real_set_open_mpi())
        refuse("the MPI library lacks ", "a symbol of Open MPI");
}

/* Finds the ABI of the MPI library. Returns false if it is not served. The library's own answer
 * comes first, since the libraries of both ABIs have one version text. */
static bool find_abi(void)
{
    const int major = shim_real_abi_version();

    shim_real_library(shim.library.text, sizeof shim.library.text);
    shim.library.text[strcspn(shim.library.text, "\n")] = '\0';
    if (major == 1)
        shim_abi_set(SHIM_ABI_STANDARD);
    else if (major > 1 || shim_real_is_named_abi())
        refuse("this version of the standard MPI ABI (libmpi_abi) is not known: ",
               shim.library.text);
    else if (shim_real_is_open_mpi())
        set_open_mpi();
    else if (is_of_mpich())
        shim_abi_set(SHIM_ABI_MPICH);
    else
        refuse("this MPI library is not served: ",
               shim.library.text[0] ? shim.library.text : "(no version text)");
    return shim_abi.kind != SHIM_ABI_NONE;
}

/* Returns true if a second copy of this library is loaded, whose calls cannot be told from the
 * program's. The first one says so. */
static bool is_doubled(void)
{
    char both[900]; /* as much as fits into a message */
    bool first;

    if (!shim_real_find_copy(both, sizeof both, &first))
        return false;
    if (first)
        refuse("two copies of this library are preloaded: ", both);
    return true;
}

/* Returns the phase of following calls. SHIM_NEW: there is no MPI library yet; the next call may
 * find it. */
static enum shim_phase look_around(void)
{
    struct timespec now;
    const char *lacking, *off;
    bool for_all;

    if (!shim_real_find_next())
        return SHIM_NEW;
    shim_note_process();
    clock_gettime(CLOCK_MONOTONIC, &now);
    shim.process.start_second = now.tv_sec;
    if (cfg_disabled() || !prepare_settings())
        return SHIM_PASS;
    off = cfg_turned_off(shim.cfg, &for_all);
    if (off && for_all)
        refuse("the site has switched this library off for all jobs: ", off);
    else if (off)
        refuse("no mode is allowed that does as little as MODE asks for: ", off);
    if (shim.options.disable)
        return SHIM_PASS;
    if (!shim_real_has_library() || is_doubled())
        return SHIM_PASS;
    if (!find_abi())
        return SHIM_PASS;
    shim.hooks =
        (struct shim_hooks){shim_job_pause, shim_task_step, shim_task_leave, shim_trace_flush};
    shim.library.hides_errors = library_hides_errors();
    shim.process.salt = make_salt();
    lacking = shim_real_find_pmpi();
    if (lacking) {
        refuse("the MPI library lacks ", lacking);
        return SHIM_PASS;
    }
    ask_system();
    return SHIM_READY;
}

/* Prepares in the default environment, so that numbers in options are read alike on all ranks. */
static enum shim_phase prepare(void)
{
    struct ss_fpenv_full saved;
    enum shim_phase phase;

    ss_fpenv_enter_full(&saved);
    shim_real_look();
    phase = look_around();
    shim_real_let_go();
    ss_fpenv_leave_full(&saved);
    return phase;
}

static void pass_at_once(int64_t blocking, int64_t nonblocking)
{
    atomic_store(&shim.fast.nonblocking, nonblocking);
    atomic_store(&shim.fast.count, blocking);
}

static void pass_small_at_once(void)
{
    pass_at_once(shim.min_count,
                 shim.least_named < shim.min_count ? shim.least_named : shim.min_count);
}

bool shim_prepare(void)
{
    int phase = atomic_load_explicit(&shim.process.phase, memory_order_acquire);

    if (phase == SHIM_NEW) {
        pthread_mutex_lock(&shim.process.start_lock);
        phase = atomic_load(&shim.process.phase);
        if (phase == SHIM_NEW) {
            phase = (int)prepare();
            atomic_store(&shim.process.phase, phase);
            if (phase == SHIM_PASS ||
                (phase == SHIM_READY && shim.options.device == CFG_DEVICE_CPU))
                shim_memory_ignore();
            if (phase == SHIM_PASS)
                pass_at_once(INT64_MAX, INT64_MAX);
            else if (phase == SHIM_READY && !shim_calls_are_counted())
                pass_small_at_once();
        }
        pthread_mutex_unlock(&shim.process.start_lock);
    }
    return phase == SHIM_READY && shim_is_this_process();
}
