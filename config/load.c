/* Values of options, by rising precedence of their sources: the table, the system's file, CONFIG's
 * file or profile, the environment. */
#include "config/parts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_NAME = 200 };

static const char *variable(size_t row, char name[64])
{
    snprintf(name, 64, CFG_PREFIX "%s", cfg_table[row].name);
    return secure_getenv(name);
}

static void set_from_environment(struct cfg *cfg, size_t row)
{
    char name[64];
    char assignment[64 + CFG_QUOTED];
    const char *value = variable(row, name);
    if (value == NULL)
        return;
    snprintf(assignment, sizeof assignment, "%s=%s", name, CFG_SHOWN(value));
    cfg_set(cfg, row, value, CFG_FROM_ENVIRONMENT, assignment);
}

/* Returns true for variables of the modulefiles, of run, and of the tests. */
static bool is_no_option(const char *name)
{
    static const char *const names[] = {CFG_PREFIX "ROOT", CFG_PREFIX "LIB", CFG_RUN_PROCESS,
                                        CFG_TEST};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The environment is walked only to find names that are not ours; values come through
 * secure_getenv. */
static void find_unknown_variables(struct cfg *cfg)
{
    const size_t prefix = strlen(CFG_PREFIX);
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, CFG_PREFIX, prefix) != 0)
            continue;
        char name[LONGEST_NAME];
        size_t length = strcspn(*entry, "=");
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1),
                 *entry);
        size_t row = cfg_find(name + prefix);
        const char *instead = row == SIZE_MAX ? cfg_removed(name + prefix) : NULL;
        if (is_no_option(name) ||
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
        cfg_say(cfg, false, "%s", CFG_NOT_KNOWN(CFG_PREFIX, name + prefix, near));
    }
}

/* Reads a profile. Returns true if it is in the folder, even with problems. */
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
                CFG_PREFIX "CONFIG=@%s: profiles are not found, since it is not known where this "
                           "is installed",
                CFG_SHOWN(name));
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
                CFG_PREFIX "CONFIG=%s is not allowed (allowed: after '@' the name of a profile "
                           "in %s%s%s/sparseshim.d, without '/' and '.conf')",
                CFG_SHOWN(config), folder, folder[0] != '\0' ? " or " : "",
                sysconfdir != NULL ? sysconfdir : "SYSCONFDIR");
    else if ((folder[0] == '\0' || !read_profile(cfg, folder, name, true)) &&
             (built == NULL || !read_profile(cfg, built, name, true)))
        read_installed_profile(cfg, sysconfdir, name);
}

struct cfg *cfg_load_from(const char *sysconfdir, const char *built)
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
    cfg_set_mode_defaults(cfg);
    cfg_check_needs(cfg);
    find_unknown_variables(cfg);
done:
    if (cfg != NULL && cfg->out_of_memory) {
        cfg_free(cfg);
        cfg = NULL;
    }
    errno = error;
    return cfg;
}

struct cfg *cfg_load(void)
{
    char directory[PATH_MAX], built[PATH_MAX];
    return cfg_load_from(cfg_sysconfdir(directory, sizeof directory) ? directory : NULL,
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
