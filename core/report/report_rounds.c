/* The report of partial calls: lines of the summary, numbers, how it went, and what waited for all
 * ranks beside them. */
#include "core/report/report_impl.h"
#include "core/report/tensor_record.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

#define KEY(key, legend)                                                                           \
    {                                                                                              \
        key, NULL, 0, 0, legend                                                                    \
    }

/* ---- the first lines ---- */

/* Rounds that a late gradient waited for its selection, in the mean. */
static double mean_staleness(const struct ss_rounds_sums *r)
{
    double sum = 0, seen = 0;

    for (int i = 0; i < SS_STALENESS_SEEN; i++) {
        sum += (double)r->stale[i] * i;
        seen += (double)r->stale[i];
    }
    return ss_ratio(sum, seen);
}

static void say_in(struct ss_emit *e, const struct ss_rounds_record *r)
{
    const struct ss_rounds_sums *s = &r->sum;

    SAY(e, SS_LINE_PARTIAL, ss_v_text("this rank was in "), ss_v_count(s->in), ss_v_text(" of "),
        ss_v_count(s->rounds), ss_v_text(" rounds; "), ss_v_count(s->late),
        ss_v_text(s->late == 1 ? " gradient" : " gradients"),
        ss_v_text(" came late and waited for "), ss_v_factor(mean_staleness(s)),
        ss_v_text(" rounds in the mean; at most "), ss_v_count(r->queued_most),
        ss_v_text(r->queued_most == 1 ? " result waited" : " results waited"));
    SAY(e, SS_LINE_PACE, ss_v_text("this rank waited "), ss_v_seconds(s->waited),
        ss_v_text(" in these calls and fell "), ss_v_seconds(s->behind),
        ss_v_text(" behind, for which nobody waited; the thread that takes part used "),
        ss_v_share(ss_ratio(r->thread, r->thread_lived)), ss_v_text(" of a core"));
}

/* Of the tensor that holds back most. */
static void say_unsent(struct ss_emit *e, const struct ss_stats *stats)
{
    const struct ss_tensor_record *most = NULL;
    uint64_t late = 0;

    for (const struct ss_tensor_record *t = stats->tensors; t; t = t->next) {
        late += t->late;
        if (t->late > 0 && (!most || t->residual_norm > most->residual_norm))
            most = t;
    }
    if (most)
        SAY(e, SS_LINE_UNSENT, ss_v_count(late), ss_v_text(late == 1 ? " gradient" : " gradients"),
            ss_v_text(" came late of which nothing has been sent; the tensor of "),
            ss_v_count(most->count), ss_v_text(" elements called from "),
            ss_v_text(most->site[0] ? most->site : "an unknown place"),
            ss_v_text(" ends with a residual of norm "),
            ss_v_number(SS_V_FACTOR, most->residual_norm));
}

/* One in every second step is worth a line. */
static void say_synchronous(struct ss_emit *e, const struct ss_rounds_record *r)
{
    const struct ss_synchronous *most = NULL;
    uint64_t calls = 0;

    for (size_t i = 0; i < r->synchronous_sites; i++) {
        calls += r->synchronous[i].calls;
        if (!most || r->synchronous[i].calls > most->calls)
            most = &r->synchronous[i];
    }
    if (most && calls >= 1 + r->sum.steps / 2)
        SAY(e, SS_LINE_SYNCHRONOUS, ss_v_count(calls), ss_v_text(" other calls in "),
            ss_v_count(r->sum.steps),
            ss_v_text(" steps wait for all ranks, which makes QUORUM useless: most of them "),
            ss_v_text(ss_kind_name(most->kind)), ss_v_text(" of "), ss_v_count(most->count),
            ss_v_text(" elements, called from "),
            ss_v_text(most->site[0] ? most->site : "an unknown place"),
            ss_v_text(most->symbol[0] ? " in " : ""), ss_v_text(most->symbol));
}

void ss_report_rounds_lines(struct ss_emit *e, const struct ss_stats *stats)
{
    const struct ss_rounds_record *r = &stats->rounds;

    if (r->sum.rounds == 0)
        return;
    say_in(e, r);
    say_unsent(e, stats);
    say_synchronous(e, r);
    if (r->solo && mean_staleness(&r->sum) > 1)
        SAY(e, SS_LINE_QUORUM,
            ss_v_text("gradients older than a round may cost accuracy: SPARSESHIM_QUORUM=majority "
                      "waits for half of the ranks"));
}

/* ---- the numbers ---- */

static const struct ss_emit_column stretch_columns[] = {
    KEY("rounds", "rounds of the stretch"),
    KEY("in", "of them, those that this rank's gradient was in"),
    KEY("left", "those that had what late gradients had left in its residual"),
    KEY("late", "its gradients that came late meanwhile"),
    KEY("seconds_waited", "time that its calls waited for their results"),
    KEY("seconds_behind", "time that it fell behind, for which nobody waited"),
};
const struct ss_emit_group ss_report_stretches_group = {
    "rounds_stretches", "Partial allreduces over time, an array each", stretch_columns,
    LENGTH(stretch_columns)};

static double stretch_at(const void *ctx, size_t column, size_t i)
{
    const struct ss_rounds_sums *s = &((const struct ss_rounds_record *)ctx)->stretch[i];
    const double values[LENGTH(stretch_columns)] = {
        (double)s->rounds, (double)s->in, (double)s->left, (double)s->late, s->waited, s->behind};

    return values[column];
}

static struct ss_emit_value stretches(const struct ss_rounds_record *r)
{
    struct ss_emit_value v = {.kind = SS_V_ARRAYS};

    v.as.arrays.columns = stretch_columns;
    v.as.arrays.n_columns = LENGTH(stretch_columns);
    v.as.arrays.n = r->stretches;
    v.as.arrays.at = stretch_at;
    v.as.arrays.ctx = r;
    return v;
}

static struct ss_emit_value staleness(const struct ss_rounds_record *r)
{
    struct ss_emit_value v = {.kind = SS_V_COUNTS};

    v.as.list.key = v.as.list.name = ss_staleness_key;
    v.as.list.counts = r->sum.stale;
    v.as.list.n = SS_STALENESS_SEEN;
    return v;
}

static const struct ss_emit_column keys[] = {
    KEY("rounds", "partial allreduces of this rank, QUORUM"),
    KEY("rounds_steps", "steps that they make: each ends where one of its tensors comes again"),
    KEY("rounds_in", "rounds that its own gradient was in"),
    KEY("rounds_left", "rounds that had what late gradients had left in its residual"),
    KEY("rounds_late", "gradients that came when their round had begun"),
    KEY("rounds_stale", "late gradients by the rounds that they waited for their selection"),
    KEY("rounds_queued_most", "most results that waited for their calls"),
    KEY("rounds_solo", "QUORUM is solo"),
    KEY("seconds_waited", "time that calls of this rank waited for the results of their rounds"),
    KEY("seconds_behind", "time that calls of this rank came later after the begin of their round "
                          "than the call before; in synchronous calls the others would have "
                          "waited for it"),
    KEY("seconds_thread", "processor time of the thread that takes part in rounds"),
    KEY("seconds_thread_lived", "time that it was there"),
    KEY("share_thread", "seconds_thread / seconds_thread_lived"),
    KEY("rounds_stretches", "how it went, in at most 128 stretches of as many rounds each"),
};
const struct ss_emit_group ss_report_rounds_group = {"rounds", "Partial allreduces", keys,
                                                     LENGTH(keys)};

/* Only where there are any. */
void ss_report_rounds_numbers(struct ss_emit *e, const struct ss_rounds_record *r)
{
    if (r->sum.rounds == 0)
        return;
    const struct ss_emit_value values[LENGTH(keys)] = {
        ss_v_count(r->sum.rounds),
        ss_v_count(r->sum.steps),
        ss_v_count(r->sum.in),
        ss_v_count(r->sum.left),
        ss_v_count(r->sum.late),
        staleness(r),
        ss_v_count(r->queued_most),
        ss_v_bool(r->solo),
        ss_v_seconds(r->sum.waited),
        ss_v_seconds(r->sum.behind),
        ss_v_seconds(r->thread),
        ss_v_seconds(r->thread_lived),
        ss_v_share(ss_ratio(r->thread, r->thread_lived)),
        stretches(r),
    };
    ss_emit_group(e, &ss_report_rounds_group, values);
}

/* ---- other calls ---- */

static const struct ss_emit_column synchronous_columns[] = {
    {"calls", "calls", 1, 0, "calls that wait for all ranks, on communicators with rounds"},
    {"kind", "kind", 1, SS_LEFT, "the collective"},
    {"count", "count", 1, 0, "elements of the last one, per rank in an allgather"},
    {"site", NULL, 0, 0, "module and offset that they are called from; null: unknown"},
    {NULL, "called from", 1, SS_LEFT, "module and offset that they are called from"},
    {"symbol", "in", 1, SS_LEFT, "the function of the program there"},
};
const struct ss_emit_group ss_report_synchronous_group = {
    "synchronous", "Calls that wait for all ranks beside partial ones", synchronous_columns,
    LENGTH(synchronous_columns)};

static bool synchronous_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    const struct ss_rounds_record *r = ctx;
    const struct ss_synchronous *s = &r->synchronous[row];

    if (row >= r->synchronous_sites)
        return false;
    v[0] = ss_v_count(s->calls);
    v[1] = ss_v_text(ss_kind_name(s->kind));
    v[2] = ss_v_count(s->count);
    v[3] = ss_v_text(s->site[0] ? s->site : NULL);
    v[4] = ss_v_text(s->site);
    v[5] = ss_v_text(s->symbol);
    return true;
}

void ss_report_synchronous(struct ss_emit *e, struct ss_rounds_record *r)
{
    static const struct ss_emit_table table = {
        "synchronous",       {"Calls that wait for all ranks"}, 0,
        synchronous_columns, LENGTH(synchronous_columns),       synchronous_row};

    if (r->sum.rounds > 0)
        ss_emit_table(e, &table, r);
}
