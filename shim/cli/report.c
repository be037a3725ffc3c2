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
struct asked {
    bool all, legend, roff;
};

static int print_report(const struct asked *asked, const char *path)
{
    enum ss_emit_form form = asked->all ? SS_EMIT_ALL : SS_EMIT_TEXT;
    struct cli_report report;
    char error[256];
    size_t len;
    char *text = cli_slurp(path, &len);
    if (text == NULL) {
        fprintf(stderr, "sparseshim report: %s cannot be read: %s\n", path, strerror(errno));
        return CLI_NO;
    }
    int status = cli_report_read(&report, text, len, error, sizeof error);
    free(text);
    if (status != 0) {
        fprintf(stderr, "sparseshim report: %s is no report: %s\n", path, error);
        return CLI_NO;
    }
    status = ss_report_write(&report.stats, &report.job, form, cli_write_stdout, NULL);
    cli_report_free(&report);
    return status == 0 ? CLI_OK : CLI_NO;
}

static bool take_option(struct asked *asked, const char *option)
{
    if (strcmp(option, "--all") == 0)
        asked->all = true;
    else if (strcmp(option, "--legend") == 0)
        asked->legend = true;
    else if (strcmp(option, "--legend=roff") == 0)
        asked->legend = asked->roff = true;
    else
        return false;
    return true;
}

int cli_report(int argc, char **argv)
{
    struct asked asked = {.all = false};
    int status = CLI_OK, first = 1;
    for (; first < argc && argv[first][0] == '-' && argv[first][1] != '\0'; first++)
        if (!take_option(&asked, argv[first]))
            return cli_usage_error("report",
                                   "%s is not allowed; `sparseshim help report` lists "
                                   "what is",
                                   argv[first]);
    if (asked.legend)
        cli_legend_print(asked.roff);
    else if (first == argc)
        return cli_usage_error("report", "no file given; usage: sparseshim report FILE ...");
    for (int i = first; i < argc; i++)
        if (print_report(&asked, argv[i]) != CLI_OK)
            status = CLI_NO;
    return status;
}
