/* An algorithm is its definition. A toy algorithm that no other file knows runs for any number of
 * ranks. Its own formula plans it, its own promise reserves its memory, and a cancelled call frees
 * all of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/coll/algorithms.h"
#include "core/plan/cost.h"
#include "tests/unit/support/sim_job.h"

enum { N = 5000, MOST = 9 };

/* ---- the toy: sums go from rank to rank, and from the last to all ---- */

enum { START, TAKE, PASS, SPREAD };

struct state {
    int step;
    struct ss_out out;
    struct ss_in in;
    struct ss_stream received, sum;
};

static void take(struct ss_exchange *x, struct ss_in *in, int src, const struct ss_chunk *chunk,
                 const void *msg, size_t len)
{
    struct state *s = ss_coll_of(x)->state;

    (void)in, (void)msg, (void)len;
    ss_stream_append(x, src, &s->received, chunk);
}

static void set(struct ss_exchange *x, struct ss_in *in, int src, const struct ss_chunk *chunk,
                const void *msg, size_t len)
{
    (void)in, (void)src, (void)msg, (void)len;
    ss_result_set(ss_coll_of(x), chunk);
}

static void start(struct ss_coll *c, struct state *s)
{
    struct ss_exchange *x = &c->x;
    uint64_t sum = c->voted.nnz_sum;

    if (ss_buf_reserve_voted(&x->work->arena, x->mem, 2 * ss_arena_bound(x->type, sum)) != SS_OK ||
        ss_stream_reserve(x, &s->received, 0, sum) != SS_OK ||
        ss_stream_reserve(x, &s->sum, 1, sum) != SS_OK)
        ss_fail(x, SS_ERR_MEMORY, x->t->rank, SS_PHASE_REDUCE);
    ss_in_start(x, &s->in, SS_PHASE_REDUCE, 0, x->t->rank - 1, x->t->rank > 0, take);
}

static void pass_on(struct ss_coll *c, struct state *s)
{
    struct ss_exchange *x = &c->x;

    if (x->failed == 0)
        s->sum.nnz =
            c->kernels->merge(x->type, c->op, s->received.idx, s->received.val, s->received.nnz,
                              c->own.idx, c->own.val, c->own.nnz, s->sum.idx, s->sum.val);
    ss_out_stream(&s->out, s->sum, SS_PHASE_REDUCE, 0, x->t->rank + 1, x->t->rank < x->t->size - 1);
}

static void spread(struct ss_coll *c, struct state *s)
{
    struct ss_exchange *x = &c->x;
    int last = x->t->size - 1;

    if (x->t->rank < last) {
        ss_in_start(x, &s->in, SS_PHASE_GATHER, 0, last, 1, set);
        s->out.done = true;
        return;
    }
    ss_out_stream(&s->out, s->sum, SS_PHASE_GATHER, 0, 0, last);
    if (x->failed == 0)
        ss_result_set_stream(c, &s->sum);
}

static int step(struct ss_coll *c)
{
    struct state *s = c->state;
    int sent, received;

    for (;;) {
        switch (s->step) {
        case START:
            start(c, s);
            s->step = TAKE;
            break;
        case TAKE:
            if (ss_in_step(&c->x, &s->in) == SS_PENDING)
                return SS_PENDING;
            pass_on(c, s);
            s->step = PASS;
            break;
        case PASS:
            if (ss_out_step(&c->x, &s->out) == SS_PENDING)
                return SS_PENDING;
            spread(c, s);
            s->step = SPREAD;
            break;
        default:
            sent = ss_out_step(&c->x, &s->out);
            received = ss_in_step(&c->x, &s->in);
            return sent == SS_PENDING || received == SS_PENDING ? SS_PENDING : SS_OK;
        }
    }
}

static struct ss_estimate cost(const struct ss_shape *s, const struct ss_history *h)
{
    double bytes = ss_cost_stream_bytes(s, ss_plan_union(s, h, s->size), (double)s->n);

    return (struct ss_estimate){.wire = 2 * s->size * (s->alpha + s->beta * bytes),
                                .bytes = s->size * bytes};
}

static double memory(const struct ss_shape *s)
{
    return ss_memory_own(s) + (2 * 1.1 + 2) * (double)s->nnz_sum * 12;
}

static const struct ss_algorithm_def toy = {
    .cost = cost, .memory = memory, .state = sizeof(struct state), .step = step};

/* In the place of ring. */
static const struct ss_algorithm_def *algorithms[SS_ALGORITHMS];

static void open_job(struct sim_job *job, int size, double timeout)
{
    struct ss_settings settings = {
        .algorithm = SS_RING, .alpha = 1e-6, .beta = 1e-9, .hash = 1, .timeout = timeout};

    for (int a = 0; a < SS_ALGORITHMS; a++)
        algorithms[a] = ss_algorithms(SS_KIND_ALLREDUCE)[a];
    algorithms[SS_RING] = &toy;
    job_open(job, size, 1e-6, 1e-9, 3, &settings);
    for (int r = 0; r < size; r++)
        job->comm[r]->algorithms = algorithms;
}

static double inputs[MOST][N], outputs[MOST][N];

static void draw(struct sim_job *job)
{
    memset(inputs, 0, sizeof inputs);
    for (int r = 0; r < job->size; r++) {
        for (size_t i = (size_t)r; i < N; i += 17 + (size_t)r)
            inputs[r][i] = (double)(i % 101 + 1);
        job->in[r] = inputs[r];
        job->out[r] = outputs[r];
    }
}

static void expect_sums(const struct sim_job *job)
{
    for (size_t i = 0; i < N; i++) {
        double sum = 0;
        for (int r = 0; r < job->size; r++)
            sum += inputs[r][i];
        for (int r = 0; r < job->size; r++)
            assert_true(outputs[r][i] == sum);
    }
}

static void a_row_is_all_that_an_algorithm_takes(void **state)
{
    static struct sim_job job;

    (void)state;
    for (int size = 2; size <= MOST; size++) {
        open_job(&job, size, 0);
        draw(&job);
        assert_true(job_call(&job, SS_F64, SS_SUM, N));
        expect_sums(&job);
        for (int r = 0; r < size; r++) {
            const struct ss_call *c = ss_comm_call(job.comm[r]);
            assert_int_equal(job.status[r], SS_OK);
            assert_int_equal(ss_call_algorithm(c), SS_RING);
            assert_ptr_equal(c->algorithm, &toy);
            assert_true(c->plan.bytes[SS_RING] > 0);
            assert_null(c->f.c.x.open);
        }
        job_close(&job);
    }
}

/* A rank that is silent for ever: the others end by TIMEOUT, and nothing of theirs stays posted in
 * storage that the next call uses. */
static void expect_nothing_open(const struct sim_job *job)
{
    for (int r = 0; r < job->size; r++) {
        const struct ss_coll *c = &ss_comm_call(job->comm[r])->f.c;
        const struct state *s = c->state;
        assert_null(c->x.open);
        for (int i = 0; i < SS_RECV_WINDOW; i++)
            assert_false(s->in.peers[i].request.active);
        for (int i = 0; i < SS_SEND_SLOTS; i++)
            assert_false(c->x.slots[i].request.active);
    }
}

static void what_it_has_open_is_given_up(void **state)
{
    static struct sim_job job;
    int in_exchange = 0;

    (void)state;
    for (int size = 2; size <= 5; size++)
        for (uint64_t lost = 1; lost <= 5; lost++) {
            open_job(&job, size, 0.5);
            draw(&job);
            ss_sim_set_idle(job.sim, 0.1);
            ss_sim_set_fault(job.sim, (struct ss_sim_fault){.rank = 0, .lose_send = lost});
            assert_true(job_call(&job, SS_F64, SS_SUM, N));
            for (int r = 0; r < size; r++)
                in_exchange += job.status[r] == SS_ERR_TIMEOUT &&
                               ss_comm_call(job.comm[r])->f.c.x.failed_phase == SS_PHASE_REDUCE;
            expect_nothing_open(&job);
            job_close(&job);
        }
    assert_true(in_exchange >= 4);
}

/* What the option table refuses without MODE=topk is what the definitions say. */
static void rows_and_options_agree_on_who_keeps_a_global_set(void **state)
{
    (void)state;
    for (int a = SS_AUTO; a < SS_ALGORITHMS; a++)
        assert_int_equal(ss_keeps_global((enum ss_algorithm)a), SS_GLOBAL_ALGORITHMS >> a & 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_options_agree_on_who_keeps_a_global_set),
        cmocka_unit_test(a_row_is_all_that_an_algorithm_takes),
        cmocka_unit_test(what_it_has_open_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
