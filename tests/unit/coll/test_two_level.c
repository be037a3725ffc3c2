/* Sums on two levels are exact and alike on all ranks for any layout of the ranks on hosts and any
 * algorithm between hosts, and the ranks of a host share the work. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/oracle.h"
#include "tests/unit/support/sim_job.h"

/* Layouts: a digit for each rank's host. */
static const char *const layouts[] = {
    "11",       "12",        "112",       "123",       "1122",      "1212",      "11223",
    "12345",    "111222",    "123123",    "111223",    "122223",    "1111222",   "12341234",
    "11112222", "111111112", "123123123", "111222333", "112233441", "123456789", "111111111",
};
#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

static long sparse; /* calls that were made sparse */

/* Runs a case on a layout and compares the results with the oracle's. */
static void run(const char *layout, enum ss_algorithm algorithm, uint64_t slice, uint64_t seed,
                const struct input *in, bool in_place)
{
    static struct sim_job job;
    struct ss_settings settings = {.algorithm = algorithm,
                                   .aggregation = SS_AGGREGATION_ON,
                                   .alpha = 1e-6,
                                   .beta = 1e-9,
                                   .hash = 1};
    struct array sent[16], out[16];
    const size_t esize = ss_type_size(in->type), bytes = in->n * esize;

    job_open(&job, in->size, 1e-6, 1e-9, seed, &settings);
    job_set_hosts(&job, layout, slice);
    ss_sim_set_eager(job.sim, 512);
    for (int r = 0; r < in->size; r++) {
        sent[r] = array_make(in->n, esize);
        out[r] = array_make(in->n, esize);
        input_fill(in, r, sent[r].data);
        if (in_place)
            memcpy(out[r].data, sent[r].data, bytes);
        job.in[r] = in_place ? NULL : sent[r].data;
        job.out[r] = out[r].data;
    }
    assert_true(job_call(&job, in->type, in->op, in->n));
    const bool deep = ss_layout_is_deep(job.layout);

    sparse += job.status[0] == SS_OK;
    for (int r = 0; r < in->size; r++) {
        if (job.status[0] == SS_NATIVE && algorithm == SS_AUTO)
            break;
        assert_int_equal(job.status[r], SS_OK);
        assert_true(array_guards_hold(&out[r]));
        assert_memory_equal(out[r].data, out[0].data, bytes);
        assert_int_equal(ss_call_algorithm(ss_comm_call(job.comm[r])) == SS_TWO_LEVEL,
                         algorithm == SS_TWO_LEVEL || deep);
    }
    if (job.status[0] == SS_OK && oracle_first_wrong(in, sent, out[0].data) != in->n) {
        print_message("# %s, %s between hosts, %s\n", layout, ss_algorithm_name(algorithm),
                      in_place ? "in place" : "two buffers");
        input_print(in);
    }
    if (job.status[0] == SS_OK)
        assert_int_equal(oracle_first_wrong(in, sent, out[0].data), in->n);
    for (int r = 0; r < in->size; r++) {
        free(sent[r].base);
        free(out[r].base);
    }
    job_close(&job);
}

static void exact_on_any_layout(void **state)
{
    static const double densities[] = {0, -1, 0.001, 0.01, 0.1, 0.4, 0.7, 1};
    static const size_t counts[] = {1, 130, 455, 4099};
    static const struct {
        enum ss_type type;
        enum ss_op op;
    } types[] = {{SS_F32, SS_SUM}, {SS_F64, SS_SUM}, {SS_I32, SS_SUM}, {SS_I64, SS_BXOR}};
    uint64_t number = 0;

    (void)state;
    for (size_t l = 0; l < LENGTH(layouts); l++)
        for (int a = SS_AUTO; a < SS_OKTOPK; a++)
            for (size_t d = 0; d < LENGTH(densities); d++)
                for (size_t c = 0; c < LENGTH(counts); c++) {
                    uint64_t h = mix(++number);
                    struct input in = {.size = (int)strlen(layouts[l]),
                                       .type = types[h % LENGTH(types)].type,
                                       .op = types[h % LENGTH(types)].op,
                                       .n = counts[c],
                                       .density = densities[d],
                                       .place = (enum place)(h / 16 % PLACES),
                                       .values = ORDINARY,
                                       .seed = h >> 20};
                    run(layouts[l], (enum ss_algorithm)a, h & 64 ? 16 : 64, h & 128 ? h | 1 : 0,
                        &in, h >> 40 & 1);
                }
    assert_true(sparse > 3000);
}

/* ---- bytes ---- */

enum { LONG = 262144, RANKS_MOST = 16 };

/* Bytes of one call: those that each rank sends, and those that the busiest host sends to others.
 */
struct traffic {
    uint64_t rank[RANKS_MOST];
    uint64_t host;
};

/* Makes one call of LONG elements with 0.8 % entries on each of `ranks` ranks, which are on the
 * hosts of `layout`. If the job has fewer ranks, rank r has the sum of the inputs of host r. */
static struct traffic traffic_of(const char *layout, enum ss_algorithm algorithm,
                                 const char *job_on)
{
    static struct sim_job job;
    static int32_t in[RANKS_MOST][LONG], out[RANKS_MOST][LONG];
    struct ss_settings settings = {.algorithm = algorithm,
                                   .aggregation = SS_AGGREGATION_ON,
                                   .alpha = 1e-6,
                                   .beta = 1e-7,
                                   .hash = 1};
    const int ranks = (int)strlen(layout), size = (int)strlen(job_on);
    struct traffic seen = {.host = 0};

    memset(in, 0, sizeof in);
    for (int r = 0; r < ranks; r++)
        for (uint64_t i = 0; i < LONG; i++)
            in[size < ranks ? layout[r] - '1' : r][i] += mix(i * 64 + (uint64_t)r) % 128 == 0;
    job_open(&job, size, 1e-6, 1e-7, 0, &settings);
    job_set_hosts(&job, job_on, LONG / 4);
    ss_sim_set_hosts(job.sim, job.layout, 1e-6, 1e-10);
    for (int r = 0; r < size; r++) {
        job.in[r] = in[r];
        job.out[r] = out[r];
    }
    assert_true(job_call(&job, SS_I32, SS_SUM, LONG));
    assert_int_equal(job.status[0], SS_OK);
    for (int h = 0; h < job.layout->hosts; h++) {
        uint64_t outside = 0;
        for (int r = 0; r < size; r++)
            if (job.layout->host[r] == h)
                outside += ss_sim_bytes_outside(job.sim, r);
        seen.host = outside > seen.host ? outside : seen.host;
    }
    for (int r = 0; r < size; r++)
        seen.rank[r] = ss_sim_bytes_sent(job.sim, r);
    job_close(&job);
    return seen;
}

/* Within 10 %, votes included. */
static void a_host_sends_what_one_rank_with_the_sum_of_its_inputs_sends(void **state)
{
    static const char *const of[] = {"11223344", "12341234", "1111222233334444"};

    (void)state;
    for (int a = SS_RECURSIVE_DOUBLING; a < SS_OKTOPK; a++)
        for (size_t l = 0; l < LENGTH(of); l++) {
            const double several = (double)traffic_of(of[l], (enum ss_algorithm)a, of[l]).host;
            const double one = (double)traffic_of(of[l], (enum ss_algorithm)a, "1234").host;
            if (several > 1.1 * one)
                fail_msg("%s, %s: %.0f bytes, %.0f with one rank per host", of[l],
                         ss_algorithm_name((enum ss_algorithm)a), several, one);
        }
}

/* No rank sends more than a quarter above its share by slices. */
static void the_ranks_of_a_host_share_the_work(void **state)
{
    static const struct {
        const char *layout;
        double share; /* of the rank with most slices, over the mean of the smaller host */
    } of[] = {{"11112222", 1}, {"12121212", 1}, {"111222", 1}, {"1111122222", 1.25}};

    (void)state;
    for (size_t l = 0; l < LENGTH(of); l++) {
        const struct traffic seen = traffic_of(of[l].layout, SS_SPLIT_ALLGATHER, of[l].layout);
        const int ranks = (int)strlen(of[l].layout);
        double sum = 0, most = 0;
        for (int r = 0; r < ranks; r++) {
            sum += (double)seen.rank[r];
            most = fmax(most, (double)seen.rank[r]);
        }
        if (most > 1.25 * of[l].share * sum / ranks)
            fail_msg("%s: a rank sends %.0f bytes, the mean is %.0f", of[l].layout, most,
                     sum / ranks);
    }
}

/* A sum that overflows inside one host: each rank finds the exception that it must raise. */
static void an_overflow_inside_a_host_is_raised_on_all_ranks(void **state)
{
    enum { P = 4, N = 300, AT = 7 };
    struct ss_settings settings = {.algorithm = SS_TWO_LEVEL, .alpha = 1e-6, .beta = 1e-9};
    static struct sim_job job;
    static float in[P][N], out[P][N];

    (void)state;
    job_open(&job, P, 1e-6, 1e-9, 0, &settings);
    job_set_hosts(&job, "1122", 16);
    in[0][AT] = in[1][AT] = 3e38f;
    in[3][AT + 1] = 1;
    for (int r = 0; r < P; r++) {
        job.in[r] = in[r];
        job.out[r] = out[r];
    }
    assert_true(job_call(&job, SS_F32, SS_SUM, N));
    for (int r = 0; r < P; r++) {
        assert_int_equal(job.status[r], SS_OK);
        assert_true(isinf(out[r][AT]) && out[r][AT + 1] == 1);
        assert_true(ss_call_exceptions(ss_comm_call(job.comm[r])) & SS_OVERFLOW);
    }
    job_close(&job);
}

/* Streams number the ranks of their group; messages name ranks of the communicator. */
static void a_failed_send_names_the_rank_of_the_communicator(void **state)
{
    struct ss_layout *layout = ss_layout_create(4);
    struct ss_transport all = {.rank = 2, .size = 4};
    struct ss_exchange x = {.t = &all};
    struct ss_subset group;

    (void)state;
    for (int r = 0; r < 4; r++)
        layout->ids[r] = (uint64_t)(r / 2);
    ss_layout_find(layout);
    ss_subset_of_host(&group, &all, layout);
    for (int inside = 0; inside < 2; inside++) {
        x.failed = 0;
        x.subset = &group;
        x.t = inside ? &group.t : &all;
        x.slots[0].dst = 1;
        x.slots[0].request.status = SS_ERR_TRANSPORT;
        assert_int_equal(ss_sends_reap(&x), SS_OK);
        assert_int_equal(x.failed_peer, 3);
    }
    ss_layout_free(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_on_any_layout),
        cmocka_unit_test(a_host_sends_what_one_rank_with_the_sum_of_its_inputs_sends),
        cmocka_unit_test(the_ranks_of_a_host_share_the_work),
        cmocka_unit_test(an_overflow_inside_a_host_is_raised_on_all_ranks),
        cmocka_unit_test(a_failed_send_names_the_rank_of_the_communicator)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
