/* The promises of the table in core/feedback/topk_state.c, for every order of events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/feedback/feedback.h"

enum { STATES = SS_TOPK_SENT + 1, EVENTS = SS_ON_LEAVE + 1 };

static bool are_out(int state)
{
    return state == SS_TOPK_CLAIMED || state == SS_TOPK_SENDS;
}

static void claims_that_are_out_are_committed_once_or_return(void **cmocka)
{
    (void)cmocka;
    for (int from = 0; from < STATES; from++)
        for (int e = 0; e < EVENTS; e++) {
            enum ss_topk_state to = (enum ss_topk_state)from;
            const bool moved = ss_topk_move(&to, (enum ss_topk_event)e);
            assert_int_equal(moved, (int)to != from);
            assert_int_equal(are_out(to) && !are_out(from), moved && e == SS_ON_CLAIMED);
            assert_int_equal(are_out(from) && !are_out(to),
                             moved && (e == SS_ON_COMMIT || e == SS_ON_RETURN));
            assert_false(moved && from == SS_TOPK_SENT);
        }
}

static void nothing_joins_while_claims_are_out(void **cmocka)
{
    (void)cmocka;
    for (int from = 0; from < STATES; from++) {
        enum ss_topk_state to = (enum ss_topk_state)from;
        if (ss_topk_move(&to, SS_ON_JOIN))
            assert_false(are_out(from) || from == SS_TOPK_SENT);
    }
}

static void claims_are_committed_after_a_vote_alone(void **cmocka)
{
    (void)cmocka;
    for (int e = 0; e < EVENTS; e++) {
        enum ss_topk_state to = SS_TOPK_CLAIMED;
        ss_topk_move(&to, (enum ss_topk_event)e);
        assert_int_not_equal(to, SS_TOPK_SENT);
    }
}

/* Marks the states that events lead to from `state`. */
static void visit(enum ss_topk_state state, bool *seen)
{
    if (seen[state])
        return;
    seen[state] = true;
    for (int e = 0; e < EVENTS; e++) {
        enum ss_topk_state to = state;
        if (ss_topk_move(&to, (enum ss_topk_event)e))
            visit(to, seen);
    }
}

static void a_call_can_come_to_each_state(void **cmocka)
{
    bool seen[STATES] = {false};

    (void)cmocka;
    visit(SS_TOPK_NONE, seen);
    for (int state = 0; state < STATES; state++)
        assert_true(seen[state]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_that_are_out_are_committed_once_or_return),
        cmocka_unit_test(nothing_joins_while_claims_are_out),
        cmocka_unit_test(claims_are_committed_after_a_vote_alone),
        cmocka_unit_test(a_call_can_come_to_each_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
