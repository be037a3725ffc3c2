#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/report.h"
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

enum { MAX_NOTES = 200, NOTE_SIZE = 320 };

/* What became of each tensor, communicator by communicator. Returns how many notes there are. */
static size_t notes_of(char (*text)[NOTE_SIZE], const char **notes)
{
    size_t n = 0;

    for (size_t b = 0; b < SHIM_BUCKETS; b++)
        for (const struct shim_comm *c = shim.buckets[b]; c; c = c->next)
            for (size_t i = 0;
                 c->core && n < MAX_NOTES && ss_comm_tensor_note(c->core, i, text[n], NOTE_SIZE);
                 i++, n++)
                notes[n] = text[n];
    return n;
}

void shim_report(bool file, bool text)
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
    bool all = shim.options.report == CFG_REPORT_ALL;
    bool files = shim.options.report_dir && *shim.options.report_dir;
    char host[256] = "";

    if (text)
        shim_say(CFG_DEBUG_INFO, "%llu calls seen, %llu made sparse, %llu below MIN_COUNT",
                 (unsigned long long)atomic_load(&shim.stats.seen),
                 (unsigned long long)atomic_load(&shim.stats.sparse),
                 (unsigned long long)atomic_load(&shim.stats.passed[SS_WHY_SMALL]));
    if (shim.options.report == CFG_REPORT_OFF || (!all && shim.rank != 0))
        return;
    if (gethostname(host, sizeof host - 1) == 0)
        job.hostname = host;
    job.option_count = options_of(options);
    char(*told)[NOTE_SIZE] = shim.settings.topk ? calloc(MAX_NOTES, NOTE_SIZE) : NULL;
    const char *notes[MAX_NOTES];
    if (told) {
        job.notes = notes;
        job.note_count = notes_of(told, notes);
    }
    shim.stats.end = shim_now();
    shim.stats.memory_peak = atomic_load(&shim.mem.peak);
    if (file && files)
        write_file(&job);
    if (text && (!files || shim.rank == 0))
        write_text(&job);
    free(told);
}
