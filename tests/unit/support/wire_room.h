/* Messages to encode and decode, for the tests of core/wire/wire.c. */
#ifndef TESTS_WIRE_ROOM_H
#define TESTS_WIRE_ROOM_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/wire.h"
#include "tests/unit/support/random_numbers.h"

enum { CODINGS = 4, RANGE = 1 << 30 };

static const struct ss_wire_key key = {SS_F32, 0xdeadbeef, 5};

/* A stream to encode, and room for its message and for decoding. */
struct room {
    uint32_t idx[SS_CHUNK_ENTRIES];
    uint64_t val[SS_CHUNK_ENTRIES]; /* nnz elements of the key's type */
    uint32_t nnz;
    uint32_t scratch[SS_CHUNK_ENTRIES];
    uint64_t decoded[SS_CHUNK_ENTRIES];
    char *message; /* room for the bound, then canaries */
    size_t length;
};

enum { CANARIES = 16, CANARY = 0x5c };

static inline int set_up(void **state)
{
    struct room *room = test_malloc(sizeof *room);
    room->message = aligned_alloc(8, ss_wire_bound(SS_F64, SS_CHUNK_ENTRIES) + CANARIES);
    assert_non_null(room->message);
    *state = room;
    return 0;
}

static inline int tear_down(void **state)
{
    struct room *room = *state;
    free(room->message);
    test_free(room);
    return 0;
}

static inline void random_values(struct room *room)
{
    for (uint32_t i = 0; i < room->nnz; i++)
        room->val[i] = random64() | 1;
}

/* Draws the entries of a uniform set of density d from `start` on: gaps are geometric. */
static inline void uniform(struct room *room, uint32_t start, double d, uint32_t most)
{
    uint64_t at = start;
    room->nnz = 0;
    while (room->nnz < most) {
        at += d < 1 ? (uint64_t)(log(1 - random_unit()) / log(1 - d)) : 0;
        if (at >= RANGE)
            break;
        room->idx[room->nnz++] = (uint32_t)at++;
    }
    random_values(room);
}

static inline void encode(struct room *room, enum ss_type type, enum ss_coding coding, bool last)
{
    struct ss_wire_key typed = key;
    typed.type = type;
    size_t bound = ss_wire_bound(type, room->nnz);
    memset(room->message, CANARY, bound + CANARIES);
    room->length =
        ss_wire_encode(room->message, &typed, coding, room->idx, room->val, room->nnz, last, NULL);
    assert_true(room->length <= bound);
    for (size_t i = 0; i < CANARIES; i++)
        assert_int_equal(room->message[bound + i], CANARY);
}

/* Decodes a copy of the message that ends where its memory ends, so that a sanitizer sees a read
 * behind it. */
static inline int decode(struct room *room, const struct ss_wire_key *with, uint32_t from,
                         uint32_t n, struct ss_chunk *chunk, char **copy)
{
    const struct ss_wire_scratch scratch = {.idx = room->scratch, .val = room->decoded};
    *copy = test_malloc(room->length ? room->length : 1);
    memcpy(*copy, room->message, room->length);
    return ss_wire_decode(*copy, room->length, with, from, n, &scratch, chunk);
}

static const double densities[] = {1e-5, 0.001, 0.0078, 0.06, 0.3, 0.5, 0.6, 0.8, 0.95, 0.999, 1};
enum { DENSITIES = sizeof densities / sizeof densities[0] };

static inline void normal_values(struct room *room, enum ss_type type)
{
    for (uint32_t i = 0; i < room->nnz; i++) {
        double x = 2 * random_unit() - 1;
        if (type == SS_F32)
            ((float *)room->val)[i] = (float)x;
        else
            ((double *)room->val)[i] = x;
    }
}

#endif
