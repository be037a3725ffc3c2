/* Finds libsparseshim.so from the place of this program. */
#include "shim/cli/cli.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"

#define LIBRARY "libsparseshim.so"

/* Writes the directory of this program, "" if /proc does not show it. */
static void command_directory(char *directory, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", directory, size - 1);
    directory[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(directory, '/');
    if (slash != NULL)
        *slash = '\0';
}

enum { PLACES = 2 };

/* Writes the directories to look in: that of the installation or the build, then that of a copied
 * tree. A directory that is not known is "". */
static void find_places(char place[PLACES][PATH_MAX])
{
    char own[PATH_MAX - 8];
    command_directory(own, sizeof own);
    if (!cfg_libdir(place[0], PATH_MAX))
        place[0][0] = '\0';
    snprintf(place[1], PATH_MAX, "%s%s", own, own[0] != '\0' ? "/../lib" : "");
}

char *cli_find_library(void)
{
    char place[PLACES][PATH_MAX];
    char *found = NULL;
    find_places(place);
    for (int i = 0; i < PLACES && found == NULL; i++) {
        char *path = NULL;
        if (place[i][0] == '\0' || asprintf(&path, "%s/%s", place[i], LIBRARY) < 0)
            continue;
        if (access(path, R_OK) == 0)
            found = realpath(path, NULL);
        free(path);
    }
    return found;
}

char *cli_library_places(void)
{
    char place[PLACES][PATH_MAX];
    char *text = NULL;
    find_places(place);
    if (asprintf(&text, "%s and %s", place[0], place[1]) < 0)
        return NULL;
    return text;
}

bool cli_is_library(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash != NULL ? slash + 1 : path, LIBRARY) == 0;
}

bool cli_must_be_first(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash != NULL ? slash + 1 : path, "libasan.so", 10) == 0;
}

static size_t append(char *list, size_t used, size_t room, const char *entry)
{
    return used + (size_t)snprintf(list + used, room - used, "%s%s", used > 0 ? ":" : "", entry);
}

char *cli_preload(const char *library, const char *before)
{
    size_t room = strlen(library) + (before != NULL ? strlen(before) : 0) + 2;
    size_t used = 0;
    char *list = malloc(room);
    char *copy = strdup(before != NULL ? before : "");
    char *at = NULL;
    if (list == NULL || copy == NULL) {
        free(list);
        free(copy);
        return NULL;
    }
    char *entry = strtok_r(copy, ": ", &at);
    if (entry != NULL && cli_must_be_first(entry)) {
        used = append(list, used, room, entry);
        entry = strtok_r(NULL, ": ", &at);
    }
    used = append(list, used, room, library);
    for (; entry != NULL; entry = strtok_r(NULL, ": ", &at))
        if (!cli_is_library(entry))
            used = append(list, used, room, entry);
    free(copy);
    return list;
}
