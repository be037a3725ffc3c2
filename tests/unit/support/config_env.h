/* Shared by the tests of config/: a scratch directory, a clean environment, checks. */
#ifndef TESTS_CONFIG_ENV_H
#define TESTS_CONFIG_ENV_H

/* The promises of config/config.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/parts.h"

static char etc[64]; /* stands for SYSCONFDIR */

static inline void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", etc, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static inline void clear_environment(void)
{
    char name[128];
    for (char **entry = environ; *entry != NULL;) {
        size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, CFG_PREFIX, strlen(CFG_PREFIX)) != 0 || length >= sizeof name) {
            entry++;
            continue;
        }
        memcpy(name, *entry, length);
        name[length] = '\0';
        unsetenv(name);
        entry = environ;
    }
}

static inline int fresh(void **state)
{
    (void)state;
    char path[128];
    strcpy(etc, "/tmp/sparseshim-config-XXXXXX");
    clear_environment();
    if (mkdtemp(etc) == NULL)
        return -1;
    setenv("HOME", etc, 1); /* hides the user's own profiles */
    unsetenv("XDG_CONFIG_HOME");
    snprintf(path, sizeof path, "%s/sparseshim.d", etc);
    return mkdir(path, 0700);
}

static inline int swept(void **state)
{
    (void)state;
    char command[160];
    clear_environment();
    snprintf(command, sizeof command, "rm -r '%s'", etc);
    return system(command);
}

static struct cfg *load(void)
{
    struct cfg *cfg = cfg_load_from(etc, NULL);
    assert_non_null(cfg);
    return cfg;
}

static struct cfg_row row_of(const struct cfg *cfg, const char *name)
{
    struct cfg_row row;
    for (size_t i = 0; cfg_row(cfg, i, &row); i++)
        if (strcmp(row.name, name) == 0)
            return row;
    fail_msg("no row %s", name);
    return row;
}

static inline void assert_value(const struct cfg *cfg, const char *name, const char *value,
                                enum cfg_source source)
{
    struct cfg_row row = row_of(cfg, name);
    assert_string_equal(row.value, value);
    assert_int_equal(row.source, source);
}

static inline void assert_no_problems(const struct cfg *cfg)
{
    const char *problem = cfg_problem(cfg, 0, NULL);
    if (problem != NULL)
        fail_msg("unexpected problem: %s", problem);
}

static inline void assert_one_problem(const struct cfg *cfg, bool expected_fatal, const char *text)
{
    bool fatal = !expected_fatal;
    const char *problem = cfg_problem(cfg, 0, &fatal);
    assert_non_null(problem);
    assert_string_equal(problem, text);
    assert_int_equal(fatal, expected_fatal);
    assert_null(cfg_problem(cfg, 1, NULL));
}

#define FRESH(test) cmocka_unit_test_setup_teardown(test, fresh, swept)

#endif
