/* Verbs whose program is a file of its own, sparseshim-VERB in the folder for them. */
#include "shim/cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"

static bool locate(const char *verb, char path[PATH_MAX])
{
    char folder[PATH_MAX];

    if (!cfg_libexecdir(folder, sizeof folder))
        return false;
    int length = snprintf(path, PATH_MAX, "%s/sparseshim-%s", folder, verb);
    return length > 0 && length < PATH_MAX;
}

/* Python writes no bytecode beside an installed program (-B). */
static int become_python(const char *verb, char *path, int argc, char **argv)
{
    char python[] = "python3", no_bytecode[] = "-B";
    char **words = calloc((size_t)argc + 3, sizeof *words);

    if (words == NULL) {
        fprintf(stderr, "sparseshim %s: out of memory\n", verb);
        return CLI_CANNOT_RUN;
    }
    words[0] = python;
    words[1] = no_bytecode;
    words[2] = path;
    memcpy(words + 3, argv + 1, (size_t)argc * sizeof *words);
    execvp(python, words);
    int error = errno;
    free(words);
    fprintf(
        stderr,
        "sparseshim %s: python3 cannot be run: %s; this verb needs Python 3.9 or later in PATH\n",
        verb, strerror(error));
    return error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_RUN;
}

/* Returns 1 for a script, 0 for a binary, -1 with errno set if the file cannot be read. */
static int is_script(const char *path)
{
    char begin[2] = "";
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return -1;
    bool script =
        fread(begin, 1, sizeof begin, file) == sizeof begin && memcmp(begin, "#!", 2) == 0;
    fclose(file);
    return script;
}

int cli_become_program(const char *verb, int argc, char **argv)
{
    char path[PATH_MAX];

    if (!locate(verb, path)) {
        fprintf(stderr, "sparseshim %s: the folder of its program is not known\n", verb);
        return CLI_CANNOT_RUN;
    }
    int script = is_script(path);
    if (script < 0) {
        int error = errno;
        fprintf(stderr, "sparseshim %s: its program %s cannot be read: %s\n", verb, path,
                strerror(error));
        return error == ENOENT ? CLI_NOT_FOUND : CLI_CANNOT_RUN;
    }
    if (script)
        return become_python(verb, path, argc, argv);
    argv[0] = path;
    return cli_become(verb, argv);
}
