/* Checks of the kernels for streams and dense vectors. */
#ifndef TESTS_GPU_CHECK_VECTOR_H
#define TESTS_GPU_CHECK_VECTOR_H

#include <float.h>

#include "core/backend/backend.h"
#include "core/compute/kernels.h"
#include "core/compute/vector.h"
#include "core/wire/rice.h"
#include "core/wire/value_buckets.h"
#include "core/wire/values.h"
#include "core/wire/wire.h"
#include "gpu/queue/launch_impl.h"
#include "tests/gpu/check_cases.h"

/* ---- streams ---- */

static void *words(enum ss_type type, size_t n, size_t behind)
{
    void *v = vector(type, n, behind);
    const enum kind kind = (enum kind)below(KINDS);

    if (ss_type_is_float(type))
        for (size_t i = 0; i < n; i++)
            put(type, v, i, number_like(type, kind));
    else
        for (size_t i = 0; i < n; i++) {
            uint64_t x = below(3) ? 0 : below(2) ? 1 : chance();
            memcpy((char *)v + bytes_of(type, i), &x, ss_type_size(type));
        }
    return v;
}

static const char *check_scan(struct emulated *e)
{
    enum ss_op op;
    const enum ss_type type = any_type(&op);
    const size_t n = length(type), room = below(2) ? n : below(n + 1);
    void *src = words(type, n, below(4));
    struct gpu_list list = {array(room * 4), array(bytes_of(type, room)), room};
    uint32_t *idx = array(4 * (n + 1));
    void *val = array(bytes_of(type, n + 1));
    struct gpu_scanned *found = work_area(gpu_scan_work(type, n));
    struct ss_scan want;

    if (ss_type_is_float(type) && below(3) == 0)
        spoil(type, src, n, 1);
    shuffle_machine(e);
    ss_kernels()->scan(type, op, src, n, 7, idx, val, room, &want);
    gpu_scan(&e->q, type, op, src, n, 7, &list, found);
    if (found->nnz != want.nnz || (want.nnz > room && found->stop != want.stop))
        return complaint("%llu entries, stop %llu; wanted %zu, %zu", found->nnz, found->stop,
                         want.nnz, want.stop);
    if (ss_type_is_float(type) && ((found->negative_zero != 0) != want.negative_zero ||
                                   (found->not_finite != 0) != want.not_finite))
        return "flags differ";
    if (memcmp(list.idx, idx, 4 * want.stored) != 0 ||
        memcmp(list.val, val, bytes_of(type, want.stored)) != 0)
        return "entries differ";
    return NULL;
}

/* Of a part of the elements. */
static const char *check_bitmap(struct emulated *e)
{
    const size_t n = 1 + below(9000), bits = 1 + below(n), words = (bits + 31) / 32;
    const uint32_t base = (uint32_t)below(100), first = base + (uint32_t)below(n);
    uint32_t *idx = array(4 * n), *map = work_area(4 * words + 64), nnz = 0, at = 0;

    for (size_t i = 0, every = 1 + below(5); i < n; i++)
        if (below(every) == 0)
            idx[nnz++] = base + (uint32_t)i;
    shuffle_machine(e);
    gpu_bitmap(&e->q, idx, nnz, first, bits, map);
    while (at < nnz && idx[at] < first)
        at++;
    for (size_t i = 0; i < 32 * words; i++) {
        const bool is = i < bits && at < nnz && idx[at] == first + i;
        at += is;
        if ((map[i / 32] >> i % 32 & 1) != is)
            return complaint("bit %zu of %zu", i, bits);
    }
    for (size_t i = words; i < words + 16; i++)
        if (map[i] != 0x5a5a5a5au)
            return "written past the bitmap";
    return NULL;
}

/* Some of n indices, ascending or not. */
static uint32_t *some_of(size_t n, size_t *count, uint32_t base, bool ascending)
{
    uint32_t *idx = array(4 * n);

    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (below(7) == 0)
            idx[(*count)++] = base + (uint32_t)i;
    for (size_t i = *count; !ascending && i > 1; i--) {
        const size_t j = below(i);
        const uint32_t x = idx[j];
        idx[j] = idx[i - 1];
        idx[i - 1] = x;
    }
    return idx;
}

static const char *check_entries(struct emulated *e)
{
    enum ss_op op;
    const enum ss_type type = any_type(&op);
    const size_t n = length(type), bytes = bytes_of(type, n);
    size_t count;
    uint32_t *idx = some_of(n, &count, 5, true);
    void *val = words(type, n, below(4)), *dst = words(type, n, below(4)),
         *want = copied(dst, bytes);
    const struct ss_backend_ops *host = ss_host.ops;

    shuffle_machine(e);
    gpu_accumulate(&e->q, type, op, dst, 5, idx, val, count, NULL);
    ss_kernels()->accumulate(type, op, want, 5, idx, val, count);
    if (memcmp(dst, want, bytes) != 0)
        return complaint("accumulate of %s by %s", ss_type_name(type), ss_op_name(op));
    gpu_scatter(&e->q, type, dst, 5, idx, val, count, NULL);
    ss_kernels()->scatter(type, want, 5, idx, val, count);
    if (memcmp(dst, want, bytes) != 0)
        return "scatter";
    if (ss_type_is_float(type)) {
        size_t some;
        uint32_t *mixed = some_of(n, &some, 5, false);
        put(type, dst, 0, type == SS_F32 ? (double)FLT_MAX : DBL_MAX);
        put(type, want, 0, type == SS_F32 ? (double)FLT_MAX : DBL_MAX);
        put(type, val, 0, type == SS_F32 ? (double)FLT_MAX : DBL_MAX);
        gpu_add_at(&e->q, type, dst, 5, mixed, val, some);
        ss_vector_add_at(type, want, 5, mixed, val, some);
        if (memcmp(dst, want, bytes) != 0)
            return "add_at";
    }
    gpu_clear_at(&e->q, type, dst, 5, idx, count);
    host->clear_at(&ss_host, type, want, 5, idx, count);
    if (memcmp(dst, want, bytes) != 0)
        return "clear_at";
    for (size_t j = 0; j < count; j++)
        idx[j] -= 5;
    gpu_pick(&e->q, type, dst, idx, count, val);
    for (size_t j = 0; j < count; j++)
        if (memcmp((char *)val + bytes_of(type, j), (char *)dst + bytes_of(type, idx[j]),
                   ss_type_size(type)) != 0)
            return "pick";
    return NULL;
}

/* Received messages as they came: the same are refused, and the same entries come of the others. */
enum damage { NO_DAMAGE, FLIPS, LONGER_RUN, NEEDLESS_ESCAPE, DAMAGES };

static uint32_t *ascending(uint32_t nnz, enum damage damage)
{
    const double gap[] = {1, 3, 40, 3000, 60000}, most = gap[below(5)];
    const uint32_t far = 1 + (uint32_t)below(nnz - 1);
    uint32_t *idx = array(4 * nnz), at = (uint32_t)below(50);

    for (uint32_t i = 0; i < nnz; i++, at++) {
        if (damage != NEEDLESS_ESCAPE)
            at += (uint32_t)(unit() * most * (below(300) ? 1 : 90));
        else if (i == far)
            at += 100000;
        idx[i] = at;
    }
    return idx;
}

/* In the payload behind the values: bytes from the head of the indices on. */
static void do_damage(uint8_t *at, size_t bytes, const uint32_t *idx, uint32_t nnz,
                      enum damage damage)
{
    enum { LAST = 8, RUNS = 12 };
    const size_t runs = ss_rice_runs(false, nnz);

    for (size_t flips = damage == FLIPS ? 1 + below(3) : 0; flips > 0; flips--)
        at[below(bytes)] ^= (uint8_t)(1 << below(8));
    if (damage == LONGER_RUN)
        at[RUNS + 2 * (runs - 1)]++;
    if (damage != NEEDLESS_ESCAPE)
        return;
    /* All gaps are 0, a bit each, but for one: it becomes shorter, and still is an escape. */
    uint32_t far = 1;
    while (idx[far] == idx[far - 1] + 1)
        far++;
    const uint32_t less = 100000 - (uint32_t)below(32), last = idx[nnz - 1] - less;
    uint8_t *code = at + RUNS + 2 * runs;
    for (uint32_t bit = 0, from = far - 1 + 32; bit < 32; bit++, from++) {
        const unsigned is = (100000 - less) >> bit & 1;
        code[from / 8] = (uint8_t)((code[from / 8] & ~(1u << from % 8)) | is << from % 8);
    }
    memcpy(at + LAST, &last, sizeof last);
}

static const char *check_coded(struct emulated *e)
{
    enum ss_op op;
    const enum ss_type type = any_type(&op);
    const enum damage damage = (enum damage)below(DAMAGES);
    const struct ss_wire_key key = {type, 1, 1};
    const uint32_t nnz = SS_RICE_LONG + (uint32_t)below(below(2) ? 300 : 20000);
    uint32_t *idx = ascending(nnz, damage), *to = array(4 * nnz), *refused = work_area(4),
             *told = work_area(4);
    void *val = words(type, nnz, 0);
    char *msg = array(ss_wire_bound(type, nnz));
    struct ss_coded coded;
    const struct ss_wire_scratch scratch = {.idx = array(4 * nnz), .coded = &coded};
    struct ss_chunk chunk;

    const size_t length = ss_wire_encode(msg, &key, SS_CODING_PACKED, idx, val, nnz, true, NULL),
                 head = SS_WIRE_HEADER + bytes_of(type, nnz);
    do_damage((uint8_t *)msg + head, length - head, idx, nnz, damage);
    if (ss_wire_decode(msg, length, &key, 0, UINT32_MAX, &scratch, &chunk) != SS_OK || !chunk.coded)
        return NULL;
    const void *values;
    const int good = ss_wire_decode_coded(&coded, type, &values) == SS_OK;
    if (good && damage > FLIPS)
        return "the host accepts what is damaged";
    void *payload = array((coded.bytes + 16 + 3) / 4 * 4);
    memcpy(payload, coded.payload, coded.bytes);
    const struct gpu_code code = {payload,
                                  (uint32_t)coded.runs,
                                  (uint32_t)coded.code,
                                  coded.parameter,
                                  coded.first,
                                  coded.last,
                                  nnz};
    *told = 0;
    shuffle_machine(e);
    gpu_unpack(&e->q, &code, to, refused, told);
    if (*told != !good || *refused != !good)
        return complaint("a good code is %d, refused %u", good, *told);
    if (good)
        return memcmp(to, coded.idx, 4 * nnz) != 0 ? "indices" : NULL;
    gpu_scatter(&e->q, type, NULL, 0, to, payload, nnz, refused);
    gpu_accumulate(&e->q, type, op, NULL, 0, to, payload, nnz, refused);
    return NULL;
}

/* Rounded values, some with a flip: the same of all buckets, and the same refused. */
static const char *check_rounded(struct emulated *e)
{
    const enum ss_type type = any_float();
    const struct ss_rounding how = {.values = below(2) ? SS_VALUES_BF16 : SS_VALUES_Q8,
                                    .bucket = SS_BUCKET_LEAST + (uint32_t)below(1000)};
    const uint32_t nnz = 1 + (uint32_t)below(9000);
    void *val = numbers(type, nnz, (enum kind)below(KINDS), 0),
         *coded = array(ss_values_bound(type, &how, nnz)), *to = vector(type, nnz, 0),
         *want = vector(type, nnz, 0);
    uint32_t *offsets = array(4 * (nnz / how.bucket + 1)), *refused = work_area(4),
             *told = work_area(4);

    spoil(type, val, nnz, below(4));
    for (size_t i = below(4) ? nnz : below(nnz); i < nnz; i++) /* some buckets of zeros */
        put(type, val, i, 0);
    const size_t bytes = ss_values_encode(type, &how, 0, val, nnz, NULL, coded);
    if (below(3) == 0)
        ((uint8_t *)coded)[8 + below(bytes - 8)] ^= (uint8_t)(1 << below(8));
    else if (below(2) && bytes > 16) /* a whole code of ones, or of zeros */
        memset((uint8_t *)coded + 8 + below(bytes - 11), below(2) ? 0xff : 0, 3);
    if (ss_values_look(type, how.values, coded, bytes, offsets, nnz) == 0)
        return NULL;
    const int good = ss_values_decode(type, how.values, coded, bytes, want, nnz) > 0;
    *told = *refused = 0;
    shuffle_machine(e);
    gpu_widen(&e->q, type,
              &(struct gpu_rounded){coded, offsets, how.bucket, nnz, how.values == SS_VALUES_BF16},
              to, refused, told);
    if (*told != !good || *refused != !good)
        return complaint("good values are %d, refused %u", good, *told);
    return good && memcmp(to, want, bytes_of(type, nnz)) != 0 ? "values" : NULL;
}

/* ---- dense vectors ---- */

static const char *check_reduce(struct emulated *e)
{
    enum ss_op op;
    const enum ss_type type = any_type(&op);
    const size_t n = length(type), behind = below(4);
    void *dst = words(type, n, behind), *src = words(type, n, below(2) ? behind : below(4)),
         *want = copied(dst, bytes_of(type, n));

    shuffle_machine(e);
    gpu_reduce(&e->q, type, op, dst, src, n);
    ss_kernels()->reduce(type, op, want, src, n);
    return memcmp(dst, want, bytes_of(type, n)) == 0
               ? NULL
               : complaint("reduce of %s by %s", ss_type_name(type), ss_op_name(op));
}

static const char *check_dense(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = length(type), bytes = bytes_of(type, n), behind = below(4);
    void *r = numbers(type, n, (enum kind)below(KINDS), behind),
         *val = numbers(type, n, (enum kind)below(KINDS), below(2) ? behind : below(4)),
         *out = vector(type, n, below(2) ? behind : below(4)), *want = copied(r, bytes),
         *joined = array(bytes);
    const double share = unit(), most = type == SS_F32 ? (double)FLT_MAX : DBL_MAX;
    static const double factors[] = {0.5, 2, 0.3, 0, 1e-45, 1e300};
    const double factor = factors[below(6)];

    shuffle_machine(e);
    gpu_join(&e->q, type, val, r, out, n, share);
    ss_vector_join(type, val, want, joined, n, share);
    if (memcmp(out, joined, bytes) != 0)
        return "join";
    gpu_leave(&e->q, type, r, n, share);
    ss_vector_leave(type, want, n, share);
    if (memcmp(r, want, bytes) != 0)
        return "leave";
    spoil(type, val, n, below(3));
    put(type, val, n / 2, -most);
    put(type, r, n / 2, -most);
    put(type, want, n / 2, -most);
    gpu_add(&e->q, type, r, val, n);
    ss_vector_add(type, want, val, n);
    if (memcmp(r, want, bytes) != 0)
        return "add";
    gpu_scale(&e->q, type, r, n, factor);
    ss_vector_scale(type, want, n, factor);
    if (memcmp(r, want, bytes) != 0)
        return complaint("scale by %g", factor);
    gpu_clear(&e->q, type, r, n);
    return ss_vector_is_clear(type, r, n) ? NULL : "clear";
}

/* So many numbers that more than one block adds them. */
static const char *check_sum(struct emulated *e)
{
    const size_t count = GPU_SUM_SHARE + below(100);
    double *from = work_area(count * sizeof *from), *sum = work_area(sizeof *sum), want = 0;
    double *shares = work_area(gpu_ceiling(count, GPU_SUM_SHARE) * sizeof *shares);
    unsigned *done = work_area(sizeof *done);

    *done = 0;
    for (size_t i = 0; i < count; i++)
        want += from[i] = (double)below(1000);
    gpu_sum(&e->q, from, 1, count, shares, done, sum);
    return *sum == want ? NULL : complaint("sum %g, wanted %g", *sum, want);
}

static const char *check_squares(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = length(type);
    void *v = numbers(type, n, (enum kind)below(KINDS), below(4));
    double *sum = work_area(gpu_square_work(type, n)), first;

    shuffle_machine(e);
    gpu_square(&e->q, type, v, n, sum);
    first = *sum;
    if (!close_to(first, ss_vector_square(type, v, n)))
        return complaint("square %g, wanted %g", first, ss_vector_square(type, v, n));
    shuffle_machine(e);
    gpu_square(&e->q, type, v, n, sum);
    return memcmp(sum, &first, sizeof first) == 0 ? check_sum(e) : "the same square twice differs";
}

static const char *check_questions(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = length(type), behind = below(4), source = below(3);
    void *g = numbers(type, n, (enum kind)below(KINDS), behind),
         *r = numbers(type, n, (enum kind)below(KINDS), below(2) ? behind : below(4));
    uint64_t *count = work_area(8), *largest = work_area(8), most = 0;
    uint32_t *any = work_area(4);

    spoil(type, g, n, below(4));
    if (source == 0)
        g = NULL;
    if (source == 1)
        r = NULL;
    shuffle_machine(e);
    gpu_not_finite(&e->q, type, g, r, n, count);
    if (*count != ss_vector_not_finite(type, g, r, n))
        return "not finite";
    void *v = g ? g : r;
    gpu_any_bit(&e->q, type, v, n, any);
    if ((*any == 0) != ss_vector_is_clear(type, v, n))
        return "is clear";
    gpu_largest(&e->q, type, v, n, largest);
    for (size_t i = 0; i < n; i++)
        if (ss_magnitude_at(type, v, i) < ss_magnitude_none(type) &&
            ss_magnitude_at(type, v, i) > most)
            most = ss_magnitude_at(type, v, i);
    return *largest == most ? NULL : "largest";
}

static const char *check_sketch(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t n = length(type);
    void *v = numbers(type, n, (enum kind)below(ZEROS), below(4));
    uint64_t *largest = work_area(8);
    int64_t *sums = work_area(8 * GPU_SKETCH);
    static double want[SS_SKETCH_BUCKETS];

    _Static_assert((int)GPU_SKETCH == (int)SS_SKETCH_BUCKETS, "the same buckets");
    shuffle_machine(e);
    gpu_largest(&e->q, type, v, n, largest);
    const int shift = gpu_sketch_shift(type, *largest, n);
    const double allowed = ldexp((double)n, -shift);
    gpu_sketch(&e->q, type, v, n, shift, sums);
    ss_host.ops->sketch(&ss_host, type, v, n, want);
    for (size_t i = 0; i < SS_SKETCH_BUCKETS; i++)
        if (fabs(ldexp((double)sums[i], -shift) - want[i]) > allowed + 0x1p-45 * fabs(want[i]))
            return complaint("bucket %zu: %g, wanted %g", i, ldexp((double)sums[i], -shift),
                             want[i]);
    return NULL;
}

#endif
