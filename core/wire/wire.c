/* Encodes and decodes messages, with one function per representation. */
#include "core/wire/wire.h"

#include <string.h>

#include "core/compute/quantize.h"
#include "core/wire/packed.h"
#include "core/wire/value_buckets.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "messages are little-endian and copied as they are: swap bytes here for this architecture"
#endif

enum { LAST = 0x80, BITMAP_HEAD = 8, DENSE_HEAD = 8 };

/* The representation byte of the header. */
enum { REP_MASK = 0x0f, VALUES_SHIFT = 4 };

/* Bit 7 of the parameter byte of a packed chunk: the absent indices are coded. */
enum { ABSENT = 0x80 };

static void store32(uint8_t *to, uint32_t x)
{
    memcpy(to, &x, sizeof x);
}

static uint32_t load32(const uint8_t *from)
{
    uint32_t x;
    memcpy(&x, from, sizeof x);
    return x;
}

static size_t finish(uint8_t *msg, const struct ss_wire_key *key, enum ss_rep rep, uint32_t nnz,
                     size_t payload, bool last)
{
    msg[0] = SS_WIRE_MAGIC;
    msg[1] = (uint8_t)(SS_WIRE_VERSION << 4 | (int)key->type);
    msg[2] = (uint8_t)rep;
    msg[3] = (uint8_t)(key->phase | (last ? LAST : 0));
    store32(msg + 4, key->call);
    store32(msg + 8, nnz);
    store32(msg + 12, (uint32_t)payload);
    return SS_WIRE_HEADER + payload;
}

size_t ss_wire_length(const void *msg)
{
    return SS_WIRE_HEADER + load32((const uint8_t *)msg + 12);
}

static void write_bitmap(uint8_t *at, const uint32_t *idx, uint32_t nnz, uint32_t span)
{
    store32(at, idx[0]);
    store32(at + 4, span);
    uint8_t *bits = at + BITMAP_HEAD;
    memset(bits, 0, ((size_t)span + 7) / 8);
    for (uint32_t i = 0; i < nnz; i++) {
        uint32_t bit = idx[i] - idx[0];
        bits[bit >> 3] = (uint8_t)(bits[bit >> 3] | 1u << (bit & 7));
    }
}

/* Writes elements first..last, with zeros where the stream has none. */
static void write_dense(uint8_t *at, size_t size, const uint32_t *idx, const void *val,
                        uint32_t nnz, uint32_t span)
{
    store32(at, idx[0]);
    store32(at + 4, 0);
    uint8_t *to = at + DENSE_HEAD;
    const uint8_t *from = val;
    memset(to, 0, span * size);
    for (uint32_t i = 0; i < nnz; i++)
        memcpy(to + (idx[i] - idx[0]) * size, from + i * size, size);
}

/* Returns the bytes written. */
static size_t write_packed(uint8_t *at, const struct ss_rice *plan, const uint32_t *idx,
                           uint32_t nnz)
{
    size_t head = ss_packed_head(plan->absent, nnz);
    store32(at, idx[0]);
    at[4] = (uint8_t)(plan->parameter | (plan->absent ? ABSENT : 0));
    if (head > SS_PACKED_HEAD) {
        memset(at + SS_PACKED_HEAD, 0, SS_LONG_HEAD - 4 - SS_PACKED_HEAD);
        store32(at + SS_LONG_HEAD - 4, idx[nnz - 1]);
    }
    ss_rice_encode(plan, idx, nnz, at + head, at + SS_LONG_HEAD);
    return head + plan->bytes;
}

/* Returns the representation to use; among equals the one that is easier to decode. Fills `plan`
 * for SS_REP_PACKED. Rounded values are never dense, since an absent element must not become a
 * level. */
static enum ss_rep choose(enum ss_coding coding, size_t size, bool rounded, const uint32_t *idx,
                          uint32_t nnz, struct ss_rice *plan)
{
    if (coding == SS_CODING_U32)
        return SS_REP_U32;
    uint64_t span = (uint64_t)idx[nnz - 1] - idx[0] + 1;
    size_t bitmap = BITMAP_HEAD + (size_t)(span + 7) / 8;
    if (coding == SS_CODING_BITMAP && bitmap <= ss_index_bound(nnz))
        return SS_REP_BITMAP;
    *plan = ss_rice_plan(idx, nnz);
    if (coding != SS_CODING_AUTO)
        return SS_REP_PACKED;

    enum ss_rep rep = SS_REP_U32;
    size_t best = sizeof *idx * nnz;
    if (!rounded && span <= SS_CHUNK_ENTRIES && DENSE_HEAD + (span - nnz) * size <= best) {
        rep = SS_REP_DENSE;
        best = DENSE_HEAD + (span - nnz) * size;
    }
    if (bitmap < best) {
        rep = SS_REP_BITMAP;
        best = bitmap;
    }
    return ss_packed_head(plan->absent, nnz) + plan->bytes < best ? SS_REP_PACKED : rep;
}

static bool any_zero(const void *val, size_t size, uint32_t nnz)
{
    static const uint8_t zero[8];
    const uint8_t *at = val;

    for (uint32_t i = 0; i < nnz; i++)
        if (memcmp(at + i * size, zero, size) == 0)
            return true;
    return false;
}

/* Writes values unchanged, or rounded and coded. Returns the bytes written. */
static size_t write_values(const struct ss_wire_key *key, const void *val, uint32_t n,
                           const struct ss_wire_rounding *rounding, uint8_t *to)
{
    size_t bytes = n * ss_type_size(key->type);
    if (rounding)
        return ss_values_encode(key->type, rounding->how, rounding->position, rounding->val, n,
                                rounding->error, to);
    memcpy(to, val, bytes);
    return bytes;
}

static size_t finish_values(uint8_t *msg, const struct ss_wire_key *key, enum ss_rep rep,
                            uint32_t nnz, size_t payload, bool last,
                            const struct ss_wire_rounding *rounding)
{
    size_t length = finish(msg, key, rep, nnz, payload, last);
    if (rounding)
        msg[2] = (uint8_t)((int)rounding->how->values << VALUES_SHIFT | (int)rep);
    return length;
}

size_t ss_wire_encode(void *msg, const struct ss_wire_key *key, enum ss_coding coding,
                      const uint32_t *idx, const void *val, uint32_t nnz, bool last,
                      const struct ss_wire_rounding *rounding)
{
    size_t size = ss_type_size(key->type), index;
    uint8_t *payload = (uint8_t *)msg + SS_WIRE_HEADER;
    if (nnz == 0)
        return finish(msg, key, SS_REP_U32, 0, 0, last);

    struct ss_rice plan = {0, false, 0};
    enum ss_rep rep = choose(coding, size, rounding != NULL, idx, nnz, &plan);
    uint32_t span = idx[nnz - 1] - idx[0] + 1;
    if (rep == SS_REP_DENSE && any_zero(val, size, nnz)) /* an entry stays an entry */
        rep = choose(SS_CODING_PACKED, size, false, idx, nnz, &plan);
    if (rep == SS_REP_DENSE) {
        write_dense(payload, size, idx, val, nnz, span);
        return finish(msg, key, rep, span, DENSE_HEAD + span * size, last);
    }
    size_t values = write_values(key, val, nnz, rounding, payload);
    uint8_t *at = payload + values;
    if (rep == SS_REP_U32) {
        index = sizeof *idx * nnz;
        memcpy(at, idx, index);
    } else if (rep == SS_REP_BITMAP) {
        index = BITMAP_HEAD + ((size_t)span + 7) / 8;
        write_bitmap(at, idx, nnz, span);
    } else {
        index = write_packed(at, &plan, idx, nnz);
    }
    return finish_values(msg, key, rep, nnz, values + index, last, rounding);
}

size_t ss_wire_encode_dense(void *msg, const struct ss_wire_key *key, uint32_t first,
                            const void *val, uint32_t n, bool last,
                            const struct ss_wire_rounding *rounding)
{
    uint8_t *payload = (uint8_t *)msg + SS_WIRE_HEADER;
    size_t values = 0;
    store32(payload, first);
    store32(payload + 4, 0);
    if (n > 0)
        values = write_values(key, val, n, rounding, payload + DENSE_HEAD);
    return finish_values(msg, key, SS_REP_DENSE, n, DENSE_HEAD + values, last,
                         n > 0 ? rounding : NULL);
}

void *ss_wire_codes(void *msg)
{
    return (uint8_t *)msg + SS_WIRE_HEADER + DENSE_HEAD;
}

const void *ss_wire_codes_of(const void *msg)
{
    return (const uint8_t *)msg + SS_WIRE_HEADER + DENSE_HEAD;
}

size_t ss_wire_finish_quantized(void *msg, const struct ss_wire_key *key, enum ss_values values,
                                uint32_t first, uint32_t n, bool last)
{
    const struct ss_rounding how = {.values = values};
    const struct ss_wire_rounding rounding = {.how = &how};
    uint8_t *payload = (uint8_t *)msg + SS_WIRE_HEADER;

    store32(payload, first);
    store32(payload + 4, 0);
    return finish_values(msg, key, SS_REP_QUANTIZED, n, DENSE_HEAD + ss_quantized_bytes(values, n),
                         last, &rounding);
}

size_t ss_wire_encode_error(void *msg, const struct ss_wire_key *key, int status)
{
    return finish(msg, key, SS_REP_ERROR, (uint32_t)status, 0, true);
}

static int read_u32(const uint8_t *at, size_t bytes, uint32_t from, uint32_t n,
                    struct ss_chunk *out)
{
    if (bytes != (size_t)out->nnz * 4)
        return SS_ERR_MESSAGE;
    const uint32_t *idx = (const void *)at; /* 16 + nnz * 4 or 8 bytes into the message */
    bool descends = false;
    for (uint32_t i = 1; i < out->nnz; i++)
        descends |= idx[i] <= idx[i - 1];
    if (descends || idx[0] < from || idx[out->nnz - 1] >= n)
        return SS_ERR_MESSAGE;
    out->idx = idx;
    return SS_OK;
}

/* The fields before a packed code. */
struct packed {
    struct ss_rice plan;
    size_t head;
    uint32_t first, last; /* `last` is set only if the head is a long one */
};

static bool read_ss_packed_head(const uint8_t *at, size_t bytes, uint32_t nnz, struct packed *p)
{
    if (bytes < SS_PACKED_HEAD)
        return false;
    p->plan = (struct ss_rice){at[4] & (ABSENT - 1), (at[4] & ABSENT) != 0, 0};
    p->head = ss_packed_head(p->plan.absent, nnz);
    if (bytes < p->head || p->plan.parameter > SS_RICE_MAX)
        return false;
    p->plan.bytes = bytes - p->head;
    p->first = load32(at);
    if (p->head == SS_PACKED_HEAD)
        return true;
    p->last = load32(at + SS_LONG_HEAD - 4);
    return (load32(at + 4) & ~0xffu) == 0;
}

static int read_packed(const uint8_t *at, const struct packed *p, uint32_t from, uint32_t n,
                       uint32_t *scratch, struct ss_chunk *out)
{
    if (p->first < from)
        return SS_ERR_MESSAGE;
    out->idx = scratch;
    int status =
        ss_rice_decode(&p->plan, at + p->head, at + SS_LONG_HEAD, p->first, out->nnz, n, scratch);
    if (status == SS_OK && p->head > SS_PACKED_HEAD && p->last != scratch[out->nnz - 1])
        status = SS_ERR_MESSAGE;
    return status;
}

static int read_bitmap(const uint8_t *at, size_t bytes, uint32_t from, uint32_t n,
                       uint32_t *scratch, struct ss_chunk *out)
{
    if (bytes < BITMAP_HEAD)
        return SS_ERR_MESSAGE;
    uint32_t first = load32(at), span = load32(at + 4), found = 0;
    size_t length = ((size_t)span + 7) / 8;
    if (first < from || span == 0 || first >= n || span > n - first ||
        bytes != BITMAP_HEAD + length)
        return SS_ERR_MESSAGE;
    const uint8_t *bits = at + BITMAP_HEAD;
    unsigned top = (span - 1) & 7; /* last bit of the span: must be set, with zeros above */
    if (!(bits[0] & 1) || bits[length - 1] >> top != 1)
        return SS_ERR_MESSAGE;
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bits + i, length - i < 8 ? length - i : 8);
        if (out->nnz - found < (uint32_t)__builtin_popcountll(word))
            return SS_ERR_MESSAGE;
        for (; word; word &= word - 1)
            scratch[found++] = first + (uint32_t)(8 * i) + (uint32_t)__builtin_ctzll(word);
    }
    out->idx = scratch;
    return found == out->nnz ? SS_OK : SS_ERR_MESSAGE;
}

/* Sets out->val to the decoded values. Returns the bytes that they take at `from`; 0 if they are
 * malformed or exceed len. nnz > 0. */
static size_t read_values(const uint8_t *from, size_t len, enum ss_type type, enum ss_values values,
                          const struct ss_wire_scratch *scratch, struct ss_chunk *out)
{
    size_t bytes = out->nnz * ss_type_size(type);
    if (values == SS_VALUES_SAME) {
        out->val = from;
        return len >= bytes ? bytes : 0;
    }
    out->val = scratch->val;
    return scratch->val ? ss_values_decode(type, values, from, len, scratch->val, out->nnz) : 0;
}

static int read_dense(const uint8_t *payload, size_t bytes, enum ss_type type,
                      enum ss_values values, uint32_t from, uint32_t n,
                      const struct ss_wire_scratch *scratch, struct ss_chunk *out)
{
    if (bytes < DENSE_HEAD || load32(payload + 4) != 0)
        return SS_ERR_MESSAGE;
    out->first = load32(payload);
    if (out->first < from || out->first > n || out->nnz > n - out->first)
        return SS_ERR_MESSAGE;
    bytes -= DENSE_HEAD;
    payload += DENSE_HEAD;
    out->val = payload;
    if (out->nnz == 0)
        return bytes == 0 && values == SS_VALUES_SAME ? SS_OK : SS_ERR_MESSAGE;
    size_t taken = read_values(payload, bytes, type, values, scratch, out);
    return taken > 0 && taken == bytes ? SS_OK : SS_ERR_MESSAGE;
}

static int read_quantized(const uint8_t *payload, size_t bytes, enum ss_type type,
                          enum ss_values values, uint32_t from, uint32_t n, struct ss_chunk *out)
{
    if (!ss_type_is_float(type) || values == SS_VALUES_SAME || out->nnz > SS_CHUNK_QUANTIZED ||
        bytes != DENSE_HEAD + ss_quantized_bytes(values, out->nnz) || load32(payload + 4) != 0)
        return SS_ERR_MESSAGE;
    out->first = load32(payload);
    if (out->first < from || out->first > n || out->nnz > n - out->first)
        return SS_ERR_MESSAGE;
    out->val = payload + DENSE_HEAD;
    out->values = values;
    return SS_OK;
}

/* Returns true if a chunk may stay encoded. q4 and q2 are rare and always decoded. */
static bool may_stay_coded(enum ss_values values, const struct ss_wire_scratch *scratch)
{
    return scratch->coded &&
           (values == SS_VALUES_SAME ||
            (scratch->val && (values == SS_VALUES_BF16 || values == SS_VALUES_Q8)));
}

/* Returns the bytes of the values; 0 if they are malformed. Does not check their codes. */
static size_t bytes_of_values(const uint8_t *from, size_t len, enum ss_type type,
                              enum ss_values values, uint32_t nnz)
{
    size_t bytes = nnz * ss_type_size(type);
    if (values != SS_VALUES_SAME)
        return ss_values_look(type, values, from, len, NULL, nnz);
    return len >= bytes ? bytes : 0;
}

/* Leaves a chunk encoded. */
static int leave_coded(const uint8_t *payload, size_t bytes, size_t values, enum ss_values how,
                       const struct packed *p, uint32_t from, uint32_t n,
                       const struct ss_wire_scratch *scratch, struct ss_chunk *out)
{
    const uint8_t *at = payload + values;
    if (p->first < from || p->last < p->first || p->last >= n ||
        p->last - p->first < out->nnz - 1 ||
        !ss_rice_fits(&p->plan, at + p->head, at + SS_LONG_HEAD, out->nnz))
        return SS_ERR_MESSAGE;
    *scratch->coded = (struct ss_coded){.payload = payload,
                                        .bytes = bytes,
                                        .values = values,
                                        .how = how,
                                        .runs = values + SS_LONG_HEAD,
                                        .code = values + p->head,
                                        .nnz = out->nnz,
                                        .first = p->first,
                                        .last = p->last,
                                        .parameter = p->plan.parameter,
                                        .idx = scratch->idx,
                                        .val = scratch->val};
    out->val = NULL;
    out->coded = scratch->coded;
    return SS_OK;
}

int ss_wire_decode_coded(const struct ss_coded *coded, enum ss_type type, const void **val)
{
    *val = coded->how == SS_VALUES_SAME ? (const void *)coded->payload : coded->val;
    if (coded->how != SS_VALUES_SAME &&
        ss_values_decode(type, coded->how, coded->payload, coded->values, coded->val, coded->nnz) ==
            0)
        return SS_ERR_MESSAGE;
    const struct ss_rice plan = {coded->parameter, false, coded->bytes - coded->code};
    int status = ss_rice_decode(&plan, coded->payload + coded->code, coded->payload + coded->runs,
                                coded->first, coded->nnz, coded->last + 1, coded->idx);
    return status == SS_OK && coded->idx[coded->nnz - 1] != coded->last ? SS_ERR_MESSAGE : status;
}

/* Decodes a sparse chunk with nnz > 0. */
static int read_sparse(const uint8_t *payload, size_t bytes, enum ss_type type,
                       enum ss_values values, uint32_t from, uint32_t n,
                       const struct ss_wire_scratch *scratch, struct ss_chunk *out)
{
    struct packed p;
    if (out->rep == SS_REP_PACKED && may_stay_coded(values, scratch)) {
        size_t stand = bytes_of_values(payload, bytes, type, values, out->nnz);
        if (stand == 0 || !read_ss_packed_head(payload + stand, bytes - stand, out->nnz, &p))
            return SS_ERR_MESSAGE;
        if (p.head > SS_PACKED_HEAD)
            return leave_coded(payload, bytes, stand, values, &p, from, n, scratch, out);
    }
    size_t taken = read_values(payload, bytes, type, values, scratch, out);
    if (taken == 0)
        return SS_ERR_MESSAGE;
    if (out->rep == SS_REP_U32)
        return read_u32(payload + taken, bytes - taken, from, n, out);
    if (out->rep == SS_REP_BITMAP)
        return read_bitmap(payload + taken, bytes - taken, from, n, scratch->idx, out);
    if (!read_ss_packed_head(payload + taken, bytes - taken, out->nnz, &p))
        return SS_ERR_MESSAGE;
    return read_packed(payload + taken, &p, from, n, scratch->idx, out);
}

int ss_wire_decode(const void *msg, size_t len, const struct ss_wire_key *key, uint32_t from,
                   uint32_t n, const struct ss_wire_scratch *scratch, struct ss_chunk *out)
{
    const uint8_t *head = msg, *payload = head + SS_WIRE_HEADER;
    if (len < SS_WIRE_HEADER || head[0] != SS_WIRE_MAGIC ||
        head[1] != (SS_WIRE_VERSION << 4 | (int)key->type) || (head[2] & REP_MASK) >= SS_REPS ||
        head[2] >> VALUES_SHIFT >= SS_VALUE_TYPES || (head[3] & (LAST - 1)) != key->phase ||
        load32(head + 4) != key->call || load32(head + 12) != len - SS_WIRE_HEADER)
        return SS_ERR_MESSAGE;

    enum ss_values values = (enum ss_values)(head[2] >> VALUES_SHIFT);
    struct ss_chunk chunk = {.rep = (enum ss_rep)(head[2] & REP_MASK),
                             .last = (head[3] & LAST) != 0};
    size_t bytes = len - SS_WIRE_HEADER;
    uint32_t nnz = load32(head + 8);
    if (chunk.rep == SS_REP_ERROR) {
        chunk.error = (int)nnz;
        if (chunk.error >= 0 || bytes != 0 || !chunk.last || values != SS_VALUES_SAME)
            return SS_ERR_MESSAGE;
        *out = chunk;
        return SS_OK;
    }
    chunk.nnz = nnz;
    chunk.val = payload;

    int status = SS_ERR_MESSAGE;
    if (chunk.rep == SS_REP_QUANTIZED) {
        status = read_quantized(payload, bytes, key->type, values, from, n, &chunk);
    } else if (nnz > SS_CHUNK_ENTRIES) {
        return SS_ERR_MESSAGE;
    } else if (chunk.rep == SS_REP_DENSE) {
        status = read_dense(payload, bytes, key->type, values, from, n, scratch, &chunk);
    } else if (nnz > 0) {
        status = read_sparse(payload, bytes, key->type, values, from, n, scratch, &chunk);
    } else if (chunk.rep == SS_REP_U32 && bytes == 0 && values == SS_VALUES_SAME) {
        chunk.idx = scratch->idx;
        status = SS_OK;
    }
    if (status == SS_OK)
        *out = chunk;
    return status;
}

double ss_wire_bytes_per_entry(enum ss_type type, const struct ss_rounding *how, double d)
{
    double size = (double)ss_type_size(type), u32 = 4;
    bool rounded = how && how->values != SS_VALUES_SAME;
    double value = rounded ? ss_values_bytes(type, how->values, how->bucket) : size;
    if (d <= 0)
        return value + u32;
    double packed = ss_rice_bits_per_entry(d) / 8, bitmap = 1 / (8 * d);
    double best = packed < u32 ? packed : u32, dense = size / d - size;
    best = bitmap < best ? bitmap : best;
    return value + (dense < best && !rounded ? dense : best);
}
