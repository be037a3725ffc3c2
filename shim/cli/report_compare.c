/* Two jobs side by side: what was set, what it brought, lane by lane. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/tensor_record.h"
#include "shim/cli/report_forms.h"
#include "shim/cli/report_join.h"
#include "shim/cli/report_measures.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

enum { SCHEMA = 1, A = 0, B = 1 };

/* Reports of A, then as many of B. */
struct comparing {
    struct cli_file *file;
    size_t n; /* of each */
    struct cli_join lanes, tensors;
    size_t option; /* of the side that is looked at */
    int looked;
    struct ss_emit_value op[3];
};

static const struct cli_report *report_of(const struct comparing *c, int side, size_t i)
{
    return c->file[(size_t)side * c->n + i].report;
}

static const struct ss_report_job *job_of(const struct comparing *c, int side)
{
    return &report_of(c, side, 0)->job;
}

/* ---- the job ---- */

static double mean_of(const struct comparing *c, int side, enum cli_measured what)
{
    double sum = 0;

    for (size_t i = 0; i < c->n; i++)
        sum += cli_measures[what].of(report_of(c, side, i));
    return sum / (double)c->n;
}

enum { M_MEASURE, M_SHOWN, M_A, M_B, M_RATIO, M_COLUMNS };

static const struct ss_emit_column measure_columns[M_COLUMNS] = {
    [M_MEASURE] = {"measure", NULL, 0, SS_LEFT, "what is compared, as in a rank's report"},
    [M_SHOWN] = {NULL, "of a rank", 1, SS_LEFT, "what is compared, all lanes together"},
    [M_A] = {"a", "A", 1, 0, "in the first job, mean of the ranks that both report"},
    [M_B] = {"b", "B", 1, 0, "in the second job, likewise"},
    [M_RATIO] = {"ratio", "B / A", 1, 0, "below 1 where the second job has less"},
};
static const struct ss_emit_group measures_group = {"job", "Compared: the job", measure_columns,
                                                    M_COLUMNS};

static bool measure_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    const struct comparing *c = ctx;

    if (row == CLI_MEASURES)
        return false;
    const struct cli_measure *measure = &cli_measures[row];
    double a = mean_of(c, A, (enum cli_measured)row), b = mean_of(c, B, (enum cli_measured)row);
    if (row >= CLI_ROUNDS && isnan(a) && isnan(b))
        return false;
    v[M_MEASURE] = ss_v_text(measure->key);
    v[M_SHOWN] = ss_v_text(measure->text);
    v[M_A] = cli_measure_value(measure, a);
    v[M_B] = cli_measure_value(measure, b);
    v[M_RATIO] = ss_v_number(SS_V_FACTOR, ss_ratio(b, a));
    return true;
}

/* ---- options ---- */

enum { O_NAME, O_A, O_B, O_COLUMNS };

static const struct ss_emit_column option_columns[O_COLUMNS] = {
    [O_NAME] = {"name", "name", 1, SS_LEFT,
                "an option that differs, without SPARSESHIM_; REPORT_DIR is left out"},
    [O_A] = {"a", "A", 1, SS_LEFT, "its value in the first job; -, null: the default"},
    [O_B] = {"b", "B", 1, SS_LEFT, "its value in the second job, likewise"},
};
static const struct ss_emit_group options_group = {"options", "Compared: options that differ",
                                                   option_columns, O_COLUMNS};

static const char *value_in(const struct ss_report_job *job, const char *name)
{
    for (size_t i = 0; i < job->option_count; i++)
        if (job->options[i].name != NULL && strcmp(job->options[i].name, name) == 0)
            return job->options[i].value;
    return NULL;
}

static bool equal(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* The next name that differs; those of B only where A does not have them. NULL: no more. */
static const char *next_option(struct comparing *c)
{
    for (int side = c->looked; side <= B; side++, c->looked++, c->option = 0) {
        const struct ss_report_job *own = job_of(c, side), *other = job_of(c, !side);

        while (c->option < own->option_count) {
            const struct ss_report_option *o = &own->options[c->option++];

            if (o->name != NULL && strcmp(o->name, "REPORT_DIR") != 0 &&
                !(side == B && value_in(other, o->name) != NULL) &&
                !equal(o->value, value_in(other, o->name)))
                return o->name;
        }
    }
    return NULL;
}

static bool option_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct comparing *c = ctx;

    if (row == 0)
        c->option = 0, c->looked = A;
    const char *name = next_option(c);
    if (name == NULL)
        return false;
    v[O_NAME] = ss_v_text(name);
    v[O_A] = ss_v_text(value_in(job_of(c, A), name));
    v[O_B] = ss_v_text(value_in(job_of(c, B), name));
    return true;
}

/* ---- lanes ---- */

enum {
    L_LANE,
    L_COMM,
    L_RANKS,
    L_COUNT,
    L_TYPE,
    L_KIND,
    L_OP,
    L_SHOWN_OP,
    L_CALLS_A,
    L_CALLS_B,
    L_DENSITY_A,
    L_DENSITY_B,
    L_SENT_A,
    L_SENT_B,
    L_SENT_RATIO,
    L_SECONDS_A,
    L_SECONDS_B,
    L_SECONDS_RATIO,
    L_COLUMNS
};

static const struct ss_emit_column lane_columns[L_COLUMNS] = {
    [L_LANE] = {"lane", "lane", 1, 0, "number of the lane in this table"},
    [L_COMM] = {"communicator", "communicator", 1, SS_LEFT | SS_RARE, "its MPI name"},
    [L_RANKS] = {"ranks", "ranks", 1, SS_RARE, "ranks of the communicator, in A where it has it"},
    [L_COUNT] = {"count", "count", 1, 0, "elements of the result"},
    [L_TYPE] = {"type", "type", 1, SS_LEFT, "datatype of the elements"},
    [L_KIND] = {"kind", NULL, 0, SS_LEFT, "the collective"},
    [L_OP] = {"op", NULL, 0, SS_LEFT, "the operator"},
    [L_SHOWN_OP] = {NULL, "op", 1, SS_LEFT,
                    "the operator; before it the collective where it is no allreduce"},
    [L_CALLS_A] = {"calls_a", "calls A", 1, 0, "eligible calls in A, mean of the ranks"},
    [L_CALLS_B] = {"calls_b", "B", 1, 0, "in B"},
    [L_DENSITY_A] = {"density_a", "density A", 1, 0, "mean density in A"},
    [L_DENSITY_B] = {"density_b", "B", 1, 0, "in B"},
    [L_SENT_A] = {"bytes_per_call_a", "sent a call A", 1, 0, "bytes sent in a call in A"},
    [L_SENT_B] = {"bytes_per_call_b", "B", 1, 0, "in B"},
    [L_SENT_RATIO] = {"bytes_ratio", "B / A", 1, 0, "below 1 where B sends less in a call"},
    [L_SECONDS_A] = {"seconds_per_call_a", "a call A", 1, 0, "time of a call in A, all phases"},
    [L_SECONDS_B] = {"seconds_per_call_b", "B", 1, 0, "in B"},
    [L_SECONDS_RATIO] = {"seconds_ratio", "B / A", 1, 0, "below 1 where a call of B is faster"},
};
static const struct ss_emit_group lanes_group = {"lanes", "Compared: lanes", lane_columns,
                                                 L_COLUMNS};

/* Sums over the ranks of a side; reports 0: it has no such lane. */
struct lane_sum {
    double reports, calls, scans, density, sent, seconds;
};

static struct lane_sum lane_sum(const struct comparing *c, size_t row, int side)
{
    struct lane_sum s = {0, 0, 0, 0, 0, 0};

    for (size_t i = 0; i < c->n; i++) {
        const struct ss_lane_record *r = cli_joined(&c->lanes, row, (size_t)side * c->n + i);

        if (r == NULL)
            continue;
        s.reports++;
        s.calls += (double)r->calls;
        s.scans += (double)r->scans;
        s.density += r->scans > 0 ? r->density_sum : 0;
        s.sent += (double)r->bytes_sent;
        s.seconds += cli_lane_seconds(r);
    }
    return s;
}

static struct ss_emit_value calls_value(const struct lane_sum *s)
{
    return s->reports > 0 ? ss_v_count((uint64_t)(s->calls / s->reports)) : ss_v_text(NULL);
}

static void lane_names(struct comparing *c, const struct ss_lane_record *r, struct ss_emit_value *v)
{
    v[L_COMM] = ss_v_text(r->comm);
    v[L_RANKS] = ss_v_integer(r->size);
    v[L_COUNT] = ss_v_count(r->count);
    v[L_TYPE] = ss_v_text(ss_type_name(r->type));
    v[L_KIND] = ss_v_text(ss_kind_name(r->kind));
    v[L_OP] = ss_v_text(ss_op_name(r->op));
    v[L_SHOWN_OP] = ss_report_lane_op(r, c->op);
}

static bool lane_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct comparing *c = ctx;

    if (row == c->lanes.rows)
        return false;
    struct lane_sum a = lane_sum(c, row, A), b = lane_sum(c, row, B);
    lane_names(c, cli_joined_any(&c->lanes, row), v);
    v[L_LANE] = ss_v_count(row + 1);
    v[L_CALLS_A] = calls_value(&a);
    v[L_CALLS_B] = calls_value(&b);
    v[L_DENSITY_A] = ss_v_number(SS_V_SHARE, ss_ratio(a.density, a.scans));
    v[L_DENSITY_B] = ss_v_number(SS_V_SHARE, ss_ratio(b.density, b.scans));
    v[L_SENT_A] = ss_v_number(SS_V_MEAN, ss_ratio(a.sent, a.calls));
    v[L_SENT_B] = ss_v_number(SS_V_MEAN, ss_ratio(b.sent, b.calls));
    v[L_SENT_RATIO] =
        ss_v_number(SS_V_FACTOR, ss_ratio(ss_ratio(b.sent, b.calls), ss_ratio(a.sent, a.calls)));
    v[L_SECONDS_A] = ss_v_number(SS_V_SECONDS, ss_ratio(a.seconds, a.calls));
    v[L_SECONDS_B] = ss_v_number(SS_V_SECONDS, ss_ratio(b.seconds, b.calls));
    v[L_SECONDS_RATIO] = ss_v_number(
        SS_V_FACTOR, ss_ratio(ss_ratio(b.seconds, b.calls), ss_ratio(a.seconds, a.calls)));
    return true;
}

/* ---- tensors ---- */

enum {
    T_TENSOR,
    T_SITE,
    T_SYMBOL,
    T_ORDINAL,
    T_COUNT,
    T_STATE_A,
    T_STATE_B,
    T_SELECTED_A,
    T_SELECTED_B,
    T_RATIO_A,
    T_RATIO_B,
    T_COLUMNS
};

static const struct ss_emit_column tensor_columns[T_COLUMNS] = {
    [T_TENSOR] = {"tensor", "tensor", 1, 0, "number of the tensor in this table"},
    [T_SITE] = {"site", "called from", 1, SS_LEFT,
                "module and offset that it is called from, in A where it has it"},
    [T_SYMBOL] = {"symbol", "function", 1, SS_LEFT, "the function there"},
    [T_ORDINAL] = {"ordinal", "ordinal", 1, SS_RARE,
                   "which call of its lane it is in the step, from 0; -1: out of step"},
    [T_COUNT] = {"count", "count", 1, 0, "elements"},
    [T_STATE_A] = {"state_a", "state A", 1, SS_LEFT, "what became of it in A"},
    [T_STATE_B] = {"state_b", "B", 1, SS_LEFT, "in B"},
    [T_SELECTED_A] = {"density_a", "selected A", 1, 0,
                      "share of the elements selected in A, mean of the ranks"},
    [T_SELECTED_B] = {"density_b", "B", 1, 0, "in B"},
    [T_RATIO_A] = {"residual_ratio_a", "to input A", 1, 0,
                   "norm of a rank's residual over that of its last input in A, mean of the ranks"},
    [T_RATIO_B] = {"residual_ratio_b", "B", 1, 0, "in B"},
};
static const struct ss_emit_group tensors_group = {"tensors", "Compared: tensors (MODE=topk)",
                                                   tensor_columns, T_COLUMNS};

static double tensor_mean(const struct comparing *c, size_t row, int side,
                          double (*of)(const struct ss_tensor_record *tensor))
{
    double sum = 0, n = 0;

    for (size_t i = 0; i < c->n; i++) {
        const struct ss_tensor_record *t = cli_joined(&c->tensors, row, (size_t)side * c->n + i);

        if (t != NULL && isfinite(of(t))) {
            sum += of(t);
            n++;
        }
    }
    return ss_ratio(sum, n);
}

static struct ss_emit_value tensor_state(const struct comparing *c, size_t row, int side)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct ss_tensor_record *t = cli_joined(&c->tensors, row, (size_t)side * c->n + i);

        if (t != NULL)
            return ss_v_text(ss_tensor_state_name(t->state));
    }
    return ss_v_text(NULL);
}

static bool tensor_row(void *ctx, size_t row, struct ss_emit_value *v)
{
    struct comparing *c = ctx;

    if (row == c->tensors.rows)
        return false;
    const struct ss_tensor_record *r = cli_joined_any(&c->tensors, row);
    v[T_TENSOR] = ss_v_count(row + 1);
    v[T_SITE] = ss_v_text(r->site[0] != '\0' ? r->site : NULL);
    v[T_SYMBOL] = ss_v_text(r->symbol[0] != '\0' ? r->symbol : NULL);
    v[T_ORDINAL] = ss_v_integer(r->ordinal == SS_ORDINAL_LOST ? -1 : (int64_t)r->ordinal);
    v[T_COUNT] = ss_v_count(r->count);
    v[T_STATE_A] = tensor_state(c, row, A);
    v[T_STATE_B] = tensor_state(c, row, B);
    v[T_SELECTED_A] = ss_v_number(SS_V_SHARE, tensor_mean(c, row, A, cli_tensor_density));
    v[T_SELECTED_B] = ss_v_number(SS_V_SHARE, tensor_mean(c, row, B, cli_tensor_density));
    v[T_RATIO_A] = ss_v_number(SS_V_FACTOR, tensor_mean(c, row, A, cli_tensor_ratio));
    v[T_RATIO_B] = ss_v_number(SS_V_FACTOR, tensor_mean(c, row, B, cli_tensor_ratio));
    return true;
}

/* ---- the whole ---- */

enum { KEY_SCHEMA, LINE_A, LINE_B, LINE_RANKS, LINES };

static const struct ss_emit_column lines[LINES] = {
    [KEY_SCHEMA] = {"compared_schema", NULL, 0, 0, "version of the form of compared reports"},
    [LINE_A] = {"a", "A", 0, 0, "the first job: file, program, ranks, when it began"},
    [LINE_B] = {"b", "B", 0, 0, "the second job, likewise"},
    [LINE_RANKS] = {"ranks", "ranks", 0, 0, "ranks that are compared, those that both report"},
};
static const struct ss_emit_group document_group = {NULL, "Compared: the document", lines, LINES};

static void say_job(struct ss_emit *e, const struct comparing *c, int side)
{
    const struct ss_report_job *job = job_of(c, side);
    char date[64];

    ss_report_date(job->start_unix, date, sizeof date);
    const struct ss_emit_value parts[] = {
        ss_v_text(job->program != NULL ? job->program : "unnamed program"),
        ss_v_text(", "),
        ss_v_integer(job->ranks),
        ss_v_text(" ranks, started "),
        ss_v_text(date),
        ss_v_text(", from "),
        ss_v_text(c->file[(size_t)side * c->n].path),
        ss_v_text(c->n > 1 ? " and others" : ""),
    };
    ss_emit_kv(e, &lines[side == A ? LINE_A : LINE_B], ss_v_sentence(parts, LENGTH(parts)));
}

static int write_all(struct comparing *c, enum ss_emit_form form, ss_emit_write *write, void *ctx)
{
    static const struct ss_emit_table tables[] = {
        {"options", {"Options that differ"}, 0, option_columns, O_COLUMNS, option_row},
        {"job", {"The job, means of these ranks"}, 0, measure_columns, M_COLUMNS, measure_row},
        {"lanes", {"Lanes, means of a call"}, 0, lane_columns, L_COLUMNS, lane_row},
        {"tensors", {"Tensors"}, 0, tensor_columns, T_COLUMNS, tensor_row},
    };
    struct ss_emit e;

    ss_emit_begin(&e, form, write, ctx);
    ss_emit_kv(&e, &lines[KEY_SCHEMA], ss_v_integer(SCHEMA));
    say_job(&e, c, A);
    say_job(&e, c, B);
    ss_emit_kv(&e, &lines[LINE_RANKS], ss_v_count(c->n));
    for (size_t i = 0; i < LENGTH(tables); i++)
        ss_emit_table(&e, &tables[i], c);
    return ss_emit_end(&e);
}

/* Pairs of the same rank; one report each is a pair whatever its rank. Room for both jobs. */
static void pair(struct comparing *c, const struct cli_job *a, const struct cli_job *b)
{
    size_t i = 0, j = 0, n = 0;
    struct cli_file *other = c->file + a->n;

    while (i < a->n && j < b->n) {
        int p = a->file[i].report->job.rank, q = b->file[j].report->job.rank;

        if (p == q || (a->n == 1 && b->n == 1)) {
            c->file[n] = a->file[i];
            other[n++] = b->file[j];
        }
        i += p <= q;
        j += q <= p;
    }
    memmove(c->file + n, other, n * sizeof *other);
    c->n = n;
}

int cli_compare_write(const struct cli_job *a, const struct cli_job *b, enum ss_emit_form form,
                      ss_emit_write *write, void *ctx)
{
    struct comparing c = {.file = calloc(a->n + b->n, sizeof *c.file)};
    int status = -1;

    if (c.file != NULL)
        pair(&c, a, b);
    struct cli_job both = {c.file, 2 * c.n};
    if (c.file != NULL && c.n == 0)
        fprintf(stderr, "sparseshim report: no rank has reports of both jobs\n");
    else if (c.file != NULL && cli_join_lanes(&c.lanes, &both, true) &&
             cli_join_tensors(&c.tensors, &both, true))
        status = write_all(&c, form, write, ctx);
    else
        fprintf(stderr, "sparseshim report: out of memory\n");
    cli_join_free(&c.lanes);
    cli_join_free(&c.tensors);
    free(c.file);
    return status;
}

size_t cli_compare_legend(const struct ss_emit_group *const **list)
{
    static const struct ss_emit_group *const groups[] = {
        &document_group, &options_group, &measures_group, &lanes_group, &tensors_group};

    *list = groups;
    return LENGTH(groups);
}
