/* The promises of ss_comm_decision: what is told, by whom, and how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "core/call/call_impl.h"

struct scene {
    struct ss_transport transport;
    struct ss_settings settings;
    struct ss_comm comm;
    struct ss_lane lane;
    struct ss_tensor tensor;
    struct ss_call call;
};

static struct scene *scene;
static char line[1000];

static int set_up(void **state)
{
    (void)state;
    scene = calloc(1, sizeof *scene);
    if (!scene)
        return -1;
    scene->settings.decisions = true;
    scene->comm.t = &scene->transport;
    scene->comm.settings = &scene->settings;
    strcpy(scene->comm.name, "world");
    scene->call.f.comm = &scene->comm;
    scene->call.f.lane = &scene->lane;
    scene->call.f.c.x.n = 100;
    scene->tensor.n = 100;
    scene->tensor.calls = 7;
    strcpy(scene->tensor.site_name, "a+0x1");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(scene);
    return 0;
}

static void plan(enum ss_algorithm algorithm, bool settled)
{
    scene->call.plan = (struct ss_plan){.algorithm = algorithm, .settled = settled};
    for (int a = 0; a < SS_ALGORITHMS; a++)
        scene->call.plan.seconds[a] = 0.001 * a;
    scene->call.number++;
    ss_log_plan(&scene->call);
}

static void be(enum ss_tensor_state state, enum ss_tensor_reason reason, bool resting)
{
    scene->call.f.tensor = &scene->tensor;
    scene->tensor.state = state;
    scene->tensor.reason = reason;
    scene->tensor.rest = resting ? SS_RESTS : SS_AWAKE;
    ss_log_tensor(&scene->call.f);
}

static void assert_told(const char *text)
{
    assert_true(ss_comm_decision(&scene->comm, line, sizeof line));
    if (!strstr(line, text))
        fail_msg("'%s' is not in '%s'", text, line);
}

static void assert_silent(void)
{
    assert_false(ss_comm_decision(&scene->comm, line, sizeof line));
}

static void a_lane_tells_its_first_collective_and_a_change_that_lasts(void **state)
{
    (void)state;
    plan(SS_RING, false); /* a trial */
    assert_silent();
    plan(SS_DENSE, true);
    assert_told("allreduce of 100 float sum on world: dense by call 2, predicted");
    assert_silent();
    for (int i = 0; i < 9; i++) { /* to and fro */
        plan(i % 3 == 2 ? SS_DENSE : SS_RING, true);
        assert_silent();
    }
    plan(SS_RING, true);
    plan(SS_DSAR, true);
    assert_silent();
    plan(SS_RING, true);
    assert_told(": ring by call 14, predicted ");
    assert_non_null(strstr(line, " ms, dense "));
    plan(SS_RING, true);
    assert_silent();
}

static void a_tensor_tells_each_state_once(void **state)
{
    struct ss_rule rule = {.text = "count=100"};

    (void)state;
    be(SS_TENSOR_CANDIDATE, SS_TENSOR_NO_STEP, false);
    assert_silent();
    be(SS_TENSOR_EXACT, SS_TENSOR_MEMORY, false);
    assert_told("lossy: 100 float called from a+0x1 on world: exact from its call 7 on: no room "
                "for a residual");
    be(SS_TENSOR_EXACT, SS_TENSOR_MEMORY, false);
    assert_silent();
    be(SS_TENSOR_EXACT, SS_TENSOR_OTHERS, false);
    assert_told("exact from its call 7 on: not registered on another rank");
    scene->tensor.rule = &rule;
    be(SS_TENSOR_REGISTERED, SS_TENSOR_NONE, true);
    assert_told("admitted from its call 7 on: REGISTER has count=100; it rests until a plan is");
    assert_silent();
    be(SS_TENSOR_REGISTERED, SS_TENSOR_NONE, false);
    assert_told("awake from its call 7 on: a plan is sparse");
    be(SS_TENSOR_REGISTERED, SS_TENSOR_NONE, true);
    assert_told("resting from its call 7 on: dense is faster");
    be(SS_TENSOR_REGISTERED, SS_TENSOR_NONE, true);
    assert_silent();
    be(SS_TENSOR_EXACT, SS_TENSOR_GUARDED, true);
    assert_told("exact from its call 7 on: GUARD found the result too far off");
    assert_silent();
}

static void only_the_first_rank_tells_and_only_where_it_is_wanted(void **state)
{
    (void)state;
    scene->transport.rank = 1;
    plan(SS_RING, true);
    be(SS_TENSOR_REGISTERED, SS_TENSOR_NONE, false);
    assert_silent();
    scene->transport.rank = 0;
    scene->settings.decisions = false;
    plan(SS_RING, true);
    be(SS_TENSOR_REGISTERED, SS_TENSOR_NONE, false);
    assert_silent();
    scene->settings.decisions = true;
    scene->call.f.tensor = NULL;
    ss_log_tensor(&scene->call.f);
    assert_silent();
}

/* Lines that nobody fetches do not run over; those there are stay whole. */
static void lines_wait_in_their_order_and_never_run_over(void **state)
{
    size_t n = 0;

    (void)state;
    memset(scene->tensor.site_name, 's', sizeof scene->tensor.site_name - 1);
    memset(scene->tensor.symbol, 'f', sizeof scene->tensor.symbol - 1);
    memset(scene->comm.name, 'c', sizeof scene->comm.name - 1);
    plan(SS_DENSE, true);
    for (int i = 0; i < 50; i++)
        be(i % 2 ? SS_TENSOR_EXACT : SS_TENSOR_REGISTERED,
           i % 2 ? SS_TENSOR_OTHERS : SS_TENSOR_NONE, false);
    assert_told(": dense by call 1");
    while (ss_comm_decision(&scene->comm, line, sizeof line)) {
        assert_non_null(strstr(line, n % 2 ? "not registered on another rank" : "admitted from"));
        n++;
    }
    assert_in_range(n, 3, 10);
    be(SS_TENSOR_EXACT, SS_TENSOR_MEMORY, false);
    assert_true(ss_comm_decision(&scene->comm, line, 10)); /* cut to the room there is */
    assert_int_equal(strlen(line), 9);
    assert_silent();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lane_tells_its_first_collective_and_a_change_that_lasts,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tensor_tells_each_state_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_the_first_rank_tells_and_only_where_it_is_wanted,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_wait_in_their_order_and_never_run_over, set_up,
                                        tear_down),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
