/* Ranks that read each other's memory (top-k with one residual per host) get the bits of messages,
 * and a rank that cannot be read is heard on all ranks. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/net/peer_memory.h"
#include "core/tensor/residual.h"
#include "tests/unit/support/training.h"

enum { STEPS = 6, MOST = 9, READER = 1, OTHER = 0 /* two ranks of a host */, N = 1500 };

static struct ss_peers *peers[MOST];

static struct ss_settings settings(void)
{
    struct ss_settings s = training_settings(SS_SPLIT_ALLGATHER);

    s.density = 0.03;
    s.beta = 1e-6; /* sparse is faster */
    s.aggregation = SS_AGGREGATION_ON;
    s.tensors.threshold_period = 4;
    return s;
}

/* Lets the ranks of a job read each other's memory. */
static void let_read(struct sim_job *job)
{
    for (int r = 0; r < job->size; r++)
        assert_non_null(peers[r] = ss_peers_create(job->size));
    for (int r = 0; r < job->size; r++) {
        assert_true(ss_comm_wants_peers(job->comm[r]));
        for (int other = 0; other < job->size; other++)
            peers[r]->peer[other] = ss_peers_own(peers[other]);
        ss_comm_set_peers(job->comm[r], peers[r]);
    }
    ss_sim_set_idle(job->sim, 1e-6); /* no message wakes a rank that reads */
}

static void open_reading(struct training *t, const char *layout, size_t n, enum ss_type type)
{
    training_open(t, (int)strlen(layout), type, n, 0, settings());
    job_set_hosts(&t->job, layout, 64);
    let_read(&t->job);
}

static void close_reading(struct training *t)
{
    for (int r = 0; r < t->job.size; r++) {
        assert_int_equal(peers[r]->shown.call, 0); /* the program has its buffer back */
        ss_peers_free(peers[r]);
    }
    training_close(t);
}

static void draw(struct training *t, uint64_t step)
{
    for (int r = 0; r < t->job.size; r++)
        for (size_t i = 0; i < t->n; i++) {
            const uint64_t h = mix(step * 1000003 + (uint64_t)r * 7919 + i * 104729 + 1);
            const double u = (double)(h >> 11) / 9007199254740992.0 * 2 - 1;
            put(t->type, t->gradient[r], i, u * (h % 16 == 0 ? 1 : 0.05));
        }
}

/* Returns the elements of its slices that a rank has read in the last call. */
static uint64_t covered(const struct training *t, int rank)
{
    return ss_comm_call(t->job.comm[rank])->f.host.covered;
}

/* Returns true if all ranks have read their slices in the last call; fails if only some have. */
static bool all_read(const struct training *t)
{
    bool some = false, all = true;

    for (int r = 0; r < t->job.size; r++) {
        const uint64_t n = ss_tensors_first(t->job.comm[r]->tensors)->range.n;
        some = some || covered(t, r) > 0;
        all = all && covered(t, r) == n;
    }
    assert_int_equal(some, all);
    return all;
}

static void expect_same(const struct training *a, const struct training *b)
{
    for (int r = 0; r < a->job.size; r++) {
        assert_int_equal(a->job.status[r], SS_OK);
        assert_int_equal(b->job.status[r], SS_OK);
        expect_equal_bytes(a->job.out[r], b->job.out[r], a->n * ss_type_size(a->type));
        for (size_t i = 0; i < a->n; i++)
            assert_true(training_kept(a, r, i) == training_kept(b, r, i));
    }
}

/* Makes steps by reading and by messages. `reads`: reading is possible. */
static void compare(struct training *by_reading, const char *layout, bool reads)
{
    static struct training by_messages;

    training_open(&by_messages, by_reading->job.size, by_reading->type, by_reading->n, 0,
                  settings());
    job_set_hosts(&by_messages.job, layout, 64);
    for (uint64_t step = 0; step < STEPS; step++) {
        draw(&by_messages, step);
        draw(by_reading, step);
        training_step(&by_messages, step % 3 == 2);
        training_step(by_reading, step % 3 == 2);
        assert_int_equal(all_read(by_reading), reads);
        assert_false(all_read(&by_messages));
        expect_same(by_reading, &by_messages);
    }
    assert_true(by_reading->sparse >= STEPS - 1);
    training_close(&by_messages);
}

static void the_bits_are_those_of_messages(void **state)
{
    static const char *const layouts[] = {"1122", "1212", "112", "111223", "12222", "123412341"};
    static struct training t;

    (void)state;
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (int type = 0; type < 2; type++) {
            open_reading(&t, layouts[l], l == 0 ? 140001 : 1100, type ? SS_F64 : SS_F32);
            compare(&t, layouts[l], true);
            expect_conservation(&t, layouts[l]);
            close_reading(&t);
        }
}

static void nonblocking_calls_take_messages(void **state)
{
    static struct training t;

    (void)state;
    open_reading(&t, "1122", 1100, SS_F32);
    for (int r = 0; r < t.job.size; r++)
        t.job.comm[r]->caller = (struct ss_caller){.nonblocking = true};
    compare(&t, "1122", false);
    close_reading(&t);
}

/* A process reads memory that it may write, whatever the mapping says; the system does not read it
 * for others. */
static void an_input_that_cannot_be_read_goes_in_messages(void **state)
{
    static struct training t;
    const size_t bytes = 1100 * sizeof(float);

    (void)state;
    open_reading(&t, "1122", 1100, SS_F32);
    void *usual = t.gradient[OTHER];
    t.gradient[OTHER] = mmap(NULL, bytes, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(t.gradient[OTHER] != MAP_FAILED);
    if (ss_peers_show(peers[OTHER], 1, t.gradient[OTHER], bytes))
        skip();
    ss_peers_hide(peers[OTHER], 1);
    draw(&t, 0);
    training_step(&t, false);
    assert_false(all_read(&t));
    assert_int_equal(t.job.status[0], SS_OK);
    munmap(t.gradient[OTHER], bytes);
    t.gradient[OTHER] = usual;
    draw(&t, 1);
    training_step(&t, false);
    assert_true(all_read(&t));
    expect_conservation(&t, "hidden");
    close_reading(&t);
}

/* ---- faults ---- */

static int steps_of_sum;
static bool early; /* before the rank reads; else between its last piece and its last look */

/* Steps all ranks. Rank OTHER gives its buffer back to the program while READER adds it up. */
static int step_hiding(void *ctx, int rank)
{
    struct sim_job *job = ctx;

    if (rank == READER && job->started[rank] &&
        ss_call_is_driven_by(ss_comm_call(job->comm[rank]), &ss_host_sum_driver) &&
        steps_of_sum++ == (early ? 0 : 1)) {
        assert_int_equal(covered((const struct training *)job, READER) > 0, !early);
        ss_peers_hide(peers[OTHER], ss_comm_call(job->comm[OTHER])->f.c.x.number);
    }
    return job_step(ctx, rank);
}

static void expect_error(struct training *t, int (*step)(void *ctx, int rank))
{
    draw(t, 0);
    for (int r = 0; r < t->job.size; r++)
        t->job.in[r] = t->gradient[r];
    t->job.type = t->type;
    t->job.op = SS_SUM;
    t->job.n = t->n;
    assert_true(ss_sim_run(t->job.sim, step, &t->job, t->job.status, 10000000));
    for (int r = 0; r < t->job.size; r++) {
        assert_int_equal(t->job.status[r], SS_ERR_PEER);
        ss_call_end(ss_comm_call(t->job.comm[r]), 0);
    }
}

static void a_rank_that_gives_up_is_heard_on_all_ranks(void **state)
{
    static struct training t;

    (void)state;
    for (int when = 0; when < 2; when++) {
        open_reading(&t, "1122", 1100, SS_F32);
        steps_of_sum = 0;
        early = when == 0;
        expect_error(&t, step_hiding);
        assert_true(steps_of_sum > 0);
        close_reading(&t);
    }
}

static void a_rank_whose_process_has_ended_is_heard_on_all_ranks(void **state)
{
    static struct training t;
    char text[400];
    pid_t child = fork();

    (void)state;
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    open_reading(&t, "1122", 1100, SS_F32);
    peers[READER]->peer[OTHER].process = (uint64_t)child;
    expect_error(&t, job_step);
    ss_call_explain(ss_comm_call(t.job.comm[READER]), text, sizeof text);
    assert_non_null(strstr(text, "rank 0"));
    close_reading(&t);
}

/* ---- who reads ---- */

static void options_and_layout_tell_who_reads(void **state)
{
    static const struct {
        const char *layout, *rules;
        enum ss_aggregation aggregation;
        bool topk, reads;
    } cases[] = {
        {"1122", "*:calls=1", SS_AGGREGATION_ON, true, true},
        {"1122", "*:calls=1", SS_AGGREGATION_AUTO, true, false},
        {"1122", "count=7 *:calls=1:node", SS_AGGREGATION_AUTO, true, true},
        {"1122", "*:calls=1:node", SS_AGGREGATION_OFF, true, false},
        {"1122", "", SS_AGGREGATION_ON, false, false},
        {"1111", "*:calls=1:node", SS_AGGREGATION_ON, true, false},
        {"1234", "*:calls=1:node", SS_AGGREGATION_ON, true, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static struct sim_job job;
        struct ss_settings s = settings();
        struct ss_rules *rules;
        char error[200];

        assert_int_equal(ss_rules_parse(cases[i].rules, true, &rules, error, sizeof error), SS_OK);
        s.topk = cases[i].topk;
        s.aggregation = cases[i].aggregation;
        s.tensors.include = rules;
        job_open(&job, 4, 1e-5, 1e-9, 0, &s);
        job_set_hosts(&job, cases[i].layout, 64);
        assert_int_equal(ss_comm_wants_peers(job.comm[0]), cases[i].reads);
        job_close(&job);
        ss_rules_free(rules);
    }
}

/* Each rank reads all elements of a residual, so that one that adds them to its first gradient
 * after a restart loses nothing. */
static void a_rank_reads_its_part_at_its_place(void **state)
{
    static struct training t;
    struct ss_settings by_ring = settings();
    float values[N];

    (void)state;
    by_ring.algorithm = SS_RING;
    training_open(&t, 8, SS_F32, N, 0, by_ring);
    job_set_hosts(&t.job, "11112223", 64);
    for (uint64_t step = 0; step < 3; step++) {
        draw(&t, step);
        training_step(&t, false);
    }
    for (int r = 0; r < t.job.size; r++) {
        const struct ss_tensor *tensor = ss_tensors_first(t.job.comm[r]->tensors);
        memset(values, 0xff, sizeof values);
        assert_int_equal(ss_residual_read(tensor, values), SS_OK);
        for (size_t i = 0; i < N; i++)
            assert_true((double)values[i] == training_kept(&t, r, i));
    }
    training_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_reads_its_part_at_its_place),
        cmocka_unit_test(the_bits_are_those_of_messages),
        cmocka_unit_test(nonblocking_calls_take_messages),
        cmocka_unit_test(an_input_that_cannot_be_read_goes_in_messages),
        cmocka_unit_test(a_rank_that_gives_up_is_heard_on_all_ranks),
        cmocka_unit_test(a_rank_whose_process_has_ended_is_heard_on_all_ranks),
        cmocka_unit_test(options_and_layout_tell_who_reads)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
