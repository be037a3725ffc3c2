/* sparseshim: the command. The table drives dispatch, usage and hints. */
#include "shim/cli/cli.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "core/base/launcher.h"
#include "shim/cli/script.h"

static cli_function help;
static cli_function version;

static const struct verb {
    const char *name;
    cli_function *function; /* NULL: the verb has a program of its own */
    const char *arguments;
    const char *line;
    const char *details;
} verbs[] = {
    {"info", cli_info, "[-f | -c | -r]", "show the options, their values and their sources",
     "  -f  with documentation\n"
     "  -c  as a complete configuration file\n"
     "  -r  as troff, the section of sparseshim.conf(5)\n"
     "Exit status: 0; 1 the site's file has an error in its policy (lock, allow_modes); 2 "
     "usage.\n"},
    {"run", cli_run, "[-n] [--OPTION=VALUE ...] [--] PROGRAM [ARGUMENT ...]",
     "run an MPI program with the library preloaded",
     "  -n              print the variables that would be set, and run nothing (not mpirun's -n)\n"
     "  --OPTION=VALUE  set SPARSESHIM_OPTION, such as --mode=observe --report=rank0;\n"
     "                  `sparseshim info -f` lists the options\n"
     "Under a launcher:  mpirun -n 8 sparseshim run ./app\n"
     "Exit status: that of the program; 2 usage; 126 and 127 the program could not be started.\n"},
    {.name = "learn", .line = "watch a job, and write rules for its sums that look like gradients"},
    {"check", cli_check, "PROGRAM", "say whether the library can see the MPI calls of a program",
     "PROGRAM is an executable file or a script. If its calls cannot be seen, the command says why "
     "and\n"
     "what to do. It reads files only, and runs nothing.\n"
     "Exit status: 0 seen; 1 not seen; 2 could not be checked.\n"},
    {.name = "report", .line = "show the reports of a job, merge its ranks, compare two jobs"},
    {.name = "bench", .line = "time a call with and without the library, over lists of settings"},
    {.name = "simulate",
     .line = "predict the time of each algorithm on a network, up to 4096 ranks"},
    {"help", help, "[VERB]", "this list, or the arguments of a verb", ""},
    {"--version", version, "", "the version", ""},
};
enum { VERBS = sizeof verbs / sizeof verbs[0] };

int cli_usage_error(const char *verb, const char *format, ...)
{
    char text[4096];
    va_list args;

    if (strcmp(verb, "run") == 0 && ss_launcher_rank() > 0)
        return CLI_USAGE;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "sparseshim %s: %s\n", verb, text);
    return CLI_USAGE;
}

bool cli_speaks_for_host(void)
{
    int local = ss_launcher_local_rank();

    return (local >= 0 ? local : ss_launcher_rank()) <= 0;
}

static const struct verb *find(const char *name)
{
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

static int unknown(const char *name)
{
    if (strcmp(name, "try") == 0) {
        fputs("sparseshim: try is replaced by three commands: learn finds what may be lossy, run "
              "starts the job, report compares two jobs\n",
              stderr);
        return CLI_USAGE;
    }
    const char *near = NULL;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < VERBS; i++)
        if (cfg_nearer(name, verbs[i].name, &best))
            near = verbs[i].name;
    const char *word = script_missing_word(name);
    if (near == NULL || strchr(name, '/') != NULL) {
        char path[PATH_MAX];
        if (script_locate(name, path)) {
            fprintf(stderr, "sparseshim: %s is a program, no verb: sparseshim run %s%s\n",
                    CFG_SHOWN(name), word, CFG_SHOWN(name));
            return CLI_USAGE;
        }
    }
    fprintf(stderr, "sparseshim: %s%s\n", CFG_NOT_KNOWN("", name, near),
            near == NULL ? "; `sparseshim help` lists the verbs" : "");
    return CLI_USAGE;
}

static void usage(FILE *out)
{
    fprintf(out, "usage: sparseshim VERB ...\n");
    for (size_t i = 0; i < VERBS; i++)
        fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].line);
}

static int explain(const struct verb *verb)
{
    if (verb->function == NULL) {
        char name[] = "", option[] = "--help", *words[] = {name, option, NULL};
        return cli_become_program(verb->name, 2, words);
    }
    printf("usage: sparseshim %s%s%s\n%s\n%s", verb->name, *verb->arguments ? " " : "",
           verb->arguments, verb->line, verb->details);
    return CLI_OK;
}

static bool asks_for_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

/* Returns true if one of the options of a verb asks for help. Later arguments may be a program's.
 */
static bool wants_help(int count, char **arguments)
{
    for (int i = 0; i < count && arguments[i][0] == '-' && strcmp(arguments[i], "--") != 0; i++)
        if (asks_for_help(arguments[i]))
            return true;
    return false;
}

static int help(int argc, char **argv)
{
    if (argc < 2) {
        usage(stdout);
        return CLI_OK;
    }
    const struct verb *verb = find(argv[1]);
    return verb == NULL ? unknown(argv[1]) : explain(verb);
}

static int version(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("sparseshim %s\n", SPARSESHIM_VERSION);
    return CLI_OK;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return CLI_USAGE;
    }
    const char *name = asks_for_help(argv[1]) ? "help" : argv[1];
    const struct verb *verb = find(name);
    if (verb == NULL)
        return unknown(name);
    if (verb->function == NULL)
        return cli_become_program(verb->name, argc - 1, argv + 1);
    int status =
        wants_help(argc - 2, argv + 2) ? explain(verb) : verb->function(argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("sparseshim: standard output");
        return status == CLI_OK ? CLI_NO : status;
    }
    return status;
}
