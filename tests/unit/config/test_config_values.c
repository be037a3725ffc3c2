#include "tests/unit/support/config_env.h"

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
        {"SPARSESHIM_ALGORITHM", "auto", offsetof(struct cfg_options, algorithm), SS_AUTO},
        {"SPARSESHIM_ALGORITHM", "recursive_doubling", offsetof(struct cfg_options, algorithm),
         SS_RECURSIVE_DOUBLING},
        {"SPARSESHIM_ALGORITHM", "split-allgather", offsetof(struct cfg_options, algorithm),
         SS_SPLIT_ALLGATHER},
        {"SPARSESHIM_ALGORITHM", "dsar", offsetof(struct cfg_options, algorithm), SS_DSAR},
        {"SPARSESHIM_ALGORITHM", "ring", offsetof(struct cfg_options, algorithm), SS_RING},
        {"SPARSESHIM_ALGORITHM", "allgather", offsetof(struct cfg_options, algorithm),
         SS_ALLGATHER},
        {"SPARSESHIM_ALGORITHM", "dense", offsetof(struct cfg_options, algorithm), SS_DENSE},
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

static void a_value_has_one_spelling(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *shown;
    } cases[] = {
        {"ALGORITHM", " Split-AllGather\t", "split_allgather"},
        {"DENSITY", " 5% ", "0.05"},
        {"DENSITY", "4/512", "4/512"},
        {"DISABLE", "TRUE", "on"},
        {"REGISTER", " count=5, site=Work ", "count=5, site=Work"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[40];
        snprintf(name, sizeof name, CFG_PREFIX "%s", cases[i].name);
        setenv(name, cases[i].value, 1);
        struct cfg *cfg = load();
        assert_value(cfg, cases[i].name, cases[i].shown, CFG_FROM_ENVIRONMENT);
        cfg_free(cfg);
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

static void a_density_is_a_share_or_so_many_of_a_bucket(void **state)
{
    static const struct {
        const char *text;
        double density;
        uint64_t k, bucket;
    } good[] = {{"1", 1, 0, 0},        {"0.001", 0.001, 0, 0}, {"1e-3", 0.001, 0, 0},
                {"4/512", 0, 4, 512},  {"1%", 0.01, 0, 0},     {" 0.1%\t", 0.001, 0, 0},
                {"100%", 1, 0, 0},     {"12.5%", 0.125, 0, 0}, {"1e-1%", 0.001, 0, 0},
                {"0.2e1%", 0.02, 0, 0}};
    static const char *const bad[] = {"0",    "1.5",   "-0.1", "",     "x",       "4/",
                                      "/512", "0/512", "5/4",  "1 %",  "0.1s",    "1%%",
                                      "%",    "101%",  "-1%",  "+1%",  "0%",      "4%/512",
                                      "1%s",  "%1",    "1%1",  "4/5%", "100.01%", "nan%"};

    (void)state;
    setenv("SPARSESHIM_MODE", "topk", 1);
    setenv("SPARSESHIM_VALUE_TYPE", "q8", 1); /* with 1 all is sent in full width, which is told */
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        setenv("SPARSESHIM_DENSITY", good[i].text, 1);
        struct cfg *cfg = load();
        assert_no_problems(cfg);
        assert_true(cfg_options(cfg)->density.density == good[i].density);
        assert_int_equal(cfg_options(cfg)->density.k, good[i].k);
        assert_int_equal(cfg_options(cfg)->density.bucket, good[i].bucket);
        cfg_free(cfg);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bool fatal;
        setenv("SPARSESHIM_DENSITY", bad[i], 1);
        struct cfg *cfg = load();
        assert_non_null(cfg_problem(cfg, 0, &fatal));
        assert_true(cfg_options(cfg)->density.density == 0.01);
        cfg_free(cfg);
    }
}

static void a_percentage_is_shown_as_a_share(void **state)
{
    static const char *const pairs[][2] = {
        {"1%", "0.01"},     {"100%", "1"},      {"12.5%", "0.125"},    {"0.10%", "0.001"},
        {"1.0e1%", "0.1"},  {"99.9%", "0.999"}, {"1e-300%", "1e-302"}, {"0.5", "0.5"},
        {"0.010", "0.010"}, {"4/512", "4/512"}};

    (void)state;
    setenv("SPARSESHIM_MODE", "topk", 1);
    setenv("SPARSESHIM_VALUE_TYPE", "q8", 1);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        setenv("SPARSESHIM_DENSITY", pairs[i][0], 1);
        struct cfg *cfg = load();
        assert_no_problems(cfg);
        assert_value(cfg, "DENSITY", pairs[i][1], CFG_FROM_ENVIRONMENT);
        double density = cfg_options(cfg)->density.density;
        cfg_free(cfg);
        setenv("SPARSESHIM_DENSITY", pairs[i][1], 1);
        cfg = load();
        assert_true(cfg_options(cfg)->density.density == density);
        cfg_free(cfg);
    }
}

static void every_switch_takes_them(void **state)
{
    (void)state;
    write_file("sparseshim.conf", "disable = Yes\nreproducible = TRUE # why\n"
                                  "strict = 1\n");
    struct cfg *cfg = load();
    assert_no_problems(cfg);
    assert_value(cfg, "DISABLE", "on", CFG_FROM_SYSTEM_FILE);
    assert_value(cfg, "REPRODUCIBLE", "on", CFG_FROM_SYSTEM_FILE);
    assert_value(cfg, "STRICT", "on", CFG_FROM_SYSTEM_FILE);
    cfg_free(cfg);
    write_file("sparseshim.conf", "strict = yess\n");
    cfg = load();
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL),
                           "strict = yess is not allowed (allowed: on, off); off stays"));
    cfg_free(cfg);
}

static void switches_take_the_usual_words(void **state)
{
    (void)state;
    static const char *const yes[] = {"on", "1",    "yes",    "true",     "TRUE",
                                      "On", "yes ", " Yes\t", "\ttrue  ", " 1 "};
    static const char *const no[] = {"off",   "0",   "no", "false",  "",
                                     "maybe", "no ", "00", "yes no", "y e s"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(each_word_of_the_allowed_text_is_the_value_of_its_enum),
        FRESH(a_value_has_one_spelling),
        FRESH(counts_are_read_exactly),
        FRESH(bad_numbers_are_refused_and_leave_the_value_alone),
        FRESH(times_mean_the_same_number_in_every_unit),
        FRESH(numbers_do_not_depend_on_the_locale),
        FRESH(a_density_is_a_share_or_so_many_of_a_bucket),
        FRESH(a_percentage_is_shown_as_a_share),
        FRESH(every_switch_takes_them),
        FRESH(switches_take_the_usual_words),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
