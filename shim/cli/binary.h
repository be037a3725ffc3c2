/* Reads, by libelf, the facts of a program or library that the dynamic loader uses. A malformed
 * file gives fewer facts, never a read outside of it. */
#ifndef SHIM_CLI_BINARY_H
#define SHIM_CLI_BINARY_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>

enum binary_status {
    BINARY_OK,
    BINARY_UNREADABLE, /* errno says why */
    BINARY_NOT_ELF,
    BINARY_FOREIGN,   /* not 64 bit, or not this machine's byte order */
    BINARY_MALFORMED, /* headers point outside of the file */
};

/* NULL where there are none; the data belongs to the open file. */
struct binary_symbols {
    Elf_Data *symbols;
    Elf_Data *names;
};

/* An open file. Texts point into it; NULL where there is none. */
struct binary {
    Elf *file;
    unsigned type;    /* ET_EXEC, ET_DYN, ... */
    unsigned machine; /* EM_X86_64, ... */
    const char *interpreter;
    bool pie;
    bool symbolic; /* binds its own references to its own definitions */
    const char *soname;
    const char *rpath;
    const char *runpath;
    struct binary_symbols exported; /* what takes part in dynamic linking */
    struct binary_symbols all;      /* of the symbol table that strip removes */
    Elf_Data *dynamic;              /* section */
};

enum binary_status binary_open(struct binary *binary, const char *path);
void binary_close(struct binary *binary);

/* Walks the libraries needed: *cursor starts at 0; NULL past the last. */
const char *binary_needed(const struct binary *binary, int *cursor);

enum binary_presence { BINARY_ABSENT, BINARY_IMPORTED, BINARY_DEFINED };
enum binary_presence binary_presence(const struct binary_symbols *symbols, const char *name);

/* Tells a program without an interpreter, which takes no LD_PRELOAD, from a library and from the
 * loader itself. */
bool binary_is_static(const struct binary *binary);

/* Tells a program of musl, whose loader loads no library that is linked with glibc. */
bool binary_is_musl(const struct binary *binary);

/* Returns why the loader takes no LD_PRELOAD for this user's run of the file, such as "setuid";
 * NULL if it takes it. */
const char *binary_privilege(const char *path);

const char *binary_machine_name(unsigned machine);

#endif
