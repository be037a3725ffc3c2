/* Configuration files: `name = value` lines, names in lower case without the prefix. A line
 * `register += rule` or `exclude += rule` adds to the rules so far. '#' at the start of a line or
 * after a blank begins a comment. A value that holds '#' or '"' stands in double
 * quotes, a '"' in it doubled. */
#include "config/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONGEST_LINE = 8192, LARGEST_FILE = 1 << 20 };

struct location {
    const char *path;
    unsigned long line;
    enum cfg_source source;
};

static char *skip_blanks(char *s)
{
    while (cfg_blank(*s))
        s++;
    return s;
}

static void cut_blanks(char *s)
{
    size_t n = strlen(s);
    while (n > 0 && cfg_blank(s[n - 1]))
        s[--n] = '\0';
}

static void cut_comment(char *s)
{
    for (size_t i = 0; s[i] != '\0'; i++)
        if (s[i] == '#' && (i == 0 || cfg_blank(s[i - 1])))
            s[i] = '\0';
}

/* Undoes the quotes in place. False where they do not end, or something but a comment follows. */
static bool unquote(char *s)
{
    char *from = s + 1;
    char *to = s;
    while (*from != '\0' && !(from[0] == '"' && from[1] != '"')) {
        if (*from == '"')
            from++;
        *to++ = *from++;
    }
    if (*from != '"')
        return false;
    char *behind = from + 1;
    cut_comment(behind);
    behind = skip_blanks(behind);
    bool clean = *behind == '\0';
    *to = '\0';
    return clean;
}

/* The nearest name of an option or a line of a policy, in lower case; "" where there is none. */
static void find_meant(const char *name, char *meant, size_t size)
{
    size_t best = SIZE_MAX;
    const char *option = cfg_nearest(name);
    if (option != NULL)
        cfg_nearer(name, option, &best);
    const char *line = cfg_nearest_policy(name, &best);
    const char *near = line != NULL ? line : option;
    size_t n = 0;
    for (; near != NULL && near[n] != '\0' && n + 1 < size; n++)
        meant[n] = cfg_lower(near[n]);
    meant[n] = '\0';
}

/* Returns the end of a message about a line that is not understood. If its name is near that of a
 * line of a policy, it says that every call passes through, otherwise "". */
static const char *consequence(struct cfg *cfg, const struct location *at, const char *name)
{
    char meant[64], where[PATH_MAX + 24];
    find_meant(name, meant, sizeof meant);
    if (at->source != CFG_FROM_SYSTEM_FILE || !cfg_is_policy(meant))
        return "";
    snprintf(where, sizeof where, "%s:%lu", at->path, at->line);
    return cfg_misread(cfg, where);
}

static void tell_unknown(struct cfg *cfg, const struct location *at, const char *name)
{
    char meant[64];
    find_meant(name, meant, sizeof meant);
    const char *end = consequence(cfg, at, name);
    cfg_say(cfg, end[0] != '\0', "%s:%lu: %s%s", at->path, at->line, CFG_NOT_KNOWN("", name, meant),
            end);
}

/* A line without '='. */
static void tell_no_setting(struct cfg *cfg, const struct location *at, const char *line)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(line, " \t:"), line);
    cfg_say(cfg, true, "%s:%lu: '%s' is not a setting; allowed are lines 'name = value'%s",
            at->path, at->line, CFG_SHOWN(line), consequence(cfg, at, name));
}

/* Cuts the '+' off a name that stood before "+=". */
static bool cut_plus(char *name)
{
    const size_t n = strlen(name);
    if (n == 0 || name[n - 1] != '+')
        return false;
    name[n - 1] = '\0';
    cut_blanks(name);
    return true;
}

static bool holds_rules(size_t row)
{
    return strcmp(cfg_table[row].name, "REGISTER") == 0 ||
           strcmp(cfg_table[row].name, "EXCLUDE") == 0;
}

/* Sets an option to its rules so far and one more. */
static void add_rules(struct cfg *cfg, size_t row, const char *value, enum cfg_source source,
                      const char *assignment)
{
    const char *before = cfg->text[row];
    const size_t size = strlen(before) + strlen(value) + sizeof "; ";
    char *joined = malloc(size);
    if (joined == NULL) {
        cfg->out_of_memory = true;
        return;
    }
    snprintf(joined, size, "%s%s%s", before, before[0] != '\0' ? "; " : "", value);
    cfg_set(cfg, row, joined, source, assignment);
    free(joined);
}

static void take_line(struct cfg *cfg, const struct location *at, char *name, const char *value)
{
    char assignment[LONGEST_LINE + CFG_QUOTED];
    const bool adds = cut_plus(name);
    size_t row = cfg_find(name);
    if (adds && (row == SIZE_MAX || !holds_rules(row))) {
        cfg_say(cfg, true, "%s:%lu: %s += is not allowed; allowed are register += and exclude +=%s",
                at->path, at->line, CFG_SHOWN(name), consequence(cfg, at, name));
        return;
    }
    if (cfg_is_policy(name)) {
        snprintf(assignment, sizeof assignment, "%s:%lu", at->path, at->line);
        cfg_policy_line(cfg, assignment, at->source, name, value);
        return;
    }
    const char *instead = row == SIZE_MAX ? cfg_removed(name) : NULL;
    if (instead != NULL) {
        snprintf(assignment, sizeof assignment, "%s:%lu: %s", at->path, at->line, name);
        cfg_say_removed(cfg, assignment, instead);
        return;
    }
    if (row == SIZE_MAX) {
        tell_unknown(cfg, at, name);
        return;
    }
    if (row == cfg_config_row() && at->source == CFG_FROM_USER_FILE) {
        cfg_say(cfg, true,
                "%s:%lu: config = %s is not allowed in a file that CONFIG names; allowed in the "
                "system's file and the environment",
                at->path, at->line, CFG_SHOWN(value));
        return;
    }
    snprintf(assignment, sizeof assignment, "%s:%lu: %s %s %s", at->path, at->line, name,
             adds ? "+=" : "=", CFG_SHOWN(value));
    if (adds)
        add_rules(cfg, row, value, at->source, assignment);
    else
        cfg_set(cfg, row, value, at->source, assignment);
}

static void read_line(struct cfg *cfg, const struct location *at, char *line)
{
    char *name = skip_blanks(line);
    if (*name == '\0' || *name == '#')
        return;
    char *equals = strchr(name, '=');
    if (equals == NULL) {
        cut_blanks(name);
        tell_no_setting(cfg, at, name);
        return;
    }
    *equals = '\0';
    cut_blanks(name);
    char *value = skip_blanks(equals + 1);
    if (*value == '"') {
        if (!unquote(value)) {
            cfg_say(cfg, true,
                    "%s:%lu: the value of %s begins with a quote and does not end with one%s",
                    at->path, at->line, CFG_SHOWN(name), consequence(cfg, at, name));
            return;
        }
    } else {
        /* The blank after '=' counts: in "name = # x" the value is empty. */
        cut_comment(equals + 1);
        value = skip_blanks(equals + 1);
        cut_blanks(value);
    }
    take_line(cfg, at, name, value);
}

/* Returns the end of a message about a file with lines that are not read: some may be a policy. */
static const char *of_unread_file(struct cfg *cfg, enum cfg_source source, const char *path)
{
    return source == CFG_FROM_SYSTEM_FILE ? cfg_misread(cfg, path) : "";
}

/* Opens a regular file of at most LARGEST_FILE bytes, or sets errno to EINVAL or EFBIG: neither a
 * pipe nor a large file may delay the program that we live in. */
static FILE *open_regular(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    struct stat st;
    FILE *file = NULL;
    if (fstat(fd, &st) != 0)
        goto fail;
    if (!S_ISREG(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
        goto fail;
    }
    if (st.st_size > LARGEST_FILE) {
        errno = EFBIG;
        goto fail;
    }
    file = fdopen(fd, "r");
    if (file != NULL)
        return file;
fail:;
    int error = errno;
    close(fd);
    errno = error;
    return NULL;
}

/* Windows writes it before UTF-8. */
static void skip_byte_order(FILE *file)
{
    if (getc(file) != 0xef || getc(file) != 0xbb || getc(file) != 0xbf)
        rewind(file);
}

enum line { LINE_READ, LINE_NONE, LINE_LONG, LINE_NUL };

/* Reads a line without its end. */
static enum line next_line(FILE *file, char line[LONGEST_LINE])
{
    size_t n = 0;
    int c;

    while ((c = getc(file)) != EOF && c != '\n') {
        if (c == '\0')
            return LINE_NUL;
        if (n + 2 == LONGEST_LINE)
            return LINE_LONG;
        line[n++] = (char)c;
    }
    line[n] = '\0';
    return n > 0 || c != EOF ? LINE_READ : LINE_NONE;
}

static void read_lines(struct cfg *cfg, FILE *file, const char *path, enum cfg_source source)
{
    struct location at = {.path = path, .line = 1, .source = source};
    char line[LONGEST_LINE] = "";
    enum line found;

    skip_byte_order(file);
    for (; (found = next_line(file, line)) == LINE_READ; at.line++)
        read_line(cfg, &at, line);
    if (found == LINE_LONG)
        cfg_say(cfg, true, "%s:%lu: the line is longer than %d characters%s", path, at.line,
                LONGEST_LINE - 2, of_unread_file(cfg, source, path));
    else if (found == LINE_NUL)
        cfg_say(cfg, true, "%s:%lu: the line holds a NUL byte; is the file text in UTF-8?%s", path,
                at.line, of_unread_file(cfg, source, path));
    else if (ferror(file)) {
        const char *why = strerror(errno);
        cfg_say(cfg, true, "%s cannot be read after line %lu: %s%s", path, at.line - 1, why,
                of_unread_file(cfg, source, path));
    }
}

bool cfg_read_file(struct cfg *cfg, const char *path, enum cfg_source source, bool may_be_missing)
{
    FILE *file = open_regular(path);
    const char *why = errno == EINVAL  ? "not a regular file"
                      : errno == EFBIG ? "larger than 1 MiB"
                                       : strerror(errno);
    bool missing = errno == ENOENT || errno == ENOTDIR;
    if (file != NULL) {
        cfg_looked_at(cfg, path, "read");
        read_lines(cfg, file, path, source);
        fclose(file);
        return true;
    }
    cfg_looked_at(cfg, path, missing ? "not there" : why);
    if (!may_be_missing || !missing)
        cfg_say(cfg, true, "%s%s cannot be read: %s; a readable configuration file is needed%s",
                source == CFG_FROM_USER_FILE ? CFG_PREFIX "CONFIG: " : "", path, why,
                of_unread_file(cfg, source, path));
    return !missing;
}
