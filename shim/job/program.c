#include "shim/job/program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Reads the arguments of this process, each ended by a null byte, as far as there is room. Returns
 * their bytes. */
static size_t arguments(char *text, size_t size)
{
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, text, size - 1) : 0;

    if (file >= 0)
        close(file);
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* Finds the script or module that Python runs: the first argument that is no option, or the one
 * behind -m. */
static bool script_of(char *name, size_t size)
{
    char text[4096];
    size_t n = arguments(text, sizeof text);
    bool module = false;
    bool value = false; /* the argument is the value of the option before */

    for (size_t at = strlen(text) + 1; at < n; at += strlen(text + at) + 1) {
        const char *argument = text + at;
        if (value) {
            value = false;
            continue;
        }
        if (module || argument[0] != '-') {
            snprintf(name, size, "%s", base_of(argument));
            return true;
        }
        module = strcmp(argument, "-m") == 0;
        value = strcmp(argument, "-W") == 0 || strcmp(argument, "-X") == 0;
        if (strcmp(argument, "-c") == 0)
            return false;
    }
    return false;
}

void shim_program_name(char *name, size_t size)
{
    const char *program = program_invocation_short_name;

    if (strncmp(program, "python", 6) != 0 || !script_of(name, size))
        snprintf(name, size, "%s", program);
}

bool shim_program_is_served(const char *patterns)
{
    char name[NAME_MAX + 1];

    shim_program_name(name, sizeof name);
    return cfg_serves(patterns, name);
}
