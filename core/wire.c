#include "core/wire.h"

#include <string.h>

#include "core/rice.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "messages are little-endian and copied as they are: swap bytes here for this architecture"
#endif

enum { LAST = 0x80, PACKED_HEAD = 5, BITMAP_HEAD = 8, DENSE_HEAD = 8, SLACK = 8 };

/* Bit 7 of a packed chunk's parameter byte: the code is of the absent indices. */
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

/* Bytes a packed code of this many entries takes at most: what an index coding other than u32 is
 * allowed. */
static size_t index_bound(size_t entries)
{
    return PACKED_HEAD + (33 * entries + 7) / 8;
}

size_t ss_wire_bound(enum ss_type type, uint32_t entries)
{
    size_t size = SS_WIRE_HEADER + entries * ss_type_size(type) + index_bound(entries) + SLACK;
    return (size + 7) & ~(size_t)7;
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

/* Elements first..last with zeros where the stream has none. */
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

/* The representation to use, with plan filled when it is packed; of equals the one easier to
 * decode. */
static enum ss_rep choose(enum ss_coding coding, size_t size, const uint32_t *idx, uint32_t nnz,
                          struct ss_rice *plan)
{
    if (coding == SS_CODING_U32)
        return SS_REP_U32;
    uint64_t span = (uint64_t)idx[nnz - 1] - idx[0] + 1;
    size_t bitmap = BITMAP_HEAD + (size_t)(span + 7) / 8;
    if (coding == SS_CODING_BITMAP && bitmap <= index_bound(nnz))
        return SS_REP_BITMAP;
    *plan = ss_rice_plan(idx, nnz);
    if (coding != SS_CODING_AUTO)
        return SS_REP_PACKED;

    enum ss_rep rep = SS_REP_U32;
    size_t best = sizeof *idx * nnz;
    if (span <= SS_CHUNK_ENTRIES && DENSE_HEAD + (span - nnz) * size <= best) {
        rep = SS_REP_DENSE;
        best = DENSE_HEAD + (span - nnz) * size;
    }
    if (bitmap < best) {
        rep = SS_REP_BITMAP;
        best = bitmap;
    }
    return PACKED_HEAD + plan->bytes < best ? SS_REP_PACKED : rep;
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

size_t ss_wire_encode(void *msg, const struct ss_wire_key *key, enum ss_coding coding,
                      const uint32_t *idx, const void *val, uint32_t nnz, bool last)
{
    size_t size = ss_type_size(key->type), values = nnz * size;
    uint8_t *payload = (uint8_t *)msg + SS_WIRE_HEADER, *at = payload + values;
    if (nnz == 0)
        return finish(msg, key, SS_REP_U32, 0, 0, last);

    struct ss_rice plan = {0, false, 0};
    enum ss_rep rep = choose(coding, size, idx, nnz, &plan);
    uint32_t span = idx[nnz - 1] - idx[0] + 1;
    if (rep == SS_REP_DENSE && any_zero(val, size, nnz)) /* an entry stays an entry */
        rep = choose(SS_CODING_PACKED, size, idx, nnz, &plan);
    if (rep == SS_REP_DENSE) {
        write_dense(payload, size, idx, val, nnz, span);
        return finish(msg, key, rep, span, DENSE_HEAD + span * size, last);
    }
    memcpy(payload, val, values);
    if (rep == SS_REP_U32) {
        memcpy(at, idx, sizeof *idx * nnz);
        return finish(msg, key, rep, nnz, values + sizeof *idx * nnz, last);
    }
    if (rep == SS_REP_BITMAP) {
        write_bitmap(at, idx, nnz, span);
        return finish(msg, key, rep, nnz, values + BITMAP_HEAD + ((size_t)span + 7) / 8, last);
    }
    store32(at, idx[0]);
    at[4] = (uint8_t)(plan.parameter | (plan.absent ? ABSENT : 0));
    ss_rice_encode(&plan, idx, nnz, at + PACKED_HEAD);
    return finish(msg, key, rep, nnz, values + PACKED_HEAD + plan.bytes, last);
}

size_t ss_wire_encode_dense(void *msg, const struct ss_wire_key *key, uint32_t first,
                            const void *val, uint32_t n, bool last)
{
    uint8_t *payload = (uint8_t *)msg + SS_WIRE_HEADER;
    size_t values = n * ss_type_size(key->type);
    store32(payload, first);
    store32(payload + 4, 0);
    if (n > 0)
        memcpy(payload + DENSE_HEAD, val, values);
    return finish(msg, key, SS_REP_DENSE, n, DENSE_HEAD + values, last);
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

static int read_packed(const uint8_t *at, size_t bytes, uint32_t from, uint32_t n,
                       uint32_t *scratch, struct ss_chunk *out)
{
    if (bytes < PACKED_HEAD)
        return SS_ERR_MESSAGE;
    struct ss_rice plan = {at[4] & (ABSENT - 1), (at[4] & ABSENT) != 0, bytes - PACKED_HEAD};
    uint32_t first = load32(at);
    if (first < from || plan.parameter > SS_RICE_MAX)
        return SS_ERR_MESSAGE;
    out->idx = scratch;
    return ss_rice_decode(&plan, at + PACKED_HEAD, first, out->nnz, n, scratch);
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
    unsigned top = (span - 1) & 7; /* of the last byte: must be set, with zeros above */
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

static int read_dense(const uint8_t *payload, size_t bytes, size_t size, uint32_t from, uint32_t n,
                      struct ss_chunk *out)
{
    if (bytes != DENSE_HEAD + out->nnz * size || load32(payload + 4) != 0)
        return SS_ERR_MESSAGE;
    out->first = load32(payload);
    if (out->first < from || out->first > n || out->nnz > n - out->first)
        return SS_ERR_MESSAGE;
    out->val = payload + DENSE_HEAD;
    return SS_OK;
}

int ss_wire_decode(const void *msg, size_t len, const struct ss_wire_key *key, uint32_t from,
                   uint32_t n, uint32_t *scratch, struct ss_chunk *out)
{
    const uint8_t *head = msg, *payload = head + SS_WIRE_HEADER;
    if (len < SS_WIRE_HEADER || head[0] != SS_WIRE_MAGIC ||
        head[1] != (SS_WIRE_VERSION << 4 | (int)key->type) || head[2] >= SS_REPS ||
        (head[3] & (LAST - 1)) != key->phase || load32(head + 4) != key->call ||
        load32(head + 12) != len - SS_WIRE_HEADER)
        return SS_ERR_MESSAGE;

    struct ss_chunk chunk = {.rep = (enum ss_rep)head[2], .last = (head[3] & LAST) != 0};
    size_t bytes = len - SS_WIRE_HEADER, size = ss_type_size(key->type);
    uint32_t nnz = load32(head + 8);
    if (chunk.rep == SS_REP_ERROR) {
        chunk.error = (int)nnz;
        if (chunk.error >= 0 || bytes != 0 || !chunk.last)
            return SS_ERR_MESSAGE;
        *out = chunk;
        return SS_OK;
    }
    if (nnz > SS_CHUNK_ENTRIES)
        return SS_ERR_MESSAGE;
    chunk.nnz = nnz;
    chunk.val = payload;

    int status = SS_ERR_MESSAGE;
    if (chunk.rep == SS_REP_DENSE) {
        status = read_dense(payload, bytes, size, from, n, &chunk);
    } else if (nnz == 0) {
        chunk.idx = scratch;
        status = chunk.rep == SS_REP_U32 && bytes == 0 ? SS_OK : SS_ERR_MESSAGE;
    } else if (bytes >= nnz * size) {
        const uint8_t *at = payload + nnz * size;
        bytes -= nnz * size;
        if (chunk.rep == SS_REP_U32)
            status = read_u32(at, bytes, from, n, &chunk);
        else if (chunk.rep == SS_REP_PACKED)
            status = read_packed(at, bytes, from, n, scratch, &chunk);
        else
            status = read_bitmap(at, bytes, from, n, scratch, &chunk);
    }
    if (status == SS_OK)
        *out = chunk;
    return status;
}

double ss_wire_bytes_per_entry(enum ss_type type, enum ss_coding coding, double d)
{
    double size = (double)ss_type_size(type), u32 = 4, most = 33.0 / 8;
    if (coding == SS_CODING_U32 || d <= 0)
        return size + u32;
    double packed = ss_rice_bits_per_entry(d) / 8, bitmap = 1 / (8 * d);
    if (coding == SS_CODING_PACKED)
        return size + packed;
    if (coding == SS_CODING_BITMAP)
        return size + (bitmap <= most ? bitmap : packed);
    double best = packed < u32 ? packed : u32, dense = size / d - size;
    best = bitmap < best ? bitmap : best;
    return size + (dense < best ? dense : best);
}
