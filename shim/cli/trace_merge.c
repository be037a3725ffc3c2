/* sparseshim report --trace: the traces of all ranks as one, on one clock. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shim/cli/cli.h"
#include "shim/cli/report_forms.h"
#include "shim/cli/trace_files.h"

/* The events of a rank, with their times anew. */
static uint64_t put_events(FILE *out, const struct trace_files *files, const struct trace_file *f,
                           bool *first)
{
    FILE *in = fopen(f->path, "r");
    struct trace_lines lines = {.file = in};
    const char *number, *end;
    uint64_t events = 0;

    while (in != NULL && cli_trace_next(&lines) != NULL) {
        if (!cli_trace_line(lines.line, &number, &end))
            continue;
        double at = lines.line[7] == 'M' ? 0 : cli_trace_time(files, f, strtod(number, NULL));
        fprintf(out, "%s%.*s%.3f%s", *first ? "" : ",\n", (int)(number - lines.line), lines.line,
                at, end);
        *first = false;
        events += lines.line[7] == 'B';
    }
    free(lines.line);
    if (in != NULL)
        fclose(in);
    return events;
}

static double apart_at_most(const struct trace_files *files)
{
    double most = 0;

    for (size_t i = 0; i < files->n; i++)
        for (int k = 0; k < files->file[i].clocks; k++)
            most = fmax(most, files->file[i].clock[k].uncertainty);
    return most;
}

static void put_json(FILE *out, const char *text)
{
    json_t *string = json_string(text);

    json_dumpf(string, out, JSON_ENCODE_ANY);
    json_decref(string);
}

static uint64_t put_all(FILE *out, const struct trace_files *files)
{
    bool first = true;
    uint64_t spans = 0;

    fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"program\":", out);
    put_json(out, files->file[0].program);
    fprintf(out, ",\"ranks\":%zu,", files->n);
    if (files->measured)
        fprintf(out, "\"clocks\":\"measured\",\"clocks_uncertainty_us\":%.3f},\n",
                apart_at_most(files));
    else
        fputs("\"clocks\":\"those of the hosts\"},\n", out);
    fputs("\"traceEvents\":[\n", out);
    for (size_t i = 0; i < files->n; i++)
        spans += put_events(out, files, &files->file[i], &first);
    fputs("\n]}\n", out);
    return spans;
}

static void tell(const struct trace_files *files, uint64_t spans, const char *path)
{
    fprintf(stderr, "%zu of %d ranks, %llu spans", files->n, files->file[0].ranks,
            (unsigned long long)spans);
    if (files->n > 1 && files->measured)
        fprintf(stderr, ", clocks within %.3g us", apart_at_most(files));
    else if (files->n > 1)
        fprintf(stderr, ", clocks not measured: those of the hosts");
    fprintf(stderr, "%s%s\n", path != NULL ? ": " : "", path != NULL ? path : "");
    for (size_t i = 0; i < files->n; i++) {
        const struct trace_file *f = &files->file[i];

        if (!f->whole)
            fprintf(stderr, "rank %d had not ended: its last spans may be missing or open\n",
                    f->rank);
        if (f->dropped > 0)
            fprintf(stderr, "rank %d lacks at least %llu events\n", f->rank,
                    (unsigned long long)f->dropped);
    }
}

static int merge(const struct trace_files *files, const char *path)
{
    FILE *out = path != NULL ? fopen(path, "w") : stdout;
    uint64_t spans = 0;
    bool good = out != NULL;

    if (good) {
        spans = put_all(out, files);
        good = fflush(out) == 0 && !ferror(out);
    }
    int error = errno;
    if (out != NULL && path != NULL)
        good = fclose(out) == 0 && good;
    if (!good) {
        fprintf(stderr, "sparseshim report: %s cannot be written: %s\n",
                path != NULL ? path : "the output", strerror(error));
        return CLI_NO;
    }
    tell(files, spans, path);
    return CLI_OK;
}

/* "-o FILE" anywhere is taken out of the arguments. False where the name is missing. */
static bool take_output(int *argc, char **argv, const char **path)
{
    int kept = 0;

    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], "-o") != 0) {
            argv[kept++] = argv[i];
            continue;
        }
        if (i + 1 == *argc)
            return false;
        *path = argv[++i];
    }
    *argc = kept;
    return true;
}

static bool is_input(const struct trace_files *files, const char *path)
{
    struct stat out, in;

    if (path == NULL || stat(path, &out) != 0)
        return false;
    for (size_t i = 0; i < files->n; i++)
        if (stat(files->file[i].path, &in) == 0 && in.st_dev == out.st_dev &&
            in.st_ino == out.st_ino)
            return true;
    return false;
}

int cli_trace_report(int argc, char **argv)
{
    struct trace_files files;
    const char *path = NULL;

    if (!take_output(&argc, argv, &path))
        return cli_usage_error("report", "-o takes the name of a file");
    for (int i = 0; i < argc; i++)
        if (argv[i][0] == '-')
            return cli_usage_error("report", "%s is not allowed beside --trace", argv[i]);
    if (argc == 0)
        return cli_usage_error("report", "--trace takes the folder of SPARSESHIM_TRACE, or files "
                                         "from it");
    int status = cli_traces_read(&files, argc, argv);
    if (status == CLI_OK && is_input(&files, path)) {
        fprintf(stderr, "sparseshim report: %s is one of the traces\n", path);
        status = CLI_NO;
    } else if (status == CLI_OK) {
        status = merge(&files, path);
    }
    cli_traces_free(&files);
    return status;
}
