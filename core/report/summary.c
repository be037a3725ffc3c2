/* The lines that a job prints at its end. */
#include "core/report/summary.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/report/tensor_record.h"
#include "core/report/words.h"

enum { MOST_LANES = 3, MOST_REASONS = 3 };

void ss_summary_say(struct ss_summary *s, const char *key, const char *label, const char *format,
                    ...)
{
    struct ss_summary_line *line = &s->line[s->n];
    va_list args;

    if (s->n == SS_SUMMARY_LINES)
        return;
    line->key = key;
    line->label = label;
    va_start(args, format);
    vsnprintf(line->text, sizeof line->text, format, args);
    va_end(args);
    s->n++;
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* ---- the job ---- */

static void say_headline(struct ss_summary *s, struct ss_stats *stats,
                         const struct ss_report_job *job)
{
    char date[64], rank[64] = "", start[80] = "";

    ss_report_date(job->start_unix, date, sizeof date);
    if (job->rank >= 0 && job->ranks > 0)
        snprintf(rank, sizeof rank, ", rank %d of %d", job->rank, job->ranks);
    else if (job->rank >= 0)
        snprintf(rank, sizeof rank, ", rank %d", job->rank);
    if (date[0])
        snprintf(start, sizeof start, ", started %s", date);
    ss_summary_say(
        s, "headline", "", "sparseshim %s: %s%s%s%s%s, ran %s", job->version ? job->version : "",
        job->program ? job->program : "unnamed program", rank, job->hostname ? " on " : "",
        job->hostname ? job->hostname : "", start, SS_SECONDS(stats->end - stats->start));
    if (!job->complete)
        ss_summary_say(
            s, "state", "state",
            "the job had not ended: it was running, or was ended later without MPI_Finalize");
}

static void say_calls(struct ss_summary *s, struct ss_stats *stats,
                      const struct ss_report_totals *t)
{
    uint64_t errors = atomic_load(&stats->errors), taken = atomic_load(&stats->nonblocking);
    char nonblocking[80] = "";

    if (taken > 0)
        snprintf(nonblocking, sizeof nonblocking, ", %s nonblocking call%s taken over",
                 SS_COUNT(taken), plural(taken));
    ss_summary_say(s, "calls", "calls", "%s seen: %s made sparse, %s passed through, %s error%s%s",
                   SS_COUNT(atomic_load(&stats->seen)), SS_COUNT(atomic_load(&stats->sparse)),
                   SS_COUNT(t->passed), SS_COUNT(errors), plural(errors), nonblocking);
}

static void say_bytes(struct ss_summary *s, const struct ss_report_job *job,
                      const struct ss_report_totals *t)
{
    const struct ss_compared c =
        ss_report_compared(t->bytes_dense, t->dense_inside, t->bytes_sent, t->sent_inside);
    const char *tail = c.one_host ? "; all inside one host" : "";
    const double ratio = ss_ratio(c.dense, c.sent);
    const bool same = fabs(ratio - 1) < 0.005;
    char where[80] = "";

    if (c.apart)
        snprintf(where, sizeof where, " to other hosts, %s of all that it sent,",
                 SS_SHARE(ss_ratio(c.sent, (double)t->bytes_sent)));
    if (t->bytes_dense == 0)
        ss_summary_say(s, "bytes", "bytes", "none: no call could be made sparse");
    else if (c.apart && c.sent <= 0)
        ss_summary_say(s, "bytes", "bytes",
                       "%s sent, none of it to other hosts: other ranks of this host send there",
                       SS_BYTES((double)t->bytes_sent));
    else if (job->observe)
        ss_summary_say(
            s, "bytes", "bytes",
            "%s sent%s%s votes included, where dense calls alone send %s (mode observe changes "
            "nothing)%s",
            SS_BYTES(c.sent), where, c.apart ? "" : ",", SS_BYTES(c.dense), tail);
    else
        ss_summary_say(s, "bytes", "bytes", "%s sent%s instead of %s: %s%s", SS_BYTES(c.sent),
                       where, SS_BYTES(c.dense), same ? "nothing saved" : SS_FEWER(ratio), tail);
}

static void say_time(struct ss_summary *s, const struct ss_stats *stats)
{
    double f = ss_report_share(stats);
    uint64_t not_timed = atomic_load(&stats->not_timed);

    if (!stats->timed)
        ss_summary_say(s, "time", "time", "the calls were not timed as a whole");
    else if (not_timed > 0)
        ss_summary_say(
            s, "time", "time",
            "%s in the calls themselves; f is not known, since %s nonblocking calls end in waits "
            "that are not timed",
            SS_SECONDS(stats->allreduce_seconds), SS_COUNT(not_timed));
    else if (stats->allreduce_seconds > stats->end - stats->start)
        ss_summary_say(
            s, "time", "time",
            "%s in allreduce, added up over threads that call at once: more than the job took, so "
            "that f is not known",
            SS_SECONDS(stats->allreduce_seconds));
    else
        ss_summary_say(
            s, "time", "time",
            "%s in allreduce, f = %s of the job, which without it is at most %s times faster",
            SS_SECONDS(stats->allreduce_seconds), SS_SHARE(f), SS_FACTOR(ss_ratio(1, 1 - f)));
}

/* ---- passed through ---- */

/* Returns the reason of most calls among those that `said` does not hold, or SS_REASONS. */
static int next_reason(struct ss_stats *stats, const bool said[SS_REASONS])
{
    int most = SS_REASONS;

    for (int i = 0; i < SS_REASONS; i++) {
        uint64_t calls = atomic_load(&stats->passed[i]);

        if (!said[i] && calls > 0 &&
            (most == SS_REASONS || calls > atomic_load(&stats->passed[most])))
            most = i;
    }
    return most;
}

/* Writes the words for a reason; those for a small count name MIN_COUNT, and the most elements of a
 * call that a lower one would serve. */
static void name_reason(const struct ss_stats *stats, const struct ss_report_job *job,
                        enum ss_reason reason, char *text, size_t size)
{
    int n = snprintf(text, size, "%s", ss_reason_name(reason));

    if (reason != SS_WHY_SMALL)
        return;
    n += snprintf(text + n, size - (size_t)n, "=%llu", (unsigned long long)job->min_count);
    if (stats->small_largest > 0)
        snprintf(text + n, size - (size_t)n, " (largest %llu)",
                 (unsigned long long)stats->small_largest);
}

static void say_passed(struct ss_summary *s, struct ss_stats *stats,
                       const struct ss_report_job *job)
{
    bool said[SS_REASONS] = {false};
    char text[SS_SUMMARY_TEXT] = "", name[160];
    size_t used = 0;
    int reasons = 0, i;

    for (; (i = next_reason(stats, said)) < SS_REASONS; reasons++) {
        said[i] = true;
        name_reason(stats, job, (enum ss_reason)i, name, sizeof name);
        if (reasons < MOST_REASONS)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s: %s",
                                     reasons > 0 ? "; " : "", name,
                                     SS_COUNT(atomic_load(&stats->passed[i])));
    }
    if (reasons > MOST_REASONS)
        snprintf(text + used, sizeof text - used, "; other reasons: %d", reasons - MOST_REASONS);
    if (reasons > 0)
        ss_summary_say(s, "passed", "passed", "%s", text);
}

/* ---- lanes ---- */

static void list_algorithms(const struct ss_lane_record *lane, char *text, size_t size)
{
    size_t used = 0;

    for (int a = 0; a < SS_ALGORITHMS && used < size; a++)
        if (lane->sparse[a] > 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s %s", used > 0 ? ", " : "",
                                     ss_algorithm_name((enum ss_algorithm)a),
                                     SS_COUNT(lane->sparse[a]));
}

void ss_summary_lane(const struct ss_lane_record *r, char *text, size_t size)
{
    bool gather = r->kind == SS_KIND_ALLGATHER, reduction = r->kind != SS_KIND_ALLREDUCE;

    snprintf(text, size, "%s %s %s%s%s", SS_COUNT(r->count), ss_type_name(r->type),
             reduction ? ss_kind_name(r->kind) : "", reduction && !gather ? " " : "",
             gather ? "" : ss_op_name(r->op));
}

/* The largest lanes with sparse calls, as far as there is room. */
static void say_lanes(struct ss_summary *s, const struct ss_stats *stats)
{
    static const char *const keys[MOST_LANES] = {"lane_1", "lane_2", "lane_3"};
    char name[80], algorithms[240] = "";
    size_t said = 0;

    for (const struct ss_lane_record *r = stats->lanes; r && said < MOST_LANES; r = r->next) {
        algorithms[0] = '\0';
        list_algorithms(r, algorithms, sizeof algorithms);
        if (!algorithms[0] || s->n + 2 > SS_SUMMARY_LINES)
            continue;
        ss_summary_lane(r, name, sizeof name);
        const struct ss_compared c =
            ss_report_compared(r->bytes_dense, r->dense_inside, r->bytes_sent, r->sent_inside);
        if (c.apart && c.sent <= 0)
            ss_summary_say(s, keys[said++], "sparse", "%s: %s of %s calls; no bytes to other hosts",
                           name, algorithms, SS_COUNT(r->calls));
        else
            ss_summary_say(s, keys[said++], "sparse", "%s: %s of %s calls; %s bytes%s", name,
                           algorithms, SS_COUNT(r->calls), SS_FEWER(ss_ratio(c.dense, c.sent)),
                           c.apart ? " to other hosts" : "");
    }
}

/* ---- lossy modes ---- */

/* Returns true if every element of the tensor is sent, in the width of its VALUE_TYPE. */
static bool is_whole(const struct ss_tensor_record *r)
{
    return r->topk_calls > 0 && r->asked_sum >= (double)r->topk_calls;
}

static void say_topk(struct ss_summary *s, const struct ss_stats *stats)
{
    uint64_t in_state[3] = {0}, calls = 0, whole = 0;
    double all = 0, sent = 0;
    char unlisted[80] = "", bits[80] = "", largest[120] = "";

    if (!stats->tensors)
        return;
    for (const struct ss_tensor_record *r = stats->tensors; r; r = r->next) {
        in_state[r->state]++;
        if (is_whole(r)) {
            whole += r->topk_calls;
            continue;
        }
        calls += r->topk_calls;
        all += (double)r->topk_calls * (double)r->count;
        sent += r->density_sum * (double)r->count;
    }
    if (whole > 0)
        snprintf(bits, sizeof bits, "; %s calls sent whole, in the width of VALUE_TYPE",
                 SS_COUNT(whole));
    if (calls > 0)
        snprintf(largest, sizeof largest, "; %s calls sent as top-k, %s of their elements",
                 SS_COUNT(calls), SS_SHARE(ss_ratio(sent, all)));
    if (stats->tensors_unlisted > 0)
        snprintf(unlisted, sizeof unlisted, "; tensors not listed for want of room: %s",
                 SS_COUNT(stats->tensors_unlisted));
    ss_summary_say(s, "topk", "lossy",
                   "%s of %s tensors registered, %s exact, %s whose position is not known%s%s%s",
                   SS_COUNT(in_state[SS_TENSOR_REGISTERED]), SS_COUNT(stats->tensor_count),
                   SS_COUNT(in_state[SS_TENSOR_EXACT]), SS_COUNT(in_state[SS_TENSOR_CANDIDATE]),
                   bits, largest, unlisted);
}

/* ---- QUORUM ---- */

/* Returns the rounds that a late gradient waited for its selection, in the mean. */
static double mean_staleness(const struct ss_rounds_sums *r)
{
    double sum = 0, seen = 0;

    for (int i = 0; i < SS_STALENESS_SEEN; i++) {
        sum += (double)r->stale[i] * i;
        seen += (double)r->stale[i];
    }
    return ss_ratio(sum, seen);
}

/* Shows the tensor that holds back most. */
static void say_unsent(struct ss_summary *s, const struct ss_stats *stats)
{
    const struct ss_tensor_record *most = NULL;
    uint64_t late = 0;

    for (const struct ss_tensor_record *t = stats->tensors; t; t = t->next) {
        late += t->late;
        if (t->late > 0 && (!most || t->residual_norm > most->residual_norm))
            most = t;
    }
    if (most)
        ss_summary_say(
            s, "unsent", "unsent",
            "%s gradient%s came late of which nothing has been sent; the tensor of %s elements "
            "called from %s ends with a residual of norm %s",
            SS_COUNT(late), plural(late), SS_COUNT(most->count),
            most->site[0] ? most->site : "an unknown place", SS_FACTOR(most->residual_norm));
}

/* Tells of a synchronous call if it comes in at least every second step. */
static void say_synchronous(struct ss_summary *s, const struct ss_rounds_record *r)
{
    const struct ss_synchronous *most = NULL;
    uint64_t calls = 0;

    for (size_t i = 0; i < r->synchronous_sites; i++) {
        calls += r->synchronous[i].calls;
        if (!most || r->synchronous[i].calls > most->calls)
            most = &r->synchronous[i];
    }
    if (most && calls >= 1 + r->sum.steps / 2)
        ss_summary_say(
            s, "synchronous", "waiting",
            "%s other calls in %s steps wait for all ranks, which makes QUORUM useless: most of "
            "them %s of %s elements, called from %s%s%s",
            SS_COUNT(calls), SS_COUNT(r->sum.steps), ss_kind_name(most->kind),
            SS_COUNT(most->count), most->site[0] ? most->site : "an unknown place",
            most->symbol[0] ? " in " : "", most->symbol);
}

static void say_rounds(struct ss_summary *s, const struct ss_stats *stats)
{
    const struct ss_rounds_record *r = &stats->rounds;
    double stale = mean_staleness(&r->sum);

    if (r->sum.rounds == 0)
        return;
    ss_summary_say(
        s, "partial", "partial",
        "this rank was in %s of %s rounds; %s gradient%s came late and waited for %s rounds in the "
        "mean; at most %s result%s waited",
        SS_COUNT(r->sum.in), SS_COUNT(r->sum.rounds), SS_COUNT(r->sum.late), plural(r->sum.late),
        SS_FACTOR(stale), SS_COUNT(r->queued_most), plural(r->queued_most));
    say_unsent(s, stats);
    say_synchronous(s, r);
    if (r->solo && stale > 1)
        ss_summary_say(
            s, "try_quorum", "late",
            "gradients older than a round may cost accuracy: SPARSESHIM_QUORUM=majority waits for "
            "half of the ranks");
}

/* ---- MERGE ---- */

static void say_merged(struct ss_summary *s, const struct ss_merged_record *r)
{
    char step[200] = "";

    if (!r->on)
        return;
    if (r->together > 0 && r->alone > 0)
        snprintf(step, sizeof step,
                 "; a step takes %s in groups, %s with each call alone; now %s group%s of its %s "
                 "calls",
                 SS_SECONDS(r->together), SS_SECONDS(r->alone), SS_COUNT(r->groups),
                 plural(r->groups), SS_COUNT(r->planned));
    if (r->votes == 0)
        ss_summary_say(s, "merged", "merged",
                       "no calls: nonblocking allreduces of floating-point sums alone go together");
    else
        ss_summary_say(s, "merged", "merged",
                       "%s calls in %s votes; %s of them sent in %s exchanges of several%s",
                       SS_COUNT(r->calls), SS_COUNT(r->votes), SS_COUNT(r->merged),
                       SS_COUNT(r->exchanges), step);
}

/* ---- what to try ---- */

/* Tells what to try if exact mode has left all calls to the MPI library, most of them because dense
 * was faster. */
static void say_dense(struct ss_summary *s, struct ss_stats *stats)
{
    const uint64_t dense =
        atomic_load(&stats->passed[SS_WHY_DENSE]) + atomic_load(&stats->passed[SS_WHY_BACKED_OFF]);

    if (atomic_load(&stats->sparse) == 0 && 2 * dense > ss_stats_eligible(stats))
        ss_summary_say(
            s, "try", "next",
            "exact mode gains nothing here: dense is faster. SPARSESHIM_MODE=observe tells what "
            "each mode would gain; if these sums are gradients, begin with sparseshim learn");
}

/* ---- the whole ---- */

static void say_more(struct ss_summary *s, const struct ss_report_job *job)
{
    if (job->kept)
        ss_summary_say(s, NULL, "more", "sparseshim report %s", job->kept);
    else
        ss_summary_say(
            s, NULL, "more",
            "SPARSESHIM_REPORT_DIR=DIR keeps all numbers as JSON, for sparseshim report DIR");
}

void ss_summary_make(struct ss_summary *summary, struct ss_stats *stats,
                     const struct ss_report_job *job)
{
    struct ss_report_totals totals;

    summary->n = 0;
    ss_report_add_up(stats, &totals);
    say_headline(summary, stats, job);
    say_calls(summary, stats, &totals);
    say_bytes(summary, job, &totals);
    say_passed(summary, stats, job);
    say_topk(summary, stats);
    say_rounds(summary, stats);
    say_merged(summary, &stats->merged);
    say_time(summary, stats);
    if (job->observe)
        ss_summary_observed(summary, stats);
    else if (job->exact)
        say_dense(summary, stats);
    for (size_t i = 0; i < job->note_count && summary->n + 1 < SS_SUMMARY_LINES; i++)
        ss_summary_say(summary, NULL, "note", "%s", job->notes[i]);
    say_lanes(summary, stats);
    say_more(summary, job);
}
