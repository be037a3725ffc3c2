/* Files of traces: which there are, what they say of themselves, and how their clocks go together.
 */
#include "shim/cli/trace_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/cli/cli.h"

/* ---- lines ---- */

bool cli_trace_line(const char *line, const char **number, const char **end)
{
    static const char key[] = ",\"ts\":";
    const char *at = strncmp(line, "{\"ph\":\"", 7) == 0 ? strstr(line, key) : NULL;
    char *behind;

    if (at == NULL || at - line > 9)
        return false;
    *number = at + sizeof key - 1;
    strtod(*number, &behind);
    *end = behind;
    return behind > *number && *behind == ',';
}

char *cli_trace_next(struct trace_lines *lines)
{
    ssize_t n = getline(&lines->line, &lines->size, lines->file);

    while (n > 0 && strchr("\n,", lines->line[n - 1]) != NULL)
        lines->line[--n] = '\0';
    if (n <= 0 || strchr("[]}", lines->line[n - 1]) == NULL)
        return NULL;
    bool cut = strstr(lines->line, ",\"args\":{") != NULL && strcmp(lines->line + n - 2, "}}") != 0;
    return cut ? NULL : lines->line;
}

/* ---- what a trace says of itself ---- */

static bool is_of(const char *line, const char *name)
{
    char key[64];

    snprintf(key, sizeof key, "\"name\":\"%s\"", name);
    return strstr(line, key) != NULL;
}

static char *text_of(const json_t *args, const char *key)
{
    const char *text = json_string_value(json_object_get(args, key));

    return strdup(text != NULL ? text : "");
}

static bool take_labels(struct trace_file *f, const json_t *event, const json_t *args)
{
    f->rank = (int)json_integer_value(json_object_get(event, "pid"));
    f->ranks = (int)json_integer_value(json_object_get(args, "ranks"));
    f->real_time = json_number_value(json_object_get(args, "real_time_us"));
    f->program = text_of(args, "program");
    return f->ranks > 0 && f->real_time > 0 && f->program != NULL;
}

static bool take_clock(struct trace_file *f, const json_t *event, const json_t *args)
{
    if (f->clocks == TRACE_CLOCKS)
        return false;
    f->clock[f->clocks++] = (struct trace_clock){
        json_number_value(json_object_get(event, "ts")),
        json_number_value(json_object_get(args, "offset_us")),
        json_number_value(json_object_get(args, "uncertainty_us")),
    };
    return true;
}

static bool take_dropped(struct trace_file *f, const json_t *args)
{
    uint64_t events = (uint64_t)json_integer_value(json_object_get(args, "events"));

    f->dropped = events > 0 ? events : f->dropped > 0 ? f->dropped : 1;
    return true;
}

/* One of the few lines that are not spans. */
static bool take_note(struct trace_file *f, const char *line)
{
    bool labels = is_of(line, "process_labels"), clock = is_of(line, "clock");
    json_t *event = labels || clock || is_of(line, "dropped") ? json_loads(line, 0, NULL) : NULL;
    const json_t *args = json_object_get(event, "args");
    bool good = !labels && !clock;

    if (labels)
        good = take_labels(f, event, args);
    else if (clock)
        good = take_clock(f, event, args);
    else if (event != NULL)
        good = take_dropped(f, args);
    json_decref(event);
    return good;
}

static bool take_line(struct trace_file *f, const char *line)
{
    const char *number, *end;

    if (strcmp(line, "[") == 0)
        return true;
    f->whole = strcmp(line, "]") == 0;
    if (f->whole)
        return true;
    if (!cli_trace_line(line, &number, &end))
        return false;
    double at = strtod(number, NULL);
    if (line[7] != 'M' && (f->first < 0 || at < f->first))
        f->first = at;
    return line[7] == 'B' || line[7] == 'E' || take_note(f, line);
}

static bool take_all(struct trace_file *f, FILE *file, size_t *at)
{
    struct trace_lines lines = {.file = file};
    bool good = true;

    for (*at = 1; good && cli_trace_next(&lines) != NULL; ++*at)
        good = take_line(f, lines.line);
    free(lines.line);
    return good && f->ranks > 0;
}

/* A trace is read twice, which a pipe is not. NULL with *status set, after saying why. */
static FILE *open_file(const char *path, int *status)
{
    struct stat about = {.st_mode = S_IFREG};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO would wait for a writer */
    int error = fd < 0 ? errno : fstat(fd, &about) != 0 ? errno : 0;
    bool other = error == ENXIO /* a socket */ || (error == 0 && !S_ISREG(about.st_mode));
    FILE *file = error == 0 && !other ? fdopen(fd, "r") : NULL;

    *status = other ? CLI_USAGE : file != NULL ? CLI_OK : CLI_NO;
    if (other)
        cli_usage_error("report", "--trace: %s is neither a file nor a folder", path);
    else if (file == NULL)
        fprintf(stderr, "sparseshim report: %s cannot be read: %s\n", path,
                strerror(error != 0 ? error : errno));
    if (fd >= 0 && file == NULL)
        close(fd);
    return file;
}

static int read_file(struct trace_file *f)
{
    int status;
    size_t line;
    FILE *file = open_file(f->path, &status);

    f->first = -1;
    if (file == NULL)
        return status;
    bool good = take_all(f, file, &line);
    fclose(file);
    if (!good)
        fprintf(stderr,
                "sparseshim report: %s is no trace that SPARSESHIM_TRACE wrote (line %zu)\n",
                f->path, line - 1);
    return good ? CLI_OK : CLI_NO;
}

/* ---- files ---- */

static void free_file(struct trace_file *f)
{
    free(f->path);
    free(f->program);
}

/* Takes the path. */
static int add(struct trace_files *files, char *path)
{
    struct trace_file *list = realloc(files->file, (files->n + 1) * sizeof *list);

    if (list == NULL || path == NULL) {
        fprintf(stderr, "sparseshim report: out of memory\n");
        files->file = list != NULL ? list : files->file;
        free(path);
        return CLI_NO;
    }
    files->file = list;
    list[files->n] = (struct trace_file){.path = path};
    int status = read_file(&list[files->n]);
    if (status == CLI_OK)
        files->n++;
    else
        free_file(&list[files->n]);
    return status;
}

static bool is_trace(const char *name)
{
    size_t n = strlen(name);

    return strncmp(name, "trace-", 6) == 0 && n > 5 && strcmp(name + n - 5, ".json") == 0;
}

static int worse(int a, int b)
{
    return a > b ? a : b;
}

static int add_folder(struct trace_files *files, const char *path, DIR *folder)
{
    int status = CLI_OK;
    bool some = false;

    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        char *name;

        if (!is_trace(e->d_name))
            continue;
        some = true;
        if (asprintf(&name, "%s/%s", path, e->d_name) < 0)
            name = NULL;
        status = worse(status, add(files, name));
    }
    if (!some)
        fprintf(stderr,
                "sparseshim report: %s holds no traces (trace-*.json, as SPARSESHIM_TRACE writes "
                "them)\n",
                path);
    return some ? status : CLI_NO;
}

static int by_rank(const void *a, const void *b)
{
    const struct trace_file *x = a, *y = b;

    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
                              : strcmp(x->path, y->path);
}

static bool are_of_one_job(const struct trace_files *files)
{
    for (size_t i = 1; i < files->n; i++) {
        const struct trace_file *a = &files->file[i - 1], *b = &files->file[i];

        if (a->rank != b->rank && a->ranks == b->ranks && strcmp(a->program, b->program) == 0)
            continue;
        fprintf(stderr,
                "sparseshim report: %s and %s are not of one job (%s, rank %d of %d; %s, rank %d "
                "of %d): name the files of one, or use a folder for each job\n",
                a->path, b->path, a->program, a->rank, a->ranks, b->program, b->rank, b->ranks);
        return false;
    }
    return true;
}

/* ---- clocks ---- */

#define DRIFT_MOST 1e-3 /* of the time that passes; a crystal has less than 1e-4 */

/* Between two measurements, and beyond them, clocks drift evenly; what would be more than any clock
 * drifts is what the measurements do not know. */
static double offset_of(const struct trace_file *f, double at)
{
    const struct trace_clock *a = &f->clock[0], *b = &f->clock[1];

    if (f->clocks < 2)
        return a->offset;
    if (b->at <= a->at || fabs(b->offset - a->offset) > DRIFT_MOST * (b->at - a->at))
        return b->uncertainty < a->uncertainty ? b->offset : a->offset;
    return a->offset + (b->offset - a->offset) * (at - a->at) / (b->at - a->at);
}

double cli_trace_time(const struct trace_files *files, const struct trace_file *file, double at)
{
    double shift =
        files->measured ? offset_of(file, at) : file->real_time - files->file[0].real_time;

    return at + shift - files->zero;
}

static void set_clocks(struct trace_files *files)
{
    double zero = -1;
    bool any = false;

    files->measured = true;
    for (size_t i = 0; i < files->n; i++)
        files->measured &= files->file[i].clocks > 0;
    for (size_t i = 0; i < files->n; i++) {
        double first = cli_trace_time(files, &files->file[i], files->file[i].first);

        if (files->file[i].first >= 0 && (!any || first < zero))
            zero = first;
        any = any || files->file[i].first >= 0;
    }
    files->zero = any ? zero : 0;
}

int cli_traces_read(struct trace_files *files, int n, char **arguments)
{
    int status = CLI_OK;

    *files = (struct trace_files){.file = NULL};
    for (int i = 0; i < n; i++) {
        DIR *folder = opendir(arguments[i]);

        status = worse(status, folder != NULL ? add_folder(files, arguments[i], folder)
                                              : add(files, strdup(arguments[i])));
        if (folder != NULL)
            closedir(folder);
    }
    if (files->n > 0)
        qsort(files->file, files->n, sizeof *files->file, by_rank);
    if (status == CLI_OK && !are_of_one_job(files))
        status = CLI_NO;
    if (status == CLI_OK)
        set_clocks(files);
    return status;
}

void cli_traces_free(struct trace_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        free_file(&files->file[i]);
    free(files->file);
    *files = (struct trace_files){.file = NULL};
}
