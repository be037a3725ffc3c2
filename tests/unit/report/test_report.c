/* The promises of core/report/json.h, words.h and report.h.
 *
 * With an argument the program serves tests/t/report_json.t: "json" prints a sample report, "empty"
 * that of a job without calls. "locale" runs the tests that need a locale with a decimal comma, or
 * ends with status 77 if none is installed (this cmocka calls a skipped test not ok). */
#include "tests/unit/support/report_sample.h"

#include <math.h>

#include "core/report/words.h"

enum { NO_LOCALE = 77 };

static size_t lines_of(const struct page *text)
{
    size_t lines = 0;

    for (const char *p = text->text; *p; p++)
        lines += *p == '\n';
    return lines;
}

static void the_summary_says_whether_it_works_and_what_it_saved(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_sample(&stats);
    job.kept = "/tmp/reports";
    job.min_count = 65536;
    stats.small_largest = 400;
    text = as_text(&stats, &job);
    assert_string_equal(
        text.text,
        "sparseshim 0.1.0: langid, rank 0 of 4 on node1, started 2026-11-20 19:12:03 UTC, ran 60.0 "
        "s\n"
        "  calls    1,010 seen: 999 made sparse, 11 passed through, 0 errors\n"
        "  bytes    255 MB sent instead of 25.2 GB: 98.8 times fewer\n"
        "  passed   dense is faster: 5; count below MIN_COUNT=65536 (largest 400): 4; first "
        "call on its communicator: 2\n"
        "  time     15.0 s in allreduce, f = 25.0 % of the job, which without it is at most 1.33 "
        "times faster\n"
        "  note     nonblocking calls were passed through: no MPI_THREAD_MULTIPLE\n"
        "  sparse   4,194,304 float sum: split_allgather 990, ring 9 of 1,000 calls; 100 times "
        "fewer bytes\n"
        "  more     sparseshim report /tmp/reports\n");
    free(text.text);
    job.kept = NULL;
    text = as_text(&stats, &job);
    assert_contains(&text, "  more     SPARSESHIM_REPORT_DIR=DIR keeps ");
    free(text.text);
    ss_stats_free(&stats);
}

/* With several ranks per host, what counts is what leaves the host. */
static void bytes_inside_the_host_are_told_apart(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text, json;

    (void)state;
    fill_sample(&stats);
    json = as_json(&stats, &job);
    assert_contains(&json, "\"bytes_sent_inside\": 0,");
    assert_contains(&json, "\"ratio_between\": null,");
    free(json.text);
    for (struct ss_lane_record *r = stats.lanes; r; r = r->next) {
        r->dense_inside = r->bytes_dense / 4 * 3;
        r->sent_inside = r->bytes_sent / 2;
    }
    text = as_text(&stats, &job);
    assert_contains(&text, "\n  bytes    127 MB sent to other hosts, 50.0 % of all that it sent, "
                           "instead of 6.29 GB: 49.4 times fewer\n");
    assert_contains(&text, " of 1,000 calls; 50.0 times fewer bytes to other hosts\n");
    free(text.text);
    json = as_json(&stats, &job);
    assert_contains(&json, "\"bytes_dense_inside\": 18876727296,");
    assert_contains(&json, "\"bytes_sent_inside\": 127401984,");
    assert_contains(&json, "\"ratio_between\": 50");
    free(json.text);
    job.observe = true;
    text = as_text(&stats, &job);
    assert_contains(&text, "127 MB sent to other hosts, 50.0 % of all that it sent, votes "
                           "included, where dense calls alone send 6.29 GB (");
    free(text.text);
    job.observe = false;
    for (struct ss_lane_record *r = stats.lanes; r; r = r->next)
        r->sent_inside = r->bytes_sent;
    text = as_text(&stats, &job);
    assert_contains(&text,
                    "\n  bytes    255 MB sent, none of it to other hosts: other ranks of this "
                    "host send there\n");
    assert_contains(&text, " of 1,000 calls; no bytes to other hosts\n");
    free(text.text);
    for (struct ss_lane_record *r = stats.lanes; r; r = r->next)
        r->dense_inside = r->bytes_dense;
    text = as_text(&stats, &job);
    assert_contains(&text, "255 MB sent instead of 25.2 GB: 98.8 times fewer; all inside one "
                           "host\n");
    assert_lacks(&text, "other hosts");
    free(text.text);
    ss_stats_free(&stats);
}

static void more_bytes_are_called_more(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_sample(&stats);
    for (struct ss_lane_record *r = stats.lanes; r; r = r->next)
        r->bytes_sent = 4 * r->bytes_dense;
    text = as_text(&stats, &job);
    assert_contains(&text, "\n  bytes    101 GB sent instead of 25.2 GB: 4.00 times more\n");
    assert_contains(&text, " of 1,000 calls; 4.00 times more bytes\n");
    assert_lacks(&text, "fewer");
    free(text.text);
    for (struct ss_lane_record *r = stats.lanes; r; r = r->next)
        r->bytes_sent = r->bytes_dense + r->bytes_dense / 1000;
    text = as_text(&stats, &job);
    assert_contains(&text, "instead of 25.2 GB: nothing saved\n");
    free(text.text);
    ss_stats_free(&stats);
}

/* Calls of two threads at once may add up to more than the job. */
static void a_share_is_never_above_one(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text, json;

    (void)state;
    fill_sample(&stats);
    stats.allreduce_seconds = 1.37 * (stats.end - stats.start);
    text = as_text(&stats, &job);
    assert_contains(&text, "\n  time     82.2 s in allreduce, added up over threads that call at "
                           "once: more than the job took, so that f is not known\n");
    free(text.text);
    json = as_json(&stats, &job);
    assert_contains(&json, "\"share_allreduce\": null,");
    assert_contains(&json, "\"amdahl_cap\": null,");
    free(json.text);
    ss_stats_free(&stats);
}

static void the_summary_has_at_most_fifteen_lines(void **state)
{
    static const char *const notes[] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_sample(&stats);
    add_tensors(&stats);
    job.complete = false;
    job.observe = true;
    job.notes = notes;
    job.note_count = sizeof notes / sizeof *notes;
    stats.merged = (struct ss_merged_record){.on = true, .votes = 1, .groups = 2};
    stats.rounds.sum.rounds = 1;
    text = as_text(&stats, &job);
    assert_int_equal(lines_of(&text), SS_SUMMARY_LINES);
    assert_contains(&text, "\n  more     ");
    free(text.text);
    ss_stats_free(&stats);
}

static void a_report_of_a_running_job_says_that_it_has_not_ended(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;

    (void)state;
    fill_sample(&stats);
    for (int ended = 0; ended < 2; ended++) {
        job.complete = ended;
        struct page text = as_text(&stats, &job), json = as_json(&stats, &job);
        assert_contains(&json, ended ? "\"complete\": true" : "\"complete\": false");
        if (ended)
            assert_lacks(&text, "had not ended");
        else
            assert_contains(&text, "\n  state    the job had not ended: it was running, or was "
                                   "ended later without MPI_Finalize\n");
        free(text.text);
        free(json.text);
    }
    ss_stats_free(&stats);
}

/* The sentences in turn, one per line. */
static void assert_why(struct ss_stats *stats, const struct ss_report_scene *scene,
                       const char *expected)
{
    ss_report_sentence sentences[SS_REPORT_SENTENCES];
    size_t n = ss_report_why(stats, scene, sentences, SS_REPORT_SENTENCES);
    char text[SS_REPORT_SENTENCES * (sizeof(ss_report_sentence) + 1)] = "";

    for (size_t i = 0; i < n; i++) {
        strcat(text, sentences[i]);
        strcat(text, "\n");
    }
    assert_string_equal(text, expected);
}

static void a_job_without_eligible_calls_is_told_why(void **state)
{
    struct ss_report_scene scene = {.min_count = 65536, .ranks = 4};
    struct ss_stats stats;

    (void)state;
    ss_stats_init(&stats, 0);
    assert_why(
        &stats, &scene,
        "no call was eligible\nno MPI_Allreduce or other collective that is served was seen; "
        "`sparseshim check PROGRAM` says what a program calls\n");
    scene.python = true;
    scene.before = "libother.so";
    atomic_store(&stats.seen, 2);
    atomic_store(&stats.passed[SS_WHY_SMALL], 2);
    assert_why(
        &stats, &scene,
        "no call was eligible\nno MPI_Allreduce was seen, only 2 other collective calls\n"
        "libother.so defines MPI_Allreduce as well and comes before libsparseshim.so: preload "
        "libsparseshim.so in front of it\n"
        "lower-case mpi4py calls such as comm.allreduce send pickled objects and never call "
        "MPI_Allreduce; comm.Allreduce, with arrays, does; PyTorch with gloo or nccl makes no MPI "
        "call: see sparseshim(7), PyTorch\n"
        "2 of 2 calls have fewer elements than MIN_COUNT=65536, and a lower one would make none of "
        "them eligible: their datatype, operator, buffer or communicator is not served, or they "
        "are "
        "nonblocking and not taken over\n");
    atomic_store(&stats.seen, 9);
    atomic_store(&stats.allreduces, 9);
    atomic_store(&stats.passed[SS_WHY_SMALL], 6);
    atomic_store(&stats.passed[SS_WHY_TYPE], 3);
    ss_stats_small(&stats, 10, 40, 1e-6);
    ss_stats_small(&stats, 500, 2000, 2e-6);
    ss_stats_small(&stats, 500, 2000, 2e-6);
    ss_stats_small(&stats, 499, 1996, 2e-6);
    assert_why(&stats, &scene,
               "no call was eligible\n"
               "6 of 9 calls have fewer elements than MIN_COUNT=65536; the largest that could be "
               "served have 500: MIN_COUNT=500 would make the 2 calls of that size eligible\n"
               "3 of 9 calls have a datatype or operator that is not served (served are float, "
               "double, integers of 4 and 8 bytes, MPI_SUM)\n");
    atomic_store(&stats.seen, 10); /* one was eligible */
    assert_why(&stats, &scene, "");
    ss_stats_free(&stats);
}

static void nonblocking_calls_that_pass_are_told_what_would_take_them_over(void **state)
{
    struct ss_report_scene scene = {.min_count = 65536, .ranks = 4};
    struct ss_stats stats;

    (void)state;
    ss_stats_init(&stats, 0);
    atomic_store(&stats.seen, 10);
    atomic_store(&stats.allreduces, 10);
    atomic_store(&stats.sparse, 2);
    atomic_store(&stats.passed[SS_WHY_NONBLOCKING], 3);
    assert_why(&stats, &scene,
               "3 nonblocking calls passed through, since a rank does not run at "
               "MPI_THREAD_MULTIPLE or PROGRESS is off: PROGRESS=watchdog or thread would raise "
               "the program to that level and take over those that are eligible\n");
    atomic_store(&stats.passed[SS_WHY_NONBLOCKING], 0);
    atomic_store(&stats.passed[SS_WHY_BEFORE_BLOCKING], 4);
    atomic_store(&stats.passed[SS_WHY_CALLBACKS], 1);
    assert_why(&stats, &scene,
               "4 nonblocking calls passed through, since no eligible blocking call on their "
               "communicator came before: PROGRESS=watchdog or thread would take them over\n"
               "1 nonblocking calls passed through, since a rank has operators or attribute "
               "callbacks of its own, which must not run in a thread of the library\n");
    ss_stats_free(&stats);
}

static void an_empty_job_has_a_report(void **state)
{
    struct ss_report_job job = {.rank = -1};
    struct ss_stats stats;
    struct page text;

    (void)state;
    ss_stats_init(&stats, 0);
    text = as_text(&stats, &job);
    assert_contains(&text, "calls    0 seen: 0 made sparse, 0 passed through, 0 errors\n");
    assert_contains(&text, "bytes    none: no call could be made sparse\n");
    assert_contains(&text, "time     the calls were not timed as a whole\n");
    assert_lacks(&text, "sparse   ");
    assert_lacks(&text, "top-k");
    free(text.text);
    ss_stats_free(&stats);
}

static void odd_names_neither_break_json_nor_reach_the_terminal(void **state)
{
    static const struct ss_report_option options[] = {{"A\"B", "\\ \x01 \x1b[2J"}, {NULL, NULL}};
    static const char *const notes[] = {"\xc3\xa9t\xc3\xa9 \xf0\x9f\x98\x80", "\xff\xfe"};
    struct ss_report_job job = {
        .program = "a\"b\\c\nd\te\x7f",
        .hostname = "h\xc2\x9b", /* CSI, which some terminals obey */
        .version = "\xed\xa0\x80 \xe0\x80\x80 \xf4\x90\x80\x80 \xc0\xaf \xe2\x82",
        .mpi_library = "x\t\"y\"\x1b\rz",
        .options = options,
        .option_count = 2,
        .notes = notes,
        .note_count = 2,
    };
    struct ss_lane_record *lane;
    struct ss_stats stats;
    struct page text, json;
    char name[80];

    (void)state;
    memset(name, 0xc3, sizeof name - 1); /* no UTF-8, and cut in the record */
    name[sizeof name - 1] = '\0';
    ss_stats_init(&stats, 0);
    lane = ss_stats_lane(&stats, SS_KIND_ALLREDUCE, name, 3, 5, SS_I64, SS_LXOR);
    lane->bytes_dense = 5;
    ss_stats_lane(&stats, SS_KIND_ALLREDUCE, "caf\xc3\xa9 \"x\"", 3, 5, SS_I32, SS_BOR)
        ->bytes_dense = 4;
    text = as_text(&stats, &job);
    json = as_json(&stats, &job);
    for (size_t i = 0; i < text.len; i++)
        assert_true((unsigned char)text.text[i] >= 0x20 ? text.text[i] != 0x7f
                                                        : text.text[i] == '\n');
    assert_lacks(&text, "\xc2\x9b");
    assert_contains(&text, "a\"b\\c\\u000ad\\u0009e\\u007f, rank 0 on h\\u009b");
    assert_contains(&text, "??? ??? ???? ?? ??: ");
    assert_contains(&text, "\xc3\xa9t\xc3\xa9 \xf0\x9f\x98\x80\n");
    assert_contains(&json, "\"program\": \"a\\\"b\\\\c\\u000ad\\u0009e\\u007f\"");
    assert_contains(&json, "\\u001b[2J");
    free(text.text);
    free(json.text);
    ss_stats_free(&stats);
}

static void numbers_keep_three_digits_and_their_unit(void **state)
{
    static const struct {
        const char *(*word)(char *word, double value);
        double value;
        const char *text;
    } cases[] = {
        {ss_word_seconds, 0, "0 s"},          {ss_word_seconds, 0.9994, "999 ms"},
        {ss_word_seconds, 0.9996, "1.00 s"},  {ss_word_seconds, 12345.6, "12,346 s"},
        {ss_word_seconds, 1.5e-6, "1.50 us"}, {ss_word_seconds, 3e-10, "0.300 ns"},
        {ss_word_seconds, -0.5, "-0.500 s"},  {ss_word_bytes, 999.4, "999 B"},
        {ss_word_bytes, 999.6, "1.00 kB"},    {ss_word_bytes, 9994999, "9.99 MB"},
        {ss_word_bytes, 9995001, "10.0 MB"},  {ss_word_bytes, 2.5, "2.50 B"},
        {ss_word_share, 1, "100 %"},          {ss_word_share, 0.00781, "0.781 %"},
        {ss_word_share, 1e-6, "0.000100 %"},  {ss_word_share, 1e-12, "1.00e-10 %"},
        {ss_word_factor, 1e20, "1.00e+20"},   {ss_word_factor, NAN, "-"},
        {ss_word_factor, 99.96, "100"},       {ss_word_factor, 0.99999, "1.00"},
        {ss_word_bytes, INFINITY, "-"},       {ss_word_bytes, 0, "0 B"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char word[SS_WORD];

        assert_string_equal(cases[i].word(word, cases[i].value), cases[i].text);
    }
    assert_string_equal(SS_COUNT(4194304), "4,194,304");
}

static void the_locale_of_the_application_does_not_matter(void **state)
{
    struct ss_report_job job = sample_job();
    struct page text, json, local_text, local_json;
    struct ss_stats stats;

    (void)state;
    fill_sample(&stats);
    setlocale(LC_ALL, "C");
    text = as_text(&stats, &job);
    json = as_json(&stats, &job);
    assert_true(set_comma_locale());
    local_text = as_text(&stats, &job);
    local_json = as_json(&stats, &job);
    setlocale(LC_ALL, "C");
    assert_string_equal(text.text, local_text.text);
    assert_string_equal(json.text, local_json.text);
    free(text.text);
    free(json.text);
    free(local_text.text);
    free(local_json.text);
    ss_stats_free(&stats);
}

static void every_tensor_is_in_json_with_its_place_and_its_fate(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text, json;

    (void)state;
    fill_sample(&stats);
    add_tensors(&stats);
    stats.tensors_unlisted = 7;
    text = as_text(&stats, &job);
    json = as_json(&stats, &job);
    assert_contains(
        &text, "lossy    1 of 4 tensors registered, 2 exact, 1 whose position is not known; 990 "
               "calls sent as top-k, 1.05 % of their elements; tensors not listed for "
               "want of room: 7\n");
    assert_contains(&json, "\"symbol\": \"reduce_layer\", \"ordinal\": 3, ");
    assert_contains(&json, "\"site\": null, \"symbol\": null, \"ordinal\": 0, ");
    assert_contains(&json, "\"state\": \"registered\", \"topk_calls\": 990, ");
    assert_contains(&json, "\"reason\": null, \"because\": null, \"rule\": null, ");
    assert_contains(&json, "\"rule\": \"count=7850,site=train+0x1400\"");
    free(text.text);
    free(json.text);
    ss_stats_free(&stats);
}

static void tensors_of_one_owner_are_booked_anew_and_the_others_stay_in_order(void **state)
{
    struct ss_stats stats;
    int one, two;

    (void)state;
    ss_stats_init(&stats, 0);
    for (int i = 0; i < 6; i++)
        add_tensor(&stats,
                   &(struct ss_tensor_record){.owner = i % 2 ? &one : &two, .count = (uint64_t)i});
    ss_stats_forget_tensors(&stats, &one);
    assert_int_equal(stats.tensor_count, 3);
    assert_int_equal(stats.last_tensor->count, 4);
    add_tensor(&stats, &(struct ss_tensor_record){.owner = &one, .count = 9});
    assert_int_equal(stats.tensors->count, 0);
    assert_int_equal(stats.tensors->next->count, 2);
    assert_int_equal(stats.tensors->next->next->count, 4);
    assert_int_equal(stats.tensors->next->next->next->count, 9);
    ss_stats_forget_tensors(&stats, &two);
    ss_stats_forget_tensors(&stats, &one);
    assert_null(stats.tensors);
    assert_null(stats.last_tensor);
    for (int i = 0; i < 5000; i++)
        ss_stats_tensor(&stats, NULL);
    assert_int_equal(stats.tensor_count, 4000);
    assert_int_equal(stats.tensors_unlisted, 1000);
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
    assert_int_equal(ss_report_write_json(&stats, &job, refuse, &calls), -7);
    assert_int_equal(calls, 1);
    assert_int_equal(ss_report_write_text(&stats, &job, refuse, &calls), -7);
    assert_int_equal(calls, 2);
    ss_stats_free(&stats);
}

static int print_sample(bool empty)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page page;

    if (empty) {
        ss_stats_init(&stats, 0);
    } else {
        fill_observed(&stats);
        add_tensors(&stats);
        stats.lanes->density_sum = NAN;
    }
    job.observe = true;
    job.program = "odd \"name\" \x01 \xff \xc3\xa9";
    page = as_json(&stats, &job);
    fputs(page.text, stdout);
    free(page.text);
    ss_stats_free(&stats);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_summary_says_whether_it_works_and_what_it_saved),
        cmocka_unit_test(bytes_inside_the_host_are_told_apart),
        cmocka_unit_test(more_bytes_are_called_more),
        cmocka_unit_test(a_share_is_never_above_one),
        cmocka_unit_test(the_summary_has_at_most_fifteen_lines),
        cmocka_unit_test(a_report_of_a_running_job_says_that_it_has_not_ended),
        cmocka_unit_test(a_job_without_eligible_calls_is_told_why),
        cmocka_unit_test(nonblocking_calls_that_pass_are_told_what_would_take_them_over),
        cmocka_unit_test(an_empty_job_has_a_report),
        cmocka_unit_test(odd_names_neither_break_json_nor_reach_the_terminal),
        cmocka_unit_test(numbers_keep_three_digits_and_their_unit),
        cmocka_unit_test(every_tensor_is_in_json_with_its_place_and_its_fate),
        cmocka_unit_test(tensors_of_one_owner_are_booked_anew_and_the_others_stay_in_order),
        cmocka_unit_test(an_error_of_the_sink_comes_back_and_ends_the_writing),
    };
    const struct CMUnitTest local[] = {
        cmocka_unit_test(the_locale_of_the_application_does_not_matter),
    };

    if (argc > 1 && strcmp(argv[1], "locale") == 0)
        return set_comma_locale() ? cmocka_run_group_tests(local, NULL, NULL) : NO_LOCALE;
    if (argc > 1)
        return print_sample(strcmp(argv[1], "empty") == 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
