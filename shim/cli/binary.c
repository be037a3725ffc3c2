/* ELF files as far as the loader and nm look at them: what they need, define and are. */
#include "shim/cli/binary.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *string_at(const Elf_Data *strings, uint64_t offset)
{
    if (strings == NULL || strings->d_buf == NULL || offset >= strings->d_size)
        return NULL;
    const char *s = (const char *)strings->d_buf + offset;
    return memchr(s, '\0', strings->d_size - offset) != NULL ? s : NULL;
}

static size_t file_size(const struct binary *binary)
{
    size_t size;
    return elf_rawfile(binary->file, &size) != NULL ? size : 0;
}

/* Part of the file, by offset: of stripped section headers libelf itself makes nothing. */
static Elf_Data *part(const struct binary *binary, uint64_t offset, uint64_t size, Elf_Type type)
{
    if (offset > INT64_MAX || size > file_size(binary))
        return NULL;
    return elf_getdata_rawchunk(binary->file, (int64_t)offset, size, type);
}

/* Offset in the file of what the loader finds at an address; 0 where no segment covers it. */
static uint64_t offset_of(const struct binary *binary, uint64_t address)
{
    GElf_Phdr segment;
    for (int i = 0; gelf_getphdr(binary->file, i, &segment) != NULL; i++)
        if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
            address - segment.p_vaddr < segment.p_filesz)
            return segment.p_offset + (address - segment.p_vaddr);
    return 0;
}

static Elf_Scn *section_of_type(const struct binary *binary, unsigned type, GElf_Shdr *header)
{
    Elf_Scn *section = NULL;
    while ((section = elf_nextscn(binary->file, section)) != NULL)
        if (gelf_getshdr(section, header) != NULL && header->sh_type == type)
            return section;
    return NULL;
}

/* The dynamic section does not say how many symbols there are: DT_HASH does, the section header
 * does, and where both are missing or wrong the string table usually follows the symbols. */
static uint64_t count_symbols(const struct binary *binary, uint64_t at, uint64_t strings,
                              uint64_t hash)
{
    uint64_t most = at < file_size(binary) ? (file_size(binary) - at) / sizeof(Elf64_Sym) : 0;
    Elf_Data *counts = hash != 0 ? part(binary, hash, 2 * sizeof(Elf64_Word), ELF_T_WORD) : NULL;
    uint64_t chains = counts != NULL ? ((const Elf64_Word *)counts->d_buf)[1] : 0;
    GElf_Shdr table;
    if (chains > 0 && chains <= most)
        return chains;
    if (section_of_type(binary, SHT_DYNSYM, &table) != NULL && table.sh_offset == at &&
        table.sh_size / sizeof(Elf64_Sym) <= most)
        return table.sh_size / sizeof(Elf64_Sym);
    uint64_t between = strings > at ? (strings - at) / sizeof(Elf64_Sym) : 0;
    return between < most ? between : most;
}

static bool dynamic_entry(const struct binary *binary, int i, GElf_Dyn *entry)
{
    return gelf_getdyn(binary->dynamic, i, entry) != NULL && entry->d_tag != DT_NULL;
}

static void read_dynamic_symbols(struct binary *binary)
{
    uint64_t symbols = 0;
    uint64_t strings = 0;
    uint64_t strings_size = 0;
    uint64_t hash = 0;
    GElf_Dyn entry;
    for (int i = 0; dynamic_entry(binary, i, &entry); i++) {
        if (entry.d_tag == DT_SYMTAB)
            symbols = offset_of(binary, entry.d_un.d_ptr);
        else if (entry.d_tag == DT_STRTAB)
            strings = offset_of(binary, entry.d_un.d_ptr);
        else if (entry.d_tag == DT_STRSZ)
            strings_size = entry.d_un.d_val;
        else if (entry.d_tag == DT_HASH)
            hash = offset_of(binary, entry.d_un.d_ptr);
    }
    binary->exported.names = part(binary, strings, strings_size, ELF_T_BYTE);
    if (symbols != 0)
        binary->exported.symbols =
            part(binary, symbols, count_symbols(binary, symbols, strings, hash) * sizeof(Elf64_Sym),
                 ELF_T_SYM);
}

static void read_dynamic(struct binary *binary)
{
    GElf_Dyn entry;
    read_dynamic_symbols(binary);
    for (int i = 0; dynamic_entry(binary, i, &entry); i++) {
        const char *text = string_at(binary->exported.names, entry.d_un.d_val);
        if (entry.d_tag == DT_SONAME)
            binary->soname = text;
        else if (entry.d_tag == DT_RPATH)
            binary->rpath = text;
        else if (entry.d_tag == DT_RUNPATH)
            binary->runpath = text;
        else if (entry.d_tag == DT_SYMBOLIC ||
                 (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_SYMBOLIC) != 0))
            binary->symbolic = true;
        else if (entry.d_tag == DT_FLAGS_1)
            binary->pie = (entry.d_un.d_val & DF_1_PIE) != 0;
    }
}

static bool read_segments(struct binary *binary, size_t count)
{
    GElf_Phdr segment;
    for (int i = 0; i < (int)count; i++) {
        if (gelf_getphdr(binary->file, i, &segment) == NULL)
            return false;
        if (segment.p_type == PT_INTERP)
            binary->interpreter =
                string_at(part(binary, segment.p_offset, segment.p_filesz, ELF_T_BYTE), 0);
        Elf_Data *dynamic = segment.p_type == PT_DYNAMIC
                                ? part(binary, segment.p_offset, segment.p_filesz, ELF_T_DYN)
                                : NULL;
        if (dynamic != NULL)
            binary->dynamic = dynamic;
    }
    return true;
}

static void read_symbol_table(struct binary *binary)
{
    GElf_Shdr table;
    Elf_Scn *section = section_of_type(binary, SHT_SYMTAB, &table);
    if (section == NULL)
        return;
    binary->all.symbols = elf_getdata(section, NULL);
    binary->all.names = elf_rawdata(elf_getscn(binary->file, table.sh_link), NULL);
}

static enum binary_status read_headers(struct binary *binary)
{
    static const uint16_t one = 1;
    const unsigned order = *(const unsigned char *)&one == 1 ? ELFDATA2LSB : ELFDATA2MSB;
    GElf_Ehdr header;
    size_t segments;
    const char *ident = elf_getident(binary->file, NULL);
    if (ident[EI_CLASS] != ELFCLASS64 || (unsigned char)ident[EI_DATA] != order)
        return BINARY_FOREIGN;
    if (gelf_getehdr(binary->file, &header) == NULL ||
        elf_getphdrnum(binary->file, &segments) != 0 ||
        (segments > 0 && header.e_phentsize != sizeof(Elf64_Phdr)) ||
        !read_segments(binary, segments))
        return BINARY_MALFORMED;
    binary->type = header.e_type;
    binary->machine = header.e_machine;
    if (binary->dynamic != NULL)
        read_dynamic(binary);
    read_symbol_table(binary);
    return BINARY_OK;
}

static enum binary_status read_file(struct binary *binary, int fd)
{
    size_t size;
    elf_version(EV_CURRENT);
    binary->file = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    if (binary->file == NULL || elf_cntl(binary->file, ELF_C_FDREAD) != 0)
        return BINARY_MALFORMED;
    if (elf_kind(binary->file) == ELF_K_ELF)
        return read_headers(binary);
    const char *start = elf_rawfile(binary->file, &size);
    return start != NULL && size >= SELFMAG && memcmp(start, ELFMAG, SELFMAG) == 0
               ? BINARY_MALFORMED
               : BINARY_NOT_ELF;
}

enum binary_status binary_open(struct binary *binary, const char *path)
{
    struct stat st;
    *binary = (struct binary){.file = NULL};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return BINARY_UNREADABLE;
    enum binary_status status = BINARY_UNREADABLE;
    if (fstat(fd, &st) == 0) {
        if (S_ISREG(st.st_mode))
            status = st.st_size > 0 ? read_file(binary, fd) : BINARY_NOT_ELF;
        else
            errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    }
    int error = errno;
    if (status != BINARY_OK)
        binary_close(binary);
    close(fd);
    errno = error;
    return status;
}

void binary_close(struct binary *binary)
{
    elf_end(binary->file);
    *binary = (struct binary){.file = NULL};
}

const char *binary_needed(const struct binary *binary, int *cursor)
{
    GElf_Dyn entry;
    while (dynamic_entry(binary, *cursor, &entry)) {
        const char *name = string_at(binary->exported.names, entry.d_un.d_val);
        ++*cursor;
        if (entry.d_tag == DT_NEEDED && name != NULL)
            return name;
    }
    return NULL;
}

enum binary_presence binary_presence(const struct binary_symbols *symbols, const char *name)
{
    enum binary_presence presence = BINARY_ABSENT;
    GElf_Sym symbol;
    for (int i = 0; gelf_getsym(symbols->symbols, i, &symbol) != NULL; i++) {
        const char *s = string_at(symbols->names, symbol.st_name);
        if (s == NULL || strcmp(s, name) != 0)
            continue;
        if (symbol.st_shndx != SHN_UNDEF)
            return BINARY_DEFINED;
        presence = BINARY_IMPORTED;
    }
    return presence;
}

bool binary_is_static(const struct binary *binary)
{
    bool program = binary->type == ET_EXEC || (binary->type == ET_DYN && binary->pie);
    return program && binary->interpreter == NULL;
}

bool binary_is_musl(const struct binary *binary)
{
    static const char loader[] = "ld-musl-";
    const char *path = binary->interpreter;
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    return path != NULL &&
           strncmp(slash != NULL ? slash + 1 : path, loader, sizeof loader - 1) == 0;
}

const char *binary_privilege(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return NULL;
    if ((st.st_mode & S_ISUID) != 0 && st.st_uid != getuid())
        return "setuid";
    if ((st.st_mode & S_ISGID) != 0 && (st.st_mode & S_IXGRP) != 0 && st.st_gid != getgid())
        return "setgid";
    if (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        return "given file capabilities";
    return NULL;
}

const char *binary_machine_name(unsigned machine)
{
    switch (machine) {
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return "aarch64";
    case EM_PPC64:
        return "ppc64";
    case EM_RISCV:
        return "riscv";
    default:
        return "another machine";
    }
}
