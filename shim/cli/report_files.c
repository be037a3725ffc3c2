/* Files and folders of reports, and which of them are of one job. */
#include "shim/cli/report_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shim/cli/cli.h"
#include "shim/cli/job_reports.h"

/* Clocks of hosts differ, and ranks begin and end apart, by less than these seconds. */
static const double APART = 60;

static struct cli_report *read_path(const char *path)
{
    struct cli_report *report = calloc(1, sizeof *report);
    char error[256] = "out of memory";
    size_t length;
    char *text = report != NULL ? cli_slurp(path, &length) : NULL;

    if (text == NULL) {
        fprintf(stderr, "sparseshim report: %s cannot be read: %s\n", path, strerror(errno));
    } else if (cli_report_read(report, text, length, error, sizeof error) != 0) {
        fprintf(stderr, "sparseshim report: %s is no report: %s\n", path, error);
    } else {
        free(text);
        return report;
    }
    free(text);
    free(report);
    return NULL;
}

/* Takes the path. */
static bool add(struct cli_files *files, char *path, int argument, bool folder)
{
    struct cli_file *list = realloc(files->file, (files->n + 1) * sizeof *list);
    struct cli_report *report = path != NULL && list != NULL ? read_path(path) : NULL;

    if (list != NULL)
        files->file = list;
    if (report == NULL) {
        if (path == NULL || list == NULL)
            fprintf(stderr, "sparseshim report: out of memory\n");
        free(path);
        return false;
    }
    list[files->n++] = (struct cli_file){path, argument, folder, report};
    return true;
}

static int by_rank(const void *a, const void *b)
{
    const struct cli_file *x = a, *y = b;
    int p = x->report->job.rank, q = y->report->job.rank;

    return p != q ? (p > q) - (p < q) : strcmp(x->path, y->path);
}

static bool add_folder(struct cli_files *files, const char *path, DIR *folder, int argument)
{
    size_t before = files->n;
    bool good = true, some = false;

    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        char *name;

        if (!cli_is_report(e->d_name))
            continue;
        some = true;
        if (asprintf(&name, "%s/%s", path, e->d_name) < 0)
            name = NULL;
        good &= add(files, name, argument, true);
    }
    if (!some)
        fprintf(stderr,
                "sparseshim report: %s holds no reports (sparseshim-*.json, as SPARSESHIM_REPORT "
                "with SPARSESHIM_REPORT_DIR writes them)\n",
                path);
    if (files->n > before)
        qsort(files->file + before, files->n - before, sizeof *files->file, by_rank);
    return good && some;
}

bool cli_files_read(struct cli_files *files, int n, char **arguments)
{
    bool good = true;

    *files = (struct cli_files){NULL, 0};
    for (int i = 0; i < n; i++) {
        DIR *folder = opendir(arguments[i]);

        if (folder != NULL) {
            good &= add_folder(files, arguments[i], folder, i);
            closedir(folder);
        } else {
            good &= add(files, strdup(arguments[i]), i, false);
        }
    }
    return good;
}

void cli_files_free(struct cli_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        cli_report_free(files->file[i].report);
        free(files->file[i].report);
        free(files->file[i].path);
    }
    free(files->file);
    *files = (struct cli_files){NULL, 0};
}

/* ---- which are of one job ---- */

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* Whether the one had ended when the other began. */
static bool one_after_the_other(const struct cli_report *a, const struct cli_report *b)
{
    double begin = (double)a->job.start_unix, other = (double)b->job.start_unix;

    return begin + (a->stats.end - a->stats.start) + APART < other ||
           other + (b->stats.end - b->stats.start) + APART < begin;
}

bool cli_jobs_differ(const struct cli_report *a, const struct cli_report *b, char *why, size_t size)
{
    const struct ss_report_job *p = &a->job, *q = &b->job;
    char start[2][64];

    if (strcmp(or_empty(p->program), or_empty(q->program)) != 0)
        snprintf(why, size, "they are of two programs, %.60s and %.60s", or_empty(p->program),
                 or_empty(q->program));
    else if (p->ranks != q->ranks)
        snprintf(why, size, "they are of jobs of %d and of %d ranks", p->ranks, q->ranks);
    else if (p->rank == q->rank && p->rank >= 0)
        snprintf(why, size, "both are of rank %d", p->rank);
    else if (strcmp(or_empty(p->version), or_empty(q->version)) != 0)
        snprintf(why, size, "they are of versions %.30s and %.30s of the library",
                 or_empty(p->version), or_empty(q->version));
    else if (one_after_the_other(a, b)) {
        ss_report_date(p->start_unix, start[0], sizeof start[0]);
        ss_report_date(q->start_unix, start[1], sizeof start[1]);
        snprintf(why, size, "they ran one after the other, from %s and from %s", start[0],
                 start[1]);
    } else
        return false;
    return true;
}

bool cli_job_of(struct cli_file *file, size_t n, struct cli_job *job)
{
    char why[256];

    qsort(file, n, sizeof *file, by_rank);
    for (size_t i = 1; i < n; i++)
        for (size_t of = i - 1;; of = 0) { /* the one before, which has its rank if any, and one */
            if (cli_jobs_differ(file[of].report, file[i].report, why, sizeof why)) {
                fprintf(stderr,
                        "sparseshim report: %s and %s are not of one job: %s; name the reports of "
                        "one\n",
                        file[of].path, file[i].path, why);
                return false;
            }
            if (of == 0)
                break;
        }
    *job = (struct cli_job){file, n};
    return true;
}
