/* sparseshim report: prints the JSON report of a job as the text the job itself would print. */
#include "shim/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cli/report_read.h"

static int write_stdout(void *ctx, const char *text, size_t len)
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

static int print_report(const char *path)
{
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
    status = ss_report_write(&report.stats, &report.job, SS_EMIT_TEXT, write_stdout, NULL);
    cli_report_free(&report);
    return status == 0 ? CLI_OK : CLI_NO;
}

int cli_report(int argc, char **argv)
{
    int status = CLI_OK;
    if (argc < 2)
        return cli_usage_error("report", "no file given; usage: sparseshim report FILE ...");
    for (int i = 1; i < argc; i++)
        if (print_report(argv[i]) != CLI_OK)
            status = CLI_NO;
    return status;
}
