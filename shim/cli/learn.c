/* sparseshim learn: runs a job under MODE=topk with an empty REGISTER, which makes nothing lossy,
 * and writes what its reports say into a configuration file. */
#include "shim/cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "core/report/tensor_record.h"
#include "shim/cli/job_reports.h"
#include "shim/cli/learn_rules.h"
#include "shim/cli/watched_job.h"

static const char first_line[] = "# Written by sparseshim learn";

struct learning {
    const char *out; /* as asked, or NULL */
    uint64_t steps;  /* 0: to the end of the job */
    char **command;  /* ends in NULL */
    bool raises;     /* PROGRESS=watchdog is of learn itself */
    struct cli_job_reports seen;
};

/* ---- the job ---- */

/* Sets PROGRESS=watchdog, without which nonblocking calls of most programs are not seen, unless the
 * user or the site has set PROGRESS. */
static int set_progress(struct learning *l)
{
    struct cfg *cfg = cfg_load();
    struct cfg_row row;

    l->raises = cfg != NULL && cfg_row(cfg, cfg_find("PROGRESS"), &row) &&
                row.source == CFG_FROM_DEFAULT && row.locked == NULL;
    cfg_free(cfg);
    return l->raises ? cli_put("learn", "SPARSESHIM_PROGRESS", "watchdog", false) : CLI_OK;
}

static int prepare(struct learning *l)
{
    static const char *const settings[][2] = {
        {"SPARSESHIM_DISABLE", "off"}, {"SPARSESHIM_MODE", "topk"}, {"SPARSESHIM_REGISTER", ""}};
    char here[PATH_MAX - 32], place[PATH_MAX];
    int status = CLI_OK;

    l->seen.verb = "learn";
    cli_watch_signals();
    bool good = getcwd(here, sizeof here) != NULL;
    if (good)
        snprintf(place, sizeof place, "%s/sparseshim-learn-", here);
    if (!good || !cli_job_reports_make(&l->seen, place)) {
        fprintf(stderr, "sparseshim learn: no directory for the reports can be made here: %s\n",
                strerror(errno));
        return CLI_FAILED;
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings && status == CLI_OK; i++)
        status = cli_put("learn", settings[i][0], settings[i][1], false);
    if (status == CLI_OK)
        status = set_progress(l);
    if (status == CLI_OK)
        status = cli_job_reports_set(&l->seen);
    return status == CLI_OK ? cli_set_preload("learn", false) : status;
}

/* Every rank has noted enough; all ranks have noted something. */
static bool seen_enough(void *ctx)
{
    struct learning *l = ctx;

    return l->steps > 0 && cli_job_reports_read(&l->seen) && cli_job_reports_all(&l->seen) &&
           l->seen.least_calls >= l->steps;
}

static int run_job(struct learning *l)
{
    const struct cli_watched_job job = {
        .verb = "learn", .command = l->command, .enough = seen_enough, .ctx = l};
    enum cli_ending ending;

    return cli_watch_job(&job, &ending);
}

/* ---- the file ---- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n > m && strcmp(text + n - m, end) == 0;
}

/* What the file is named after: the program, or the script or module that Python runs. */
static void name_of(const struct learning *l, char *name, size_t size)
{
    const char *program = l->seen.report[0].job.program;

    if (program == NULL)
        program = "program";
    snprintf(name, size, "%s", base_of(program));
    if (strncmp(name, "python", 6) != 0)
        return;
    for (char **a = l->command; *a != NULL; a++)
        if (ends_in(*a, ".py")) {
            snprintf(name, size, "%.*s", (int)strlen(base_of(*a)) - 3, base_of(*a));
            return;
        } else if (strcmp(*a, "-m") == 0 && a[1] != NULL) {
            snprintf(name, size, "%s", a[1]);
            return;
        }
}

/* PROGRESS=auto with a REGISTER does what watchdog does. */
static bool belongs_here(const struct learning *l, const struct cfg_row *row)
{
    return row->shared && strcmp(row->name, "MODE") != 0 && strcmp(row->name, "REGISTER") != 0 &&
           strcmp(row->name, "DENSITY") != 0 && !(l->raises && strcmp(row->name, "PROGRESS") == 0);
}

static void write_option(FILE *out, const struct cfg *cfg, const char *name, const char *value)
{
    struct cfg_row row;
    char line[8192];

    if (!cfg_row(cfg, cfg_find(name), &row))
        return;
    row.value = value;
    cfg_file_line(line, sizeof line, &row);
    fprintf(out, "%s\n", line);
}

/* The options of the job that all ranks must agree on, since what was learned holds under them. */
static void write_options(FILE *out, const struct cfg *cfg, const struct learning *l)
{
    const struct ss_report_job *job = &l->seen.report[0].job;
    const char *density = NULL;
    struct cfg_row row;

    for (size_t i = 0; i < job->option_count; i++)
        if (strcmp(job->options[i].name, "DENSITY") == 0)
            density = job->options[i].value;
    if (density == NULL && cfg_row(cfg, cfg_find("DENSITY"), &row))
        density = row.standard;
    write_option(out, cfg, "MODE", "topk");
    write_option(out, cfg, "DENSITY", density);
    for (size_t i = 0; i < job->option_count; i++)
        if (cfg_row(cfg, cfg_find(job->options[i].name), &row) && belongs_here(l, &row))
            write_option(out, cfg, row.name, job->options[i].value);
}

static void write_rules(FILE *out, const struct cfg *cfg, const struct cli_learned *learned)
{
    char rules[CLI_LONGEST_RULES + 1] = "";
    size_t used = 0;

    for (size_t i = 0; i < learned->rules; i++)
        if (used + strlen(learned->rule[i]) + 2 > CLI_LONGEST_RULES)
            fprintf(out, "# no room on the line for: %s\n", learned->rule[i]);
        else
            used += (size_t)snprintf(rules + used, sizeof rules - used, "%s%s",
                                     used > 0 ? "; " : "", learned->rule[i]);
    write_option(out, cfg, "REGISTER", rules);
}

static void write_refused(FILE *out, const struct cli_reports *reports,
                          const struct cli_learned *learned)
{
    static const struct {
        enum cli_verdict verdict;
        const char *head;
    } rest[] = {{CLI_GRADIENT, "# Stays exact, since a rule would take others as well:\n"},
                {CLI_REFUSED, "# Refused, stays exact:\n"},
                {CLI_UNTOUCHED, "# Stays exact whatever the rules say:\n"},
                {CLI_UNDECIDED, "# Not decided in this run:\n"}};

    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (cli_learned_tell(NULL, "", reports, learned, rest[i].verdict, false) > 0) {
            fprintf(out, "\n%s", rest[i].head);
            cli_learned_tell(out, "#   ", reports, learned, rest[i].verdict, false);
        }
}

static int write_profile(FILE *out, const struct learning *l, const struct cfg *cfg,
                         const struct cli_learned *learned)
{
    const struct cli_reports reports = {l->seen.report, l->seen.reports};
    const struct ss_report_job *job = &l->seen.report[0].job;
    char day[32] = "";
    time_t at = (time_t)job->start_unix;

    strftime(day, sizeof day, "%Y-%m-%d", gmtime(&at));
    fprintf(out, "%s from a run of %s on %d ranks, %s.\n", first_line,
            job->program != NULL ? job->program : "a program", job->ranks, day);
    fprintf(out,
            "# Use: SPARSESHIM_CONFIG=FILE; or put it into ~/.config/sparseshim/NAME.conf and\n"
            "# use SPARSESHIM_CONFIG=@NAME.\n");
    write_options(out, cfg, l);
    fputs("\n# What looks like a gradient:\n", out);
    cli_learned_tell(out, "#   ", &reports, learned, CLI_GRADIENT, true);
    write_rules(out, cfg, learned);
    write_refused(out, &reports, learned);
    return ferror(out) ? -1 : 0;
}

/* Whether a file may be written there: it is not, or was written by this verb. */
static bool may_write(const char *path)
{
    size_t length;
    char *text = cli_slurp(path, &length);

    if (text == NULL)
        return errno == ENOENT;
    bool ours =
        length >= sizeof first_line - 1 && memcmp(text, first_line, sizeof first_line - 1) == 0;
    free(text);
    return ours;
}

static int save(const struct learning *l, const struct cfg *cfg, const struct cli_learned *learned,
                const char *path)
{
    char draft[PATH_MAX + 8];

    if (!may_write(path)) {
        fprintf(stderr,
                "sparseshim learn: %s is there already, and not of this command's making; --out "
                "names another file. What it would hold:\n",
                path);
        write_profile(stdout, l, cfg, learned);
        return CLI_FAILED;
    }
    snprintf(draft, sizeof draft, "%s.new", path);
    FILE *out = fopen(draft, "w");
    int status = out != NULL ? write_profile(out, l, cfg, learned) : -1;
    if (out != NULL && fclose(out) != 0)
        status = -1;
    if (status == 0 && rename(draft, path) == 0)
        return CLI_OK;
    fprintf(stderr, "sparseshim learn: %s cannot be written: %s. What it would hold:\n", path,
            strerror(errno));
    write_profile(stdout, l, cfg, learned);
    return CLI_FAILED;
}

/* ---- the verb ---- */

static void tell_nothing(const struct learning *l, const struct cli_learned *learned)
{
    const struct cli_reports reports = {l->seen.report, l->seen.reports};
    static const enum cli_verdict all[] = {CLI_GRADIENT, CLI_REFUSED, CLI_UNDECIDED, CLI_UNTOUCHED};

    fprintf(stderr, "sparseshim learn: nothing looked like a gradient, so nothing was written\n");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cli_learned_tell(stderr, "  ", &reports, learned, all[i], false);
    for (size_t i = 0; l->seen.reports > 0 && i < l->seen.report[0].job.note_count; i++)
        fprintf(stderr, "  %s\n", l->seen.report[0].job.notes[i]);
    if (l->seen.reports == 0)
        fprintf(stderr,
                "  no rank wrote a report: was it an MPI program that calls MPI_Init, and "
                "do its hosts see %s?\n",
                l->seen.directory);
}

static int conclude(const struct learning *l, const struct cfg *cfg,
                    const struct cli_learned *learned)
{
    const struct cli_reports reports = {l->seen.report, l->seen.reports};
    char name[256], path[300];

    if (learned->rules == 0) {
        tell_nothing(l, learned);
        return CLI_NO;
    }
    if (l->seen.read < (size_t)l->seen.report[0].job.ranks)
        fprintf(stderr,
                "sparseshim learn: %zu of %d ranks have left a report; what the others saw does "
                "not count\n",
                l->seen.read, l->seen.report[0].job.ranks);
    if (l->out != NULL && strcmp(l->out, "-") == 0)
        return write_profile(stdout, l, cfg, learned) == 0 ? CLI_OK : CLI_FAILED;
    name_of(l, name, sizeof name);
    snprintf(path, sizeof path, "./%s.conf", name);
    const char *file = l->out != NULL ? l->out : path;
    int status = save(l, cfg, learned, file);
    size_t tensors = cli_learned_tell(NULL, "", &reports, learned, CLI_GRADIENT, true);
    if (status == CLI_OK)
        printf("sparseshim learn: %s: %zu rule%s for %zu tensor%s that look%s like a gradient; %zu "
               "refused, %zu not decided\nuse it: SPARSESHIM_CONFIG=%s\n",
               file, learned->rules, learned->rules > 1 ? "s" : "", tensors, tensors > 1 ? "s" : "",
               tensors > 1 ? "" : "s",
               cli_learned_tell(NULL, "", &reports, learned, CLI_REFUSED, false),
               cli_learned_tell(NULL, "", &reports, learned, CLI_UNDECIDED, false), file);
    return status;
}

static int learn(struct learning *l, const struct cfg *cfg)
{
    struct cli_learned learned = {.rules = 0};
    int status = prepare(l);
    int ended = status == CLI_OK ? run_job(l) : 0;

    if (status == CLI_OK && ended != CLI_CANNOT_RUN && ended != CLI_NOT_FOUND) {
        const bool good = cli_job_reports_read(&l->seen);
        const struct cli_reports reports = {l->seen.report, l->seen.reports};
        if (!good || cli_learn(&reports, &learned) != SS_OK)
            status = CLI_FAILED;
        else
            status = conclude(l, cfg, &learned);
        if (ended != 0) {
            fprintf(stderr, "sparseshim learn: the command ended with status %d\n", ended);
            status = CLI_FAILED;
        }
    } else if (status == CLI_OK) {
        status = ended;
    }
    cli_learned_free(&learned);
    cli_job_reports_forget(&l->seen);
    cli_job_reports_sweep(&l->seen);
    return status;
}

enum own { STEPS, OUT, OWN };
static const char *const own_names[OWN] = {[STEPS] = "--steps", [OUT] = "--out"};

static int take_own(struct learning *l, enum own which, const char *text)
{
    char *end;

    if (which == OUT) {
        l->out = text;
        return *text != '\0' ? CLI_OK : cli_usage_error("learn", "--out takes a file, or -");
    }
    l->steps = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || l->steps == 0)
        return cli_usage_error("learn", "--steps takes a number of calls, 1 or more");
    return CLI_OK;
}

/* What learn sets itself is not for its user to set. */
static int option_of_library(const struct cfg *cfg, const char *argument)
{
    static const char *const set[] = {"--mode=", "--register=", "--report=", "--report",
                                      "--disable="};

    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (strncmp(argument, set[i], strlen(set[i])) == 0)
            return cli_usage_error("learn", "%s is what learn sets itself", argument);
    if (strncmp(argument, "--", 2) == 0)
        return cli_set_option("learn", cfg, argument + 2, false);
    return cli_usage_error("learn",
                           "%s is not known; allowed are --steps N, --out FILE and "
                           "--OPTION=VALUE",
                           argument);
}

struct parsing {
    struct learning *learning;
    struct cfg *cfg;
};

static int take(void *ctx, int argc, char **argv, int *at)
{
    const struct parsing *p = ctx;
    const char *value;
    int own = cli_own_option("learn", own_names, OWN, argc, argv, at, &value);

    if (own >= 0)
        return value != NULL ? take_own(p->learning, (enum own)own, value) : CLI_USAGE;
    return option_of_library(p->cfg, argv[*at]);
}

int cli_learn_verb(int argc, char **argv)
{
    struct learning l = {.steps = 0};
    struct parsing p = {&l, cfg_load()};
    int first;

    if (p.cfg == NULL) {
        fprintf(stderr, "sparseshim learn: out of memory\n");
        return CLI_CANNOT_RUN;
    }
    int status = cli_options(argc, argv, take, &p, &first);
    if (status == CLI_OK && first >= argc)
        status = cli_usage_error("learn", "no command given; usage: sparseshim learn [--steps N] "
                                          "[--out FILE] [--OPTION=VALUE ...] [--] COMMAND "
                                          "[ARGUMENT ...]");
    l.command = argv + first;
    if (status == CLI_OK)
        status = cli_site_allows("learn", "MODE", "topk") ? learn(&l, p.cfg) : CLI_CANNOT_RUN;
    cfg_free(p.cfg);
    return status;
}
