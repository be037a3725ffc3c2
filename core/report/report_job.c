/* The report of the job: headline, summary, reasons, notes, options; and all its parts in order. */
#include "core/report/report_impl.h"

enum { PARTS = 24 };

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

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static const struct ss_emit_column lines[SS_LINES] = {
    [SS_LINE_HEADLINE] = {"headline", "", 0, 0,
                          "version of libsparseshim, program, rank, host, when the job made its "
                          "first call, and how long it ran from then"},
    [SS_LINE_STATE] = {"state", "state", 0, 0, "that the report is of a job that had not ended"},
    [SS_LINE_CALLS] = {"calls", "calls", 0, 0,
                       "calls that were looked at, and what became of them"},
    [SS_LINE_REQUESTS] = {"requests", "requests", 0, 0, "nonblocking calls taken over"},
    [SS_LINE_BYTES] = {"bytes", "bytes", 0, 0,
                       "bytes sent by this rank in eligible calls, against a dense collective"},
    [SS_LINE_CALIBRATION] = {"calibration", "network", 0, 0,
                             "bytes sent by this rank to measure the network, once for each group "
                             "of ranks"},
    [SS_LINE_TOPK] = {"topk", "top-k", 0, 0,
                      "MODE=topk: what became of the tensors, and how much was sent of those that "
                      "are lossy"},
    [SS_LINE_PARTIAL] = {"partial", "partial", 0, 0,
                         "partial allreduces: rounds that this rank's gradient was in, and what "
                         "became of late ones"},
    [SS_LINE_PACE] = {"pace", "pace", 0, 0,
                      "partial allreduces: time in them, time that this rank would have kept the "
                      "others waiting, and what the thread costs that takes part in rounds"},
    [SS_LINE_UNSENT] = {"unsent", "unsent", 0, 0,
                        "late gradients at the end, of which no round has sent anything"},
    [SS_LINE_SYNCHRONOUS] = {"synchronous", "waiting", 0, 0,
                             "calls beside partial ones that make every step wait for all ranks"},
    [SS_LINE_QUORUM] = {"try_quorum", "late", 0, 0, "what to set where gradients come too late"},
    [SS_LINE_MERGED] = {"merged", "merged", 0, 0,
                        "MERGE: nonblocking calls that voted and were sent together, and the "
                        "groups that are planned for a step"},
    [SS_LINE_STEP] = {"step", "step", 0, 0,
                      "MERGE: what a planned step takes, mean of this rank: from its first "
                      "call to that of the next and to the end of its last one, where that goes, "
                      "and votes and exchanges behind computation and while the program waits"},
    [SS_LINE_BLOCKING] = {"try_merge", "merge", 0, 0,
                          "MODE=topk: what blocking calls of a step would take as nonblocking ones "
                          "with MERGE=auto"},
    [SS_LINE_TIME] =
        {"time", "time", 0, 0,
         "time in the calls that are looked at; f, their share of the job, bounds what "
         "can be gained"},
    [SS_LINE_PHASES] = {"phases", "phases", 0, 0,
                        "time of eligible calls by phase: as by lane, all lanes together"},
    [SS_LINE_MEMORY] = {"memory", "memory", 0, 0,
                        "most memory that libsparseshim had for residuals and work space"},
    [SS_LINE_TENSOR] = {"tensor", "tensor", 0, SS_RARE,
                        "the largest buffer reduced, and the share that it and others of its size "
                        "have of the bytes reduced"},
    [SS_LINE_OUTSIDE] = {"outside", "outside", 0, 0,
                         "bytes in buffers of calls that are in none of the lanes, such as small "
                         "ones"},
    [SS_LINE_MPI] = {NULL, "MPI", 0, SS_RARE, "the MPI library"},
    [SS_LINE_TRY] = {"try", "try", 0, 0,
                     "MODE=observe: what MODE=exact would gain, by the model's prediction"},
    [SS_LINE_LOSSY] = {"try_lossy", "lossy", 0, 0,
                       "MODE=observe: what MODE=topk would gain, should the buffers be gradients"},
};
const struct ss_emit_group ss_report_summary_group = {"summary", "The first lines", lines,
                                                      SS_LINES};

void ss_report_line(struct ss_emit *emit, enum ss_report_line line, struct ss_emit_value value)
{
    ss_emit_kv(emit, &lines[line], value);
}

double ss_report_share(const struct ss_stats *stats)
{
    bool whole = stats->timed && atomic_load(&stats->not_timed) == 0;

    return whole ? ss_ratio(stats->allreduce_seconds, stats->end - stats->start) : NAN;
}

static void say_headline(struct ss_emit *e, struct ss_stats *stats, const struct ss_report_job *job)
{
    struct sentence s = {.n = 0};
    char date[64];

    ss_report_date(job->start_unix, date, sizeof date);
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
    ss_report_line(e, SS_LINE_HEADLINE, ss_v_sentence(s.parts, s.n));
}

static void say_bytes(struct ss_emit *e, const struct ss_report_job *job,
                      const struct ss_report_totals *t)
{
    double fewer = ss_ratio((double)t->bytes_dense, (double)t->bytes_sent);

    if (t->bytes_dense == 0)
        SAY(e, SS_LINE_BYTES, ss_v_text("none: no call could be made sparse"));
    else if (job->observe)
        SAY(e, SS_LINE_BYTES, ss_v_bytes(t->bytes_sent),
            ss_v_text(" sent, votes included, where dense calls alone send "),
            ss_v_bytes(t->bytes_dense), ss_v_text(" (mode observe changes nothing)"));
    else if (fewer >= 1.005)
        SAY(e, SS_LINE_BYTES, ss_v_bytes(t->bytes_sent), ss_v_text(" sent instead of "),
            ss_v_bytes(t->bytes_dense), ss_v_text(": "), ss_v_factor(fewer),
            ss_v_text(" times fewer"));
    else
        SAY(e, SS_LINE_BYTES, ss_v_bytes(t->bytes_sent), ss_v_text(" sent instead of "),
            ss_v_bytes(t->bytes_dense), ss_v_text(": nothing saved"));
}

static void say_time(struct ss_emit *e, struct ss_stats *stats, const struct ss_report_totals *t)
{
    double f = ss_report_share(stats);
    uint64_t not_timed = atomic_load(&stats->not_timed);

    if (stats->timed && not_timed > 0)
        SAY(e, SS_LINE_TIME, ss_v_seconds(stats->allreduce_seconds),
            ss_v_text(" in the calls themselves; f is not known, since "), ss_v_count(not_timed),
            ss_v_text(" nonblocking calls end in waits that are not timed"));
    else if (stats->timed)
        SAY(e, SS_LINE_TIME, ss_v_seconds(stats->allreduce_seconds),
            ss_v_text(" in allreduce, f = "), ss_v_share(f),
            ss_v_text(" of the job, which without it is at most "), ss_v_factor(ss_ratio(1, 1 - f)),
            ss_v_text(" times faster"));
    else
        SAY(e, SS_LINE_TIME, ss_v_text("allreduce was not timed as a whole"));
    SAY(e, SS_LINE_PHASES, ss_v_text("scan "), ss_v_seconds(t->times.scan), ss_v_text(", vote "),
        ss_v_seconds(t->times.vote), ss_v_text(", exchange "), ss_v_seconds(t->times.exchange),
        ss_v_text(", merge "), ss_v_seconds(t->times.merge), ss_v_text(", coding "),
        ss_v_seconds(t->times.coding), ss_v_text(", native "), ss_v_seconds(t->times.native));
}

/* What mode observe recommends for the job: MODE=exact alone if it helps any lane, else with the
 * algorithm that saves most. */
static void say_try(struct ss_emit *e, struct ss_stats *stats)
{
    double before = 0, after = 0, most = 0;
    uint64_t gaining = 0, misfits = 0, planned = 0;
    enum ss_algorithm forced = SS_AUTO;

    for (const struct ss_lane_record *r = stats->lanes; r; r = r->next) {
        struct ss_report_advice a = ss_report_advise(r);
        double calls = (double)ss_lane_passed(r);
        double saved = a.gain ? calls * (a.native - a.predicted) : 0;

        before += r->times.native;
        after += r->times.native - (a.force ? 0 : saved);
        gaining += a.gain && !a.force;
        misfits += a.misfit;
        planned += r->planned;
        if (a.force && saved > most) {
            forced = a.best;
            most = saved;
        }
    }
    if (gaining > 0)
        SAY(e, SS_LINE_TRY, ss_v_text("SPARSESHIM_MODE=exact: faster on "), ss_v_count(gaining),
            ss_v_text(" of "), ss_v_count(stats->lane_count), ss_v_text(" lanes, all together "),
            ss_v_seconds(after), ss_v_text(" instead of "), ss_v_seconds(before));
    else if (forced != SS_AUTO)
        SAY(e, SS_LINE_TRY, ss_v_text("SPARSESHIM_MODE=exact SPARSESHIM_ALGORITHM="),
            ss_v_text(ss_algorithm_name(forced)), ss_v_text(": up to "), ss_v_seconds(most),
            ss_v_text(" saved on lanes where it is advised"));
    else if (misfits > 0)
        SAY(e, SS_LINE_TRY,
            ss_v_text("no advice: the prediction for dense is off by more than 2 times on "),
            ss_v_count(misfits), ss_v_text(" of "), ss_v_count(stats->lane_count),
            ss_v_text(" lanes, and no other would gain 10 % or more"));
    else if (planned == 0)
        SAY(e, SS_LINE_TRY, ss_v_text("no advice: no call was looked at"));
    else
        SAY(e, SS_LINE_TRY, ss_v_text("nothing: no lane would gain 10 % or more"));
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
        SAY(e, SS_LINE_LOSSY, ss_v_text("SPARSESHIM_MODE=topk, for gradients only: faster on "),
            ss_v_count(gaining), ss_v_text(" of "), ss_v_count(stats->lane_count),
            ss_v_text(" lanes, all together "), ss_v_seconds(after), ss_v_text(" instead of "),
            ss_v_seconds(before));
}

static void say_merged(struct ss_emit *e, const struct ss_merged_record *r)
{
    if (!r->on)
        return;
    if (r->votes == 0) {
        SAY(e, SS_LINE_MERGED,
            ss_v_text("no calls: nonblocking allreduces of floating-point sums alone go together"));
    } else if (r->groups == 0) {
        SAY(e, SS_LINE_MERGED, ss_v_count(r->calls), ss_v_text(" calls in "), ss_v_count(r->votes),
            ss_v_text(" votes; "), ss_v_count(r->merged), ss_v_text(" of them sent in "),
            ss_v_count(r->exchanges), ss_v_text(" exchanges of several"));
    } else {
        SAY(e, SS_LINE_MERGED, ss_v_count(r->calls), ss_v_text(" calls in "), ss_v_count(r->votes),
            ss_v_text(" votes; "), ss_v_count(r->merged), ss_v_text(" of them sent in "),
            ss_v_count(r->exchanges), ss_v_text(" exchanges of several; planned: "),
            ss_v_count(r->groups), ss_v_text(" groups of the "), ss_v_count(r->planned),
            ss_v_text(" calls of a step, which end it after "), ss_v_seconds(r->step),
            ss_v_text(", of their communication "), ss_v_seconds(r->hidden),
            ss_v_text(" hidden and "), ss_v_seconds(r->exposed), ss_v_text(" not"));
    }
}

static void say_measured_step(struct ss_emit *e, const struct ss_measured_step *m)
{
    if (m->steps == 0)
        return;
    SAY(e, SS_LINE_STEP, ss_v_text("as measured over "), ss_v_count(m->steps),
        ss_v_text(m->steps == 1 ? " step: one every " : " steps: one every "),
        ss_v_seconds(m->period), ss_v_text(", ended after "), ss_v_seconds(m->step),
        ss_v_text("; between calls "), ss_v_seconds(m->backward), ss_v_text(", selection "),
        ss_v_seconds(m->selection), ss_v_text(", communication "), ss_v_seconds(m->hidden),
        ss_v_text(" hidden and "), ss_v_seconds(m->exposed), ss_v_text(" not"));
}

/* Only what the plan takes off counts, against the measured step; and the model must be one of that
 * step at all: late ranks or busy processors are none of its matter. */
static void say_blocking(struct ss_emit *e, const struct ss_blocking_record *r)
{
    const double least = 0.05, most = 1.5;

    if (r->calls == 0 || r->now - r->then <= least * r->measured || r->measured > most * r->now)
        return;
    SAY(e, SS_LINE_BLOCKING, ss_v_text("a step makes "), ss_v_count(r->calls),
        ss_v_text(" blocking calls in "), ss_v_seconds(r->measured), ss_v_text(", predicted "),
        ss_v_seconds(r->now), ss_v_text("; made nonblocking, SPARSESHIM_MERGE=auto would have "),
        ss_v_count(r->groups), ss_v_text(r->groups == 1 ? " group" : " groups"),
        ss_v_text(" of them, predicted "), ss_v_seconds(r->then), ss_v_text(": "),
        ss_v_seconds(r->now - r->then), ss_v_text(" less"));
}

static void write_summary(struct ss_emit *e, struct ss_stats *stats,
                          const struct ss_report_job *job, const struct ss_report_totals *t)
{
    uint64_t nonblocking = atomic_load(&stats->nonblocking);
    uint64_t errors = atomic_load(&stats->errors), outside = atomic_load(&stats->small_bytes);
    uint64_t calibration = atomic_load(&stats->calibration_bytes);

    ss_emit_object_begin(e, "summary", NULL);
    say_headline(e, stats, job);
    if (!job->complete)
        SAY(e, SS_LINE_STATE,
            ss_v_text("the job had not ended: it was running, or was ended later without "
                      "MPI_Finalize"));
    SAY(e, SS_LINE_CALLS, ss_v_count(atomic_load(&stats->seen)), ss_v_text(" seen: "),
        ss_v_count(atomic_load(&stats->sparse)), ss_v_text(" made sparse, "), ss_v_count(t->passed),
        ss_v_text(" passed through, "), ss_v_count(errors),
        ss_v_text(errors == 1 ? " error" : " errors"));
    if (nonblocking > 0)
        SAY(e, SS_LINE_REQUESTS, ss_v_count(nonblocking),
            ss_v_text(nonblocking == 1 ? " nonblocking call" : " nonblocking calls"),
            ss_v_text(" taken over"));
    say_bytes(e, job, t);
    if (calibration > 0)
        SAY(e, SS_LINE_CALIBRATION, ss_v_bytes(calibration),
            ss_v_text(" sent once to measure it, not in the bytes above"));
    ss_report_topk(e, stats);
    ss_report_rounds_lines(e, stats);
    say_merged(e, &stats->merged);
    say_measured_step(e, &stats->merged.measured);
    say_blocking(e, &stats->blocking);
    say_time(e, stats, t);
    SAY(e, SS_LINE_MEMORY, ss_v_bytes(stats->memory_peak), ss_v_text(" of our own at peak"));
    if (stats->reduced_total > 0)
        SAY(e, SS_LINE_TENSOR, ss_v_text("the largest, of "), ss_v_bytes(stats->largest_bytes),
            ss_v_text(", carries "),
            ss_v_share(ss_ratio((double)stats->largest_total, (double)stats->reduced_total)),
            ss_v_text(" of the bytes reduced"));
    if (outside > 0)
        SAY(e, SS_LINE_OUTSIDE, ss_v_bytes(outside),
            ss_v_text(" in buffers that were passed through unseen, not in the bytes above"));
    ss_report_line(e, SS_LINE_MPI, ss_v_line(job->mpi_library));
    if (job->observe) {
        say_try(e, stats);
        say_lossy(e, stats);
    }
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

static const struct ss_emit_column document[] = {
    {"schema", NULL, 0, 0,
     "version of the form: raised when a key changes its meaning or goes, not when one comes"},
};
const struct ss_emit_group ss_report_document_group = {NULL, "The document", document, 1};

static const struct ss_emit_column reason_columns[] = {
    {"reason", NULL, 0, 0, "short name of why calls were handed to the MPI library"},
    {"calls", "calls", 1, 0, "calls that were handed on for this reason"},
    {"text", "reason", 1, SS_LEFT, "the reason in words"},
};
const struct ss_emit_group ss_report_passed_group = {"passed", "Passed through", reason_columns,
                                                     LENGTH(reason_columns)};

static const struct ss_emit_column option_columns[] = {
    {"name", "", 1, SS_LEFT, "an option that is not at its default, without SPARSESHIM_"},
    {"value", "", 1, SS_LEFT, "its value"},
};
const struct ss_emit_group ss_report_options_group = {"options", "Options", option_columns,
                                                      LENGTH(option_columns)};

static const struct ss_emit_column note_columns[] = {
    {"note", "", 1, SS_LEFT, "a sentence on what the reader must know, such as why calls passed"},
};
const struct ss_emit_group ss_report_notes_group = {"notes", "Notes", note_columns,
                                                    LENGTH(note_columns)};

static void write_tables(struct ss_emit *e, struct ss_stats *stats, struct ss_report_job *job)
{
    static const struct ss_emit_table passed = {"passed",       {"Passed through"},     0,
                                                reason_columns, LENGTH(reason_columns), reason_row};
    static const struct ss_emit_table options = {
        "options", {"Options"}, 0, option_columns, LENGTH(option_columns), option_row};
    static const struct ss_emit_table notes = {
        "notes", {"Notes"}, 0, note_columns, LENGTH(note_columns), note_row};

    ss_emit_table(e, &notes, job);
    ss_emit_table(e, &passed, &(struct reasons){stats, 0});
    ss_report_lanes(e, stats, job->observe);
    ss_report_synchronous(e, &stats->rounds);
    ss_report_tensors(e, stats);
    ss_emit_table(e, &options, job);
}

int ss_report_write(struct ss_stats *stats, const struct ss_report_job *job, enum ss_emit_form form,
                    ss_emit_write *write, void *ctx)
{
    struct ss_report_job copy = *job; /* what a row function is given is not const */
    struct ss_emit emit;
    struct ss_report_totals totals;

    pthread_mutex_lock(&stats->lock);
    stats->lanes = ss_lanes_sorted(stats->lanes);
    ss_report_add_up(stats, &totals);
    ss_emit_begin(&emit, form, write, ctx);
    ss_emit_kv(&emit, &document[0], ss_v_integer(SS_REPORT_SCHEMA));
    write_summary(&emit, stats, job, &totals);
    ss_report_numbers(&emit, stats, job, &totals);
    write_tables(&emit, stats, &copy);
    pthread_mutex_unlock(&stats->lock);
    return ss_emit_end(&emit);
}
