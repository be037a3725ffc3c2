/* sparseshim bench: times the allreduce with and without the library, over lists of counts,
 * densities, collectives and value types. Each combination is one run of a program of its own,
 * started by the launcher that is given; in it blocks of calls with and without alternate. */
#include "shim/cli/bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/cli/cli.h"
#include "shim/cli/job_reports.h"
#include "shim/cli/watched_job.h"

#define LABEL "sparseshim-bench"

struct benching {
    struct bench_asked asked;
    struct bench_cells cells;
    struct cli_job_reports seen;
    char *program;
    char out[PATH_MAX];
    struct bench_cell *now;
    bool interrupted;
    char warm[16], blocks[16], calls[16];
};

/* ---- one run ---- */

static int set(const char *name, const char *value)
{
    return cli_put("bench", name, value, false);
}

/* The rule takes the buffer from its first call on. */
static int set_topk(const struct bench_cell *cell)
{
    char rule[BENCH_NAME + 16];
    int status = set("SPARSESHIM_MODE", "topk");

    snprintf(rule, sizeof rule, "count=%s", cell->count);
    if (status == CLI_OK)
        status = set("SPARSESHIM_REGISTER", rule);
    if (status == CLI_OK)
        status = set("SPARSESHIM_REGISTER_AFTER", "0");
    if (status == CLI_OK)
        status = set("SPARSESHIM_DENSITY", cell->density);
    return status == CLI_OK ? set("SPARSESHIM_VALUE_TYPE", cell->values) : status;
}

static int prepare(void *ctx)
{
    const struct benching *b = ctx;
    int status = set("SPARSESHIM_DISABLE", "off");

    if (status == CLI_OK)
        status = set("SPARSESHIM_MIN_COUNT", "1");
    if (status == CLI_OK)
        status = set("SPARSESHIM_ALGORITHM", b->now->algorithm);
    if (status == CLI_OK)
        status = b->asked.topk ? set_topk(b->now) : set("SPARSESHIM_MODE", "exact");
    if (status == CLI_OK)
        status = cli_job_reports_set(&b->seen);
    if (status == CLI_OK) /* its text is not wanted */
        status = set("SPARSESHIM_DEBUG", "warn");
    if (status == CLI_OK)
        status = cli_set_preload("bench", false);
    return status;
}

static bool never(void *ctx)
{
    (void)ctx;
    return false;
}

/* The launcher, then the program and what it is to measure. Owned; its texts are not. */
static char **command_of(struct benching *b)
{
    const struct bench_cell *cell = b->now;
    char *const own[] = {b->program,
                         "--count",
                         (char *)cell->count,
                         "--density",
                         b->asked.topk ? "1" : (char *)cell->density,
                         "--blocks",
                         b->blocks,
                         "--calls",
                         b->calls,
                         "--warm",
                         b->warm,
                         "--type",
                         b->asked.is_double ? "double" : "float",
                         "--contact",
                         "--csv",
                         LABEL,
                         b->asked.topk ? "--gradient" : NULL,
                         "3",
                         NULL};
    size_t n = 0, mine = 0;

    while (b->asked.launcher[n] != NULL)
        n++;
    char **command = calloc(n + sizeof own / sizeof *own + 1, sizeof *command);
    if (command == NULL)
        return NULL;
    memcpy(command, b->asked.launcher, n * sizeof *command);
    for (; own[mine] != NULL; mine++)
        command[n++] = own[mine];
    return command;
}

/* ---- what it said ---- */

static bool read_line(struct bench_cell *cell, const char *line)
{
    int n = sscanf(line, LABEL ",%d,%*[^,],%*[^,],%lf,%lf,%lf,%*f,%*f,%lf,%lf,%lf,%lf",
                   &cell->ranks, &cell->dense, &cell->ours, &cell->ratio, &cell->result, &cell->low,
                   &cell->high, &cell->difference);

    return n == 8 && cell->ours > 0;
}

/* Bytes that a rank sends in a call that was made sparse, votes included, those of the warm-up too;
 * in a dense one where none was. */
static void take_bytes(struct bench_cell *cell, const struct ss_lane_record *l)
{
    double sparse = 0, dense = (double)l->bytes_dense / (double)l->calls;

    for (int a = 0; a < SS_ALGORITHMS; a++)
        sparse += (double)l->sparse[a];
    cell->bytes_dense = dense;
    cell->sent =
        sparse > 0 ? ((double)l->bytes_sent - dense * ((double)l->calls - sparse)) / sparse : dense;
}

/* Those of rank 0, whose report is not kept where another rank saw the same tensors. */
static void take_report(void *ctx, const struct cli_report *report)
{
    struct benching *b = ctx;

    if (report->job.rank != 0)
        return;
    for (const struct ss_lane_record *l = report->stats.lanes; l; l = l->next)
        if (l->calls > 0 && l->count == strtoull(b->now->count, NULL, 10))
            take_bytes(b->now, l);
}

static void read_bytes(struct benching *b)
{
    b->now->sent = b->now->bytes_dense = (double)NAN;
    b->seen.seen = take_report;
    b->seen.ctx = b;
    cli_job_reports_read(&b->seen);
}

static void show(const char *text)
{
    fputs(text, stderr);
    if (*text != '\0' && text[strlen(text) - 1] != '\n')
        fputc('\n', stderr);
}

/* What the run printed, to be freed; NULL after saying why, where that has not been told. */
static char *output_of(const struct benching *b, bool told)
{
    size_t length;
    char *text = cli_slurp(b->out, &length);
    char *ended = text != NULL ? realloc(text, length + 1) : NULL;

    if (ended == NULL) {
        if (!told)
            fprintf(stderr, "sparseshim bench: %s cannot be read: %s\n", b->out, strerror(errno));
        free(text);
        return NULL;
    }
    ended[length] = '\0';
    return ended;
}

static int read_cell(struct benching *b, int status, enum cli_ending ending)
{
    char *ended = output_of(b, status == CLI_CANNOT_RUN);
    const char *at;

    if (ended == NULL)
        return CLI_FAILED;
    for (at = strstr(ended, LABEL ","); at != NULL && !b->now->measured;
         at = strstr(at + 1, LABEL ","))
        b->now->measured = read_line(b->now, at);
    if (b->asked.topk)
        b->now->difference = (double)NAN;
    if (!b->now->measured || status != 0) {
        fprintf(stderr, "sparseshim bench: %s elements, density %s, %s: %s; it said:\n",
                b->now->count, b->now->density, b->now->algorithm,
                ending == CLI_LATE ? "--limit reached" : "the run failed");
        show(ended);
        status = CLI_FAILED;
    }
    free(ended);
    return status;
}

static int run(struct benching *b)
{
    struct cli_watched_job job = {.verb = "bench",
                                  .command = command_of(b),
                                  .output = b->out,
                                  .limit = b->asked.limit,
                                  .prepare = prepare,
                                  .enough = never,
                                  .ctx = b};
    enum cli_ending ending = CLI_BY_ITSELF;
    int status = CLI_CANNOT_RUN;

    if (job.command != NULL)
        status = cli_watch_job(&job, &ending);
    else
        fprintf(stderr, "sparseshim bench: out of memory\n");
    free(job.command);
    b->interrupted = ending == CLI_INTERRUPTED;
    if (b->interrupted) {
        cli_job_reports_clear(&b->seen);
        return CLI_FAILED;
    }
    bool start = status != CLI_CANNOT_RUN && status != CLI_NOT_FOUND;
    int read = read_cell(b, status, ending);
    if (read == CLI_OK)
        read_bytes(b);
    else
        b->now->measured = false;
    cli_job_reports_clear(&b->seen);
    return start ? read : status;
}

/* ---- all ---- */

static int make_cells(struct benching *b)
{
    const struct bench_asked *a = &b->asked;
    size_t n = a->counts.items * a->density.items * a->algorithm.items * a->values.items;
    size_t i = 0;

    b->cells = (struct bench_cells){a, calloc(n, sizeof(struct bench_cell)), n};
    if (b->cells.cell == NULL) {
        fprintf(stderr, "sparseshim bench: out of memory\n");
        return CLI_CANNOT_RUN;
    }
    for (size_t v = 0; v < a->values.items; v++)
        for (size_t c = 0; c < a->counts.items; c++)
            for (size_t d = 0; d < a->density.items; d++)
                for (size_t l = 0; l < a->algorithm.items; l++)
                    b->cells.cell[i++] = (struct bench_cell){.count = a->counts.item[c],
                                                             .density = a->density.item[d],
                                                             .algorithm = a->algorithm.item[l],
                                                             .values = a->values.item[v]};
    return CLI_OK;
}

static int make_folder(struct benching *b)
{
    char here[PATH_MAX - 64], place[PATH_MAX];

    b->seen.verb = "bench";
    cli_watch_signals();
    bool good = getcwd(here, sizeof here) != NULL;
    if (good)
        snprintf(place, sizeof place, "%s/sparseshim-bench-", here);
    if (!good || !cli_job_reports_make(&b->seen, place)) {
        fprintf(stderr, "sparseshim bench: no directory for the reports can be made here: %s\n",
                strerror(errno));
        return CLI_CANNOT_RUN;
    }
    snprintf(b->out, sizeof b->out, "%.*s/sparseshim-out", PATH_MAX - 32, b->seen.directory);
    return CLI_OK;
}

/* A run that fails costs its row, one that is interrupted also those behind it, one that cannot be
 * started all. */
static int run_all(struct benching *b)
{
    int worst = CLI_OK;

    for (size_t i = 0; i < b->cells.cells && !b->interrupted; i++) {
        b->now = &b->cells.cell[i];
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "sparseshim bench: run %zu of %zu\n", i + 1, b->cells.cells);
        int status = run(b);
        if (status == CLI_CANNOT_RUN || status == CLI_NOT_FOUND)
            return status;
        if (b->interrupted) {
            fprintf(stderr, "sparseshim bench: interrupted in run %zu of %zu\n", i + 1,
                    b->cells.cells);
            b->cells.cells = i;
        }
        worst = status != CLI_OK ? status : worst;
    }
    return worst;
}

static int bench(struct benching *b)
{
    int status = make_cells(b);

    snprintf(b->blocks, sizeof b->blocks, "%d", b->asked.blocks);
    snprintf(b->calls, sizeof b->calls, "%d", b->asked.calls);
    snprintf(b->warm, sizeof b->warm, "%d", b->asked.warm);
    if (status == CLI_OK)
        status = make_folder(b);
    if (status != CLI_OK)
        return status;
    status = run_all(b);
    if (status == CLI_OK || status == CLI_FAILED) {
        int written = bench_write(&b->cells);
        status = written != CLI_OK ? written : status;
    }
    if (status == CLI_OK && b->asked.plot != NULL)
        status = bench_plot(&b->cells, b->seen.directory);
    return status;
}

int cli_bench(int argc, char **argv)
{
    struct benching b = {.program = NULL};
    int status = bench_parse(&b.asked, argc, argv);

    if (status == CLI_OK && (b.program = cli_find_bench()) == NULL) {
        fprintf(stderr, "sparseshim bench: bench_allreduce is not beside libsparseshim.so: make "
                        "bench-build makes it in a source tree, make install installs it\n");
        status = CLI_CANNOT_RUN;
    }
    if (status == CLI_OK)
        status = bench(&b);
    if (b.seen.directory[0] != '\0')
        cli_job_reports_sweep(&b.seen);
    cli_job_reports_forget(&b.seen);
    free(b.cells.cell);
    free(b.program);
    return status;
}
