/* REGISTER and EXCLUDE mean what they say, and say what is wrong with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/tensor/rules.h"

static struct ss_rules *parse(const char *text)
{
    struct ss_rules *rules;
    char error[512];

    if (ss_rules_parse(text, true, &rules, error, sizeof error) != SS_OK)
        fail_msg("'%s': %s", text, error);
    return rules;
}

static const struct ss_rule_subject some = {.count = 1000,
                                            .type = SS_F32,
                                            .comm = "MPI_COMM_WORLD",
                                            .site = "train+0x12f0",
                                            .symbol = "sync_gradients"};

static bool takes(const char *text, const struct ss_rule_subject *subject)
{
    struct ss_rules *rules = parse(text);
    bool taken = ss_rules_match(rules, subject) != NULL;

    ss_rules_free(rules);
    return taken;
}

static bool takes_count(const char *text, uint64_t count)
{
    struct ss_rule_subject subject = some;

    subject.count = count;
    return takes(text, &subject);
}

static bool takes_site(const char *text, const char *site, const char *symbol)
{
    struct ss_rule_subject subject = some;

    subject.site = site;
    subject.symbol = symbol;
    return takes(text, &subject);
}

static bool takes_comm(const char *text, const char *comm)
{
    struct ss_rule_subject subject = some;

    subject.comm = comm;
    return takes(text, &subject);
}

static void no_text_is_no_rules(void **state)
{
    (void)state;
    assert_null(parse(NULL));
    assert_null(parse(""));
    assert_null(parse(" ; ;\t\n"));
    assert_null(ss_rules_match(NULL, &some));
    ss_rules_free(NULL);
}

static void counts_take_a_number_or_a_range_with_its_ends(void **state)
{
    (void)state;
    assert_true(takes_count("count=1000", 1000));
    assert_false(takes_count("count=1000", 1001));
    assert_true(takes_count("count=10:20", 10));
    assert_true(takes_count("count=10:20", 20));
    assert_false(takes_count("count=10:20", 9));
    assert_false(takes_count("count=10:20", 21));
    assert_true(takes_count("count=10:", UINT64_MAX));
    assert_false(takes_count("count=10:", 9));
    assert_true(takes_count("count=:20", 0));
    assert_false(takes_count("count=:20", 21));
    assert_true(takes_count("count=:", 5));
    assert_true(takes_count("count=18446744073709551615", UINT64_MAX));
    assert_true(takes_count("count=64Ki:1M", 65536)); /* written as in MIN_COUNT */
}

static void types_are_float_and_double(void **state)
{
    struct ss_rule_subject wide = some;

    (void)state;
    wide.type = SS_F64;
    assert_true(takes("type=float", &some));
    assert_false(takes("type=float", &wide));
    assert_true(takes("type=double", &wide));
    assert_false(takes("type=double", &some));
    assert_true(takes("*", &wide));
}

static void ddp_takes_identified_buffers(void **state)
{
    struct ss_rule_subject subject = some;

    (void)state;
    assert_false(takes("ddp", &subject));
    subject.identified = true;
    assert_true(takes("ddp", &subject));
    assert_true(takes("ddp,count=1000:density=0.1", &subject));
    assert_false(takes("ddp,count=1001", &subject));
}

static void names_take_wildcards(void **state)
{
    (void)state;
    assert_true(takes_comm("comm=MPI_COMM_WORLD", "MPI_COMM_WORLD"));
    assert_false(takes_comm("comm=MPI_COMM_WORLD", "MPI_COMM_WORL"));
    assert_false(takes_comm("comm=world", "WORLD"));
    assert_true(takes_comm("comm=data*", "data parallel 3"));
    assert_true(takes_comm("comm=data?parallel?3", "data parallel 3"));
    assert_true(takes_comm("comm=*par*el*", "data parallel 3"));
    assert_false(takes_comm("comm=*par*el", "data parallel 3"));
    assert_true(takes_comm("comm=*", ""));
    assert_true(takes_comm("comm=", ""));
    assert_true(takes_comm("comm=", NULL));
    assert_false(takes_comm("comm=?", ""));
    assert_true(takes_comm("comm=a*b*c", "a*b*c"));
    assert_true(takes_comm("comm=**x", "yxx"));
    assert_false(
        takes_comm("comm=*aaaaaaaaaaaaaaaaaaaab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

static void sites_are_symbols_or_offsets(void **state)
{
    (void)state;
    assert_true(takes_site("site=sync_gradients", "train+0x12f0", "sync_gradients"));
    assert_true(takes_site("site=train+0x12f0", "train+0x12f0", "sync_gradients"));
    assert_true(takes_site("site=libnn.so+*", "libnn.so+0x1", NULL));
    assert_false(takes_site("site=train+0x12f", "train+0x12f0", "sync_gradients"));
    assert_false(takes_site("site=train+0x12f0", "", ""));
    assert_false(takes_site("site=train+0x12f0", NULL, NULL));
    assert_true(takes_site("site=*", NULL, NULL));
}

/* Whatever a name holds, the rule made of it takes it, whole or cut. */
static void a_name_made_into_a_pattern_is_matched_by_it(void **state)
{
    static const char *const names[] = {"train+0x12f0", "my train, v2;final:a+0x1",
                                        "a*b?c\td'e\"f#g\\h\x7f\xc3\xa4+0x2", "",
                                        "exactly15 bytes"};
    char pattern[64], rule[80];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ss_rule_pattern(pattern, sizeof pattern, names[i], 16);
        assert_null(strpbrk(pattern, "'\"#\\ \t"));
        snprintf(rule, sizeof rule, "site=%s", names[i][0] ? pattern : "*");
        assert_true(takes_site(rule, names[i], NULL));
        for (size_t size = 3; size < 20; size++) {
            ss_rule_pattern(pattern, size, names[i], 64);
            snprintf(rule, sizeof rule, "site=%s", names[i][0] ? pattern : "*");
            assert_true(takes_site(rule, names[i], NULL));
        }
    }
    ss_rule_pattern(pattern, sizeof pattern, names[1], 64);
    assert_string_equal(pattern, "my?train??v2?final?a+0x1");
    ss_rule_pattern(pattern, sizeof pattern, names[4], 16);
    assert_string_equal(pattern, "exactly15?bytes*");
}

static void all_conditions_must_hold(void **state)
{
    (void)state;
    assert_true(takes("count=1:2000,type=float,comm=MPI_*,site=sync_*", &some));
    assert_false(takes("count=1:999,type=float,comm=MPI_*,site=sync_*", &some));
    assert_false(takes("count=1:2000,type=double,comm=MPI_*,site=sync_*", &some));
    assert_false(takes("count=1:2000,type=float,comm=mpi_*,site=sync_*", &some));
    assert_false(takes("count=1:2000,type=float,comm=MPI_*,site=async_*", &some));
}

static void the_first_match_wins(void **state)
{
    static const char *const texts[] = {
        "count=1:10:density=0.5;count=5:1000:density=0.25;*",
        "count=1:10:density=0.5 count=5:1000:density=0.25 *",
        " ;;count=1:10:density=0.5\t\n; count=5:1000:density=0.25;*;"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct ss_rules *rules = parse(texts[i]);
        struct ss_rule_subject subject = some;
        subject.count = 7;
        assert_true(ss_rules_match(rules, &subject)->density == 0.5);
        subject.count = 1000;
        assert_true(ss_rules_match(rules, &subject)->density == 0.25);
        assert_string_equal(ss_rules_match(rules, &subject)->text, "count=5:1000:density=0.25");
        subject.count = 1001;
        assert_true(ss_rules_match(rules, &subject)->density == 0);
        assert_string_equal(ss_rules_match(rules, &subject)->text, "*");
        ss_rules_free(rules);
    }
}

static void settings_are_read(void **state)
{
    struct ss_rules *rules;
    const struct ss_rule *r;

    (void)state;
    rules = parse("count=5::density=0.01:algorithm=ring:keep=last:10");
    struct ss_rule_subject subject = some;
    r = ss_rules_match(rules, &subject);
    assert_true(r->density == 0.01);
    assert_true(r->has_algorithm && r->algorithm == SS_RING);
    assert_int_equal(r->keep, SS_KEEP_LAST);
    assert_int_equal(r->keep_count, 10);
    assert_int_equal(r->k, 0);
    ss_rules_free(rules);

    rules = parse("count=5:node:calls=2");
    subject.count = 5;
    r = ss_rules_match(rules, &subject);
    assert_true(r->node);
    assert_int_equal(r->calls, 2);
    ss_rules_free(rules);

    rules = parse("site=sync_gradients:k=4/512:keep=first:1");
    r = ss_rules_match(rules, &subject);
    assert_int_equal(r->k, 4);
    assert_int_equal(r->bucket, 512);
    assert_int_equal(r->keep, SS_KEEP_FIRST);
    assert_int_equal(r->keep_count, 1);
    assert_false(r->has_algorithm);
    assert_true(r->density == 0);
    ss_rules_free(rules);

    rules = parse("*");
    r = ss_rules_match(rules, &subject);
    assert_int_equal(r->keep, SS_KEEP_NONE);
    assert_null(r->comm);
    assert_null(r->site);
    ss_rules_free(rules);
}

static void densities_are_the_nearest_numbers(void **state)
{
    static const struct {
        const char *text;
        double value;
    } cases[] = {{"*:density=1%", 0.01},
                 {"*:density=0.1%:keep=last:1", 0.001},
                 {"*:density=100%", 1},
                 {"*:density=1", 1},
                 {"*:density=0.01", 0.01},
                 {"*:density=.5", .5},
                 {"*:density=1e-3", 1e-3},
                 {"*:density=1.e-2", 1e-2},
                 {"*:density=7.8125e-3", 0.0078125},
                 {"*:density=0.00100", 1e-3}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ss_rules *rules = parse(cases[i].text);
        assert_true(ss_rules_match(rules, &some)->density == cases[i].value);
        ss_rules_free(rules);
    }
}

static void errors_name_the_rule_the_place_and_what_is_allowed(void **state)
{
    static const struct {
        const char *text;
        const char *error; /* begin of the message */
        const char *allowed;
    } cases[] = {
        {"count=x", "rule 1, 'count=x', character 7: count takes", "LO:HI"},
        {"*;count=5:4", "rule 2, 'count=5:4', character 7: count takes", "LO <= HI"},
        {"count=", "rule 1, 'count=', character 7: count takes", "N"},
        {"count=18446744073709551616", "rule 1, 'count=18446744073709551616', character 7:", "N"},
        {"count=-1", "rule 1, 'count=-1', character 7:", "N"},
        {"count=1,type=int", "rule 1, 'count=1,type=int', character 14: type takes",
         "float or double"},
        {"size=4", "rule 1, 'size=4', character 1: 'size=4' is no condition", "comm=NAME"},
        {"count=4,", "rule 1, 'count=4,', character 9: '' is no condition", "count=N"},
        {"comm", "rule 1, 'comm', character 1: 'comm' is no condition", "site=SYMBOL"},
        {"site=", "rule 1, 'site=', character 6: site takes", "MODULE+OFFSET"},
        {":density=1", "rule 1, ':density=1', character 1: '' is no condition", "count=N"},
        {"*:density=0", "rule 1, '*:density=0', character 11: density takes", "above 0"},
        {"*:density=1.01", "rule 1, '*:density=1.01', character 11: density takes", "up to 1"},
        {"*:density=101%", "rule 1, '*:density=101%', character 11: density takes", "such as 1%"},
        {"*:density=1%%", "rule 1, '*:density=1%%', character 11: density takes", "up to 1"},
        {"*:density=%", "rule 1, '*:density=%', character 11: density takes", "up to 1"},
        {"*:density=0%", "rule 1, '*:density=0%', character 11: density takes", "above 0"},
        {"*:density=-1%", "rule 1, '*:density=-1%', character 11: density takes", "up to 1"},
        {"*:density=%1", "rule 1, '*:density=%1', character 11: density takes", "up to 1"},
        {"*:density=0,01", "rule 1, '*:density=0,01', character 11: density takes", "up to 1"},
        {"*:density=nan", "rule 1, '*:density=nan', character 11: density takes", "up to 1"},
        {"*:density=", "rule 1, '*:density=', character 11: density takes", "up to 1"},
        {"*:k=4", "rule 1, '*:k=4', character 5: k takes K/B", "1 <= K <= B"},
        {"*:k=0/5", "rule 1, '*:k=0/5', character 5: k takes K/B", "1 <= K <= B"},
        {"*:k=6/5", "rule 1, '*:k=6/5', character 5: k takes K/B", "1 <= K <= B"},
        {"*:k=1/5:density=0.1", "rule 1, '*:k=1/5:density=0.1', character 17: a rule takes",
         "not both"},
        {"*:density=0.1:k=1/5", "rule 1, '*:density=0.1:k=1/5', character 17: a rule takes",
         "not both"},
        {"*:algorithm=rign",
         "rule 1, '*:algorithm=rign', character 13: algorithm takes one of auto", "ring"},
        {"*:keep=first:n", "rule 1, '*:keep=first:n', character 8: keep takes", "last:N"},
        {"*:keep=first:0", "rule 1, '*:keep=first:0', character 8: keep takes", "from 1 on"},
        {"*:keep=last:1:node",
         "rule 1, '*:keep=last:1:node', character 15: a rule takes keep or node", "not both"},
        {"*:node:keep=last:1",
         "rule 1, '*:node:keep=last:1', character 13: a rule takes keep or node", "not both"},
        {"*:node=1", "rule 1, '*:node=1', character 3: 'node=1' is no setting", "node"},
        {"*:keep=middle:3", "rule 1, '*:keep=middle:3', character 8: keep takes", "first:N"},
        {"*:speed=3", "rule 1, '*:speed=3', character 3: 'speed=3' is no setting", "density=D"},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         "rule 1, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...', character 1: "
         "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' is no condition",
         "joined"},
        {"*:density", "rule 1, '*:density', character 3: 'density' is no setting", "density=D"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ss_rules *rules;
        char error[512];
        assert_int_equal(ss_rules_parse(cases[i].text, true, &rules, error, sizeof error),
                         SS_ERR_MESSAGE);
        assert_null(rules);
        if (strncmp(error, cases[i].error, strlen(cases[i].error)) != 0 ||
            !strstr(error, cases[i].allowed))
            fail_msg("'%s' gave: %s", cases[i].text, error);
    }
}

static void exclude_takes_no_settings(void **state)
{
    struct ss_rules *rules;
    char error[256], tiny[8];

    (void)state;
    assert_int_equal(ss_rules_parse("*:density=1", false, &rules, error, sizeof error),
                     SS_ERR_MESSAGE);
    assert_non_null(strstr(error, "character 3: only a rule of REGISTER takes settings"));
    assert_int_equal(ss_rules_parse("*:density=1", false, &rules, tiny, sizeof tiny),
                     SS_ERR_MESSAGE);
    assert_string_equal(tiny, "rule 1,");
    assert_int_equal(ss_rules_parse("count=1:2", false, &rules, error, sizeof error), SS_OK);
    assert_string_equal(error, "");
    ss_rules_free(rules);
}

static const struct ss_rule_subject plain = {
    .count = 1000, .type = SS_F32, .comm = "world", .site = "app+0x10", .symbol = "reduce"};

static const struct ss_rules_reach from_one = {.min_count = 1}, from_1000 = {.min_count = 1000};

static void a_rule_that_matched_nothing_is_named_with_the_nearest(void **state)
{
    (void)state;
    struct ss_rules *rules;
    struct ss_rule_subject far = plain, other = plain;
    char text[600];

    assert_int_equal(ss_rules_parse("count=999 count=1000 site=other", true, &rules, text, 600),
                     SS_OK);
    assert_int_equal(ss_rules_unmatched(rules, &from_one, text, sizeof text),
                     0); /* nothing was compared */
    assert_string_equal(text, "");
    far.count = 50;
    ss_rules_compare(rules, &far);
    ss_rules_compare(rules, &plain);
    far.count = 100000;
    ss_rules_compare(rules, &far);
    assert_int_equal(ss_rules_unmatched(rules, &from_one, text, sizeof text), 2);
    assert_string_equal(text, "'count=999' (nearest: 1000 float from app+0x10 in reduce on world), "
                              "'site=other' (nearest: 50 float from app+0x10 in reduce on world)");
    other.symbol = "other";
    ss_rules_compare(rules, &other);
    assert_int_equal(ss_rules_unmatched(rules, &from_one, text, sizeof text), 1);
    ss_rules_free(rules);
}

static void the_nearest_fails_the_fewest_conditions(void **state)
{
    (void)state;
    struct ss_rules *rules;
    struct ss_rule_subject near = plain;
    char text[600];

    assert_int_equal(
        ss_rules_parse("count=1000:2000,type=double,comm=group", true, &rules, text, sizeof text),
        SS_OK);
    ss_rules_compare(rules, &plain); /* type and communicator fail */
    near.count = 9000;
    near.comm = "group";
    near.type = SS_F64;
    ss_rules_compare(rules, &near); /* the count fails */
    near.comm = NULL;
    near.count = 2001;
    ss_rules_compare(rules, &near); /* count and communicator */
    assert_int_equal(ss_rules_unmatched(rules, &from_one, text, sizeof text), 1);
    assert_non_null(strstr(text, "(nearest: 9000 double from app+0x10 in reduce on group)"));
    ss_rules_free(rules);
}

static void a_count_below_min_count_is_said_to_be_so(void **state)
{
    (void)state;
    struct ss_rules *rules;
    char text[600];

    assert_int_equal(
        ss_rules_parse("count=999 count=:5 count=7 count=8", true, &rules, text, sizeof text),
        SS_OK);
    ss_rules_compare(rules, &plain);
    assert_int_equal(ss_rules_unmatched(rules, &from_1000, text, sizeof text), 4);
    assert_string_equal(text, "'count=999' (MIN_COUNT=1000 leaves so small calls alone), "
                              "'count=:5' (MIN_COUNT=1000 leaves so small calls alone), "
                              "'count=7' (MIN_COUNT=1000 leaves so small calls alone) and 1 more");
    for (size_t size = 1; size < 260; size++) /* what there is room for, and its end */
        assert_int_equal(ss_rules_unmatched(rules, &from_1000, text, size), 4);
    ss_rules_free(rules);
}

static void a_count_below_min_count_may_come_among_merged_calls(void **state)
{
    (void)state;
    const struct ss_rules_reach merging = {.min_count = 1000, .merges = true};
    struct ss_rules *rules;
    char text[600];

    assert_int_equal(ss_rules_parse("count=9", true, &rules, text, sizeof text), SS_OK);
    ss_rules_compare(rules, &plain);
    assert_int_equal(ss_rules_unmatched(rules, &merging, text, sizeof text), 1);
    assert_string_equal(text, "'count=9' (MIN_COUNT=1000 leaves so small calls alone, but for "
                              "nonblocking ones among larger ones)");
    ss_rules_free(rules);
}

/* ---- counts that are named ---- */

static uint64_t least_named(const char *text, uint64_t count, enum ss_type type, bool named)
{
    struct ss_rules *rules;
    char error[300];

    assert_int_equal(ss_rules_parse(text, true, &rules, error, sizeof error), SS_OK);
    uint64_t least = ss_rules_least_named(rules);
    assert_int_equal(ss_rules_name(rules, count, type), named);
    ss_rules_free(rules);
    return least;
}

static void numbers_and_ranges_name_counts_and_nothing_else_does(void **state)
{
    (void)state;
    assert_int_equal(least_named("", 77, SS_F32, false), UINT64_MAX);
    assert_int_equal(least_named("*; site=f; type=float; count=:", 77, SS_F32, false), UINT64_MAX);
    assert_int_equal(least_named("*; count=77", 77, SS_F32, true), 77);
    assert_int_equal(least_named("count=77", 78, SS_F32, false), 77);
    assert_int_equal(least_named("count=90:100; count=10:20", 20, SS_F32, true), 10);
    assert_int_equal(least_named("count=90:100; count=10:20", 21, SS_F32, false), 10);
    assert_int_equal(least_named("count=1000:", 5000, SS_F64, true), 1000);
    assert_int_equal(least_named("count=:5", 5, SS_F32, true), 0);
    assert_int_equal(least_named("count=7,type=double", 7, SS_F32, false), 7);
    assert_int_equal(least_named("count=7,type=double", 7, SS_F64, true), 7);
    assert_int_equal(least_named("count=7,comm=a,site=b:density=1", 7, SS_F64, true), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_text_is_no_rules),
        cmocka_unit_test(counts_take_a_number_or_a_range_with_its_ends),
        cmocka_unit_test(types_are_float_and_double),
        cmocka_unit_test(ddp_takes_identified_buffers),
        cmocka_unit_test(names_take_wildcards),
        cmocka_unit_test(sites_are_symbols_or_offsets),
        cmocka_unit_test(a_name_made_into_a_pattern_is_matched_by_it),
        cmocka_unit_test(all_conditions_must_hold),
        cmocka_unit_test(the_first_match_wins),
        cmocka_unit_test(settings_are_read),
        cmocka_unit_test(densities_are_the_nearest_numbers),
        cmocka_unit_test(errors_name_the_rule_the_place_and_what_is_allowed),
        cmocka_unit_test(exclude_takes_no_settings),
        cmocka_unit_test(a_rule_that_matched_nothing_is_named_with_the_nearest),
        cmocka_unit_test(the_nearest_fails_the_fewest_conditions),
        cmocka_unit_test(a_count_below_min_count_is_said_to_be_so),
        cmocka_unit_test(a_count_below_min_count_may_come_among_merged_calls),
        cmocka_unit_test(numbers_and_ranges_name_counts_and_nothing_else_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
