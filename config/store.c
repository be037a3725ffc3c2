/* Values of the options, and the problems met. */
#include "config/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PROBLEMS = 100 };

_Static_assert(sizeof(enum cfg_mode) == sizeof(unsigned), "choices are stored as unsigned");

static void add_problem(struct cfg *cfg, bool fatal, char *text)
{
    char **problem = realloc(cfg->problem, (cfg->n_problems + 1) * sizeof *problem);
    if (problem != NULL)
        cfg->problem = problem;
    bool *flags = realloc(cfg->fatal, (cfg->n_problems + 1) * sizeof *flags);
    if (flags != NULL)
        cfg->fatal = flags;
    if (problem == NULL || flags == NULL) {
        cfg->out_of_memory = true;
        free(text);
        return;
    }
    cfg->problem[cfg->n_problems] = text;
    cfg->fatal[cfg->n_problems++] = fatal;
}

void cfg_say(struct cfg *cfg, bool fatal, const char *format, ...)
{
    char *text = NULL;
    if (cfg->n_problems >= MOST_PROBLEMS)
        return;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) {
        cfg->out_of_memory = true;
        return;
    }
    for (char *c = text; *c != '\0';) {
        const size_t n = cfg_printable(c);
        if (n == 0)
            *c = '?';
        c += n > 0 ? n : 1;
    }
    add_problem(cfg, fatal, text);
}

void cfg_say_removed(struct cfg *cfg, const char *assignment, const char *instead)
{
    cfg_say(cfg, true, "%s has no effect, since the option is gone: %s", assignment, instead);
}

void cfg_looked_at(struct cfg *cfg, const char *path, const char *found)
{
    if (cfg->n_files == CFG_FILES)
        return;
    cfg->file[cfg->n_files].path = strdup(path);
    cfg->file[cfg->n_files].found = strdup(found);
    if (cfg->file[cfg->n_files].path == NULL || cfg->file[cfg->n_files].found == NULL)
        cfg->out_of_memory = true;
    cfg->n_files++;
}

/* The text without blanks around it, to be freed; NULL when memory is short. */
static char *trimmed(const char *text)
{
    while (cfg_blank(*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && cfg_blank(text[n - 1]))
        n--;
    return strndup(text, n);
}

static size_t field_size(enum cfg_type type)
{
    switch (type) {
    case CFG_BOOL:
        return sizeof(bool);
    case CFG_CHOICE:
        return sizeof(unsigned);
    case CFG_COUNT:
    case CFG_SIZE:
    case CFG_MERGE:
        return sizeof(uint64_t);
    case CFG_SHARE:
        return sizeof(struct cfg_share);
    case CFG_MEASURED:
    case CFG_TIMEOUT:
        return sizeof(double);
    case CFG_TEXT:
        break;
    }
    return 0;
}

static void store(struct cfg *cfg, size_t row, const union cfg_value *value)
{
    char *to = (char *)&cfg->options + cfg_table[row].offset;
    if (cfg_table[row].type == CFG_TEXT)
        *(const char **)to = cfg->text[row];
    else
        memcpy(to, value, field_size(cfg_table[row].type));
}

const void *cfg_field(const struct cfg *cfg, size_t row, size_t *size)
{
    *size = field_size(cfg_table[row].type);
    return (const char *)&cfg->options + cfg_table[row].offset;
}

/* Returns the spelling of the table for words and shares such as "Exact", "TRUE" and "1%". */
static char *shown(const struct cfg_option *option, const union cfg_value *value, char *text)
{
    char share[128];
    if (option->type == CFG_BOOL) {
        free(text);
        return strdup(value->on ? "on" : "off");
    }
    if (option->type == CFG_CHOICE)
        for (char *c = text; *c != '\0'; c++)
            *c = *c == '-' ? '_' : cfg_lower(*c);
    if (option->type == CFG_SHARE && strchr(text, '%') != NULL) {
        cfg_share_text(share, sizeof share, text);
        free(text);
        return strdup(share);
    }
    return text;
}

/* Returns true if the row already has this value. */
static bool stands(const struct cfg *cfg, size_t row, const char *text,
                   const union cfg_value *value)
{
    if (cfg_table[row].type == CFG_TEXT)
        return strcmp(text, cfg->text[row]) == 0;
    size_t size;
    const void *field = cfg_field(cfg, row, &size);
    return memcmp(value, field, size) == 0;
}

bool cfg_is_standard(const struct cfg *cfg, size_t row)
{
    const char *standard = cfg_table[row].standard;
    union cfg_value value;
    return cfg_parse(&cfg_table[row], standard, &value) && stands(cfg, row, standard, &value);
}

void cfg_set(struct cfg *cfg, size_t row, const char *text, enum cfg_source source,
             const char *assignment)
{
    const struct cfg_option *option = &cfg_table[row];
    union cfg_value value;
    const char *former = cfg->text[row];
    char *kept = trimmed(text);
    bool admitted = kept != NULL && cfg_parse(option, kept, &value);
    if (source == CFG_FROM_SYSTEM_FILE)
        cfg->bad[row] = !admitted;
    if (kept != NULL && !admitted) {
        cfg_say(cfg, true, "%s is not allowed (allowed: %s); %s stays", assignment, option->allowed,
                former != NULL && former[0] != '\0' ? CFG_SHOWN(former) : "nothing");
        free(kept);
        return;
    }
    if (kept != NULL && source > CFG_FROM_SYSTEM_FILE && cfg->locked[row] != NULL) {
        if (!stands(cfg, row, kept, &value))
            cfg_say(cfg, false, "%s is ignored: %s locks %s; %s stands", assignment,
                    cfg->locked[row], option->name,
                    former != NULL && former[0] != '\0' ? CFG_SHOWN(former) : "nothing");
        free(kept);
        return;
    }
    if (kept != NULL)
        kept = shown(option, &value, kept);
    if (kept == NULL) {
        cfg->out_of_memory = true;
        return;
    }
    free(cfg->text[row]);
    cfg->text[row] = kept;
    cfg->source[row] = source;
    store(cfg, row, &value);
}

char *cfg_objection(size_t row, const char *value)
{
    const struct cfg_option *option = &cfg_table[row];
    union cfg_value parsed;
    char *objection = NULL;
    char *kept = trimmed(value);
    if (kept != NULL && !cfg_parse(option, kept, &parsed) &&
        asprintf(&objection, CFG_PREFIX "%s=%s is not allowed (allowed: %s)", option->name,
                 CFG_SHOWN(value), option->allowed) < 0)
        objection = NULL;
    free(kept);
    return objection;
}
