/* Options as seen from outside of config: rows, files, problems, hashes. */
#include "config/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct cfg_options *cfg_options(const struct cfg *cfg)
{
    return &cfg->options;
}

const char *cfg_problem(const struct cfg *cfg, size_t i, bool *fatal)
{
    if (i >= cfg->n_problems)
        return NULL;
    if (fatal != NULL)
        *fatal = cfg->fatal[i];
    return cfg->problem[i];
}

const char *cfg_config_problem(const struct cfg *cfg)
{
    static const char about[] = CFG_PREFIX "CONFIG";

    if (secure_getenv(about) == NULL)
        return NULL;
    for (size_t i = 0; i < cfg->n_problems; i++)
        if (cfg->fatal[i] && strncmp(cfg->problem[i], about, sizeof about - 1) == 0)
            return cfg->problem[i];
    return NULL;
}

const char *cfg_file(const struct cfg *cfg, size_t i, const char **found)
{
    if (i >= cfg->n_files)
        return NULL;
    if (found != NULL)
        *found = cfg->file[i].found;
    return cfg->file[i].path;
}

bool cfg_row(const struct cfg *cfg, size_t i, struct cfg_row *row)
{
    if (i >= CFG_ROWS)
        return false;
    const struct cfg_option *option = &cfg_table[i];
    *row = (struct cfg_row){
        .name = option->name,
        .value = cfg->text[i],
        .standard = option->standard,
        .allowed = option->allowed,
        .doc = option->doc,
        .source = cfg->source[i],
        .locked = cfg_ruled_by(cfg, i),
        .shared = option->shared,
        .expert = option->expert,
    };
    return true;
}

int cfg_file_line(char *line, size_t size, const struct cfg_row *row)
{
    char name[64] = "";
    for (size_t i = 0; row->name[i] != '\0' && i + 1 < sizeof name; i++)
        name[i] = cfg_lower(row->name[i]);
    if (strpbrk(row->value, "#\"") == NULL)
        return snprintf(line, size, "%s =%s%s", name, row->value[0] != '\0' ? " " : "", row->value);
    int length = snprintf(line, size, "%s = \"", name);
    for (const char *v = row->value;; v++) {
        const char *shown = *v == '\0' ? "\"" : *v == '"' ? "\"\"" : (char[2]){*v, '\0'};
        size_t used = (size_t)length < size ? (size_t)length : size;
        length += snprintf(line + used, size - used, "%s", shown);
        if (*v == '\0')
            return length;
    }
}
/* FNV-1a, 64 bits. */
#define FNV_BEGIN UINT64_C(0xcbf29ce484222325)

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ b[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* 63 bits, so that the hash and its negative both fit a signed integer. */
static uint64_t hash_option(const struct cfg *cfg, size_t row)
{
    const struct cfg_option *option = &cfg_table[row];
    uint64_t hash = hash_bytes(FNV_BEGIN, option->name, strlen(option->name) + 1);

    size_t size;
    const void *field = cfg_field(cfg, row, &size);

    if (option->type == CFG_TEXT)
        hash = hash_bytes(hash, cfg->text[row], strlen(cfg->text[row]) + 1);
    else
        hash = hash_bytes(hash, field, size);
    return hash >> 1;
}

size_t cfg_hash_each_shared(const struct cfg *cfg, uint64_t *hashes, size_t *rows, size_t most)
{
    char policy[1024];
    size_t found = 0;

    for (size_t i = 0; i < CFG_ROWS && found < most; i++) {
        if (!cfg_table[i].shared)
            continue;
        rows[found] = i;
        hashes[found++] = hash_option(cfg, i);
    }
    if (found < most) {
        cfg_policy(cfg, policy, sizeof policy);
        rows[found] = CFG_ROWS;
        hashes[found++] = hash_bytes(FNV_BEGIN, policy, strlen(policy)) >> 1;
    }
    if (found < most) {
        rows[found] = CFG_SHARED_TEST;
        hashes[found++] = hash_bytes(FNV_BEGIN, &cfg->forced, sizeof cfg->forced) >> 1;
    }
    return found;
}

uint64_t cfg_hash_shared(const struct cfg *cfg)
{
    uint64_t hashes[CFG_ROWS + 2];
    size_t rows[CFG_ROWS + 2];
    size_t n = cfg_hash_each_shared(cfg, hashes, rows, CFG_ROWS + 2);

    return hash_bytes(FNV_BEGIN, (const char *)hashes, n * sizeof *hashes);
}
