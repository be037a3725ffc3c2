/* The directories of this installation. Each is given as an absolute path, or relative to the
 * library or the command, so that an installed tree may be moved. The Makefile compiles this file
 * once for the library and once for the command. */
#include "config/parts.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SPARSESHIM_SYSCONFDIR
#define SPARSESHIM_SYSCONFDIR "/usr/local/etc"
#endif
#ifndef SPARSESHIM_LIBDIR
#define SPARSESHIM_LIBDIR "/usr/local/lib"
#endif
#ifndef SPARSESHIM_LIBEXECDIR
#define SPARSESHIM_LIBEXECDIR "/usr/local/libexec/sparseshim"
#endif

/* The folder of profiles in a build tree; "" in an installed tree. */
#ifndef SPARSESHIM_PROFILES
#define SPARSESHIM_PROFILES ""
#endif

static const char own[] = "a byte of the file that this is linked into";

/* Returns the path of the file in a line of /proc/self/maps that covers `own`, or NULL. */
static char *path_of_line(char *line)
{
    const uintptr_t address = (uintptr_t)own;
    static const char deleted[] = " (deleted)"; /* the file was replaced, as by an update */
    char *behind;
    uintptr_t low = strtoull(line, &behind, 16);
    uintptr_t high = *behind == '-' ? strtoull(behind + 1, &behind, 16) : 0;
    char *path = strchr(behind, '/');
    if (address < low || address >= high || path == NULL)
        return NULL;
    path[strcspn(path, "\n")] = '\0';
    size_t n = strlen(path);
    if (n > sizeof deleted && strcmp(path + n - (sizeof deleted - 1), deleted) == 0)
        path[n - (sizeof deleted - 1)] = '\0';
    return path;
}

/* Writes the path of this file as the kernel has mapped it. The names that the linker and argv[0]
 * know may be relative to a former current directory. */
static bool mapped_path(char *path, size_t size)
{
    char line[PATH_MAX + 128];
    const char *found = NULL;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL)
        return false;
    while (found == NULL && fgets(line, sizeof line, maps) != NULL)
        found = path_of_line(line);
    if (found != NULL)
        snprintf(path, size, "%s", found);
    fclose(maps);
    return found != NULL;
}

static bool user_path(char path[PATH_MAX])
{
    Dl_info info;
    if (mapped_path(path, PATH_MAX))
        return true;
    return dladdr(own, &info) != 0 && info.dli_fname != NULL && info.dli_fname[0] == '/' &&
           realpath(info.dli_fname, path) != NULL;
}

bool cfg_path(char *path, size_t size, const char *file, const char *way)
{
    const char *slash = strrchr(file, '/');
    size_t n = slash != NULL ? (size_t)(slash - file) : 0;
    while (strncmp(way, "..", 2) == 0 && (way[2] == '/' || way[2] == '\0')) {
        while (n > 0 && file[n - 1] != '/')
            n--;
        n -= n > 0;
        way += way[2] == '/' ? 3 : 2;
    }
    if (strcmp(way, ".") == 0)
        way++;
    int length =
        snprintf(path, size, "%.*s%s%s", (int)n, file, *way != '\0' || n == 0 ? "/" : "", way);
    return length > 0 && (size_t)length < size;
}

static bool find(char *path, size_t size, const char *way)
{
    char file[PATH_MAX];
    int error = errno;
    bool known = way[0] == '/' ? snprintf(path, size, "%s", way) < (int)size
                               : user_path(file) && cfg_path(path, size, file, way);
    errno = error;
    return known;
}

bool cfg_sysconfdir(char *path, size_t size)
{
    return find(path, size, SPARSESHIM_SYSCONFDIR);
}

bool cfg_libdir(char *path, size_t size)
{
    return find(path, size, SPARSESHIM_LIBDIR);
}

bool cfg_libexecdir(char *path, size_t size)
{
    return find(path, size, SPARSESHIM_LIBEXECDIR);
}

bool cfg_profiles(char *path, size_t size)
{
    return SPARSESHIM_PROFILES[0] != '\0' && find(path, size, SPARSESHIM_PROFILES);
}

void cfg_user_folder(char path[PATH_MAX])
{
    const char *config = secure_getenv("XDG_CONFIG_HOME");
    const char *home = secure_getenv("HOME");
    int length = 0;

    path[0] = '\0';
    if (config != NULL && config[0] == '/')
        length = snprintf(path, PATH_MAX, "%s/sparseshim", config);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, PATH_MAX, "%s/.config/sparseshim", home);
    if (length >= PATH_MAX)
        path[0] = '\0';
}
