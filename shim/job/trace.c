/* Collects events, and writes them to the file. */
#include "shim/job/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/fpenv.h"
#include "core/base/spans.h"
#include "shim/comm/clock.h"
#include "shim/job/job.h"
#include "shim/job/trace_impl.h"
#include "shim/mpi/files.h"
#include "shim/mpi/log.h"

enum { RECORDS = 4096, FIRST_FREE = 3 };

/* Seconds between two writes while the buffer has room. After MOST_BYTES in the file, only ends of
 * open spans are collected. */
#define WRITE_EVERY 0.25
static const uint64_t MOST_BYTES = (uint64_t)256 << 20;

struct trace {
    struct ss_trace sink;
    pthread_mutex_t lock; /* a leaf, except for the lock of the log */
    int fd;               /* -1: nothing is written any more */
    char path[4096 + 512];
    uint64_t written; /* bytes of whole events */
    double written_at;
    uint64_t dropped;         /* number of events */
    char reason[SHIM_REASON]; /* reason for dropping, "": none */
    int clocks;               /* clock samples in the file */
    unsigned lanes_named;
    uint64_t busy[TRACE_LANES / 64];
    uint16_t unseen[TRACE_LANES]; /* open spans of a lane whose beginnings were dropped */
    unsigned comms;
    char comm[TRACE_COMMS][TRACE_NAME];
    unsigned records;
    struct trace_record record[RECORDS];
    uint64_t in_text; /* number of events in `text` */
    struct trace_text text;
};

static struct trace *trace_of(struct ss_trace *sink)
{
    return (struct trace *)sink;
}

static bool is_full(const struct trace *t)
{
    return t->written >= MOST_BYTES;
}

/* ---- to the file ---- */

/* Closes the file after an error, and cuts off an event that was not written whole. */
static void lose_file(struct trace *t, int error)
{
    char buffer[SHIM_REASON];
    bool cut = ftruncate(t->fd, (off_t)t->written) == 0;

    close(t->fd);
    t->fd = -1;
    snprintf(t->reason, sizeof t->reason, "%s%s", strerror_r(error, buffer, sizeof buffer),
             cut ? "" : "; the file's last line is not whole");
}

/* Returns true if the file may grow: beyond the process's limit a signal would end the process. */
static bool is_allowed(const struct trace *t)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           t->written + t->text.used <= limit.rlim_cur;
}

static void write_text(struct trace *t)
{
    int error = EFBIG;

    if (t->fd >= 0 && is_allowed(t))
        error = shim_write(t->fd, t->text.text, t->text.used);
    if (t->fd >= 0 && error == 0)
        t->written += t->text.used;
    else
        t->dropped += t->in_text;
    if (t->fd >= 0 && error != 0)
        lose_file(t, error);
    t->text.used = 0;
    t->in_text = 0;
}

static void put_records(struct trace *t)
{
    for (unsigned i = 0; i < t->records && t->fd >= 0; i++) {
        while (t->lanes_named <= t->record[i].lane)
            shim_trace_put_lane(&t->text, t->lanes_named++);
        shim_trace_put(&t->text, &t->record[i], t->comm);
        t->in_text++;
        if (t->text.used > TRACE_TEXT - TRACE_LINE)
            write_text(t);
        if (t->fd < 0)
            t->dropped += t->records - i - 1;
    }
}

/* Writes the collected events, under the lock. `last` ends the array. */
static void write_all(struct trace *t, double now, bool last)
{
    bool was_full = is_full(t);

    t->written_at = now;
    if (t->fd < 0)
        t->dropped += t->records;
    put_records(t);
    t->records = 0;
    for (; t->fd >= 0 && t->clocks < atomic_load(&shim.clock.samples); t->clocks++)
        shim_trace_put_clock(&t->text, &shim.clock.sample[t->clocks]);
    if (last && t->dropped > 0)
        shim_trace_put_dropped(&t->text, now, t->reason, t->dropped);
    if (last)
        shim_trace_put_end(&t->text);
    write_text(t);
    if (is_full(t) && !was_full && !last) {
        snprintf(t->reason, sizeof t->reason, "the file has reached %u MiB",
                 (unsigned)(MOST_BYTES >> 20));
        shim_trace_put_dropped(&t->text, now, t->reason, 0);
        write_text(t);
    }
}

/* ---- from the calls ---- */

static bool open_lane(struct ss_trace *sink, unsigned *lane)
{
    struct trace *t = trace_of(sink);
    bool found = false;

    pthread_mutex_lock(&t->lock);
    for (unsigned i = 0; i < TRACE_LANES / 64 && !found; i++) {
        found = ~t->busy[i] != 0;
        if (!found)
            continue;
        unsigned bit = (unsigned)__builtin_ctzll(~t->busy[i]);
        t->busy[i] |= UINT64_C(1) << bit;
        *lane = 64 * i + bit;
        t->unseen[*lane] = 0;
    }
    if (!found) {
        t->dropped++;
        snprintf(t->reason, sizeof t->reason, "more than %d calls at the same time", TRACE_LANES);
    }
    pthread_mutex_unlock(&t->lock);
    return found;
}

static void close_lane(struct ss_trace *sink, unsigned lane)
{
    struct trace *t = trace_of(sink);

    pthread_mutex_lock(&t->lock);
    t->busy[lane / 64] &= ~(UINT64_C(1) << lane % 64);
    pthread_mutex_unlock(&t->lock);
}

static uint8_t comm_index(struct trace *t, const char *name)
{
    unsigned i = 0;

    while (i < t->comms && strncmp(t->comm[i], name, TRACE_NAME - 1) != 0)
        i++;
    if (i == t->comms && i < TRACE_COMMS)
        snprintf(t->comm[t->comms++], TRACE_NAME, "%s",
                 i == TRACE_COMMS - 1 ? "(another one)" : name);
    return (uint8_t)(i < TRACE_COMMS ? i : TRACE_COMMS - 1);
}

static void note_call(struct trace *t, struct trace_record *r, const struct ss_trace_call *call)
{
    r->ends_call = true;
    r->comm = comm_index(t, call->comm);
    r->ranks = call->ranks;
    r->call = call->number;
    r->count = call->count;
    r->type = call->type;
    r->algorithm = call->algorithm;
    r->why = call->why;
    r->bytes = call->bytes;
    r->inside = call->inside;
    r->density = (float)call->density;
}

/* Returns true if an event is dropped. The end of a span is dropped if its beginning was. */
static bool is_dropped(struct trace *t, const struct ss_trace_event *e)
{
    bool dropped = t->fd < 0 || t->unseen[e->lane] > 0 || (e->begins && is_full(t));

    if (t->fd >= 0 && dropped)
        t->unseen[e->lane] = (uint16_t)(t->unseen[e->lane] + (e->begins ? 1 : -1));
    t->dropped += dropped;
    return dropped;
}

/* Writes if it is time. Preserves errno, which belongs to the calling code. */
static void write_due(struct trace *t, double now)
{
    int saved = errno;

    if (t->records == RECORDS || (t->records > 0 && now - t->written_at >= WRITE_EVERY))
        write_all(t, now, false);
    errno = saved;
}

static void note(struct ss_trace *sink, const struct ss_trace_event *e)
{
    struct trace *t = trace_of(sink);

    pthread_mutex_lock(&t->lock);
    if (!is_dropped(t, e)) {
        struct trace_record *r = &t->record[t->records++];

        *r = (struct trace_record){.at = e->at,
                                   .name = e->name,
                                   .phase = e->phase,
                                   .number = e->number,
                                   .lane = (uint16_t)e->lane,
                                   .begins = e->begins};
        if (e->call)
            note_call(t, r, e->call);
        if (e->call || t->records == RECORDS)
            write_due(t, e->at);
    }
    pthread_mutex_unlock(&t->lock);
}

static void write_idle(struct ss_trace *sink, double at)
{
    struct trace *t = trace_of(sink);

    pthread_mutex_lock(&t->lock);
    write_due(t, at);
    pthread_mutex_unlock(&t->lock);
}

/* ---- the job ---- */

static void tell_lost(const char *directory, const char *name, const char *reason)
{
    shim_say(CFG_DEBUG_WARN,
             "SPARSESHIM_TRACE: %s%s%s cannot be written: %s; no trace of this rank", directory,
             *name ? "/" : "", name, reason);
}

/* Keeps the file open under another descriptor, out of the reach of programs that reopen the
 * standard descriptors by closing them. */
static int keep_open(void *ctx, int fd)
{
    struct trace *t = ctx;

    t->fd = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE);
    return t->fd < 0 ? errno : 0;
}

/* Opens the file. Creates the last directory of the path if it is missing, as for REPORT_DIR. */
static bool open_file(struct trace *t)
{
    char directory[4096], name[512], reason[SHIM_REASON];
    bool in_directory;

    if (!shim_directory_of(shim.options.trace, directory, sizeof directory) ||
        !shim_expand(name, sizeof name, "trace-%j-%r-%p.json")) {
        tell_lost(shim.options.trace, "", "the path is too long");
        return false;
    }
    snprintf(t->path, sizeof t->path, "%s/%s", directory, name);
    if (shim_file_replace(directory, name, keep_open, t, reason, &in_directory))
        return true;
    if (t->fd >= 0)
        close(t->fd);
    tell_lost(directory, in_directory ? "" : name, reason);
    return false;
}

void shim_trace_start(void)
{
    struct ss_fpenv_full saved;
    struct trace *t;

    if (!shim_clock_is_wanted())
        return;
    t = calloc(1, sizeof *t);
    if (!t) {
        tell_lost(shim.options.trace, "", "out of memory");
        return;
    }
    t->fd = -1;
    if (!open_file(t)) {
        free(t);
        return;
    }
    pthread_mutex_init(&t->lock, NULL);
    t->sink = (struct ss_trace){open_lane, close_lane, note, write_idle};
    ss_fpenv_enter_full(&saved);
    shim_trace_put_head(&t->text);
    write_all(t, shim_now(), false);
    ss_fpenv_leave_full(&saved);
    shim.settings.trace = &t->sink;
}

void shim_trace_flush(void)
{
    struct trace *t = shim.settings.trace ? trace_of(shim.settings.trace) : NULL;
    struct ss_fpenv_full saved;

    if (!t)
        return;
    ss_fpenv_enter_full(&saved);
    pthread_mutex_lock(&t->lock);
    write_all(t, shim_now(), false);
    pthread_mutex_unlock(&t->lock);
    ss_fpenv_leave_full(&saved);
}

static bool is_idle(const struct trace *t)
{
    uint64_t busy = 0;

    for (unsigned i = 0; i < TRACE_LANES / 64; i++)
        busy |= t->busy[i];
    return busy == 0;
}

/* Ends the trace. If calls in flight may still have events, the buffer stays. */
void shim_trace_end(void)
{
    struct trace *t = shim.settings.trace ? trace_of(shim.settings.trace) : NULL;
    struct ss_fpenv_full saved;

    if (!t)
        return;
    shim.settings.trace = NULL;
    ss_fpenv_enter_full(&saved);
    pthread_mutex_lock(&t->lock);
    write_all(t, shim_now(), true);
    if (t->fd >= 0)
        close(t->fd);
    t->fd = -1;
    if (t->dropped > 0)
        shim_say(CFG_DEBUG_WARN, "SPARSESHIM_TRACE: %s lacks %llu events: %s", t->path,
                 (unsigned long long)t->dropped, t->reason);
    bool idle = is_idle(t);
    pthread_mutex_unlock(&t->lock);
    if (idle)
        free(t);
    ss_fpenv_leave_full(&saved);
}
