#include "shim/cli/job_reports.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/report/tensor_record.h"
#include "shim/cli/cli.h"

static bool same_tensors(const struct cli_report *a, const struct cli_report *b)
{
    const struct ss_tensor_record *s = a->stats.tensors, *t = b->stats.tensors;

    while (s && t && s->count == t->count && s->type == t->type && s->state == t->state &&
           s->reason == t->reason && strcmp(s->comm, t->comm) == 0 &&
           strcmp(s->site, t->site) == 0 && strcmp(s->symbol, t->symbol) == 0) {
        s = s->next;
        t = t->next;
    }
    return !s && !t;
}

void cli_job_reports_forget(struct cli_job_reports *r)
{
    for (size_t i = 0; i < r->reports; i++)
        cli_report_free(&r->report[i]);
    free(r->report);
    r->report = NULL;
    r->reports = r->read = 0;
    r->least_calls = 0;
}

/* Keeps it unless another rank saw the same. */
static bool keep(struct cli_job_reports *r, struct cli_report *report)
{
    uint64_t most = 0;

    for (const struct ss_tensor_record *t = report->stats.tensors; t; t = t->next)
        most = t->calls > most ? t->calls : most;
    if (r->read++ == 0 || most < r->least_calls)
        r->least_calls = most;
    if (r->seen)
        r->seen(r->ctx, report);
    for (size_t i = 0; i < r->reports; i++)
        if (same_tensors(&r->report[i], report)) {
            cli_report_free(report);
            return true;
        }
    struct cli_report *list = realloc(r->report, (r->reports + 1) * sizeof *list);
    if (list == NULL) {
        cli_report_free(report);
        return false;
    }
    r->report = list;
    list[r->reports++] = *report;
    return true;
}

static bool read_one(struct cli_job_reports *r, const char *name)
{
    char path[PATH_MAX + 256], error[256];
    struct cli_report report;
    size_t length;

    snprintf(path, sizeof path, "%s/%s", r->directory, name);
    char *text = cli_slurp(path, &length);
    if (text == NULL)
        return errno == ENOENT;
    int status = cli_report_read(&report, text, length, error, sizeof error);
    free(text);
    if (status != 0) {
        fprintf(stderr, "sparseshim %s: %s is no report: %s\n", r->verb, path, error);
        return false;
    }
    return keep(r, &report);
}

bool cli_is_report(const char *name)
{
    size_t n = strlen(name);

    return strncmp(name, "sparseshim-", 11) == 0 && n > 5 && strcmp(name + n - 5, ".json") == 0;
}

bool cli_job_reports_read(struct cli_job_reports *r)
{
    DIR *directory = opendir(r->directory);
    bool good = directory != NULL;

    cli_job_reports_forget(r);
    for (struct dirent *e; good && (e = readdir(directory)) != NULL;)
        if (cli_is_report(e->d_name))
            good = read_one(r, e->d_name);
    if (directory != NULL)
        closedir(directory);
    return good;
}

bool cli_job_reports_all(const struct cli_job_reports *r)
{
    return r->reports > 0 && r->read >= (size_t)r->report[0].job.ranks;
}

void cli_job_reports_clear(const struct cli_job_reports *r)
{
    DIR *directory = opendir(r->directory);

    if (directory == NULL)
        return;
    for (struct dirent *e; (e = readdir(directory)) != NULL;)
        if (strncmp(e->d_name, "sparseshim-", 11) == 0 ||
            strncmp(e->d_name, ".sparseshim-", 12) == 0)
            unlinkat(dirfd(directory), e->d_name, 0);
    closedir(directory);
}

void cli_job_reports_sweep(const struct cli_job_reports *r)
{
    cli_job_reports_clear(r);
    rmdir(r->directory);
}

bool cli_job_reports_make(struct cli_job_reports *r, const char *place)
{
    int n = snprintf(r->directory, sizeof r->directory, "%sXXXXXX", place);

    if (n < 0 || (size_t)n >= sizeof r->directory) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mkdtemp(r->directory) != NULL;
}

int cli_job_reports_set(const struct cli_job_reports *r)
{
    char pattern[2 * PATH_MAX];
    char *to = pattern;
    int status = cli_put(r->verb, "SPARSESHIM_REPORT", "all", false);

    for (const char *c = r->directory; *c != '\0'; c++) {
        if (*c == '%') /* which begins a word of the pattern */
            *to++ = '%';
        *to++ = *c;
    }
    *to = '\0';
    return status == CLI_OK ? cli_put(r->verb, "SPARSESHIM_REPORT_DIR", pattern, false) : status;
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
