/* Configuration files and values that are none: messages about them are short, and cost no time. */
#include "tests/unit/support/config_env.h"

/* A large file must not delay the program that the library lives in. */
static void a_file_above_one_mebibyte_is_refused(void **state)
{
    (void)state;
    const char *found;
    char path[256];
    write_file("sparseshim.conf", "timeout = 3\n");
    snprintf(path, sizeof path, "%s/sparseshim.conf", etc);
    assert_int_equal(truncate(path, 5000000000), 0);
    struct cfg *cfg = load();
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), " cannot be read: larger than 1 MiB; "));
    assert_null(cfg_problem(cfg, 1, NULL));
    cfg_file(cfg, 0, &found);
    assert_string_equal(found, "larger than 1 MiB");
    assert_true(cfg_options(cfg)->timeout == 0);
    cfg_free(cfg);
}

static void a_byte_that_is_no_text_ends_a_file_with_a_message(void **state)
{
    (void)state;
    char path[256];
    write_file("sparseshim.conf", "timeout = 3\nmin_count = 1_000\nalpha = 7us\n");
    snprintf(path, sizeof path, "%s/sparseshim.conf", etc);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 25, SEEK_SET), 0);
    assert_int_equal(fputc('\0', file), 0); /* in place of '_' */
    assert_int_equal(fclose(file), 0);
    struct cfg *cfg = load();
    assert_non_null(
        strstr(cfg_problem(cfg, 0, NULL), "sparseshim.conf:2: the line holds a NUL byte"));
    assert_null(cfg_problem(cfg, 1, NULL));
    assert_true(cfg_options(cfg)->timeout == 3);
    assert_int_equal(cfg_options(cfg)->min_count, 65536);
    assert_true(cfg_options(cfg)->alpha < 0);
    cfg_free(cfg);
}

static void a_byte_order_mark_is_skipped(void **state)
{
    (void)state;
    write_file("sparseshim.conf", "\xef\xbb\xbftimeout = 3\r\nmin_count = 7\r\n");
    struct cfg *cfg = load();
    assert_no_problems(cfg);
    assert_true(cfg_options(cfg)->timeout == 3);
    assert_int_equal(cfg_options(cfg)->min_count, 7);
    cfg_free(cfg);
}

static void values_in_messages_are_short_and_printable(void **state)
{
    (void)state;
    static const struct {
        const char *value, *shown;
    } cases[] = {
        {"plain", "plain"},
        {"", ""},
        {"tab\tand \033[31mred\x7f", "tab\\x09and \\x1b[31mred\\x7f"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82"},
        {"\xe9 \xc2\x85 \xe2\x82", "\\xe9 \\xc2\\x85 \\xe2\\x82"},
        {"\xc0\xaf \xed\xa0\x80", "\\xc0\\xaf \\xed\\xa0\\x80"},
    };
    static char lengthy[100001];
    char text[CFG_QUOTED], most[61];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(cfg_quote(text, cases[i].value), cases[i].shown);
    memset(lengthy, '\033', sizeof lengthy - 1);
    assert_int_equal(strlen(cfg_quote(text, lengthy)), 4 * 60 + 3);
    memset(lengthy, 'x', sizeof lengthy - 1);
    memcpy(most, lengthy, 60);
    most[60] = '\0';
    assert_string_equal(cfg_quote(text, most), most);
    assert_int_equal(strlen(cfg_quote(text, lengthy)), 60 + 3);

    setenv("SPARSESHIM_MIN_COUNT", lengthy, 1);
    struct cfg *cfg = load();
    assert_non_null(strstr(cfg_problem(cfg, 0, NULL), "xxx... is not allowed"));
    assert_in_range(strlen(cfg_problem(cfg, 0, NULL)), 60, 300);
    cfg_free(cfg);
    char *objection = cfg_objection(cfg_find("DENSITY"), "\033[31m");
    assert_non_null(strstr(objection, "SPARSESHIM_DENSITY=\\x1b[31m is not allowed"));
    free(objection);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(a_file_above_one_mebibyte_is_refused),
        FRESH(a_byte_that_is_no_text_ends_a_file_with_a_message),
        FRESH(a_byte_order_mark_is_skipped),
        FRESH(values_in_messages_are_short_and_printable),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
