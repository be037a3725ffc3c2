/* The site's policy: the lines `lock` and `allow_modes` of the system's file, and what they
 * overrule. */
#include "config/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_WORD = 63 };

#define ALLOWED_LOCKS "names of options but DISABLE, separated by blanks"
#define AMONG_MODES   ", separated by blanks, or none alone"

static const char *const lines[] = {"lock", "allow_modes"};
enum { LINES = sizeof lines / sizeof lines[0] };

bool cfg_is_policy(const char *name)
{
    for (size_t i = 0; i < LINES; i++)
        if (cfg_same(lines[i], name))
            return true;
    return false;
}

const char *cfg_nearest_policy(const char *typed, size_t *best)
{
    const char *nearest = NULL;
    for (size_t i = 0; i < LINES; i++)
        if (cfg_nearer(typed, lines[i], best))
            nearest = lines[i];
    return nearest;
}

static bool separates(char c)
{
    return cfg_blank(c) || c == ',';
}

/* The next word of a list, cut where it is longer than any name; false at the end. */
static bool next_word(const char **list, char word[LONGEST_WORD + 1])
{
    const char *at = *list;
    size_t n = 0;
    while (separates(*at))
        at++;
    for (; *at != '\0' && !separates(*at); at++)
        if (n < LONGEST_WORD)
            word[n++] = *at;
    word[n] = '\0';
    *list = at;
    return n > 0;
}

/* Takes over a copy; one that is there already stays. */
static void keep(struct cfg *cfg, char **to, const char *where)
{
    if (*to == NULL)
        *to = strdup(where);
    if (*to == NULL)
        cfg->out_of_memory = true;
}

const char *cfg_misread(struct cfg *cfg, const char *where)
{
    keep(cfg, &cfg->misread, where);
    return "; every call passes through until the site corrects it";
}

static void lock(struct cfg *cfg, const char *where, const char *word)
{
    size_t row = cfg_find(word);
    const char *near = row == SIZE_MAX ? cfg_nearest(word) : NULL;
    const char *instead = row == SIZE_MAX ? cfg_removed(word) : NULL;
    char assignment[LONGEST_WORD + PATH_MAX + 40];
    if (instead != NULL) {
        snprintf(assignment, sizeof assignment, "%s: lock = %s", where, word);
        cfg_say_removed(cfg, assignment, instead);
    } else if (row == SIZE_MAX)
        cfg_say(cfg, true, "%s: lock = %s is not allowed (allowed: " ALLOWED_LOCKS "%s%s%s)%s",
                where, CFG_SHOWN(word), near != NULL ? "; did you mean " : "",
                near != NULL ? near : "", near != NULL ? "?" : "", cfg_misread(cfg, where));
    else if (row == cfg_find("DISABLE"))
        cfg_say(cfg, true,
                "%s: lock = DISABLE is not allowed: a user can always switch the library off "
                "(allowed: " ALLOWED_LOCKS ")",
                where);
    else
        keep(cfg, &cfg->locked[row], where);
}

/* Writes "; did you mean exact?" where a mode is near, else nothing. */
static void hint_at_mode(const char *typed, char *text, size_t size)
{
    const char *list = cfg_table[cfg_find("MODE")].allowed;
    char word[LONGEST_WORD + 1];
    size_t best = SIZE_MAX;
    text[0] = '\0';
    while (next_word(&list, word))
        if (cfg_nearer(typed, word, &best))
            snprintf(text, size, "; did you mean %s?", word);
}

static bool is_none(const char *list)
{
    char word[LONGEST_WORD + 1], further[LONGEST_WORD + 1];
    return next_word(&list, word) && cfg_same(word, "none") && !next_word(&list, further);
}

static void allow_modes(struct cfg *cfg, const char *where, const char *list)
{
    const struct cfg_option *mode = &cfg_table[cfg_find("MODE")];
    char word[LONGEST_WORD + 1], meant[LONGEST_WORD + 20];
    union cfg_value value;
    unsigned modes = 0;
    const char *whole = list;
    const bool none = is_none(list);
    while (!none && next_word(&list, word)) {
        if (cfg_parse(mode, word, &value)) {
            modes |= 1u << value.choice;
            continue;
        }
        hint_at_mode(word, meant, sizeof meant);
        cfg_say(cfg, true, "%s: allow_modes = %s is not allowed (allowed: %s" AMONG_MODES "%s)%s",
                where, CFG_SHOWN(cfg_same(word, "none") ? whole : word), mode->allowed, meant,
                cfg_misread(cfg, where));
    }
    if (modes == 0 && !none)
        return;
    free(cfg->modes_from);
    cfg->modes_from = NULL;
    keep(cfg, &cfg->modes_from, where);
    cfg->modes = modes;
    cfg->no_modes = none;
}

void cfg_policy_line(struct cfg *cfg, const char *where, enum cfg_source source, const char *name,
                     const char *value)
{
    bool locks = cfg_same(name, lines[0]);
    const char *list = value;
    char word[LONGEST_WORD + 1];
    if (source != CFG_FROM_SYSTEM_FILE) {
        cfg_say(cfg, true, "%s: %s = %s is allowed in the system's sparseshim.conf only", where,
                lines[!locks], CFG_SHOWN(value));
        return;
    }
    if (!next_word(&list, word))
        cfg_say(cfg, true, "%s: %s = is not allowed (allowed: %s%s)%s", where, lines[!locks],
                locks ? ALLOWED_LOCKS : cfg_table[cfg_find("MODE")].allowed,
                locks ? "" : AMONG_MODES, cfg_misread(cfg, where));
    if (!locks)
        allow_modes(cfg, where, value);
    for (list = value; locks && next_word(&list, word);)
        lock(cfg, where, word);
}

/* The word of a mode, as the table has it. */
static const char *word_of(unsigned mode, char word[LONGEST_WORD + 1])
{
    const char *list = cfg_table[cfg_find("MODE")].allowed;
    for (unsigned i = 0; i <= mode; i++)
        next_word(&list, word);
    return word;
}

/* Writes " observe exact". */
static void list_modes(char *text, size_t size, unsigned modes)
{
    char word[LONGEST_WORD + 1];
    size_t used = 0;
    text[0] = '\0';
    for (unsigned mode = 0; modes >> mode != 0 && used < size; mode++)
        if (modes >> mode & 1)
            used += (size_t)snprintf(text + used, size - used, " %s", word_of(mode, word));
}

static void switch_off(struct cfg *cfg)
{
    cfg_set(cfg, cfg_find("DISABLE"), "on", CFG_FROM_SYSTEM_FILE, "allow_modes");
    cfg->switched_off = true;
}

/* Refuses a lock of an option whose value in the same file cannot be understood. */
static void check_locked(struct cfg *cfg)
{
    for (size_t i = 0; i < CFG_ROWS; i++)
        if (cfg->locked[i] != NULL && cfg->bad[i])
            cfg_say(cfg, true, "%s: lock = %s needs a value of %s that is allowed%s",
                    cfg->locked[i], cfg_table[i].name, cfg_table[i].name,
                    cfg_misread(cfg, cfg->locked[i]));
}

static void limit_mode(struct cfg *cfg)
{
    size_t row = cfg_find("MODE");
    unsigned asked = cfg->options.mode, mode = asked;
    char allowed[64], word[LONGEST_WORD + 1];
    if (cfg->modes == 0 || cfg->modes >> asked & 1)
        return;
    while (mode > 0 && !(cfg->modes >> mode & 1))
        mode--;
    list_modes(allowed, sizeof allowed, cfg->modes);
    word_of(mode, word);
    if (!(cfg->modes >> mode & 1)) {
        cfg_say(cfg, false,
                CFG_PREFIX
                "MODE=%s is not in allow_modes =%s (%s), nor is a mode that does less; every "
                "call passes through",
                cfg->text[row], allowed, cfg->modes_from);
        switch_off(cfg);
        return;
    }
    if (cfg->source[row] != CFG_FROM_DEFAULT)
        cfg_say(cfg, false, CFG_PREFIX "MODE=%s (%s) is not in allow_modes =%s (%s); %s stands",
                cfg->text[row], cfg_source_name(cfg->source[row]), allowed, cfg->modes_from, word);
    cfg_set(cfg, row, word, CFG_FROM_SYSTEM_FILE, "allow_modes");
    cfg->limited = true;
}

void cfg_apply_policy(struct cfg *cfg)
{
    check_locked(cfg);
    if (cfg->no_modes)
        switch_off(cfg);
    else
        limit_mode(cfg);
}

const char *cfg_misread_policy(const struct cfg *cfg)
{
    return cfg->misread;
}

const char *cfg_ruled_by(const struct cfg *cfg, size_t row)
{
    if (cfg->locked[row] != NULL)
        return cfg->locked[row];
    if (cfg->limited && row == cfg_find("MODE"))
        return cfg->modes_from;
    return cfg->switched_off && row == cfg_find("DISABLE") ? cfg->modes_from : NULL;
}

const char *cfg_turned_off(const struct cfg *cfg, bool *for_all)
{
    *for_all = cfg->no_modes;
    return cfg->switched_off ? cfg->modes_from : NULL;
}

void cfg_policy(const struct cfg *cfg, char *text, size_t size)
{
    char modes[64];
    size_t used = 0;
    for (size_t i = 0; i < CFG_ROWS && used < size; i++)
        if (cfg->locked[i] != NULL)
            used += (size_t)snprintf(text + used, size - used, "%s %s",
                                     used > 0 ? "" : "lock =", cfg_table[i].name);
    list_modes(modes, sizeof modes, cfg->modes);
    if (cfg->modes_from != NULL && used < size)
        used += (size_t)snprintf(text + used, size - used, "%sallow_modes =%s",
                                 used > 0 ? ", " : "", cfg->no_modes ? " none" : modes);
    if (cfg->misread != NULL && used < size)
        used +=
            (size_t)snprintf(text + used, size - used, "%snot understood", used > 0 ? ", " : "");
    if (used == 0)
        snprintf(text, size, "none");
}

void cfg_policy_free(struct cfg *cfg)
{
    for (size_t i = 0; i < CFG_ROWS; i++)
        free(cfg->locked[i]);
    free(cfg->modes_from);
    free(cfg->misread);
}
