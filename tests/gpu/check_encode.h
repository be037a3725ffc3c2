/* Checks of the kernels that encode: the bytes that core writes. */
#ifndef TESTS_GPU_CHECK_ENCODE_H
#define TESTS_GPU_CHECK_ENCODE_H

#include "core/wire/rice.h"
#include "core/wire/wire.h"
#include "tests/gpu/check_cases.h"
#include "tests/gpu/check_vector.h"

/* Counts about every edge: of runs, of what has runs. */
static uint32_t edge_count(void)
{
    static const uint32_t edges[] = {0, 1, 2, 239, 240, 241, 242, 480, 481, 2047, 2048, 2049};
    const size_t which = below(16);

    return which < 12 ? edges[which] : (uint32_t)below(which == 15 ? 20000 : 900);
}

/* Ranges of present indices, ranges of absent ones, or gaps of all lengths. */
static void make_indices(uint32_t *idx, size_t nnz)
{
    static const double most[] = {1, 2, 40, 3000, 100000};
    const double gap = most[below(5)], range = below(3) ? 1 : 2 + (double)below(300);
    uint32_t at = (uint32_t)below(50);

    for (size_t i = 0; i < nnz; i++, at++) {
        if (unit() * range < 1)
            at += (uint32_t)(unit() * gap * (below(300) ? 1 : 90));
        idx[i] = at;
    }
}

/* Messages of one list of entries: as the device encodes them, and as the host does. */
struct outgoing {
    enum ss_type type;
    enum ss_coding coding;
    struct ss_rounding how;
    size_t parts, nnz;
    uint32_t count[9];
    uint32_t *idx;
    void *val, *error, *want, *want_error;
};

static struct outgoing outgoing(enum ss_type type, enum ss_values values)
{
    struct outgoing o = {
        .type = type,
        .coding = below(3) ? SS_CODING_AUTO : (enum ss_coding)below(4),
        .how = {.values = values, .bucket = SS_BUCKET_LEAST + (uint32_t)below(below(2) ? 9 : 1000)},
        .parts = 1 + below(9)};

    const bool whole = values == SS_VALUES_SAME && below(14) == 0;
    if (whole) /* what is dense, unless an element is zero */
        o.parts = 1;
    for (size_t i = 0; i < o.parts; i++)
        o.nnz += o.count[i] = whole ? SS_CHUNK_ENTRIES : edge_count() / (o.parts > 4 ? 4 : 1);
    o.idx = array(4 * (o.nnz + 1));
    make_indices(o.idx, o.nnz);
    for (size_t i = 0; whole && i < o.nnz; i++)
        o.idx[i] = (uint32_t)i + 9;
    o.val = words(type, o.nnz + 1, 0);
    if (values != SS_VALUES_SAME && o.nnz > 0)
        spoil(type, o.val, o.nnz, below(3));
    for (size_t i = below(4) ? o.nnz : below(o.nnz + 1); i < o.nnz; i++) /* buckets of zeros */
        memset((char *)o.val + bytes_of(type, i), 0, ss_type_size(type));
    for (size_t i = below(3) ? o.nnz : 0; i < o.nnz; i++) /* between two numbers of bf16 */
        if (ss_type_is_float(type))
            put(type, o.val, i, (double)(257 + 2 * below(127)) * (below(2) ? 1 : -0x1p-9));
    o.want = copied(o.val, bytes_of(type, o.nnz));
    if (values != SS_VALUES_SAME && below(3)) {
        o.error = vector(type, o.nnz, 0);
        o.want_error = copied(o.error, bytes_of(type, o.nnz));
    }
    return o;
}

static const char *compare_message(const struct outgoing *o, size_t i, size_t first,
                                   const char *got, uint32_t length)
{
    const struct ss_wire_key key = {o->type, 77, 3};
    static _Alignas(8) char msg[1 << 19];
    char *error = o->want_error ? (char *)o->want_error + bytes_of(o->type, first) : NULL;
    char *val = (char *)o->want + bytes_of(o->type, first);
    const struct ss_wire_rounding rounding = {&o->how, val, error, 0};
    const size_t want =
        ss_wire_encode(msg, &key, o->coding, o->idx + first, val, o->count[i], i + 1 == o->parts,
                       o->how.values != SS_VALUES_SAME ? &rounding : NULL);

    if (length != want)
        return complaint("%u entries of type %s: %u bytes, wanted %zu, representation %d",
                         o->count[i], ss_type_name(o->type), length, want, msg[2]);
    for (size_t at = 0; at < want; at++)
        if (got[at] != msg[at])
            return complaint("%u entries of type %s: byte %zu of %zu, representation %d",
                             o->count[i], ss_type_name(o->type), at, want, msg[2]);
    return NULL;
}

static const char *check_outgoing(struct emulated *e, const struct outgoing *o)
{
    struct gpu_message *table = array(o->parts * sizeof *table);
    uint32_t *lengths = array(4 * o->parts), at = 0, first = 0;
    const char *text = NULL;

    for (size_t i = 0; i < o->parts; i++) {
        table[i] = (struct gpu_message){first, o->count[i], at, i + 1 == o->parts};
        first += o->count[i];
        at += (uint32_t)ss_wire_bound(o->type, o->count[i]);
    }
    char *area = array(at);
    const struct gpu_outgoing out = {
        .type = o->type,
        .idx = o->idx,
        .val = o->val,
        .error = o->error,
        .table = table,
        .messages = o->parts,
        .head = gpu_wire_head(&(struct ss_wire_key){o->type, 77, 3}, o->how.values),
        .call = 77,
        .coding = o->coding,
        .bucket = o->how.bucket};
    shuffle_machine(e);
    gpu_encode(&e->q, &out, area, lengths);
    for (size_t i = 0; i < o->parts && !text; i++)
        text = compare_message(o, i, table[i].first, area + table[i].at, lengths[i]);
    if (text)
        return text;
    if (memcmp(o->val, o->want, bytes_of(o->type, o->nnz)) != 0)
        return "rounded values";
    return o->error && memcmp(o->error, o->want_error, bytes_of(o->type, o->nnz)) != 0 ? "errors"
                                                                                       : NULL;
}

static const char *check_encode(struct emulated *e)
{
    enum ss_op op;
    const struct outgoing o = outgoing(any_type(&op), SS_VALUES_SAME);

    return check_outgoing(e, &o);
}

static const char *check_rounding(struct emulated *e)
{
    const struct outgoing o = outgoing(any_float(), below(2) ? SS_VALUES_BF16 : SS_VALUES_Q8);

    return check_outgoing(e, &o);
}

/* Parts of a list, and what is in them; the last range may be an empty one between two others. */
static const char *check_survey(struct emulated *e)
{
    const enum ss_type type = any_float();
    const size_t ranges = 1 + below(9);
    struct outgoing o = outgoing(type, SS_VALUES_SAME);
    uint32_t *cuts = array(4 * (ranges + 1));
    struct gpu_share *shares = work_area(ranges * sizeof *shares);
    struct ss_share want[9];
    const uint32_t most = o.nnz > 0 ? o.idx[o.nnz - 1] + 2 : 5;

    for (size_t i = 0; i <= ranges; i++)
        cuts[i] = i == 0 && below(2) ? 0 : (uint32_t)below(most);
    if (o.nnz > 0 && type == SS_F64 && below(2))
        put(type, o.val, below(o.nnz), 1e200);
    shuffle_machine(e);
    gpu_survey(&e->q, type, o.idx, o.val, o.nnz, cuts, ranges, shares);
    ss_host.ops->survey(&ss_host, type, o.idx, o.val, o.nnz, cuts, ranges, want);
    for (size_t i = 0; i < ranges; i++)
        if (shares[i].first != want[i].first || shares[i].count != want[i].count ||
            shares[i].unbounded != want[i].unbounded || !close_to(shares[i].square, want[i].square))
            return complaint("range %zu: %llu entries from %llu, wanted %llu from %llu", i,
                             shares[i].count, shares[i].first, (unsigned long long)want[i].count,
                             (unsigned long long)want[i].first);
    return NULL;
}

#endif
