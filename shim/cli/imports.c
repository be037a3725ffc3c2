/* The imports of a Python script, as its lines have them. */
#include "shim/cli/imports.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLANKS " \t\r\n"
#define TORCH  "torch.distributed"

enum { LARGEST_SCRIPT = 1 << 20, MODULE = 200 };

static void scan(struct imports *found, const char *path, bool follow);

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Reads the module "a.b" of the script's folder: a/b.py, or a/b/__init__.py. */
static void scan_module(struct imports *found, const char *script, const char *module)
{
    static const char *const ends[] = {".py", "/__init__.py"};
    const char *slash = strrchr(script, '/');
    const int folder = slash != NULL ? (int)(slash + 1 - script) : 0;
    char name[MODULE], path[PATH_MAX];

    snprintf(name, sizeof name, "%s", module);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '.')
            *c = '/';
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (snprintf(path, sizeof path, "%.*s%s%s", folder, script, name, ends[i]) < PATH_MAX)
            scan(found, path, false);
}

/* Returns true for frameworks that call torch.distributed. */
static bool calls_torch(const char *module)
{
    static const char *const names[] = {"accelerate", "lightning", "pytorch_lightning"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(module, names[i]) && strchr(".", module[strlen(names[i])]) != NULL)
            return true;
    return false;
}

static void take_module(struct imports *found, const char *script, const char *name, bool follow)
{
    char module[MODULE];

    name += strspn(name, BLANKS ".");
    snprintf(module, sizeof module, "%.*s", (int)strcspn(name, BLANKS ",;("), name);
    found->mpi4py = found->mpi4py || strcmp(module, "mpi4py") == 0 || begins(module, "mpi4py.");
    found->torch = found->torch || calls_torch(module);
    found->horovod = found->horovod || strcmp(module, "horovod") == 0 || begins(module, "horovod.");
    if (follow && module[0] != '\0')
        scan_module(found, script, module);
}

static void take_line(struct imports *found, const char *script, char *line, bool follow)
{
    const char *from = "from torch import", *rest;

    line += strspn(line, BLANKS);
    if (*line == '#')
        return;
    found->torch = found->torch || strstr(line, TORCH) != NULL ||
                   strstr(line, "DistributedDataParallel") != NULL ||
                   (begins(line, from) && strstr(line, " distributed") != NULL) ||
                   (begins(line, "from transformers") && strstr(line, "Trainer") != NULL);
    found->objects = found->objects || strstr(line, ".allreduce(") != NULL;
    if (begins(line, "from "))
        take_module(found, script, line + 5, follow);
    if (!begins(line, "import "))
        return;
    for (rest = line + 6; rest != NULL; rest = strchr(rest, ','))
        take_module(found, script, ++rest, follow);
}

static void scan(struct imports *found, const char *path, bool follow)
{
    struct stat st;
    char *line = NULL;
    size_t size = 0;
    FILE *file;

    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > LARGEST_SCRIPT)
        return;
    file = fopen(path, "re");
    while (file != NULL && getline(&line, &size, file) >= 0)
        take_line(found, path, line, follow);
    free(line);
    if (file != NULL)
        fclose(file);
}

struct imports imports_of(const char *script)
{
    struct imports found = {0};

    scan(&found, script, true);
    return found;
}

bool imports_has_mpi4py(const char *python)
{
    const char *slash = strrchr(python, '/');
    char pattern[PATH_MAX + 64];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%.*s../lib*/python3*/*-packages/mpi4py",
             slash ? (int)(slash + 1 - python) : 0, python);
    bool any = glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    return any;
}

void imports_print(const struct imports *i)
{
    printf("imports:      %s%s%s%s\n", i->mpi4py ? " mpi4py" : "", i->horovod ? " horovod" : "",
           i->torch ? " torch.distributed" : "",
           i->mpi4py || i->horovod || i->torch ? "" : " no mpi4py, horovod or torch.distributed");
    if (i->mpi4py && i->objects)
        puts("objects:       comm.allreduce of mpi4py sends pickled objects, which pass through; "
             "use comm.Allreduce, on arrays");
}
