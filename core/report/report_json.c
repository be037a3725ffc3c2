/* The report as JSON. */
#include <stdio.h>
#include <time.h>

#include "core/report/report.h"
#include "core/report/tensor_record.h"

void ss_report_date(int64_t unix_seconds, char *buffer, size_t size)
{
    time_t at = (time_t)unix_seconds;
    struct tm parts;

    buffer[0] = '\0';
    if (gmtime_r(&at, &parts) && parts.tm_year > -1900 && parts.tm_year < 8100)
        strftime(buffer, size, "%Y-%m-%d %H:%M:%S UTC", &parts); /* digits in any locale */
}

/* ---- sums ---- */

void ss_report_add_up(struct ss_stats *stats, struct ss_report_totals *totals)
{
    *totals = (struct ss_report_totals){0};
    for (const struct ss_lane_record *r = stats->lanes; r; r = r->next) {
        totals->bytes_dense += r->bytes_dense;
        totals->bytes_sent += r->bytes_sent;
        totals->dense_inside += r->dense_inside;
        totals->sent_inside += r->sent_inside;
        ss_times_add(&totals->times, &r->times);
    }
    for (int i = 0; i < SS_REASONS; i++)
        totals->passed += atomic_load(&stats->passed[i]);
}

struct ss_compared ss_report_compared(uint64_t dense, uint64_t dense_inside, uint64_t sent,
                                      uint64_t sent_inside)
{
    struct ss_compared c = {.sent = (double)sent, .dense = (double)dense};

    c.one_host = dense > 0 && dense_inside == dense && sent_inside == sent;
    c.apart = dense_inside > 0 && !c.one_host;
    if (c.apart) {
        c.sent = (double)(sent - sent_inside);
        c.dense = (double)(dense - dense_inside);
    }
    return c;
}

double ss_report_share(const struct ss_stats *stats)
{
    bool whole = stats->timed && atomic_load(&stats->not_timed) == 0;

    double f = ss_ratio(stats->allreduce_seconds, stats->end - stats->start);

    return whole && f <= 1 ? f : NAN;
}

/* Sorts lanes by bytes_dense, largest first; equal ones keep their order. A merge sort, as a list
 * allows it without memory. */
static struct ss_lane_record *sorted(struct ss_lane_record *list)
{
    struct ss_lane_record *half = list, *end = list, *result = NULL, **tail = &result;

    if (!list || !list->next)
        return list;
    while (end->next && end->next->next) {
        half = half->next;
        end = end->next->next;
    }
    end = sorted(half->next);
    half->next = NULL;
    half = sorted(list);
    while (half && end) {
        struct ss_lane_record **from = end->bytes_dense > half->bytes_dense ? &end : &half;

        *tail = *from;
        tail = &(*from)->next;
        *from = *tail;
    }
    *tail = half ? half : end;
    return result;
}

/* ---- the job ---- */

static void write_job(struct ss_json *j, const struct ss_report_job *job)
{
    char date[64], number[32];

    ss_report_date(job->start_unix, date, sizeof date);
    snprintf(number, sizeof number, "%llu", (unsigned long long)job->number);
    ss_json_object(j, "job");
    ss_json_text(j, "program", job->program);
    ss_json_text(j, "hostname", job->hostname);
    ss_json_integer(j, "rank", job->rank);
    ss_json_integer(j, "ranks", job->ranks);
    ss_json_text(j, "version", job->version);
    ss_json_text(j, "mpi_library", job->mpi_library);
    ss_json_text(j, "number", job->number ? number : NULL);
    ss_json_text(j, "start", date);
    ss_json_integer(j, "start_unix", job->start_unix);
    ss_json_flag(j, "observe", job->observe);
    ss_json_flag(j, "complete", job->complete);
    ss_json_close(j);
}

static void write_calls(struct ss_json *j, struct ss_stats *stats, const struct ss_report_totals *t)
{
    ss_json_object(j, "calls");
    ss_json_count(j, "seen", atomic_load(&stats->seen));
    ss_json_count(j, "eligible", ss_stats_eligible(stats));
    ss_json_count(j, "sparse", atomic_load(&stats->sparse));
    ss_json_count(j, "passed", t->passed);
    ss_json_count(j, "nonblocking", atomic_load(&stats->nonblocking));
    ss_json_count(j, "not_timed", atomic_load(&stats->not_timed));
    ss_json_count(j, "errors", atomic_load(&stats->errors));
    ss_json_count(j, "tensors_unlisted", stats->tensors_unlisted);
    ss_json_close(j);
}

/* Writes the bytes that stay inside the host, and the ratio of those that leave it. */
static void write_apart(struct ss_json *j, uint64_t dense, uint64_t dense_inside, uint64_t sent,
                        uint64_t sent_inside)
{
    const struct ss_compared c = ss_report_compared(dense, dense_inside, sent, sent_inside);

    ss_json_count(j, "bytes_dense_inside", dense_inside);
    ss_json_count(j, "bytes_sent_inside", sent_inside);
    ss_json_real(j, "ratio_between", c.apart ? ss_ratio(c.dense, c.sent) : NAN);
}

static void write_bytes(struct ss_json *j, struct ss_stats *stats, const struct ss_report_totals *t)
{
    ss_json_object(j, "bytes");
    ss_json_count(j, "bytes_dense", t->bytes_dense);
    ss_json_count(j, "bytes_sent", t->bytes_sent);
    ss_json_real(j, "ratio", ss_ratio((double)t->bytes_dense, (double)t->bytes_sent));
    write_apart(j, t->bytes_dense, t->dense_inside, t->bytes_sent, t->sent_inside);
    ss_json_count(j, "bytes_calibration", atomic_load(&stats->calibration_bytes));
    ss_json_count(j, "bytes_outside", atomic_load(&stats->small_bytes));
    ss_json_count(j, "bytes_largest", stats->largest_bytes);
    ss_json_count(j, "bytes_largest_total", stats->largest_total);
    ss_json_count(j, "bytes_reduced_total", stats->reduced_total);
    ss_json_count(j, "bytes_memory_peak", stats->memory_peak);
    ss_json_close(j);
}

static void write_phases(struct ss_json *j, const struct ss_times *t)
{
    ss_json_real(j, "seconds_scan", t->scan);
    ss_json_real(j, "seconds_vote", t->vote);
    ss_json_real(j, "seconds_exchange", t->exchange);
    ss_json_real(j, "seconds_merge", t->merge);
    ss_json_real(j, "seconds_coding", t->coding);
    ss_json_real(j, "seconds_native", t->native);
}

static void write_times(struct ss_json *j, struct ss_stats *stats, const struct ss_report_totals *t)
{
    double f = ss_report_share(stats);

    ss_json_object(j, "times");
    ss_json_real(j, "seconds_elapsed", stats->end - stats->start);
    ss_json_flag(j, "timed", stats->timed);
    ss_json_real(j, "seconds_allreduce", stats->allreduce_seconds);
    ss_json_real(j, "share_allreduce", f);
    ss_json_real(j, "amdahl_cap", ss_ratio(1, 1 - f));
    write_phases(j, &t->times);
    ss_json_close(j);
}

/* ---- rounds and merged calls ---- */

/* Writes the course over time, an array for each number. */
static void write_stretches(struct ss_json *j, const struct ss_rounds_record *r)
{
    static const char *const keys[] = {"rounds",        "in", "left", "late", "seconds_waited",
                                       "seconds_behind"};

    ss_json_object(j, "rounds_stretches");
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        ss_json_array(j, keys[k]);
        for (size_t i = 0; i < r->stretches; i++) {
            const struct ss_rounds_sums *s = &r->stretch[i];
            const double values[] = {(double)s->rounds, (double)s->in, (double)s->left,
                                     (double)s->late,   s->waited,     s->lag};

            ss_json_short(j, NULL, values[k]);
        }
        ss_json_close(j);
    }
    ss_json_close(j);
}

static void write_counts(struct ss_json *j, const char *key, const uint64_t *counts, int n,
                         const char *(*name)(int i))
{
    ss_json_object(j, key);
    for (int i = 0; i < n; i++)
        if (counts[i] > 0)
            ss_json_count(j, name(i), counts[i]);
    ss_json_close(j);
}

static void write_rounds(struct ss_json *j, const struct ss_rounds_record *r)
{
    if (r->sum.rounds == 0)
        return;
    ss_json_object(j, "rounds");
    ss_json_count(j, "rounds", r->sum.rounds);
    ss_json_count(j, "rounds_steps", r->sum.steps);
    ss_json_count(j, "rounds_in", r->sum.in);
    ss_json_count(j, "rounds_left", r->sum.left);
    ss_json_count(j, "rounds_late", r->sum.late);
    write_counts(j, "rounds_stale", r->sum.stale, SS_STALENESS_SEEN, ss_staleness_key);
    ss_json_count(j, "rounds_queued_most", r->queued_most);
    ss_json_flag(j, "rounds_solo", r->solo);
    ss_json_real(j, "seconds_waited", r->sum.waited);
    ss_json_real(j, "seconds_behind", r->sum.lag);
    ss_json_real(j, "seconds_thread", r->thread);
    ss_json_real(j, "seconds_thread_lived", r->thread_lived);
    ss_json_real(j, "share_thread", ss_ratio(r->thread, r->thread_lived));
    write_stretches(j, r);
    ss_json_close(j);
}

static void write_synchronous(struct ss_json *j, const struct ss_rounds_record *r)
{
    ss_json_array(j, "synchronous");
    for (size_t i = 0; i < r->synchronous_sites && r->sum.rounds > 0; i++) {
        const struct ss_synchronous *s = &r->synchronous[i];

        ss_json_object(j, NULL);
        ss_json_count(j, "calls", s->calls);
        ss_json_text(j, "kind", ss_kind_name(s->kind));
        ss_json_count(j, "count", s->count);
        ss_json_text(j, "site", s->site[0] ? s->site : NULL);
        ss_json_text(j, "symbol", s->symbol);
        ss_json_close(j);
    }
    ss_json_close(j);
}

static void write_merged(struct ss_json *j, const struct ss_merged_record *r)
{
    if (!r->on)
        return;
    ss_json_object(j, "merged");
    ss_json_flag(j, "merge", r->on);
    ss_json_count(j, "joint_votes", r->votes);
    ss_json_count(j, "joint_calls", r->calls);
    ss_json_count(j, "joint_exchanges", r->exchanges);
    ss_json_count(j, "joint_sent", r->merged);
    ss_json_count(j, "joint_in_vain", r->in_vain);
    ss_json_count(j, "planned_groups", r->groups);
    ss_json_count(j, "planned_calls", r->planned);
    ss_json_real(j, "planned_step_seconds", r->predicted > 0 ? r->predicted : NAN);
    ss_json_real(j, "merged_step_seconds", r->together > 0 ? r->together : NAN);
    ss_json_real(j, "alone_step_seconds", r->alone > 0 ? r->alone : NAN);
    ss_json_close(j);
}

/* ---- lanes ---- */

static const char *algorithm_name(int i)
{
    return ss_algorithm_name((enum ss_algorithm)i);
}

static const char *reason_key(int i)
{
    return ss_reason_key((enum ss_reason)i);
}

static void write_sums(struct ss_json *j, const char *key, const double *sums)
{
    ss_json_object(j, key);
    for (int a = 0; a < SS_ALGORITHMS; a++)
        if (sums[a] != 0)
            ss_json_real(j, algorithm_name(a), sums[a]);
    ss_json_close(j);
}

static void write_signature(struct ss_json *j, const struct ss_lane_record *r)
{
    ss_json_text(j, "communicator", r->comm);
    ss_json_integer(j, "ranks", r->size);
    ss_json_count(j, "count", r->count);
    ss_json_text(j, "type", ss_type_name(r->type));
    ss_json_text(j, "kind", ss_kind_name(r->kind));
    ss_json_text(j, "op", ss_op_name(r->op));
}

static void write_predictions(struct ss_json *j, const struct ss_lane_record *r)
{
    ss_json_count(j, "planned", r->planned);
    write_sums(j, "predicted_seconds_sum", r->predicted_seconds);
    write_sums(j, "predicted_bytes_sum", r->predicted_bytes);
    write_sums(j, "predicted_inside_sum", r->predicted_inside);
    ss_json_count(j, "topk_samples", r->topk_samples);
    ss_json_real(j, "topk_density_sum", r->topk_density_sum);
    ss_json_real(j, "topk_kept_sum", r->topk_kept_sum);
    write_sums(j, "topk_seconds_sum", r->topk_seconds);
    write_sums(j, "topk_bytes_sum", r->topk_bytes);
    write_sums(j, "topk_inside_sum", r->topk_inside);
    ss_json_real(j, "quant_seconds_sum", r->quant_seconds);
    ss_json_real(j, "quant_bytes_sum", r->quant_bytes);
    ss_json_real(j, "quant_inside_sum", r->quant_inside);
}

static void write_advice(struct ss_json *j, const struct ss_lane_record *r)
{
    struct ss_report_advice a = ss_report_advise(r);

    ss_json_object(j, "advice");
    ss_json_text(j, "best", a.best == SS_AUTO ? NULL : algorithm_name((int)a.best));
    ss_json_real(j, "predicted", a.predicted);
    ss_json_real(j, "native", a.native);
    ss_json_real(j, "dense", a.dense);
    ss_json_flag(j, "misfit", a.misfit);
    ss_json_real(j, "against", a.against);
    ss_json_flag(j, "gain", a.gain);
    ss_json_flag(j, "unclear", a.unclear);
    ss_json_text(j, "topk", a.topk == SS_AUTO ? NULL : algorithm_name((int)a.topk));
    ss_json_real(j, "topk_predicted", a.topk_predicted);
    ss_json_real(j, "topk_bytes", a.topk_bytes);
    ss_json_real(j, "topk_inside", a.topk_inside);
    ss_json_flag(j, "topk_gain", a.topk_gain);
    ss_json_real(j, "quant_predicted", a.quant_predicted);
    ss_json_real(j, "quant_bytes", a.quant_bytes);
    ss_json_real(j, "quant_inside", a.quant_inside);
    ss_json_flag(j, "quant_gain", a.quant_gain);
    ss_json_close(j);
}

static void write_lane(struct ss_json *j, const struct ss_lane_record *r, uint64_t number,
                       bool observe)
{
    ss_json_object(j, NULL);
    ss_json_count(j, "lane", number);
    write_signature(j, r);
    ss_json_count(j, "calls", r->calls);
    ss_json_real(j, "density_mean", ss_ratio(r->density_sum, (double)r->scans));
    ss_json_real(j, "density_max", r->planned > 0 ? r->density_max : NAN);
    ss_json_real(j, "density_result", ss_ratio(r->fillin_sum, (double)r->fillin_calls));
    ss_json_count(j, "bytes_dense", r->bytes_dense);
    ss_json_count(j, "bytes_sent", r->bytes_sent);
    ss_json_real(j, "ratio", ss_ratio((double)r->bytes_dense, (double)r->bytes_sent));
    write_apart(j, r->bytes_dense, r->dense_inside, r->bytes_sent, r->sent_inside);
    write_phases(j, &r->times);
    write_counts(j, "sparse", r->sparse, SS_ALGORITHMS, algorithm_name);
    write_counts(j, "passed", r->passed, SS_REASONS, reason_key);
    ss_json_count(j, "scans", r->scans);
    ss_json_real(j, "density_sum", r->density_sum);
    ss_json_count(j, "fillin_calls", r->fillin_calls);
    ss_json_real(j, "fillin_sum", r->fillin_sum);
    write_predictions(j, r);
    if (observe)
        write_advice(j, r);
    ss_json_close(j);
}

static void write_lanes(struct ss_json *j, const struct ss_stats *stats, bool observe)
{
    uint64_t number = 0;

    ss_json_array(j, "lanes");
    for (const struct ss_lane_record *r = stats->lanes; r; r = r->next)
        write_lane(j, r, ++number, observe);
    ss_json_close(j);
}

/* Calls below MIN_COUNT, the largest first. */
static void write_small(struct ss_json *j, const struct ss_stats *stats)
{
    ss_json_array(j, "small");
    for (int class = SS_SMALL_CLASSES - 1; class >= 0; class --) {
        const struct ss_small *s = &stats->small[class];

        if (s->calls == 0)
            continue;
        ss_json_object(j, NULL);
        ss_json_count(j, "min_count", (uint64_t)1 << class);
        ss_json_count(j, "calls", s->calls);
        ss_json_count(j, "bytes", s->bytes);
        ss_json_real(j, "seconds", s->seconds);
        ss_json_close(j);
    }
    ss_json_close(j);
}

/* ---- the whole ---- */

static void write_summary(struct ss_json *j, struct ss_stats *stats,
                          const struct ss_report_job *job)
{
    struct ss_summary summary;

    ss_summary_make(&summary, stats, job);
    ss_json_object(j, "summary");
    for (size_t i = 0; i < summary.n; i++)
        if (summary.line[i].key)
            ss_json_text(j, summary.line[i].key, summary.line[i].text);
    ss_json_close(j);
}

static void write_passed(struct ss_json *j, struct ss_stats *stats)
{
    ss_json_array(j, "passed");
    for (int i = 0; i < SS_REASONS; i++) {
        uint64_t calls = atomic_load(&stats->passed[i]);

        if (calls == 0)
            continue;
        ss_json_object(j, NULL);
        ss_json_text(j, "reason", reason_key(i));
        ss_json_count(j, "calls", calls);
        ss_json_text(j, "text", ss_reason_name((enum ss_reason)i));
        ss_json_close(j);
    }
    ss_json_close(j);
}

static void write_notes(struct ss_json *j, const struct ss_report_job *job)
{
    ss_json_array(j, "notes");
    for (size_t i = 0; i < job->note_count; i++) {
        ss_json_object(j, NULL);
        ss_json_text(j, "note", job->notes[i]);
        ss_json_close(j);
    }
    ss_json_close(j);
}

static void write_options(struct ss_json *j, const struct ss_report_job *job)
{
    ss_json_array(j, "options");
    for (size_t i = 0; i < job->option_count; i++) {
        ss_json_object(j, NULL);
        ss_json_text(j, "name", job->options[i].name);
        ss_json_text(j, "value", job->options[i].value);
        ss_json_close(j);
    }
    ss_json_close(j);
}

static void write_all(struct ss_json *j, struct ss_stats *stats, const struct ss_report_job *job)
{
    struct ss_report_totals totals;

    ss_report_add_up(stats, &totals);
    ss_json_integer(j, "schema", SS_REPORT_SCHEMA);
    write_summary(j, stats, job);
    write_job(j, job);
    write_calls(j, stats, &totals);
    write_bytes(j, stats, &totals);
    write_times(j, stats, &totals);
    write_rounds(j, &stats->rounds);
    write_merged(j, &stats->merged);
    write_notes(j, job);
    write_passed(j, stats);
    write_lanes(j, stats, job->observe);
    write_small(j, stats);
    write_synchronous(j, &stats->rounds);
    ss_tensors_write_json(j, stats);
    write_options(j, job);
}

int ss_report_write_json(struct ss_stats *stats, const struct ss_report_job *job,
                         ss_json_write *write, void *ctx)
{
    struct ss_json json;

    pthread_mutex_lock(&stats->lock);
    stats->lanes = sorted(stats->lanes);
    ss_json_begin(&json, write, ctx);
    write_all(&json, stats, job);
    pthread_mutex_unlock(&stats->lock);
    return ss_json_end(&json);
}

int ss_report_write_text(struct ss_stats *stats, const struct ss_report_job *job,
                         ss_json_write *write, void *ctx)
{
    char line[SS_SUMMARY_TEXT + 32];
    struct ss_summary summary;
    int status = 0;

    pthread_mutex_lock(&stats->lock);
    stats->lanes = sorted(stats->lanes);
    ss_summary_make(&summary, stats, job);
    pthread_mutex_unlock(&stats->lock);
    for (size_t i = 0; i < summary.n && status == 0; i++) {
        const struct ss_summary_line *l = &summary.line[i];

        snprintf(line, sizeof line, l->label[0] ? "  %-9s%s" : "%s%s", l->label, l->text);
        status = ss_json_line(write, ctx, line);
    }
    return status;
}
