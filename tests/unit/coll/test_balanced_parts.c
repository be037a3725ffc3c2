/* Inputs whose entries crowd in some places: results are exact and the same on all ranks, the
 * borders of parts change no bit, the work is shared, and even inputs send nothing more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/oracle.h"
#include "tests/unit/support/sim_job.h"

enum skew {
    ONE_PART,   /* all in one part */
    ONE_BIN,    /* all in 16 elements */
    ONE_RANK,   /* all on one rank, in one part */
    EMPTY_ODD,  /* in one part; odd ranks have none */
    SINGLE,     /* one element on one rank */
    EVERYWHERE, /* one element on all ranks */
    OWN,        /* consecutive elements of its own for each rank, the last rank's first */
    RUNS,       /* some consecutive elements, which overlap with those of other ranks */
    HEAD,       /* fewer and fewer towards the end */
    EVEN,
    SKEWS
};

enum { MOST = 9 };

struct call {
    int size;
    enum ss_algorithm algorithm;
    const char *hosts; /* NULL: one level */
    uint64_t seed;     /* of adversarial delivery; 0: by the clock */
    size_t n;
    enum ss_type type;
    enum skew skew;
    bool in_place;
    bool balances; /* the network is so slow that balanced parts pay for few bytes */
};

static bool has(const struct call *k, int rank, size_t i)
{
    const size_t n = k->n, part = n / (size_t)k->size + 1, own = (size_t)(k->size - 1 - rank);
    const uint64_t h = mix(i * 64 + (uint64_t)rank);

    switch (k->skew) {
    case ONE_PART:
        return i / part == (size_t)k->size / 2 && h % 3 == 0;
    case ONE_BIN:
        return i / 16 == n / 32;
    case ONE_RANK:
        return rank == 1 && i < part && h % 3 > 0;
    case EMPTY_ODD:
        return rank % 2 == 0 && i < part && h % 3 == 0;
    case SINGLE:
        return rank == 0 && i == n / 2;
    case EVERYWHERE:
        return i == n / 2;
    case OWN:
        return i / part == own;
    case RUNS:
        return i >= n / 8 + (size_t)rank * (n / 64) && i < n / 4 + (size_t)rank * (n / 64);
    case HEAD:
        return h % (i + n / 32 + 1) <= n / 32;
    default:
        return h % 16 == 0;
    }
}

static void fill(const struct call *k, int rank, void *data)
{
    for (size_t i = 0; i < k->n; i++) {
        uint64_t h = mix(i * 1000 + (uint64_t)rank);
        double value = has(k, rank, i) ? unit(h) - 0.5 : 0;
        if (k->type == SS_F32)
            ((float *)data)[i] = (float)value;
        else if (k->type == SS_F64)
            ((double *)data)[i] = value;
        else
            ((uint32_t *)data)[i] = has(k, rank, i) ? (uint32_t)h | 1 : 0;
    }
}

/* What a call did. */
struct outcome {
    struct array out; /* the result of rank 0 */
    bool sparse, voted;
    uint64_t counts;            /* bytes of word exchanges of rank 0 */
    uint64_t bytes, bytes_most; /* of all ranks, of the busiest one */
};

static void run(const struct call *k, struct outcome *o)
{
    static struct sim_job job;
    const size_t esize = ss_type_size(k->type), bytes = k->n * esize;
    struct ss_settings settings = {
        .algorithm = k->algorithm, .alpha = 1e-6, .beta = k->balances ? 1e-3 : 0, .hash = 1};
    const struct input in = {.size = k->size, .type = k->type, .op = SS_SUM, .n = k->n};
    struct array sent[MOST], out[MOST];

    memset(o, 0, sizeof *o);
    job_open(&job, k->size, 1e-6, 1e-9, k->seed, &settings);
    if (k->hosts)
        job_set_hosts(&job, k->hosts, 64);
    ss_sim_set_eager(job.sim, 512);
    for (int r = 0; r < k->size; r++) {
        sent[r] = array_make(k->n, esize);
        out[r] = array_make(k->n, esize);
        fill(k, r, sent[r].data);
        memcpy(out[r].data, sent[r].data, bytes);
        job.in[r] = k->in_place ? NULL : sent[r].data;
        job.out[r] = out[r].data;
    }
    assert_true(job_call(&job, k->type, SS_SUM, k->n));
    o->sparse = job.status[0] == SS_OK;
    for (int r = 0; r < k->size; r++) {
        uint64_t mine = ss_sim_bytes_sent(job.sim, r);
        assert_int_equal(job.status[r], job.status[0]);
        assert_true(job.status[r] >= 0);
        assert_true(array_guards_hold(&out[r]));
        if (o->sparse)
            assert_memory_equal(out[r].data, out[0].data, bytes);
        o->bytes += mine;
        o->bytes_most = mine > o->bytes_most ? mine : o->bytes_most;
    }
    if (o->sparse)
        assert_int_equal(oracle_first_wrong(&in, sent, out[0].data), k->n);
    o->voted = ss_comm_call(job.comm[0])->f.c.voted.balanced;
    o->counts = ss_comm_call(job.comm[0])->f.c.x.phase_sent[SS_PHASE_WORDS];
    o->out = out[0];
    for (int r = 0; r < k->size; r++) {
        free(sent[r].base);
        if (r > 0)
            free(out[r].base);
    }
    job_close(&job);
}

static const char *const layouts[] = {
    [2] = "12",     [3] = "112",     [4] = "1212",     [5] = "11223",
    [6] = "123123", [7] = "1111222", [8] = "11112222", [9] = "112233441"};

/* Calls check for themselves that results are exact and alike. */
static void borders_change_no_bit_of_skewed_sums(void **state)
{
    static const size_t counts[] = {1, 33, 700, 4099, 20000};
    static const enum ss_algorithm algorithms[] = {SS_SPLIT_ALLGATHER, SS_TWO_LEVEL};
    static const enum ss_type types[] = {SS_F32, SS_F64, SS_I32};
    unsigned divided[2] = {0, 0};

    (void)state;
    for (int size = 2; size <= MOST; size++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
            for (int skew = 0; skew < SKEWS; skew++)
                for (size_t a = 0; a < 2; a++) {
                    uint64_t h = mix((uint64_t)size * 1000 + c * 100 + (uint64_t)skew * 2 + a);
                    struct call k = {.size = size,
                                     .algorithm = algorithms[a],
                                     .hosts = a == 1 ? layouts[size] : NULL,
                                     .n = counts[c],
                                     .type = types[h % 3],
                                     .skew = (enum skew)skew,
                                     .in_place = h >> 8 & 1};
                    struct outcome equal, balanced;
                    run(&k, &equal);
                    assert_true(equal.sparse && !equal.voted && equal.counts == 0);
                    k.balances = true;
                    k.seed = h >> 16 & 1 ? h | 1 : 0;
                    run(&k, &balanced);
                    assert_true(balanced.sparse);
                    assert_true(balanced.voted == (balanced.counts > 0));
                    assert_memory_equal(balanced.out.data, equal.out.data, equal.out.bytes);
                    divided[a] += balanced.counts > 0;
                    free(equal.out.base);
                    free(balanced.out.base);
                }
    assert_true(divided[0] > 100 && divided[1] > 100);
}

/* The plan may choose other algorithms, or dense. */
static void auto_is_exact_on_skewed_inputs(void **state)
{
    (void)state;
    for (int size = 2; size <= MOST; size++)
        for (int skew = 0; skew < SKEWS; skew++) {
            struct call k = {.size = size,
                             .n = 6000,
                             .skew = (enum skew)skew,
                             .balances = true,
                             .seed = (uint64_t)(size + skew) % 2 * 99};
            struct outcome o;
            run(&k, &o);
            free(o.out.base);
        }
}

static void even_inputs_send_no_counts(void **state)
{
    (void)state;
    for (int size = 2; size <= MOST; size++) {
        struct call k = {
            .size = size, .algorithm = SS_SPLIT_ALLGATHER, .n = 50000, .skew = EVEN, .balances = 1};
        struct outcome o;
        run(&k, &o);
        assert_true(!o.voted && o.counts == 0);
        free(o.out.base);
    }
}

/* The busiest rank sends at most a third more than the mean, word exchanges included. */
static void ranks_share_the_work_of_skewed_sums(void **state)
{
    static const enum skew skews[] = {ONE_PART, OWN, RUNS, HEAD};

    (void)state;
    for (int size = 4; size <= 8; size += 2)
        for (size_t i = 0; i < sizeof skews / sizeof skews[0]; i++) {
            struct call k = {.size = size,
                             .algorithm = SS_SPLIT_ALLGATHER,
                             .n = 1 << 18,
                             .skew = skews[i],
                             .balances = true};
            struct outcome o;
            run(&k, &o);
            assert_true(o.voted);
            assert_true(o.bytes_most * (uint64_t)size * 3 <= o.bytes * 4);
            free(o.out.base);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(borders_change_no_bit_of_skewed_sums),
        cmocka_unit_test(auto_is_exact_on_skewed_inputs),
        cmocka_unit_test(even_inputs_send_no_counts),
        cmocka_unit_test(ranks_share_the_work_of_skewed_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
