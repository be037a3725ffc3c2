/* The report of this process: what goes into it, when it is due, and where it is written. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/fpenv.h"
#include "core/base/launcher.h"
#include "core/call/tensor_access.h"
#include "core/report/report.h"
#include "shim/comm/comm.h"
#include "shim/comm/progress.h"
#include "shim/job/job.h"
#include "shim/job/program.h"
#include "shim/mpi/files.h"
#include "shim/mpi/log.h"
#include "shim/mpi/real.h"

enum {
    SHOWN = 300, /* bytes of a path that is printed */
    MAX_OPTIONS = 64,
    REPORT_EVERY = 10 /* seconds between two interim reports */
};

static int write_fd(void *ctx, const char *text, size_t len)
{
    return shim_write(*(int *)ctx, text, len);
}

/* The options that are not at their default. */
static size_t options_of(struct ss_report_option *list)
{
    struct cfg_row row;
    size_t count = 0;

    for (size_t i = 0; count < MAX_OPTIONS && cfg_row(shim.cfg, i, &row); i++)
        if (row.source != CFG_FROM_DEFAULT)
            list[count++] = (struct ss_report_option){row.name, row.value};
    return count;
}

static void write_text(const struct ss_report_job *job)
{
    int fd = STDERR_FILENO;

    ss_report_write_text(&shim.stats, job, write_fd, &fd);
}

static int write_json(void *job, int fd)
{
    return ss_report_write_json(&shim.stats, job, write_fd, &fd);
}

/* Warns once that a report could not be written, since an interim report follows every few
 * seconds. */
static void tell_lost(const char *directory, const char *name, const char *reason)
{
    if (!atomic_exchange(&shim.report.lost, true))
        shim_say(
            CFG_DEBUG_WARN,
            "SPARSESHIM_REPORT_DIR: %s%s%s cannot be written: %s; make a directory of your own "
            "there before the job starts, on all nodes, or name another",
            directory, *name ? "/" : "", name, reason);
}

bool shim_directory_of(const char *option, char *directory, size_t size)
{
    size_t used = 0;

    if (*option != '/' && *shim.report.start_directory)
        used = (size_t)snprintf(directory, size, "%s/", shim.report.start_directory);
    return shim_expand(directory + used, size - used, option);
}

/* Returns whether the file could be written. */
static bool write_file(struct ss_report_job *job, const char *directory)
{
    char name[512], reason[SHIM_REASON];
    bool in_directory;

    if (!directory[0] || !shim_expand(name, sizeof name, "sparseshim-%j-%r-%p.json"))
        tell_lost(shim.options.report_dir, "", "the path is too long");
    else if (shim_file_replace(directory, name, write_json, job, reason, &in_directory))
        return true;
    else
        tell_lost(directory, in_directory ? "" : name, reason);
    return false;
}

/* Writes the file, if it is due, and notes in job->kept where the last one lies. */
static void keep_file(struct ss_report_job *job, char *directory, size_t size, bool due)
{
    if (!shim_directory_of(shim.options.report_dir, directory, size))
        directory[0] = '\0';
    if (!due || write_file(job, directory))
        job->kept = strlen(directory) < SHOWN ? directory : "$SPARSESHIM_REPORT_DIR";
}

/* Rules that were compared with calls, and matched none of them. Without communication: of this
 * rank. */
static void tell_unmatched(void)
{
    const struct ss_tensor_settings *t = &shim.settings.tensors;
    const struct ss_rules *rules[] = {t->include, t->exclude};
    static const char *const names[] = {"REGISTER", "EXCLUDE"};
    struct ss_rules_reach reach = {.min_count = (uint64_t)shim.min_count};
    char text[900];

    for (int i = 0; shim.process.rank == 0 && i < 2; i++) {
        reach.merges = i == 0 && shim.settings.merge > 0 && shim.requests.taken;
        if (ss_rules_unmatched(rules[i], &reach, text, sizeof text) > 0)
            shim_say(CFG_DEBUG_WARN, "SPARSESHIM_%s: no call of rank 0 matched %s", names[i], text);
    }
}

/* Communicators that were freed are booked when they go. last: also says what is left. */
static void book_tensors(bool last)
{
    struct shim_comm **comms;
    size_t n = shim_comm_all(&comms);

    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&comms[i]->lock);
        if (comms[i]->core) {
            if (last) {
                shim_tell_lost(comms[i]->core);
                shim_tell_unsent(comms[i]->core);
            }
            if (shim_report_is_due())
                ss_comm_book_tensors(comms[i]->core, false);
        }
        pthread_mutex_unlock(&comms[i]->lock);
        shim_comm_put(comms[i]);
    }
    free(comms);
}

static bool has_python(void)
{
    return dlsym(RTLD_DEFAULT, "Py_IsInitialized") != NULL;
}

/* The object whose MPI_Allreduce is called in place of ours; NULL where it is ours. A program that
 * takes the function's address may have an entry of its own for it, which leads to us. */
static const char *object_before_us(void)
{
    void *first = dlsym(RTLD_DEFAULT, "MPI_Allreduce");
    const ElfW(Sym) *symbol = NULL;
    Dl_info ours, other;

    if (!first || dladdr(&shim, &ours) == 0 ||
        dladdr1(first, &other, (void **)&symbol, RTLD_DL_SYMENT) == 0)
        return NULL;
    if (other.dli_fbase == ours.dli_fbase || (symbol && symbol->st_shndx == SHN_UNDEF))
        return NULL;
    return other.dli_fname;
}

/* `reasons` is storage for what is noted. */
static void note_why(struct ss_report_job *job, ss_report_sentence *reasons, const char **notes)
{
    struct ss_report_scene scene = {.min_count = (uint64_t)shim.min_count,
                                    .memory = shim.mem.limit,
                                    .ranks = shim.process.sessions ? 0 : shim.process.ranks,
                                    .policy = cfg_misread_policy(shim.cfg),
                                    .programs =
                                        shim.process.left_out ? shim.options.programs : NULL};

    if (atomic_load(&shim.stats.allreduces) == 0) {
        scene.python = has_python();
        scene.before = object_before_us();
    }
    job->note_count = ss_report_why(&shim.stats, &scene, reasons, SS_REPORT_SENTENCES);
    for (size_t i = 0; i < job->note_count; i++)
        notes[i] = reasons[i];
    job->notes = notes;
}

static bool has_directory(void)
{
    return shim.options.report_dir && *shim.options.report_dir;
}

static void write_report(bool file, bool text, bool complete)
{
    struct ss_report_option options[MAX_OPTIONS];
    ss_report_sentence reasons[SS_REPORT_SENTENCES];
    const char *notes[SS_REPORT_SENTENCES];
    char program[NAME_MAX + 1];
    struct ss_report_job job = {
        .program = program,
        .version = SPARSESHIM_VERSION,
        .mpi_library = shim.library.text,
        .rank = shim.process.rank,
        .ranks = shim.process.ranks,
        .start_unix = shim.report.start_unix,
        .number = atomic_load(&shim.process.job),
        .observe = shim.settings.observe,
        .exact = shim.options.mode == CFG_MODE_EXACT && shim.options.algorithm == SS_AUTO,
        .complete = complete,
        .min_count = (uint64_t)shim.min_count,
        .options = options,
    };
    struct ss_fpenv_full saved;
    char host[256] = "", directory[4096];

    ss_fpenv_enter_full(&saved);
    shim_program_name(program, sizeof program);
    if (gethostname(host, sizeof host - 1) == 0)
        job.hostname = host;
    job.option_count = options_of(options);
    note_why(&job, reasons, notes);
    pthread_mutex_lock(&shim.report.lock);
    shim.stats.end = shim_now();
    shim.stats.memory_peak = atomic_load(&shim.mem.peak);
    shim_progress_used(&shim.stats.rounds.thread, &shim.stats.rounds.thread_lived);
    if (has_directory())
        keep_file(&job, directory, sizeof directory, file);
    if (text && (!has_directory() || shim.process.rank == 0))
        write_text(&job);
    pthread_mutex_unlock(&shim.report.lock);
    ss_fpenv_leave_full(&saved);
}

static void report(bool file, bool text, bool complete)
{
    if (text && shim.process.rank <= 0 && ss_launcher_rank() <= 0)
        shim_say(CFG_DEBUG_INFO, "%llu calls seen, %llu made sparse, %llu below MIN_COUNT",
                 (unsigned long long)atomic_load(&shim.stats.seen),
                 (unsigned long long)atomic_load(&shim.stats.sparse),
                 (unsigned long long)atomic_load(&shim.stats.passed[SS_WHY_SMALL]));
    if (shim.settings.topk) {
        shim_comm_sweep();
        book_tensors(text && complete);
    }
    if (shim.settings.topk && text && complete)
        tell_unmatched();
    if (shim_report_is_due())
        write_report(file, text, complete);
}

void shim_report(bool file, bool text)
{
    report(file, text, true);
}

void shim_report_so_far(void)
{
    shim_report_before_end();
    report(true, true, false);
}

void shim_report_prepare(void)
{
    bool wanted = shim.options.report != CFG_REPORT_OFF && has_directory();

    atomic_store(&shim.report.at, wanted ? 0 : (double)INFINITY);
}

/* Returns true once, at the end of the first call that ranks have decided on: a job that is killed
 * before the next report is due leaves that report. */
static bool is_first_decision(void)
{
    return !atomic_load_explicit(&shim.report.decided, memory_order_relaxed) &&
           ss_stats_decided(&shim.stats) && !atomic_exchange(&shim.report.decided, true);
}

void shim_report_while_running(double now)
{
    double due = atomic_load_explicit(&shim.report.at, memory_order_relaxed);

    if (isinf(due) || !atomic_load(&shim.process.started) || (now < due && !is_first_decision()))
        return;
    if (!shim_report_is_due())
        atomic_store(&shim.report.at, (double)INFINITY);
    else if (atomic_compare_exchange_strong(&shim.report.at, &due, now + REPORT_EVERY)) {
        if (shim.settings.topk)
            book_tensors(false);
        write_report(true, false, false);
    }
}

void shim_report_before_end(void)
{
    int up = 0;

    if (shim.options.report != CFG_REPORT_OFF && !atomic_load(&shim.process.started) &&
        shim_real.Initialized(&up) == MPI_SUCCESS && up)
        shim_job_start((uintptr_t)MPI_COMM_WORLD);
}
