/* A concatenation of vectors is one vector: whatever is done to it is done to the right elements.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/segments.h"

enum { SEGMENTS = 7, ELEMENTS = 1000, TIMES = 400 };

struct both {
    float whole[ELEMENTS], parts[SEGMENTS][ELEMENTS];
    struct ss_segment list[SEGMENTS];
    struct ss_segments segments;
    uint64_t n, random;
};

static uint64_t draw(struct both *b, uint64_t below)
{
    b->random = ss_mix(b->random, 1);
    return b->random % below;
}

static float value(struct both *b)
{
    return draw(b, 3) == 0 ? (float)draw(b, 100) - 50 : 0;
}

static void make(struct both *b, uint64_t seed)
{
    memset(b, 0, sizeof *b);
    b->random = seed;
    for (int i = 0; i < SEGMENTS; i++) {
        uint64_t n = 1 + draw(b, ELEMENTS / SEGMENTS);
        b->list[i] = (struct ss_segment){.at = (unsigned char *)b->parts[i], .first = b->n, .n = n};
        for (uint64_t j = 0; j < n; j++)
            b->parts[i][j] = b->whole[b->n + j] = value(b);
        b->n += n;
    }
    ss_segments_init(&b->segments, b->list, SEGMENTS);
}

static void assert_same(const struct both *b)
{
    for (int i = 0; i < SEGMENTS; i++)
        assert_memory_equal(b->parts[i], b->whole + b->list[i].first, b->list[i].n * sizeof(float));
}

static void try_vectors(struct both *b, struct ss_backend *p, uint64_t first, size_t n)
{
    float from[ELEMENTS], mine[ELEMENTS], *v = (float *)b->segments.base + first;
    float *whole = b->whole + first;
    void *at;

    for (size_t i = 0; i < n; i++)
        from[i] = value(b);
    switch (draw(b, 5)) {
    case 0:
        p->ops->clear(p, SS_F32, v, n);
        ss_host.ops->clear(&ss_host, SS_F32, whole, n);
        break;
    case 1:
        p->ops->write(p, SS_F32, v, from, n);
        ss_host.ops->write(&ss_host, SS_F32, whole, from, n);
        break;
    case 2:
        p->ops->reduce(p, SS_F32, SS_SUM, v, from, n);
        ss_host.ops->reduce(&ss_host, SS_F32, SS_SUM, whole, from, n);
        break;
    case 3:
        p->ops->read(p, SS_F32, v, n, mine);
        assert_memory_equal(mine, whole, n * sizeof *mine);
        break;
    default:
        p->ops->open(p, SS_F32, v, n, mine, &at);
        assert_memory_equal(at, whole, n * sizeof *mine);
        for (size_t i = 0; i < n; i += 3)
            ((float *)at)[i] = whole[i] = from[i];
        p->ops->close(p, SS_F32, v, n, at);
    }
}

/* The entries of a stream, of indices from `base` on. */
static void try_entries(struct both *b, struct ss_backend *p, uint64_t first, size_t n,
                        uint32_t base)
{
    float *v = (float *)b->segments.base + first, *whole = b->whole + first, val[ELEMENTS];
    uint32_t idx[ELEMENTS];
    size_t nnz = 0;

    for (size_t i = 0; i < n; i++)
        if (draw(b, 4) == 0) {
            val[nnz] = value(b);
            idx[nnz++] = base + (uint32_t)i;
        }
    switch (draw(b, 3)) {
    case 0:
        p->ops->scatter(p, SS_F32, v, base, idx, val, nnz);
        ss_host.ops->scatter(&ss_host, SS_F32, whole, base, idx, val, nnz);
        break;
    case 1:
        p->ops->accumulate(p, SS_F32, SS_SUM, v, base, idx, val, nnz);
        ss_host.ops->accumulate(&ss_host, SS_F32, SS_SUM, whole, base, idx, val, nnz);
        break;
    default:
        p->ops->clear_at(p, SS_F32, v, base, idx, nnz);
        ss_host.ops->clear_at(&ss_host, SS_F32, whole, base, idx, nnz);
    }
}

static void try_scan(struct both *b, struct ss_backend *p, uint64_t first, size_t n, uint32_t base)
{
    uint32_t idx[2][ELEMENTS];
    float val[2][ELEMENTS];
    struct ss_scan seen[2] = {{0}, {0}};
    size_t room = draw(b, n + 1);

    p->ops->scan(p, SS_F32, SS_SUM, (float *)b->segments.base + first, n, base, idx[0], val[0],
                 room, &seen[0]);
    ss_host.ops->scan(&ss_host, SS_F32, SS_SUM, b->whole + first, n, base, idx[1], val[1], room,
                      &seen[1]);
    assert_int_equal(seen[0].nnz, seen[1].nnz);
    assert_int_equal(seen[0].stored, seen[1].stored);
    assert_int_equal(seen[0].stop, seen[1].stop);
    assert_int_equal(seen[0].negative_zero, seen[1].negative_zero);
    assert_int_equal(seen[0].not_finite, seen[1].not_finite);
    assert_memory_equal(idx[0], idx[1], seen[0].stored * sizeof idx[0][0]);
    assert_memory_equal(val[0], val[1], seen[0].stored * sizeof val[0][0]);
}

static void segments_are_one_vector(void **state)
{
    static struct both b;

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        make(&b, seed);
        struct ss_backend *p = &b.segments.backend;
        for (int i = 0; i < TIMES; i++) {
            uint64_t first = draw(&b, b.n), n = 1 + draw(&b, b.n - first);
            uint32_t base = draw(&b, 2) == 0 ? 0 : (uint32_t)draw(&b, 1000);
            try_vectors(&b, p, first, n);
            try_entries(&b, p, first, n, base);
            try_scan(&b, p, first, n, base);
            assert_same(&b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(segments_are_one_vector)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
