/* Where libsparseshim.so is, seen from this program. */
#include "shim/cli/cli.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SPARSESHIM_LIBDIR
#define SPARSESHIM_LIBDIR "/usr/local/lib"
#endif

#define LIBRARY "libsparseshim.so"

/* Directory of this program; empty where /proc does not tell. */
static void own_directory(char *directory, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", directory, size - 1);
    directory[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(directory, '/');
    if (slash != NULL)
        *slash = '\0';
}

char *cli_find_library(void)
{
    char own[PATH_MAX];
    char path[3][PATH_MAX + 32];
    own_directory(own, sizeof own);
    snprintf(path[0], sizeof path[0], "%s/" LIBRARY, own);
    snprintf(path[1], sizeof path[1], "%s/../lib/" LIBRARY, own);
    snprintf(path[2], sizeof path[2], "%s/" LIBRARY, SPARSESHIM_LIBDIR);
    for (int i = own[0] != '\0' ? 0 : 2; i < 3; i++)
        if (access(path[i], R_OK) == 0)
            return realpath(path[i], NULL);
    return NULL;
}

char *cli_library_places(void)
{
    char own[PATH_MAX];
    char *text = NULL;
    own_directory(own, sizeof own);
    if (asprintf(&text, "%s, %s/../lib and %s", own, own, SPARSESHIM_LIBDIR) < 0)
        return NULL;
    return text;
}

bool cli_is_library(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash != NULL ? slash + 1 : path, LIBRARY) == 0;
}

char *cli_preload(const char *library, const char *before)
{
    size_t room = strlen(library) + (before != NULL ? strlen(before) : 0) + 2;
    size_t used = strlen(library);
    char *list = malloc(room);
    char *rest = before != NULL ? strdup(before) : NULL;
    char *at = NULL;
    if (list == NULL || (before != NULL && rest == NULL)) {
        free(list);
        free(rest);
        return NULL;
    }
    memcpy(list, library, used + 1);
    for (char *entry = rest != NULL ? strtok_r(rest, ": ", &at) : NULL; entry != NULL;
         entry = strtok_r(NULL, ": ", &at))
        if (!cli_is_library(entry))
            used += (size_t)snprintf(list + used, room - used, ":%s", entry);
    free(rest);
    return list;
}
