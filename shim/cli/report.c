/* sparseshim report: what reports of jobs say, as text and in other forms. */
#include "shim/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cli/report_forms.h"

int cli_write_stdout(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    return fwrite(text, 1, len, stdout) == len ? 0 : -1;
}

char *cli_slurp(const char *path, size_t *len)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    size_t used = 0;
    if (file == NULL)
        return NULL;
    for (;;) {
        if (used == size) {
            size = size > 0 ? 2 * size : 65536;
            char *larger = realloc(text, size);
            if (larger == NULL)
                goto fail;
            text = larger;
        }
        errno = 0;
        size_t n = fread(text + used, 1, size - used, file);
        used += n;
        if (n == 0)
            break;
    }
    if (ferror(file))
        goto fail;
    fclose(file);
    *len = used;
    return text;
fail:;
    int error = errno;
    fclose(file);
    free(text);
    errno = error;
    return NULL;
}

/* What the arguments ask for. */
enum form { TEXT, ALL, JSON, CSV, HTML, LEGEND, LEGEND_ROFF };
enum how { AS_FITS, MERGE, COMPARE };
struct asked {
    enum form form;
    enum cli_csv table;
    enum how how;
};

static const struct option {
    const char *name;
    bool is_form;
    struct asked asked;
} options[] = {
    {"--all", true, {ALL, 0, 0}},
    {"--json", true, {JSON, 0, 0}},
    {"--csv", true, {CSV, CLI_CSV_LANES, 0}},
    {"--csv=lanes", true, {CSV, CLI_CSV_LANES, 0}},
    {"--csv=tensors", true, {CSV, CLI_CSV_TENSORS, 0}},
    {"--csv=summary", true, {CSV, CLI_CSV_SUMMARY, 0}},
    {"--csv=series", true, {CSV, CLI_CSV_SERIES, 0}},
    {"--html", true, {HTML, 0, 0}},
    {"--legend", true, {LEGEND, 0, 0}},
    {"--legend=roff", true, {LEGEND_ROFF, 0, 0}},
    {"--merge", false, {0, 0, MERGE}},
    {"--compare", false, {0, 0, COMPARE}},
};

static enum ss_emit_form emitted(enum form form)
{
    return form == JSON ? SS_EMIT_JSON : form == ALL ? SS_EMIT_ALL : SS_EMIT_TEXT;
}

/* Ranks of one job by themselves, which whoever names them may rather want in one. */
static void tell_one_job(const struct cli_files *files)
{
    char why[256];
    size_t n = files->n;
    for (size_t i = 1; i < n; i++)
        for (size_t of = 0; of < i; of++)
            if (cli_jobs_differ(files->file[of].report, files->file[i].report, why, sizeof why))
                return;
    if (n > 1)
        fprintf(stderr,
                "sparseshim report: these are %zu ranks of one job, one after the other; --merge "
                "puts them in one\n",
                n);
}

static int print_each(const struct asked *asked, const struct cli_files *files)
{
    int status = 0;
    if (asked->form == CSV)
        return cli_csv_print(asked->table, files);
    tell_one_job(files);
    for (size_t i = 0; i < files->n && status == 0; i++) {
        struct cli_report *report = files->file[i].report;
        status = ss_report_write(&report->stats, &report->job, emitted(asked->form),
                                 cli_write_stdout, NULL);
    }
    return status;
}

static int print_merged(const struct asked *asked, const struct cli_files *files)
{
    struct cli_job job;
    if (!cli_job_of(files->file, files->n, &job))
        return -1;
    if (asked->form == HTML)
        return cli_html_print(&job);
    return cli_merge_write(&job, emitted(asked->form), cli_write_stdout, NULL);
}

/* Reports of the first argument; the others are of the second. */
static size_t of_first(const struct cli_files *files)
{
    size_t n = 0;
    while (n < files->n && files->file[n].argument == 0)
        n++;
    return n;
}

static int print_compared(const struct asked *asked, const struct cli_files *files)
{
    size_t n = of_first(files);
    struct cli_job a, b;
    if (!cli_job_of(files->file, n, &a) || !cli_job_of(files->file + n, files->n - n, &b))
        return -1;
    return cli_compare_write(&a, &b, emitted(asked->form), cli_write_stdout, NULL);
}

static bool same_program(const struct cli_files *files, size_t second)
{
    const char *a = files->file[0].report->job.program;
    const char *b = files->file[second].report->job.program;

    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

/* Two arguments of two jobs of one program are compared, a folder is merged, and otherwise one
 * report follows the other. */
static enum how what_fits(const struct asked *asked, const struct cli_files *files, int arguments)
{
    size_t second = of_first(files);
    char why[256];
    if (asked->how != AS_FITS || asked->form == CSV)
        return asked->how;
    if (asked->form == HTML)
        return MERGE;
    if (arguments == 1 && files->n > 1 && files->file[0].folder)
        return MERGE;
    if (arguments == 2 && second > 0 && second < files->n && same_program(files, second) &&
        cli_jobs_differ(files->file[0].report, files->file[second].report, why, sizeof why))
        return COMPARE;
    return AS_FITS;
}

static const struct option *option_of(const char *name)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    if (strncmp(name, "--csv=", 6) == 0)
        cli_usage_error("report",
                        "%s is not allowed; the table is lanes, tensors, series or summary", name);
    else
        cli_usage_error("report", "%s is not allowed; `sparseshim help report` lists what is",
                        name);
    return NULL;
}

static bool take(struct asked *asked, const char *before[2], const char *argument)
{
    const struct option *option = option_of(argument);
    if (option == NULL)
        return false;
    const char **former = &before[option->is_form];
    if (*former != NULL && strcmp(*former, argument) != 0) {
        cli_usage_error("report", "%s and %s exclude each other", *former, argument);
        return false;
    }
    *former = argument;
    if (option->is_form) {
        asked->form = option->asked.form;
        asked->table = option->asked.table;
    } else {
        asked->how = option->asked.how;
    }
    return true;
}

/* Takes the options; returns the number of arguments up to the first file, or -1. */
static int take_options(struct asked *asked, int argc, char **argv)
{
    const char *before[2] = {NULL, NULL};
    int at = 1;
    for (; at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0; at++)
        if (!take(asked, before, argv[at]))
            return -1;
    return at + (at < argc && strcmp(argv[at], "--") == 0);
}

static int print(const struct asked *asked, int n, char **arguments)
{
    struct cli_files files;
    bool good = cli_files_read(&files, n, arguments);
    enum how how = what_fits(asked, &files, n);
    int status = -1;
    if (how == AS_FITS)
        status = print_each(asked, &files);
    else if (good) /* a job of which a part cannot be read is none */
        status = how == MERGE ? print_merged(asked, &files) : print_compared(asked, &files);
    cli_files_free(&files);
    return good && status == 0 ? CLI_OK : CLI_NO;
}

int cli_report(int argc, char **argv)
{
    static const char trace[] = "--trace=";
    if (argc > 1 && strcmp(argv[1], "--trace") == 0)
        return cli_trace_report(argc - 2, argv + 2);
    if (argc > 1 && strncmp(argv[1], trace, sizeof trace - 1) == 0) {
        argv[1] += sizeof trace - 1;
        return cli_trace_report(argc - 1, argv + 1);
    }
    struct asked asked = {TEXT, 0, AS_FITS};
    int first = take_options(&asked, argc, argv), files = argc - first;
    bool legend = asked.form == LEGEND || asked.form == LEGEND_ROFF;
    if (first < 0)
        return CLI_USAGE;
    if (legend && (files > 0 || asked.how != AS_FITS))
        return cli_usage_error("report", "--legend takes nothing else");
    if (!legend && files == 0)
        return cli_usage_error("report", "no file given; usage: sparseshim report FILE ...");
    if (asked.how == COMPARE && files != 2)
        return cli_usage_error("report", "--compare takes two files or folders, not %d", files);
    if (asked.form == HTML && asked.how == COMPARE)
        return cli_usage_error("report", "--html is of one job: leave out --compare");
    if (asked.form == CSV && asked.how != AS_FITS)
        return cli_usage_error("report", "--csv has a row for each report: leave out --merge and "
                                         "--compare, or use --json");
    if (!legend)
        return print(&asked, files, argv + first);
    cli_legend_print(asked.form == LEGEND_ROFF);
    return CLI_OK;
}
