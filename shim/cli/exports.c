/* Hands variables to ranks on other hosts. Open MPI's mpirun hands on those that -x names; the
 * launchers of other MPI libraries hand on all. */
#include "shim/cli/cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/cli/script.h"

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

char **cli_launcher_exports(char **argv, char *const *set, size_t sets)
{
    size_t count = 0, n = 0;
    char **all;

    if (!is_of_open_mpi(argv[0]))
        return argv;
    while (argv[count] != NULL)
        count++;
    all = calloc(count + 2 * sets + 1, sizeof *all);
    if (all == NULL)
        return NULL;
    all[n++] = argv[0];
    for (size_t i = 0; i < sets; i++) {
        all[n++] = "-x";
        all[n] = strndup(set[i], strcspn(set[i], "="));
        if (all[n++] == NULL) {
            cli_launcher_free(all, argv, i);
            return NULL;
        }
    }
    memcpy(all + n, argv + 1, count * sizeof *all);
    return all;
}

void cli_launcher_free(char **command, char **argv, size_t sets)
{
    if (command == NULL || command == argv)
        return;
    for (size_t i = 0; i < sets; i++)
        free(command[2 + 2 * i]);
    free(command);
}
