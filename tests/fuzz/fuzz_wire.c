/* Any bytes into the decoder: what it accepts must keep the promises of core/wire/wire.h and
 * survive a round trip. Input: 2 bytes that pick the key and the range, then the message. */
#include <stdlib.h>
#include <string.h>

#include "core/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool promise)
{
    if (!promise)
        abort();
}

static void check_promises(const struct ss_chunk *chunk, enum ss_type type, uint32_t from,
                           uint32_t n)
{
    if (chunk->rep == SS_REP_QUANTIZED) {
        require(ss_type_is_float(type) && !chunk->idx && chunk->nnz <= SS_CHUNK_QUANTIZED);
        require(chunk->first >= from && chunk->first <= n && chunk->nnz <= n - chunk->first);
        return;
    }
    require(chunk->nnz <= SS_CHUNK_ENTRIES && (uintptr_t)chunk->val % ss_type_size(type) == 0);
    if (chunk->rep == SS_REP_DENSE) {
        require(!chunk->idx && chunk->first >= from && chunk->first <= n);
        require(chunk->nnz <= n - chunk->first);
        return;
    }
    for (uint32_t i = 0; i < chunk->nnz; i++)
        require(chunk->idx[i] >= (i ? chunk->idx[i - 1] + 1 : from) && chunk->idx[i] < n);
}

/* Encodes what was decoded and decodes it again, in the given coding. */
static void check_round_trip(const struct ss_chunk *chunk, const struct ss_wire_key *key,
                             enum ss_coding coding, uint32_t from, uint32_t n)
{
    static uint32_t idx[SS_CHUNK_ENTRIES];
    static uint64_t val[SS_CHUNK_ENTRIES];
    const struct ss_wire_scratch scratch = {.idx = idx, .val = val};
    size_t bound = ss_wire_bound(key->type, chunk->nnz), length;
    void *msg = malloc(bound);
    require(msg != NULL);
    if (chunk->rep == SS_REP_DENSE)
        length =
            ss_wire_encode_dense(msg, key, chunk->first, chunk->val, chunk->nnz, chunk->last, NULL);
    else
        length =
            ss_wire_encode(msg, key, coding, chunk->idx, chunk->val, chunk->nnz, chunk->last, NULL);
    require(length <= bound);

    struct ss_chunk again;
    size_t bytes = chunk->nnz * ss_type_size(key->type);
    require(ss_wire_decode(msg, length, key, from, n, &scratch, &again) == SS_OK);
    require(again.last == chunk->last);
    if (again.rep == SS_REP_DENSE && chunk->rep != SS_REP_DENSE) {
        const char *elements = again.val, *values = chunk->val;
        size_t each = ss_type_size(key->type);
        for (uint32_t i = 0; i < chunk->nnz; i++)
            require(memcmp(elements + (chunk->idx[i] - again.first) * each, values + i * each,
                           each) == 0);
    } else {
        require(again.nnz == chunk->nnz && memcmp(again.val, chunk->val, bytes) == 0);
        require(!chunk->idx || memcmp(again.idx, chunk->idx, 4 * (size_t)chunk->nnz) == 0);
        require(again.rep != SS_REP_DENSE || again.first == chunk->first);
    }
    free(msg);
}

/* The same rounded: what a decoder gets is what was left in place. */
static void check_rounded(const struct ss_chunk *chunk, const struct ss_wire_key *key,
                          const struct ss_rounding *how, uint32_t from, uint32_t n)
{
    static uint32_t idx[SS_CHUNK_ENTRIES];
    static uint64_t val[SS_CHUNK_ENTRIES], rounded[SS_CHUNK_ENTRIES], error[SS_CHUNK_ENTRIES];
    const struct ss_wire_scratch scratch = {.idx = idx, .val = val};
    const struct ss_wire_rounding rounding = {how, rounded, error, n};
    size_t bound = ss_wire_bound(key->type, chunk->nnz), length;
    size_t bytes = chunk->nnz * ss_type_size(key->type);
    void *msg = malloc(bound);
    require(msg != NULL);
    memcpy(rounded, chunk->val, bytes);
    if (chunk->rep == SS_REP_DENSE)
        length = ss_wire_encode_dense(msg, key, chunk->first, rounded, chunk->nnz, chunk->last,
                                      &rounding);
    else
        length = ss_wire_encode(msg, key, SS_CODING_AUTO, chunk->idx, rounded, chunk->nnz,
                                chunk->last, &rounding);
    require(length <= bound);

    struct ss_chunk again;
    require(ss_wire_decode(msg, length, key, from, n, &scratch, &again) == SS_OK);
    require(again.nnz == chunk->nnz && memcmp(again.val, rounded, bytes) == 0);
    require(!chunk->idx || memcmp(again.idx, chunk->idx, 4 * (size_t)chunk->nnz) == 0);
    free(msg);
}

/* Who leaves a chunk as it came accepts the same in the end. */
static void check_left(const void *msg, size_t length, const struct ss_wire_key *key, uint32_t from,
                       uint32_t n, int status)
{
    static uint32_t idx[SS_CHUNK_ENTRIES];
    static uint64_t val[SS_CHUNK_ENTRIES];
    struct ss_coded coded;
    struct ss_chunk chunk;
    const struct ss_wire_scratch scratch = {.idx = idx, .val = val, .coded = &coded};
    int left = ss_wire_decode(msg, length, key, from, n, &scratch, &chunk);

    const void *values;
    if (left == SS_OK && chunk.coded)
        left = ss_wire_decode_coded(&coded, key->type, &values);
    require(left == status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint32_t idx[SS_CHUNK_ENTRIES];
    static uint64_t val[SS_CHUNK_ENTRIES];
    const struct ss_wire_scratch scratch = {.idx = idx, .val = val};
    if (size < 2)
        return 0;
    struct ss_wire_key key = {(enum ss_type)(data[0] % SS_TYPES), 7, 3};
    uint32_t n = (uint32_t)1 << data[1] % 31, from = data[0] >> 4;
    if (data[1] & 0x80)
        n -= 1 + n / 3;

    size_t length = size - 2;
    void *msg = malloc(length ? length : 1); /* exactly as long as the message */
    require(msg != NULL);
    memcpy(msg, data + 2, length);
    struct ss_chunk chunk;
    int status = ss_wire_decode(msg, length, &key, from, n, &scratch, &chunk);
    require(status == SS_OK || status == SS_ERR_MESSAGE);
    check_left(msg, length, &key, from, n, status);
    if (status == SS_OK && chunk.rep == SS_REP_ERROR) {
        require(chunk.error < 0 && chunk.last);
    } else if (status == SS_OK) {
        check_promises(&chunk, key.type, from, n);
        const bool quantized = chunk.rep == SS_REP_QUANTIZED;
        for (int coding = SS_CODING_AUTO; !quantized && coding <= SS_CODING_BITMAP; coding++)
            check_round_trip(&chunk, &key, (enum ss_coding)coding, from, n);
        for (int values = SS_VALUES_BF16; !quantized && values < SS_VALUE_TYPES; values++) {
            const struct ss_rounding how = {.values = (enum ss_values)values,
                                            .bucket = SS_BUCKET_LEAST + (data[1] & 7),
                                            .stochastic = values > SS_VALUES_BF16 && data[0] & 2,
                                            .seed = data[0]};
            if (ss_type_is_float(key.type))
                check_rounded(&chunk, &key, &how, from, n);
        }
    }
    free(msg);
    return 0;
}
