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
enum form { TEXT, ALL, JSON, CSV, LEGEND, LEGEND_ROFF };
struct asked {
    enum form form;
    enum cli_csv table;
};

static const struct {
    const char *option;
    struct asked asked;
} forms[] = {
    {"--all", {ALL, 0}},
    {"--json", {JSON, 0}},
    {"--csv", {CSV, CLI_CSV_LANES}},
    {"--csv=lanes", {CSV, CLI_CSV_LANES}},
    {"--csv=tensors", {CSV, CLI_CSV_TENSORS}},
    {"--csv=summary", {CSV, CLI_CSV_SUMMARY}},
    {"--legend", {LEGEND, 0}},
    {"--legend=roff", {LEGEND_ROFF, 0}},
};

static enum ss_emit_form emitted(enum form form)
{
    return form == JSON ? SS_EMIT_JSON : form == ALL ? SS_EMIT_ALL : SS_EMIT_TEXT;
}

static int print_each(const struct asked *asked, const struct cli_files *files)
{
    int status = 0;
    for (size_t i = 0; i < files->n && status == 0; i++) {
        struct cli_report *report = files->file[i].report;
        status = ss_report_write(&report->stats, &report->job, emitted(asked->form),
                                 cli_write_stdout, NULL);
    }
    return status;
}

/* Index of the option, or -1 after saying what is wrong. */
static int form_of(const char *option)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].option, option) == 0)
            return (int)i;
    if (strncmp(option, "--csv=", 6) == 0)
        cli_usage_error("report", "%s is not allowed; the table is lanes, tensors or summary",
                        option);
    else
        cli_usage_error("report", "%s is not allowed; `sparseshim help report` lists what is",
                        option);
    return -1;
}

/* Takes the options; returns the number of arguments up to the first file, or -1. */
static int take_options(struct asked *asked, int argc, char **argv)
{
    const char *before = NULL;
    int at = 1;
    for (; at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0; at++) {
        int form = form_of(argv[at]);
        if (form < 0)
            return -1;
        if (before != NULL && strcmp(before, argv[at]) != 0) {
            cli_usage_error("report", "%s and %s exclude each other", before, argv[at]);
            return -1;
        }
        before = argv[at];
        *asked = forms[form].asked;
    }
    return at + (at < argc && strcmp(argv[at], "--") == 0);
}

static int print(const struct asked *asked, int n, char **arguments)
{
    struct cli_files files;
    bool good = cli_files_read(&files, n, arguments);
    int status =
        asked->form == CSV ? cli_csv_print(asked->table, &files) : print_each(asked, &files);
    cli_files_free(&files);
    return good && status == 0 ? CLI_OK : CLI_NO;
}

int cli_report(int argc, char **argv)
{
    struct asked asked = {TEXT, 0};
    int first = take_options(&asked, argc, argv);
    bool legend = asked.form == LEGEND || asked.form == LEGEND_ROFF;
    if (first < 0)
        return CLI_USAGE;
    if (legend && first < argc)
        return cli_usage_error("report", "--legend takes no file");
    if (!legend && first == argc)
        return cli_usage_error("report", "no file given; usage: sparseshim report FILE ...");
    if (!legend)
        return print(&asked, argc - first, argv + first);
    cli_legend_print(asked.form == LEGEND_ROFF);
    return CLI_OK;
}
