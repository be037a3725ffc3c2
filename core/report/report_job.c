/* The report of the job: headline, summary, reasons, notes, options; and all its parts in order. */
#include "core/report/report_impl.h"

#include <time.h>

enum { PARTS = 24 };

/* Sums over lanes. */
struct totals {
    uint64_t bytes_dense, bytes_sent, passed;
    struct ss_times times;
};

/* A sentence under construction. */
struct sentence {
    struct ss_emit_value parts[PARTS];
    size_t n;
};

static void add(struct sentence *s, struct ss_emit_value value)
{
    if (s->n < PARTS)
        s->parts[s->n++] = value;
}

static void say(struct ss_emit *e, const char *key, const char *label, const struct sentence *s)
{
    ss_emit_kv(e, key, label, ss_v_sentence(s->parts, s->n));
}

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* One line of the summary from values in brackets. */
#define SAY(emit, key, label, ...)                                                                 \
    ss_emit_kv(emit, key, label,                                                                   \
               ss_v_sentence((const struct ss_emit_value[]){__VA_ARGS__},                          \
                             LENGTH(((const struct ss_emit_value[]){__VA_ARGS__}))))

double ss_report_share(const struct ss_stats *stats)
{
    bool whole = stats->timed && atomic_load(&stats->not_timed) == 0;

    return whole ? ss_ratio(stats->allreduce_seconds, stats->end - stats->start) : NAN;
}

static void add_up(struct ss_stats *stats, struct totals *totals)
{
    *totals = (struct totals){0};
    for (const struct ss_lane_record *r = stats->lanes; r; r = r->next) {
        totals->bytes_dense += r->bytes_dense;
        totals->bytes_sent += r->bytes_sent;
        totals->times.scan += r->times.scan;
        totals->times.vote += r->times.vote;
        totals->times.exchange += r->times.exchange;
        totals->times.merge += r->times.merge;
        totals->times.coding += r->times.coding;
        totals->times.native += r->times.native;
    }
    for (int i = 0; i < SS_REASONS; i++)
        totals->passed += atomic_load(&stats->passed[i]);
}

/* "2026-11-20 19:12:03 UTC", or "" for a year out of reach. */
static void format_date(int64_t unix_seconds, char *buffer, size_t size)
{
    time_t at = (time_t)unix_seconds;
    struct tm parts;

    buffer[0] = '\0';
    if (gmtime_r(&at, &parts) && parts.tm_year > -1900 && parts.tm_year < 8100)
        strftime(buffer, size, "%Y-%m-%d %H:%M:%S UTC", &parts); /* digits in any locale */
}

static void say_headline(struct ss_emit *e, struct ss_stats *stats, const struct ss_report_job *job)
{
    struct sentence s = {.n = 0};
    char date[64];

    format_date(job->start_unix, date, sizeof date);
    add(&s, ss_v_text("sparseshim "));
    add(&s, ss_v_line(job->version));
    add(&s, ss_v_text(": "));
    add(&s, ss_v_line(job->program ? job->program : "unnamed program"));
    if (job->rank >= 0) {
        add(&s, ss_v_text(", rank "));
        add(&s, ss_v_integer(job->rank));
        add(&s, ss_v_text(job->ranks > 0 ? " of " : ""));
        add(&s, job->ranks > 0 ? ss_v_integer(job->ranks) : ss_v_text(""));
    }
    if (job->hostname) {
        add(&s, ss_v_text(" on "));
        add(&s, ss_v_line(job->hostname));
    }
    if (date[0]) {
        add(&s, ss_v_text(", started "));
        add(&s, ss_v_text(date));
    }
    add(&s, ss_v_text(", ran "));
    add(&s, ss_v_seconds(stats->end - stats->start));
    say(e, "headline", "", &s);
}

static void say_bytes(struct ss_emit *e, const struct ss_report_job *job, const struct totals *t)
{
    double fewer = ss_ratio((double)t->bytes_dense, (double)t->bytes_sent);

    if (t->bytes_dense == 0)
        SAY(e, "bytes", "bytes", ss_v_text("none: no call could be made sparse"));
    else if (job->observe)
        SAY(e, "bytes", "bytes", ss_v_bytes(t->bytes_sent),
            ss_v_text(" sent, votes included, where dense calls alone send "),
            ss_v_bytes(t->bytes_dense), ss_v_text(" (mode observe changes nothing)"));
    else if (fewer >= 1.005)
        SAY(e, "bytes", "bytes", ss_v_bytes(t->bytes_sent), ss_v_text(" sent instead of "),
            ss_v_bytes(t->bytes_dense), ss_v_text(": "), ss_v_factor(fewer),
            ss_v_text(" times fewer"));
    else
        SAY(e, "bytes", "bytes", ss_v_bytes(t->bytes_sent), ss_v_text(" sent instead of "),
            ss_v_bytes(t->bytes_dense), ss_v_text(": nothing saved"));
}

static void say_time(struct ss_emit *e, struct ss_stats *stats, const struct totals *t)
{
    double f = ss_report_share(stats);
    uint64_t not_timed = atomic_load(&stats->not_timed);

    if (stats->timed && not_timed > 0)
        SAY(e, "time", "time", ss_v_seconds(stats->allreduce_seconds),
            ss_v_text(" in the calls themselves; f is not known, since "), ss_v_count(not_timed),
            ss_v_text(" nonblocking or persistent calls end in waits that are not timed"));
    else if (stats->timed)
        SAY(e, "time", "time", ss_v_seconds(stats->allreduce_seconds),
            ss_v_text(" in allreduce, f = "), ss_v_share(f),
            ss_v_text(" of the job, which without it is at most "), ss_v_factor(ss_ratio(1, 1 - f)),
            ss_v_text(" times faster"));
    else
        SAY(e, "time", "time", ss_v_text("allreduce was not timed as a whole"));
    SAY(e, "phases", "phases", ss_v_text("scan "), ss_v_seconds(t->times.scan),
        ss_v_text(", vote "), ss_v_seconds(t->times.vote), ss_v_text(", exchange "),
        ss_v_seconds(t->times.exchange), ss_v_text(", merge "), ss_v_seconds(t->times.merge),
        ss_v_text(", coding "), ss_v_seconds(t->times.coding), ss_v_text(", native "),
        ss_v_seconds(t->times.native));
}

/* What mode observe recommends for the job: MODE=exact alone if it helps any lane, else with the
 * algorithm that saves most. */
static void say_try(struct ss_emit *e, struct ss_stats *stats)
{
    double before = 0, after = 0, most = 0;
    uint64_t gaining = 0, misfits = 0;
    enum ss_algorithm forced = SS_AUTO;

    for (const struct ss_lane_record *r = stats->lanes; r; r = r->next) {
        struct ss_report_advice a = ss_report_advise(r);
        double calls = (double)ss_lane_passed(r);
        double saved = a.gain ? calls * (a.native - a.predicted) : 0;

        before += r->times.native;
        after += r->times.native - (a.force ? 0 : saved);
        gaining += a.gain && !a.force;
        misfits += a.misfit;
        if (a.force && saved > most) {
            forced = a.best;
            most = saved;
        }
    }
    if (gaining > 0)
        SAY(e, "try", "try", ss_v_text("SPARSESHIM_MODE=exact: faster on "), ss_v_count(gaining),
            ss_v_text(" of "), ss_v_count(stats->lane_count), ss_v_text(" lanes, all together "),
            ss_v_seconds(after), ss_v_text(" instead of "), ss_v_seconds(before));
    else if (forced != SS_AUTO)
        SAY(e, "try", "try", ss_v_text("SPARSESHIM_MODE=exact SPARSESHIM_ALGORITHM="),
            ss_v_text(ss_algorithm_name(forced)), ss_v_text(": up to "), ss_v_seconds(most),
            ss_v_text(" saved on lanes where it is advised"));
    else if (misfits > 0)
        SAY(e, "try", "try",
            ss_v_text("no advice: the prediction for dense is off by more than 2 times on "),
            ss_v_count(misfits), ss_v_text(" of "), ss_v_count(stats->lane_count),
            ss_v_text(" lanes, and no other would gain 10 % or more"));
    else
        SAY(e, "try", "try", ss_v_text("nothing: no lane would gain 10 % or more"));
}

/* And what top-k would bring, should the buffers be gradients. */
static void say_lossy(struct ss_emit *e, struct ss_stats *stats)
{
    double before = 0, after = 0;
    uint64_t gaining = 0;

    for (const struct ss_lane_record *r = stats->lanes; r; r = r->next) {
        struct ss_report_advice a = ss_report_advise(r);

        before += r->times.native;
        after += r->times.native;
        if (a.topk_gain) {
            after -= (double)ss_lane_passed(r) * (a.native - a.topk_predicted);
            gaining++;
        }
    }
    if (gaining > 0)
        SAY(e, "try_lossy", "lossy",
            ss_v_text("SPARSESHIM_MODE=topk, for gradients only: faster on "), ss_v_count(gaining),
            ss_v_text(" of "), ss_v_count(stats->lane_count), ss_v_text(" lanes, all together "),
            ss_v_seconds(after), ss_v_text(" instead of "), ss_v_seconds(before));
}

static void write_summary(struct ss_emit *e, struct ss_stats *stats,
                          const struct ss_report_job *job, const struct totals *t)
{
    uint64_t nonblocking = atomic_load(&stats->nonblocking);
    uint64_t errors = atomic_load(&stats->errors), outside = atomic_load(&stats->small_bytes);

    ss_emit_object_begin(e, "summary", NULL);
    say_headline(e, stats, job);
    if (!job->complete)
        SAY(e, "state", "state",
            ss_v_text("the job had not ended: it was running, or was ended later without "
                      "MPI_Finalize"));
    SAY(e, "calls", "calls", ss_v_count(atomic_load(&stats->seen)), ss_v_text(" seen: "),
        ss_v_count(atomic_load(&stats->sparse)), ss_v_text(" made sparse, "), ss_v_count(t->passed),
        ss_v_text(" passed through, "), ss_v_count(errors),
        ss_v_text(errors == 1 ? " error" : " errors"));
    if (nonblocking > 0)
        SAY(e, "requests", "requests", ss_v_count(nonblocking),
            ss_v_text(nonblocking == 1 ? " nonblocking call" : " nonblocking calls"),
            ss_v_text(" taken over"));
    say_bytes(e, job, t);
    ss_report_topk(e, stats);
    say_time(e, stats, t);
    SAY(e, "memory", "memory", ss_v_bytes(stats->memory_peak), ss_v_text(" of our own at peak"));
    if (stats->reduced_total > 0)
        SAY(e, "tensor", "tensor", ss_v_text("the largest, of "), ss_v_bytes(stats->largest_bytes),
            ss_v_text(", carries "),
            ss_v_share(ss_ratio((double)stats->largest_total, (double)stats->reduced_total)),
            ss_v_text(" of the bytes reduced"));
    if (outside > 0)
        SAY(e, "outside", "outside", ss_v_bytes(outside),
            ss_v_text(" in buffers that were passed through unseen, not in the bytes above"));
    ss_emit_kv(e, NULL, "MPI", ss_v_line(job->mpi_library));
    if (job->observe) {
        say_try(e, stats);
        say_lossy(e, stats);
    }
    ss_emit_object_end(e);
}

/* The numbers behind the summary: JSON alone has them. */
static void write_numbers(struct ss_emit *e, struct ss_stats *stats,
                          const struct ss_report_job *job, const struct totals *t)
{
    double f = ss_report_share(stats);
    char date[64];

    format_date(job->start_unix, date, sizeof date);
    ss_emit_object_begin(e, "job", NULL);
    ss_emit_kv(e, "program", NULL, ss_v_text(job->program));
    ss_emit_kv(e, "hostname", NULL, ss_v_text(job->hostname));
    ss_emit_kv(e, "rank", NULL, ss_v_integer(job->rank));
    ss_emit_kv(e, "ranks", NULL, ss_v_integer(job->ranks));
    ss_emit_kv(e, "version", NULL, ss_v_text(job->version));
    ss_emit_kv(e, "mpi_library", NULL, ss_v_text(job->mpi_library));
    ss_emit_kv(e, "start", NULL, ss_v_text(date));
    ss_emit_kv(e, "start_unix", NULL, ss_v_integer(job->start_unix));
    ss_emit_kv(e, "observe", NULL, ss_v_bool(job->observe));
    ss_emit_kv(e, "complete", NULL, ss_v_bool(job->complete));
    ss_emit_object_end(e);

    ss_emit_object_begin(e, "calls", NULL);
    ss_emit_kv(e, "seen", NULL, ss_v_count(atomic_load(&stats->seen)));
    ss_emit_kv(e, "eligible", NULL, ss_v_count(ss_stats_eligible(stats)));
    ss_emit_kv(e, "sparse", NULL, ss_v_count(atomic_load(&stats->sparse)));
    ss_emit_kv(e, "passed", NULL, ss_v_count(t->passed));
    ss_emit_kv(e, "nonblocking", NULL, ss_v_count(atomic_load(&stats->nonblocking)));
    ss_emit_kv(e, "not_timed", NULL, ss_v_count(atomic_load(&stats->not_timed)));
    ss_emit_kv(e, "errors", NULL, ss_v_count(atomic_load(&stats->errors)));
    ss_emit_kv(e, "tensors_unlisted", NULL, ss_v_count(stats->tensors_unlisted));
    ss_emit_object_end(e);

    ss_emit_object_begin(e, "bytes", NULL);
    ss_emit_kv(e, "bytes_dense", NULL, ss_v_bytes(t->bytes_dense));
    ss_emit_kv(e, "bytes_sent", NULL, ss_v_bytes(t->bytes_sent));
    ss_emit_kv(e, "ratio", NULL,
               ss_v_factor(ss_ratio((double)t->bytes_dense, (double)t->bytes_sent)));
    ss_emit_kv(e, "bytes_outside", NULL, ss_v_bytes(atomic_load(&stats->small_bytes)));
    ss_emit_kv(e, "bytes_largest", NULL, ss_v_bytes(stats->largest_bytes));
    ss_emit_kv(e, "bytes_largest_total", NULL, ss_v_bytes(stats->largest_total));
    ss_emit_kv(e, "bytes_reduced_total", NULL, ss_v_bytes(stats->reduced_total));
    ss_emit_kv(e, "share_largest", NULL,
               ss_v_share(ss_ratio((double)stats->largest_total, (double)stats->reduced_total)));
    ss_emit_kv(e, "bytes_memory_peak", NULL, ss_v_bytes(stats->memory_peak));
    ss_emit_object_end(e);

    ss_emit_object_begin(e, "times", NULL);
    ss_emit_kv(e, "seconds_elapsed", NULL, ss_v_seconds(stats->end - stats->start));
    ss_emit_kv(e, "timed", NULL, ss_v_bool(stats->timed));
    ss_emit_kv(e, "seconds_allreduce", NULL, ss_v_seconds(stats->allreduce_seconds));
    ss_emit_kv(e, "share_allreduce", NULL, ss_v_share(f));
    ss_emit_kv(e, "amdahl_cap", NULL, ss_v_factor(ss_ratio(1, 1 - f)));
    ss_emit_kv(e, "seconds_scan", NULL, ss_v_seconds(t->times.scan));
    ss_emit_kv(e, "seconds_vote", NULL, ss_v_seconds(t->times.vote));
    ss_emit_kv(e, "seconds_exchange", NULL, ss_v_seconds(t->times.exchange));
    ss_emit_kv(e, "seconds_merge", NULL, ss_v_seconds(t->times.merge));
    ss_emit_kv(e, "seconds_coding", NULL, ss_v_seconds(t->times.coding));
    ss_emit_kv(e, "seconds_native", NULL, ss_v_seconds(t->times.native));
    ss_emit_object_end(e);
}

/* Walks over reasons that have a count. */
struct reasons {
    struct ss_stats *stats;
    int next;
};

static bool reason_row(void *ctx, size_t row, struct ss_emit_value *values)
{
    struct reasons *at = ctx;
    uint64_t count = 0;

    if (row == 0)
        at->next = 0;
    while (at->next < SS_REASONS && (count = atomic_load(&at->stats->passed[at->next])) == 0)
        at->next++;
    if (at->next == SS_REASONS)
        return false;
    values[0] = ss_v_text(ss_reason_key((enum ss_reason)at->next));
    values[1] = ss_v_count(count);
    values[2] = ss_v_text(ss_reason_name((enum ss_reason)at->next));
    at->next++;
    return true;
}

static bool option_row(void *ctx, size_t row, struct ss_emit_value *values)
{
    const struct ss_report_job *job = ctx;

    if (row == job->option_count)
        return false;
    values[0] = ss_v_text(job->options[row].name);
    values[1] = ss_v_text(job->options[row].value);
    return true;
}

static bool note_row(void *ctx, size_t row, struct ss_emit_value *values)
{
    const struct ss_report_job *job = ctx;

    if (row == job->note_count)
        return false;
    values[0] = ss_v_text(job->notes[row]);
    return true;
}

static void write_tables(struct ss_emit *e, struct ss_stats *stats, struct ss_report_job *job)
{
    static const struct ss_emit_column reason_columns[] = {
        {"reason", NULL, 0, false},
        {"calls", "calls", 1, false},
        {"text", "reason", 1, true},
    };
    static const struct ss_emit_column option_columns[] = {
        {"name", "", 1, true},
        {"value", "", 1, true},
    };
    static const struct ss_emit_column note_columns[] = {{"note", "", 1, true}};
    static const struct ss_emit_table passed = {
        "passed", {"Passed through"}, reason_columns, LENGTH(reason_columns), reason_row};
    static const struct ss_emit_table options = {
        "options", {"Options"}, option_columns, LENGTH(option_columns), option_row};
    static const struct ss_emit_table notes = {
        "notes", {"Notes"}, note_columns, LENGTH(note_columns), note_row};

    ss_emit_table(e, &notes, job);
    ss_emit_table(e, &passed, &(struct reasons){stats, 0});
    ss_report_lanes(e, stats, job->observe);
    ss_report_tensors(e, stats);
    ss_emit_table(e, &options, job);
}

int ss_report_write(struct ss_stats *stats, const struct ss_report_job *job, enum ss_emit_form form,
                    ss_emit_write *write, void *ctx)
{
    struct ss_report_job copy = *job; /* what a row function is given is not const */
    struct ss_emit emit;
    struct totals totals;

    pthread_mutex_lock(&stats->lock);
    stats->lanes = ss_lanes_sorted(stats->lanes);
    add_up(stats, &totals);
    ss_emit_begin(&emit, form, write, ctx);
    ss_emit_kv(&emit, "schema", NULL, ss_v_integer(SS_REPORT_SCHEMA));
    write_summary(&emit, stats, job, &totals);
    write_numbers(&emit, stats, job, &totals);
    write_tables(&emit, stats, &copy);
    pthread_mutex_unlock(&stats->lock);
    return ss_emit_end(&emit);
}
