/* A program and all libraries the dynamic loader would load with it, in the order in which it looks
 * for symbols. */
#ifndef SHIM_CLI_DEPS_H
#define SHIM_CLI_DEPS_H

#include "shim/cli/binary.h"

struct deps_object {
    char *path;
    char *name; /* as the object that needs it names it */
    struct binary binary;
    size_t loader;  /* index of the object that needs it */
    bool preloaded; /* named by LD_PRELOAD */
};

struct deps {
    struct deps_object *objects; /* the first is the program */
    size_t count;
    char **missing; /* names that no search directory has */
    size_t n_missing;
    char **system; /* the system's search directories */
    size_t n_system;
    bool out_of_memory;
};

/* Opens the program alone and returns the status of binary_open. Call deps_free in any case. */
enum binary_status deps_open(struct deps *deps, const char *program);

/* Adds LD_PRELOAD's libraries and then, breadth first, what each object needs: along RPATH,
 * LD_LIBRARY_PATH, RUNPATH, the directories of /etc/ld.so.conf, and the default ones. If memory is
 * short, sets out_of_memory, and the list is incomplete. */
void deps_resolve(struct deps *deps);

void deps_free(struct deps *deps);

#endif
