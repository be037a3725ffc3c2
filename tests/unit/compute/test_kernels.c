/* Every kernel table against naive loops, bit for bit. Inputs and outputs end at an unreadable
 * page, so that one byte too many faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/compute/kernels.h"
#include "tests/support/fp_settings.h"
#include "tests/unit/support/random_numbers.h"

enum { MOST = 70001 };

/* Memory whose last byte is the last before a page that faults. */
struct guarded {
    char *map;
    size_t length;
};

struct room {
    struct guarded src, idx, val;
    uint32_t *want_idx;
    void *want_val;
};

static struct guarded guard(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), length = (bytes + page - 1) / page * page;
    char *map =
        mmap(NULL, length + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map + length, page, PROT_NONE), 0);
    return (struct guarded){map, length};
}

/* The last `bytes` bytes before the page that faults. */
static void *tail(const struct guarded *g, size_t bytes)
{
    assert_true(bytes <= g->length);
    return g->map + g->length - bytes;
}

static int set_up(void **state)
{
    struct room *room = test_malloc(sizeof *room);
    room->src = guard(MOST * sizeof(uint64_t));
    room->idx = guard(MOST * sizeof(uint32_t));
    room->val = guard(MOST * sizeof(uint64_t));
    room->want_idx = test_malloc(MOST * sizeof(uint32_t));
    room->want_val = test_malloc(MOST * sizeof(uint64_t));
    *state = room;
    return 0;
}

static int tear_down(void **state)
{
    struct room *room = *state;
    struct guarded all[] = {room->src, room->idx, room->val};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        munmap(all[i].map, all[i].length + (size_t)sysconf(_SC_PAGESIZE));
    test_free(room->want_idx);
    test_free(room->want_val);
    test_free(room);
    return 0;
}

static uint64_t get(enum ss_type type, const void *array, size_t i)
{
    if (ss_type_size(type) == 8)
        return ((const uint64_t *)array)[i];
    return ((const uint32_t *)array)[i];
}

static void set(enum ss_type type, void *array, size_t i, uint64_t bits)
{
    if (ss_type_size(type) == 8)
        ((uint64_t *)array)[i] = bits;
    else
        ((uint32_t *)array)[i] = (uint32_t)bits;
}

/* Bits of values that go wrong most easily: subnormals, infinities, NaNs, -0.0, the extremes. */
static uint64_t special(enum ss_type type)
{
    static const uint32_t narrow[] = {1,          0x80000001, 0x007fffff, 0x7f800000, 0xff800000,
                                      0x7fc00000, 0xffffffff, 0x80000000, 0x7f7fffff, 0x00800000};
    static const uint64_t wide[] = {
        1,          0x8000000000000001, 0x000fffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
        0x80000000, 0xffffffffffffffff, 0x8000000000000000, 0x7fefffffffffffff, 0x100000000};
    size_t i = random64() % 10;
    return ss_type_size(type) == 8 ? wide[i] : narrow[i];
}

static void fill(enum ss_type type, void *array, size_t n, double density, double specials)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = random_unit() < density ? random64() : 0;
        set(type, array, i, random_unit() < specials ? special(type) : bits);
    }
}

/* What kernels.h promises of a scan, element by element. */
static struct ss_scan naive_scan(enum ss_type type, enum ss_op op, const void *src, size_t n,
                                 uint32_t base, uint32_t *idx, void *val, size_t capacity)
{
    struct ss_scan out = {.stop = n};
    bool wide = ss_type_size(type) == 8;
    uint64_t sign = wide ? 1ull << 63 : 1u << 31, top = wide ? 0x7ffull << 52 : 0xffu << 23;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = get(type, src, i);
        if (ss_type_is_float(type)) {
            out.negative_zero |= bits == sign;
            out.not_finite |= (bits & top) == top;
            if (bits == sign)
                continue;
        }
        if (bits == 0)
            continue;
        if (out.stored < capacity) {
            idx[out.stored] = base + (uint32_t)i;
            set(type, val, out.stored++, op == SS_LOR || op == SS_LXOR ? 1 : bits);
        } else if (out.nnz == capacity) {
            out.stop = i;
        }
        out.nnz++;
    }
    return out;
}

static void check_scan(struct room *room, const struct ss_kernels *kernels, enum ss_type type,
                       enum ss_op op, size_t n, size_t capacity)
{
    const void *src = tail(&room->src, n * ss_type_size(type));
    uint32_t *idx = tail(&room->idx, capacity * sizeof *idx);
    void *val = tail(&room->val, capacity * ss_type_size(type));
    uint32_t base = (uint32_t)random64() & 0xffffff;
    struct ss_scan want =
        naive_scan(type, op, src, n, base, room->want_idx, room->want_val, capacity);
    struct ss_scan got = {0};
    kernels->scan(type, op, src, n, base, idx, val, capacity, &got);
    assert_int_equal(got.nnz, want.nnz);
    assert_int_equal(got.stored, want.stored);
    assert_int_equal(got.stop, want.stop);
    assert_int_equal(got.negative_zero, want.negative_zero);
    assert_int_equal(got.not_finite, want.not_finite);
    assert_memory_equal(idx, room->want_idx, want.stored * sizeof *idx);
    assert_memory_equal(val, room->want_val, want.stored * ss_type_size(type));
}

static void check_capacities(struct room *room, const struct ss_kernels *kernels, enum ss_type type,
                             enum ss_op op, size_t n)
{
    const void *src = tail(&room->src, n * ss_type_size(type));
    size_t nnz = naive_scan(type, op, src, n, 0, room->want_idx, room->want_val, n).nnz;
    size_t capacities[] = {n, nnz, nnz ? nnz - 1 : 0, nnz / 2, 1, 0};
    for (size_t c = 0; c < sizeof capacities / sizeof capacities[0]; c++)
        check_scan(room, kernels, type, op, n, capacities[c]);
}

static void check_all_scans(struct room *room, size_t n, double density, double specials)
{
    for (enum ss_type type = 0; type < SS_TYPES; type++) {
        fill(type, tail(&room->src, n * ss_type_size(type)), n, density, specials);
        for (size_t k = 0; ss_kernels_at(k); k++) {
            check_capacities(room, ss_kernels_at(k), type, SS_SUM, n);
            if (!ss_type_is_float(type))
                check_capacities(room, ss_kernels_at(k), type, n % 2 ? SS_LOR : SS_LXOR, n);
        }
    }
}

static const double densities[] = {0, 0.0078, 0.06, 0.3, 0.6, 0.95, 1};
enum { DENSITIES = sizeof densities / sizeof densities[0] };

static void every_table_scans_alike_at_any_size_density_and_capacity(void **state)
{
    for (size_t n = 0; n <= 200; n++)
        for (size_t d = 0; d < DENSITIES; d++)
            check_all_scans(*state, n, densities[d], n % 3 ? 0 : 0.05);
    const size_t large[] = {1021, 4099, MOST};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        for (size_t d = 0; d < DENSITIES; d++)
            check_all_scans(*state, large[i], densities[d], 0.001);
}

static void one_entry_is_found_wherever_it_is(void **state)
{
    struct room *room = *state;
    const size_t n = 333;
    for (enum ss_type type = 0; type < SS_TYPES; type++) {
        void *src = tail(&room->src, n * ss_type_size(type));
        memset(src, 0, n * ss_type_size(type));
        for (size_t i = 0; i < n; i++) {
            set(type, src, i, special(type));
            for (size_t k = 0; ss_kernels_at(k); k++)
                for (size_t capacity = 0; capacity < 2; capacity++)
                    check_scan(room, ss_kernels_at(k), type, SS_SUM, n, capacity);
            set(type, src, i, 0);
        }
    }
}

static void not_finite_and_negative_zero_are_seen_past_the_capacity(void **state)
{
    struct room *room = *state;
    const size_t n = 1000;
    for (size_t k = 0; ss_kernels_at(k); k++) {
        for (int which = 0; which < 2; which++) {
            uint32_t *src = tail(&room->src, n * sizeof *src);
            for (size_t i = 0; i < n; i++)
                src[i] = 0x3f800000;
            src[n - 1] = which ? 0x7f800000 : 0x80000000;
            struct ss_scan got;
            ss_kernels_at(k)->scan(SS_F32, SS_SUM, src, n, 0, tail(&room->idx, 40),
                                   tail(&room->val, 40), 10, &got);
            assert_int_equal(got.stop, 10);
            assert_int_equal(got.not_finite, which == 1);
            assert_int_equal(got.negative_zero, which == 0);
        }
    }
}

/* Integers of the same bits are no floats. */
static void integers_have_no_special_values(void **state)
{
    struct room *room = *state;
    uint32_t *src = tail(&room->src, 100 * sizeof *src);
    for (size_t k = 0; ss_kernels_at(k); k++) {
        for (size_t i = 0; i < 100; i++)
            src[i] = i % 2 ? 0x80000000 : 0x7f800000;
        struct ss_scan got;
        ss_kernels_at(k)->scan(SS_I32, SS_SUM, src, 100, 0, tail(&room->idx, 400),
                               tail(&room->val, 400), 100, &got);
        assert_int_equal(got.nnz, 100);
        assert_false(got.negative_zero);
        assert_false(got.not_finite);
    }
}

static void subnormals_are_values_when_the_application_flushes_them(void **state)
{
    struct room *room = *state;
    const size_t n = 257;
    const ss_fpenv saved = ss_fpenv_now();
    for (int wide = 0; wide < 2; wide++) {
        enum ss_type type = wide ? SS_F64 : SS_F32;
        void *src = tail(&room->src, n * ss_type_size(type));
        for (size_t i = 0; i < n; i++)
            set(type, src, i, i + 1);
        for (size_t k = 0; ss_kernels_at(k); k++) {
            struct ss_scan got;
            fp_set(FP_FLUSH);
            ss_kernels_at(k)->scan(type, SS_SUM, src, n, 0, tail(&room->idx, n * 4),
                                   tail(&room->val, n * ss_type_size(type)), n, &got);
            ss_fpenv_leave(saved);
            assert_int_equal(got.nnz, n);
            assert_memory_equal(tail(&room->val, n * ss_type_size(type)), src,
                                n * ss_type_size(type));
        }
    }
}

/* a op b on bits, the slow way. */
static uint64_t combine(enum ss_type type, enum ss_op op, uint64_t a, uint64_t b)
{
    if (type == SS_F32) {
        uint32_t narrow[2] = {(uint32_t)a, (uint32_t)b}, bits;
        float x[2];
        memcpy(x, narrow, sizeof x);
        x[0] += x[1];
        memcpy(&bits, x, sizeof bits);
        return bits;
    }
    if (type == SS_F64) {
        double x, y;
        memcpy(&x, &a, sizeof x);
        memcpy(&y, &b, sizeof y);
        x += y;
        memcpy(&a, &x, sizeof a);
        return a;
    }
    uint64_t result = op == SS_SUM    ? a + b
                      : op == SS_BOR  ? (a | b)
                      : op == SS_BXOR ? (a ^ b)
                      : op == SS_LOR  ? (a || b)
                                      : (!a != !b);
    return type == SS_I32 ? (uint32_t)result : result;
}

/* Finite values for sums, zeros among them, so that NaN payloads do not decide. */
static void fill_operand(enum ss_type type, void *array, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = random64() % 4 ? random64() : 0;
        if (type == SS_F32)
            bits &= 0xbfffffff;
        else if (type == SS_F64)
            bits &= 0xbfffffffffffffff;
        set(type, array, i, bits);
    }
}

typedef void (*combination)(struct room *, const struct ss_kernels *, enum ss_type, enum ss_op);

static void for_each_combination(void **state, combination check)
{
    for (size_t k = 0; ss_kernels_at(k); k++)
        for (enum ss_type type = 0; type < SS_TYPES; type++)
            for (enum ss_op op = 0; op < (ss_type_is_float(type) ? 1 : SS_OPS); op++)
                check(*state, ss_kernels_at(k), type, op);
}

static void check_reduce(struct room *room, const struct ss_kernels *kernels, enum ss_type type,
                         enum ss_op op)
{
    for (size_t n = 0; n < 300; n += n < 140 ? 1 : 53) {
        size_t bytes = n * ss_type_size(type);
        void *dst = tail(&room->val, bytes), *src = tail(&room->src, bytes);
        fill_operand(type, dst, n);
        fill_operand(type, src, n);
        for (size_t i = 0; i < n; i++)
            set(type, room->want_val, i, combine(type, op, get(type, dst, i), get(type, src, i)));
        kernels->reduce(type, op, dst, src, n);
        assert_memory_equal(dst, room->want_val, bytes);
    }
}

static void reduce_is_element_by_element(void **state)
{
    for_each_combination(state, check_reduce);
}

/* About density * n ascending indices from `start`; returns how many. */
static size_t index_set(uint32_t *idx, size_t n, uint32_t start, double density)
{
    size_t nnz = 0;
    for (size_t i = 0; i < n; i++)
        if (random_unit() < density)
            idx[nnz++] = start + (uint32_t)i;
    return nnz;
}

static void check_accumulate(struct room *room, const struct ss_kernels *kernels, enum ss_type type,
                             enum ss_op op)
{
    const size_t n = 1500;
    size_t size = ss_type_size(type);
    for (size_t d = 0; d < DENSITIES; d++) {
        uint32_t base = (uint32_t)random64() & 0xffff;
        size_t nnz = index_set(room->want_idx, n, base, densities[d]);
        uint32_t *idx = tail(&room->idx, nnz * sizeof *idx);
        memcpy(idx, room->want_idx, nnz * sizeof *idx);
        void *dst = tail(&room->val, n * size), *val = tail(&room->src, nnz * size);
        fill_operand(type, dst, n);
        fill_operand(type, val, nnz);

        memcpy(room->want_val, dst, n * size);
        for (size_t j = 0; j < nnz; j++)
            set(type, room->want_val, idx[j] - base,
                combine(type, op, get(type, dst, idx[j] - base), get(type, val, j)));
        kernels->accumulate(type, op, dst, base, idx, val, nnz);
        assert_memory_equal(dst, room->want_val, n * size);

        for (size_t j = 0; j < nnz; j++)
            set(type, room->want_val, idx[j] - base, get(type, val, j));
        kernels->scatter(type, dst, base, idx, val, nnz);
        assert_memory_equal(dst, room->want_val, n * size);
    }
}

static void accumulate_and_scatter_touch_only_their_indices(void **state)
{
    for_each_combination(state, check_accumulate);
}

struct stream {
    uint32_t idx[2048];
    uint64_t val[2048]; /* nnz elements of the type */
    size_t nnz;
};

static void random_stream(struct stream *s, enum ss_type type, uint32_t start, double density)
{
    s->nnz = index_set(s->idx, 1000, start, density);
    fill_operand(type, s->val, s->nnz);
}

static void check_one_merge(struct room *room, const struct ss_kernels *kernels, enum ss_type type,
                            enum ss_op op, const struct stream *a, const struct stream *b)
{
    size_t i = 0, j = 0, want = 0, size = ss_type_size(type);
    while (i < a->nnz || j < b->nnz) {
        bool from_a = j == b->nnz || (i < a->nnz && a->idx[i] <= b->idx[j]);
        bool from_b = i == a->nnz || (j < b->nnz && b->idx[j] <= a->idx[i]);
        uint64_t x = from_a ? get(type, a->val, i) : 0, y = from_b ? get(type, b->val, j) : 0;
        room->want_idx[want] = from_a ? a->idx[i] : b->idx[j];
        set(type, room->want_val, want++,
            from_a && from_b ? combine(type, op, x, y)
            : from_a         ? x
                             : y);
        i += from_a;
        j += from_b;
    }
    uint32_t *idx = tail(&room->idx, (a->nnz + b->nnz) * sizeof *idx);
    void *val = tail(&room->val, (a->nnz + b->nnz) * size);
    size_t got = kernels->merge(type, op, a->idx, a->val, a->nnz, b->idx, b->val, b->nnz, idx, val);
    assert_int_equal(got, want);
    assert_memory_equal(idx, room->want_idx, want * sizeof *idx);
    assert_memory_equal(val, room->want_val, want * size);
}

static void check_merge(struct room *room, const struct ss_kernels *kernels, enum ss_type type,
                        enum ss_op op)
{
    static struct stream a, b;
    const double sides[] = {0, 0.003, 0.02, 0.3, 1};
    for (size_t x = 0; x < sizeof sides / sizeof sides[0]; x++)
        for (size_t y = 0; y < sizeof sides / sizeof sides[0]; y++)
            for (uint32_t shift = 0; shift <= 1200; shift += 400) {
                random_stream(&a, type, 600, sides[x]);
                random_stream(&b, type, shift, sides[y]);
                check_one_merge(room, kernels, type, op, &a, &b);
            }
    memcpy(b.idx, a.idx, sizeof a.idx); /* equal sets */
    b.nnz = a.nnz;
    fill_operand(type, b.val, b.nnz);
    check_one_merge(room, kernels, type, op, &a, &b);
}

static void merge_is_the_union_with_shared_entries_combined(void **state)
{
    for_each_combination(state, check_merge);
}

static void nothing_merged_with_nothing_is_nothing(void **state)
{
    (void)state;
    for (size_t k = 0; ss_kernels_at(k); k++)
        assert_int_equal(
            ss_kernels_at(k)->merge(SS_F32, SS_SUM, NULL, NULL, 0, NULL, NULL, 0, NULL, NULL), 0);
}

static void lower_bound_counts_what_is_below(void **state)
{
    (void)state;
    uint32_t idx[300];
    for (int round = 0; round < 20; round++) {
        size_t nnz = index_set(idx, 300, 5, random_unit());
        for (uint32_t bound = 0; bound < 320; bound++) {
            size_t below = 0;
            while (below < nnz && idx[below] < bound)
                below++;
            assert_int_equal(ss_lower_bound(idx, nnz, bound), below);
        }
    }
    assert_int_equal(ss_lower_bound(NULL, 0, 7), 0);
}

static void the_best_table_is_the_first_and_plain_is_always_there(void **state)
{
    (void)state;
    size_t count = 0;
    while (ss_kernels_at(count))
        count++;
    assert_true(count >= 1);
    assert_ptr_equal(ss_kernels(), ss_kernels_at(0));
    assert_string_equal(ss_kernels_at(count - 1)->name, "plain");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_scans_alike_at_any_size_density_and_capacity),
        cmocka_unit_test(one_entry_is_found_wherever_it_is),
        cmocka_unit_test(not_finite_and_negative_zero_are_seen_past_the_capacity),
        cmocka_unit_test(integers_have_no_special_values),
        cmocka_unit_test(subnormals_are_values_when_the_application_flushes_them),
        cmocka_unit_test(reduce_is_element_by_element),
        cmocka_unit_test(accumulate_and_scatter_touch_only_their_indices),
        cmocka_unit_test(merge_is_the_union_with_shared_entries_combined),
        cmocka_unit_test(nothing_merged_with_nothing_is_nothing),
        cmocka_unit_test(lower_bound_counts_what_is_below),
        cmocka_unit_test(the_best_table_is_the_first_and_plain_is_always_there),
    };
    return cmocka_run_group_tests_name("kernels", tests, set_up, tear_down);
}
