/* The promises of core/emit.h, core/report.h and shim/cli/report_read.h.
 *
 * With an argument it prints a sample report instead: "json" or "text" (tests/t/report_json.t reads
 * them). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/report.h"
#include "shim/cli/json_read.h"
#include "shim/cli/report_read.h"

enum { NO_LOCALE = 77 };

/* A growing text; the sink of all reports here. */
struct page {
    char *text;
    size_t len, size;
};

static int append(void *ctx, const char *text, size_t len)
{
    struct page *page = ctx;

    if (page->len + len + 1 > page->size) {
        page->size = 2 * (page->len + len + 1);
        page->text = realloc(page->text, page->size);
        assert_non_null(page->text);
    }
    memcpy(page->text + page->len, text, len);
    page->len += len;
    page->text[page->len] = '\0';
    return 0;
}

static struct page printed(struct ss_stats *stats, const struct ss_report_job *job,
                           enum ss_emit_form form)
{
    struct page page = {NULL, 0, 0};

    assert_int_equal(ss_report_write(stats, job, form, append, &page), 0);
    assert_non_null(page.text);
    return page;
}

static void assert_contains(const struct page *page, const char *line)
{
    if (!strstr(page->text, line))
        fail_msg("\"%s\" is not in\n%s", line, page->text);
}

static void assert_lacks(const struct page *page, const char *line)
{
    if (strstr(page->text, line))
        fail_msg("\"%s\" is in\n%s", line, page->text);
}

/* Text, JSON, and the text of what the JSON reads back as: the two texts are the same. */
static void assert_round_trip(struct ss_stats *stats, const struct ss_report_job *job)
{
    struct page text = printed(stats, job, SS_EMIT_TEXT);
    struct page json = printed(stats, job, SS_EMIT_JSON);
    struct page again, json_again;
    struct cli_report read;
    char error[200] = "";

    if (cli_report_read(&read, json.text, json.len, error, sizeof error) != 0)
        fail_msg("%s in\n%s", error, json.text);
    again = printed(&read.stats, &read.job, SS_EMIT_TEXT);
    json_again = printed(&read.stats, &read.job, SS_EMIT_JSON);
    assert_string_equal(text.text, again.text);
    assert_string_equal(json.text, json_again.text);
    cli_report_free(&read);
    free(text.text);
    free(json.text);
    free(again.text);
    free(json_again.text);
}

static const struct ss_report_option sample_options[] = {{"MODE", "exact"}, {"MIN_COUNT", "65536"}};
static const char *const sample_notes[] = {
    "nonblocking calls were passed through: no MPI_THREAD_MULTIPLE"};

static struct ss_report_job sample_job(void)
{
    return (struct ss_report_job){
        .program = "langid",
        .hostname = "node1",
        .version = "0.1.0",
        .mpi_library = "MPICH Version:\t4.0.2\nMPICH Release date:\tThu Apr  7 12:34:45 CDT 2022\n",
        .rank = 0,
        .ranks = 4,
        .start_unix = 1795201923,
        .options = sample_options,
        .option_count = 2,
        .notes = sample_notes,
        .note_count = 1,
    };
}

/* 1,010 calls: a sparse lane of 1,000, a dense one of 6, and 4 small ones. */
static void fill_sample(struct ss_stats *stats)
{
    struct ss_lane_record *small, *large;

    ss_stats_init(stats, 100);
    stats->end = 160;
    stats->timed = true;
    stats->allreduce_seconds = 15;
    atomic_store(&stats->seen, 1010);
    atomic_store(&stats->sparse, 999);
    atomic_store(&stats->passed[SS_WHY_SMALL], 4);
    atomic_store(&stats->passed[SS_WHY_FIRST], 2);
    atomic_store(&stats->passed[SS_WHY_DENSE], 5);
    atomic_store(&stats->small_bytes, 4096);
    stats->memory_peak = 12345678;
    for (int i = 0; i < 1000; i++)
        ss_stats_reduced(stats, 4 << 22);
    for (int i = 0; i < 6; i++)
        ss_stats_reduced(stats, 8 << 16);

    large = ss_stats_lane(stats, "MPI_COMM_WORLD", 4, 1 << 22, SS_F32, SS_SUM);
    large->calls = 1000;
    large->sparse[SS_SPLIT_ALLGATHER] = 990;
    large->sparse[SS_RING] = 9;
    large->passed[SS_WHY_FIRST] = 1;
    large->scans = 999;
    large->density_sum = 999 * 0.0078;
    large->density_max = 0.0125;
    large->fillin_calls = 999;
    large->fillin_sum = 999 * 0.0305;
    large->bytes_dense = 25165824000;
    large->bytes_sent = 251658240;
    large->times = (struct ss_times){1.5, 0.25, 7.5, 1.25, 0.0042, 0.12};

    small = ss_stats_lane(stats, "rows", 2, 1 << 16, SS_F64, SS_SUM);
    small->calls = 6;
    small->passed[SS_WHY_FIRST] = 1;
    small->passed[SS_WHY_DENSE] = 5;
    small->scans = 5;
    small->density_sum = 5 * 0.83;
    small->density_max = 0.84;
    small->bytes_dense = small->bytes_sent = 3145728;
    small->times = (struct ss_times){0.0001, 0.0002, 0, 0, 0, 0.006};
}

/* As before, but nothing was changed and all was predicted. */
static void fill_observed(struct ss_stats *stats)
{
    struct ss_lane_record *lane;

    fill_sample(stats);
    atomic_store(&stats->sparse, 0);
    for (int i = 0; i < SS_REASONS; i++)
        atomic_store(&stats->passed[i], i == SS_WHY_OBSERVE ? 1006 : i == SS_WHY_SMALL ? 4 : 0);
    for (lane = stats->lanes; lane; lane = lane->next) {
        bool dense = lane->count == 1 << 16;

        memset(lane->sparse, 0, sizeof lane->sparse);
        memset(lane->passed, 0, sizeof lane->passed);
        lane->passed[SS_WHY_OBSERVE] = lane->calls;
        lane->fillin_calls = 0;
        lane->bytes_sent = lane->bytes_dense + 1000;
        lane->times = (struct ss_times){.scan = 1, .vote = 0.5};
        lane->times.native = (double)lane->calls * (dense ? 0.001 : 0.120);
        for (int a = SS_RECURSIVE_DOUBLING; a < SS_ALGORITHMS; a++) {
            lane->predicted_seconds[a] = (double)lane->scans * (dense ? 0.002 : 0.012) * a;
            lane->predicted_bytes[a] = (double)lane->scans * 250000 * a;
        }
    }
}

static void five_lines_say_whether_it_works_and_what_it_saved(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;
    int lines = 0;

    (void)state;
    fill_sample(&stats);
    text = printed(&stats, &job, SS_EMIT_TEXT);
    assert_contains(&text, "sparseshim 0.1.0: langid, rank 0 of 4 on node1, started "
                           "2026-11-20 19:12:03 UTC, ran 60.0 s\n");
    assert_contains(&text, "calls    1,010 seen: 999 made sparse, 11 passed through, 0 errors\n");
    assert_contains(&text, "bytes    255 MB sent instead of 25.2 GB: 98.8 times fewer\n");
    assert_contains(&text, "time     15.0 s in allreduce, f = 25.0 % of the job, which without it "
                           "is at most 1.33 times faster\n");
    for (const char *p = text.text; p && lines < 5; p = strchr(p, '\n'), p = p ? p + 1 : p)
        lines += p < strstr(text.text, "phases ");
    assert_in_range(lines, 4, 5);
    free(text.text);
    ss_stats_free(&stats);
}

static void every_part_of_the_report_is_in_the_text(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_sample(&stats);
    text = printed(&stats, &job, SS_EMIT_TEXT);
    assert_contains(&text, "phases   scan 1.50 s, vote 250 ms, exchange 7.50 s, merge 1.25 s, "
                           "coding 4.20 ms, native 126 ms\n");
    assert_contains(&text, "memory   12.3 MB of our own at peak\n");
    assert_contains(&text,
                    "tensor   the largest, of 16.8 MB, carries 100 % of the bytes reduced\n");
    assert_contains(&text, "MPI      MPICH Version: 4.0.2\n");
    assert_contains(&text, "4.10 kB in buffers that were passed through unseen");
    assert_contains(&text, "Passed through\n  calls  reason\n      4  count below MIN_COUNT\n"
                           "      2  first call on its communicator\n      5  dense is faster\n");
    assert_contains(&text, "Notes\n  nonblocking calls were passed through: no");
    assert_contains(&text, "Options\n  MODE       exact\n  MIN_COUNT  65536\n");
    assert_contains(&text, "split_allgather 990, ring 9  first call on its communicator 1\n");
    assert_contains(&text, "MPI_COMM_WORLD      4  4,194,304  float   sum  1,000  0.780 %   1.25 %"
                           "     3.05 %     3.08 %  25.2 GB   252 MB    100\n");
    assert_contains(&text, "     2  100 us  200 us");
    assert_lacks(&text, "backed off");
    assert_lacks(&text, "What to try");
    assert_true(strstr(text.text, "MPI_COMM_WORLD  ") < strstr(text.text, "rows  "));
    free(text.text);
    ss_stats_free(&stats);
}

static void no_line_of_the_text_ends_in_spaces(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_observed(&stats);
    job.observe = true;
    text = printed(&stats, &job, SS_EMIT_TEXT);
    assert_lacks(&text, " \n");
    free(text.text);
    ss_stats_free(&stats);
}

static void observe_says_what_to_try_and_what_not(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_observed(&stats);
    job.observe = true;
    text = printed(&stats, &job, SS_EMIT_TEXT);
    assert_contains(&text, "try      SPARSESHIM_MODE=exact: faster on 1 of 2 lanes, all together "
                           "12.0 s instead of 120 s\n");
    assert_contains(&text, "     1  SPARSESHIM_MODE=exact  density 0.780 %, recursive_doubling "
                           "12.0 ms instead of 120 ms per call\n");
    assert_contains(&text, "     2  -                      nothing to gain: density 83.0 %, "
                           "recursive_doubling 2.00 ms against 1.00 ms per call\n");
    assert_contains(&text,
                    "     1  native                 25.2 MB   120 ms             -  measured\n");
    assert_contains(&text,
                    "     1  recursive_doubling      250 kB  12.0 ms          10.0  best sparse\n");
    assert_contains(&text, "     1  dense                  1.50 MB  72.0 ms          1.67\n");
    assert_contains(&text, "mode observe changes nothing");
    free(text.text);
    ss_stats_free(&stats);
}

static void advice_asks_for_ten_per_cent_and_forces_only_past_the_plan(void **state)
{
    struct ss_lane_record lane = {.calls = 10, .scans = 10};
    struct ss_report_advice advice = ss_report_advise(&lane);

    (void)state;
    assert_int_equal(advice.best, SS_AUTO);
    assert_false(advice.gain);

    lane.passed[SS_WHY_OBSERVE] = 10;
    lane.times.native = 10;
    lane.predicted_seconds[SS_RING] = 9.1;
    lane.predicted_seconds[SS_ALLGATHER] = 9.5;
    advice = ss_report_advise(&lane);
    assert_int_equal(advice.best, SS_RING);
    assert_false(advice.gain);

    lane.predicted_seconds[SS_RING] = 8.9;
    advice = ss_report_advise(&lane);
    assert_true(advice.gain);
    assert_false(advice.force);

    lane.predicted_seconds[SS_DENSE] = 8;
    advice = ss_report_advise(&lane);
    assert_true(advice.gain);
    assert_true(advice.force);

    lane.predicted_seconds[SS_RING] = INFINITY; /* it could not have run in one of the calls */
    advice = ss_report_advise(&lane);
    assert_int_equal(advice.best, SS_ALLGATHER);
    assert_false(advice.gain);
}

static void a_forced_algorithm_is_named_in_the_settings_to_try(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_lane_record *lane;
    struct ss_stats stats;
    struct page text;

    (void)state;
    ss_stats_init(&stats, 0);
    stats.end = 1;
    job.observe = true;
    lane = ss_stats_lane(&stats, "", 8, 1 << 20, SS_F32, SS_SUM);
    lane->calls = lane->scans = lane->passed[SS_WHY_OBSERVE] = 10;
    lane->times.native = 10;
    lane->predicted_seconds[SS_RING] = 5;
    lane->predicted_seconds[SS_DENSE] = 4;
    text = printed(&stats, &job, SS_EMIT_TEXT);
    assert_contains(&text, "     1  SPARSESHIM_MODE=exact SPARSESHIM_ALGORITHM=ring  density");
    assert_contains(&text,
                    "try      SPARSESHIM_MODE=exact SPARSESHIM_ALGORITHM=ring: up to 5.00 s");
    assert_round_trip(&stats, &job);
    free(text.text);
    ss_stats_free(&stats);
}

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
    assert_round_trip(&stats, &job);
    ss_stats_free(&stats);
}

static void an_empty_job_has_a_report(void **state)
{
    struct ss_report_job job = {.rank = -1};
    struct ss_stats stats;
    struct page text;

    (void)state;
    ss_stats_init(&stats, 0);
    assert_round_trip(&stats, &job);
    text = printed(&stats, &job, SS_EMIT_TEXT);
    assert_contains(&text, "calls    0 seen: 0 made sparse, 0 passed through, 0 errors\n");
    assert_contains(&text, "bytes    none: no call could be made sparse\n");
    assert_contains(&text, "time     allreduce was not timed as a whole\n");
    assert_lacks(&text, "Lanes");
    job.observe = true;
    assert_round_trip(&stats, &job);
    free(text.text);
    ss_stats_free(&stats);
}

static void odd_names_neither_break_json_nor_reach_the_terminal(void **state)
{
    static const struct ss_report_option options[] = {{"A\"B", "\\ \x01 \x1b[2J"}, {NULL, NULL}};
    static const char *const notes[] = {"\xc3\xa9t\xc3\xa9 \xf0\x9f\x98\x80", "\xff\xfe", NULL};
    struct ss_report_job job = {
        .program = "a\"b\\c\nd\te\x7f",
        .hostname = "h\xc2\x9b", /* CSI, which some terminals obey */
        .version = "\xed\xa0\x80 \xe0\x80\x80 \xf4\x90\x80\x80 \xc0\xaf \xe2\x82",
        .mpi_library = "x\t\"y\"\x1b\rz",
        .options = options,
        .option_count = 2,
        .notes = notes,
        .note_count = 3,
    };
    struct ss_lane_record *lane;
    struct ss_stats stats;
    struct page text, json;
    char name[80];

    (void)state;
    memset(name, 0xc3, sizeof name - 1); /* no UTF-8, and cut in the record */
    name[sizeof name - 1] = '\0';
    ss_stats_init(&stats, 0);
    lane = ss_stats_lane(&stats, name, 3, 5, SS_I64, SS_LXOR);
    lane->bytes_dense = 5;
    ss_stats_lane(&stats, "caf\xc3\xa9 \"x\"", 3, 5, SS_I32, SS_BOR)->bytes_dense = 4;
    assert_round_trip(&stats, &job);
    text = printed(&stats, &job, SS_EMIT_TEXT);
    json = printed(&stats, &job, SS_EMIT_JSON);
    for (size_t i = 0; i < text.len; i++)
        assert_true((unsigned char)text.text[i] >= 0x20 ? text.text[i] != 0x7f
                                                        : text.text[i] == '\n');
    assert_lacks(&text, "\xc2\x9b");
    assert_contains(&text, "a\"b\\c, "); /* the first line of it */
    assert_contains(&text, "??? ??? ???? ?? ??: ");
    assert_contains(&text, "\xc3\xa9t\xc3\xa9 \xf0\x9f\x98\x80\n");
    assert_contains(&json, "\"program\": \"a\\\"b\\\\c\\u000ad\\u0009e\\u007f\"");
    assert_contains(&json, "\\u001b[2J");
    free(text.text);
    free(json.text);
    ss_stats_free(&stats);
}

static void columns_stay_aligned_whatever_the_names(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;
    const char *first, *second;

    (void)state;
    ss_stats_init(&stats, 0);
    ss_stats_lane(&stats, "\xc3\xa9\xc3\xa9\xc3\xa9", 2, 5, SS_F32, SS_SUM)->bytes_dense = 9;
    ss_stats_lane(&stats, "a long name of a communicator", 2, 5, SS_F32, SS_SUM)->bytes_dense = 8;
    text = printed(&stats, &job, SS_EMIT_TEXT);
    first = strstr(text.text, "     1  \xc3\xa9");
    second = strstr(text.text, "     2  a long");
    assert_non_null(first);
    assert_non_null(second);
    /* three characters of two bytes each */
    assert_int_equal(strstr(first, "float") - first, strstr(second, "float") - second + 3);
    free(text.text);
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

static void numbers_keep_three_digits_and_their_unit(void **state)
{
    static const struct {
        enum ss_emit_kind kind;
        double value;
        const char *text;
    } cases[] = {
        {SS_V_SECONDS, 0, "0 s"},          {SS_V_SECONDS, 0.9994, "999 ms"},
        {SS_V_SECONDS, 0.9996, "1.00 s"},  {SS_V_SECONDS, 12345.6, "12,346 s"},
        {SS_V_SECONDS, 1.5e-6, "1.50 us"}, {SS_V_SECONDS, 3e-10, "0.300 ns"},
        {SS_V_SECONDS, -0.5, "-0.500 s"},  {SS_V_MEAN, 999.4, "999 B"},
        {SS_V_MEAN, 999.6, "1.00 kB"},     {SS_V_MEAN, 9994999, "9.99 MB"},
        {SS_V_MEAN, 9995001, "10.0 MB"},   {SS_V_MEAN, 2.5, "2.50 B"},
        {SS_V_SHARE, 1, "100 %"},          {SS_V_SHARE, 0.00781, "0.781 %"},
        {SS_V_SHARE, 1e-6, "0.000100 %"},  {SS_V_SHARE, 1e-12, "1.00e-10 %"},
        {SS_V_FACTOR, 1e20, "1.00e+20"},   {SS_V_FACTOR, NAN, "-"},
        {SS_V_FACTOR, 99.96, "100"},       {SS_V_FACTOR, 0.99999, "1.00"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct page page = {NULL, 0, 0};
        struct ss_emit emit;

        ss_emit_begin(&emit, SS_EMIT_TEXT, append, &page);
        ss_emit_kv(&emit, NULL, "", ss_v_number(cases[i].kind, cases[i].value));
        assert_int_equal(ss_emit_end(&emit), 0);
        page.text[page.len - 1] = '\0';
        assert_string_equal(page.text, cases[i].text);
        free(page.text);
    }
}

/* Sets a locale with another decimal point than ours, of one byte or several; false where none is
 * installed. */
static bool set_comma_locale(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ps_AF",
                                        "ps_AF.UTF-8", "de_DE",       "fr_FR"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (setlocale(LC_ALL, names[i]) && strcmp(localeconv()->decimal_point, ".") != 0)
            return true;
    setlocale(LC_ALL, "C");
    return false;
}

static void the_locale_of_the_application_does_not_matter(void **state)
{
    struct ss_report_job job = sample_job();
    struct page plain[2], local;
    struct ss_stats stats;

    (void)state;
    fill_sample(&stats);
    setlocale(LC_ALL, "C");
    plain[SS_EMIT_TEXT] = printed(&stats, &job, SS_EMIT_TEXT);
    plain[SS_EMIT_JSON] = printed(&stats, &job, SS_EMIT_JSON);
    assert_true(set_comma_locale());
    for (int form = SS_EMIT_TEXT; form <= SS_EMIT_JSON; form++) {
        local = printed(&stats, &job, (enum ss_emit_form)form);
        assert_string_equal(plain[form].text, local.text);
        free(plain[form].text);
        free(local.text);
    }
    assert_round_trip(&stats, &job);
    setlocale(LC_ALL, "C");
    ss_stats_free(&stats);
}

static int refuse(void *ctx, const char *text, size_t len)
{
    (void)text;
    (void)len;
    ++*(int *)ctx;
    return -7;
}

static void an_error_of_the_sink_comes_back_and_ends_the_writing(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    int calls = 0;

    (void)state;
    fill_sample(&stats);
    assert_int_equal(ss_report_write(&stats, &job, SS_EMIT_JSON, refuse, &calls), -7);
    assert_int_equal(calls, 1);
    ss_stats_free(&stats);
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
    job.observe = true;
    json = printed(&stats, &job, SS_EMIT_JSON);
    for (size_t len = 0; len < json.len - 1; len += 1 + len / 512) {
        char *cut = malloc(len > 0 ? len : 1); /* of this size, so that ASan sees a byte too far */
        struct cli_report report;
        char error[200];

        assert_non_null(cut);
        memcpy(cut, json.text, len);
        if (len < json.len - 2)
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

static void doubles_survive_a_decimal_comma(void **state)
{
    assert_true(set_comma_locale());
    doubles_are_read_back_to_the_last_bit(state);
    setlocale(LC_ALL, "C");
}

static int print_sample(const char *form)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page page;

    fill_observed(&stats);
    job.observe = true;
    job.program = "odd \"name\" \x01 \xff \xc3\xa9";
    stats.lanes->density_sum = NAN;
    page = printed(&stats, &job, strcmp(form, "json") == 0 ? SS_EMIT_JSON : SS_EMIT_TEXT);
    fputs(page.text, stdout);
    free(page.text);
    ss_stats_free(&stats);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_lines_say_whether_it_works_and_what_it_saved),
        cmocka_unit_test(every_part_of_the_report_is_in_the_text),
        cmocka_unit_test(no_line_of_the_text_ends_in_spaces),
        cmocka_unit_test(observe_says_what_to_try_and_what_not),
        cmocka_unit_test(advice_asks_for_ten_per_cent_and_forces_only_past_the_plan),
        cmocka_unit_test(a_forced_algorithm_is_named_in_the_settings_to_try),
        cmocka_unit_test(reading_back_and_printing_gives_the_same_text),
        cmocka_unit_test(an_empty_job_has_a_report),
        cmocka_unit_test(odd_names_neither_break_json_nor_reach_the_terminal),
        cmocka_unit_test(columns_stay_aligned_whatever_the_names),
        cmocka_unit_test(a_thousand_lanes_and_more_round_trip_in_order_of_bytes),
        cmocka_unit_test(huge_and_impossible_numbers_leave_the_report_valid),
        cmocka_unit_test(numbers_keep_three_digits_and_their_unit),
        cmocka_unit_test(an_error_of_the_sink_comes_back_and_ends_the_writing),
        cmocka_unit_test(what_is_no_report_is_refused_with_the_place),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(unknown_keys_and_other_spacing_are_read_over),
        cmocka_unit_test(every_cut_of_a_report_is_refused_within_its_bounds),
        cmocka_unit_test(doubles_are_read_back_to_the_last_bit),
    };

    const struct CMUnitTest local[] = {
        cmocka_unit_test(the_locale_of_the_application_does_not_matter),
        cmocka_unit_test(doubles_survive_a_decimal_comma),
    };

    if (argc > 1 && strcmp(argv[1], "locale") == 0)
        return set_comma_locale() ? cmocka_run_group_tests(local, NULL, NULL) : NO_LOCALE;
    if (argc > 1)
        return print_sample(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
