/* Headers, dynamic section and symbol tables of a mapped ELF file. */
#include "shim/cli/elf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool inside(const struct elf *elf, uint64_t at, uint64_t n, uint64_t each)
{
    return at <= elf->size && (n == 0 || each <= (elf->size - at) / n);
}

/* Copies out of the mapping: nothing there need be aligned. */
static bool fetch(const struct elf *elf, uint64_t at, void *to, size_t n)
{
    if (!inside(elf, at, 1, n))
        return false;
    memcpy(to, elf->data + at, n);
    return true;
}

static const char *string_at(const struct elf *elf, uint64_t table, uint64_t table_size,
                             uint64_t offset)
{
    if (!inside(elf, table, 1, table_size) || offset >= table_size)
        return NULL;
    const char *s = (const char *)elf->data + table + offset;
    return memchr(s, '\0', (size_t)(table_size - offset)) != NULL ? s : NULL;
}

static bool program_header(const struct elf *elf, const Elf64_Ehdr *header, unsigned i,
                           Elf64_Phdr *out)
{
    return header->e_phentsize == sizeof *out &&
           fetch(elf, header->e_phoff + (uint64_t)i * sizeof *out, out, sizeof *out);
}

/* Offset in the file of what the loader finds at an address; false where no segment covers it. */
static bool offset_of(const struct elf *elf, const Elf64_Ehdr *header, uint64_t address,
                      uint64_t *offset)
{
    Elf64_Phdr segment;
    for (unsigned i = 0; i < header->e_phnum && program_header(elf, header, i, &segment); i++) {
        if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
            address - segment.p_vaddr >= segment.p_filesz)
            continue;
        uint64_t within = address - segment.p_vaddr;
        if (segment.p_offset > elf->size || within > elf->size - segment.p_offset)
            return false;
        *offset = segment.p_offset + within;
        return true;
    }
    return false;
}

static bool section(const struct elf *elf, const Elf64_Ehdr *header, unsigned i, Elf64_Shdr *out)
{
    return i < header->e_shnum && header->e_shentsize == sizeof *out &&
           inside(elf, header->e_shoff, i + 1u, sizeof *out) &&
           fetch(elf, header->e_shoff + (uint64_t)i * sizeof *out, out, sizeof *out);
}

static bool section_of_type(const struct elf *elf, const Elf64_Ehdr *header, unsigned type,
                            Elf64_Shdr *out)
{
    for (unsigned i = 0; section(elf, header, i, out); i++)
        if (out->sh_type == type && inside(elf, out->sh_offset, 1, out->sh_size))
            return true;
    return false;
}

/* The dynamic section does not say how many symbols there are: DT_HASH does, the section header
 * does, and where both are missing the string table usually follows the symbols. */
static uint64_t count_symbols(const struct elf *elf, const Elf64_Ehdr *header, bool has_hash,
                              uint64_t hash_at)
{
    uint32_t chains;
    Elf64_Shdr table;
    uint64_t count = 0;
    if (has_hash && fetch(elf, hash_at + sizeof chains, &chains, sizeof chains))
        count = chains;
    else if (section_of_type(elf, header, SHT_DYNSYM, &table) &&
             table.sh_offset == elf->exported.at)
        count = table.sh_size / sizeof(Elf64_Sym);
    else if (elf->exported.strings > elf->exported.at)
        count = (elf->exported.strings - elf->exported.at) / sizeof(Elf64_Sym);
    uint64_t most = (elf->size - elf->exported.at) / sizeof(Elf64_Sym);
    return count < most ? count : most;
}

static const char *dynamic_string(const struct elf *elf, uint64_t offset)
{
    return string_at(elf, elf->exported.strings, elf->exported.strings_size, offset);
}

static bool dynamic_entry(const struct elf *elf, uint64_t i, Elf64_Dyn *entry)
{
    return i < elf->dynamic_count &&
           fetch(elf, elf->dynamic_at + i * sizeof *entry, entry, sizeof *entry) &&
           entry->d_tag != DT_NULL;
}

static void read_dynamic(struct elf *elf, const Elf64_Ehdr *header)
{
    Elf64_Dyn entry;
    uint64_t hash_at = 0;
    bool has_symbols = false;
    bool has_hash = false;
    for (uint64_t i = 0; dynamic_entry(elf, i, &entry); i++) {
        if (entry.d_tag == DT_SYMTAB)
            has_symbols = offset_of(elf, header, entry.d_un.d_ptr, &elf->exported.at);
        else if (entry.d_tag == DT_STRTAB)
            offset_of(elf, header, entry.d_un.d_ptr, &elf->exported.strings);
        else if (entry.d_tag == DT_STRSZ)
            elf->exported.strings_size = entry.d_un.d_val;
        else if (entry.d_tag == DT_HASH)
            has_hash = offset_of(elf, header, entry.d_un.d_ptr, &hash_at);
        else if (entry.d_tag == DT_SYMBOLIC ||
                 (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_SYMBOLIC) != 0))
            elf->symbolic = true;
        else if (entry.d_tag == DT_FLAGS_1)
            elf->pie = (entry.d_un.d_val & DF_1_PIE) != 0;
    }
    for (uint64_t i = 0; dynamic_entry(elf, i, &entry); i++) {
        if (entry.d_tag == DT_SONAME)
            elf->soname = dynamic_string(elf, entry.d_un.d_val);
        else if (entry.d_tag == DT_RPATH)
            elf->rpath = dynamic_string(elf, entry.d_un.d_val);
        else if (entry.d_tag == DT_RUNPATH)
            elf->runpath = dynamic_string(elf, entry.d_un.d_val);
    }
    if (has_symbols)
        elf->exported.count = count_symbols(elf, header, has_hash, hash_at);
}

static void read_symbol_table(struct elf *elf, const Elf64_Ehdr *header)
{
    Elf64_Shdr table;
    Elf64_Shdr strings;
    if (!section_of_type(elf, header, SHT_SYMTAB, &table) ||
        !section(elf, header, table.sh_link, &strings))
        return;
    elf->all = (struct elf_symbols){table.sh_offset, table.sh_size / sizeof(Elf64_Sym),
                                    strings.sh_offset, strings.sh_size};
}

static enum elf_status read_headers(struct elf *elf)
{
    static const uint16_t one = 1;
    const unsigned order = *(const unsigned char *)&one == 1 ? ELFDATA2LSB : ELFDATA2MSB;
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    if (elf->size < EI_NIDENT || memcmp(elf->data, ELFMAG, SELFMAG) != 0)
        return ELF_NOT_ELF;
    if (elf->data[EI_CLASS] != ELFCLASS64 || elf->data[EI_DATA] != order)
        return ELF_FOREIGN;
    if (!fetch(elf, 0, &header, sizeof header) ||
        !inside(elf, header.e_phoff, header.e_phnum, sizeof segment))
        return ELF_MALFORMED;
    elf->type = header.e_type;
    elf->machine = header.e_machine;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        if (!program_header(elf, &header, i, &segment))
            return ELF_MALFORMED;
        if (segment.p_type == PT_INTERP)
            elf->interpreter = string_at(elf, segment.p_offset, segment.p_filesz, 0);
        if (segment.p_type == PT_DYNAMIC && inside(elf, segment.p_offset, 1, segment.p_filesz)) {
            elf->dynamic = true;
            elf->dynamic_at = segment.p_offset;
            elf->dynamic_count = segment.p_filesz / sizeof(Elf64_Dyn);
        }
    }
    if (elf->dynamic)
        read_dynamic(elf, &header);
    read_symbol_table(elf, &header);
    return ELF_OK;
}

enum elf_status elf_open(struct elf *elf, const char *path)
{
    struct stat st;
    *elf = (struct elf){.data = NULL};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ELF_UNREADABLE;
    enum elf_status status = ELF_UNREADABLE;
    if (fstat(fd, &st) != 0)
        goto done;
    if (!S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        goto done;
    }
    status = ELF_NOT_ELF;
    if (st.st_size == 0)
        goto done;
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    status = ELF_UNREADABLE;
    if (data == MAP_FAILED)
        goto done;
    elf->data = data;
    elf->size = (size_t)st.st_size;
    status = read_headers(elf);
    if (status != ELF_OK)
        elf_close(elf);
done:;
    int error = errno;
    close(fd);
    errno = error;
    return status;
}

void elf_close(struct elf *elf)
{
    if (elf->data != NULL)
        munmap((void *)elf->data, elf->size);
    *elf = (struct elf){.data = NULL};
}

const char *elf_needed(const struct elf *elf, uint64_t *cursor)
{
    Elf64_Dyn entry;
    while (dynamic_entry(elf, *cursor, &entry)) {
        ++*cursor;
        if (entry.d_tag != DT_NEEDED)
            continue;
        const char *name = dynamic_string(elf, entry.d_un.d_val);
        if (name != NULL)
            return name;
    }
    return NULL;
}

enum elf_presence elf_presence(const struct elf *elf, const struct elf_symbols *symbols,
                               const char *name)
{
    enum elf_presence presence = ELF_ABSENT;
    Elf64_Sym symbol;
    for (uint64_t i = 0; i < symbols->count; i++) {
        if (!fetch(elf, symbols->at + i * sizeof symbol, &symbol, sizeof symbol))
            break;
        const char *s = string_at(elf, symbols->strings, symbols->strings_size, symbol.st_name);
        if (s == NULL || strcmp(s, name) != 0)
            continue;
        if (symbol.st_shndx != SHN_UNDEF)
            return ELF_DEFINED;
        presence = ELF_IMPORTED;
    }
    return presence;
}

const char *elf_machine_name(unsigned machine)
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
