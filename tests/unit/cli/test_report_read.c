/* The promises of shim/cli/report_read.h: what was printed reads back the same, and nothing else is
 * believed. */
#include "tests/unit/support/report_sample.h"

#include <float.h>
#include <math.h>

/* Whole numbers go to 2^63 - 1. */
static const uint64_t most = INT64_MAX;

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
    struct ss_tensor_record r = {.comm = "a", .size = INT32_MAX, .count = most};
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
        r.calls = r.topk_calls = i % 4 ? most : 0;
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
        lane->planned = seed >> 47 & 7;
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
    static const double odd[] = {0,        -1e-310,     1e-310,   5e-324,     DBL_MAX, -DBL_MAX,
                                 INFINITY, -(INFINITY), NAN,      0.1,        1.0 / 3, 999.5,
                                 999.4999, 9.995,       0.999499, 1e15 - 0.5, 1e22,    -17.25};
    struct ss_report_job job = {.rank = 1 << 30, .ranks = 1 << 30, .observe = true};
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
        stats.memory_peak = PTRDIFF_MAX;
        stats.largest_total = stats.reduced_total = most;
        atomic_store(&stats.seen, most);
        atomic_store(&stats.passed[SS_WHY_OFF], most);
        job.start_unix = i % 2 ? INT64_MAX : INT64_MIN;
        lane = ss_stats_lane(&stats, "x", INT32_MAX, most, SS_F32, SS_SUM);
        lane->calls = lane->scans = lane->planned = lane->sparse[SS_RING] = most;
        lane->passed[SS_WHY_OBSERVE] = 1 + (i & 1);
        lane->bytes_dense = lane->bytes_sent = most;
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
        {"", "line 1, column 0: '[' or '{' expected near end of file"},
        {"{", "line 1, column 1: "},
        {"[]", "this is no report"},
        {"{}", "no \"schema\""},
        {"{\"schema\": 2}", "schema: report of another schema"},
        {"{\"schema\": \"1\"}", "another schema"},
        {"{\"schema\": 1} x", "column 15: end of file expected"},
        {"{\"schema\": 1,\n \"calls\": {\"seen\": 1,\n \"seen\": 1}}",
         "line 3, column 7: duplicate"},
        {"{\"schema\": 1, \"lanes\": [], \"lanes\": []}", "duplicate object key near '\"lanes\"'"},
        {"{\"schema\": 1, \"calls\": {\"seen\": -1}}", "calls.seen: whole number expected"},
        {"{\"schema\": 1, \"calls\": {\"seen\": 9223372036854775808}}",
         "column 51: too big integer"},
        {"{\"schema\": 1, \"calls\": {\"seen\": 01}}", "invalid token"},
        {"{\"schema\": 1, \"calls\": {\"seen\": 1.5}}", "calls.seen: whole number expected"},
        {"{\"schema\": 1, \"calls\": {\"seen\": \"1\"}}", "calls.seen: whole number expected"},
        {"{\"schema\": 1, \"calls\": {\"seen\": null}}", "calls.seen: whole number expected"},
        {"{\"schema\": 1, \"calls\": []}", "calls: object expected"},
        {"{\"schema\": 1, \"job\": {\"program\": 1}}", "job.program: text expected"},
        {"{\"schema\": 1, \"lanes\": [{\"ranks\": 99999999999}]}", "lanes[0].ranks: number out of"},
        {"{\"schema\": 1, \"lanes\": [{}, 3]}", "lanes[1]: object expected"},
        {"{\"schema\": 1, \"lanes\": [{\"type\": \"quad\"}]}", "lanes[0].type: unknown name"},
        {"{\"schema\": 1, \"lanes\": [{\"op\": null}]}", "lanes[0].op: unknown name"},
        {"{\"schema\": 1, \"lanes\": [{\"sparse\": [1]}]}", "lanes[0].sparse: object expected"},
        {"{\"schema\": 1, \"lanes\": [{\"passed\": {\"off\": -1}}]}", "lanes[0].passed: whole"},
        {"{\"schema\": 1, \"lanes\": [{\"density_sum\": \"1\"}]}", "density_sum: number expected"},
        {"{\"schema\": 1, \"lanes\": [{\"communicator\": \"0123456789012345678901234567890123456789"
         "012345678901234567890123\"}]}",
         "lanes[0].communicator: text too long"},
        {"{\"schema\": 1, \"x\": \"\\u0000\"}", "\\u0000 is not allowed"},
        {"{\"schema\": 1, \"x\": \"\\ud800\"}", "invalid Unicode"},
        {"{\"schema\": 1, \"x\": \"\\ud800\\u0041\"}", "invalid Unicode"},
        {"{\"schema\": 1, \"x\": \"\\udc00\"}", "invalid Unicode"},
        {"{\"schema\": 1, \"x\": \"\\u12", "invalid escape"},
        {"{\"schema\": 1, \"x\": \"\\q\"}", "invalid escape"},
        {"{\"schema\": 1, \"x\": \"abc", "premature end of input"},
        {"{\"schema\": 1, \"x\": \"a\nb\"}", "unexpected newline"},
        {"{\"schema\": 1, \"x\": \"\xff\"}", "unable to decode byte 0xff"},
        {"{\"schema\": 1, \"x\": \x1b}", "column 20: invalid token near '?'"},
        {"{\"schema\": 1, \"x\": [1, 2}", "']' expected"},
        {"{\"schema\": 1, \"x\": [1,]}", "unexpected token"},
        {"{\"schema\": 1, \"x\": nul}", "invalid token near 'nul'"},
        {"{\"schema\": 1, \"x\": 1.}", "invalid token"},
        {"{\"schema\": 1, \"x\": 1e999}", "real number overflow"},
        {"{\"schema\": 1, \"x\" 1}", "':' expected"},
        {"{\"schema\": 1 \"x\": 1}", "'}' expected"},
        {"{\"schema\": 1, \"times\": {\"timed\": 1}}", "times.timed: true or false expected"},
        {"{\"schema\": 1, \"notes\": {}}", "notes: array expected"},
        {"{\"schema\": 1, \"notes\": [{\"note\": {}}]}", "notes[0].note: text expected"},
        {"{\"schema\": 1, \"passed\": [{\"reason\": 3}]}", "passed[0].reason: text expected"},
        {"{\"schema\": 1, \"tensors\": [{\"state\": \"lost\"}]}", "tensors[0].state: unknown name"},
        {"{\"schema\": 1, \"tensors\": [{\"reason\": \"none\"}]}", "unknown name"},
        {"{\"schema\": 1, \"tensors\": [{\"series\": {}}]}", "tensors[0].series: object of arrays"},
        {"{\"schema\": 1, \"tensors\": [{\"series\": {\"call\": [1, 2], \"density\": [1]}}]}",
         "tensors[0].series: arrays of one length expected"},
        {"{\"schema\": 1, \"tensors\": [{\"series\": {\"call\": [true]}}]}",
         "series: numbers expected"},
        {"{\"schema\": 1, \"tensors\": [{\"series\": {\"call\": [2, 1]}}]}",
         "calls in their order"},
        {"{\"schema\": 1, \"tensors\": [{\"series\": {\"call\": [1, 1e16]}}]}",
         "calls in their order"},
        {"{\"merged_schema\": 1}", "which is not read again"},
        {"{\"compared_schema\": 1}", "which is not read again"},
        {"{\"schema\": 1, \"tensors\": [{\"ordinal\": -2}]}", "tensors[0].ordinal: number out of"},
        {"{\"schema\": 1, \"tensors\": [{\"ordinal\": 4294967295}]}", "number out of range"},
        {"{\"schema\": 1, \"tensors\": [{\"symbol\": \"0123456789012345678901234567890123456789"
         "012345678901234567890123\"}]}",
         "tensors[0].symbol: text too long"},
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
    assert_non_null(strstr(error, "maximum parsing depth reached"));
}

static void counts_beyond_the_whole_doubles_keep_their_value(void **state)
{
    static const char text[] =
        "{\"schema\": 1, \"bytes\": {\"bytes_outside\": 9007199254740993, \"bytes_memory_peak\": "
        "9223372036854775807}, \"lanes\": [{\"bytes_sent\": 9223372036854775805, \"sparse\": "
        "{\"ring\": 9007199254740995}}], \"job\": {\"start_unix\": -9223372036854775808}}";
    struct cli_report report;
    char error[200] = "";

    (void)state;
    assert_int_equal(cli_report_read(&report, text, sizeof text - 1, error, sizeof error), 0);
    assert_true(atomic_load(&report.stats.small_bytes) == 9007199254740993);
    assert_true(report.stats.memory_peak == INT64_MAX);
    assert_true(report.stats.lanes->bytes_sent == INT64_MAX - 2);
    assert_true(report.stats.lanes->sparse[SS_RING] == 9007199254740995);
    assert_true(report.job.start_unix == INT64_MIN);
    cli_report_free(&report);
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

static void doubles_are_read_back_to_the_last_bit(void **state)
{
    struct ss_report_job job = {.rank = 0};
    uint64_t seed = 7;

    (void)state;
    for (int i = 0; i < 5000; i++) {
        struct ss_stats stats;
        struct cli_report read;
        struct page json;
        char error[200];

        ss_stats_init(&stats, 0);
        do {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            memcpy(&stats.allreduce_seconds, &seed, sizeof seed);
        } while (!isfinite(stats.allreduce_seconds));
        json = printed(&stats, &job, SS_EMIT_JSON);
        assert_int_equal(cli_report_read(&read, json.text, json.len, error, sizeof error), 0);
        assert_memory_equal(&read.stats.allreduce_seconds, &seed, sizeof seed);
        cli_report_free(&read);
        free(json.text);
        ss_stats_free(&stats);
    }
}

int main(void)
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
        cmocka_unit_test(counts_beyond_the_whole_doubles_keep_their_value),
        cmocka_unit_test(unknown_keys_and_other_spacing_are_read_over),
        cmocka_unit_test(every_cut_of_a_report_is_refused_within_its_bounds),
        cmocka_unit_test(doubles_are_read_back_to_the_last_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
