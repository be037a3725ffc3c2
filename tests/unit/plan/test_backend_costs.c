/* Calls where the buffers lie in backends that cost something else than the host: what is chosen,
 * that all ranks choose the same, and that REPRODUCIBLE chooses the same wherever they lie. */
#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/backend/backend_costs.h"
#include "core/coll/algorithms.h"
#include "tests/unit/support/sim_job.h"

enum { RANKS = 5, N = 40000, CALLS = 60 };

/* ---- what is chosen ---- */

/* An H200's (16 Mi float, a message of 8192 entries), as far as they are known. */
static const struct ss_backend_costs device = {.encode = 3e-10,
                                               .decode = 5e-10,
                                               .put = 8e-10,
                                               .fill = 1.2e-11,
                                               .cross = 1.2e-10,
                                               .message = 1e-5,
                                               .wait = 1.5e-5};

static struct ss_shape shape_of(double density, uint64_t n, bool topk)
{
    const uint64_t nnz = (uint64_t)(density * (double)n);

    return (struct ss_shape){.algorithms = ss_algorithms(SS_KIND_ALLREDUCE),
                             .n = n,
                             .size = 4,
                             .type = SS_F32,
                             .topk = topk,
                             .k = nnz,
                             .nnz_sum = 4 * nnz,
                             .nnz_max = nnz,
                             .part_max = nnz / 4,
                             .memory_min = UINT64_MAX,
                             .alpha = 1e-6,
                             .beta = 2e-10,
                             .scan = 1e-10,
                             .code = 4e-9,
                             .merge = 2e-9,
                             .fill = 1e-10,
                             .backend = ss_costs_of_host(4e-9, 2e-9, 1e-10),
                             .vote = 1e-5};
}

static struct ss_plan plan_at(struct ss_shape shape, const struct ss_backend_costs *backend)
{
    struct ss_history nothing = {.result_nnz = 0};
    struct ss_plan plan;

    if (backend)
        shape.backend = *backend;
    ss_plan_make(&shape, &nothing, &plan);
    return plan;
}

static void a_device_goes_sparse_where_the_host_would_go_dense(void **state)
{
    int differ = 0;

    (void)state;
    for (int topk = 0; topk < 2; topk++)
        for (double density = 0.02; density < 0.3; density *= 1.1) {
            const struct ss_shape shape = shape_of(density, 1 << 24, topk);
            const struct ss_plan here = plan_at(shape, NULL), there = plan_at(shape, &device);
            assert_false(here.algorithm != SS_DENSE && there.algorithm == SS_DENSE);
            differ += here.algorithm == SS_DENSE && there.algorithm != SS_DENSE;
        }
    assert_true(differ >= 6);
}

/* Partial sums of recursive doubling and gtopk are the host's whatever the backend; a dense phase
 * has all its elements cross. */
static void merges_are_the_hosts_in_any_backend(void **state)
{
    const struct ss_shape shape = shape_of(0.01, 1 << 24, true);
    const struct ss_plan here = plan_at(shape, NULL), there = plan_at(shape, &device);

    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_ALGORITHMS; a++) /* whole calls are the host's */
        assert_true(SS_WHOLE_ALGORITHMS >> a & 1u ||
                    (there.seconds[a] < here.seconds[a]) ==
                        (a != SS_DSAR && a != SS_DENSE && a != SS_TWO_LEVEL));
    assert_true(there.seconds[SS_ALLGATHER] < 0.25 * here.seconds[SS_ALLGATHER]);
    assert_true(there.seconds[SS_RECURSIVE_DOUBLING] > 0.5 * here.seconds[SS_RECURSIVE_DOUBLING]);
    assert_true(there.seconds[SS_GTOPK] > 0.5 * here.seconds[SS_GTOPK]);
}

/* Where streams are short a device's messages and waits are what a call takes. */
static void messages_to_a_backend_are_counted(void **state)
{
    struct ss_shape shape = shape_of(0.001, 1 << 16, true);
    struct ss_backend_costs costs = device;

    (void)state;
    const struct ss_plan with = plan_at(shape, &costs);
    costs.message = costs.wait = 0;
    const struct ss_plan without = plan_at(shape, &costs);
    assert_true(with.seconds[SS_ALLGATHER] > without.seconds[SS_ALLGATHER] + 4 * device.message);
    assert_true(with.seconds[SS_RECURSIVE_DOUBLING] >
                without.seconds[SS_RECURSIVE_DOUBLING] + device.message);
    assert_true(with.seconds[SS_ALLGATHER] - without.seconds[SS_ALLGATHER] >
                with.seconds[SS_RECURSIVE_DOUBLING] - without.seconds[SS_RECURSIVE_DOUBLING]);
}

/* ---- all ranks alike ---- */

/* The host's, at a price of its own. */
struct priced {
    struct ss_backend backend;
    struct ss_backend_record record;
};

static struct ss_backend_record *record_of(struct ss_backend *p)
{
    return &((struct priced *)(void *)p)->record;
}

static struct ss_backend_ops priced_ops;

static uint64_t drawn = 1;

static uint64_t draw(void)
{
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return drawn >> 33;
}

/* From 1e-14 to 1e-7 seconds. */
static double draw_cost(void)
{
    double x = 1e-14;

    for (uint64_t steps = draw() % 70; steps > 0; steps--)
        x *= 1.2589;
    return x;
}

static void draw_price(struct priced *p)
{
    p->backend.ops = &priced_ops;
    p->record.expected = (struct ss_backend_costs){.encode = draw_cost(),
                                                   .decode = draw_cost(),
                                                   .put = draw_cost(),
                                                   .fill = draw_cost(),
                                                   .cross = draw_cost(),
                                                   .message = 1e3 * draw_cost(),
                                                   .wait = 1e3 * draw_cost()};
}

static struct {
    float in[RANKS][N], out[RANKS][N], sum[N];
} v;

static void draw_inputs(void)
{
    const uint64_t one_of = (uint64_t)1 << draw() % 9;

    memset(v.sum, 0, sizeof v.sum);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < N; i++) {
            v.in[r][i] = draw() % one_of == 0 ? (float)(draw() % 2001) - 1000 : 0;
            v.sum[i] += v.in[r][i];
        }
}

static void open_job(struct sim_job *job, const struct ss_settings *settings)
{
    priced_ops = *ss_host.ops;
    priced_ops.record = record_of;
    job_open(job, RANKS, 2e-6, 3e-10, 1, settings);
    for (int r = 0; r < RANKS; r++) {
        job->in[r] = v.in[r];
        job->out[r] = v.out[r];
    }
}

static void expect_one_plan(const struct sim_job *job)
{
    const struct ss_plan *first = &ss_comm_call(job->comm[0])->plan;

    for (int r = 1; r < RANKS; r++) {
        const struct ss_plan *plan = &ss_comm_call(job->comm[r])->plan;
        assert_int_equal(plan->algorithm, first->algorithm);
        assert_memory_equal(plan->seconds, first->seconds, sizeof first->seconds);
        assert_int_equal(job->status[r], job->status[0]);
    }
}

/* Anew for each call: some ranks are in a backend, others on the host. */
static void ranks_in_places_of_any_price_choose_the_same(void **state)
{
    static struct priced priced[RANKS];
    const struct ss_settings settings = {.alpha = -1, .beta = -1, .hash = 1};
    int ran[SS_ALGORITHMS] = {0}, kinds = 0;
    struct sim_job job;

    (void)state;
    open_job(&job, &settings);
    for (int i = 0; i < CALLS; i++) {
        draw_inputs();
        for (int r = 0; r < RANKS; r++) {
            draw_price(&priced[r]);
            job.backend[r] = draw() % 3 > 0 ? &priced[r].backend : NULL;
        }
        for (int r = 0; r < RANKS; r++)
            job.comm[r]->lanes.list[0].history = (struct ss_history){.skip = 0};
        assert_true(job_call(&job, SS_F32, SS_SUM, N));
        if (i > 0)
            expect_one_plan(&job);
        ran[ss_comm_call(job.comm[0])->plan.algorithm]++;
        if (job.status[0] == SS_OK)
            for (int r = 0; r < RANKS; r++)
                assert_memory_equal(v.out[r], v.sum, sizeof v.sum);
    }
    for (int a = 0; a < SS_ALGORITHMS; a++)
        kinds += ran[a] > 0;
    assert_true(kinds >= 3); /* prices decide */
    job_close(&job);
}

/* ---- REPRODUCIBLE ---- */

/* What ALPHA and BETA fix, too. */
static void fixed_costs_are_those_of_no_backend(const struct ss_settings *settings)
{
    static struct priced priced[RANKS];
    static float host[RANKS][N];
    struct sim_job here, there;

    open_job(&here, settings);
    open_job(&there, settings);
    for (int i = 0; i < CALLS / 2; i++) {
        draw_inputs();
        assert_true(job_call(&here, SS_F32, SS_SUM, N));
        memcpy(host, v.out, sizeof host);
        for (int r = 0; r < RANKS; r++) {
            draw_price(&priced[r]);
            there.backend[r] = &priced[r].backend;
        }
        assert_true(job_call(&there, SS_F32, SS_SUM, N));
        expect_one_plan(&there);
        assert_memory_equal(ss_comm_call(there.comm[0])->plan.seconds,
                            ss_comm_call(here.comm[0])->plan.seconds,
                            sizeof(((struct ss_plan *)0)->seconds));
        assert_int_equal(here.status[0], there.status[0]);
        if (here.status[0] == SS_OK)
            assert_memory_equal(host, v.out, sizeof host);
    }
    job_close(&here);
    job_close(&there);
}

static void reproducible_choices_do_not_hang_on_the_backend(void **state)
{
    const struct ss_settings on = {.alpha = -1, .beta = -1, .hash = 1, .reproducible = true};
    const struct ss_settings given = {.alpha = 2e-6, .beta = 3e-10, .hash = 1};

    (void)state;
    fixed_costs_are_those_of_no_backend(&on);
    fixed_costs_are_those_of_no_backend(&given);
}

/* ---- measured ---- */

static bool busy, short_of_memory;
static unsigned busy_from; /* clearings; 0: never */
static unsigned cleared;

static int poll_busy(struct ss_backend *p, ss_ticket ticket)
{
    (void)p, (void)ticket;
    return busy ? SS_PENDING : SS_OK;
}

static ss_ticket mark_one(struct ss_backend *p)
{
    (void)p;
    return 1;
}

static int reserve_some(struct ss_backend *p, enum ss_type type, const struct ss_backend_need *need)
{
    (void)p, (void)type, (void)need;
    return short_of_memory ? SS_ERR_MEMORY : SS_OK;
}

static void clear_counted(struct ss_backend *p, enum ss_type type, void *to, size_t n)
{
    cleared++;
    busy = busy || cleared == busy_from;
    ss_host.ops->clear(p, type, to, n);
}

static struct priced *measured_backend(void)
{
    static struct priced p;

    priced_ops = *ss_host.ops;
    priced_ops.record = record_of;
    priced_ops.poll = poll_busy;
    priced_ops.latest = mark_one;
    priced_ops.reserve = reserve_some;
    priced_ops.clear = clear_counted;
    p = (struct priced){.backend = {&priced_ops}, .record = {.expected = device}};
    busy = short_of_memory = false;
    cleared = busy_from = 0;
    return &p;
}

static void expect_amounts(const struct ss_backend_costs *c)
{
    assert_true(c->encode > 0 && c->encode < 1e-3 && c->decode > 0 && c->decode < 1e-3);
    assert_true(c->put > 0 && c->put < 1e-3 && c->fill > 0 && c->fill < 1e-3);
}

static void a_backend_is_measured_once(void **state)
{
    struct priced *p = measured_backend();
    unsigned once;

    (void)state;
    assert_memory_equal(ss_backend_costs(&p->backend), &device, sizeof device);
    ss_backend_measure(&p->backend);
    expect_amounts(ss_backend_costs(&p->backend));
    assert_ptr_not_equal(ss_backend_costs(&p->backend), &p->record.expected);
    assert_true(cleared > 0);
    once = cleared;
    ss_backend_measure(&p->backend);
    assert_int_equal(cleared, once);
}

static void measuring_leaves_the_environment_as_it_was(void **state)
{
    struct priced *p = measured_backend();

    (void)state;
    assert_int_equal(fesetround(FE_UPWARD), 0);
    assert_int_equal(feclearexcept(FE_ALL_EXCEPT), 0);
    ss_backend_measure(&p->backend);
    assert_int_equal(fetestexcept(FE_ALL_EXCEPT), 0);
    assert_int_equal(fegetround(), FE_UPWARD);
    assert_int_equal(fesetround(FE_TONEAREST), 0);
    expect_amounts(ss_backend_costs(&p->backend));
}

/* It may be slower than a measurement may last. */
static void a_backend_that_is_elsewhere_costs_crossings(void **state)
{
    struct priced *p = measured_backend();
    const struct ss_backend_costs *c;

    (void)state;
    priced_ops.remote = true;
    ss_backend_measure(&p->backend);
    c = ss_backend_costs(&p->backend);
    expect_amounts(c);
    assert_true(c->cross > 0 && c->message > 0 && c->wait > 0);
}

static void a_busy_backend_is_left_alone_and_measured_later(void **state)
{
    struct priced *p = measured_backend();

    (void)state;
    busy = true;
    ss_backend_measure(&p->backend);
    assert_int_equal(cleared, 0);
    assert_memory_equal(ss_backend_costs(&p->backend), &device, sizeof device);
    busy = false;
    ss_backend_measure(&p->backend);
    assert_true(cleared > 0);
    assert_ptr_not_equal(ss_backend_costs(&p->backend), &p->record.expected);
}

/* Another thread has put its work behind the program's: nobody may wait for that here. */
static void a_backend_that_gets_busy_meanwhile_is_given_up(void **state)
{
    (void)state;
    for (unsigned from = 1; from < 20; from += 6) {
        struct priced *p = measured_backend();
        busy_from = from;
        ss_backend_measure(&p->backend);
        assert_true(busy);
        assert_memory_equal(ss_backend_costs(&p->backend), &device, sizeof device);
        busy = false;
        const unsigned once = cleared;
        ss_backend_measure(&p->backend);
        assert_int_equal(cleared, once);
    }
}

static void a_backend_that_is_always_busy_is_asked_no_more(void **state)
{
    struct priced *p = measured_backend();

    (void)state;
    busy = true;
    for (int i = 0; i < 40; i++)
        ss_backend_measure(&p->backend);
    busy = false;
    ss_backend_measure(&p->backend);
    assert_int_equal(cleared, 0);
    assert_memory_equal(ss_backend_costs(&p->backend), &device, sizeof device);
}

static void without_memory_costs_are_as_expected(void **state)
{
    struct priced *p = measured_backend();

    (void)state;
    short_of_memory = true;
    ss_backend_measure(&p->backend);
    assert_int_equal(cleared, 0);
    assert_memory_equal(ss_backend_costs(&p->backend), &device, sizeof device);
}

/* Backends made of the host's memory need no record. */
static void costs_of_the_host_are_those_of_its_backend(void **state)
{
    struct ss_backend_ops ops = *ss_host.ops;
    struct ss_backend other = {&ops};
    const struct ss_backend_costs *c = ss_backend_costs(&ss_host);
    const struct ss_host_costs *host = ss_host_costs();

    (void)state;
    expect_amounts(c);
    assert_true(c->encode == host->code && c->decode == host->code + host->merge);
    assert_true(c->put == host->merge && c->fill == host->fill);
    assert_true(c->cross == 0 && c->message == 0 && c->wait == 0);
    assert_ptr_equal(ss_backend_costs(&other), c);
    ss_backend_measure(&other);
    ss_backend_measure(&ss_host);
    assert_ptr_equal(ss_backend_costs(&ss_host), c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_goes_sparse_where_the_host_would_go_dense),
        cmocka_unit_test(merges_are_the_hosts_in_any_backend),
        cmocka_unit_test(messages_to_a_backend_are_counted),
        cmocka_unit_test(ranks_in_places_of_any_price_choose_the_same),
        cmocka_unit_test(reproducible_choices_do_not_hang_on_the_backend),
        cmocka_unit_test(a_backend_is_measured_once),
        cmocka_unit_test(a_backend_that_is_elsewhere_costs_crossings),
        cmocka_unit_test(measuring_leaves_the_environment_as_it_was),
        cmocka_unit_test(a_busy_backend_is_left_alone_and_measured_later),
        cmocka_unit_test(a_backend_that_gets_busy_meanwhile_is_given_up),
        cmocka_unit_test(a_backend_that_is_always_busy_is_asked_no_more),
        cmocka_unit_test(without_memory_costs_are_as_expected),
        cmocka_unit_test(costs_of_the_host_are_those_of_its_backend),
    };

    return cmocka_run_group_tests_name("backend_costs", tests, NULL, NULL);
}
