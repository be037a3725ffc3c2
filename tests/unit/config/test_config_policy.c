#include "tests/unit/support/config_env.h"

/* The text with the path of the system's file in place of '@'. */
static const char *at_site(const char *text)
{
    static char expected[600];
    size_t n = 0;
    for (; *text != '\0'; text++)
        if (*text == '@')
            n += (size_t)snprintf(expected + n, sizeof expected - n, "%s/sparseshim.conf", etc);
        else
            expected[n++] = *text;
    expected[n] = '\0';
    return expected;
}

static struct cfg *load_with(const char *site, const char *user, const char *mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/mine.conf", etc);
    write_file("sparseshim.conf", site);
    write_file("mine.conf", user);
    setenv("SPARSESHIM_CONFIG", path, 1);
    if (mode != NULL)
        setenv("SPARSESHIM_MODE", mode, 1);
    else
        unsetenv("SPARSESHIM_MODE");
    return load();
}

static void a_locked_option_keeps_the_sites_value(void **state)
{
    (void)state;
    struct cfg *cfg = load_with("min_count = 3\nlock = MIN_COUNT\n", "min_count = 4\n", NULL);
    assert_value(cfg, "MIN_COUNT", "3", CFG_FROM_SYSTEM_FILE);
    assert_int_equal(cfg_options(cfg)->min_count, 3);
    assert_string_equal(row_of(cfg, "MIN_COUNT").locked, at_site("@:2"));
    assert_null(row_of(cfg, "MODE").locked);
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "mine.conf:1: min_count = 4 is ignored: "));
    cfg_free(cfg);

    cfg = load_with("lock = MODE\nmin_count = 3\nmode = observe\n", "", "topk");
    assert_one_problem(cfg, false,
                       at_site("SPARSESHIM_MODE=topk is ignored: @:1 locks MODE; observe stands"));
    assert_value(cfg, "MODE", "observe", CFG_FROM_SYSTEM_FILE);
    cfg_free(cfg);
}

static void without_a_value_of_the_site_it_keeps_the_default(void **state)
{
    (void)state;
    struct cfg *cfg = load_with("# policy\nlock = report-dir, Strict\treproducible",
                                "report_dir = /x\nstrict = on\nreproducible = maybe\n", NULL);
    bool fatal = true;
    assert_value(cfg, "REPORT_DIR", "", CFG_FROM_DEFAULT);
    assert_value(cfg, "STRICT", "off", CFG_FROM_DEFAULT);
    assert_string_equal(cfg_options(cfg)->report_dir, "");
    assert_non_null(strstr(cfg_problem(cfg, 0, &fatal), "locks REPORT_DIR; nothing stands"));
    assert_false(fatal); /* STRICT is for mistakes */
    assert_non_null(strstr(cfg_problem(cfg, 1, NULL), "locks STRICT; off stands"));
    assert_non_null(strstr(cfg_problem(cfg, 2, NULL), "maybe is not allowed"));
    assert_null(cfg_problem(cfg, 3, NULL));
    cfg_free(cfg);

    cfg = load_with("lock = CONFIG\n", "min_count = 9\n", NULL);
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), at_site("@:1 locks CONFIG; nothing stands")));
    assert_value(cfg, "MIN_COUNT", "65536", CFG_FROM_DEFAULT);
    cfg_free(cfg);
}

static void each_option_can_be_locked_but_disable(void **state)
{
    (void)state;
    for (size_t i = 0; i < CFG_ROWS; i++) {
        char line[80];
        snprintf(line, sizeof line, "lock = %s\n", cfg_table[i].name);
        struct cfg *cfg = load_with(line, "", NULL);
        struct cfg_row row = row_of(cfg, cfg_table[i].name);
        if (strcmp(row.name, "DISABLE") == 0)
            assert_null(row.locked);
        else
            assert_string_equal(row.locked, at_site("@:1"));
        cfg_free(cfg);
    }
}

static void the_library_can_always_be_switched_off(void **state)
{
    (void)state;
    setenv("SPARSESHIM_DISABLE", "1", 1);
    struct cfg *cfg = load_with("lock = DISABLE MODE\n", "", "topk");
    assert_string_equal(
        cfg_problem(cfg, 0, NULL),
        at_site("@:1: lock = DISABLE is not allowed: a user can always switch the library off "
                "(allowed: names of options but DISABLE, separated by blanks)"));
    assert_non_null(strstr(cfg_problem(cfg, 1, NULL), "locks MODE; exact stands"));
    assert_null(cfg_problem(cfg, 2, NULL));
    assert_true(cfg_options(cfg)->disable);
    assert_true(cfg_disabled());
    cfg_free(cfg);
}

static void what_agrees_with_a_lock_is_not_told(void **state)
{
    (void)state;
    setenv("SPARSESHIM_ALPHA", "20us", 1);
    setenv("SPARSESHIM_MIN_COUNT", "1e3", 1);
    setenv("SPARSESHIM_STRICT", "no", 1);
    setenv("SPARSESHIM_DENSITY", "1%", 1);
    setenv("SPARSESHIM_EXCLUDE", " count=7 ", 1);
    struct cfg *cfg = load_with("alpha = 2e-5\nmin_count = 1000\nexclude = count=7\n"
                                "lock = ALPHA MIN_COUNT STRICT DENSITY EXCLUDE MODE",
                                "", "EXACT");
    assert_no_problems(cfg);
    assert_value(cfg, "MIN_COUNT", "1000", CFG_FROM_SYSTEM_FILE);
    assert_value(cfg, "DENSITY", "0.01", CFG_FROM_DEFAULT);
    cfg_free(cfg);
    setenv("SPARSESHIM_DENSITY", "10/1000", 1); /* not the same selection */
    cfg = load();
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "SPARSESHIM_DENSITY=10/1000 is ignored"));
    cfg_free(cfg);
}

#define PASSES "; every call passes through until the site corrects it"
#define LOCKS  "(allowed: names of options but DISABLE, separated by blanks"
#define MODES  "(allowed: observe, learn, exact, topk, quant, separated by blanks, or none alone"

static void a_policy_that_cannot_be_understood_lets_nothing_be_served(void **state)
{
    static const struct {
        const char *line, *problem;
    } bad[] = {
        {"lock = MOED MIN_COUNT\n",
         "@:1: lock = MOED is not allowed " LOCKS "; did you mean MODE?)"},
        {"lock = MAX_MEM\n",
         "@:1: lock = MAX_MEM is not allowed " LOCKS "; did you mean MAX_MEMORY?)"},
        {"lock =\n", "@:1: lock = is not allowed " LOCKS ")"},
        {"lock = , ,\n", "@:1: lock = is not allowed " LOCKS ")"},
        {"lock = *\n", "@:1: lock = * is not allowed " LOCKS ")"},
        {"\nallow_modes = exakt observe\n",
         "@:2: allow_modes = exakt is not allowed " MODES "; did you mean exact?)"},
        {"allow_modes = # none\n", "@:1: allow_modes = is not allowed " MODES ")"},
        {"lock MIN_COUNT\n",
         "@:1: 'lock MIN_COUNT' is not a setting; allowed are lines 'name = value'"},
        {"allow_mode: exact", "@:1: 'allow_mode: exact' is not a setting; allowed are lines 'name "
                              "= value'"},
        {"lok = MIN_COUNT\n", "@:1: lok is not known (did you mean lock?)"},
        {"allow-mode = exact\n", "@:1: allow-mode is not known (did you mean allow_modes?)"},
        {"lock = \"MIN_COUNT\n",
         "@:1: the value of lock begins with a quote and does not end with one"},
    };
    char expected[600];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct cfg *cfg = load_with(bad[i].line, "", NULL);
        bool fatal;
        snprintf(expected, sizeof expected, "%s" PASSES, at_site(bad[i].problem));
        assert_string_equal(cfg_problem(cfg, 0, &fatal), expected);
        assert_true(fatal);
        assert_null(cfg_problem(cfg, 1, NULL));
        assert_string_equal(cfg_misread_policy(cfg), at_site(i == 5 ? "@:2" : "@:1"));
        assert_int_equal(row_of(cfg, "MIN_COUNT").locked != NULL, i == 0); /* the rest counts */
        cfg_free(cfg);
    }
}

static void a_locked_option_needs_a_value_that_is_understood(void **state)
{
    (void)state;
    struct cfg *cfg = load_with("mode = observ\nlock = MODE\n", "", NULL);
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "mode = observ is not allowed"));
    assert_string_equal(cfg_problem(cfg, 1, NULL),
                        at_site("@:2: lock = MODE needs a value of MODE that is allowed" PASSES));
    assert_string_equal(cfg_misread_policy(cfg), at_site("@:2"));
    cfg_free(cfg);

    cfg = load_with("mode = observ\nmode = observe\nlock = MODE\n", "", "exakt");
    assert_null(cfg_misread_policy(cfg)); /* the last of the site counts; users have no say */
    assert_value(cfg, "MODE", "observe", CFG_FROM_SYSTEM_FILE);
    cfg_free(cfg);
}

static void a_file_that_is_not_read_to_its_end_may_have_had_a_policy(void **state)
{
    char path[128], line[9000];

    (void)state;
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\0';
    struct cfg *cfg = load_with(line, "", NULL);
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "is longer than 8190 characters" PASSES));
    assert_string_equal(cfg_misread_policy(cfg), at_site("@"));
    cfg_free(cfg);

    snprintf(path, sizeof path, "%s/sparseshim.conf", etc);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    cfg = load();
    assert_non_null(
        strstr(cfg_problem(cfg, 0, NULL), "a readable configuration file is needed" PASSES));
    assert_string_equal(cfg_misread_policy(cfg), at_site("@"));
    cfg_free(cfg);
    assert_int_equal(rmdir(path), 0);
    cfg = load();
    assert_null(cfg_misread_policy(cfg)); /* there is none */
    cfg_free(cfg);
}

static void other_mistakes_in_the_sites_file_are_no_policy(void **state)
{
    static const char *const lines[] = {"mdoe = observe\n", "mode = observ\n", "min_count 3\n",
                                        "anything = 1\n", "lock = DISABLE MIN_COUNT\n"};

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct cfg *cfg = load_with(lines[i], "lok = MIN_COUNT\n", NULL);
        assert_non_null(cfg_problem(cfg, 1, NULL)); /* told, and the one of the user's file */
        assert_null(cfg_misread_policy(cfg));
        cfg_free(cfg);
    }
}

static void only_the_system_file_has_a_policy(void **state)
{
    (void)state;
    struct cfg *cfg =
        load_with("", "lock = MIN_COUNT\nLock = min_count\nallow-modes = observe\n", NULL);
    for (size_t i = 0; i < 3; i++) {
        bool fatal = false;
        assert_non_null(strstr(cfg_problem(cfg, i, &fatal),
                               " is allowed in the system's sparseshim.conf only"));
        assert_true(fatal);
    }
    assert_non_null(strstr(cfg_problem(cfg, 2, NULL), "mine.conf:3: allow_modes = observe"));
    assert_null(cfg_problem(cfg, 3, NULL));
    assert_null(row_of(cfg, "MIN_COUNT").locked);
    cfg_free(cfg);

    setenv("SPARSESHIM_LOCK", "MIN_COUNT", 1);
    cfg = load_with("", "", NULL);
    assert_one_problem(cfg, true,
                       "SPARSESHIM_LOCK is allowed as a line of the system's sparseshim.conf only");
    cfg_free(cfg);
    unsetenv("SPARSESHIM_LOCK");

    write_file("sparseshim.d/a.conf", "allow_modes = topk\n"); /* a profile is a user's choice */
    setenv("SPARSESHIM_CONFIG", "@a", 1);
    cfg = load();
    assert_non_null(
        strstr(cfg_problem(cfg, 0, NULL), "allow_modes = topk is allowed in the system"));
    assert_value(cfg, "MODE", "exact", CFG_FROM_DEFAULT);
    cfg_free(cfg);
}

static void a_mode_that_is_not_allowed_becomes_the_next_below(void **state)
{
    static const struct {
        const char *allowed, *asked, *mode;
        bool told;
    } cases[] = {
        {"observe exact", "topk", "exact", true},
        {"exact, observe", "topk", "exact", true}, /* whatever the order in the line */
        {"observe", "topk", "observe", true},
        {"observe", "exact", "observe", true},
        {"observe", NULL, "observe", false}, /* nobody asked */
        {"observe topk", "exact", "observe", true},
        {"observe topk", "topk", "topk", false},
        {"OBSERVE Exact", "exact", "exact", false},
        {"observe exact topk", "topk", "topk", false},
    };
    bool for_all;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[80];
        snprintf(line, sizeof line, "min_count = 1\nallow_modes = %s\n", cases[i].allowed);
        struct cfg *cfg = load_with(line, "", cases[i].asked);
        assert_string_equal(row_of(cfg, "MODE").value, cases[i].mode);
        assert_int_equal(cfg_problem(cfg, 0, NULL) != NULL, cases[i].told);
        assert_null(cfg_turned_off(cfg, &for_all));
        assert_false(cfg_options(cfg)->disable);
        cfg_free(cfg);
    }
    struct cfg *cfg = load_with("min_count = 1\nallow_modes = exact observe\n", "", "topk");
    assert_one_problem(cfg, false,
                       at_site("SPARSESHIM_MODE=topk (environment) is not in allow_modes = observe "
                               "exact (@:2); exact stands"));
    assert_int_equal(cfg_options(cfg)->mode, CFG_MODE_EXACT);
    assert_string_equal(row_of(cfg, "MODE").locked, at_site("@:2"));
    cfg_free(cfg);
}

static void where_no_mode_is_allowed_the_library_is_off(void **state)
{
    static const struct {
        const char *lines;
        bool off;
    } cases[] = {
        {"allow_modes = none\n", true},
        {"allow_modes = NONE # maintenance\n", true},
        {"allow_modes = exact\nallow_modes = none\n", true},
        {"allow_modes = none\nallow_modes = exact\n", false},
    };
    char policy[200];
    bool for_all;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cfg *cfg = load_with(cases[i].lines, "disable = off\n", "exact");
        assert_null(cfg_problem(cfg, 0, NULL));
        assert_int_equal(cfg_options(cfg)->disable, cases[i].off);
        assert_int_equal(cfg_turned_off(cfg, &for_all) != NULL, cases[i].off);
        assert_int_equal(for_all, cases[i].off);
        assert_int_equal(row_of(cfg, "DISABLE").locked != NULL, cases[i].off);
        cfg_policy(cfg, policy, sizeof policy);
        assert_string_equal(policy, cases[i].off ? "allow_modes = none" : "allow_modes = exact");
        cfg_free(cfg);
    }
    struct cfg *cfg = load_with("allow_modes = none exact\n", "", "exact");
    assert_non_null(
        strstr(cfg_problem(cfg, 0, NULL), "allow_modes = none exact is not allowed (allowed: "));
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), ", or none alone)"));
    assert_non_null(cfg_misread_policy(cfg));
    cfg_free(cfg);
}

static void where_no_mode_does_less_the_library_is_off(void **state)
{
    bool for_all;

    (void)state;
    struct cfg *cfg = load_with("allow_modes = exact topk\n", "disable = off\n", "observe");
    assert_one_problem(
        cfg, false,
        at_site("SPARSESHIM_MODE=observe is not in allow_modes = exact topk (@:1), nor is a mode "
                "that does less; every call passes through"));
    assert_true(cfg_options(cfg)->disable);
    assert_string_equal(cfg_turned_off(cfg, &for_all), at_site("@:1"));
    assert_false(for_all);
    assert_string_equal(row_of(cfg, "DISABLE").locked, at_site("@:1"));
    cfg_free(cfg);
}

static void a_lock_and_allowed_modes_go_together(void **state)
{
    (void)state;
    struct cfg *cfg =
        load_with("mode = topk\nlock = MODE ALGORITHM\nallow_modes = exact\nalgorithm = oktopk\n",
                  "algorithm = ring\n", "topk");
    assert_value(cfg, "MODE", "exact", CFG_FROM_SYSTEM_FILE);
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "algorithm = ring is ignored"));
    assert_non_null(strstr(cfg_problem(cfg, 1, NULL), "MODE=topk (system file) is not in"));
    assert_non_null(strstr(cfg_problem(cfg, 2, NULL), "needs SPARSESHIM_MODE=topk"));
    assert_null(cfg_problem(cfg, 3, NULL));
    assert_int_equal(cfg_options(cfg)->algorithm, SS_AUTO);
    cfg_free(cfg);

    cfg = load_with("allow_modes = observe\nallow_modes = exact # the later counts\n", "", "exact");
    assert_no_problems(cfg);
    cfg_free(cfg);
}

static uint64_t hash_with(const char *site, const char *mode)
{
    struct cfg *cfg = load_with(site, "", mode);
    uint64_t hash = cfg_hash_shared(cfg), hashes[CFG_ROWS + 2];
    size_t rows[CFG_ROWS + 2], n = cfg_hash_each_shared(cfg, hashes, rows, CFG_ROWS + 2);
    assert_int_equal(rows[n - 2], CFG_ROWS);
    assert_int_equal(rows[n - 1], CFG_SHARED_TEST);
    assert_true(n <= 32); /* SHIM_SHARED */
    cfg_free(cfg);
    return hash;
}

static void ranks_with_other_policies_are_told_apart(void **state)
{
    char text[200];

    (void)state;
    assert_true(hash_with("lock = MIN_COUNT MODE\n", NULL) ==
                hash_with("lock = mode, min_count", NULL));
    assert_true(hash_with("lock = MIN_COUNT\n", NULL) != hash_with("", NULL));
    assert_true(hash_with("lock = REPORT\n", NULL) != hash_with("", NULL)); /* not shared itself */
    assert_true(hash_with("allow_modes = exact\n", NULL) != hash_with("", NULL));
    assert_true(hash_with("allow_modes = exact\n", NULL) !=
                hash_with("allow_modes = exact topk\n", NULL));
    /* What comes out is the same, so they may be together. */
    assert_true(hash_with("allow_modes = exact\n", "topk") ==
                hash_with("allow_modes = exact\n", "exact"));

    struct cfg *cfg = load_with("lock = min_count mode\nallow_modes = topk exact\n", "", NULL);
    cfg_policy(cfg, text, sizeof text);
    assert_string_equal(text, "lock = MODE MIN_COUNT, allow_modes = exact topk");
    cfg_policy(cfg, text, 9); /* cut, not overrun */
    assert_string_equal(text, "lock = M");
    cfg_free(cfg);
    cfg = load_with("", "", NULL);
    cfg_policy(cfg, text, sizeof text);
    assert_string_equal(text, "none");
    cfg_free(cfg);
    cfg = load_with("allow_modes = exact", "", NULL);
    cfg_policy(cfg, text, sizeof text);
    assert_string_equal(text, "allow_modes = exact");
    cfg_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(a_locked_option_keeps_the_sites_value),
        FRESH(without_a_value_of_the_site_it_keeps_the_default),
        FRESH(each_option_can_be_locked_but_disable),
        FRESH(the_library_can_always_be_switched_off),
        FRESH(what_agrees_with_a_lock_is_not_told),
        FRESH(a_policy_that_cannot_be_understood_lets_nothing_be_served),
        FRESH(a_locked_option_needs_a_value_that_is_understood),
        FRESH(a_file_that_is_not_read_to_its_end_may_have_had_a_policy),
        FRESH(other_mistakes_in_the_sites_file_are_no_policy),
        FRESH(only_the_system_file_has_a_policy),
        FRESH(a_mode_that_is_not_allowed_becomes_the_next_below),
        FRESH(where_no_mode_is_allowed_the_library_is_off),
        FRESH(where_no_mode_does_less_the_library_is_off),
        FRESH(a_lock_and_allowed_modes_go_together),
        FRESH(ranks_with_other_policies_are_told_apart),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
