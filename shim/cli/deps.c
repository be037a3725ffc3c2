/* The search of the dynamic loader for a program's libraries, as ld.so(8) describes it. */
#include "shim/cli/deps.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool add_text(struct deps *deps, char ***list, size_t *count, const char *text)
{
    char **longer = realloc(*list, (*count + 1) * sizeof *longer);
    if (longer != NULL)
        *list = longer;
    char *copy = strdup(text);
    if (longer == NULL || copy == NULL) {
        deps->out_of_memory = true;
        free(copy);
        return false;
    }
    (*list)[(*count)++] = copy;
    return true;
}

/* Takes over the open file on success. */
static bool add_object(struct deps *deps, const char *path, const char *name, size_t loader,
                       const struct binary *binary)
{
    struct deps_object *more = realloc(deps->objects, (deps->count + 1) * sizeof *more);
    if (more != NULL)
        deps->objects = more;
    char *path_copy = strdup(path);
    char *name_copy = strdup(name);
    if (more == NULL || path_copy == NULL || name_copy == NULL) {
        deps->out_of_memory = true;
        free(path_copy);
        free(name_copy);
        return false;
    }
    deps->objects[deps->count++] = (struct deps_object){.path = path_copy,
                                                        .name = name_copy,
                                                        .binary = *binary,
                                                        .loader = loader,
                                                        .preloaded = false};
    return true;
}

enum binary_status deps_open(struct deps *deps, const char *program)
{
    struct binary binary;
    *deps = (struct deps){.count = 0};
    enum binary_status status = binary_open(&binary, program);
    if (status == BINARY_OK && !add_object(deps, program, program, 0, &binary)) {
        binary_close(&binary);
        return BINARY_UNREADABLE;
    }
    return status;
}

/* /etc/ld.so.conf: one directory per line, `include PATTERN`, # begins a comment. */
static void read_ld_so_conf(struct deps *deps, const char *path, int depth)
{
    FILE *file = depth < 8 ? fopen(path, "r") : NULL;
    char line[PATH_MAX];
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "#\n")] = '\0';
        char *word = line + strspn(line, " \t");
        word[strcspn(word, "\r")] = '\0';
        if (strncmp(word, "include ", 8) == 0 || strncmp(word, "include\t", 8) == 0) {
            char pattern[2 * PATH_MAX];
            const char *slash = strrchr(path, '/');
            word += 8 + strspn(word + 8, " \t");
            snprintf(pattern, sizeof pattern, "%.*s%s",
                     word[0] == '/' || slash == NULL ? 0 : (int)(slash - path) + 1, path, word);
            glob_t found;
            if (glob(pattern, 0, NULL, &found) == 0) {
                for (size_t i = 0; i < found.gl_pathc; i++)
                    read_ld_so_conf(deps, found.gl_pathv[i], depth + 1);
                globfree(&found);
            }
        } else if (word[0] == '/') {
            word[strcspn(word, " \t=")] = '\0';
            add_text(deps, &deps->system, &deps->n_system, word);
        }
    }
    fclose(file);
}

static void find_system_directories(struct deps *deps)
{
    static const char *const standard[] = {"/lib64", "/usr/lib64", "/lib", "/usr/lib"};
    read_ld_so_conf(deps, "/etc/ld.so.conf", 0);
    for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++)
        add_text(deps, &deps->system, &deps->n_system, standard[i]);
}

/* As the loader does, passes over files that are no libraries for the program's machine. */
static bool try_path(struct deps *deps, const char *path, const char *name, size_t loader)
{
    struct binary binary;
    struct stat st;
    struct stat other;
    if (binary_open(&binary, path) != BINARY_OK)
        return false;
    if (binary.machine != deps->objects[0].binary.machine) {
        binary_close(&binary);
        return false;
    }
    bool known = false;
    if (stat(path, &st) == 0)
        for (size_t i = 0; i < deps->count && !known; i++)
            known = stat(deps->objects[i].path, &other) == 0 && other.st_ino == st.st_ino &&
                    other.st_dev == st.st_dev;
    if (known || !add_object(deps, path, name, loader, &binary))
        binary_close(&binary);
    return true;
}

static bool try_directory(struct deps *deps, const char *directory, const char *name, size_t loader)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory[0] != '\0' ? directory : ".", name);
    return try_path(deps, path, name, loader);
}

/* Replaces $ORIGIN by the directory of the object that contains it. */
static void expand(const char *element, size_t length, const char *object, char *out, size_t size)
{
    static const char *const tokens[] = {"$ORIGIN", "${ORIGIN}"};
    const char *end = element + length;
    char real[PATH_MAX];
    size_t used = 0;
    if (realpath(object, real) == NULL)
        memcpy(real, "/", sizeof "/");
    char *slash = strrchr(real, '/');
    slash[slash == real ? 1 : 0] = '\0';
    while (element < end && used + 1 < size) {
        size_t matched = 0;
        for (size_t t = 0; t < 2 && matched == 0; t++)
            if ((size_t)(end - element) >= strlen(tokens[t]) &&
                memcmp(element, tokens[t], strlen(tokens[t])) == 0)
                matched = strlen(tokens[t]);
        if (matched == 0) {
            out[used++] = *element++;
            continue;
        }
        element += matched;
        size_t n = strlen(real);
        if (n >= size - used)
            break;
        memcpy(out + used, real, n);
        used += n;
    }
    out[used] = '\0';
}

static bool try_list(struct deps *deps, const char *list, const char *separators, size_t owner,
                     const char *name, size_t loader)
{
    char directory[PATH_MAX];
    if (list == NULL || *list == '\0')
        return false;
    for (;;) {
        size_t length = strcspn(list, separators);
        expand(list, length, deps->objects[owner].path, directory, sizeof directory);
        if (try_directory(deps, directory, name, loader))
            return true;
        if (list[length] == '\0')
            return false;
        list += length + 1;
    }
}

static bool loaded(const struct deps *deps, const char *name)
{
    for (size_t i = 1; i < deps->count; i++) {
        const char *soname = deps->objects[i].binary.soname;
        if (strcmp(deps->objects[i].name, name) == 0 ||
            (soname != NULL && strcmp(soname, name) == 0))
            return true;
    }
    return false;
}

/* ld.so(8): RPATH of the object and of those that led to it, unless the object has a RUNPATH;
 * LD_LIBRARY_PATH; RUNPATH; then the system's directories. */
static void find(struct deps *deps, const char *name, size_t loader)
{
    if (loaded(deps, name))
        return;
    if (strchr(name, '/') != NULL) {
        char path[PATH_MAX];
        expand(name, strlen(name), deps->objects[loader].path, path, sizeof path);
        if (!try_path(deps, path, name, loader))
            add_text(deps, &deps->missing, &deps->n_missing, name);
        return;
    }
    if (deps->objects[loader].binary.runpath == NULL) {
        for (size_t owner = loader;; owner = deps->objects[owner].loader) {
            const struct binary *binary = &deps->objects[owner].binary;
            if (binary->runpath == NULL && try_list(deps, binary->rpath, ":", owner, name, loader))
                return;
            if (owner == 0)
                break;
        }
    }
    if (try_list(deps, getenv("LD_LIBRARY_PATH"), ":;", 0, name, loader) ||
        try_list(deps, deps->objects[loader].binary.runpath, ":", loader, name, loader))
        return;
    for (size_t i = 0; i < deps->n_system; i++)
        if (try_directory(deps, deps->system[i], name, loader))
            return;
    for (size_t i = 0; i < deps->n_missing; i++)
        if (strcmp(deps->missing[i], name) == 0)
            return;
    add_text(deps, &deps->missing, &deps->n_missing, name);
}

static void add_preloads(struct deps *deps)
{
    char name[PATH_MAX];
    const char *list = getenv("LD_PRELOAD");
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ": ");
        size_t before = deps->count;
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1),
                 list);
        if (length > 0)
            find(deps, name, 0);
        if (deps->count > before)
            deps->objects[before].preloaded = true;
        list += length;
        list += strspn(list, ": ");
    }
}

void deps_resolve(struct deps *deps)
{
    find_system_directories(deps);
    add_preloads(deps);
    for (size_t i = 0; i < deps->count && !deps->out_of_memory; i++) {
        const char *name;
        int cursor = 0;
        while ((name = binary_needed(&deps->objects[i].binary, &cursor)) != NULL)
            find(deps, name, i);
    }
}

static void free_texts(char **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(list[i]);
    free(list);
}

void deps_free(struct deps *deps)
{
    for (size_t i = 0; i < deps->count; i++) {
        binary_close(&deps->objects[i].binary);
        free(deps->objects[i].path);
        free(deps->objects[i].name);
    }
    free(deps->objects);
    free_texts(deps->missing, deps->n_missing);
    free_texts(deps->system, deps->n_system);
    *deps = (struct deps){.count = 0};
}
