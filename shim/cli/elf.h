/* Reads what the dynamic loader reads of a program or library. Every offset and string is checked
 * against the file: a malformed file gives fewer facts, never a read outside of it. */
#ifndef SHIM_CLI_ELF_H
#define SHIM_CLI_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum elf_status {
    ELF_OK,
    ELF_UNREADABLE, /* errno says why */
    ELF_NOT_ELF,
    ELF_FOREIGN,   /* not 64 bit, or not this machine's byte order */
    ELF_MALFORMED, /* headers point outside of the file */
};

struct elf_symbols {
    uint64_t at; /* offset in the file */
    uint64_t count;
    uint64_t strings; /* offset */
    uint64_t strings_size;
};

/* An open file, mapped. Texts point into the mapping; NULL where there is none. */
struct elf {
    const unsigned char *data;
    size_t size;
    unsigned type;    /* ET_EXEC, ET_DYN, ... */
    unsigned machine; /* EM_X86_64, ... */
    const char *interpreter;
    bool dynamic; /* has a dynamic section */
    bool pie;
    bool symbolic; /* binds its own references to its own definitions */
    const char *soname;
    const char *rpath;
    const char *runpath;
    struct elf_symbols exported; /* what takes part in dynamic linking */
    struct elf_symbols all;      /* of the symbol table that strip removes; count 0 then */
    uint64_t dynamic_at;
    uint64_t dynamic_count;
};

enum elf_status elf_open(struct elf *elf, const char *path);
void elf_close(struct elf *elf);

/* Walks the libraries needed: *cursor starts at 0; NULL past the last. */
const char *elf_needed(const struct elf *elf, uint64_t *cursor);

enum elf_presence { ELF_ABSENT, ELF_IMPORTED, ELF_DEFINED };
enum elf_presence elf_presence(const struct elf *elf, const struct elf_symbols *symbols,
                               const char *name);

const char *elf_machine_name(unsigned machine);

#endif
