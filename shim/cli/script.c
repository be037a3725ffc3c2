/* Search along PATH, and the first line of a script. */
#include "shim/cli/script.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool executable_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

bool script_locate(const char *name, char path[PATH_MAX])
{
    const char *list = strchr(name, '/') == NULL ? getenv("PATH") : NULL;
    while (list != NULL) {
        size_t length = strcspn(list, ":");
        int n =
            snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, list, length > 0 ? "/" : "", name);
        if (n < PATH_MAX && executable_file(path))
            return true;
        list = list[length] == ':' ? list + length + 1 : NULL;
    }
    int n = snprintf(path, PATH_MAX, "%s", name);
    return n < PATH_MAX && access(path, F_OK) == 0;
}

static ssize_t first_bytes(const char *path, char *line, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, line, size - 1);
    close(fd);
    line[n > 0 ? n : 0] = '\0';
    return n;
}

bool script_interpreter(const char *script, char interpreter[PATH_MAX])
{
    char line[1024];
    char *next;
    if (first_bytes(script, line, sizeof line) < 3 || memcmp(line, "#!", 2) != 0)
        return false;
    line[strcspn(line, "\r\n")] = '\0';
    const char *word = strtok_r(line + 2, " \t", &next);
    if (word == NULL)
        return false;
    const char *base = strrchr(word, '/');
    if (strcmp(base != NULL ? base + 1 : word, "env") == 0) {
        const char *program = strtok_r(NULL, " \t", &next);
        while (program != NULL && (program[0] == '-' || strchr(program, '=') != NULL))
            program = strtok_r(NULL, " \t", &next);
        if (program != NULL)
            word = program;
    }
    return script_locate(word, interpreter);
}

static bool names_python(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;

    return strncmp(base, "python", 6) == 0 || strncmp(base, "pypy", 4) == 0;
}

static bool is_python_source(const char *path)
{
    size_t n = strlen(path);

    return n > 3 && strcmp(path + n - 3, ".py") == 0;
}

bool script_names_python(const char *name)
{
    return names_python(name) || is_python_source(name);
}

const char *script_missing_word(const char *name)
{
    char path[PATH_MAX], interpreter[PATH_MAX];
    struct stat st;

    if (!script_locate(name, path) || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return "";
    if (is_python_source(path) &&
        (!executable_file(path) || !script_interpreter(path, interpreter)))
        return SCRIPT_PYTHON;
    return strchr(path, '/') == NULL && executable_file(path) ? "./" : "";
}

/* The kernel follows at most a few interpreters. */
bool script_follow(char path[PATH_MAX], struct script *script)
{
    char next[PATH_MAX];

    *script = (struct script){.python = names_python(path)};
    for (int depth = 0; depth < 5; depth++) {
        bool found = script_interpreter(path, next);
        if (!found && depth == 0 && is_python_source(path))
            found = script->bare = script_locate("python3", next);
        if (!found)
            break;
        printf("script:        %s is run by %s\n", path, next);
        script->is_one = true;
        script->python = script->python || names_python(next);
        script->source = script->source || (depth == 0 && names_python(next));
        memcpy(path, next, sizeof next);
    }
    return access(path, R_OK) == 0;
}
