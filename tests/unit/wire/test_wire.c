/* The wire codec: round trips over all index sets and codings, sizes, and what a decoder must
 * refuse. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/compute/quantize.h"
#include "core/wire/rice.h"
#include "tests/unit/support/wire_room.h"

/* The entries a chunk stands for are those of the room; a dense one may have zeros between. */
static void assert_same_entries(const struct room *room, enum ss_type type,
                                const struct ss_chunk *chunk)
{
    size_t size = ss_type_size(type);
    const char *want = (const char *)room->val, *got = chunk->val;
    assert_int_equal((uintptr_t)chunk->val % size, 0);
    if (chunk->rep != SS_REP_DENSE) {
        assert_int_equal(chunk->nnz, room->nnz);
        assert_memory_equal(chunk->idx, room->idx, room->nnz * sizeof *room->idx);
        assert_memory_equal(chunk->val, room->val, room->nnz * size);
        return;
    }
    static const char zeros[8];
    assert_null(chunk->idx);
    uint32_t j = 0;
    for (uint32_t i = 0; i < chunk->nnz; i++) {
        bool present = j < room->nnz && room->idx[j] == chunk->first + i;
        assert_memory_equal(got + i * size, present ? want + j * size : zeros, size);
        j += present;
    }
    assert_int_equal(j, room->nnz);
}

static void check_round_trip(struct room *room, enum ss_type type)
{
    uint32_t first = room->nnz ? room->idx[0] : 0;
    uint32_t end = room->nnz ? room->idx[room->nnz - 1] + 1 : 0;
    struct ss_wire_key typed = key;
    typed.type = type;
    size_t smallest = SIZE_MAX;
    for (unsigned c = 0; c < CODINGS; c++) {
        enum ss_coding coding = (enum ss_coding)((c + 1) % CODINGS); /* auto comes last */
        struct ss_chunk chunk;
        char *copy;
        encode(room, type, coding, c % 2);
        assert_int_equal(decode(room, &typed, first, end, &chunk, &copy), SS_OK);
        assert_int_equal(chunk.last, c % 2);
        if (coding == SS_CODING_U32)
            assert_int_equal(chunk.rep, SS_REP_U32);
        if (coding == SS_CODING_PACKED && room->nnz)
            assert_int_equal(chunk.rep, SS_REP_PACKED);
        assert_same_entries(room, type, &chunk);
        test_free(copy);
        if (coding == SS_CODING_AUTO)
            assert_true(room->length <= smallest);
        smallest = room->length < smallest ? room->length : smallest;
        if (room->nnz) { /* one index short at either side */
            assert_int_equal(decode(room, &typed, first + 1, end, &chunk, &copy), SS_ERR_MESSAGE);
            test_free(copy);
            assert_int_equal(decode(room, &typed, first, end - 1, &chunk, &copy), SS_ERR_MESSAGE);
            test_free(copy);
        }
    }
    size_t dense = SS_WIRE_HEADER + 8 + (size_t)(end - first) * ss_type_size(type);
    if (room->nnz && end - first <= SS_CHUNK_ENTRIES)
        assert_true(smallest <= dense);
}

static void uniform_streams_come_back_whole_in_every_coding(void **state)
{
    struct room *room = *state;
    const uint32_t sizes[] = {0, 1, 2, 3, 7, 64, 255, 1001, SS_CHUNK_ENTRIES};
    for (enum ss_type type = 0; type < SS_TYPES; type++)
        for (size_t d = 0; d < DENSITIES; d++)
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                uniform(room, (uint32_t)random64() % 1000, densities[d], sizes[s]);
                check_round_trip(room, type);
            }
}

/* Runs of one density inside gaps of another: what gradients of embeddings look like. */
static void clustered(struct room *room, uint32_t cluster, uint32_t length, double inner,
                      double far)
{
    uint64_t at = 3;
    room->nnz = 0;
    for (uint32_t c = 0; c < cluster; c++) {
        for (uint32_t i = 0; i < length && at < RANGE; i++) {
            room->idx[room->nnz++] = (uint32_t)at++;
            at += (uint64_t)(log(1 - random_unit()) / log(1 - inner));
        }
        at += (uint64_t)(random_unit() * far);
    }
    random_values(room);
}

static void clustered_streams_come_back_whole_and_within_the_bound(void **state)
{
    struct room *room = *state;
    const double inner[] = {0.003, 0.3, 0.9, 0.999999};
    for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
        clustered(room, 2, 4000, inner[i], 5e8);
        check_round_trip(room, SS_F32);
        clustered(room, 100, 100, inner[i], 1e7);
        check_round_trip(room, SS_F64);
        clustered(room, 1000, 2, inner[i], 1e6);
        check_round_trip(room, SS_I32);
    }
}

/* Each way to need escapes, the largest parameter, and no gap at all. */
static void extreme_gaps_come_back_whole_and_within_the_bound(void **state)
{
    struct room *room = *state;
    const uint32_t far = RANGE - 1;
    const uint32_t sets[][4] = {{0, far, 0, 0},       {far, 0, 0, 0},
                                {0, 1, far, 0},       {0, far - 1, far, 0},
                                {0, 1, far - 1, far}, {far - 3, far - 2, far - 1, far},
                                {0, 31, 63, 96},      {0, 33, 65, 98}};
    const uint32_t counts[] = {2, 1, 3, 3, 4, 4, 4, 4};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        memcpy(room->idx, sets[i], sizeof sets[i]);
        room->nnz = counts[i];
        random_values(room);
        check_round_trip(room, SS_F64);
    }
    for (int at_the_end = 0; at_the_end < 2; at_the_end++) {
        room->nnz = SS_CHUNK_ENTRIES;
        for (uint32_t i = 0; i < room->nnz; i++)
            room->idx[i] = i + (at_the_end ? RANGE - SS_CHUNK_ENTRIES : 0);
        if (!at_the_end)
            room->idx[room->nnz - 1] = far;
        random_values(room);
        check_round_trip(room, SS_F32);
    }
    for (uint32_t gap = 1; gap < 29; gap++) { /* one gap per power of two, in one set */
        room->idx[0] = 0;
        for (uint32_t i = 1; i <= gap; i++)
            room->idx[i] = room->idx[i - 1] + (1u << i);
        room->nnz = gap + 1;
        check_round_trip(room, SS_I64);
    }
}

static double entropy(double d)
{
    return -(d * log2(d) + (1 - d) * log2(1 - d)) / d;
}

static void packed_is_within_a_tenth_of_the_entropy_of_a_uniform_set(void **state)
{
    struct room *room = *state;
    for (double d = 1e-5; d < 0.905; d = d < 0.1 ? d * 1.25 : d + 0.01) {
        uniform(room, 0, d, d < 3e-5 ? 8000 : SS_CHUNK_ENTRIES);
        encode(room, SS_F32, SS_CODING_PACKED, true);
        double bits = 8 * (double)(room->length - SS_WIRE_HEADER - 5) / room->nnz - 32;
        /* 4 sigma of the sample's own information are below 1 % at these sizes */
        if (bits > 1.1 * entropy(d))
            fail_msg("density %g: %g bits per index, entropy %g", d, bits, entropy(d));
        double expected = ss_rice_bits_per_entry(d);
        if (fabs(bits - expected) > 0.05 * expected)
            fail_msg("density %g: %g bits per index, expected %g", d, bits, expected);
    }
}

static void the_smallest_coding_has_the_expected_size(void **state)
{
    struct room *room = *state;
    for (size_t d = 0; d < DENSITIES; d++) {
        uniform(room, 0, densities[d], densities[d] < 1e-4 ? 8000 : SS_CHUNK_ENTRIES);
        encode(room, SS_F64, SS_CODING_AUTO, true);
        double bytes = (double)(room->length - SS_WIRE_HEADER) / room->nnz;
        double expected = ss_wire_bytes_per_entry(SS_F64, NULL, densities[d]);
        if (fabs(bytes - expected) > 0.02 * expected)
            fail_msg("density %g: %g bytes per entry, expected %g", densities[d], bytes, expected);
    }
}

static void a_stream_goes_on_where_its_chunk_ended(void **state)
{
    struct room *room = *state;
    struct ss_chunk chunk;
    char *copy;
    uint32_t from = 0;
    for (int i = 0; i < 5; i++) {
        uniform(room, from, 0.01, 500);
        encode(room, SS_F32, SS_CODING_AUTO, i == 4);
        assert_int_equal(decode(room, &key, from, RANGE, &chunk, &copy), SS_OK);
        assert_int_equal(chunk.last, i == 4);
        from = chunk.idx[chunk.nnz - 1] + 1;
        test_free(copy);
        assert_int_equal(decode(room, &key, from, RANGE, &chunk, &copy), SS_ERR_MESSAGE);
        test_free(copy);
    }
}

static void dense_elements_come_back_in_place(void **state)
{
    struct room *room = *state;
    const uint32_t sizes[] = {0, 1, 777, SS_CHUNK_ENTRIES};
    for (enum ss_type type = 0; type < SS_TYPES; type++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            struct ss_wire_key typed = key;
            typed.type = type;
            struct ss_chunk chunk;
            char *copy;
            uint32_t n = sizes[s];
            room->nnz = n;
            random_values(room);
            room->length =
                ss_wire_encode_dense(room->message, &typed, 100, room->val, n, true, NULL);
            assert_true(room->length <= ss_wire_bound(type, n));
            assert_int_equal(decode(room, &typed, 100, 100 + n, &chunk, &copy), SS_OK);
            assert_int_equal(chunk.rep, SS_REP_DENSE);
            assert_int_equal(chunk.first, 100);
            assert_int_equal(chunk.nnz, n);
            assert_true(chunk.last);
            assert_memory_equal(chunk.val, room->val, n * ss_type_size(type));
            test_free(copy);
            assert_int_equal(decode(room, &typed, 100, 99 + n, &chunk, &copy), SS_ERR_MESSAGE);
            test_free(copy);
            assert_int_equal(decode(room, &typed, 101, 100 + n, &chunk, &copy), SS_ERR_MESSAGE);
            test_free(copy);
        }
}

static void errors_travel_as_a_bare_header(void **state)
{
    struct room *room = *state;
    struct ss_chunk chunk;
    char *copy;
    room->length = ss_wire_encode_error(room->message, &key, SS_ERR_MEMORY);
    assert_int_equal(room->length, SS_WIRE_HEADER);
    assert_int_equal(decode(room, &key, 0, 10, &chunk, &copy), SS_OK);
    assert_int_equal(chunk.rep, SS_REP_ERROR);
    assert_int_equal(chunk.error, SS_ERR_MEMORY);
    assert_true(chunk.last);
    test_free(copy);
    for (int status = 0; status < 2; status++) { /* no error at all */
        ss_wire_encode_error(room->message, &key, status);
        assert_int_equal(decode(room, &key, 0, 10, &chunk, &copy), SS_ERR_MESSAGE);
        test_free(copy);
    }
}

static void another_call_phase_or_type_is_refused(void **state)
{
    struct room *room = *state;
    struct ss_chunk chunk;
    char *copy;
    const struct ss_wire_key others[] = {
        {SS_I32, key.call, key.phase},     {SS_F64, key.call, key.phase},
        {SS_F32, key.call + 1, key.phase}, {SS_F32, key.call ^ 1u << 31, key.phase},
        {SS_F32, key.call, key.phase + 1}, {SS_F32, key.call, SS_WIRE_PHASES - 1}};
    uniform(room, 0, 0.1, 50);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        encode(room, SS_F32, SS_CODING_AUTO, true);
        assert_int_equal(decode(room, &others[i], 0, RANGE, &chunk, &copy), SS_ERR_MESSAGE);
        test_free(copy);
        room->length = ss_wire_encode_error(room->message, &key, SS_ERR_PEER);
        assert_int_equal(decode(room, &others[i], 0, RANGE, &chunk, &copy), SS_ERR_MESSAGE);
        test_free(copy);
    }
}

enum { ROUNDED = 14, SAMPLES = ROUNDED + 2 * (SS_VALUE_TYPES - 1) };

static void rounded_sample(struct room *room, unsigned which)
{
    enum ss_values values = (enum ss_values)(SS_VALUES_BF16 + (which - ROUNDED) / 2);
    struct ss_rounding how = {.values = values, .bucket = 64};
    struct ss_wire_rounding rounding = {.how = &how, .val = room->val};

    if (which >= SAMPLES)
        return;
    uniform(room, 10, 0.3, 70);
    normal_values(room, SS_F32);
    if (which % 2)
        room->length = ss_wire_encode(room->message, &key, SS_CODING_AUTO, room->idx, room->val,
                                      room->nnz, false, &rounding);
    else
        room->length =
            ss_wire_encode_dense(room->message, &key, 9, room->val, room->nnz, false, &rounding);
}

/* One message of each representation, in turn; false past the last. */
static bool sample(struct room *room, unsigned which)
{
    if (which < 12) {
        const double d[] = {0.001, 0.3, 0.9};
        const enum ss_coding codings[] = {SS_CODING_U32, SS_CODING_PACKED, SS_CODING_BITMAP,
                                          SS_CODING_AUTO};
        uniform(room, 10, d[which / 4], 60);
        encode(room, SS_F32, codings[which % 4], which % 2);
        return true;
    }
    room->nnz = 30;
    random_values(room);
    if (which == 12)
        room->length = ss_wire_encode_dense(room->message, &key, 9, room->val, 30, false, NULL);
    else if (which == 13)
        room->length = ss_wire_encode_error(room->message, &key, SS_ERR_PEER);
    else
        rounded_sample(room, which);
    return which < SAMPLES;
}

static void truncated_and_lengthened_messages_are_refused(void **state)
{
    struct room *room = *state;
    struct ss_chunk chunk;
    char *copy;
    for (unsigned which = 0; sample(room, which); which++) {
        size_t length = room->length;
        for (room->length = 0; room->length < length; room->length++) {
            assert_int_equal(decode(room, &key, 0, RANGE, &chunk, &copy), SS_ERR_MESSAGE);
            test_free(copy);
            if (room->length < SS_WIRE_HEADER)
                continue;
            uint32_t kept, claimed = (uint32_t)room->length - SS_WIRE_HEADER;
            memcpy(&kept, room->message + 12, sizeof kept); /* a header that agrees with the cut */
            memcpy(room->message + 12, &claimed, sizeof claimed);
            assert_int_equal(decode(room, &key, 0, RANGE, &chunk, &copy), SS_ERR_MESSAGE);
            memcpy(room->message + 12, &kept, sizeof kept);
            test_free(copy);
        }
        uint32_t claimed = (uint32_t)length + 1 - SS_WIRE_HEADER;
        room->length = length + 1;
        room->message[length] = 0;
        assert_int_equal(decode(room, &key, 0, RANGE, &chunk, &copy), SS_ERR_MESSAGE);
        test_free(copy);
        memcpy(room->message + 12, &claimed, sizeof claimed);
        assert_int_equal(decode(room, &key, 0, RANGE, &chunk, &copy), SS_ERR_MESSAGE);
        test_free(copy);
    }
}

/* What every accepted chunk promises. */
static void assert_sound(const struct ss_chunk *chunk, uint32_t from, uint32_t n)
{
    if (chunk->rep == SS_REP_ERROR) {
        assert_true(chunk->error < 0);
        return;
    }
    assert_true(chunk->nnz <=
                (chunk->rep == SS_REP_QUANTIZED ? SS_CHUNK_QUANTIZED : SS_CHUNK_ENTRIES));
    if (chunk->rep == SS_REP_DENSE || chunk->rep == SS_REP_QUANTIZED) {
        assert_true(chunk->first >= from && (uint64_t)chunk->first + chunk->nnz <= n);
        return;
    }
    for (uint32_t i = 0; i < chunk->nnz; i++)
        assert_true(chunk->idx[i] >= (i ? chunk->idx[i - 1] + 1 : from) && chunk->idx[i] < n);
}

static void a_quantized_message_says_what_was_coded(void **state)
{
    struct room *room = *state;
    struct ss_chunk chunk;
    char *copy;

    for (uint32_t n = 1; n < 400; n += 57)
        for (int values = SS_VALUES_BF16; values < SS_VALUE_TYPES; values++) {
            const size_t bytes = ss_quantized_bytes((enum ss_values)values, n);
            memset(ss_wire_codes(room->message), 0x11, bytes);
            room->length =
                ss_wire_finish_quantized(room->message, &key, (enum ss_values)values, 40, n, true);
            assert_int_equal(room->length, ss_wire_length(room->message));
            assert_int_equal(decode(room, &key, 40, RANGE, &chunk, &copy), SS_OK);
            assert_true(chunk.rep == SS_REP_QUANTIZED && chunk.values == (enum ss_values)values);
            assert_true(chunk.first == 40 && chunk.nnz == n && chunk.last && !chunk.idx);
            assert_memory_equal(chunk.val, ss_wire_codes_of(room->message), bytes);
            test_free(copy);
            assert_int_equal(decode(room, &key, 41, RANGE, &chunk, &copy), SS_ERR_MESSAGE);
            test_free(copy);
            assert_int_equal(decode(room, &key, 0, 39 + n, &chunk, &copy), SS_ERR_MESSAGE);
            test_free(copy);
            const struct ss_wire_key whole = {SS_I32, key.call, key.phase};
            ss_wire_finish_quantized(room->message, &whole, (enum ss_values)values, 40, n, true);
            assert_int_equal(decode(room, &whole, 0, RANGE, &chunk, &copy), SS_ERR_MESSAGE);
            test_free(copy);
        }
}

static void every_change_of_the_header_is_refused_or_harmless(void **state)
{
    struct room *room = *state;
    struct ss_chunk chunk;
    char *copy;
    for (unsigned which = 0; sample(room, which); which++)
        for (size_t at = 0; at < SS_WIRE_HEADER; at++)
            for (unsigned value = 1; value < 256; value++) {
                room->message[at] ^= (char)value;
                int status = decode(room, &key, 0, RANGE, &chunk, &copy);
                bool last_flag = at == 3 && value == 0x80 && which != 13;
                bool error_status = which == 13 && at >= 8 && at < 12;
                if (last_flag)
                    assert_int_equal(status, SS_OK);
                else if (!error_status && at != 2)
                    assert_int_equal(status, SS_ERR_MESSAGE);
                if (status == SS_OK)
                    assert_sound(&chunk, 0, RANGE);
                room->message[at] ^= (char)value;
                test_free(copy);
            }
}

static void bit_flips_never_give_indices_out_of_order_or_range(void **state)
{
    struct room *room = *state;
    struct ss_chunk chunk;
    char *copy;
    unsigned accepted = 0, refused = 0;
    for (unsigned round = 0; round < 400; round++)
        for (unsigned which = 0; sample(room, which); which++) {
            uint32_t n = which < 12 ? room->idx[room->nnz - 1] + 1 + round % 3 : 64;
            for (unsigned flips = 1 + round % 4; flips > 0; flips--) {
                size_t bit = random64() % (8 * room->length);
                room->message[bit / 8] ^= (char)(1 << bit % 8);
            }
            int status = decode(room, &key, 1, n, &chunk, &copy);
            accepted += status == SS_OK;
            refused += status != SS_OK;
            if (status == SS_OK)
                assert_sound(&chunk, 1, n);
            else
                assert_int_equal(status, SS_ERR_MESSAGE);
            test_free(copy);
        }
    assert_true(accepted > 100 && refused > 100);
}

/* Bytes of index coding behind one header and nnz zero values. */
static int decode_index_bytes(struct room *room, enum ss_rep rep, uint32_t nnz, const void *index,
                              size_t bytes, uint32_t n)
{
    struct ss_chunk chunk;
    char *copy;
    uint32_t payload = 4 * nnz + (uint32_t)bytes;
    room->nnz = 0;
    encode(room, SS_F32, SS_CODING_AUTO, true);
    room->message[2] = (char)rep;
    memcpy(room->message + 8, &nnz, sizeof nnz);
    memcpy(room->message + 12, &payload, sizeof payload);
    memset(room->message + SS_WIRE_HEADER, 0, 4 * nnz);
    memcpy(room->message + SS_WIRE_HEADER + 4 * nnz, index, bytes);
    room->length = SS_WIRE_HEADER + payload;
    int status = decode(room, &key, 0, n, &chunk, &copy);
    test_free(copy);
    return status;
}

static void malformed_index_codings_are_refused(void **state)
{
    static const struct {
        enum ss_rep rep;
        uint32_t nnz, n;
        int status;
        size_t bytes;
        uint8_t index[16];
    } cases[] = {
        /* packed: first, parameter, code */
        {SS_REP_PACKED, 1, 8, SS_OK, 5, {7, 0, 0, 0, 0}},
        {SS_REP_PACKED, 1, 8, SS_ERR_MESSAGE, 5, {8, 0, 0, 0, 0}},
        {SS_REP_PACKED, 1, 8, SS_OK, 5, {7, 0, 0, 0, 31}},
        {SS_REP_PACKED, 1, 8, SS_ERR_MESSAGE, 5, {7, 0, 0, 0, 32}},
        {SS_REP_PACKED, 1, 8, SS_ERR_MESSAGE, 6, {7, 0, 0, 0, 0, 0}},
        {SS_REP_PACKED, 2, 9, SS_OK, 6, {7, 0, 0, 0, 0, 0}},
        {SS_REP_PACKED, 2, 9, SS_ERR_MESSAGE, 6, {7, 0, 0, 0, 0, 2}},     /* padding */
        {SS_REP_PACKED, 2, 8, SS_ERR_MESSAGE, 6, {7, 0, 0, 0, 0, 0}},     /* beyond n */
        {SS_REP_PACKED, 2, 100, SS_ERR_MESSAGE, 6, {7, 0, 0, 0, 0, 255}}, /* endless */
        /* an escape for 32, and one for 31 */
        {SS_REP_PACKED, 2, 100, SS_OK, 13, {0, 0, 0, 0, 0, 255, 255, 255, 255, 32}},
        {SS_REP_PACKED, 2, 100, SS_ERR_MESSAGE, 13, {0, 0, 0, 0, 0, 255, 255, 255, 255, 31}},
        {SS_REP_PACKED, 17, 99, SS_OK, 15, {0, 0, 0, 0, 0, 255, 255, 255, 255, 32}},
        {SS_REP_PACKED, 17, 99, SS_ERR_MESSAGE, 15, {0, 0, 0, 0, 0, 255, 255, 255, 255, 31}},
        /* packed, absent: runs of 2 and 1 with a hole between; a first run of 0; one too many */
        {SS_REP_PACKED, 3, 9, SS_OK, 6, {5, 0, 0, 0, 0x80, 0x0b}},
        {SS_REP_PACKED, 3, 8, SS_ERR_MESSAGE, 6, {5, 0, 0, 0, 0x80, 0x0b}},
        {SS_REP_PACKED, 3, 20, SS_ERR_MESSAGE, 6, {5, 0, 0, 0, 0x80, 0x0e}},
        {SS_REP_PACKED, 2, 20, SS_ERR_MESSAGE, 6, {5, 0, 0, 0, 0x80, 0x07}},
        {SS_REP_PACKED, 3, RANGE, SS_ERR_MESSAGE, 6, {5, 0, 0, 0, 0x80, 0x01}}, /* no end */
        /* bitmap: first, span, bits */
        {SS_REP_BITMAP, 2, 9, SS_OK, 9, {5, 0, 0, 0, 4, 0, 0, 0, 0x09}},
        {SS_REP_BITMAP, 2, 8, SS_ERR_MESSAGE, 9, {5, 0, 0, 0, 4, 0, 0, 0, 0x09}},
        {SS_REP_BITMAP, 3, 9, SS_ERR_MESSAGE, 9, {5, 0, 0, 0, 4, 0, 0, 0, 0x09}},
        {SS_REP_BITMAP, 1, 9, SS_ERR_MESSAGE, 9, {5, 0, 0, 0, 4, 0, 0, 0, 0x09}},
        {SS_REP_BITMAP, 2, 9, SS_ERR_MESSAGE, 9, {5, 0, 0, 0, 4, 0, 0, 0, 0x0a}}, /* no first */
        {SS_REP_BITMAP, 2, 9, SS_ERR_MESSAGE, 9, {5, 0, 0, 0, 4, 0, 0, 0, 0x05}}, /* no last */
        {SS_REP_BITMAP, 3, 9, SS_ERR_MESSAGE, 9, {5, 0, 0, 0, 4, 0, 0, 0, 0x19}}, /* padding */
        {SS_REP_BITMAP, 2, 9, SS_ERR_MESSAGE, 8, {5, 0, 0, 0, 0, 0, 0, 0}},
        {SS_REP_BITMAP, 2, 9, SS_ERR_MESSAGE, 9, {5, 0, 0, 0, 255, 255, 255, 255, 0x09}},
        /* u32: descending, equal */
        {SS_REP_U32, 2, 9, SS_OK, 8, {5, 0, 0, 0, 6, 0, 0, 0}},
        {SS_REP_U32, 2, 9, SS_ERR_MESSAGE, 8, {5, 0, 0, 0, 5, 0, 0, 0}},
        {SS_REP_U32, 2, 9, SS_ERR_MESSAGE, 8, {5, 0, 0, 0, 4, 0, 0, 0}},
        {SS_REP_U32, 2, 6, SS_ERR_MESSAGE, 8, {5, 0, 0, 0, 6, 0, 0, 0}},
        /* nothing at all has one form only */
        {SS_REP_U32, 0, 0, SS_OK, 0, {0}},
        {SS_REP_PACKED, 0, 9, SS_ERR_MESSAGE, 5, {0}},
        {SS_REP_BITMAP, 0, 9, SS_ERR_MESSAGE, 8, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status = decode_index_bytes(*state, cases[i].rep, cases[i].nnz, cases[i].index,
                                        cases[i].bytes, cases[i].n);
        if (status != cases[i].status)
            fail_msg("case %zu: status %d", i, status);
    }
}

static void more_entries_than_a_chunk_are_refused(void **state)
{
    struct room *room = *state;
    const struct ss_wire_scratch scratch = {.idx = room->scratch, .val = room->decoded};
    struct ss_chunk chunk;
    uint32_t entries = SS_CHUNK_ENTRIES + 1, payload = 8 * entries;
    char *message = test_calloc(1, SS_WIRE_HEADER + payload);
    room->nnz = 0;
    encode(room, SS_F32, SS_CODING_U32, true);
    memcpy(message, room->message, SS_WIRE_HEADER);
    memcpy(message + 8, &entries, sizeof entries);
    memcpy(message + 12, &payload, sizeof payload);
    for (uint32_t i = 0; i < entries; i++)
        memcpy(message + SS_WIRE_HEADER + 4 * (size_t)(entries + i), &i, sizeof i);
    assert_int_equal(
        ss_wire_decode(message, SS_WIRE_HEADER + payload, &key, 0, RANGE, &scratch, &chunk),
        SS_ERR_MESSAGE);
    test_free(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_streams_come_back_whole_in_every_coding),
        cmocka_unit_test(clustered_streams_come_back_whole_and_within_the_bound),
        cmocka_unit_test(extreme_gaps_come_back_whole_and_within_the_bound),
        cmocka_unit_test(packed_is_within_a_tenth_of_the_entropy_of_a_uniform_set),
        cmocka_unit_test(the_smallest_coding_has_the_expected_size),
        cmocka_unit_test(a_stream_goes_on_where_its_chunk_ended),
        cmocka_unit_test(dense_elements_come_back_in_place),
        cmocka_unit_test(errors_travel_as_a_bare_header),
        cmocka_unit_test(another_call_phase_or_type_is_refused),
        cmocka_unit_test(truncated_and_lengthened_messages_are_refused),
        cmocka_unit_test(a_quantized_message_says_what_was_coded),
        cmocka_unit_test(every_change_of_the_header_is_refused_or_harmless),
        cmocka_unit_test(bit_flips_never_give_indices_out_of_order_or_range),
        cmocka_unit_test(malformed_index_codings_are_refused),
        cmocka_unit_test(more_entries_than_a_chunk_are_refused),
    };
    return cmocka_run_group_tests_name("wire", tests, set_up, tear_down);
}
