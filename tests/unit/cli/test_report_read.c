/* The promises of shim/cli/report_read.h and shim/cli/json_read.h: what was printed reads back the
 * same, and nothing else is believed.
 *
 * With "locale" as argument, the doubles alone, under a decimal comma; see test_report.c. */
#include "tests/unit/support/report_sample.h"

#include <float.h>
#include <math.h>

#include "shim/cli/json_read.h"

enum { NO_LOCALE = 77 };

static void reading_back_and_printing_gives_the_same_text(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;

    (void)state;
    fill_sample(&stats);
    assert_round_trip(&stats, &job);
    ss_stats_free(&stats);

    fill_observed(&stats);
    job.observe = true;
    job.complete = false;
    assert_round_trip(&stats, &job);
    ss_stats_free(&stats);
}

static void a_report_that_does_not_say_was_written_at_the_end(void **state)
{
    static const char text[] = "{\"schema\": 1, \"job\": {\"rank\": 0}}";
    struct cli_report report;
    char error[200];

    (void)state;
    assert_int_equal(cli_report_read(&report, text, sizeof text - 1, error, sizeof error), 0);
    assert_true(report.job.complete);
    cli_report_free(&report);
}

static void tensors_read_back_with_every_state_and_reason(void **state)
{
    static const double odd[] = {0, 5e-324, 1.0 / 3, DBL_MAX, INFINITY, NAN, -1};
    struct ss_report_job job = sample_job();
    struct ss_tensor_record r = {.comm = "a", .size = INT32_MAX, .count = UINT64_MAX};
    struct ss_stats stats;

    (void)state;
    fill_sample(&stats);
    add_tensors(&stats);
    assert_round_trip(&stats, &job);
    memset(r.site, 'x', sizeof r.site - 1);
    memset(r.symbol, 0xc3, sizeof r.symbol - 1); /* no UTF-8 */
    memset(r.rule, '\\', sizeof r.rule - 1);
    for (int i = 0; i < 7 * SS_TENSOR_REASONS; i++) {
        r.state = (enum ss_tensor_state)(i % 3);
        r.reason = (enum ss_tensor_reason)(i % SS_TENSOR_REASONS);
        r.type = (enum ss_type)(i % SS_TYPES);
        r.ordinal = i % 5 ? UINT32_MAX - (uint32_t)(i % 3) : 0;
        r.calls = r.topk_calls = i % 4 ? UINT64_MAX : 0;
        r.asked_sum = odd[i % 7];
        r.density_sum = odd[i / 7 % 7];
        r.residual_norm = odd[(i + 3) % 7];
        r.input_norm = odd[(i + 1) % 7];
        add_tensor(&stats, &r);
    }
    assert_round_trip(&stats, &job);
    ss_stats_free(&stats);
}

static void a_thousand_lanes_and_more_round_trip_in_order_of_bytes(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    uint64_t seed = 1, last = UINT64_MAX;
    size_t lanes = 0;

    (void)state;
    ss_stats_init(&stats, 0);
    stats.end = 1.0 / 3;
    job.observe = true;
    for (int i = 0; i < 1200; i++) {
        struct ss_lane_record *lane;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        lane = ss_stats_lane(&stats, i % 3 ? "c" : "", 2 + i % 7, (uint64_t)i + 1,
                             (enum ss_type)(i % SS_TYPES), (enum ss_op)(i % SS_OPS));
        lane->bytes_dense += (seed >> 60) * 1000; /* many are equal */
        lane->scans = seed >> 50 & 7;
        lane->density_sum = (double)(seed >> 40) * 1e-9;
        lane->times.native = (double)(seed >> 30) / 7;
        lane->passed[seed >> 33 & 7] += seed >> 35;
        lane->predicted_seconds[1 + (seed >> 40) % 6] = (double)(seed >> 20) / 3e9;
    }
    assert_round_trip(&stats, &job);
    for (struct ss_lane_record *r = stats.lanes; r; r = r->next, lanes++) {
        assert_true(r->bytes_dense <= last);
        last = r->bytes_dense;
    }
    assert_int_equal(lanes, stats.lane_count);
    assert_int_equal(lanes, 1001); /* the last is shared by those that came late */
    ss_stats_free(&stats);
}

static void lanes_name_their_collective(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;

    (void)state;
    ss_stats_init(&stats, 0);
    for (int kind = 0; kind < SS_KINDS; kind++) {
        struct ss_lane_record *lane =
            ss_stats_lane_of(&stats, (enum ss_kind)kind, "c", 4, 100, SS_I32, SS_BOR);
        assert_int_equal(lane->kind, kind);
        lane->bytes_dense = 1000 - (uint64_t)kind;
        lane->calls = 1;
    }
    assert_int_equal(stats.lane_count, SS_KINDS);
    struct page text = printed(&stats, &job, SS_EMIT_TEXT);
    assert_contains(&text, "int32  bor ");
    assert_contains(&text, "int32  allgather ");
    assert_contains(&text, "int32  reduce_scatter bor ");
    assert_contains(&text, "int32  reduce bor ");
    free(text.text);
    struct page json = printed(&stats, &job, SS_EMIT_JSON);
    assert_contains(&json, "\"kind\": \"reduce_scatter\"");
    free(json.text);
    assert_round_trip(&stats, &job);
    ss_stats_free(&stats);
}

static void huge_and_impossible_numbers_leave_the_report_valid(void **state)
{
    static const double odd[] = {0,        -0.0,        1e-310,   5e-324,     DBL_MAX, -DBL_MAX,
                                 INFINITY, -(INFINITY), NAN,      0.1,        1.0 / 3, 999.5,
                                 999.4999, 9.995,       0.999499, 1e15 - 0.5, 1e22,    -17.25};
    struct ss_report_job job = {.rank = INT32_MAX, .ranks = INT32_MAX, .observe = true};
    size_t n = sizeof odd / sizeof *odd;

    (void)state;
    for (size_t i = 0; i < n * n; i++) {
        double a = odd[i % n], b = odd[i / n];
        struct ss_lane_record *lane;
        struct ss_stats stats;

        ss_stats_init(&stats, a);
        stats.end = b;
        stats.timed = true;
        stats.allreduce_seconds = a;
        stats.memory_peak = SIZE_MAX;
        stats.largest_total = stats.reduced_total = UINT64_MAX;
        atomic_store(&stats.seen, UINT64_MAX);
        atomic_store(&stats.passed[SS_WHY_OFF], UINT64_MAX);
        job.start_unix = i % 2 ? INT64_MAX : INT64_MIN;
        lane = ss_stats_lane(&stats, "x", INT32_MAX, UINT64_MAX, SS_F32, SS_SUM);
        lane->calls = lane->scans = lane->sparse[SS_RING] = UINT64_MAX;
        lane->passed[SS_WHY_OBSERVE] = 1 + (i & 1);
        lane->bytes_dense = lane->bytes_sent = UINT64_MAX;
        lane->fillin_calls = 3;
        lane->density_sum = lane->density_max = lane->fillin_sum = b;
        lane->times = (struct ss_times){a, b, a, b, a, b};
        lane->predicted_seconds[SS_RING] = a;
        lane->predicted_seconds[SS_DENSE] = b;
        lane->predicted_bytes[SS_RING] = b;
        assert_round_trip(&stats, &job);
        ss_stats_free(&stats);
    }
}

static void what_is_no_report_is_refused_with_the_place(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "line 1, column 1: object expected"},
        {"{}", "no \"schema\""},
        {"{\"schema\": 2}", "another schema"},
        {"{\"schema\": 1} x", "text after the end"},
        {"{\"schema\": 1,\n \"calls\": {\"seen\": -1}}", "line 2, column 20: whole number"},
        {"{\"schema\": 1, \"calls\": {\"seen\": 18446744073709551616}}", "too large"},
        {"{\"schema\": 1, \"calls\": {\"seen\": 01}}", "leading 0"},
        {"{\"schema\": 1, \"calls\": {\"seen\": 1.5}}", "whole number"},
        {"{\"schema\": 1, \"lanes\": [{\"ranks\": 99999999999}]}", "too large"},
        {"{\"schema\": 1, \"lanes\": [{\"type\": \"quad\"}]}", "unknown name"},
        {"{\"schema\": 1, \"lanes\": [{\"op\": null}]}", "unknown name"},
        {"{\"schema\": 1, \"lanes\": [{\"communicator\": \"0123456789012345678901234567890123456789"
         "012345678901234567890123\"}]}",
         "too long"},
        {"{\"schema\": 1, \"x\": \"\\u0000\"}", "null character"},
        {"{\"schema\": 1, \"x\": \"\\ud800\"}", "surrogate"},
        {"{\"schema\": 1, \"x\": \"\\ud800\\u0041\"}", "surrogate"},
        {"{\"schema\": 1, \"x\": \"\\udc00\"}", "surrogate"},
        {"{\"schema\": 1, \"x\": \"\\u12", "hexadecimal"},
        {"{\"schema\": 1, \"x\": \"\\q\"}", "escape"},
        {"{\"schema\": 1, \"x\": \"abc", "without an end"},
        {"{\"schema\": 1, \"x\": \"a\nb\"}", "control character"},
        {"{\"schema\": 1, \"x\": [1, 2}", "\"]\" expected"},
        {"{\"schema\": 1, \"x\": [1,]}", "digit expected"},
        {"{\"schema\": 1, \"x\": nul}", "digit expected"},
        {"{\"schema\": 1, \"x\": 1.}", "digit expected"},
        {"{\"schema\": 1, \"x\": 00}", "leading 0"},
        {"{\"schema\": 1, \"x\" 1}", "\":\" expected"},
        {"{\"schema\": 1 \"x\": 1}", "\"}\" expected"},
        {"{\"schema\": 1, \"times\": {\"timed\": 1}}", "true or false"},
        {"{\"schema\": 1, \"notes\": {}}", "array expected"},
        {"{\"schema\": 1, \"tensors\": [{\"state\": \"lost\"}]}", "unknown name"},
        {"{\"schema\": 1, \"tensors\": [{\"reason\": \"none\"}]}", "unknown name"},
        {"{\"schema\": 1, \"tensors\": [{\"ordinal\": -2}]}", "no ordinal"},
        {"{\"schema\": 1, \"tensors\": [{\"ordinal\": 4294967295}]}", "no ordinal"},
        {"{\"schema\": 1, \"tensors\": [{\"symbol\": \"0123456789012345678901234567890123456789"
         "012345678901234567890123\"}]}",
         "too long"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cli_report report;
        char error[200] = "";

        assert_int_equal(
            cli_report_read(&report, cases[i].text, strlen(cases[i].text), error, sizeof error),
            -1);
        if (!strstr(error, cases[i].error))
            fail_msg("%s: \"%s\" lacks \"%s\"", cases[i].text, error, cases[i].error);
    }
}

static void deep_nesting_is_refused(void **state)
{
    struct cli_report report;
    char error[200], text[4096] = "{\"schema\": 1, \"x\": ";
    size_t start = strlen(text);

    (void)state;
    memset(text + start, '[', sizeof text - start);
    assert_int_equal(cli_report_read(&report, text, sizeof text, error, sizeof error), -1);
    assert_non_null(strstr(error, "64 values nest"));
}

static void unknown_keys_and_other_spacing_are_read_over(void **state)
{
    static const char text[] =
        "\t{\"later\":{\"a\":[1,-2.5e+3,true,false,null,\"\\ud83d\\ude00\"],\"b\":{}},\r\n"
        "\"notes\":[{\"note\":\"\\u00e9\\n\\/\",\"new\":[]}],\"passed\":[{\"reason\":\"new\","
        "\"calls\":3},{\"reason\":\"off\",\"calls\":4}],\"schema\":1 }\n";
    struct cli_report report;
    char error[200] = "";

    (void)state;
    assert_int_equal(cli_report_read(&report, text, sizeof text - 1, error, sizeof error), 0);
    assert_int_equal(report.job.note_count, 1);
    assert_string_equal(report.job.notes[0], "\xc3\xa9\n/");
    assert_int_equal(atomic_load(&report.stats.passed[SS_WHY_OFF]), 4);
    cli_report_free(&report);
}

static void every_cut_of_a_report_is_refused_within_its_bounds(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page json;

    (void)state;
    fill_observed(&stats);
    add_tensors(&stats);
    job.observe = true;
    json = printed(&stats, &job, SS_EMIT_JSON);
    for (size_t len = 0; len < json.len - 1; len += 1 + len / 512) {
        char *cut = malloc(len > 0 ? len : 1); /* of this size, so that ASan sees a byte too far */
        struct cli_report report;
        char error[200];

        assert_non_null(cut);
        memcpy(cut, json.text, len);
        assert_int_equal(cli_report_read(&report, cut, len, error, sizeof error), -1);
        free(cut);
    }
    free(json.text);
    ss_stats_free(&stats);
}

static bool keep_f64(struct cli_json *json, const char *key, void *ctx)
{
    (void)key;
    return cli_json_f64(json, ctx);
}

static void doubles_are_read_back_to_the_last_bit(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        struct page page = {NULL, 0, 0};
        double value, back = 0;
        struct cli_json json;
        struct ss_emit emit;
        char texts[200], error[200];

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        memcpy(&value, &seed, sizeof value);
        if (!isfinite(value))
            continue;
        ss_emit_begin(&emit, SS_EMIT_JSON, append, &page);
        ss_emit_kv(&emit, "x", NULL, ss_v_number(SS_V_FACTOR, value));
        assert_int_equal(ss_emit_end(&emit), 0);
        cli_json_begin(&json, page.text, page.len, texts, error, sizeof error);
        assert_true(cli_json_object(&json, keep_f64, &back));
        assert_memory_equal(&back, &value, sizeof value);
        free(page.text);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_back_and_printing_gives_the_same_text),
        cmocka_unit_test(a_report_that_does_not_say_was_written_at_the_end),
        cmocka_unit_test(tensors_read_back_with_every_state_and_reason),
        cmocka_unit_test(a_thousand_lanes_and_more_round_trip_in_order_of_bytes),
        cmocka_unit_test(lanes_name_their_collective),
        cmocka_unit_test(huge_and_impossible_numbers_leave_the_report_valid),
        cmocka_unit_test(what_is_no_report_is_refused_with_the_place),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(unknown_keys_and_other_spacing_are_read_over),
        cmocka_unit_test(every_cut_of_a_report_is_refused_within_its_bounds),
        cmocka_unit_test(doubles_are_read_back_to_the_last_bit),
    };
    const struct CMUnitTest local[] = {
        cmocka_unit_test(doubles_are_read_back_to_the_last_bit),
    };

    if (argc > 1 && strcmp(argv[1], "locale") == 0)
        return set_comma_locale() ? cmocka_run_group_tests(local, NULL, NULL) : NO_LOCALE;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
