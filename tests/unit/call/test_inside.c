/* Bytes to ranks of the same host are counted apart from those to other hosts: what a rank counts
 * is what the simulator has carried, whatever the message was for. */
#include <math.h>

#include "tests/unit/support/in_flight_job.h"
#include "tests/unit/support/training.h"

static const char *const layouts[] = {"1122", "1212", "111222", "1112", "112", "1111", "1234"};
#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

static void set_hosts(struct sim_job *job, const char *layout)
{
    job_set_hosts(job, layout, 64);
    ss_sim_set_hosts(job->sim, job->layout, 1e-6, 1e-10);
}

static void assert_counted(const struct sim_job *job)
{
    uint64_t inside = 0, all = 0;

    for (int r = 0; r < job->size; r++) {
        uint64_t sent = 0, sent_inside = 0;

        for (const struct ss_lane_record *l = job->stats[r].lanes; l; l = l->next) {
            sent += l->bytes_sent;
            sent_inside += l->sent_inside;
        }
        assert_int_equal(sent, ss_sim_bytes_sent(job->sim, r));
        assert_int_equal(sent - sent_inside, ss_sim_bytes_outside(job->sim, r));
        inside += sent_inside;
        all += sent;
    }
    assert_true(all > 0);
    assert_int_equal(inside > 0, job->layout->most > 1);
    assert_int_equal(inside<all, job->layout->hosts> 1);
}

static void every_algorithm(void **state)
{
    enum { N = 5000 };
    static float in[6][N], out[6][N];
    static struct sim_job job;

    (void)state;
    for (size_t l = 0; l < LENGTH(layouts); l++)
        for (int a = SS_AUTO + 1; a < SS_OKTOPK; a++)
            for (int on = 0; on < 2; on++) {
                struct ss_settings settings = {
                    .algorithm = (enum ss_algorithm)a, .alpha = 1e-5, .beta = 1e-9, .hash = 1};
                settings.aggregation = on ? SS_AGGREGATION_ON : SS_AGGREGATION_OFF;
                job_open(&job, (int)strlen(layouts[l]), 1e-5, 1e-9, 0, &settings);
                set_hosts(&job, layouts[l]);
                for (int r = 0; r < job.size; r++) {
                    for (int i = r; i < N; i += 40)
                        in[r][i] = 1;
                    job.in[r] = in[r];
                    job.out[r] = out[r];
                }
                assert_true(job_call(&job, SS_F32, SS_SUM, N));
                assert_int_equal(job.status[0], SS_OK);
                assert_counted(&job);
                job_close(&job);
            }
}

/* The word exchanges of oktopk are messages of their own, between hosts as well. */
static void word_exchanges(void **state)
{
    static struct training t;

    (void)state;
    for (size_t l = 0; l < 2 * LENGTH(layouts); l++) {
        struct ss_settings settings = training_settings(SS_OKTOPK);
        const char *layout = layouts[l / 2];

        settings.beta = 1e-7; /* sparse is faster */
        settings.aggregation = l % 2 ? SS_AGGREGATION_ON : SS_AGGREGATION_AUTO;
        training_open(&t, (int)strlen(layout), SS_F32, 6007, 0, settings);
        set_hosts(&t.job, layout);
        for (int step = 0; step < 3; step++) {
            for (int r = 0; r < t.job.size; r++)
                for (size_t i = 0; i < t.n; i++)
                    put(t.type, t.gradient[r], i, (double)(mix(i * 64 + (size_t)r + 1) % 1000));
            training_step(&t, false);
        }
        assert_int_equal(t.native, 0);
        assert_counted(&t.job);
        training_close(&t);
    }
}

/* MERGE: the calls of a group vote share its bytes. */
static void group_votes(void **state)
{
    static struct beside_job b;

    (void)state;
    for (size_t l = 0; l < LENGTH(layouts); l++) {
        struct beside_plan plan = {.size = (int)strlen(layouts[l]),
                                   .calls = 4 * LAYERS,
                                   .seed = l + 1,
                                   .inputs = 5,
                                   .type = SS_F32,
                                   .density = 0.02,
                                   .in_flight = SS_IN_FLIGHT,
                                   .merge = 8000};
        struct ss_settings settings = {
            .algorithm = SS_ALLGATHER, .alpha = 1e-5, .beta = 1e-9, .hash = 1};

        beside_open_job(&b, &plan, settings);
        set_hosts(&b.job, layouts[l]);
        beside_run(&b);
        assert_true(b.job.stats[0].merged.merged > 0);
        assert_counted(&b.job);
        beside_close_job(&b);
    }
}

/* ---- what dense collectives would send ---- */

static struct ss_sent dense_of(const char *layout, int rank, enum ss_kind kind, uint64_t bytes)
{
    const int size = (int)strlen(layout);
    bool seen[256] = {false};
    struct ss_sender s = {.size = size, .own = 1, .root = rank == 0};

    for (int r = 0; r < size; r++) {
        s.hosts += !seen[(unsigned char)layout[r]];
        seen[(unsigned char)layout[r]] = true;
        s.local += layout[r] == layout[rank];
    }
    s.slices = s.local;
    s.near_root = layout[rank] == layout[0];
    return ss_kind_dense_bytes(kind, &s, bytes);
}

/* A host sends to others what a single rank in its place would send. */
static void dense_sums_inside_each_host_first(void **state)
{
    static const uint64_t bytes = 4 * 5040;

    (void)state;
    for (size_t l = 0; l < LENGTH(layouts); l++)
        for (int kind = 0; kind < SS_KINDS; kind++) {
            const int size = (int)strlen(layouts[l]);
            const uint64_t phases = kind == SS_KIND_ALLREDUCE ? 2 : 1;
            uint64_t all = 0, between = 0, hosts = 0, to_root = 0, far = 0;

            for (int r = 0; r < size; r++) {
                struct ss_sent sent = dense_of(layouts[l], r, (enum ss_kind)kind, bytes);
                all += sent.all;
                between += sent.all - sent.inside;
                hosts += strchr(layouts[l], layouts[l][r]) == layouts[l] + r;
                to_root += kind == SS_KIND_REDUCE && r > 0 ? bytes / (uint64_t)size : 0;
                far += kind == SS_KIND_REDUCE && layouts[l][r] != layouts[l][0]
                           ? bytes / (uint64_t)size
                           : 0;
            }
            assert_int_equal(between, phases * (hosts - 1) * bytes + far);
            assert_int_equal(all, phases * (uint64_t)(size - 1) * bytes + to_root);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm), cmocka_unit_test(word_exchanges),
        cmocka_unit_test(group_votes), cmocka_unit_test(dense_sums_inside_each_host_first)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
