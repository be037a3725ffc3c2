/* A device as a backend against the host's: each function over chance sizes and types, with the
 * host's arrays overwritten as soon as a function is back; and what is large, what is given up,
 * what fails. usage: test_gpu_backend [seed] */
#include "core/wire/rice.h"
#include "tests/gpu/two_backends.h"

static void check_same(const struct result *r)
{
    assert_memory_equal(r->got, r->wanted, r->bytes);
}

static void check_close(const struct result *r)
{
    assert_true(close_to(*(double *)r->got, *(double *)r->wanted));
}

static void check_sketch(const struct result *r)
{
    const double *got = r->got, *wanted = r->wanted;

    for (size_t i = 0; i < SS_SKETCH_BUCKETS; i++)
        assert_true(fabs(got[i] - wanted[i]) <= 1e-9);
}

static void check_scan(const struct result *r)
{
    const struct ss_scan *got = r->got, *wanted = r->wanted;

    assert_int_equal(got->nnz, wanted->nnz);
    assert_int_equal(got->stored, wanted->stored);
    assert_int_equal(got->stop, wanted->stop);
    assert_int_equal(got->negative_zero, wanted->negative_zero);
    assert_int_equal(got->not_finite, wanted->not_finite);
    check_lists(r, wanted->stored);
}

/* ---- operations ---- */

/* Host's arrays: entries of a range of the vectors, good until overwritten. */
static struct {
    size_t count, first, n;
    uint32_t base;
    uint32_t *idx;
    char *val;
} list;

static char *at(char *v)
{
    return v + list.first * ss_type_size(w.type);
}

static void make_list(bool again)
{
    list.first = below(w.n);
    list.n = 1 + below(w.n - list.first);
    list.base = (uint32_t)below(1000);
    list.count = 0;
    list.idx = malloc(4 * 2 * list.n);
    list.val = malloc(8 * 2 * list.n);
    for (size_t i = 0, every = 1 + below(8); i < list.n; i++)
        if (below(every) == 0)
            list.idx[list.count++] = list.base + (uint32_t)i;
    for (size_t i = 0; again && i < list.n; i++)
        list.idx[list.count++] = list.base + (uint32_t)below(1 + list.n / 3);
    fill(w.type, list.val, list.n * 2);
}

static unsigned messages[2]; /* refused, and good */

static void overwrite_list(void)
{
    memset(list.idx, 0x77, 4 * 2 * list.n);
    memset(list.val, 0x77, 8 * 2 * list.n);
    free(list.idx);
    free(list.val);
}

static void with_list(size_t which, enum ss_op op, int to)
{
    make_list(which == 3);
    if (which == 0)
        ALIKE(clear_at(p, w.type, at(v[to]), list.base, list.idx, list.count));
    else if (which == 1)
        ALIKE(scatter(p, w.type, at(v[to]), list.base, list.idx, list.val, list.count));
    else if (which == 2)
        ALIKE(accumulate(p, w.type, op, at(v[to]), list.base, list.idx, list.val, list.count));
    else if (which == 3)
        ALIKE(add_at(p, w.type, at(v[RESIDUAL]), list.base, list.idx, list.val, list.count));
    else if (which == 4)
        ALIKE(write(p, w.type, at(v[to]), list.val, list.n));
    else if (which == 5)
        ALIKE(reduce(p, w.type, op, at(v[to]), list.val, list.n));
    else
        ALIKE(add_dense(p, w.type, at(v[RESIDUAL]), list.val, list.n));
    overwrite_list();
}

/* A received chunk as it came, some damaged: the same of both, and the same refused. */
static void a_message(enum ss_op op, int to)
{
    static uint32_t scratch[SS_CHUNK_ENTRIES];
    static double values[SS_CHUNK_ENTRIES];
    const struct ss_wire_key key = {w.type, 1, 1};
    const struct ss_rounding how = {.values = below(2) ? SS_VALUES_BF16 : SS_VALUES_Q8,
                                    .bucket = SS_BUCKET_LEAST + (uint32_t)below(500)};
    const uint32_t nnz = SS_RICE_LONG + (uint32_t)below(1 + (w.n - SS_RICE_LONG) / 2);
    struct ss_coded coded = {.nnz = 0};
    const struct ss_wire_scratch as = {.idx = scratch, .val = values, .coded = &coded};
    struct result *r = new_result(sizeof(int), check_same);
    struct ss_chunk chunk;

    make_list(false);
    list.base = (uint32_t)below(1000);
    char *msg = malloc(ss_wire_bound(w.type, nnz));
    uint32_t *idx = malloc(4 * (size_t)nnz);
    for (uint32_t i = 0, at = list.base; i < nnz; i++, at++) {
        const uint32_t spare = (uint32_t)w.n - (at - list.base) - (nnz - i);
        at += (uint32_t)below(1 + (spare < 3 ? spare : 3));
        idx[i] = at;
    }
    char *val = malloc((size_t)nnz * 8);
    fill(w.type, val, nnz);
    const struct ss_wire_rounding rounding = {.how = &how, .val = val};
    const bool rounded = ss_type_is_float(w.type) && below(2);
    size_t length = ss_wire_encode(msg, &key, SS_CODING_PACKED, idx, val, nnz, true,
                                   rounded ? &rounding : NULL);
    if (below(2) == 0)
        msg[length - 1 - below(nnz / 8)] ^= (char)(1 << below(8));
    *(int *)r->got = *(int *)r->wanted = 0;
    if (ss_wire_decode(msg, length, &key, list.base, list.base + (uint32_t)w.n, &as, &chunk) ==
            SS_OK &&
        chunk.coded) {
        coded.sender = 6;
        BOTH(decode(p, w.type, nnz % 2 ? &op : NULL, v[to], list.base, &coded, r->wanted),
             decode(p, w.type, nnz % 2 ? &op : NULL, v[to], list.base, &coded, r->got));
        messages[*(int *)r->wanted == 0]++;
    }
    memset(msg, 0x77, length);
    free(msg);
    free(idx);
    free(val);
    overwrite_list();
}

static void a_list(enum ss_op op)
{
    size_t which = below(7);

    if (!ss_type_is_float(w.type) && (which == 3 || which == 6))
        which = 2;
    with_list(which, op, below(2) ? IN : OUT);
}

static void within(void)
{
    const double share = unit();

    switch (below(ss_type_is_float(w.type) ? 6 : 2)) {
    case 0:
        ALIKE(clear(p, w.type, v[OUT], w.n));
        break;
    case 1:
        ALIKE(copy(p, w.type, v[OUT], v[IN], w.n));
        break;
    case 2:
        ALIKE(add(p, w.type, v[RESIDUAL], v[IN], w.n));
        break;
    case 3:
        ALIKE(join(p, w.type, v[IN], v[RESIDUAL], v[OUT], w.n, share));
        break;
    case 4:
        ALIKE(leave(p, w.type, v[RESIDUAL], w.n, share));
        break;
    default:
        ALIKE(scale(p, w.type, v[RESIDUAL], w.n, share));
        break;
    }
}

static void read_some(void)
{
    const size_t first = below(w.n), n = below(w.n - first + 1), size = ss_type_size(w.type);
    struct result *r = new_result(n * size, check_same);

    BOTH(read(p, w.type, v[OUT] + first * size, n, r->wanted),
         read(p, w.type, v[OUT] + first * size, n, r->got));
}

/* Opened, changed and closed: waits. */
static void open_some(void)
{
    const size_t size = ss_type_size(w.type);
    void *room = malloc(w.n * size), *found = NULL;
    ss_ticket ticket = backend->ops->open(backend, w.type, w.there[OUT], w.n, room, &found);

    assert_int_equal(ss_backend_wait(backend, ticket), SS_OK);
    assert_memory_equal(found, w.here[OUT], w.n * size);
    fill(w.type, found, w.n);
    memcpy(w.here[OUT], found, w.n * size);
    backend->ops->close(backend, w.type, w.there[OUT], w.n, found);
    memset(room, 0x77, w.n * size);
    free(room);
}

static void read_runs(void)
{
    const size_t count = below(40);
    struct ss_run *runs = malloc((count + 1) * sizeof *runs);
    size_t n = 0;

    for (size_t j = 0; j < count; j++) {
        runs[j].first = below(w.n);
        runs[j].count = below((w.n - runs[j].first < 200 ? w.n - runs[j].first : 200) + 1);
        n += runs[j].count;
    }
    struct result *r = new_result(n * ss_type_size(w.type), check_same);
    BOTH(runs(p, w.type, v[OUT], runs, count, r->wanted),
         runs(p, w.type, v[OUT], runs, count, r->got));
    memset(runs, 0x77, count * sizeof *runs);
    free(runs);
}

static void scan_some(enum ss_op op)
{
    const size_t room = below(3) ? below(w.n + 1) : w.n, n = below(8) ? w.n : below(w.n + 1);
    struct result *r = new_result(sizeof(struct ss_scan), check_scan);

    with_lists(r, room);
    BOTH(scan(p, w.type, op, v[IN], n, 17, r->want_idx, r->want_val, room, r->wanted),
         scan(p, w.type, op, v[IN], n, 17, r->to_idx, r->to_val, room, r->got));
}

static void ask(void)
{
    const int g = below(2) ? IN : RESIDUAL;
    struct result *r;

    switch (below(3)) {
    case 0:
        r = new_result(sizeof(double), check_close);
        BOTH(square(p, w.type, v[g], w.n, r->wanted), square(p, w.type, v[g], w.n, r->got));
        break;
    case 1:
        r = new_result(sizeof(size_t), check_same);
        BOTH(not_finite(p, w.type, v[IN], g == IN ? NULL : v[g], w.n, r->wanted),
             not_finite(p, w.type, v[IN], g == IN ? NULL : v[g], w.n, r->got));
        break;
    default:
        r = new_result(SS_SKETCH_BUCKETS * sizeof(double), check_sketch);
        BOTH(sketch(p, w.type, v[OUT], w.n, r->wanted), sketch(p, w.type, v[OUT], w.n, r->got));
    }
}

static struct result *claim_buckets(void)
{
    const size_t bucket = 1 + below(below(2) ? w.n : 700),
                 k = 1 + below(below(2) ? bucket : 1 + bucket / 8);
    struct result *r = new_result(sizeof(struct claimed), check_claim);
    struct claimed *got = r->got, *wanted = r->wanted;

    memset(got, 0, sizeof *got);
    memset(wanted, 0, sizeof *wanted);
    with_lists(r, k * ((w.n + bucket - 1) / bucket));
    BOTH(claim_buckets(p, w.type, v[IN], v[RESIDUAL], w.n, 5, k, bucket, r->want_idx, r->want_val,
                       &wanted->out),
         claim_buckets(p, w.type, v[IN], v[RESIDUAL], w.n, 5, k, bucket, r->to_idx, r->to_val,
                       &got->out));
    return r;
}

static size_t any_length(void)
{
    return 1 + below(below(3) ? 3000 : below(3) ? 64 : 20000);
}

static void operate(bool floats)
{
    const enum ss_op op = floats ? SS_SUM : (enum ss_op)below(SS_OPS);

    if (w.n > 2 * SS_RICE_LONG && below(10) == 0) {
        a_message(op, below(2) ? IN : OUT);
        return;
    }
    switch (below(floats ? 12 : 9)) {
    case 0:
    case 1:
    case 2:
        a_list(op);
        break;
    case 3:
    case 4:
        within();
        break;
    case 5:
        read_some();
        break;
    case 6:
        read_runs();
        break;
    case 7:
        scan_some(op);
        break;
    case 8:
        if (below(4) == 0)
            open_some();
        break;
    case 9:
        ask();
        break;
    case 10:
        if (memcmp(&w.threshold[0], &w.threshold[1], sizeof w.threshold[0]) == 0) /* it is there */
            claim(below(3), 1 + below(w.n));
        break;
    default:
        claim_buckets();
    }
}

static void any_operations_equal_the_hosts(void **state)
{
    (void)state;
    for (int c = 0; c < 60 || ((messages[0] < 5 || messages[1] < 5) && c < 300); c++) {
        const enum ss_type type = (enum ss_type)(c % 6 < 4 ? c % 2 : c % 4);
        open_world(type, any_length());
        for (int i = 0; i < 40; i++) {
            operate(ss_type_is_float(type));
            if (w.results == RESULTS || below(20) == 0)
                look_at_results();
        }
        close_world();
    }
    if (messages[0] < 5 || messages[1] < 5)
        fail_msg("%u messages were refused, %u good", messages[0], messages[1]);
}

/* ---- what is large, what is given up, what fails ---- */

/* More than all slots hold, both ways, behind a claim that is under way. */
static void arrays_larger_than_all_slots_cross(void **state)
{
    const size_t n = (size_t)GPU_SLOTS * GPU_SLOT_BYTES / 4 + 300001;
    uint32_t *here = malloc(4 * n), *back = malloc(4 * n), *sent = malloc(4 * n), idx[14];
    void *near, *other;
    float val[14];
    struct ss_threshold t = {.period = 1};
    struct ss_selection out;
    bool few;

    (void)state;
    backend = &gpu_rank(0)->backend;
    near = gpu_rank_make(0, 4 * n);
    other = gpu_rank_make(0, 400);
    for (size_t i = 0; i < n; i++)
        here[i] = (uint32_t)chance();
    backend->ops->claim(backend, &t, SS_F32, gpu_far(other), NULL, 100, 0, 10, idx, val, &out,
                        &few);
    backend->ops->write(backend, SS_I32, gpu_far(near), here, n);
    ss_ticket ticket = backend->ops->read(backend, SS_I32, gpu_far(near), n, back);
    backend->ops->clear(backend, SS_I32, gpu_far(near), n);
    memcpy(sent, here, 4 * n);
    memset(here, 0, 4 * n);
    assert_int_equal(ss_backend_wait(backend, ticket), SS_OK);
    assert_memory_equal(back, sent, 4 * n);
    gpu_ranks_finish();
    for (size_t i = 0; i < n; i += 997)
        assert_int_equal(((uint32_t *)near)[i], 0);
    free(here);
    free(back);
    free(sent);
    gpu_ranks_end();
}

/* What nobody has asked for up to there is not written, and does not stand in the way. */
static void results_are_given_to_those_who_ask(void **state)
{
    enum { READS = 100 };
    float to[READS], *near;
    ss_ticket ticket[READS];

    (void)state;
    backend = &gpu_rank(0)->backend;
    near = gpu_rank_make(0, 4 * READS);
    for (int i = 0; i < READS; i++) {
        near[i] = (float)i + 1;
        to[i] = 0;
    }
    for (size_t i = 0; i < READS; i++)
        ticket[i] = backend->ops->read(backend, SS_F32, (float *)gpu_far(near) + i, 1, &to[i]);
    for (size_t i = 0; i < READS; i += 7) {
        assert_int_equal(ss_backend_wait(backend, ticket[i]), SS_OK);
        for (size_t j = 0; j < READS; j++)
            assert_true(to[j] == (j <= i ? (float)j + 1 : 0));
    }
    gpu_ranks_finish();
    assert_true(to[READS - 1] == READS);
    gpu_ranks_end();
}

static void a_vector_is_zero_and_let_go_behind_its_work(void **state)
{
    (void)state;
    for (int c = 0; c < 10; c++) {
        struct ss_buf a = {.data = NULL};
        float first[50], last[50];
        backend = &gpu_rank(1)->backend;
        const size_t n = 50 + below(5000);
        assert_int_equal(backend->ops->make(backend, NULL, &a, 4 * n), SS_OK);
        backend->ops->read(backend, SS_F32, a.data, 50, first);
        backend->ops->read(backend, SS_F32, (float *)a.data + n - 50, 50, last);
        backend->ops->drop(backend, &a);
        assert_null(a.data);
        gpu_ranks_finish();
        for (size_t i = 0; i < 50; i++)
            assert_true(first[i] == 0 && last[i] == 0);
    }
    assert_true(gpu_rank(1)->device.used < 1 << 22);
    gpu_ranks_end();
}

/* Also where squares are too small to be told from zero. */
static void a_square_is_zero_of_zeros_only(void **state)
{
    static const double values[] = {0, -0.0, 1e-200, -1e-300, 0x1p-1074};

    (void)state;
    open_world(SS_F64, 700);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        double found = -1, wanted = -1;
        memset(w.near[IN], 0, 700 * sizeof(double));
        put(SS_F64, w.near[IN], 10 + below(600), values[i]);
        memcpy(w.here[IN], w.near[IN], 700 * sizeof(double));
        ss_host.ops->square(&ss_host, SS_F64, w.here[IN], 700, &wanted);
        ss_ticket ticket = backend->ops->square(backend, SS_F64, w.there[IN], 700, &found);
        assert_int_equal(ss_backend_wait(backend, ticket), SS_OK);
        assert_true(found == wanted && (found > 0) == (i > 0));
    }
    close_world();
}

/* Wherever it comes, it stays, nothing waits, and nothing is given back any more. */
static void an_error_is_for_good(void **state)
{
    static const char *const functions[] = {"cuLaunchKernel",       "cuMemcpyHtoDAsync_v2",
                                            "cuMemcpyDtoHAsync_v2", "cuEventQuery",
                                            "cuEventRecord",        "cuCtxPushCurrent_v2"};

    (void)state;
    (void)gpu_rank(0);
    if (!gpu_ranks_can_fail())
        skip();
    for (size_t c = 0; c < 60; c++) {
        char plan[100];
        float back[200];
        (void)snprintf(plan, sizeof plan, "%s:+%zu:400", functions[c % 6], 1 + c / 6);
        open_world(SS_F32, 200);
        (void)setenv("TEST_CUDA_FAIL", plan, 1);
        for (int i = 0; i < 20; i++) {
            claim(0, 20);
            with_list(2, SS_SUM, OUT);
            backend->ops->read(backend, SS_F32, w.there[OUT], 200, back);
            while (backend->ops->poll(backend, backend->ops->latest(backend)) == SS_PENDING)
                ;
        }
        assert_int_equal(backend->ops->poll(backend, backend->ops->latest(backend)), SS_ERR_DEVICE);
        memset(back, 0, sizeof back);
        ss_ticket ticket = backend->ops->read(backend, SS_F32, w.there[OUT], 200, back);
        assert_true(ticket > 0);
        assert_int_equal(ss_backend_wait(backend, ticket), SS_ERR_DEVICE);
        assert_true(back[0] == 0 && back[199] == 0);
        assert_int_equal(backend->ops->make(backend, NULL, &(struct ss_buf){0}, 40), SS_ERR_MEMORY);
        (void)unsetenv("TEST_CUDA_FAIL");
        drop_results();
        backend->ops->drop(backend, &w.residual);
        for (int v = 0; v < VECTORS; v++)
            free(w.here[v]);
        gpu_ranks_end();
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_operations_equal_the_hosts),
        cmocka_unit_test(arrays_larger_than_all_slots_cross),
        cmocka_unit_test(results_are_given_to_those_who_ask),
        cmocka_unit_test(a_vector_is_zero_and_let_go_behind_its_work),
        cmocka_unit_test(a_square_is_zero_of_zeros_only),
        cmocka_unit_test(an_error_is_for_good),
    };
    if (argc > 1)
        chance_seed(strtoull(argv[1], NULL, 0));
    return cmocka_run_group_tests_name("gpu_backend", tests, NULL, NULL);
}
