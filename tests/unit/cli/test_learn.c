/* The promises of shim/cli/learn_rules.h: a rule takes what looked like a gradient, and nothing
 * that was refused on any rank. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "core/report/tensor_record.h"
#include "shim/cli/learn_rules.h"

enum { RANKS = 2 };

struct job {
    struct cli_report report[RANKS];
    struct cli_learned learned;
};

static void begin(struct job *job)
{
    memset(job, 0, sizeof *job);
    for (int r = 0; r < RANKS; r++)
        ss_stats_init(&job->report[r].stats, 0);
}

static void end(struct job *job)
{
    cli_learned_free(&job->learned);
    for (int r = 0; r < RANKS; r++)
        ss_stats_free(&job->report[r].stats);
}

static const struct ss_tensor_record gradient = {.comm = "world",
                                                 .size = RANKS,
                                                 .site = "train+0x10",
                                                 .symbol = "backward",
                                                 .type = SS_F32,
                                                 .count = 1000,
                                                 .calls = 50,
                                                 .state = SS_TENSOR_EXACT,
                                                 .reason = SS_TENSOR_OFFERED};

static const struct ss_tensor_record refused = {.comm = "world",
                                                .size = RANKS,
                                                .site = "train+0x20",
                                                .symbol = "average",
                                                .type = SS_F32,
                                                .count = 1000,
                                                .calls = 50,
                                                .state = SS_TENSOR_EXACT,
                                                .reason = SS_TENSOR_AVERAGE};

static void add(struct job *job, int rank, struct ss_tensor_record tensor)
{
    assert_non_null(ss_stats_tensor(&job->report[rank].stats, &tensor));
}

static void add_all(struct job *job, struct ss_tensor_record tensor)
{
    for (int r = 0; r < RANKS; r++)
        add(job, r, tensor);
}

static void learn(struct job *job)
{
    const struct cli_reports reports = {job->report, RANKS};

    assert_int_equal(cli_learn(&reports, &job->learned), SS_OK);
}

static void assert_one_rule(struct job *job, const char *rule)
{
    learn(job);
    assert_int_equal(job->learned.rules, 1);
    assert_string_equal(job->learned.rule[0], rule);
    assert_int_equal(job->learned.left_out, 0);
    end(job);
}

static void assert_no_rule(struct job *job)
{
    learn(job);
    assert_int_equal(job->learned.rules, 0);
    assert_true(job->learned.left_out > 0);
    end(job);
}

static void a_count_of_its_own_is_all_a_rule_needs(void **state)
{
    (void)state;
    struct job job;
    struct ss_tensor_record other = refused, ordinal = gradient;

    begin(&job);
    other.count = 1001;
    ordinal.ordinal = 1;
    add_all(&job, gradient);
    add_all(&job, ordinal);
    add_all(&job, other);
    assert_one_rule(&job, "count=1000");
}

static void a_refused_tensor_of_another_type_is_told_by_its_type(void **state)
{
    (void)state;
    struct job job;
    struct ss_tensor_record other = refused;

    begin(&job);
    other.type = SS_F64;
    other.reason = SS_TENSOR_DOUBLE;
    add_all(&job, gradient);
    add_all(&job, other);
    assert_one_rule(&job, "count=1000,type=float");
}

static void integers_of_the_same_count_do_not_matter(void **state)
{
    (void)state;
    struct job job;
    struct ss_tensor_record other = refused;

    begin(&job);
    other.type = SS_I32;
    other.reason = SS_TENSOR_TYPE;
    add_all(&job, gradient);
    add_all(&job, other);
    assert_one_rule(&job, "count=1000");
}

static void a_communicator_tells_before_a_site(void **state)
{
    (void)state;
    struct job job;
    struct ss_tensor_record other = refused;

    begin(&job);
    snprintf(other.comm, sizeof other.comm, "tensor parallel");
    add_all(&job, gradient);
    add_all(&job, other);
    assert_one_rule(&job, "count=1000,comm=world");
}

static void a_function_tells_before_an_offset(void **state)
{
    (void)state;
    struct job job;

    begin(&job);
    add_all(&job, gradient);
    add_all(&job, refused);
    assert_one_rule(&job, "count=1000,site=backward");
}

static void an_offset_tells_where_functions_do_not(void **state)
{
    (void)state;
    struct job job;
    struct ss_tensor_record same = refused, none = gradient;

    begin(&job);
    snprintf(same.symbol, sizeof same.symbol, "%s", gradient.symbol);
    add_all(&job, gradient);
    add_all(&job, same);
    assert_one_rule(&job, "count=1000,site=train+0x10");

    begin(&job);
    none.symbol[0] = '\0';
    add_all(&job, none);
    add_all(&job, refused);
    assert_one_rule(&job, "count=1000,site=train+0x10");
}

static void names_that_hold_what_ends_a_rule_are_matched_by_a_pattern(void **state)
{
    (void)state;
    struct job job;
    struct ss_tensor_record odd = gradient, longest = gradient;

    begin(&job);
    snprintf(odd.symbol, sizeof odd.symbol, "f(a, b; c:d)");
    add_all(&job, odd);
    add_all(&job, refused);
    assert_one_rule(&job, "count=1000,site=f(a??b??c?d)");

    begin(&job);
    memset(longest.symbol, 'x', sizeof longest.symbol - 1); /* what is longer is cut */
    add_all(&job, longest);
    add_all(&job, refused);
    learn(&job);
    assert_int_equal(job.learned.rules, 1);
    assert_string_equal(strchr(job.learned.rule[0], 'x') + sizeof longest.symbol - 1, "*");
    end(&job);
}

static void what_comes_from_the_same_place_as_something_refused_stays_exact(void **state)
{
    (void)state;
    struct job job;
    struct ss_tensor_record same = gradient;

    begin(&job);
    same.ordinal = 1;
    same.reason = SS_TENSOR_CONSTANT;
    add_all(&job, gradient);
    add_all(&job, same);
    assert_no_rule(&job);
}

static void what_one_rank_alone_has_refused_counts(void **state)
{
    (void)state;
    struct job job;

    begin(&job);
    add_all(&job, gradient);
    add(&job, 1, refused);
    assert_one_rule(&job, "count=1000,site=backward");
}

static void a_rule_that_would_not_match_on_every_rank_is_not_written(void **state)
{
    (void)state;
    struct job job;
    struct ss_tensor_record elsewhere = gradient;

    begin(&job);
    snprintf(elsewhere.site, sizeof elsewhere.site, "other+0x30");
    snprintf(elsewhere.symbol, sizeof elsewhere.symbol, "other_backward");
    add(&job, 0, gradient);
    add(&job, 1, elsewhere);
    assert_one_rule(&job, "count=1000");

    begin(&job);
    add(&job, 0, gradient);
    add(&job, 1, elsewhere);
    add_all(&job, refused);
    assert_no_rule(&job);
}

static void what_is_undecided_objects_unless_gradients_come_from_there(void **state)
{
    (void)state;
    struct job job;
    struct ss_tensor_record undecided = gradient;

    begin(&job);
    undecided.state = SS_TENSOR_CANDIDATE;
    undecided.reason = SS_TENSOR_WATCHED;
    undecided.ordinal = 1;
    add_all(&job, gradient);
    add_all(&job, undecided);
    assert_one_rule(&job, "count=1000");

    begin(&job);
    snprintf(undecided.site, sizeof undecided.site, "train+0x50");
    snprintf(undecided.symbol, sizeof undecided.symbol, "initial");
    add_all(&job, gradient);
    add_all(&job, undecided);
    assert_one_rule(&job, "count=1000,site=backward");
}

static void many_gradients_get_a_rule_each(void **state)
{
    (void)state;
    struct job job;
    struct ss_tensor_record t = gradient;

    begin(&job);
    for (t.count = 1000; t.count < 1096; t.count++)
        add_all(&job, t);
    learn(&job);
    assert_int_equal(job.learned.rules, 96);
    t.count = 1050;
    assert_true(cli_learned_takes(&job.learned, &t));
    t.count = 1096;
    assert_false(cli_learned_takes(&job.learned, &t));
    end(&job);
}

static void counts_that_a_line_cannot_hold_become_ranges(void **state)
{
    (void)state;
    struct job job;
    struct ss_tensor_record t = gradient, other = refused;

    begin(&job);
    for (t.count = 1000; t.count < 3000; t.count += 2)
        add_all(&job, t);
    other.count = 2001;
    add_all(&job, other);
    other.count = 2500;
    add_all(&job, other);
    learn(&job);
    assert_int_equal(job.learned.rules, 4); /* and one by function at 2500 */
    assert_string_equal(job.learned.rule[0], "count=1000:2000");
    assert_string_equal(job.learned.rule[1], "count=2002:2498");
    assert_string_equal(job.learned.rule[2], "count=2502:2998");
    assert_string_equal(job.learned.rule[3], "count=2500,site=backward");
    end(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_count_of_its_own_is_all_a_rule_needs),
        cmocka_unit_test(a_refused_tensor_of_another_type_is_told_by_its_type),
        cmocka_unit_test(integers_of_the_same_count_do_not_matter),
        cmocka_unit_test(a_communicator_tells_before_a_site),
        cmocka_unit_test(a_function_tells_before_an_offset),
        cmocka_unit_test(an_offset_tells_where_functions_do_not),
        cmocka_unit_test(names_that_hold_what_ends_a_rule_are_matched_by_a_pattern),
        cmocka_unit_test(what_comes_from_the_same_place_as_something_refused_stays_exact),
        cmocka_unit_test(what_one_rank_alone_has_refused_counts),
        cmocka_unit_test(a_rule_that_would_not_match_on_every_rank_is_not_written),
        cmocka_unit_test(what_is_undecided_objects_unless_gradients_come_from_there),
        cmocka_unit_test(many_gradients_get_a_rule_each),
        cmocka_unit_test(counts_that_a_line_cannot_hold_become_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
