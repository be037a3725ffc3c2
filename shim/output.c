#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fpenv.h"
#include "core/report.h"
#include "core/tensor_access.h"
#include "shim/comm.h"
#include "shim/job.h"
#include "shim/log.h"

enum { MAX_OPTIONS = 64 };

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

    ss_report_write(&shim.stats, job, SS_EMIT_TEXT, write_fd, &fd);
}

static void write_file(const struct ss_report_job *job)
{
    char pattern[4096], path[4096 + 512];
    int err = 0;
    int fd;

    if (mkdir(shim.options.report_dir, 0777) != 0 && errno != EEXIST)
        err = errno;
    int len = snprintf(pattern, sizeof pattern, "%s/sparseshim-%%j-%%r-%%p.json",
                       shim.options.report_dir);
    if (len < 0 || (size_t)len >= sizeof pattern || !shim_expand(path, sizeof path, pattern)) {
        shim_say(CFG_DEBUG_WARN, "SPARSESHIM_REPORT_DIR: the path is too long");
        return;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        shim_say(CFG_DEBUG_WARN, "SPARSESHIM_REPORT_DIR: %s cannot be written: %s", path,
                 strerror(err ? err : errno));
        return;
    }
    err = ss_report_write(&shim.stats, job, SS_EMIT_JSON, write_fd, &fd);
    if (close(fd) != 0 && err == 0)
        err = errno;
    if (err != 0)
        shim_say(CFG_DEBUG_WARN, "SPARSESHIM_REPORT_DIR: %s cannot be written: %s", path,
                 strerror(err));
}

bool shim_report_is_due(void)
{
    return shim.options.report == CFG_REPORT_ALL ||
           (shim.options.report != CFG_REPORT_OFF && shim.rank == 0);
}

void shim_tell_refusals(struct ss_comm *comm)
{
    char text[600];

    if (shim.rank == 0 && !atomic_load(&shim.refusals_told) &&
        ss_comm_refusals(comm, text, sizeof text) > 0 &&
        !atomic_exchange(&shim.refusals_told, true))
        shim_say(CFG_DEBUG_WARN, "%s", text);
}

/* Communicators that were freed are booked when they go. */
static void book_tensors(void)
{
    struct shim_comm **comms;
    size_t n;

    shim_comm_sweep();
    n = shim_comm_all(&comms);
    for (size_t i = 0; i < n; i++) {
        pthread_mutex_lock(&comms[i]->lock);
        if (comms[i]->core) {
            shim_tell_refusals(comms[i]->core);
            if (shim_report_is_due())
                ss_comm_book_tensors(comms[i]->core, false);
        }
        pthread_mutex_unlock(&comms[i]->lock);
        shim_comm_put(comms[i]);
    }
    free(comms);
}

static void write_report(bool file, bool text)
{
    struct ss_report_option options[MAX_OPTIONS];
    struct ss_report_job job = {
        .program = program_invocation_short_name,
        .version = SPARSESHIM_VERSION,
        .mpi_library = shim.library,
        .rank = shim.rank,
        .ranks = shim.ranks,
        .start_unix = shim.start_unix,
        .observe = shim.settings.observe,
        .options = options,
    };
    bool files = shim.options.report_dir && *shim.options.report_dir;
    char host[256] = "";

    if (gethostname(host, sizeof host - 1) == 0)
        job.hostname = host;
    job.option_count = options_of(options);
    shim.stats.end = shim_now();
    shim.stats.memory_peak = atomic_load(&shim.mem.peak);
    if (file && files)
        write_file(&job);
    if (text && (!files || shim.rank == 0))
        write_text(&job);
}

void shim_report(bool file, bool text)
{
    struct ss_fpenv_full saved;

    if (text)
        shim_say(CFG_DEBUG_INFO, "%llu calls seen, %llu made sparse, %llu below MIN_COUNT",
                 (unsigned long long)atomic_load(&shim.stats.seen),
                 (unsigned long long)atomic_load(&shim.stats.sparse),
                 (unsigned long long)atomic_load(&shim.stats.passed[SS_WHY_SMALL]));
    if (shim.settings.topk)
        book_tensors();
    if (!shim_report_is_due())
        return;
    ss_fpenv_enter_full(&saved);
    write_report(file, text);
    ss_fpenv_leave_full(&saved);
}
