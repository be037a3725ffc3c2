/* sparseshim try: runs a job without the library's help, watched, exact and top-k, each in a copy
 * of the folder it works in, and says what each would bring. */
#include "shim/cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "shim/cli/try_folder.h"
#include "shim/cli/try_table.h"

#ifndef SPARSESHIM_VERSION
#define SPARSESHIM_VERSION "unknown"
#endif

#define OFF_MIN_COUNT "1e18" /* no call has as many elements */

enum { LIMIT = 600 /* seconds */, COPY_LIMIT = 4 /* GiB */, TAIL = 15 /* lines */ };

struct trying {
    uint64_t steps;    /* 0: to the end of the job */
    unsigned limit;    /* seconds a trial may take */
    double copy_limit; /* GiB */
    const char *cwd;   /* NULL: the current folder */
    bool here, keep;
    const char *rules; /* REGISTER as it is set; NULL: auto */
    char **command;    /* ends in NULL */
    char **options;    /* NAME=VALUE, as given; owned list of borrowed texts */
    size_t option_count;

    struct trial_folder folder;
    struct trial trial[TRIAL_FORMS];
    double calls_per_step;

    /* The trial in hand. */
    struct trial *now;
    char work[PATH_MAX];
    char log[PATH_MAX];
};

/* ---- one trial ---- */

static int put_all(const char *const (*settings)[2])
{
    int status = CLI_OK;

    for (; (*settings)[0] != NULL && status == CLI_OK; settings++)
        status = cli_put("try", (*settings)[0], (*settings)[1], false);
    return status;
}

/* Off: the library counts calls and hands all of them on, so that there is a time to compare with.
 */
static int put_form(const struct trying *y, enum trial_form form)
{
    static const char *const off[][2] = {{"SPARSESHIM_MODE", "exact"},
                                         {"SPARSESHIM_MIN_COUNT", OFF_MIN_COUNT},
                                         {"SPARSESHIM_PROGRESS", "off"},
                                         {"SPARSESHIM_REGISTER", ""},
                                         {NULL, NULL}};
    static const char *const observe[][2] = {
        {"SPARSESHIM_MODE", "observe"}, {"SPARSESHIM_REGISTER", ""}, {NULL, NULL}};
    static const char *const exact[][2] = {
        {"SPARSESHIM_MODE", "exact"}, {"SPARSESHIM_REGISTER", ""}, {NULL, NULL}};
    const char *const topk[][2] = {{"SPARSESHIM_MODE", "topk"},
                                   {"SPARSESHIM_REGISTER", y->rules != NULL ? y->rules : "auto"},
                                   {NULL, NULL}};
    const char *const(*const settings[TRIAL_FORMS])[2] = {
        [TRIAL_OFF] = off, [TRIAL_OBSERVE] = observe, [TRIAL_EXACT] = exact, [TRIAL_TOPK] = topk};

    return put_all(settings[form]);
}

static int move_in(const struct trying *y)
{
    if (chdir(y->work) != 0) {
        fprintf(stderr, "sparseshim try: %s: %s\n", y->work, strerror(errno));
        return CLI_CANNOT_RUN;
    }
    return cli_put("try", "PWD", y->work, false); /* launchers start the ranks there */
}

static int prepare(void *ctx)
{
    const struct trying *y = ctx;
    int status = cli_put("try", "SPARSESHIM_DISABLE", "off", false);

    if (status == CLI_OK)
        status = put_form(y, y->now->form);
    if (status == CLI_OK)
        status = cli_job_reports_set(&y->now->seen);
    if (status == CLI_OK)
        status = cli_set_preload("try", false);
    return status == CLI_OK ? move_in(y) : status;
}

/* Top-k comes first, and tells how many calls a step has. */
static bool enough(void *ctx)
{
    struct trying *y = ctx;

    if (!trial_read(y->now) || y->steps == 0 || !cli_job_reports_all(&y->now->seen))
        return false;
    if (y->now->form == TRIAL_TOPK)
        return y->now->seen.least_calls >= y->steps;
    return (double)trial_calls(y->now) >= (double)y->steps * y->calls_per_step;
}

/* The last lines of what the job said, before the report of a rank. */
static void show_tail(const struct trying *y)
{
    static const char report[] = "\nsparseshim " SPARSESHIM_VERSION ": ";
    size_t length, lines = 0;
    char *text = cli_slurp(y->log, &length);

    if (text == NULL)
        return;
    const char *end = memmem(text, length, report, sizeof report - 1);
    length = end != NULL ? (size_t)(end - text) : length;
    size_t from = length;
    while (from > 0 && (text[from - 1] != '\n' || lines++ < TAIL))
        from--;
    fwrite(text + from, 1, length - from, stderr);
    if (length > 0 && text[length - 1] != '\n')
        fputc('\n', stderr);
    free(text);
}

static void tell(const struct trying *y)
{
    const struct trial *t = y->now;

    if (t->ending == CLI_BY_ITSELF && t->status != 0) {
        fprintf(stderr, "sparseshim try: %s: the command ended with status %d; it said last:\n",
                trial_name(t->form), t->status);
        show_tail(y);
    } else {
        fprintf(stderr, "sparseshim try: %s: %.0f steps\n", trial_name(t->form),
                floor((double)trial_calls(t) / y->calls_per_step));
    }
}

static int run_trial(struct trying *y, enum trial_form form)
{
    const struct cli_watched_job job = {.verb = "try",
                                        .command = y->command,
                                        .output = y->log,
                                        .limit = y->limit,
                                        .prepare = prepare,
                                        .enough = enough,
                                        .ctx = y};
    char reports[PATH_MAX];

    y->now = &y->trial[form];
    y->now->form = form;
    y->now->seen.verb = "try";
    snprintf(y->log, sizeof y->log, "%s/%s.log", y->folder.base, trial_name(form));
    snprintf(reports, sizeof reports, "%s/%s-", y->folder.base, trial_name(form));
    int status = trial_folder_copy(&y->folder, trial_name(form), y->work);
    if (cli_interrupted())
        status = CLI_FAILED;
    if (status == CLI_OK && !cli_job_reports_make(&y->now->seen, reports)) {
        fprintf(stderr, "sparseshim try: %s...: %s\n", reports, strerror(errno));
        status = CLI_CANNOT_RUN;
    }
    if (status == CLI_OK) {
        y->now->run = true;
        y->now->status = cli_watch_job(&job, &y->now->ending);
        if (!trial_read(y->now))
            status = CLI_FAILED;
        if (form == TRIAL_TOPK)
            y->calls_per_step = trial_calls_per_step(y->now);
        tell(y);
    }
    if (!y->keep)
        trial_folder_remove(&y->folder, y->work);
    return status;
}

/* ---- all ---- */

static bool cannot_start(const struct trial *t)
{
    return t->status == CLI_NOT_FOUND || t->status == CLI_CANNOT_RUN;
}

static bool in_a_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Whether the folder, or what is in it, stands in a text: of /data/run neither /data/run2 nor
 * /more/data/run. */
static bool names_folder(const char *text, const char *folder)
{
    size_t n = strlen(folder);

    for (const char *at = strstr(text, folder); at != NULL; at = strstr(at + 1, folder)) {
        const char *before = at;
        while (before > text && in_a_name(before[-1]))
            before--;
        if (!in_a_name(at[n]) && (before == text || before[-1] != '/'))
            return true;
    }
    return false;
}

/* A path that names the folder itself leads out of its copies. */
static void warn_of_paths(const struct trying *y)
{
    for (char **a = y->command; !y->folder.here && *a != NULL; a++)
        if (names_folder(*a, y->folder.source)) {
            fprintf(stderr,
                    "sparseshim try: %s names the folder itself, not its copies: what the job "
                    "writes there stays\n",
                    *a);
            return;
        }
}

/* A command that cannot be started tells that alone. */
static int result_of(const struct trying *y, int status, bool served)
{
    bool failed = false;

    for (int f = 0; f < TRIAL_FORMS; f++) {
        const struct trial *t = &y->trial[f];
        bool itself = t->run && t->ending == CLI_BY_ITSELF;
        if (itself && cannot_start(t))
            return t->status;
        failed = failed || !t->run || t->ending == CLI_INTERRUPTED || (itself && t->status != 0);
    }
    if (status == CLI_OK && failed)
        return CLI_FAILED;
    return status == CLI_OK && !served ? CLI_NO : status;
}

/* Before all ranks have reported a call. */
static bool failed_at_once(const struct trial *t)
{
    return t->ending == CLI_BY_ITSELF && t->status != 0 && trial_calls(t) == 0;
}

/* The second run of a command that failed at once: the same where the library did not help; says so
 * then. */
static bool fails_by_itself(const struct trial *t)
{
    if (!failed_at_once(t))
        return false;
    fprintf(stderr,
            "sparseshim try: the command fails at once (status %d) where every call is the MPI "
            "library's own, too: exact and observe are not run\n",
            t->status);
    return true;
}

/* What fails at once with top-k is run without the library's help next: where it fails so, too, the
 * other forms say no more. */
static int try_forms(struct trying *y)
{
    static const enum trial_form usual[] = {TRIAL_TOPK, TRIAL_EXACT, TRIAL_OBSERVE, TRIAL_OFF},
                                 doubtful[] = {TRIAL_TOPK, TRIAL_OFF, TRIAL_EXACT, TRIAL_OBSERVE};
    const enum trial_form *order = usual;
    int status = CLI_OK;
    bool going = true;

    y->calls_per_step = 1;
    for (int i = 0; i < TRIAL_FORMS && going; i++) {
        status = run_trial(y, order[i]);
        going = status == CLI_OK && y->now->ending != CLI_INTERRUPTED && !cannot_start(y->now);
        if (i == 0 && going && failed_at_once(y->now))
            order = doubtful;
        else if (i == 1 && going && order == doubtful)
            going = !fails_by_itself(y->now);
    }
    const struct trial_table table = {.trial = y->trial,
                                      .calls_per_step = y->calls_per_step,
                                      .options = y->options,
                                      .option_count = y->option_count,
                                      .rules = y->rules};
    return result_of(y, status, going && trial_table_print(&table));
}

static int try_all(struct trying *y)
{
    const double gib = 1024.0 * 1024 * 1024;
    cli_watch_signals();
    int status = trial_folder_open(&y->folder, y->cwd, y->here, (uint64_t)(y->copy_limit * gib));

    if (status == CLI_OK) {
        warn_of_paths(y);
        status = try_forms(y);
    }
    for (int f = 0; f < TRIAL_FORMS; f++)
        trial_free(&y->trial[f]);
    if (y->keep && y->folder.base[0] != '\0')
        fprintf(stderr, "sparseshim try: kept: %s and what begins with its name\n", y->folder.base);
    else
        trial_folder_close(&y->folder);
    return status;
}

/* ---- the command line ---- */

/* A number above 0 and at most `most`. */
static int number(const char *name, const char *text, const char *what, double most, double *value)
{
    char *end;
    double v = strtod(text, &end);

    if (*text < '0' || *text > '9' || *end != '\0' || !(v > 0) || !(v <= most))
        return cli_usage_error("try", "%s=%s: allowed is %s, more than 0 and up to %.0f", name,
                               text, what, most);
    *value = v;
    return CLI_OK;
}

/* Options of its own with a value: "--steps=N" and "--steps N". */
enum own { STEPS, LIMIT_OF_RUN, COPY_LIMIT_OF, CWD, OWN };
static const char *const own_names[OWN] = {[STEPS] = "--steps",
                                           [LIMIT_OF_RUN] = "--limit",
                                           [COPY_LIMIT_OF] = "--copy-limit",
                                           [CWD] = "--cwd"};

static int take_own(struct trying *y, enum own which, const char *text)
{
    const char *name = own_names[which];
    double value = 0;
    int status = CLI_OK;

    if (which == STEPS) {
        status = number(name, text, "a number of steps", 1e15, &value);
        y->steps = (uint64_t)ceil(value);
    } else if (which == LIMIT_OF_RUN) {
        status = number(name, text, "a number of seconds", 1e9, &value);
        y->limit = (unsigned)ceil(value);
    } else if (which == COPY_LIMIT_OF) {
        status = number(name, text, "a number of GiB", 1e6, &y->copy_limit);
    } else {
        y->cwd = text;
    }
    return status;
}

/* An option of the library, for all runs. */
static int option(struct trying *y, const struct cfg *cfg, char *argument)
{
    static const char *const set[] = {
        "--mode=", "--report=", "--report-dir=", "--report_dir=", "--disable="};

    if (strncmp(argument, "--", 2) != 0)
        return cli_usage_error("try",
                               "%s is not known; allowed are --steps N, --limit SECONDS, --cwd "
                               "FOLDER, --here, --keep, --copy-limit GIB and --OPTION=VALUE",
                               argument);
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        if (strncasecmp(argument, set[i], strlen(set[i])) == 0)
            return cli_usage_error("try", "%s is what try sets itself", argument);
    int status = cli_set_option("try", cfg, argument + 2, false);
    if (status == CLI_OK)
        y->options[y->option_count++] = argument + 2;
    return status;
}

/* REGISTER where the user has set it, by whatever way. */
static const char *rules_of(const struct cfg *cfg)
{
    struct cfg_row row;

    return cfg_row(cfg, cfg_find("REGISTER"), &row) && row.value[0] != '\0' ? row.value : NULL;
}

struct parsing {
    struct trying *trying;
    const struct cfg *cfg;
};

static int take(void *ctx, int argc, char **argv, int *at)
{
    const struct parsing *p = ctx;
    struct trying *y = p->trying;
    const char *value;
    int own = cli_own_option("try", own_names, OWN, argc, argv, at, &value);
    bool here = strcmp(argv[*at], "--here") == 0, keep = strcmp(argv[*at], "--keep") == 0;

    if (own >= 0)
        return value != NULL ? take_own(y, (enum own)own, value) : CLI_USAGE;
    y->here = y->here || here;
    y->keep = y->keep || keep;
    return here || keep ? CLI_OK : option(y, p->cfg, argv[*at]);
}

static int parse(struct trying *y, const struct cfg *cfg, int argc, char **argv)
{
    struct parsing p = {y, cfg};
    int first, status = cli_options(argc, argv, take, &p, &first);

    if (status == CLI_OK && first >= argc)
        status = cli_usage_error("try", "no command given; usage: sparseshim try [--steps N] "
                                        "[--OPTION=VALUE ...] [--] COMMAND [ARGUMENT ...]");
    y->command = argv + first;
    return status;
}

int cli_try(int argc, char **argv)
{
    struct trying y = {.limit = LIMIT, .copy_limit = COPY_LIMIT};
    struct cfg *cfg = cfg_load();
    int status = CLI_CANNOT_RUN;

    y.options = calloc((size_t)argc + 1, sizeof *y.options);
    if (cfg == NULL || y.options == NULL)
        fprintf(stderr, "sparseshim try: out of memory\n");
    else
        status = parse(&y, cfg, argc, argv);
    if (status == CLI_OK) {
        cfg_free(cfg); /* with the options given it is another */
        cfg = cfg_load();
        y.rules = cfg != NULL ? rules_of(cfg) : NULL;
        bool allowed = cli_site_allows("try", "MODE", "topk") &&
                       cli_site_allows("try", "MIN_COUNT", OFF_MIN_COUNT);
        status = allowed ? try_all(&y) : CLI_CANNOT_RUN;
    }
    cfg_free(cfg);
    free(y.options);
    return status;
}
