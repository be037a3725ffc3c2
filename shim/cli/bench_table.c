/* What sparseshim bench has measured, as a table, CSV, JSON and a plot. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/report/emit.h"
#include "shim/cli/bench.h"
#include "shim/cli/cli.h"

enum {
    RANKS,
    COUNT,
    TYPE,
    MODE,
    DENSITY,
    ALGORITHM,
    VALUES,
    DENSE,
    OURS,
    RATIO,
    LOW,
    HIGH,
    BYTES_DENSE,
    SENT,
    FEWER,
    RESULT,
    DIFFERENCE,
    COLUMNS
};

static const struct ss_emit_column columns[COLUMNS] = {
    [RANKS] = {"ranks", "ranks", 1, 0, "ranks of the job"},
    [COUNT] = {"count", "count", 1, 0, "elements of a call"},
    [TYPE] = {"type", NULL, 0, SS_LEFT, "float or double"},
    [MODE] = {"mode", NULL, 0, SS_LEFT, "exact or topk"},
    [DENSITY] = {"density", "density", 1, 0,
                 "share of a rank's entries that are not zero, or with top-k are sent"},
    [ALGORITHM] = {"algorithm", "collective", 1, SS_LEFT, "ALGORITHM"},
    [VALUES] = {"value_type", "values", 1, SS_LEFT, "VALUE_TYPE"},
    [DENSE] = {"seconds_dense", "dense", 1, 0,
               "time of a call of the MPI library: the slowest rank's, median over the blocks"},
    [OURS] = {"seconds", "sparse", 1, 0, "the same with the library"},
    [RATIO] = {"times_faster", "faster", 1, 0,
               "median over the blocks of the first over the second"},
    [LOW] = {"times_faster_q1", "q1", 1, 0, "lower quartile of that"},
    [HIGH] = {"times_faster_q3", "q3", 1, 0, "upper quartile"},
    [BYTES_DENSE] = {"bytes_dense", "bytes", 1, 0, "bytes that a rank sends in a dense call"},
    [SENT] = {"bytes_sent", "sent", 1, 0,
              "bytes that rank 0 sent in a sparse call, the vote included, mean over all"},
    [FEWER] = {"times_fewer", "fewer", 1, 0, "the first over the second"},
    [RESULT] = {"result_density", "of result", 1, 0,
                "share of the sum's entries that are not zero"},
    [DIFFERENCE] = {"largest_difference", NULL, 0, 0,
                    "largest difference of an entry from the dense sum, exact mode"},
};
const struct ss_emit_group bench_group = {"runs", "The table of sparseshim bench", columns,
                                          COLUMNS};

static bool row(void *ctx, size_t i, struct ss_emit_value *v)
{
    const struct bench_cells *cells = ctx;

    if (i >= cells->cells)
        return false;
    const struct bench_cell *c = &cells->cell[i];
    const double known = c->measured ? 1 : (double)NAN;
    v[RANKS] = ss_v_integer(c->ranks);
    v[COUNT] = ss_v_count(strtoull(c->count, NULL, 10));
    v[TYPE] = ss_v_text(cells->asked->is_double ? "double" : "float");
    v[MODE] = ss_v_text(cells->asked->topk ? "topk" : "exact");
    v[DENSITY] = ss_v_text(c->density);
    v[ALGORITHM] = ss_v_text(c->algorithm);
    v[VALUES] = ss_v_text(c->values);
    v[DENSE] = ss_v_number(SS_V_SECONDS, known * c->dense);
    v[OURS] = ss_v_number(SS_V_SECONDS, known * c->ours);
    v[RATIO] = ss_v_number(SS_V_FACTOR, known * c->ratio);
    v[LOW] = ss_v_number(SS_V_FACTOR, known * c->low);
    v[HIGH] = ss_v_number(SS_V_FACTOR, known * c->high);
    v[BYTES_DENSE] = ss_v_number(SS_V_MEAN, known * c->bytes_dense);
    v[SENT] = ss_v_number(SS_V_MEAN, known * c->sent);
    v[FEWER] = ss_v_number(SS_V_FACTOR, known * c->bytes_dense / c->sent);
    v[RESULT] = ss_v_number(SS_V_SHARE, known * c->result);
    v[DIFFERENCE] = ss_v_number(SS_V_FACTOR, known * c->difference);
    return true;
}

static int write_to(void *ctx, const char *text, size_t len)
{
    return fwrite(text, 1, len, ctx) == len ? 0 : -1;
}

static void write_table(const struct bench_cells *cells, enum ss_emit_form form, FILE *out)
{
    static const struct ss_emit_table table = {.key = "runs",
                                               .titles = {"A call, with and without"},
                                               .columns = columns,
                                               .column_count = COLUMNS,
                                               .row = row};
    struct ss_emit emit;

    ss_emit_begin(&emit, form, write_to, out);
    ss_emit_table(&emit, &table, (void *)cells);
    ss_emit_end(&emit);
}

/* A number, or nothing where it is not known. */
static void put(FILE *out, double v, const char *end)
{
    if (isfinite(v))
        fprintf(out, "%.9g", v);
    fputs(end, out);
}

static void write_csv(const struct bench_cells *cells, FILE *out)
{
    for (int i = 0; i < COLUMNS; i++)
        fprintf(out, "%s%s", columns[i].key, i + 1 < COLUMNS ? "," : "\n");
    for (size_t i = 0; i < cells->cells; i++) {
        const struct bench_cell *c = &cells->cell[i];
        const double known = c->measured ? 1 : (double)NAN;
        fprintf(out, "%d,%s,%s,%s,%s,%s,%s,", c->ranks, c->count,
                cells->asked->is_double ? "double" : "float", cells->asked->topk ? "topk" : "exact",
                c->density, c->algorithm, c->values);
        const double values[] = {c->dense,  c->ours,        c->ratio, c->low,
                                 c->high,   c->bytes_dense, c->sent,  c->bytes_dense / c->sent,
                                 c->result, c->difference};
        for (size_t k = 0; k < sizeof values / sizeof *values; k++)
            put(out, known * values[k], k + 1 < sizeof values / sizeof *values ? "," : "\n");
    }
}

static int write_file(const struct bench_cells *cells, const char *path, bool csv)
{
    bool here = strcmp(path, "-") == 0;
    FILE *out = here ? stdout : fopen(path, "w");

    if (out != NULL && csv)
        write_csv(cells, out);
    else if (out != NULL)
        write_table(cells, SS_EMIT_JSON, out);
    bool good = out != NULL && !ferror(out);
    if (out != NULL && !here && fclose(out) != 0)
        good = false;
    if (!good)
        fprintf(stderr, "sparseshim bench: %s cannot be written: %s\n", path, strerror(errno));
    return good ? CLI_OK : CLI_FAILED;
}

int bench_write(const struct bench_cells *cells)
{
    const struct bench_asked *a = cells->asked;
    bool taken = (a->csv != NULL && strcmp(a->csv, "-") == 0) ||
                 (a->json != NULL && strcmp(a->json, "-") == 0);
    int status = CLI_OK;

    if (!taken)
        write_table(cells, SS_EMIT_TEXT, stdout);
    if (a->csv != NULL)
        status = write_file(cells, a->csv, true);
    if (a->json != NULL && status == CLI_OK)
        status = write_file(cells, a->json, false);
    return status;
}

/* ---- plot ---- */

/* k/B as a share. */
static double share_of(const char *density)
{
    const char *slash = strchr(density, '/');
    double v = strtod(density, NULL);

    return slash != NULL ? v / strtod(slash + 1, NULL) : v;
}

static double abscissa(const struct bench_cells *cells, const struct bench_cell *c)
{
    return cells->asked->density.items > 1 ? share_of(c->density) : strtod(c->count, NULL);
}

static int in_order(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* A block of data for each collective, and one of the dense times. */
static void write_data(const struct bench_cells *cells, FILE *out)
{
    const struct bench_asked *a = cells->asked;
    double(*point)[2] = calloc(cells->cells, sizeof *point);

    for (size_t l = 0; point != NULL && l <= a->algorithm.items; l++) {
        bool dense = l == a->algorithm.items;
        size_t n = 0;
        for (size_t i = 0; i < cells->cells; i++) {
            const struct bench_cell *c = &cells->cell[i];
            if (!c->measured || (!dense && c->algorithm != a->algorithm.item[l]))
                continue;
            point[n][0] = abscissa(cells, c);
            point[n++][1] = 1e3 * (dense ? c->dense : c->ours);
        }
        qsort(point, n, sizeof *point, in_order);
        fprintf(out, "$data%zu << END\n", l);
        for (size_t i = 0; i < n; i++)
            fprintf(out, "%.9g %.9g\n", point[i][0], point[i][1]);
        fputs("END\n", out);
    }
    free(point);
}

static void write_plot(const struct bench_cells *cells, FILE *out)
{
    const struct bench_asked *a = cells->asked;
    size_t n = strlen(a->plot);
    bool png = strcmp(a->plot + n - 4, ".png") == 0;

    fprintf(out, "set terminal %s size 800,500 noenhanced\nset output '%s'\n",
            png ? "pngcairo" : "svg", a->plot);
    fprintf(out, "set logscale xy\nset key outside right\nset grid\nset ylabel 'ms a call'\n");
    fprintf(out, "set xlabel '%s'\n", a->density.items > 1 ? "density" : "elements");
    write_data(cells, out);
    fputs("plot ", out);
    for (size_t l = 0; l < a->algorithm.items; l++)
        fprintf(out, "$data%zu using 1:2 with linespoints title '%s', ", l, a->algorithm.item[l]);
    fprintf(out, "$data%zu using 1:2 with points title 'dense'\n", a->algorithm.items);
}

/* Its exit status. */
static int gnuplot(const char *path)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        execlp("gnuplot", "gnuplot", path, (char *)NULL);
        _exit(CLI_NOT_FOUND);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return CLI_CANNOT_RUN;
    return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_CANNOT_RUN;
}

/* Says why there is no plot. Without --csv, writes what it would show beside the plot's file. */
static int keep_data(const struct bench_cells *cells, const char *why)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%.*s.csv", PATH_MAX - 8, cells->asked->plot);
    bool kept = cells->asked->csv == NULL && write_file(cells, path, true) == CLI_OK;
    fprintf(stderr, "sparseshim bench: no plot%s%s%s\n", why,
            kept ? "; what it would show is in " : "", kept ? path : "");
    return CLI_FAILED;
}

int bench_plot(const struct bench_cells *cells, const char *folder)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%.*s/sparseshim-plot", PATH_MAX - 32, folder);
    FILE *out = fopen(path, "w");
    if (out != NULL)
        write_plot(cells, out);
    bool good = out != NULL && !ferror(out);
    if (out != NULL && fclose(out) != 0)
        good = false;
    int status = good ? gnuplot(path) : CLI_CANNOT_RUN;
    if (status == 0)
        return CLI_OK;
    return keep_data(cells, status == CLI_NOT_FOUND ? ": gnuplot is not installed" : "");
}
