/* Names in the cubin of a module: a file whose contents are not trusted. */

#include "capture.h"

#include <elf.h>
#include <string.h>

/* The section header number *index*: false if it, or what it describes, is not within the file. */
static bool section_at(const unsigned char *elf, size_t size, unsigned index, Elf64_Shdr *section) {
    Elf64_Ehdr header;
    if (size < sizeof header)
        return false;
    memcpy(&header, elf, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shentsize != sizeof *section || index >= header.e_shnum)
        return false;
    if (header.e_shoff > size || (size - header.e_shoff) / sizeof *section <= index)
        return false;
    memcpy(section, elf + header.e_shoff + index * sizeof *section, sizeof *section);
    return section->sh_type == SHT_NOBITS ||
           (section->sh_offset <= size && section->sh_size <= size - section->sh_offset);
}

static const char *name_at(const unsigned char *elf, const Elf64_Shdr *strings, uint32_t at) {
    if (strings->sh_type == SHT_NOBITS || at >= strings->sh_size)
        return NULL;
    const char *name = (const char *)elf + strings->sh_offset + at;
    return memchr(name, 0, strings->sh_size - at) ? name : NULL;
}

static unsigned section_count(const void *elf, size_t size) {
    Elf64_Ehdr header;
    if (size < sizeof header)
        return 0;
    memcpy(&header, elf, sizeof header);
    return header.e_shnum;
}

void each_section(const void *elf, size_t size, void (*act)(void *, const char *), void *user) {
    Elf64_Ehdr header;
    Elf64_Shdr names, section;
    unsigned count = section_count(elf, size);
    if (!count)
        return;
    memcpy(&header, elf, sizeof header);
    if (!section_at(elf, size, header.e_shstrndx, &names))
        return;
    for (unsigned n = 0; n < count; n++) {
        const char *name = section_at(elf, size, n, &section) ? name_at(elf, &names, section.sh_name) : NULL;
        if (name)
            act(user, name);
    }
}

void each_variable(const void *elf, size_t size, void (*act)(void *, const char *), void *user) {
    Elf64_Shdr table, strings;
    unsigned count = section_count(elf, size);
    for (unsigned n = 0; n < count; n++) {
        if (!section_at(elf, size, n, &table) || table.sh_type != SHT_SYMTAB ||
            !section_at(elf, size, table.sh_link, &strings))
            continue;
        for (size_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, (const unsigned char *)elf + table.sh_offset + at, sizeof symbol);
            const char *name = name_at(elf, &strings, symbol.st_name);
            if (name && ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT && symbol.st_size && symbol.st_shndx != SHN_UNDEF)
                act(user, name);
        }
    }
}
