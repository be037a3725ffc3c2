/* Names the launcher of an MPI library, and hands variables to ranks on other hosts. Open MPI's
 * mpirun hands on those that -x names; the launchers of other MPI libraries hand on all. */
#include "shim/cli/cli.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "shim/cli/script.h"

/* Returns true if the command starts the same file as mpirun does. */
static bool is_plain_mpirun(const char *command)
{
    char path[PATH_MAX], real[PATH_MAX], plain[PATH_MAX];

    return script_locate(command, path) && realpath(path, real) != NULL &&
           script_locate("mpirun", path) && realpath(path, plain) != NULL &&
           strcmp(real, plain) == 0;
}

void cli_mpirun_of(const char *library, const char *debian, char command[PATH_MAX])
{
    char path[PATH_MAX], real[PATH_MAX] = "";
    char *slash;
    int length;

    if (realpath(library, real) != NULL && (slash = strrchr(real, '/')) != NULL) {
        *slash = '\0';
        slash = strrchr(real, '/');
        *(slash != NULL ? slash : real) = '\0';
    }
    length = snprintf(command, PATH_MAX, "%s/bin/mpirun", real);
    if (length >= PATH_MAX || access(command, X_OK) != 0)
        snprintf(command, PATH_MAX, "%s", debian);
    if (!script_locate(command, path) || is_plain_mpirun(command))
        snprintf(command, PATH_MAX, "mpirun");
}

/* Returns true for orterun (Open MPI 4), prterun (5), and an mpirun beside Open MPI's ompi_info. */
static bool is_of_open_mpi(const char *program)
{
    static const char beside[] = "/ompi_info";
    char path[PATH_MAX], real[PATH_MAX + sizeof beside];
    char *name;

    if (!script_locate(program, path) || realpath(path, real) == NULL)
        return false;
    name = strrchr(real, '/');
    if (strcmp(name, "/orterun") == 0 || strcmp(name, "/prterun") == 0)
        return true;
    if (strcmp(name, "/mpirun") != 0 && strcmp(name, "/mpiexec") != 0)
        return false;
    memcpy(name, beside, sizeof beside);
    return access(real, F_OK) == 0;
}

/* Returns true if the command names the variable by an -x of its own. */
static bool exports(char *const *argv, const char *name, size_t length)
{
    for (size_t i = 0; argv[i] != NULL && argv[i + 1] != NULL; i++)
        if (strcmp(argv[i], "-x") == 0 && strncmp(argv[i + 1], name, length) == 0 &&
            strchr("=", argv[i + 1][length]) != NULL)
            return true;
    return false;
}

/* Returns true if the variable is a PYTHONPATH that begins with the folder of shim/torch, which run
 * has put there. */
static bool redirects_torch(const char *variable)
{
    char folder[PATH_MAX];

    return strncmp(variable, "PYTHONPATH=", 11) == 0 && cfg_libexecdir(folder, sizeof folder) &&
           strncmp(variable + 11, folder, strlen(folder)) == 0;
}

/* Writes "-x NAME" for each variable to be handed on. Returns the number of words, or SIZE_MAX
 * without memory. */
static size_t add_exports(char **words, char *const *argv)
{
    static char option[] = "-x";
    size_t n = 0;

    for (char **variable = environ; *variable != NULL; variable++) {
        size_t length = strcspn(*variable, "=");

        if (strncmp(*variable, "LD_PRELOAD=", 11) != 0 && !redirects_torch(*variable) &&
            (strncmp(*variable, "SPARSESHIM_", 11) != 0 || exports(argv, *variable, length)))
            continue;
        words[n++] = option;
        words[n] = strndup(*variable, length);
        if (words[n++] == NULL)
            return SIZE_MAX;
    }
    return n;
}

char **cli_launcher_exports(char **argv)
{
    size_t count = 0, variables = 0, n;
    char **all;

    if (!is_of_open_mpi(argv[0]))
        return argv;
    while (argv[count] != NULL)
        count++;
    while (environ[variables] != NULL)
        variables++;
    all = calloc(count + 2 * variables + 1, sizeof *all);
    if (all == NULL)
        return NULL;
    all[0] = argv[0];
    n = add_exports(all + 1, argv);
    if (n == SIZE_MAX) {
        cli_launcher_free(all, argv);
        return NULL;
    }
    memcpy(all + 1 + n, argv + 1, count * sizeof *all);
    return all;
}

void cli_launcher_free(char **command, char **argv)
{
    if (command == NULL || command == argv)
        return;
    /* The words behind the exports are those of argv. */
    for (size_t i = 1; command[i] != NULL && command[i] != argv[1]; i += 2)
        free(command[i + 1]);
    free(command);
}
