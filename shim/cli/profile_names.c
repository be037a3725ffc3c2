/* Finds the names of profiles. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "shim/cli/cli.h"

struct names {
    char **name;
    size_t n;
};

static void add(struct names *names, const char *name, size_t length)
{
    char **more = realloc(names->name, (names->n + 1) * sizeof *more);

    if (more == NULL)
        return;
    names->name = more;
    names->name[names->n] = strndup(name, length);
    names->n += names->name[names->n] != NULL;
}

static void add_folder(struct names *names, const char *path)
{
    static const char end[] = ".conf";
    DIR *folder = opendir(path);
    const struct dirent *entry;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        size_t length = strlen(entry->d_name);
        if (length >= sizeof end && entry->d_name[0] != '.' &&
            strcmp(entry->d_name + length - (sizeof end - 1), end) == 0)
            add(names, entry->d_name, length - (sizeof end - 1));
    }
    if (folder != NULL)
        closedir(folder);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns the sorted names, each once, in one text. */
static char *joined(const struct names *names)
{
    size_t size = 1, used = 0;

    for (size_t i = 0; i < names->n; i++)
        size += strlen(names->name[i]) + 2;
    char *text = names->n > 0 ? calloc(1, size) : NULL;
    for (size_t i = 0; text != NULL && i < names->n; i++)
        if (i == 0 || strcmp(names->name[i], names->name[i - 1]) != 0)
            used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "",
                                     names->name[i]);
    return text;
}

char *cli_profile_names(void)
{
    char path[PATH_MAX], system[PATH_MAX - 16];
    struct names names = {.n = 0};

    cfg_user_folder(path);
    if (path[0] != '\0')
        add_folder(&names, path);
    if (cfg_profiles(path, sizeof path))
        add_folder(&names, path);
    if (cfg_sysconfdir(system, sizeof system)) {
        snprintf(path, sizeof path, "%s/sparseshim.d", system);
        add_folder(&names, path);
    }
    if (names.n > 0)
        qsort(names.name, names.n, sizeof *names.name, by_name);
    char *text = joined(&names);
    for (size_t i = 0; i < names.n; i++)
        free(names.name[i]);
    free(names.name);
    return text;
}
