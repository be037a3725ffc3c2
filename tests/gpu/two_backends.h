/* The same vectors on the host and on a device: what is done to both, many functions handed over
 * before anything is waited for, leaves the same and gives the same. */
#ifndef TESTS_GPU_TWO_BACKENDS_H
#define TESTS_GPU_TWO_BACKENDS_H

#include "tests/gpu/chance.h"
#include "tests/gpu/gpu_ranks.h"

enum { VECTORS = 3, IN = 0, RESIDUAL = 1, OUT = 2, RESULTS = 64 };

static inline void fill(enum ss_type type, void *v, size_t n)
{
    const size_t kind = below(4);

    for (size_t i = 0; i < n; i++) {
        double x = unit() - 0.5;
        x = kind == 0 ? x * x * x : kind == 1 ? (below(20) ? 0 : x) : kind == 2 ? rint(x * 6) : x;
        put(type, v, i, x);
    }
}

/* The same vectors on the host and on a device, and what they are asked for. */
static struct {
    enum ss_type type;
    size_t n;
    char *here[VECTORS], *near[VECTORS], *there[VECTORS];
    struct ss_buf residual;
    struct ss_threshold threshold[2];
    struct result {
        void *got, *wanted, *to_idx, *want_idx, *to_val, *want_val;
        size_t bytes;
        void (*check)(const struct result *r);
    } result[RESULTS];
    size_t results;
} w;

static struct ss_backend *backend;

static inline void open_world(enum ss_type type, size_t n)
{
    const size_t size = ss_type_size(type);

    memset(&w, 0, sizeof w);
    w.type = type;
    w.n = n;
    backend = &gpu_rank(0)->backend;
    assert_int_equal(backend->ops->make(backend, NULL, &w.residual, n * size), SS_OK);
    for (int v = 0; v < VECTORS; v++) {
        const size_t behind = v == RESIDUAL ? 0 : below(4) * size;
        w.here[v] = malloc(n * size);
        w.there[v] = v == RESIDUAL ? w.residual.data
                                   : (char *)gpu_far(gpu_rank_make(0, n * size + behind)) + behind;
        w.near[v] = w.there[v] - gpu_ranks.far;
    }
    backend->ops->clear(backend, type, w.residual.data, n); /* behind that of make */
    gpu_ranks_finish();
    for (int v = 0; v < VECTORS; v++) {
        fill(type, w.here[v], n);
        memcpy(w.near[v], w.here[v], n * size);
    }
    w.threshold[0].period = w.threshold[1].period = 1 + below(6);
}

static inline void expect_same_vectors(void)
{
    for (int v = 0; v < VECTORS; v++)
        assert_memory_equal(w.near[v], w.here[v], w.n * ss_type_size(w.type));
}

static inline void drop_results(void)
{
    for (size_t i = 0; i < w.results; i++) {
        const struct result *r = &w.result[i];
        void *const all[] = {r->got, r->wanted, r->to_idx, r->want_idx, r->to_val, r->want_val};
        for (size_t j = 0; j < sizeof all / sizeof all[0]; j++)
            free(all[j]);
    }
    w.results = 0;
}

static inline void look_at_results(void)
{
    gpu_ranks_finish();
    for (size_t i = 0; i < w.results; i++)
        w.result[i].check(&w.result[i]);
    drop_results();
    expect_same_vectors();
}

static inline void close_world(void)
{
    look_at_results();
    backend->ops->drop(backend, &w.residual);
    for (int v = 0; v < VECTORS; v++)
        free(w.here[v]);
    gpu_ranks_end();
}

static inline struct result *new_result(size_t bytes, void (*check)(const struct result *r))
{
    struct result *r = &w.result[w.results++];

    *r = (struct result){
        .got = malloc(bytes + 1), .wanted = malloc(bytes + 1), .bytes = bytes, .check = check};
    memset(r->got, 0x5a, bytes);
    memset(r->wanted, 0x5a, bytes);
    return r;
}

static inline void with_lists(struct result *r, size_t room)
{
    r->to_idx = malloc(4 * room + 1);
    r->want_idx = malloc(4 * room + 64);
    r->to_val = malloc(8 * room + 1);
    r->want_val = malloc(8 * room + 64);
}

static inline void check_lists(const struct result *r, size_t entries)
{
    assert_memory_equal(r->to_idx, r->want_idx, entries * 4);
    assert_memory_equal(r->to_val, r->want_val, entries * ss_type_size(w.type));
}

struct claimed {
    struct ss_selection out;
    bool few;
};

static inline void check_claim(const struct result *r)
{
    const struct claimed *got = r->got, *wanted = r->wanted;

    assert_int_equal(got->out.claimed, wanted->out.claimed);
    assert_int_equal(got->out.over, wanted->out.over);
    assert_int_equal(got->out.not_finite, wanted->out.not_finite);
    assert_int_equal(got->out.stop, wanted->out.stop);
    assert_int_equal(got->out.largest, wanted->out.largest);
    assert_int_equal(got->out.zero_input, wanted->out.zero_input);
    assert_true(close_to(got->out.input_square, wanted->out.input_square));
    assert_true(close_to(got->out.sum_square, wanted->out.sum_square));
    assert_int_equal(got->few, wanted->few);
    check_lists(r, wanted->out.claimed);
}

/* Both sides. */
#define BOTH(call_here, call_there)                                                                \
    do {                                                                                           \
        struct ss_backend *p = &ss_host;                                                           \
        char **v = w.here;                                                                         \
        p->ops->call_here;                                                                         \
        p = backend;                                                                               \
        v = w.there;                                                                               \
        p->ops->call_there;                                                                        \
        (void)p, (void)v;                                                                          \
    } while (0)
#define ALIKE(call) BOTH(call, call)

/* Of g and r, or of one of them. */
static inline struct result *claim(size_t source, size_t k)
{
    struct result *r = new_result(sizeof(struct claimed), check_claim);
    struct claimed *got = r->got, *wanted = r->wanted;
    const bool g = source != 1, res = source != 2;

    memset(got, 0, sizeof *got);
    memset(wanted, 0, sizeof *wanted);
    with_lists(r, ss_claim_limit(k));
    BOTH(claim(p, &w.threshold[0], w.type, g ? v[IN] : NULL, res ? v[RESIDUAL] : NULL, w.n, 5, k,
               r->want_idx, r->want_val, &wanted->out, &wanted->few),
         claim(p, &w.threshold[1], w.type, g ? v[IN] : NULL, res ? v[RESIDUAL] : NULL, w.n, 5, k,
               r->to_idx, r->to_val, &got->out, &got->few));
    return r;
}

#endif
