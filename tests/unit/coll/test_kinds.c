/* Allgather, reduce_scatter and reduce are as exact as the allreduce, for any number of ranks,
 * division, type and input (core/README.md, invariants 1, 2 and 5). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/support/kind_job.h"

#define LENGTH(a) (sizeof(a) / sizeof(a)[0])

static struct ss_settings settings_of(enum ss_algorithm algorithm)
{
    return (struct ss_settings){.algorithm = algorithm, .alpha = 1e-6, .beta = 1e-9, .hash = 1};
}

/* Jobs by the clock, and with adversarial delivery. */
struct pair {
    struct kind_job by_clock, adversarial;
};

static void pair_open(struct pair *p, int size, enum ss_algorithm algorithm, uint64_t seed)
{
    struct ss_settings settings = settings_of(algorithm);

    memset(p, 0, sizeof *p);
    p->by_clock.cannot = p->adversarial.cannot = -1;
    job_open(&p->by_clock.job, size, 1e-6, 1e-9, 0, &settings);
    job_open(&p->adversarial.job, size, 1e-6, 1e-9, seed | 1, &settings);
    ss_sim_set_eager(p->adversarial.job.sim, seed % 3 == 0 ? 0 : 512);
}

static void pair_close(struct pair *p)
{
    job_close(&p->by_clock.job);
    job_close(&p->adversarial.job);
}

static void run_in(struct kind_job *k, const struct kind_case *c)
{
    kind_arrays_make(k, c);
    const char *wrong = kind_call(k, c) ? NULL : "deadlock";
    for (int r = 0; r < c->in.size && !wrong; r++)
        if (k->job.status[r] != k->job.status[0])
            wrong = "statuses differ";
    if (!wrong && k->job.status[0] < 0)
        wrong = ss_status_text(k->job.status[0]);
    if (!wrong)
        wrong = kind_complaint(k, c);
    if (wrong) {
        kind_print(c, wrong);
        fail();
    }
}

/* Returns the status. */
static int run_case(struct pair *p, const struct kind_case *c)
{
    run_in(&p->by_clock, c);
    run_in(&p->adversarial, c);
    int status = p->by_clock.job.status[0];
    bool same = status == p->adversarial.job.status[0];
    for (int r = 0; r < c->in.size && same; r++)
        if (memcmp(p->by_clock.out[r].data, p->adversarial.out[r].data, p->by_clock.out[r].bytes) !=
            0) {
            kind_print(c, "delivery order changed the result");
            fail();
        }
    kind_arrays_free(&p->by_clock, c->in.size);
    kind_arrays_free(&p->adversarial, c->in.size);
    return status;
}

static const struct {
    enum ss_type type;
    enum ss_op op;
} combinations[] = {
    {SS_F32, SS_SUM}, {SS_F64, SS_SUM}, {SS_I32, SS_SUM},  {SS_I64, SS_SUM},
    {SS_I32, SS_BOR}, {SS_I64, SS_LOR}, {SS_I32, SS_BXOR}, {SS_I64, SS_LXOR},
};
static const double densities[] = {0, -1, 1e-3, 0.01, 0.1, 0.6, 1};
static const size_t counts[] = {1, 31, 255, 1021, 4099};

/* A case drawn by h. */
static struct kind_case draw(enum ss_kind kind, int size, uint64_t h)
{
    size_t combination = h % LENGTH(combinations);
    struct kind_case c = {
        .kind = kind,
        .in = {.size = size,
               .type = combinations[combination].type,
               .op = combinations[combination].op,
               .n = counts[h >> 8 & 1 ? 4 : (h >> 9) % LENGTH(counts)],
               .density = densities[(h >> 16) % LENGTH(densities)],
               .place = (enum place)((h >> 24) % PLACES),
               .values = (enum values)((h >> 32) % VALUES),
               .seed = mix(h)},
        .division = (enum division)((h >> 40) % DIVISIONS),
        .in_place = h >> 48 & 1,
        .odd_bits = h >> 49 & 1,
        .root = (int)((h >> 50) % (uint64_t)size),
    };

    if (c.division == EQUAL) /* a multiple of the number of ranks */
        c.in.n = (c.in.n + (size_t)size - 1) / (size_t)size * (size_t)size;
    return c;
}

static void sweep(enum ss_kind kind, int size, int cases)
{
    static struct pair p;

    pair_open(&p, size, SS_SPLIT_ALLGATHER, mix((uint64_t)size * 10 + kind));
    for (int i = 0; i < cases; i++) {
        struct kind_case c = draw(kind, size, mix((uint64_t)i + (uint64_t)size * 1000000));
        assert_int_equal(run_case(&p, &c), SS_OK);
    }
    pair_close(&p);
}

static void sweep_sizes(enum ss_kind kind)
{
    for (int size = 1; size <= 9; size++)
        sweep(kind, size, 400);
    sweep(kind, 16, 60);
    sweep(kind, 33, 40);
}

static void an_allgather_moves_every_bit(void **state)
{
    (void)state;
    sweep_sizes(SS_KIND_ALLGATHER);
}

static void a_reduce_scatter_is_exact(void **state)
{
    (void)state;
    sweep_sizes(SS_KIND_REDUCE_SCATTER);
}

static void a_reduce_is_exact_for_any_root(void **state)
{
    (void)state;
    sweep_sizes(SS_KIND_REDUCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allgather_moves_every_bit),
        cmocka_unit_test(a_reduce_scatter_is_exact),
        cmocka_unit_test(a_reduce_is_exact_for_any_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
