/* sparseshim run: sets the preload and the options, then becomes the program. */
#include "shim/cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "core/base/launcher.h"
#include "core/tensor/rules.h"
#include "shim/cli/binary.h"
#include "shim/cli/script.h"

struct running {
    struct cfg *cfg;
    bool dry;     /* -n: print what would be set, run nothing */
    bool reports; /* a report is wanted, and DEBUG allows a line about its lack */
    char **set;   /* lines "NAME=value" */
    size_t sets;
};

static int no_memory(void)
{
    fprintf(stderr, "sparseshim run: out of memory\n");
    return CLI_CANNOT_RUN;
}

/* Sets a variable for the program. Returns CLI_OK, or CLI_CANNOT_RUN after printing why not. */
static int put(struct running *r, const char *name, const char *value)
{
    char **set = realloc(r->set, (r->sets + 1) * sizeof *set);

    if (set == NULL)
        return no_memory();
    r->set = set;
    if (setenv(name, value, 1) != 0 || asprintf(&set[r->sets], "%s=%s", name, value) < 0)
        return no_memory();
    r->sets++;
    return CLI_OK;
}

/* Writes the nearest name of an option in lower case, "" if none is near. */
static void find_near(const struct cfg *cfg, const char *typed, char *text, size_t size)
{
    struct cfg_row row;
    const char *near = NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; cfg_row(cfg, i, &row); i++)
        if (cfg_nearer(typed, row.name, &best))
            near = row.name;
    snprintf(text, size, "%s", near != NULL ? near : "");
    for (; *text != '\0'; text++)
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text - 'A' + 'a');
}

/* Says what is wrong with a value of REGISTER or EXCLUDE. */
static int check_rules(const char *name, const char *value)
{
    const bool settings = strcmp(name, "REGISTER") == 0;
    struct ss_rules *rules = NULL;
    char error[400] = "out of memory";

    if (!settings && strcmp(name, "EXCLUDE") != 0)
        return CLI_OK;
    if (ss_rules_parse(value, settings, &rules, error, sizeof error) != SS_OK)
        return cli_usage_error("run", "SPARSESHIM_%s: %s", name, error);
    ss_rules_free(rules);
    return CLI_OK;
}

/* Says why the file or profile that CONFIG names, in the environment or as an option, cannot be
 * read; of a profile, which ones there are. The job would run by other options than meant. */
static int check_config(void)
{
    const char *value = getenv("SPARSESHIM_CONFIG");
    struct cfg *cfg = value != NULL && !cfg_disabled() ? cfg_load() : NULL;
    const char *problem = cfg != NULL ? cfg_config_problem(cfg) : NULL;
    const int status = problem != NULL ? CLI_USAGE : CLI_OK;

    if (problem != NULL && cli_speaks_for_host()) {
        char *names = value[0] == '@' ? cli_profile_names() : NULL;
        fprintf(stderr, "sparseshim run: %s%s%s\n", problem, names != NULL ? "; profiles: " : "",
                names != NULL ? names : "");
        free(names);
    }
    cfg_free(cfg);
    return status;
}

/* Takes over an argument "OPTION=VALUE". */
static int set_option(struct running *r, const char *argument)
{
    char name[64];
    char variable[80];
    size_t length = strcspn(argument, "=");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1),
             argument);
    size_t i = cfg_find(name);
    struct cfg_row row;
    if (cfg_is_policy(name))
        return cli_usage_error("run",
                               "--%s is allowed as a line of the system's sparseshim.conf only",
                               CFG_SHOWN(name));
    if (i == SIZE_MAX && cfg_removed(name) != NULL)
        return cli_usage_error("run", "--%s is gone: %s", CFG_SHOWN(name), cfg_removed(name));
    if (i == SIZE_MAX || !cfg_row(r->cfg, i, &row)) {
        char near[64];
        find_near(r->cfg, name, near, sizeof near);
        return cli_usage_error("run", "%s; `sparseshim info` lists the options",
                               CFG_NOT_KNOWN("--", name, near));
    }
    if (argument[length] != '=')
        return cli_usage_error("run", "--%s needs a value: --%s=VALUE (allowed: %s)", name, name,
                               row.allowed);
    const char *value = argument + length + 1;
    char *objection = cfg_objection(i, value);
    if (objection != NULL) {
        cli_usage_error("run", "%s", objection);
        free(objection);
        return CLI_USAGE;
    }
    int status = check_rules(row.name, value);
    snprintf(variable, sizeof variable, "SPARSESHIM_%s", row.name);
    return status == CLI_OK ? put(r, variable, value) : status;
}

static int set_preload(struct running *r)
{
    char *library = cli_find_library();
    if (library == NULL) {
        char *places = cli_library_places();
        fprintf(stderr, "sparseshim run: libsparseshim.so is not in %s\n",
                places != NULL ? places : "its places");
        free(places);
        return CLI_CANNOT_RUN;
    }
    int status = CLI_CANNOT_RUN;
    char *preload = NULL;
    if (strpbrk(library, ": ") != NULL) {
        fprintf(
            stderr,
            "sparseshim run: %s cannot be preloaded: LD_PRELOAD allows no ':' and no blank in a "
            "path\n",
            library);
        goto done;
    }
    preload = cli_preload(library, getenv("LD_PRELOAD"));
    if (preload != NULL)
        status = put(r, "LD_PRELOAD", preload);
done:
    free(preload);
    free(library);
    return status;
}

int cli_become(const char *verb, char **argv)
{
    const char *word = script_missing_word(argv[0]), *name = argv[0];
    if (strcmp(word, SCRIPT_PYTHON) == 0) {
        if (cli_speaks_for_host())
            fprintf(stderr,
                    "sparseshim %s: %s is a Python script that cannot be run by its name alone: "
                    "sparseshim %s %s%s\n",
                    verb, name, verb, word, name);
        return CLI_CANNOT_RUN;
    }
    execvp(name, argv);
    int error = errno;
    if (cli_speaks_for_host() && *word != '\0')
        fprintf(stderr, "sparseshim %s: %s is not in PATH: sparseshim %s %s%s\n", verb, name, verb,
                word, name);
    else if (cli_speaks_for_host())
        fprintf(stderr, "sparseshim %s: %s cannot be run: %s\n", verb, name, strerror(error));
    return error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_RUN;
}

/* Returns true if the preload does not hurt the program. Says once per job where it does not help.
 * A shell script is not followed: programs that it starts inherit the preload. */
static bool takes_preload(const char *program)
{
    const bool quiet = ss_launcher_rank() > 0 || cfg_disabled();
    char path[PATH_MAX];
    struct binary binary;

    if (!script_locate(program, path))
        return true;
    const char *why = binary_privilege(path);
    if (why != NULL && !quiet)
        fprintf(stderr,
                "sparseshim run: %s is %s, and the loader takes no LD_PRELOAD for such programs: "
                "run a copy without that privilege\n",
                path, why);
    if (binary_open(&binary, path) != BINARY_OK)
        return true;
    const bool takes = !binary_is_musl(&binary);
    if (why == NULL && !quiet && binary_is_static(&binary))
        fprintf(stderr,
                "sparseshim run: %s is statically linked, and LD_PRELOAD reaches only programs "
                "that it starts: link it dynamically (without -static)\n",
                path);
    if (!takes && !quiet)
        fprintf(stderr,
                "sparseshim run: %s is started by musl's loader (%s), which cannot load a library "
                "for glibc, and runs without it: build it with glibc\n",
                path, binary.interpreter);
    binary_close(&binary);
    return takes;
}

/* Returns true if the command starts Python, by itself or by a launcher: a word of it names Python
 * or a Python source, or the program is a script of Python, such as accelerate. */
static bool starts_python(char *const *argv)
{
    char path[PATH_MAX], interpreter[PATH_MAX];

    if (script_locate(argv[0], path) && script_interpreter(path, interpreter) &&
        script_names_python(interpreter))
        return true;
    for (; *argv != NULL; argv++)
        if (script_names_python(*argv))
            return true;
    return false;
}

/* Puts the folder whose sitecustomize.py redirects torch.distributed first into PYTHONPATH. */
static int set_python_path(struct running *r)
{
    char folder[PATH_MAX];
    const char *before = getenv("PYTHONPATH");
    char *path = NULL;

    if (!cfg_libexecdir(folder, sizeof folder))
        return CLI_OK;
    if (before == NULL)
        before = "";
    if (asprintf(&path, "%s/python%s%s", folder, before[0] != '\0' ? ":" : "", before) < 0)
        return no_memory();
    int status = put(r, "PYTHONPATH", path);
    free(path);
    return status;
}

/* Makes the preloaded library say, once per job, if the program ends without a call of MPI. */
static void expect_report(const struct running *r)
{
    char number[24];

    unsetenv(CFG_RUN_PROCESS);
    if (!r->reports || ss_launcher_rank() > 0)
        return;
    snprintf(number, sizeof number, "%ld", (long)getpid());
    setenv(CFG_RUN_PROCESS, number, 1);
}

/* Does what depends on the values of options, those of the command line among them: lets
 * torch.distributed run over MPI (shim/torch). */
static int apply_options(struct running *r, char *const *argv)
{
    struct cfg *cfg;
    int status = CLI_OK;

    if (cfg_disabled())
        return CLI_OK;
    cfg = cfg_load();
    if (cfg == NULL)
        return no_memory();
    const struct cfg_options *options = cfg_options(cfg);
    bool for_all;
    r->reports = !options->disable && cfg_turned_off(cfg, &for_all) == NULL &&
                 options->debug != CFG_DEBUG_NONE &&
                 (options->report != CFG_REPORT_OFF || options->report_dir[0] != '\0');
    if (options->torch && starts_python(argv))
        status = set_python_path(r);
    cfg_free(cfg);
    return status;
}

/* Options of a launcher that was left out: "-n 4", "-np 4", "-n4". */
static bool is_for_launcher(const char *option, const char *next)
{
    static const char digits[] = "0123456789";
    size_t letters = strncmp(option, "-np", 3) == 0 ? 3 : strncmp(option, "-n", 2) == 0 ? 2 : 0;
    const char *number = option[letters] != '\0' ? option + letters : next;

    return letters > 0 && number != NULL && *number != '\0' &&
           number[strspn(number, digits)] == '\0';
}

static int without_launcher(const char *option, const char *next)
{
    bool apart = strpbrk(option, "0123456789") == NULL;

    return cli_usage_error("run",
                           "%s%s%s is for a launcher, which is missing; meant is sparseshim run "
                           "[OPTIONS] -- mpirun -n 4 ./app, or mpirun -n 4 sparseshim run "
                           "[OPTIONS] ./app (-n by itself prints what would be set)",
                           CFG_SHOWN(option), apart ? " " : "", apart ? CFG_SHOWN(next) : "");
}

/* Takes over the option argv[i] of run itself. */
static int take(struct running *r, char **argv, int i)
{
    const char *argument = argv[i];

    if (is_for_launcher(argument, argv[i + 1]))
        return without_launcher(argument, argv[i + 1]);
    if (strcmp(argument, "-n") == 0) {
        r->dry = true;
        return CLI_OK;
    }
    if (strcmp(argument, "--profile") == 0 || strncmp(argument, "--profile=", 10) == 0)
        return cli_usage_error("run", "--profile NAME is replaced by --config=@NAME");
    if (strncmp(argument, "--", 2) == 0)
        return set_option(r, argument + 2);
    return cli_usage_error("run", "%s is not known; allowed are -n and --OPTION=VALUE",
                           CFG_SHOWN(argument));
}

/* Takes over the options up to the program, or to "--". *first: where the program begins. */
static int take_all(struct running *r, int argc, char **argv, int *first)
{
    int status = CLI_OK, i = 1;

    for (; i < argc && argv[i][0] == '-' && status == CLI_OK; i++) {
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        status = take(r, argv, i);
    }
    *first = i;
    return status;
}

static int show(const struct running *r, char **argv)
{
    for (size_t i = 0; i < r->sets; i++)
        puts(r->set[i]);
    printf("exec");
    for (; *argv != NULL; argv++)
        printf(" %s", *argv);
    putchar('\n');
    return CLI_OK;
}

int cli_run(int argc, char **argv)
{
    int first;
    struct running r = {.cfg = cfg_load()};
    if (r.cfg == NULL)
        return no_memory();
    int status = take_all(&r, argc, argv, &first);
    if (status == CLI_OK)
        status = check_config();
    if (status == CLI_OK && first >= argc)
        status = cli_usage_error("run", "no program given; usage: sparseshim run [-n] "
                                        "[--OPTION=VALUE ...] [--] PROGRAM [ARGUMENT ...]");
    if (status == CLI_OK && takes_preload(argv[first]))
        status = set_preload(&r);
    if (status == CLI_OK)
        status = apply_options(&r, argv + first);
    char **command = status == CLI_OK ? cli_launcher_exports(argv + first) : NULL;
    if (command != NULL && !r.dry)
        expect_report(&r);
    if (command != NULL)
        status = r.dry ? show(&r, command) : cli_become("run", command);
    else if (status == CLI_OK)
        status = no_memory();
    cli_launcher_free(command, argv + first);
    for (size_t i = 0; i < r.sets; i++)
        free(r.set[i]);
    free(r.set);
    cfg_free(r.cfg);
    return status;
}
