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

int cli_put(const char *verb, const char *name, const char *value, bool dry)
{
    if (dry)
        printf("%s=%s\n", name, value);
    if (setenv(name, value, 1) == 0)
        return CLI_OK;
    fprintf(stderr, "sparseshim %s: environment: %s\n", verb, strerror(errno));
    return CLI_CANNOT_RUN;
}

/* "; did you mean --NAME?" where a name is near, else nothing. */
static void hint(const struct cfg *cfg, const char *typed, char *text, size_t size)
{
    struct cfg_row row;
    const char *near = NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; cfg_row(cfg, i, &row); i++)
        if (cfg_nearer(typed, row.name, &best))
            near = row.name;
    text[0] = '\0';
    if (near != NULL)
        snprintf(text, size, "; did you mean --%s?", near);
    for (; *text != '\0'; text++)
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text - 'A' + 'a');
}

/* Says what is wrong with a value of REGISTER or EXCLUDE. */
static int check_rules(const char *verb, const char *name, const char *value)
{
    const bool settings = strcmp(name, "REGISTER") == 0;
    struct ss_rules *rules = NULL;
    char error[200] = "out of memory";

    if (!settings && strcmp(name, "EXCLUDE") != 0)
        return CLI_OK;
    if (ss_rules_parse(value, settings, &rules, error, sizeof error) != SS_OK)
        return cli_usage_error(verb, "SPARSESHIM_%s: %s", name, error);
    ss_rules_free(rules);
    return CLI_OK;
}

/* Says why CONFIG, which is set, cannot be read; of a profile, which ones there are. */
static int check_config(const char *verb)
{
    static const char about[] = "SPARSESHIM_CONFIG";
    const char *problem, *value = getenv(about);
    struct cfg *cfg = cfg_load();
    int status = CLI_OK;

    for (size_t i = 0; cfg != NULL && (problem = cfg_problem(cfg, i, NULL)) != NULL; i++) {
        if (status != CLI_OK || strncmp(problem, about, sizeof about - 1) != 0)
            continue;
        char *names = value != NULL && value[0] == '@' ? cfg_profile_names() : NULL;
        if (cli_speaks_for_host())
            fprintf(stderr, "sparseshim %s: %s%s%s\n", verb, problem,
                    names != NULL ? "; profiles: " : "", names != NULL ? names : "");
        free(names);
        status = CLI_USAGE;
    }
    cfg_free(cfg);
    return status;
}

int cli_set_option(const char *verb, const struct cfg *cfg, const char *argument, bool dry)
{
    char name[64];
    char variable[80];
    size_t length = strcspn(argument, "=");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1),
             argument);
    size_t i = cfg_find(name);
    struct cfg_row row;
    if (cfg_is_policy(name))
        return cli_usage_error(
            verb, "--%s is allowed as a line of the system's sparseshim.conf only", name);
    if (i == SIZE_MAX && cfg_removed(name) != NULL)
        return cli_usage_error(verb, "--%s is gone: %s", name, cfg_removed(name));
    if (i == SIZE_MAX || !cfg_row(cfg, i, &row)) {
        char meant[96];
        hint(cfg, name, meant, sizeof meant);
        return cli_usage_error(verb, "--%s is not known%s (`sparseshim info` lists the options)",
                               name, meant);
    }
    if (argument[length] != '=')
        return cli_usage_error(verb, "--%s needs a value: --%s=VALUE (allowed: %s)", name, name,
                               row.allowed);
    const char *value = argument + length + 1;
    char *objection = cfg_objection(i, value);
    if (objection != NULL) {
        cli_usage_error(verb, "%s", objection);
        free(objection);
        return CLI_USAGE;
    }
    int status = check_rules(verb, row.name, value);
    snprintf(variable, sizeof variable, "SPARSESHIM_%s", row.name);
    if (status == CLI_OK)
        status = cli_put(verb, variable, value, dry);
    if (status == CLI_OK && strcmp(row.name, "CONFIG") == 0)
        status = check_config(verb);
    return status;
}

int cli_options(int argc, char **argv, cli_take *take, void *ctx, int *first)
{
    int status = CLI_OK, at = 1;

    for (; at < argc && argv[at][0] == '-' && status == CLI_OK; at++) {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        status = cli_asks_for_help(argv[at]) ? CLI_HELP : take(ctx, argc, argv, &at);
    }
    *first = at;
    return status;
}

int cli_own_option(const char *verb, const char *const *names, int n, int argc, char **argv,
                   int *at, const char **value)
{
    for (int i = 0; i < n; i++) {
        size_t length = strlen(names[i]);
        const char *rest = argv[*at] + length;
        if (strncmp(argv[*at], names[i], length) != 0 || (*rest != '=' && *rest != '\0'))
            continue;
        *value = *rest == '=' ? rest + 1 : *at + 1 < argc ? argv[++*at] : NULL;
        if (*value == NULL)
            cli_usage_error(verb, "%s needs a value", names[i]);
        return i;
    }
    return -1;
}

int cli_set_preload(const char *verb, bool dry)
{
    char *library = cli_find_library();
    if (library == NULL) {
        char *places = cli_library_places();
        fprintf(stderr, "sparseshim %s: libsparseshim.so is not in %s\n", verb,
                places != NULL ? places : "its places");
        free(places);
        return CLI_CANNOT_RUN;
    }
    int status = CLI_CANNOT_RUN;
    char *preload = NULL;
    if (strpbrk(library, ": ") != NULL) {
        fprintf(stderr,
                "sparseshim %s: %s cannot be preloaded: LD_PRELOAD allows no ':' and no blank in a "
                "path\n",
                verb, library);
        goto done;
    }
    preload = cli_preload(library, getenv("LD_PRELOAD"));
    if (preload != NULL)
        status = cli_put(verb, "LD_PRELOAD", preload, dry);
done:
    free(preload);
    free(library);
    return status;
}

int cli_become(const char *verb, char **argv)
{
    execvp(argv[0], argv);
    int error = errno;
    if (cli_speaks_for_host())
        fprintf(stderr, "sparseshim %s: %s cannot be run: %s\n", verb, argv[0], strerror(error));
    return error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_RUN;
}

/* Warns once per job of a program that takes no preload. A shell script is not followed: programs
 * that it starts inherit the preload. */
static void warn_of_no_preload(const char *program)
{
    char path[PATH_MAX];
    struct binary binary;
    if (ss_launcher_rank() > 0 || cfg_disabled() || !script_locate(program, path))
        return;
    const char *why = binary_privilege(path);
    if (why != NULL)
        fprintf(stderr,
                "sparseshim run: %s is %s, and the loader takes no LD_PRELOAD for such programs: "
                "run a copy without that privilege\n",
                path, why);
    if (binary_open(&binary, path) != BINARY_OK)
        return;
    if (why == NULL && binary_is_static(&binary))
        fprintf(stderr,
                "sparseshim run: %s is statically linked, and LD_PRELOAD reaches only programs "
                "that it starts: link it dynamically (without -static)\n",
                path);
    binary_close(&binary);
}

static int show(char **argv)
{
    printf("exec");
    for (; *argv != NULL; argv++)
        printf(" %s", *argv);
    putchar('\n');
    return CLI_OK;
}

/* --profile=NAME, a shorter --config=@NAME. The profile must be there and readable. */
static int set_profile(const char *name, bool dry)
{
    char value[NAME_MAX + 2];
    int status;
    if (snprintf(value, sizeof value, "@%s", name) >= (int)sizeof value)
        return cli_usage_error("run", "--profile=%.40s... is too long for a name", name);
    status = cli_put("run", "SPARSESHIM_CONFIG", value, dry);
    return status == CLI_OK ? check_config("run") : status;
}

struct running {
    struct cfg *cfg;
    bool dry;
};

static const char *const own_names[] = {"--profile"};

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
                           option, apart ? " " : "", apart ? next : "");
}

/* Before anything is set, whether it is to be printed. */
static int take_dry(void *ctx, int argc, char **argv, int *at)
{
    struct running *r = ctx;
    const char *argument = argv[*at], *value;

    if (is_for_launcher(argument, argv[*at + 1]))
        return without_launcher(argument, argv[*at + 1]);
    r->dry = r->dry || strcmp(argument, "-n") == 0;
    return cli_own_option("run", own_names, 1, argc, argv, at, &value) >= 0 && value == NULL
               ? CLI_USAGE
               : CLI_OK;
}

static int take(void *ctx, int argc, char **argv, int *at)
{
    struct running *r = ctx;
    char *argument = argv[*at];
    const char *value;

    if (strcmp(argument, "-n") == 0)
        return CLI_OK;
    if (cli_own_option("run", own_names, 1, argc, argv, at, &value) >= 0)
        return set_profile(value, r->dry);
    if (strncmp(argument, "--", 2) == 0)
        return cli_set_option("run", r->cfg, argument + 2, r->dry);
    return cli_usage_error(
        "run", "%s is not known; allowed are -n, --profile NAME and --OPTION=VALUE", argument);
}

int cli_run(int argc, char **argv)
{
    int first;
    struct running r = {.cfg = cfg_load()};
    if (r.cfg == NULL) {
        fprintf(stderr, "sparseshim run: out of memory\n");
        return CLI_CANNOT_RUN;
    }
    int status = cli_options(argc, argv, take_dry, &r, &first);
    if (status == CLI_OK)
        status = cli_options(argc, argv, take, &r, &first);
    if (status == CLI_OK && first >= argc)
        status = cli_usage_error(
            "run", "no program given; usage: sparseshim run [-n] "
                   "[--profile NAME] [--OPTION=VALUE ...] [--] PROGRAM [ARGUMENT ...]");
    if (status == CLI_OK)
        status = cli_set_preload("run", r.dry);
    cfg_free(r.cfg);
    if (status != CLI_OK)
        return status;
    warn_of_no_preload(argv[first]);
    return r.dry ? show(argv + first) : cli_become("run", argv + first);
}
