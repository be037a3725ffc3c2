/* The promises of core/report/emit.h and core/report/report.h.
 *
 * With an argument it serves tests/t/report_json.t: "json" and "text" print a sample report;
 * "locale" runs what needs a locale with a decimal comma, or ends with status 77 where none is
 * installed (this cmocka calls a skipped test not ok). */
#include "tests/unit/support/report_sample.h"

#include <math.h>

enum { NO_LOCALE = 77 };

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

static void every_part_of_the_report_is_in_the_full_text(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_sample(&stats);
    text = printed(&stats, &job, SS_EMIT_ALL);
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

static void a_report_of_a_running_job_says_that_it_has_not_ended(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page page;

    (void)state;
    fill_sample(&stats);
    page = printed(&stats, &job, SS_EMIT_TEXT);
    assert_lacks(&page, "had not ended");
    free(page.text);
    page = printed(&stats, &job, SS_EMIT_JSON);
    assert_contains(&page, "\"complete\": true");
    free(page.text);
    job.complete = false;
    page = printed(&stats, &job, SS_EMIT_TEXT);
    assert_contains(&page, "\n  state    the job had not ended: it was running, or was ended later "
                           "without MPI_Finalize\n");
    free(page.text);
    page = printed(&stats, &job, SS_EMIT_JSON);
    assert_contains(&page, "\"complete\": false");
    free(page.text);
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
        "MPI_Allreduce; comm.Allreduce, with arrays, does\n"
        "2 of 2 calls have fewer elements than MIN_COUNT=65536, and none of them a datatype "
        "and an operator that are served\n");
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
               "served have 500: a lower MIN_COUNT of 500 would take 2 of the 9 calls\n"
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
    atomic_store(&stats.passed[SS_WHY_UNMET], 4);
    atomic_store(&stats.passed[SS_WHY_CALLBACKS], 1);
    assert_why(&stats, &scene,
               "4 nonblocking calls passed through, since no eligible blocking call on their "
               "communicator came before: PROGRESS=watchdog or thread would take them over\n"
               "1 nonblocking calls passed through, since a rank has operators or attribute "
               "callbacks of its own, which must not run in a thread of the library\n");
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
        static const struct ss_emit_column line = {NULL, "", 0, 0, "a number"};
        struct page page = {NULL, 0, 0};
        struct ss_emit emit;

        ss_emit_begin(&emit, SS_EMIT_TEXT, append, &page);
        ss_emit_kv(&emit, &line, ss_v_number(cases[i].kind, cases[i].value));
        assert_int_equal(ss_emit_end(&emit), 0);
        page.text[page.len - 1] = '\0';
        assert_string_equal(page.text, cases[i].text);
        free(page.text);
    }
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

static void every_tensor_is_listed_with_its_place_and_its_fate(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text, json;

    (void)state;
    fill_sample(&stats);
    add_tensors(&stats);
    stats.tensors_unlisted = 7;
    text = printed(&stats, &job, SS_EMIT_ALL);
    json = printed(&stats, &job, SS_EMIT_JSON);
    assert_contains(&text,
                    "top-k    1 of 4 tensors registered, 2 exact, 1 still being watched; 990 "
                    "calls sent as top-k, 1.05 % of their elements; tensors not listed for "
                    "want of room: 7\n");
    assert_contains(
        &text, "     1  MPI_COMM_WORLD      4  train+0x12f3     reduce_layer           3  float   "
               "4,194,304  1,000\n");
    assert_contains(
        &text, "     4  rows                2  libtorch.so+0x1                         -  float   "
               "      100      2\n");
    assert_contains(
        &text,
        "     1  registered          990  1.00 %    1.05 %  0.152 %  6.25 %      12.5      2.50\n");
    assert_contains(&text, "     2  exact                 0       -         -  ");
    assert_contains(&text, "inputs are alike on all ranks, as in an average  "
                           "REGISTER=count=7850,site=train+0x1400\n");
    assert_contains(&text, "(no name)");
    assert_contains(&text, "(unknown)");
    assert_contains(&text, "first calls are being watched\n");
    assert_lacks(&text, " \n");
    assert_contains(&json, "\"symbol\": \"reduce_layer\", \"ordinal\": 3, ");
    assert_contains(&json, "\"site\": null, \"symbol\": null, \"ordinal\": 0, ");
    assert_contains(&json, "\"ordinal\": -1, ");
    assert_contains(&json, "\"state\": \"registered\", \"topk_calls\": 990, ");
    assert_contains(&json, "\"reason\": null, \"rule\": null, ");
    assert_contains(&json, "\"reason\": \"average\", \"rule\": \"count=7850,site=train+0x1400\"");
    free(text.text);
    free(json.text);
    ss_stats_free(&stats);
}

static void what_is_rarely_useful_is_in_the_full_text_alone(void **state)
{
    static const char *const rare[] = {
        "  tensor   the largest",         "MPI      MPICH", "1-(1-d)^P", "off k",
        "Tensors, what was seen of them", "ordinal"};
    struct ss_report_job job = sample_job();
    struct page text, all;
    struct ss_stats stats;

    (void)state;
    fill_sample(&stats);
    add_tensors(&stats);
    text = printed(&stats, &job, SS_EMIT_TEXT);
    all = printed(&stats, &job, SS_EMIT_ALL);
    for (size_t i = 0; i < sizeof rare / sizeof *rare; i++) {
        assert_lacks(&text, rare[i]);
        assert_contains(&all, rare[i]);
    }
    assert_contains(&text,
                    "     1  registered          990  1.00 %    1.05 %      12.5      2.50\n");
    assert_contains(&all, "     1        8  0.250  ");
    assert_lacks(&text, " \n");
    assert_lacks(&all, " \n");
    free(text.text);
    free(all.text);
    ss_stats_free(&stats);
}

static void assert_told(const struct ss_emit_group *group, const struct ss_emit_column *column)
{
    const char *name = column->key ? column->key : column->title;
    size_t length = column->legend ? strlen(column->legend) : 0;

    if (!name)
        fail_msg("a column of \"%s\" has no name", group->title);
    if (length < 2 || column->legend[length - 1] == '.')
        fail_msg("%s of \"%s\" has no legend, or one with a full stop", name, group->title);
    for (const struct ss_emit_column *other = group->columns; other < column; other++)
        assert_true(!column->key || !other->key || strcmp(column->key, other->key) != 0);
}

static void every_column_and_key_has_a_legend(void **state)
{
    const struct ss_emit_group *const *groups;
    size_t n = ss_report_legend(&groups);

    (void)state;
    assert_true(n > 10);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(groups[i]->title);
        assert_true(groups[i]->n > 0);
        for (size_t c = 0; c < groups[i]->n; c++)
            assert_told(groups[i], &groups[i]->columns[c]);
    }
}

static void without_tensors_the_report_is_silent_on_them(void **state)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page text;

    (void)state;
    fill_sample(&stats);
    text = printed(&stats, &job, SS_EMIT_TEXT);
    assert_lacks(&text, "top-k");
    assert_lacks(&text, "Tensors");
    free(text.text);
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
    assert_int_equal(ss_report_write(&stats, &job, SS_EMIT_JSON, refuse, &calls), -7);
    assert_int_equal(calls, 1);
    ss_stats_free(&stats);
}

static int print_sample(const char *form)
{
    struct ss_report_job job = sample_job();
    struct ss_stats stats;
    struct page page;

    fill_observed(&stats);
    add_tensors(&stats);
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
        cmocka_unit_test(every_part_of_the_report_is_in_the_full_text),
        cmocka_unit_test(what_is_rarely_useful_is_in_the_full_text_alone),
        cmocka_unit_test(every_column_and_key_has_a_legend),
        cmocka_unit_test(a_report_of_a_running_job_says_that_it_has_not_ended),
        cmocka_unit_test(a_job_without_eligible_calls_is_told_why),
        cmocka_unit_test(nonblocking_calls_that_pass_are_told_what_would_take_them_over),
        cmocka_unit_test(no_line_of_the_text_ends_in_spaces),
        cmocka_unit_test(an_empty_job_has_a_report),
        cmocka_unit_test(odd_names_neither_break_json_nor_reach_the_terminal),
        cmocka_unit_test(columns_stay_aligned_whatever_the_names),
        cmocka_unit_test(numbers_keep_three_digits_and_their_unit),
        cmocka_unit_test(every_tensor_is_listed_with_its_place_and_its_fate),
        cmocka_unit_test(without_tensors_the_report_is_silent_on_them),
        cmocka_unit_test(tensors_of_one_owner_are_booked_anew_and_the_others_stay_in_order),
        cmocka_unit_test(an_error_of_the_sink_comes_back_and_ends_the_writing),
    };
    const struct CMUnitTest local[] = {
        cmocka_unit_test(the_locale_of_the_application_does_not_matter),
    };

    if (argc > 1 && strcmp(argv[1], "locale") == 0)
        return set_comma_locale() ? cmocka_run_group_tests(local, NULL, NULL) : NO_LOCALE;
    if (argc > 1)
        return print_sample(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
