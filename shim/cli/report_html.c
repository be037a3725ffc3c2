/* One page about a job: text, tables and pictures, with the numbers behind them as JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/tensor_record.h"
#include "shim/cli/html_draw.h"
#include "shim/cli/report_forms.h"
#include "shim/cli/report_join.h"
#include "shim/cli/report_measures.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* More would make the page unreadable; what is left out is said. */
enum { MOST_BARS = 32, MOST_TENSORS = 64 };

static const char head[] =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<style>\n"
    ":root { color-scheme: light dark; --ink: #1c1f23; --page: #fff; --faint: #d7dbe0; --soft: "
    "#5b6470;\n"
    "  --c0: #0072b2; --c1: #a8b0ba; --c2: #e69f00; --c3: #009e73; --c4: #cc79a7; --c5: #d55e00; "
    "}\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --page: #15181c; --faint: "
    "#343b44;\n"
    "  --soft: #9aa4b0; --c0: #56b4e9; --c1: #78828e; } }\n"
    "body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);\n"
    "  max-width: 1180px; margin: 2em auto; padding: 0 1.2em; }\n"
    "h1 { font-size: 1.5em; margin-bottom: 0; } h2 { font-size: 1.15em; margin: 2em 0 0.4em; }\n"
    "h3 { font-size: 1em; margin: 1.4em 0 0.2em; }\n"
    "p { margin: 0.3em 0; } p.note, figcaption, dd { color: var(--soft); }\n"
    "figure { margin: 0.6em 0 1.2em; max-width: 860px; } figure.small { flex: 1 1 300px; "
    "max-width: 380px; margin: "
    "0; }\n"
    "div.row { display: flex; flex-wrap: wrap; gap: 1.2em; align-items: flex-end; max-width: "
    "1180px; }\n"
    "svg { width: 100%; height: auto; display: block; }\n"
    "svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }\n"
    "svg text.label { text-anchor: end; } svg text.middle { text-anchor: middle; }\n"
    "path.grid { stroke: var(--faint); fill: none; } path.line { fill: none; stroke-width: 1.8; }\n"
    "rect.c0 { fill: var(--c0); } rect.c1 { fill: var(--c1); } rect.c2 { fill: var(--c2); }\n"
    "rect.c3 { fill: var(--c3); } rect.c4 { fill: var(--c4); } rect.c5 { fill: var(--c5); }\n"
    "path.c0 { stroke: var(--c0); } path.c2 { stroke: var(--c2); } path.c3 { stroke: var(--c3); }\n"
    "path.c5 { stroke: var(--c5); } p.key span { margin-right: 1.2em; }\n"
    "p.key i { display: inline-block; width: 0.8em; height: 0.8em; margin-right: 0.4em; }\n"
    "i.c0 { background: var(--c0); } i.c1 { background: var(--c1); } i.c2 { background: var(--c2); "
    "}\n"
    "i.c3 { background: var(--c3); } i.c4 { background: var(--c4); } i.c5 { background: var(--c5); "
    "}\n"
    "pre { overflow-x: auto; font-size: 13px; line-height: 1.4; }\n"
    "dt { font-weight: 600; } dd { margin: 0 0 0.4em 1.4em; } summary { cursor: pointer; }\n"
    "</style>\n";

/* ---- text ---- */

static int escaped(void *ctx, const char *text, size_t len)
{
    char piece[256];

    (void)ctx;
    for (size_t n; len > 0; text += n, len -= n) {
        n = len < sizeof piece - 1 ? len : sizeof piece - 1;
        memcpy(piece, text, n);
        piece[n] = '\0';
        html_text(piece);
    }
    return ferror(stdout) ? -1 : 0;
}

static int print_text(const struct cli_job *job)
{
    struct cli_report *first = job->file[0].report;
    int status;

    fputs("<h2>The report</h2>\n<pre>", stdout);
    status = job->n > 1 ? cli_merge_write(job, SS_EMIT_TEXT, escaped, NULL)
                        : ss_report_write(&first->stats, &first->job, SS_EMIT_TEXT, escaped, NULL);
    fputs("</pre>\n", stdout);
    return status;
}

static void print_head(const struct cli_job *job)
{
    const struct ss_report_job *first = &job->file[0].report->job;
    const char *program = first->program != NULL ? first->program : "unnamed program";
    char date[64];

    ss_report_date(first->start_unix, date, sizeof date);
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>", stdout);
    html_value(ss_v_text(program));
    printf(", %s</title>\n%s</head>\n<body>\n<h1>", date, head);
    html_value(ss_v_text(program));
    fputs("</h1>\n<p class=\"note\">", stdout);
    if (job->n > 1)
        printf("%zu of %d ranks", job->n, first->ranks);
    else
        printf("rank %d of %d", first->rank, first->ranks);
    printf(", started %s; sparseshim ", date);
    html_value(ss_v_text(first->version));
    fputs(first->complete ? "</p>\n" : "; the job had not ended</p>\n", stdout);
}

/* ---- lanes ---- */

static void name_lane(char label[HTML_LABEL], size_t number, const struct ss_lane_record *lane)
{
    if (lane->count == 0)
        snprintf(label, HTML_LABEL, "further lanes");
    else
        snprintf(label, HTML_LABEL, "%zu: %llu %s %s", number, (unsigned long long)lane->count,
                 ss_type_name(lane->type),
                 lane->kind == SS_KIND_ALLREDUCE ? ss_op_name(lane->op) : ss_kind_name(lane->kind));
}

/* Sums over the ranks. */
struct lane_sum {
    double reports, dense, sent, sparse, passed, predicted, predicted_dense;
    struct ss_times times;
};

static double mean(double sum, double n)
{
    return n > 0 ? sum / n : NAN;
}

/* Of the algorithms that ran, what was predicted for a call. */
static double predicted(const struct ss_lane_record *r)
{
    double calls = 0, sum = 0;

    for (int a = 0; a < SS_ALGORITHMS; a++) {
        calls += (double)r->sparse[a];
        if (r->sparse[a] > 0)
            sum += (double)r->sparse[a] * mean(r->predicted_seconds[a], (double)r->planned);
    }
    return mean(sum, calls);
}

static void add_lane(struct lane_sum *s, const struct ss_lane_record *r)
{
    s->reports++;
    s->dense += (double)r->bytes_dense;
    s->sent += (double)r->bytes_sent;
    for (int a = 0; a < SS_ALGORITHMS; a++)
        s->sparse += (double)r->sparse[a];
    for (int i = 0; i < SS_REASONS; i++)
        s->passed += (double)r->passed[i];
    s->predicted += predicted(r);
    s->predicted_dense += mean(r->predicted_seconds[SS_DENSE], (double)r->planned);
    ss_times_add(&s->times, &r->times);
}

static struct lane_sum lane_sum(const struct cli_join *lanes, size_t row)
{
    struct lane_sum s = {.reports = 0};

    for (size_t i = 0; i < lanes->reports; i++)
        if (cli_joined(lanes, row, i) != NULL)
            add_lane(&s, cli_joined(lanes, row, i));
    return s;
}

static const struct html_key phases = {
    {"scan", "vote", "exchange", "merge", "coding", "native"}, {0, 5, 2, 3, 4, 1}, 6};

static void phases_bar(struct html_bar *bar, const struct ss_times *t, double ranks)
{
    const double parts[] = {t->scan, t->vote, t->exchange, t->merge, t->coding, t->native};

    for (size_t i = 0; i < LENGTH(parts); i++) {
        bar->part[i] = parts[i] / ranks;
        bar->key[i] = (int)i;
    }
    bar->parts = LENGTH(parts);
}

static void say_more(size_t shown, size_t all, const char *what)
{
    if (shown < all)
        printf("<p class=\"note\">The first %zu of %zu %s.</p>\n", shown, all, what);
}

static void print_bytes(const struct cli_join *lanes, struct html_bar *bars)
{
    static const struct html_key key = {{"dense", "sent"}, {1, 0}, 2};
    size_t rows = lanes->rows < MOST_BARS / 2 ? lanes->rows : MOST_BARS / 2;

    for (size_t row = 0; row < rows; row++) {
        struct lane_sum s = lane_sum(lanes, row);
        struct html_bar *bar = &bars[2 * row];

        bar[0] = (struct html_bar){.part = {s.dense}, .key = {0}, .parts = 1};
        bar[1] = (struct html_bar){.part = {s.sent}, .key = {1}, .parts = 1};
        name_lane(bar[0].label, row + 1, cli_joined_any(lanes, row));
    }
    fputs("<h2>Bytes against dense</h2>\n", stdout);
    html_bars("Bytes that dense collectives would have sent, and bytes sent, by lane, all ranks of "
              "this page together",
              bars, 2 * rows, SS_V_MEAN, &key);
    say_more(rows, lanes->rows, "lanes");
}

static void print_phases(const struct cli_join *lanes, struct html_bar *bars)
{
    size_t rows = lanes->rows < MOST_BARS ? lanes->rows : MOST_BARS;

    for (size_t row = 0; row < rows; row++) {
        struct lane_sum s = lane_sum(lanes, row);

        bars[row] = (struct html_bar){.parts = 0};
        name_lane(bars[row].label, row + 1, cli_joined_any(lanes, row));
        phases_bar(&bars[row], &s.times, s.reports);
    }
    fputs("<h2>Time per phase</h2>\n", stdout);
    html_bars("Time of all calls by lane, mean of the ranks", bars, rows, SS_V_SECONDS, &phases);
    say_more(rows, lanes->rows, "lanes");
}

static void print_ranks(const struct cli_job *job, struct html_bar *bars)
{
    size_t n = job->n < MOST_BARS ? job->n : MOST_BARS;

    if (job->n < 2)
        return;
    for (size_t i = 0; i < n; i++) {
        struct cli_report *report = job->file[i].report;
        struct ss_report_totals totals;

        ss_report_add_up(&report->stats, &totals);
        bars[i] = (struct html_bar){.parts = 0};
        snprintf(bars[i].label, HTML_LABEL, "rank %d", report->job.rank);
        phases_bar(&bars[i], &totals.times, 1);
    }
    html_bars("Time of all calls by rank: who is awaited has the shortest vote", bars, n,
              SS_V_SECONDS, &phases);
    say_more(n, job->n, "ranks");
}

static size_t prediction_bars(struct html_bar *bars, const char *what, const char *lane,
                              double guess, double measured)
{
    if (!isfinite(guess) || !isfinite(measured))
        return 0;
    bars[0] = (struct html_bar){.part = {guess}, .key = {0}, .parts = 1};
    bars[1] = (struct html_bar){.part = {measured}, .key = {1}, .parts = 1};
    snprintf(bars[0].label, HTML_LABEL, "%.70s, %s", lane, what);
    return 2;
}

static void print_predictions(const struct cli_join *lanes, struct html_bar *bars)
{
    static const struct html_key key = {{"predicted", "measured"}, {1, 0}, 2};
    size_t n = 0;

    for (size_t row = 0; row < lanes->rows && n + 4 <= MOST_BARS; row++) {
        struct lane_sum s = lane_sum(lanes, row);
        const struct ss_times *t = &s.times;
        char lane[HTML_LABEL];

        name_lane(lane, row + 1, cli_joined_any(lanes, row));
        n +=
            prediction_bars(&bars[n], "made sparse", lane, s.predicted / s.reports,
                            mean(t->scan + t->vote + t->exchange + t->merge + t->coding, s.sparse));
        n += prediction_bars(&bars[n], "native", lane, s.predicted_dense / s.reports,
                             mean(t->native, s.passed));
    }
    fputs("<h2>Predicted against measured</h2>\n", stdout);
    if (n == 0)
        fputs("<p class=\"note\">No call was predicted.</p>\n", stdout);
    else
        html_bars("Time of a call by the model and as measured, mean of the ranks; what was made "
                  "sparse with all scans and votes of the lane",
                  bars, n, SS_V_SECONDS, &key);
}

static int print_lanes(const struct cli_job *job)
{
    struct html_bar *bars = calloc(MOST_BARS, sizeof *bars);
    struct cli_join lanes = {.rows = 0};
    bool good = bars != NULL && cli_join_lanes(&lanes, job, false);

    if (good && lanes.rows > 0) {
        print_bytes(&lanes, bars);
        print_phases(&lanes, bars);
        print_ranks(job, bars);
        print_predictions(&lanes, bars);
    } else if (good) {
        fputs("<p>No call could be made sparse.</p>\n", stdout);
    }
    cli_join_free(&lanes);
    free(bars);
    if (!good)
        fprintf(stderr, "sparseshim report: out of memory\n");
    return good ? 0 : -1;
}

/* ---- tensors ---- */

static double density(const struct ss_series_point *p)
{
    return p->density;
}

static double threshold(const struct ss_series_point *p)
{
    return p->threshold;
}

static double residual(const struct ss_series_point *p)
{
    return p->residual;
}

static double input(const struct ss_series_point *p)
{
    return p->input;
}

static void print_tensor(size_t number, const struct ss_tensor_record *t)
{
    static const struct html_line of_density = {"density", 0, density};
    static const struct html_line of_norms[] = {{"residual", 0, residual}, {"input", 5, input}};
    static const struct html_line of_threshold = {"threshold", 3, threshold};

    printf("<h3>%zu: ", number);
    html_value(ss_v_count(t->count));
    printf(" %s</h3>\n<p class=\"note\">called from ", ss_type_name(t->type));
    html_value(ss_v_text(t->site[0] != '\0' ? t->site : "an unknown place"));
    fputs(t->symbol[0] != '\0' ? ", " : "", stdout);
    html_value(ss_v_text(t->symbol));
    fputs("; ", stdout);
    html_value(ss_v_count(t->topk_calls));
    fputs(" of ", stdout);
    html_value(ss_v_count(t->calls));
    printf(" calls lossy, %s at the end</p>\n<div class=\"row\">\n",
           ss_tensor_state_name(t->state));
    html_lines("Density selected, over its calls", t->series, &of_density, 1, SS_V_SHARE);
    html_lines("Norms, over its calls", t->series, of_norms, 2, SS_V_FACTOR);
    html_lines("Threshold, over its calls", t->series, &of_threshold, 1, SS_V_FACTOR);
    fputs("</div>\n", stdout);
}

static void print_tensors(const struct cli_report *report)
{
    size_t number = 0, shown = 0, all = 0;

    for (const struct ss_tensor_record *t = report->stats.tensors; t != NULL; t = t->next)
        all += t->series != NULL;
    if (all == 0)
        return;
    printf("<h2>Lossy tensors, step by step (rank %d)</h2>\n", report->job.rank);
    for (const struct ss_tensor_record *t = report->stats.tensors; t != NULL; t = t->next) {
        number++;
        if (t->series == NULL || shown == MOST_TENSORS)
            continue;
        print_tensor(number, t);
        shown++;
    }
    say_more(shown, all, "lossy tensors");
}

/* ---- words and numbers ---- */

static void print_group(const struct ss_emit_group *group)
{
    fputs("<h3>", stdout);
    html_text(group->title);
    fputs("</h3>\n<dl>\n", stdout);
    for (size_t i = 0; i < group->n; i++) {
        const struct ss_emit_column *c = &group->columns[i];
        const char *title = c->title != NULL && *c->title != '\0' ? c->title : c->key;

        fputs("<dt>", stdout);
        html_text(title);
        if (c->key != NULL && strcmp(c->key, title) != 0) {
            fputs(" (", stdout);
            html_text(c->key);
            fputs(")", stdout);
        }
        fputs("</dt><dd>", stdout);
        html_text(c->legend);
        fputs("</dd>\n", stdout);
    }
    fputs("</dl>\n", stdout);
}

static void print_words(const struct cli_job *job)
{
    const struct ss_emit_group *const *groups;
    size_t n = job->n > 1 ? cli_merge_legend(&groups) : 0;

    fputs("<h2>What the words mean</h2>\n<details><summary>Every word and number of the "
          "report</summary>\n",
          stdout);
    for (size_t i = 0; i < n; i++)
        print_group(groups[i]);
    n = ss_report_legend(&groups);
    for (size_t i = 0; i < n; i++)
        print_group(groups[i]);
    fputs("</details>\n", stdout);
}

static int print_numbers(const struct cli_job *job)
{
    struct cli_report *first = job->file[0].report;
    int status = 0;

    if (job->n > 1) {
        fputs("<script type=\"application/json\" id=\"job\">\n", stdout);
        status = cli_merge_write(job, SS_EMIT_JSON, html_json, NULL);
        fputs("</script>\n", stdout);
    }
    fputs("<script type=\"application/json\" id=\"rank\">\n", stdout);
    if (status == 0)
        status = ss_report_write(&first->stats, &first->job, SS_EMIT_JSON, html_json, NULL);
    fputs("</script>\n", stdout);
    return status;
}

int cli_html_print(const struct cli_job *job)
{
    int status;

    print_head(job);
    status = print_lanes(job);
    print_tensors(job->file[0].report);
    if (status == 0)
        status = print_text(job);
    print_words(job);
    if (status == 0)
        status = print_numbers(job);
    fputs("</body>\n</html>\n", stdout);
    return status;
}
