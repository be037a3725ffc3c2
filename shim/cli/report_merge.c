/* All ranks of a job in one: sums, and how the ranks differ. */
#include "shim/cli/report_merge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cli/report_forms.h"
#include "shim/cli/report_measures.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { SCHEMA = 1 };

static struct cli_spread spread_of(struct merging *m, enum cli_measured what)
{
    for (size_t i = 0; i < m->job->n; i++) {
        const struct cli_report *report = m->job->file[i].report;

        m->values[i] = (struct cli_value){cli_measures[what].of(report), report->job.rank};
    }
    return cli_spread_of(m->values, m->job->n);
}

enum { MEASURE, SHOWN, LEAST, MEDIAN, MOST, SUM, AT_LEAST, AT_MOST, SPREAD_COLUMNS };

static const struct ss_emit_column spread_columns[SPREAD_COLUMNS] = {
    [MEASURE] = {"measure", NULL, 0, SS_LEFT,
                 "what is compared, as in a rank's report; seconds_work: scan, merge and coding; "
                 "seconds_waits: vote, exchange and native"},
    [SHOWN] = {NULL, "of a rank", 1, SS_LEFT, "what is compared, all lanes together"},
    [LEAST] = {"least", "least", 1, 0, "of the ranks that report"},
    [MEDIAN] = {"median", "median", 1, 0, "of the ranks that report"},
    [MOST] = {"most", "most", 1, 0, "of the ranks that report"},
    [SUM] = {"sum", "sum", 1, 0, "over the ranks that report"},
    [AT_LEAST] = {"rank_least", "least at", 1, 0,
                  "the rank that has the least; null where all are alike"},
    [AT_MOST] = {"rank_most", "most at", 1, 0, "the rank that has the most; of times, the slowest"},
};
static const struct ss_emit_group spread_group = {"spread", "Merged: over the ranks",
                                                  spread_columns, SPREAD_COLUMNS};

struct ss_emit_value merging_rank(int rank)
{
    return rank < 0 ? ss_v_text(NULL) : ss_v_integer(rank);
}

static bool spread_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct merging *m = ctx;

    if (row == CLI_MEASURES)
        return false;
    const struct cli_measure *measure = &cli_measures[row];
    struct cli_spread s = spread_of(m, (enum cli_measured)row);
    if (row >= CLI_ROUNDS && s.n == 0)
        return false;
    v[MEASURE] = ss_v_text(measure->key);
    v[SHOWN] = ss_v_text(measure->text);
    v[LEAST] = cli_measure_value(measure, s.least);
    v[MEDIAN] = cli_measure_value(measure, s.median);
    v[MOST] = cli_measure_value(measure, s.most);
    v[SUM] = cli_measure_value(measure, measure->adds ? s.sum : NAN);
    bool differ = s.most > s.least;
    v[AT_LEAST] = merging_rank(differ ? s.rank_least : -1);
    v[AT_MOST] = merging_rank(differ ? s.rank_most : -1);
    return true;
}

/* ---- the first lines ---- */

enum { HEADLINE, MISSING, STATE, BYTES, SLOWEST, AWAITED, PARTIAL, LINES };

static const struct ss_emit_column lines[LINES] = {
    [HEADLINE] = {"headline", "", 0, 0,
                  "version of libsparseshim, program, ranks that report, when the first of them "
                  "began, and how long the last ran"},
    [MISSING] = {"missing", "missing", 0, 0, "ranks of which no report was given"},
    [STATE] = {"state", "state", 0, 0, "that reports are of ranks that had not ended"},
    [BYTES] = {"bytes", "bytes", 0, 0,
               "bytes sent by all ranks that report, against dense collectives"},
    [SLOWEST] = {"slowest", "slowest", 0, 0,
                 "the rank that spent most time in scan, merge and coding, its own work"},
    [AWAITED] = {"awaited", "awaited", 0, 0,
                 "the rank that spent least time in vote, exchange and native, where ranks wait "
                 "for each other: the others wait for it"},
    [PARTIAL] =
        {"partial", "partial", 0, 0,
         "partial allreduces: ranks whose gradients were in a round, and the time that they "
         "fell behind, for which the others would have waited"},
};
static const struct ss_emit_group summary_group = {"summary", "Merged: the first lines", lines,
                                                   LINES};

enum { SCHEMA_KEY, PROGRAM, VERSION, RANKS, REPORTS, START, COMPLETE, KEYS };

static const struct ss_emit_column keys[KEYS] = {
    [SCHEMA_KEY] = {"merged_schema", NULL, 0, 0, "version of the form of merged reports"},
    [PROGRAM] = {"program", NULL, 0, 0, "name of the program"},
    [VERSION] = {"version", NULL, 0, 0, "of libsparseshim"},
    [RANKS] = {"ranks", NULL, 0, 0, "ranks of the world"},
    [REPORTS] = {"reports", NULL, 0, 0, "ranks that report"},
    [START] = {"start_unix", NULL, 0, 0,
               "when the first of them made its first call, in seconds since 1970"},
    [COMPLETE] = {"complete", NULL, 0, 0, "all of them had ended"},
};
static const struct ss_emit_group keys_group = {NULL, "Merged: the document", keys, KEYS};

static void add_range(char *text, size_t size, int from, int to)
{
    size_t used = strlen(text);

    if (used + 40 > size) {
        if (used == 0 || text[used - 1] != '.')
            snprintf(text + used, size - used, ", ...");
        return;
    }
    snprintf(text + used, size - used, from == to ? "%s%d" : "%s%d-%d", used > 0 ? ", " : "", from,
             to);
}

/* "3, 5-7": of the world, those that do not report. */
static void name_missing(const struct cli_job *job, char *text, size_t size)
{
    int next = 0, ranks = job->file[0].report->job.ranks;

    text[0] = '\0';
    for (size_t i = 0; i < job->n; i++) {
        int rank = job->file[i].report->job.rank;

        if (rank < 0)
            return;
        if (rank > next)
            add_range(text, size, next, rank - 1);
        next = rank + 1;
    }
    if (ranks > next)
        add_range(text, size, next, ranks - 1);
}

static int64_t first_start(const struct cli_job *job)
{
    int64_t first = job->file[0].report->job.start_unix;

    for (size_t i = 1; i < job->n; i++)
        if (job->file[i].report->job.start_unix < first)
            first = job->file[i].report->job.start_unix;
    return first;
}

static size_t ended(const struct cli_job *job)
{
    size_t n = 0;

    for (size_t i = 0; i < job->n; i++)
        n += job->file[i].report->job.complete;
    return n;
}

#define SAY(emit, line, ...)                                                                       \
    ss_emit_kv(emit, &lines[line],                                                                 \
               ss_v_sentence((const struct ss_emit_value[]){__VA_ARGS__},                          \
                             LENGTH(((const struct ss_emit_value[]){__VA_ARGS__}))))

static void say_headline(struct ss_emit *e, struct merging *m)
{
    const struct ss_report_job *job = &m->job->file[0].report->job;
    char date[64];

    ss_report_date(first_start(m->job), date, sizeof date);
    SAY(e, HEADLINE, ss_v_text("sparseshim "), ss_v_line(job->version), ss_v_text(": "),
        ss_v_line(job->program != NULL ? job->program : "unnamed program"), ss_v_text(", "),
        ss_v_count(m->job->n), ss_v_text(" of "), ss_v_integer(job->ranks),
        ss_v_text(" ranks, started "), ss_v_text(date), ss_v_text(", ran "),
        ss_v_number(SS_V_SECONDS, spread_of(m, CLI_ELAPSED).most));
}

static void say_bytes(struct ss_emit *e, struct merging *m)
{
    double before = spread_of(m, CLI_DENSE).sum, now = spread_of(m, CLI_SENT).sum;

    SAY(e, BYTES, ss_v_number(SS_V_MEAN, now), ss_v_text(" sent instead of "),
        ss_v_number(SS_V_MEAN, before), ss_v_text(", all of these ranks together: "),
        ss_v_number(SS_V_FACTOR, now > 0 ? before / now : NAN), ss_v_text(" times fewer"));
}

/* A rank stands out where it is a tenth from the median. */
static void say_ranks(struct ss_emit *e, struct merging *m)
{
    struct cli_spread own = spread_of(m, CLI_WORK), idle = spread_of(m, CLI_WAITS);

    if (own.rank_most >= 0 && own.most > 1.1 * own.median)
        SAY(e, SLOWEST, ss_v_text("rank "), ss_v_integer(own.rank_most), ss_v_text(": "),
            ss_v_number(SS_V_SECONDS, own.most), ss_v_text(" in scan, merge and coding, median "),
            ss_v_number(SS_V_SECONDS, own.median));
    if (idle.rank_least >= 0 && idle.least < 0.9 * idle.median)
        SAY(e, AWAITED, ss_v_text("rank "), ss_v_integer(idle.rank_least), ss_v_text(": "),
            ss_v_number(SS_V_SECONDS, idle.least),
            ss_v_text(" in vote, exchange and native, median "),
            ss_v_number(SS_V_SECONDS, idle.median), ss_v_text(": the others wait for it"));
}

static void say_rounds(struct ss_emit *e, struct merging *m)
{
    struct cli_spread rounds = spread_of(m, CLI_ROUNDS), in = spread_of(m, CLI_ROUNDS_IN);

    if (rounds.n > 0)
        SAY(e, PARTIAL, ss_v_number(SS_V_FACTOR, in.sum / rounds.most), ss_v_text(" of "),
            ss_v_count(rounds.n), ss_v_text(" ranks were in a round in the mean, and they fell "),
            ss_v_number(SS_V_SECONDS, spread_of(m, CLI_ROUNDS_BEHIND).sum),
            ss_v_text(" behind, all together, for which nobody waited"));
}

static void write_summary(struct ss_emit *e, struct merging *m)
{
    size_t done = ended(m->job);

    ss_emit_object_begin(e, "summary", NULL);
    say_headline(e, m);
    if (m->missing[0] != '\0')
        SAY(e, MISSING, ss_v_text("no report of rank "), ss_v_text(m->missing));
    if (done < m->job->n)
        SAY(e, STATE, ss_v_count(m->job->n - done), ss_v_text(" of "), ss_v_count(m->job->n),
            ss_v_text(" ranks had not ended: they were running, or were ended later without "
                      "MPI_Finalize"));
    say_bytes(e, m);
    say_ranks(e, m);
    say_rounds(e, m);
    ss_emit_object_end(e);
}

static void write_keys(struct ss_emit *e, struct merging *m)
{
    const struct ss_report_job *job = &m->job->file[0].report->job;

    ss_emit_kv(e, &keys[SCHEMA_KEY], ss_v_integer(SCHEMA));
    ss_emit_kv(e, &keys[PROGRAM], ss_v_text(job->program));
    ss_emit_kv(e, &keys[VERSION], ss_v_text(job->version));
    ss_emit_kv(e, &keys[RANKS], ss_v_integer(job->ranks));
    ss_emit_kv(e, &keys[REPORTS], ss_v_count(m->job->n));
    ss_emit_kv(e, &keys[START], ss_v_integer(first_start(m->job)));
    ss_emit_kv(e, &keys[COMPLETE], ss_v_bool(ended(m->job) == m->job->n));
}

/* ---- the whole ---- */

static int write_all(struct merging *m, enum ss_emit_form form, ss_emit_write *write, void *ctx)
{
    static const struct ss_emit_table spread = {"spread",       {"Over the ranks"}, 0,
                                                spread_columns, SPREAD_COLUMNS,     spread_row};
    struct ss_emit e;

    name_missing(m->job, m->missing, sizeof m->missing);
    ss_emit_begin(&e, form, write, ctx);
    write_keys(&e, m);
    write_summary(&e, m);
    ss_emit_table(&e, &spread, m);
    merging_rows(&e, m);
    return ss_emit_end(&e);
}

int cli_merge_write(const struct cli_job *job, enum ss_emit_form form, ss_emit_write *write,
                    void *ctx)
{
    struct merging m = {.job = job, .values = calloc(job->n, sizeof *m.values)};
    int status = -1;

    if (m.values != NULL && cli_join_lanes(&m.lanes, job, false) &&
        cli_join_tensors(&m.tensors, job, false))
        status = write_all(&m, form, write, ctx);
    else
        fprintf(stderr, "sparseshim report: out of memory\n");
    cli_join_free(&m.lanes);
    cli_join_free(&m.tensors);
    free(m.values);
    return status;
}

size_t cli_merge_legend(const struct ss_emit_group *const **list)
{
    static const struct ss_emit_group *const groups[] = {
        &keys_group, &summary_group, &spread_group, &merging_lanes_group, &merging_tensors_group};

    *list = groups;
    return LENGTH(groups);
}
