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

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", etc, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void clear_environment(void)
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

static int fresh(void **state)
{
    (void)state;
    char path[128];
    strcpy(etc, "/tmp/sparseshim-config-XXXXXX");
    clear_environment();
    if (mkdtemp(etc) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/sparseshim.d", etc);
    return mkdir(path, 0700);
}

static int swept(void **state)
{
    (void)state;
    char command[160];
    clear_environment();
    snprintf(command, sizeof command, "rm -r '%s'", etc);
    return system(command);
}

static struct cfg *load(void)
{
    struct cfg *cfg = cfg_load_from(etc);
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

static void assert_value(const struct cfg *cfg, const char *name, const char *value,
                         enum cfg_source source)
{
    struct cfg_row row = row_of(cfg, name);
    assert_string_equal(row.value, value);
    assert_int_equal(row.source, source);
}

static void assert_no_problems(const struct cfg *cfg)
{
    const char *problem = cfg_problem(cfg, 0, NULL);
    if (problem != NULL)
        fail_msg("unexpected problem: %s", problem);
}

static void assert_one_problem(const struct cfg *cfg, bool expected_fatal, const char *text)
{
    bool fatal = !expected_fatal;
    const char *problem = cfg_problem(cfg, 0, &fatal);
    assert_non_null(problem);
    assert_string_equal(problem, text);
    assert_int_equal(fatal, expected_fatal);
    assert_null(cfg_problem(cfg, 1, NULL));
}

static void defaults_are_as_documented(void **state)
{
    (void)state;
    struct cfg *cfg = load();
    const struct cfg_options *o = cfg_options(cfg);
    assert_no_problems(cfg);
    assert_false(o->disable);
    assert_string_equal(o->config, "");
    assert_int_equal(o->mode, CFG_MODE_EXACT);
    assert_int_equal(o->min_count, 65536);
    assert_int_equal(o->algorithm, CFG_ALGORITHM_AUTO);
    assert_int_equal(o->index_coding, CFG_CODING_AUTO);
    assert_true(o->alpha < 0 && o->beta < 0);
    assert_int_equal(o->max_memory, 0);
    assert_true(o->timeout == 0);
    assert_int_equal(o->debug, CFG_DEBUG_WARN);
    assert_string_equal(o->debug_file, "stderr");
    assert_int_equal(o->report, CFG_REPORT_OFF);
    assert_string_equal(o->report_dir, "");
    assert_false(o->strict);
    struct cfg_row row;
    for (size_t i = 0; cfg_row(cfg, i, &row); i++) {
        assert_string_equal(row.value, row.standard);
        assert_int_equal(row.source, CFG_FROM_DEFAULT);
    }
    cfg_free(cfg);
}

static void each_word_of_the_allowed_text_is_the_value_of_its_enum(void **state)
{
    (void)state;
    static const struct {
        const char *variable;
        const char *word;
        size_t offset;
        unsigned value;
    } words[] = {
        {"SPARSESHIM_MODE", "observe", offsetof(struct cfg_options, mode), CFG_MODE_OBSERVE},
        {"SPARSESHIM_MODE", " Exact\t", offsetof(struct cfg_options, mode), CFG_MODE_EXACT},
        {"SPARSESHIM_ALGORITHM", "auto", offsetof(struct cfg_options, algorithm),
         CFG_ALGORITHM_AUTO},
        {"SPARSESHIM_ALGORITHM", "recursive_doubling", offsetof(struct cfg_options, algorithm),
         CFG_ALGORITHM_RECURSIVE_DOUBLING},
        {"SPARSESHIM_ALGORITHM", "split-allgather", offsetof(struct cfg_options, algorithm),
         CFG_ALGORITHM_SPLIT_ALLGATHER},
        {"SPARSESHIM_ALGORITHM", "dsar", offsetof(struct cfg_options, algorithm),
         CFG_ALGORITHM_DSAR},
        {"SPARSESHIM_ALGORITHM", "ring", offsetof(struct cfg_options, algorithm),
         CFG_ALGORITHM_RING},
        {"SPARSESHIM_ALGORITHM", "allgather", offsetof(struct cfg_options, algorithm),
         CFG_ALGORITHM_ALLGATHER},
        {"SPARSESHIM_ALGORITHM", "dense", offsetof(struct cfg_options, algorithm),
         CFG_ALGORITHM_DENSE},
        {"SPARSESHIM_INDEX_CODING", "auto", offsetof(struct cfg_options, index_coding),
         CFG_CODING_AUTO},
        {"SPARSESHIM_INDEX_CODING", "u32", offsetof(struct cfg_options, index_coding),
         CFG_CODING_U32},
        {"SPARSESHIM_INDEX_CODING", "packed", offsetof(struct cfg_options, index_coding),
         CFG_CODING_PACKED},
        {"SPARSESHIM_INDEX_CODING", "bitmap", offsetof(struct cfg_options, index_coding),
         CFG_CODING_BITMAP},
        {"SPARSESHIM_DEBUG", "none", offsetof(struct cfg_options, debug), CFG_DEBUG_NONE},
        {"SPARSESHIM_DEBUG", "trace", offsetof(struct cfg_options, debug), CFG_DEBUG_TRACE},
        {"SPARSESHIM_REPORT", "off", offsetof(struct cfg_options, report), CFG_REPORT_OFF},
        {"SPARSESHIM_REPORT", "rank0", offsetof(struct cfg_options, report), CFG_REPORT_RANK0},
        {"SPARSESHIM_REPORT", "ALL", offsetof(struct cfg_options, report), CFG_REPORT_ALL},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        unsigned value;
        setenv(words[i].variable, words[i].word, 1);
        struct cfg *cfg = load();
        assert_no_problems(cfg);
        memcpy(&value, (const char *)cfg_options(cfg) + words[i].offset, sizeof value);
        assert_int_equal(value, words[i].value);
        cfg_free(cfg);
        unsetenv(words[i].variable);
    }
}

static void counts_are_read_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},
        {"00012", 12},
        {"64Ki", 65536},
        {"64k", 64000},
        {"16M", 16000000},
        {"16Mi", 16777216},
        {"1e6", 1000000},
        {"1E+6", 1000000},
        {"2500e-2", 25},
        {"1.5Ki", 1536},
        {"0.0009765625Ki", 1},
        {".5k", 500},
        {"2 Gi", UINT64_C(2147483648)},
        {"9007199254740993", UINT64_C(9007199254740993)}, /* 2^53 + 1: no double in between */
        {"18446744073709551615", UINT64_MAX},
        {"1e19", UINT64_C(10000000000000000000)},
        {"0e9999", 0},
    };
    union cfg_value v;
    const struct cfg_option *option = &cfg_table[cfg_find("min_count")];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        v.whole = 77;
        if (!cfg_parse(option, good[i].text, &v))
            fail_msg("%s was refused", good[i].text);
        assert_int_equal(v.whole, good[i].value);
    }
    option = &cfg_table[cfg_find("max_memory")];
    assert_true(cfg_parse(option, "2GiB", &v));
    assert_int_equal(v.whole, UINT64_C(2147483648));
    assert_true(cfg_parse(option, "500MB", &v));
    assert_int_equal(v.whole, 500000000);
    assert_true(cfg_parse(option, "1/4 ram", &v));
    assert_int_equal(v.whole, 0);
}

static void bad_numbers_are_refused_and_leave_the_value_alone(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *text;
    } bad[] = {
        {"min_count", ""},
        {"min_count", "-5"},
        {"min_count", "+5"},
        {"min_count", "1.5"},
        {"min_count", "1,5"},
        {"min_count", "1.0001Ki"},
        {"min_count", "5x"},
        {"min_count", "5KiB"},
        {"min_count", "5Kii"},
        {"min_count", "5 6"},
        {"min_count", "nan"},
        {"min_count", "inf"},
        {"min_count", "0x10"},
        {"min_count", "1e"},
        {"min_count", "1e-1"},
        {"min_count", "."},
        {"min_count", "1..2"},
        {"min_count", "18446744073709551616"},
        {"min_count", "1e20"},
        {"min_count", "16384Pi"},
        {"min_count", "1e99999999999999999999"},
        {"min_count", "99999999999999999999999999999999999999999999999999999999999999999999999999"},
        {"max_memory", "0"},
        {"max_memory", "-1Gi"},
        {"max_memory", "1/2 RAM"},
        {"alpha", "-1e-6"},
        {"alpha", "nan"},
        {"alpha", "inf"},
        {"alpha", "1e400"},
        {"alpha", "1e-400"},
        {"alpha", "1us2"},
        {"alpha", "1m"},
        {"alpha", "us"},
        {"alpha", "auto"},
        {"beta", ""},
        {"timeout", "0"},
        {"timeout", "-1"},
        {"timeout", "on"},
        {"timeout", "3 minutes"},
        {"mode", "exac"},
        {"mode", ""},
        {"mode", "observe, exact"},
        {"disable", "2"},
        {"disable", "onn"},
        {"report_dir", "a\nb"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        union cfg_value v = {.whole = 77};
        if (cfg_parse(&cfg_table[cfg_find(bad[i].name)], bad[i].text, &v))
            fail_msg("%s = '%s' was accepted", bad[i].name, bad[i].text);
        assert_int_equal(v.whole, 77);
    }
}

static void times_mean_the_same_number_in_every_unit(void **state)
{
    (void)state;
    static const char *const alike[] = {"2e-5",      "0.00002",    "20us",      "0.02ms",
                                        "20 us",     "20000ns",    "0.00002 s", "0.2e-4s",
                                        "200e-1 us", "2.0000e-2ms"};
    const struct cfg_option *option = &cfg_table[cfg_find("alpha")];
    for (size_t i = 0; i < sizeof alike / sizeof alike[0]; i++) {
        union cfg_value v;
        assert_true(cfg_parse(option, alike[i], &v));
        assert_true(v.real == 2e-5);
    }
    union cfg_value v;
    assert_true(cfg_parse(option, "0", &v));
    assert_true(v.real == 0 && !signbit(v.real));
    assert_true(cfg_parse(option, "measured", &v));
    assert_true(v.real < 0);
    option = &cfg_table[cfg_find("timeout")];
    assert_true(cfg_parse(option, "2.5", &v));
    assert_true(v.real == 2.5);
    assert_true(cfg_parse(option, "off", &v));
    assert_true(v.real == 0);
}

/* Where no locale with a decimal comma is installed, the C locale runs the same cases. */
static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "es_ES.UTF-8",
                                        "C"};
    size_t i = 0;
    while (setlocale(LC_ALL, names[i]) == NULL)
        i++;
    union cfg_value v;
    const struct cfg_option *option = &cfg_table[cfg_find("timeout")];
    bool with_point = cfg_parse(option, "2.5", &v) && v.real == 2.5;
    bool with_comma = cfg_parse(option, "2,5", &v);
    setlocale(LC_ALL, "C");
    assert_true(with_point);
    assert_false(with_comma);
}

static void switches_take_the_usual_words(void **state)
{
    (void)state;
    static const char *const yes[] = {"on", "1", "yes", "true", "TRUE", "On"};
    static const char *const no[] = {"off", "0", "no", "false", "", "maybe"};
    for (size_t i = 0; i < 6; i++) {
        setenv("SPARSESHIM_DISABLE", yes[i], 1);
        struct cfg *cfg = load();
        assert_true(cfg_options(cfg)->disable);
        assert_value(cfg, "DISABLE", "on", CFG_FROM_ENVIRONMENT);
        assert_true(cfg_disabled());
        cfg_free(cfg);
        setenv("SPARSESHIM_DISABLE", no[i], 1);
        cfg = load();
        assert_false(cfg_options(cfg)->disable);
        assert_false(cfg_disabled());
        cfg_free(cfg);
    }
    unsetenv("SPARSESHIM_DISABLE");
    assert_false(cfg_disabled());
}

static void environment_wins_over_file_over_system_file_over_default(void **state)
{
    (void)state;
    char path[128];
    write_file("sparseshim.conf", "mode = observe\nmin_count = 1\nalgorithm = ring\n");
    write_file("mine.conf", "min_count = 2\nalgorithm = dsar\n");
    setenv("SPARSESHIM_ALGORITHM", "dense", 1);
    snprintf(path, sizeof path, "%s/mine.conf", etc);
    setenv("SPARSESHIM_CONFIG", path, 1);
    struct cfg *cfg = load();
    assert_no_problems(cfg);
    assert_value(cfg, "MODE", "observe", CFG_FROM_SYSTEM_FILE);
    assert_value(cfg, "MIN_COUNT", "2", CFG_FROM_USER_FILE);
    assert_value(cfg, "ALGORITHM", "dense", CFG_FROM_ENVIRONMENT);
    assert_value(cfg, "INDEX_CODING", "auto", CFG_FROM_DEFAULT);
    assert_value(cfg, "CONFIG", path, CFG_FROM_ENVIRONMENT);
    assert_int_equal(cfg_options(cfg)->mode, CFG_MODE_OBSERVE);
    assert_int_equal(cfg_options(cfg)->min_count, 2);
    assert_int_equal(cfg_options(cfg)->algorithm, CFG_ALGORITHM_DENSE);
    cfg_free(cfg);
}

static void profiles_come_from_the_system_directory(void **state)
{
    (void)state;
    char expected[400];
    write_file("sparseshim.d/slow.conf", "timeout = 30\n");
    write_file("sparseshim.conf", "config = @slow\n");
    struct cfg *cfg = load();
    assert_no_problems(cfg);
    assert_value(cfg, "TIMEOUT", "30", CFG_FROM_USER_FILE);
    assert_value(cfg, "CONFIG", "@slow", CFG_FROM_SYSTEM_FILE);
    cfg_free(cfg);

    setenv("SPARSESHIM_CONFIG", "@absent", 1);
    cfg = load();
    snprintf(expected, sizeof expected,
             "SPARSESHIM_CONFIG: %s/sparseshim.d/absent.conf cannot be read: No such file or "
             "directory; a readable configuration file is needed",
             etc);
    assert_one_problem(cfg, true, expected);
    assert_value(cfg, "TIMEOUT", "off", CFG_FROM_DEFAULT);
    cfg_free(cfg);

    setenv("SPARSESHIM_CONFIG", "@../sparseshim", 1);
    cfg = load();
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "SPARSESHIM_CONFIG=@../sparseshim"));
    cfg_free(cfg);
}

static void files_that_are_no_files_are_a_problem_and_do_not_hang(void **state)
{
    (void)state;
    static const char *const paths[] = {"/dev/zero", "/", "/nonexistent/x.conf"};
    for (size_t i = 0; i < 3; i++) {
        setenv("SPARSESHIM_CONFIG", paths[i], 1);
        struct cfg *cfg = load();
        bool fatal = false;
        const char *problem = cfg_problem(cfg, 0, &fatal);
        assert_non_null(problem);
        assert_non_null(strstr(problem, paths[i]));
        assert_non_null(strstr(problem, "cannot be read"));
        assert_true(fatal);
        cfg_free(cfg);
    }
}

static void a_problem_names_variable_value_allowed_and_what_stays(void **state)
{
    (void)state;
    write_file("sparseshim.conf", "mode = observe\n");
    setenv("SPARSESHIM_MODE", "exakt", 1);
    struct cfg *cfg = load();
    assert_one_problem(cfg, true,
                       "SPARSESHIM_MODE=exakt is not allowed (allowed: observe, exact); observe "
                       "stays");
    assert_value(cfg, "MODE", "observe", CFG_FROM_SYSTEM_FILE);
    cfg_free(cfg);
}

static void a_problem_in_a_file_names_file_and_line(void **state)
{
    (void)state;
    char expected[400];
    write_file("sparseshim.conf", "# a comment\n\n   timeout = soon # why not\nmode = observe\n");
    struct cfg *cfg = load();
    snprintf(expected, sizeof expected,
             "%s/sparseshim.conf:3: timeout = soon is not allowed (allowed: off, or seconds, more "
             "than 0, such as 30, 2.5 or 500ms); off stays",
             etc);
    assert_one_problem(cfg, true, expected);
    assert_value(cfg, "MODE", "observe", CFG_FROM_SYSTEM_FILE);
    cfg_free(cfg);

    write_file("sparseshim.conf", "mode observe\n");
    cfg = load();
    snprintf(expected, sizeof expected,
             "%s/sparseshim.conf:1: 'mode observe?' is not a setting; allowed are lines 'name = "
             "value'",
             etc);
    assert_one_problem(cfg, true, expected);
    cfg_free(cfg);

    write_file("sparseshim.conf", "\nalgoritm = ring\n");
    cfg = load();
    snprintf(expected, sizeof expected,
             "%s/sparseshim.conf:2: algoritm is not known; did you mean algorithm?", etc);
    assert_one_problem(cfg, false, expected);
    cfg_free(cfg);

    write_file("mine.conf", "config = other.conf\n");
    write_file("sparseshim.conf", "");
    snprintf(expected, sizeof expected, "%s/mine.conf", etc);
    setenv("SPARSESHIM_CONFIG", expected, 1);
    cfg = load();
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "mine.conf:1: config = other.conf"));
    cfg_free(cfg);
}

static void unknown_variables_get_the_nearest_name(void **state)
{
    (void)state;
    static const struct {
        const char *variable;
        const char *problem;
    } cases[] = {
        {"SPARSESHIM_ALGORITM",
         "SPARSESHIM_ALGORITM is not known; did you mean SPARSESHIM_ALGORITHM?"},
        {"SPARSESHIM_REPORTDIR",
         "SPARSESHIM_REPORTDIR is not known; did you mean SPARSESHIM_REPORT_DIR?"},
        {"SPARSESHIM_mode", "SPARSESHIM_mode is not known; did you mean SPARSESHIM_MODE?"},
        {"SPARSESHIM_MDOE", "SPARSESHIM_MDOE is not known; did you mean SPARSESHIM_MODE?"},
        {"SPARSESHIM_FROBNICATE", "SPARSESHIM_FROBNICATE is not known"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv(cases[i].variable, "x", 1);
        struct cfg *cfg = load();
        assert_one_problem(cfg, false, cases[i].problem);
        cfg_free(cfg);
        unsetenv(cases[i].variable);
    }
}

static void hash_agrees_for_equal_values_and_differs_for_shared_ones_only(void **state)
{
    (void)state;
    static const char *const changes[][2] = {
        {"SPARSESHIM_MODE", "observe"},   {"SPARSESHIM_MIN_COUNT", "1001"},
        {"SPARSESHIM_ALGORITHM", "ring"}, {"SPARSESHIM_INDEX_CODING", "u32"},
        {"SPARSESHIM_ALPHA", "1us"},      {"SPARSESHIM_BETA", "0"}};
    setenv("SPARSESHIM_MIN_COUNT", "1e3", 1);
    setenv("SPARSESHIM_ALPHA", "20us", 1);
    struct cfg *cfg = load();
    uint64_t hash = cfg_hash_shared(cfg);
    cfg_free(cfg);

    setenv("SPARSESHIM_MIN_COUNT", "1000", 1);
    setenv("SPARSESHIM_ALPHA", "2e-5", 1);
    setenv("SPARSESHIM_DEBUG", "trace", 1);
    setenv("SPARSESHIM_TIMEOUT", "3", 1);
    cfg = load();
    assert_true(cfg_hash_shared(cfg) == hash);
    cfg_free(cfg);

    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const char *before = getenv(changes[i][0]);
        char *kept = before != NULL ? strdup(before) : NULL;
        setenv(changes[i][0], changes[i][1], 1);
        cfg = load();
        assert_no_problems(cfg);
        assert_true(cfg_hash_shared(cfg) != hash);
        cfg_free(cfg);
        if (kept != NULL)
            setenv(changes[i][0], kept, 1);
        else
            unsetenv(changes[i][0]);
        free(kept);
    }
}

static void a_written_line_reads_back_as_the_same_text(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "/tmp/report", "/tmp/a # b", "#", "", "\"", "\"quoted\" and # more", "a=b", "caf\303\251"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char line[256];
        struct cfg_row row = {.name = "REPORT_DIR", .value = texts[i]};
        int length = cfg_file_line(line, sizeof line, &row);
        assert_int_equal(length, strlen(line));
        strcat(line, "\n");
        write_file("sparseshim.conf", line);
        struct cfg *cfg = load();
        assert_no_problems(cfg);
        assert_string_equal(cfg_options(cfg)->report_dir, texts[i]);
        cfg_free(cfg);
    }
}

static void garbage_in_files_is_reported_and_bounded(void **state)
{
    (void)state;
    static char text[40000];
    memset(text, 'x', sizeof text - 1);
    write_file("sparseshim.conf", text);
    struct cfg *cfg = load();
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "longer than"));
    cfg_free(cfg);

    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "x\n", 2);
    write_file("sparseshim.conf", text);
    cfg = load();
    size_t n = 0;
    while (cfg_problem(cfg, n, NULL) != NULL)
        n++;
    assert_in_range(n, 1, 1000);
    cfg_free(cfg);

    write_file("sparseshim.conf", "report_dir = \"open\nreport_dir = \"a\" b\nmode=\nmin_count");
    cfg = load();
    for (size_t i = 0; i < 4; i++)
        assert_non_null(cfg_problem(cfg, i, NULL));
    assert_null(cfg_problem(cfg, 4, NULL));
    assert_string_equal(cfg_options(cfg)->report_dir, "");
    cfg_free(cfg);
}

static void loading_leaves_errno_alone(void **state)
{
    (void)state;
    setenv("SPARSESHIM_CONFIG", "/nonexistent", 1);
    errno = EDOM;
    struct cfg *cfg = load();
    assert_int_equal(errno, EDOM);
    cfg_free(cfg);
}

static void objections_say_what_is_allowed(void **state)
{
    (void)state;
    size_t row = cfg_find("min-count");
    assert_int_not_equal(row, SIZE_MAX);
    assert_int_equal(cfg_find("nothing"), SIZE_MAX);
    assert_null(cfg_objection(row, "64Ki"));
    char *objection = cfg_objection(row, "many");
    assert_string_equal(objection, "SPARSESHIM_MIN_COUNT=many is not allowed (allowed: elements, 0 "
                                   "or more, such as 65536, 64Ki, 16M (= 16,000,000) or 1e6)");
    free(objection);
}

#define FRESH(test) cmocka_unit_test_setup_teardown(test, fresh, swept)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(defaults_are_as_documented),
        FRESH(each_word_of_the_allowed_text_is_the_value_of_its_enum),
        FRESH(counts_are_read_exactly),
        FRESH(bad_numbers_are_refused_and_leave_the_value_alone),
        FRESH(times_mean_the_same_number_in_every_unit),
        FRESH(numbers_do_not_depend_on_the_locale),
        FRESH(switches_take_the_usual_words),
        FRESH(environment_wins_over_file_over_system_file_over_default),
        FRESH(profiles_come_from_the_system_directory),
        FRESH(files_that_are_no_files_are_a_problem_and_do_not_hang),
        FRESH(a_problem_names_variable_value_allowed_and_what_stays),
        FRESH(a_problem_in_a_file_names_file_and_line),
        FRESH(unknown_variables_get_the_nearest_name),
        FRESH(hash_agrees_for_equal_values_and_differs_for_shared_ones_only),
        FRESH(a_written_line_reads_back_as_the_same_text),
        FRESH(garbage_in_files_is_reported_and_bounded),
        FRESH(loading_leaves_errno_alone),
        FRESH(objections_say_what_is_allowed),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
