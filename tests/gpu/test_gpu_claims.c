/* Claims on a device, one after the other on the same residual: the thresholds go by the same
 * control as on the host, and what is undone is as it was. */
#include "tests/gpu/two_backends.h"

static struct {
    size_t repeated, followed, drained, undone, few;
} met;

/* The next gradient: as the last, or scaled, zero, with ties or with what is not finite. */
static bool next_gradient(size_t step)
{
    const double scale = below(4) == 0 ? ldexp(1, (int)below(7) - 3) : 1;
    const bool zero = step > 2 && below(6) == 0, bad = below(8) == 0;
    const size_t ties = below(8);
    const double sampled = below(4) ? 1 : below(2) ? 100 : 0.001; /* where samples look */

    for (size_t i = 0; i < w.n; i++) {
        const double x = (unit() - 0.5) * (i % 4096 < 64 ? sampled : 1);
        put(w.type, w.here[IN], i, zero ? 0 : ties == 0 ? rint(x * 4) : scale * x * x * x);
    }
    if (bad)
        put(w.type, w.here[IN], below(w.n), below(2) ? (double)INFINITY : (double)NAN);
    memcpy(w.near[IN], w.here[IN], w.n * ss_type_size(w.type));
    return bad;
}

static void undo(const struct result *r)
{
    const struct claimed *wanted = r->wanted;
    const struct ss_selection *out = &wanted->out;

    ALIKE(
        undo(p, w.type, v[IN], v[RESIDUAL], out->stop, 5, r->want_idx, r->want_val, out->claimed));
    met.undone++;
}

static void count_met(const struct ss_threshold *before, const struct claimed *c)
{
    const struct ss_threshold *t = &w.threshold[0];
    const bool due = ss_threshold_due(before, t->k);

    met.repeated += !due && t->exact_calls > before->exact_calls && !c->out.zero_input;
    met.drained += !due && t->exact_calls > before->exact_calls && c->out.zero_input;
    met.followed +=
        !due && t->exact_calls == before->exact_calls && t->magnitude != before->magnitude;
    met.few += c->few;
}

static void claim_again_and_again(size_t k, size_t steps)
{
    for (size_t s = 0; s < steps; s++) {
        const struct ss_threshold before = w.threshold[0];
        const bool bad = next_gradient(s);
        struct result *r = claim(below(10) ? 0 : 1, k);
        gpu_ranks_finish();
        count_met(&before, r->wanted);
        if (below(6) == 0)
            ss_threshold_reevaluate(&w.threshold[0]), ss_threshold_reevaluate(&w.threshold[1]);
        assert_memory_equal(&w.threshold[0], &w.threshold[1], sizeof w.threshold[0]);
        if (bad || below(5) == 0)
            undo(r);
        look_at_results();
    }
}

static void claims_go_by_the_same_control(void **state)
{
    (void)state;
    for (int c = 0; c < 24; c++) {
        const size_t n = 200 + below(c % 4 ? 3000 : 20000);
        open_world(c % 2 ? SS_F64 : SS_F32, n);
        claim_again_and_again(1 + below(n / 4), 16);
        close_world();
    }
    assert_true(met.repeated > 0 && met.followed > 0 && met.drained > 0);
    assert_true(met.undone > 0 && met.few > 0);
}

/* Entries whose sum overflowed are left alone, also where another claim came in between that was
 * never undone. */
static void an_overflow_is_undone(void **state)
{
    (void)state;
    for (int c = 0; c < 20; c++) {
        const enum ss_type type = c % 2 ? SS_F64 : SS_F32;
        const double most = type == SS_F32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
        open_world(type, 500);
        for (int again = 0; again < 3; again++) {
            const size_t i = below(500);
            char was[500 * 8];
            fill(type, w.here[IN], 500);
            memset(w.here[RESIDUAL], 0, sizeof was / 8 * ss_type_size(type));
            put(type, w.here[IN], i, most);
            put(type, w.here[RESIDUAL], i, most);
            memcpy(w.near[IN], w.here[IN], 500 * ss_type_size(type));
            memcpy(w.near[RESIDUAL], w.here[RESIDUAL], 500 * ss_type_size(type));
            memcpy(was, w.here[RESIDUAL], 500 * ss_type_size(type));
            struct ss_selection out = {0};
            uint32_t idx[14];
            double val[14];
            bool few = false;
            ss_ticket ticket =
                backend->ops->claim(backend, &w.threshold[1], type, w.there[IN], w.there[RESIDUAL],
                                    500, 0, 10, idx, val, &out, &few);
            assert_int_equal(ss_backend_wait(backend, ticket), SS_OK);
            assert_int_equal(out.not_finite, 1);
            assert_int_equal(out.stop, 500);
            if (again == 1) /* failed: the claims are added, the bits are kept */
                continue;
            backend->ops->undo(backend, type, w.there[IN], w.there[RESIDUAL], 500, 0, idx, val,
                               out.claimed);
            gpu_ranks_finish();
            for (size_t j = 0; j < 500; j++)
                assert_true(fabs(get(type, w.near[RESIDUAL], j) - get(type, was, j)) <=
                            (j == i ? 0 : 1e-6));
        }
        memcpy(w.here[RESIDUAL], w.near[RESIDUAL], 500 * ss_type_size(type));
        close_world();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_go_by_the_same_control),
        cmocka_unit_test(an_overflow_is_undone),
    };
    return cmocka_run_group_tests_name("gpu_claims", tests, NULL, NULL);
}
