/* Where values come from, in rising order: the table, the system's file, CONFIG's file or profile,
 * the environment. */
#include "config/parts.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PROBLEMS = 100, LONGEST_SHOWN = 200 };

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
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    add_problem(cfg, fatal, text);
}

const char *cfg_problem(const struct cfg *cfg, size_t i, bool *fatal)
{
    if (i >= cfg->n_problems)
        return NULL;
    if (fatal != NULL)
        *fatal = cfg->fatal[i];
    return cfg->problem[i];
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

const char *cfg_file(const struct cfg *cfg, size_t i, const char **found)
{
    if (i >= cfg->n_files)
        return NULL;
    if (found != NULL)
        *found = cfg->file[i].found;
    return cfg->file[i].path;
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
    case CFG_POSITIVE:
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

static const void *field(const struct cfg *cfg, size_t row)
{
    return (const char *)&cfg->options + cfg_table[row].offset;
}

_Static_assert(sizeof(enum cfg_mode) == sizeof(unsigned), "choices are stored as unsigned");

/* One spelling for words and shares, so that "Exact", "TRUE" and "1%" are shown as the table has
 * them. */
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

/* Whether a value is the one that stands. */
static bool stands(const struct cfg *cfg, size_t row, const char *text,
                   const union cfg_value *value)
{
    if (cfg_table[row].type == CFG_TEXT)
        return strcmp(text, cfg->text[row]) == 0;
    return memcmp(value, field(cfg, row), field_size(cfg_table[row].type)) == 0;
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
                former != NULL && former[0] != '\0' ? former : "nothing");
        free(kept);
        return;
    }
    if (kept != NULL && source > CFG_FROM_SYSTEM_FILE && cfg->locked[row] != NULL) {
        if (!stands(cfg, row, kept, &value))
            cfg_say(cfg, false, "%s is ignored: %s locks %s; %s stands", assignment,
                    cfg->locked[row], option->name,
                    former != NULL && former[0] != '\0' ? former : "nothing");
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
        asprintf(&objection, CFG_PREFIX "%s=%.*s is not allowed (allowed: %s)", option->name,
                 LONGEST_SHOWN, value, option->allowed) < 0)
        objection = NULL;
    free(kept);
    return objection;
}

char *cfg_canonical(size_t row, const char *value)
{
    union cfg_value parsed;
    char *kept = trimmed(value);
    if (kept != NULL && cfg_parse(&cfg_table[row], kept, &parsed))
        return shown(&cfg_table[row], &parsed, kept);
    free(kept);
    return NULL;
}

static const char *variable(size_t row, char name[64])
{
    snprintf(name, 64, CFG_PREFIX "%s", cfg_table[row].name);
    return secure_getenv(name);
}

static void set_from_environment(struct cfg *cfg, size_t row)
{
    char name[64];
    char assignment[64 + LONGEST_SHOWN + 2];
    const char *value = variable(row, name);
    if (value == NULL)
        return;
    snprintf(assignment, sizeof assignment, "%s=%.*s", name, LONGEST_SHOWN, value);
    cfg_set(cfg, row, value, CFG_FROM_ENVIRONMENT, assignment);
}

/* Set by the modulefiles. */
static bool is_of_modulefile(const char *name)
{
    return strcmp(name, CFG_PREFIX "ROOT") == 0 || strcmp(name, CFG_PREFIX "LIB") == 0;
}

void cfg_say_removed(struct cfg *cfg, const char *assignment, const char *instead)
{
    cfg_say(cfg, true, "%s has no effect, since the option is gone: %s", assignment, instead);
}

/* The environment is walked only to find names that are not ours; values come through
 * secure_getenv. */
static void find_unknown_variables(struct cfg *cfg)
{
    const size_t prefix = strlen(CFG_PREFIX);
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, CFG_PREFIX, prefix) != 0)
            continue;
        char name[LONGEST_SHOWN];
        size_t length = strcspn(*entry, "=");
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1),
                 *entry);
        size_t row = cfg_find(name + prefix);
        const char *instead = row == SIZE_MAX ? cfg_removed(name + prefix) : NULL;
        if (is_of_modulefile(name) || strcmp(name, CFG_TEST) == 0 ||
            (row != SIZE_MAX && strcmp(cfg_table[row].name, name + prefix) == 0))
            continue;
        const char *near = cfg_nearest(name + prefix);
        if (secure_getenv(name) == NULL)
            continue;
        if (cfg_is_policy(name + prefix)) {
            cfg_say(cfg, true, "%s is allowed as a line of the system's sparseshim.conf only",
                    name);
            continue;
        }
        if (instead != NULL) {
            cfg_say_removed(cfg, name, instead);
            continue;
        }
        cfg_say(cfg, false, "%s is not known%s%s%s", name,
                near != NULL ? "; did you mean " CFG_PREFIX : "", near != NULL ? near : "",
                near != NULL ? "?" : "");
    }
}

/* Whether the profile is in the folder; there may be a problem with it. */
static bool read_profile(struct cfg *cfg, const char *folder, const char *name, bool may_be_missing)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s.conf", folder, name);

    return length < (int)sizeof path &&
           cfg_read_file(cfg, path, CFG_FROM_USER_FILE, may_be_missing);
}

static void read_installed_profile(struct cfg *cfg, const char *sysconfdir, const char *name)
{
    char folder[PATH_MAX];

    if (sysconfdir == NULL)
        cfg_say(cfg, true,
                CFG_PREFIX "CONFIG=@%.*s: profiles are not found, since it is not known where this "
                           "is installed",
                LONGEST_SHOWN, name);
    else if (snprintf(folder, sizeof folder, "%s/sparseshim.d", sysconfdir) < (int)sizeof folder)
        read_profile(cfg, folder, name, false);
}

/* `built`: folder of the profiles of a build directory, NULL where this is installed. */
static void read_named_file(struct cfg *cfg, const char *sysconfdir, const char *built)
{
    const char *config = cfg->options.config, *name = config + 1;
    char folder[PATH_MAX];

    if (config[0] == '\0')
        return;
    if (config[0] != '@') {
        cfg_read_file(cfg, config, CFG_FROM_USER_FILE, false);
        return;
    }
    cfg_user_folder(folder);
    if (strchr(name, '/') != NULL || name[0] == '\0' || name[0] == '.' || strlen(name) > NAME_MAX)
        cfg_say(cfg, true,
                CFG_PREFIX "CONFIG=%.*s is not allowed (allowed: after '@' the name of a profile "
                           "in %s%s%s/sparseshim.d, without '/' and '.conf')",
                LONGEST_SHOWN, config, folder, folder[0] != '\0' ? " or " : "",
                sysconfdir != NULL ? sysconfdir : "SYSCONFDIR");
    else if ((folder[0] == '\0' || !read_profile(cfg, folder, name, true)) &&
             (built == NULL || !read_profile(cfg, built, name, true)))
        read_installed_profile(cfg, sysconfdir, name);
}

/* Returns whether the user means the value of a row to have an effect. The site's file does not,
 * nor does a source that is weaker than that of MODE. */
static bool meant(const struct cfg *cfg, size_t row)
{
    return cfg->source[row] > CFG_FROM_SYSTEM_FILE && !cfg->limited &&
           cfg->source[cfg_find("MODE")] <= cfg->source[row];
}

/* Tells each value that needs top-k under another MODE. If exact calls would not obey it, the
 * default stands, an error for STRICT. Values without effect stay. MODE=observe uses DENSITY. */
static void refuse_without_topk(struct cfg *cfg)
{
    const struct cfg_options *o = &cfg->options;
    const struct {
        const char *name;
        bool used, strict;
    } needs[] = {
        {"ALGORITHM", (SS_GLOBAL_ALGORITHMS >> o->algorithm & 1) != 0, true},
        {"VALUE_TYPE", true, true},
        {"QUANT_BITS", true, true},
        {"QUORUM", true, true},
        {"DENSITY", o->mode != CFG_MODE_OBSERVE, false},
        {"REGISTER", true, false},
        {"EXCLUDE", true, false},
        {"WARMUP_STEPS", true, false},
    };

    if (o->mode == CFG_MODE_TOPK)
        return;
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        size_t row = cfg_find(needs[i].name);
        const char *standard = cfg_table[row].standard;
        union cfg_value value;
        bool idle =
            cfg_parse(&cfg_table[row], standard, &value) && stands(cfg, row, standard, &value);
        if (!needs[i].used || idle || !(needs[i].strict || meant(cfg, row)))
            continue;
        cfg_say(cfg, needs[i].strict,
                CFG_PREFIX "%s=%.*s needs " CFG_PREFIX "MODE=topk, but MODE is %s; %s%s",
                needs[i].name, LONGEST_SHOWN, cfg->text[row], cfg->text[cfg_find("MODE")],
                needs[i].strict ? standard : "it has no effect", needs[i].strict ? " stands" : "");
        if (needs[i].strict)
            cfg_set(cfg, row, standard, CFG_FROM_DEFAULT, needs[i].name);
    }
}

/* Calls that no vote sees: what tells buffers apart, and what is a gradient, must be known to all
 * ranks alike without one. */
static void refuse_quorum(struct cfg *cfg)
{
    const struct cfg_options *o = &cfg->options;
    size_t row = cfg_find("QUORUM");
    const char *lacks = NULL;

    if (o->quorum == SS_QUORUM_ALL)
        return;
    if (o->include[0] == '\0' || cfg_same(o->include, "auto"))
        lacks = "a rule in " CFG_PREFIX "REGISTER other than auto";
    else if (o->identity != SS_IDENTITY_AUTO && o->identity != SS_IDENTITY_ORDINAL)
        lacks = CFG_PREFIX "IDENTITY=auto or ordinal";
    if (lacks == NULL)
        return;
    cfg_say(cfg, true, CFG_PREFIX "QUORUM=%s needs %s; all stands", cfg->text[row], lacks);
    cfg_set(cfg, row, cfg_table[row].standard, CFG_FROM_DEFAULT, "QUORUM");
}

/* Merged calls are lossy ones of nonblocking calls that a thread of ours moves, with all ranks. */
static void refuse_merge(struct cfg *cfg)
{
    const struct cfg_options *o = &cfg->options;
    size_t row = cfg_find("MERGE");
    const char *lacks = NULL;

    if (o->merge == 0)
        return;
    if (o->mode != CFG_MODE_TOPK)
        lacks = CFG_PREFIX "MODE=topk";
    else if (o->progress == CFG_PROGRESS_OFF)
        lacks = CFG_PREFIX "PROGRESS other than off";
    else if (o->quorum != SS_QUORUM_ALL)
        lacks = CFG_PREFIX "QUORUM=all";
    if (lacks == NULL)
        return;
    cfg_say(cfg, true, CFG_PREFIX "MERGE=%s needs %s; off stands", cfg->text[row], lacks);
    cfg_set(cfg, row, cfg_table[row].standard, CFG_FROM_DEFAULT, "MERGE");
}

static struct cfg *load(const char *sysconfdir, const char *built)
{
    int error = errno;
    char path[PATH_MAX];
    struct cfg *cfg = calloc(1, sizeof *cfg);
    if (cfg == NULL)
        goto done;
    for (size_t i = 0; i < CFG_ROWS; i++)
        cfg_set(cfg, i, cfg_table[i].standard, CFG_FROM_DEFAULT, cfg_table[i].name);
    if (cfg->out_of_memory)
        goto done;
    if (sysconfdir == NULL)
        cfg_looked_at(cfg, "sparseshim.conf",
                      "not looked for: it is not known where this is installed");
    else if (snprintf(path, sizeof path, "%s/sparseshim.conf", sysconfdir) < (int)sizeof path)
        cfg_read_file(cfg, path, CFG_FROM_SYSTEM_FILE, true);
    set_from_environment(cfg, cfg_config_row());
    read_named_file(cfg, sysconfdir, built);
    for (size_t i = 0; i < CFG_ROWS; i++)
        if (i != cfg_config_row())
            set_from_environment(cfg, i);
    cfg_force(cfg);
    cfg_apply_policy(cfg);
    refuse_without_topk(cfg);
    refuse_quorum(cfg);
    refuse_merge(cfg);
    find_unknown_variables(cfg);
done:
    if (cfg != NULL && cfg->out_of_memory) {
        cfg_free(cfg);
        cfg = NULL;
    }
    errno = error;
    return cfg;
}

struct cfg *cfg_load_from(const char *sysconfdir)
{
    return load(sysconfdir, NULL);
}

struct cfg *cfg_load(void)
{
    char directory[PATH_MAX], built[PATH_MAX];
    return load(cfg_sysconfdir(directory, sizeof directory) ? directory : NULL,
                cfg_profiles(built, sizeof built) ? built : NULL);
}

void cfg_free(struct cfg *cfg)
{
    if (cfg == NULL)
        return;
    for (size_t i = 0; i < CFG_ROWS; i++)
        free(cfg->text[i]);
    for (size_t i = 0; i < cfg->n_problems; i++)
        free(cfg->problem[i]);
    for (size_t i = 0; i < cfg->n_files; i++) {
        free(cfg->file[i].path);
        free(cfg->file[i].found);
    }
    cfg_policy_free(cfg);
    free(cfg->problem);
    free(cfg->fatal);
    free(cfg);
}

const struct cfg_options *cfg_options(const struct cfg *cfg)
{
    return &cfg->options;
}

bool cfg_disabled(void)
{
    size_t row = cfg_find("DISABLE");
    char name[64];
    const char *text = variable(row, name);
    char word[16];
    union cfg_value value = {.on = false};
    if (text == NULL)
        return false;
    while (cfg_blank(*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && cfg_blank(text[n - 1]))
        n--;
    if (n >= sizeof word)
        return false;
    memcpy(word, text, n);
    word[n] = '\0';
    return cfg_parse(&cfg_table[row], word, &value) && value.on;
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

    if (option->type == CFG_TEXT)
        hash = hash_bytes(hash, cfg->text[row], strlen(cfg->text[row]) + 1);
    else
        hash = hash_bytes(hash, field(cfg, row), field_size(option->type));
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
    return found;
}

uint64_t cfg_hash_shared(const struct cfg *cfg)
{
    uint64_t hashes[CFG_ROWS + 1];
    size_t rows[CFG_ROWS + 1];
    size_t n = cfg_hash_each_shared(cfg, hashes, rows, CFG_ROWS + 1);

    return hash_bytes(FNV_BEGIN, (const char *)hashes, n * sizeof *hashes);
}
