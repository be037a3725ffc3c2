#include "tests/unit/support/config_env.h"

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
    assert_int_equal(o->algorithm, SS_AUTO);
    assert_true(o->density.density == 0.01 && o->density.k == 0 && o->density.bucket == 0);
    assert_string_equal(o->include, "");
    assert_string_equal(o->exclude, "");
    assert_int_equal(o->warmup_steps, 0);
    assert_int_equal(o->value_type, SS_VALUES_SAME);
    assert_int_equal(o->guard, SS_GUARD_WARN);
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

static void the_files_looked_at_are_named_with_what_became_of_them(void **state)
{
    (void)state;
    char path[128];
    const char *found;
    struct cfg *cfg = load();
    snprintf(path, sizeof path, "%s/sparseshim.conf", etc);
    assert_string_equal(cfg_file(cfg, 0, &found), path);
    assert_string_equal(found, "not there");
    assert_null(cfg_file(cfg, 1, NULL));
    cfg_free(cfg);

    write_file("sparseshim.conf", "config = /\ntimeout = 3\n");
    cfg = load();
    assert_string_equal(cfg_file(cfg, 0, &found), path);
    assert_string_equal(found, "read");
    assert_string_equal(cfg_file(cfg, 1, &found), "/");
    assert_string_equal(found, "Is a directory");
    cfg_free(cfg);
}

static void where_nothing_is_known_to_be_installed_the_environment_counts(void **state)
{
    (void)state;
    setenv("SPARSESHIM_TIMEOUT", "5", 1);
    struct cfg *cfg = cfg_load_from(NULL, NULL);
    const char *found;
    assert_non_null(cfg);
    assert_no_problems(cfg);
    assert_value(cfg, "TIMEOUT", "5", CFG_FROM_ENVIRONMENT);
    assert_string_equal(cfg_file(cfg, 0, &found), "sparseshim.conf");
    assert_string_equal(found, "not looked for: it is not known where this is installed");
    cfg_free(cfg);
    setenv("SPARSESHIM_CONFIG", "@fast", 1);
    cfg = cfg_load_from(NULL, NULL);
    assert_one_problem(
        cfg, true,
        "SPARSESHIM_CONFIG=@fast: profiles are not found, since it is not known where "
        "this is installed");
    cfg_free(cfg);
}

static void a_way_leads_from_a_file_to_a_directory(void **state)
{
    (void)state;
    static const char *const ways[][3] = {
        {"/opt/lib/a.so", "../etc", "/opt/etc"},
        {"/opt/lib/a.so", "../../etc", "/etc"},
        {"/opt/lib/a.so", "../../../etc", "/etc"},
        {"/opt/lib/a.so", "..", "/opt"},
        {"/opt/lib/a.so", "../..", "/"},
        {"/opt/lib/a.so", ".", "/opt/lib"},
        {"/opt/lib/a.so", "etc/x", "/opt/lib/etc/x"},
        {"/opt/lib/a.so", "../..etc", "/opt/..etc"},
        {"/a.so", "etc", "/etc"},
    };
    char path[64];
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        assert_true(cfg_path(path, sizeof path, ways[i][0], ways[i][1]));
        assert_string_equal(path, ways[i][2]);
    }
    assert_true(cfg_path(path, sizeof "/opt/etc", "/opt/lib/a.so", "../etc"));
    assert_false(cfg_path(path, sizeof "/opt/etc" - 1, "/opt/lib/a.so", "../etc"));
}

static void what_needs_topk_says_so(void **state)
{
    (void)state;
    static const char *const names[] = {"ALGORITHM", "VALUE_TYPE", "DENSITY",
                                        "REGISTER",  "EXCLUDE",    "WARMUP_STEPS"};
    static const char *const values[] = {"oktopk", "bf16", "0.05", "count=5", "count=7", "9"};
    static const char *const standards[] = {"auto", "same"};
    char name[64];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(name, sizeof name, "SPARSESHIM_%s", names[i]);
        setenv(name, values[i], 1);
        struct cfg *cfg = load();
        bool fatal = false;
        const char *problem = cfg_problem(cfg, 0, &fatal);
        assert_non_null(problem);
        assert_int_equal(fatal, i < 2); /* the others have no effect */
        assert_non_null(strstr(problem, name));
        assert_non_null(strstr(problem, "needs SPARSESHIM_MODE=topk"));
        assert_null(cfg_problem(cfg, 1, NULL));
        assert_value(cfg, names[i], i < 2 ? standards[i] : values[i],
                     i < 2 ? CFG_FROM_DEFAULT : CFG_FROM_ENVIRONMENT);
        cfg_free(cfg);
        setenv("SPARSESHIM_MODE", "topk", 1);
        cfg = load();
        assert_no_problems(cfg);
        assert_value(cfg, names[i], values[i], CFG_FROM_ENVIRONMENT);
        cfg_free(cfg);
        unsetenv("SPARSESHIM_MODE");
        unsetenv(name);
    }
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
    assert_value(cfg, "TIMEOUT", "off", CFG_FROM_DEFAULT);
    assert_value(cfg, "CONFIG", path, CFG_FROM_ENVIRONMENT);
    assert_int_equal(cfg_options(cfg)->mode, CFG_MODE_OBSERVE);
    assert_int_equal(cfg_options(cfg)->min_count, 2);
    assert_int_equal(cfg_options(cfg)->algorithm, SS_DENSE);
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

static void make_folder(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", etc, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void a_profile_of_the_user_comes_before_the_installed_one(void **state)
{
    (void)state;
    const char *found;
    char path[256];
    write_file("sparseshim.d/mine.conf", "timeout = 30\n");
    make_folder(".config");
    make_folder(".config/sparseshim");
    setenv("SPARSESHIM_CONFIG", "@mine", 1);
    struct cfg *cfg = load();
    assert_value(cfg, "TIMEOUT", "30", CFG_FROM_USER_FILE);
    assert_no_problems(cfg);
    snprintf(path, sizeof path, "%s/.config/sparseshim/mine.conf", etc);
    assert_string_equal(cfg_file(cfg, 1, &found), path);
    assert_string_equal(found, "not there");
    assert_non_null(strstr(cfg_file(cfg, 2, NULL), "/sparseshim.d/mine.conf"));
    cfg_free(cfg);

    write_file(".config/sparseshim/mine.conf", "timeout = 40\n");
    cfg = load();
    assert_value(cfg, "TIMEOUT", "40", CFG_FROM_USER_FILE);
    assert_null(cfg_file(cfg, 2, NULL));
    cfg_free(cfg);
    cfg = cfg_load_from(NULL, NULL);
    assert_value(cfg, "TIMEOUT", "40", CFG_FROM_USER_FILE);
    assert_no_problems(cfg);
    cfg_free(cfg);

    make_folder("xdg");
    make_folder("xdg/sparseshim");
    snprintf(path, sizeof path, "%s/xdg", etc);
    setenv("XDG_CONFIG_HOME", path, 1);
    write_file("xdg/sparseshim/mine.conf", "timeout = 50\n");
    cfg = load();
    assert_value(cfg, "TIMEOUT", "50", CFG_FROM_USER_FILE);
    cfg_free(cfg);
    setenv("XDG_CONFIG_HOME", "xdg", 1); /* relative paths do not count */
    cfg = load();
    assert_value(cfg, "TIMEOUT", "40", CFG_FROM_USER_FILE);
    cfg_free(cfg);
}

static void a_profile_of_the_user_that_cannot_be_read_is_a_problem(void **state)
{
    (void)state;
    write_file("sparseshim.d/mine.conf", "timeout = 30\n");
    make_folder(".config");
    make_folder(".config/sparseshim");
    make_folder(".config/sparseshim/mine.conf");
    setenv("SPARSESHIM_CONFIG", "@mine", 1);
    struct cfg *cfg = load();
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "mine.conf cannot be read: Is a directory"));
    assert_value(cfg, "TIMEOUT", "off", CFG_FROM_DEFAULT);
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
    assert_one_problem(
        cfg, true,
        "SPARSESHIM_MODE=exakt is not allowed (allowed: observe, learn, exact, topk, quant); "
        "observe stays");
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
             "%s/sparseshim.conf:1: 'mode observe' is not a setting; allowed are lines 'name = "
             "value'",
             etc);
    assert_one_problem(cfg, true, expected);
    cfg_free(cfg);

    write_file("sparseshim.conf", "\nalgoritm = ring\n");
    cfg = load();
    snprintf(expected, sizeof expected,
             "%s/sparseshim.conf:2: algoritm is not known (did you mean algorithm?)", etc);
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
         "SPARSESHIM_ALGORITM is not known (did you mean SPARSESHIM_ALGORITHM?)"},
        {"SPARSESHIM_REPORTDIR",
         "SPARSESHIM_REPORTDIR is not known (did you mean SPARSESHIM_REPORT_DIR?)"},
        {"SPARSESHIM_mode", "SPARSESHIM_mode is not known (did you mean SPARSESHIM_MODE?)"},
        {"SPARSESHIM_MDOE", "SPARSESHIM_MDOE is not known (did you mean SPARSESHIM_MODE?)"},
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

static void a_removed_option_says_what_replaced_it(void **state)
{
    (void)state;
    char expected[400];
    setenv("SPARSESHIM_IN_FLIGHT", "4", 1);
    struct cfg *cfg = load();
    assert_one_problem(cfg, true,
                       "SPARSESHIM_IN_FLIGHT has no effect, since the option is gone: up to 8 "
                       "nonblocking calls of a communicator are in flight at once");
    cfg_free(cfg);
    unsetenv("SPARSESHIM_IN_FLIGHT");
    static const char *const lines[] = {"in-flight = 4", "lock = IN_FLIGHT"};
    static const char *const said[] = {"in-flight", "lock = IN_FLIGHT"};
    for (size_t i = 0; i < 2; i++) {
        write_file("sparseshim.conf", lines[i]);
        cfg = load();
        snprintf(expected, sizeof expected,
                 "%s/sparseshim.conf:1: %s has no effect, since the option is gone: up to 8 "
                 "nonblocking calls of a communicator are in flight at once",
                 etc, said[i]);
        assert_one_problem(cfg, true, expected);
        assert_null(cfg_misread_policy(cfg));
        cfg_free(cfg);
    }
}

static void tests_force_what_no_option_sets(void **state)
{
    (void)state;
    struct cfg *cfg = load();
    const struct cfg_forced *forced = cfg_forced(cfg);
    assert_int_equal(forced->in_flight, 8);
    assert_int_equal(forced->quorum_period, 64);
    assert_int_equal(forced->quorum_staleness, 8);
    assert_int_equal(forced->threshold_period, 32);
    cfg_free(cfg);
    setenv("SPARSESHIM_TEST", "quorum_period=1000,,in_flight=3", 1);
    cfg = load();
    assert_no_problems(cfg);
    assert_int_equal(cfg_forced(cfg)->in_flight, 3);
    assert_int_equal(cfg_forced(cfg)->quorum_period, 1000);
    assert_int_equal(cfg_forced(cfg)->threshold_period, 32);
    cfg_free(cfg);
    static const char *const bad[] = {"in_flight", "in_flight=0", "in_flight=9", "flight=1",
                                      "threshold_period=x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("SPARSESHIM_TEST", bad[i], 1);
        cfg = load();
        assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "is not known"));
        cfg_free(cfg);
    }
}

static void hash_agrees_for_equal_values_and_differs_for_shared_ones_only(void **state)
{
    (void)state;
    static const char *const changes[][2] = {
        {"SPARSESHIM_MODE", "observe"},   {"SPARSESHIM_MIN_COUNT", "1001"},
        {"SPARSESHIM_ALGORITHM", "ring"}, {"SPARSESHIM_REPRODUCIBLE", "on"},
        {"SPARSESHIM_ALPHA", "1us"},      {"SPARSESHIM_BETA", "0"},
        {"SPARSESHIM_TIMEOUT", "3"},      {"SPARSESHIM_TEST", "quorum_period=1000"}};
    setenv("SPARSESHIM_MIN_COUNT", "1e3", 1);
    setenv("SPARSESHIM_ALPHA", "20us", 1);
    struct cfg *cfg = load();
    uint64_t hash = cfg_hash_shared(cfg);
    cfg_free(cfg);

    setenv("SPARSESHIM_MIN_COUNT", "1000", 1);
    setenv("SPARSESHIM_ALPHA", "2e-5", 1);
    setenv("SPARSESHIM_DEBUG", "trace", 1);
    setenv("SPARSESHIM_MAX_MEMORY", "1G", 1);
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

static void a_line_of_a_file_adds_rules(void **state)
{
    (void)state;
    write_file("sparseshim.conf", "exclude += count=7\n"
                                  "register = count=1\nregister += count=2:calls=3 # why\n"
                                  "register+=count=4,site=\"\nmin_count += 3\n");
    struct cfg *cfg = load();
    assert_string_equal(cfg_options(cfg)->include, "count=1; count=2:calls=3; count=4,site=\"");
    assert_string_equal(cfg_options(cfg)->exclude, "count=7");
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "min_count += is not allowed"));
    cfg_free(cfg);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(defaults_are_as_documented),
        FRESH(what_needs_topk_says_so),
        FRESH(the_files_looked_at_are_named_with_what_became_of_them),
        FRESH(where_nothing_is_known_to_be_installed_the_environment_counts),
        FRESH(a_way_leads_from_a_file_to_a_directory),
        FRESH(environment_wins_over_file_over_system_file_over_default),
        FRESH(profiles_come_from_the_system_directory),
        FRESH(a_profile_of_the_user_comes_before_the_installed_one),
        FRESH(a_profile_of_the_user_that_cannot_be_read_is_a_problem),
        FRESH(files_that_are_no_files_are_a_problem_and_do_not_hang),
        FRESH(a_problem_names_variable_value_allowed_and_what_stays),
        FRESH(a_problem_in_a_file_names_file_and_line),
        FRESH(unknown_variables_get_the_nearest_name),
        FRESH(a_removed_option_says_what_replaced_it),
        FRESH(tests_force_what_no_option_sets),
        FRESH(hash_agrees_for_equal_values_and_differs_for_shared_ones_only),
        FRESH(a_written_line_reads_back_as_the_same_text),
        FRESH(a_line_of_a_file_adds_rules),
        FRESH(garbage_in_files_is_reported_and_bounded),
        FRESH(loading_leaves_errno_alone),
        FRESH(objections_say_what_is_allowed),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
