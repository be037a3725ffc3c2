/* Long packed messages: places to start from, and what of them must be refused, by who decodes and
 * by who leaves them as they came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/wire/rice.h"
#include "tests/unit/support/wire_room.h"

enum { HEAD = 5, LONG_HEAD = 12 };

static const uint32_t sizes[] = {SS_RICE_LONG,        SS_RICE_LONG + 1,    9 * SS_RICE_RUN,
                                 9 * SS_RICE_RUN + 1, 9 * SS_RICE_RUN + 2, SS_CHUNK_ENTRIES - 1,
                                 SS_CHUNK_ENTRIES};
enum { SIZES = sizeof sizes / sizeof sizes[0] };
static const double thin[] = {1e-4, 0.001, 0.01, 0.1, 0.3};
enum { THIN = sizeof thin / sizeof thin[0] };

static int decode_left(struct room *room, uint32_t from, uint32_t n, struct ss_coded *coded,
                       struct ss_chunk *chunk, char **copy)
{
    const struct ss_wire_scratch scratch = {
        .idx = room->scratch, .val = room->decoded, .coded = coded};

    *copy = test_malloc(room->length);
    memcpy(*copy, room->message, room->length);
    return ss_wire_decode(*copy, room->length, &key, from, n, &scratch, chunk);
}

/* Whether the message is accepted, in both ways alike; what is accepted ascends within the range.
 */
static bool accepted(struct room *room, uint32_t from, uint32_t n)
{
    struct ss_coded coded;
    struct ss_chunk whole, left;
    const void *values;
    char *copy, *other;
    const bool good = decode(room, &key, from, n, &whole, &copy) == SS_OK;
    bool as_good = decode_left(room, from, n, &coded, &left, &other) == SS_OK;

    if (good)
        for (uint32_t i = 0; whole.idx && i < whole.nnz; i++)
            assert_true(whole.idx[i] >= (i ? whole.idx[i - 1] + 1 : from) && whole.idx[i] < n);
    if (as_good && left.coded)
        as_good = ss_wire_decode_coded(&coded, SS_F32, &values) == SS_OK;
    assert_int_equal(good, as_good);
    test_free(copy);
    test_free(other);
    return good;
}

static void long_message(struct room *room, double d, uint32_t nnz)
{
    uniform(room, 10, d, nnz);
    assert_int_equal(room->nnz, nnz);
    encode(room, SS_F32, SS_CODING_PACKED, true);
}

static uint8_t *index_of(struct room *room)
{
    return (uint8_t *)room->message + SS_WIRE_HEADER + 4 * (size_t)room->nnz;
}

/* The number that the code of a gap at that bit stands for; *at moves on. */
static uint64_t gap_at(const uint8_t *code, uint64_t *at, unsigned k)
{
    uint64_t ones = 0, low = 0;

    while (ones < SS_RICE_ESCAPE && code[*at / 8] >> *at % 8 & 1) {
        ones++;
        ++*at;
    }
    const unsigned bits = ones == SS_RICE_ESCAPE ? 32 : k;
    *at += ones < SS_RICE_ESCAPE;
    for (unsigned b = 0; b < bits; b++, ++*at)
        low |= (uint64_t)(code[*at / 8] >> *at % 8 & 1) << b;
    return ones == SS_RICE_ESCAPE ? low : ones << k | low;
}

/* A reader that has nothing but where its run starts, and a place for the sum of its gaps. */
static void runs_can_be_read_beside_each_other(void **state)
{
    struct room *room = *state;

    for (size_t d = 0; d < THIN; d++)
        for (size_t s = 0; s < SIZES; s++) {
            long_message(room, thin[d], sizes[s]);
            const uint8_t *at = index_of(room);
            const uint32_t runs = ss_rice_runs(false, room->nnz);
            const uint8_t *code = at + LONG_HEAD + 2 * (size_t)runs;
            uint64_t begin = 0;
            for (uint32_t run = 0; run < runs; run++) {
                const uint32_t first = run * SS_RICE_RUN;
                const uint64_t end = begin + ss_rice_run_bits(at + LONG_HEAD, run);
                uint64_t here = begin, index = room->idx[first];
                for (uint32_t i = first + 1; i <= first + SS_RICE_RUN && i < room->nnz; i++) {
                    index += gap_at(code, &here, at[4]) + 1;
                    assert_int_equal(index, room->idx[i]);
                }
                assert_int_equal(here, end);
                begin = end;
            }
        }
}

static void what_is_left_as_it_came_says_where_it_is(void **state)
{
    struct room *room = *state;
    struct ss_coded coded;
    struct ss_chunk chunk;
    const void *values;
    char *copy;

    for (size_t d = 0; d < THIN; d++)
        for (size_t s = 0; s < SIZES; s++) {
            long_message(room, thin[d], sizes[s]);
            const uint32_t last = room->idx[room->nnz - 1];
            assert_int_equal(decode_left(room, 10, last + 1, &coded, &chunk, &copy), SS_OK);
            assert_ptr_equal(chunk.coded, &coded);
            assert_null(chunk.idx);
            assert_null(chunk.val);
            assert_true(chunk.last);
            assert_int_equal(chunk.nnz, room->nnz);
            assert_int_equal(coded.nnz, room->nnz);
            assert_int_equal(coded.first, room->idx[0]);
            assert_int_equal(coded.last, last);
            assert_memory_equal(coded.payload, room->val, 4 * (size_t)room->nnz);
            assert_int_equal(ss_wire_decode_coded(&coded, SS_F32, &values), SS_OK);
            assert_ptr_equal(values, coded.payload);
            assert_memory_equal(room->scratch, room->idx, 4 * (size_t)room->nnz);
            test_free(copy);
            assert_int_equal(decode_left(room, room->idx[0] + 1, last + 1, &coded, &chunk, &copy),
                             SS_ERR_MESSAGE);
            test_free(copy);
            assert_int_equal(decode_left(room, 10, last, &coded, &chunk, &copy), SS_ERR_MESSAGE);
            test_free(copy);
        }
}

/* Nor is any other coding left, nor the absent indices. */
static void a_short_message_is_what_it_was(void **state)
{
    struct room *room = *state;
    struct ss_coded coded;
    struct ss_chunk chunk;
    char *copy;

    for (unsigned which = 0; which < 4; which++) {
        uniform(room, 10, which == 1 ? 0.9 : 0.01, which == 0 ? SS_RICE_LONG - 1 : SS_RICE_LONG);
        encode(room, SS_F32,
               which == 2   ? SS_CODING_U32
               : which == 3 ? SS_CODING_BITMAP
                            : SS_CODING_PACKED,
               true);
        const bool packed = which != 2 && room->message[2] == SS_REP_PACKED;
        assert_int_equal(decode_left(room, 10, RANGE, &coded, &chunk, &copy), SS_OK);
        if (which == 3 && packed) /* the bitmap would be too long */
            assert_non_null(chunk.coded);
        else
            assert_null(chunk.coded);
        if (which == 0)
            assert_memory_equal(index_of(room) - 4 * (size_t)room->nnz, room->val,
                                4 * (size_t)room->nnz);
        test_free(copy);
    }
    uniform(room, 10, 0.01, SS_RICE_LONG - 1);
    struct ss_rice plan = ss_rice_plan(room->idx, room->nnz);
    encode(room, SS_F32, SS_CODING_PACKED, true);
    assert_int_equal(room->length, SS_WIRE_HEADER + 4 * room->nnz + HEAD + plan.bytes);
}

static void places_to_start_from_are_at_most_a_hundredth_of_a_message(void **state)
{
    struct room *room = *state;

    for (size_t d = 0; d < THIN; d++)
        for (size_t s = 0; s < SIZES; s++) {
            long_message(room, thin[d], sizes[s]);
            struct ss_rice plan = ss_rice_plan(room->idx, room->nnz);
            size_t without = SS_WIRE_HEADER + 4 * (size_t)room->nnz + HEAD + plan.bytes;
            assert_true(room->length > without);
            assert_true(100 * room->length <= 101 * without);
        }
}

static void a_place_that_is_not_where_its_run_starts_is_refused(void **state)
{
    struct room *room = *state;

    for (size_t d = 0; d < THIN; d++) {
        long_message(room, thin[d], SS_RICE_LONG + 300);
        uint8_t *runs = index_of(room) + LONG_HEAD;
        const uint32_t all = ss_rice_runs(false, room->nnz);
        assert_true(accepted(room, 0, RANGE));
        for (uint32_t run = 0; run < all; run++)
            for (unsigned bit = 0; bit < 16; bit++) {
                runs[2 * run + bit / 8] ^= (uint8_t)(1u << bit % 8);
                assert_false(accepted(room, 0, RANGE));
                /* The sum is right again. */
                if (run + 1 < all && runs[2 * run + 2] > 0 && bit == 0) {
                    const int more = runs[2 * run] & 1 ? -1 : 1;
                    runs[2 * run + 2] = (uint8_t)(runs[2 * run + 2] + more);
                    assert_false(accepted(room, 0, RANGE));
                    runs[2 * run + 2] = (uint8_t)(runs[2 * run + 2] - more);
                }
                runs[2 * run + bit / 8] ^= (uint8_t)(1u << bit % 8);
            }
    }
}

static void a_head_that_is_not_that_of_its_code_is_refused(void **state)
{
    struct room *room = *state;

    long_message(room, 0.01, SS_RICE_LONG + 300);
    uint8_t *head = index_of(room);
    for (unsigned at = 4; at < LONG_HEAD; at++)
        for (unsigned value = 1; value < 256; value++) {
            head[at] ^= (uint8_t)value;
            assert_false(accepted(room, 0, RANGE));
            head[at] ^= (uint8_t)value;
        }
    /* The first index moves all, and so the last. */
    head[0] ^= 1;
    assert_false(accepted(room, 0, RANGE));
}

static void long_messages_that_are_cut_are_refused(void **state)
{
    struct room *room = *state;

    long_message(room, 0.01, SS_RICE_LONG);
    const size_t length = room->length;
    for (room->length = SS_WIRE_HEADER; room->length < length;
         room->length += room->length + 40 < length ? 1 + random64() % 40 : 1) {
        const uint32_t kept = (uint32_t)(length - SS_WIRE_HEADER),
                       claimed = (uint32_t)(room->length - SS_WIRE_HEADER);
        assert_false(accepted(room, 0, RANGE));
        memcpy(room->message + 12, &claimed, sizeof claimed);
        assert_false(accepted(room, 0, RANGE));
        memcpy(room->message + 12, &kept, sizeof kept);
    }
}

static void flips_in_long_messages_are_seen_alike_by_all_who_decode(void **state)
{
    struct room *room = *state;
    unsigned good = 0, bad = 0;

    for (unsigned round = 0; round < 3000; round++) {
        if (round % 50 == 0)
            long_message(room, thin[round / 50 % THIN], SS_RICE_LONG + round % 500);
        const uint32_t n = room->idx[room->nnz - 1] + 1 + round % 3;
        const size_t from = round % 4 ? (size_t)(index_of(room) - (uint8_t *)room->message) : 0;
        size_t bit[4];
        for (unsigned f = 0; f <= round % 4; f++) {
            bit[f] = 8 * from + random64() % (8 * (room->length - from));
            room->message[bit[f] / 8] ^= (char)(1 << bit[f] % 8);
        }
        if (accepted(room, 1, n))
            good++;
        else
            bad++;
        for (unsigned f = 0; f <= round % 4; f++)
            room->message[bit[f] / 8] ^= (char)(1 << bit[f] % 8);
    }
    assert_true(good > 100 && bad > 100);
}

/* Values of bf16 and q8 are left, too, and come out as if they had not been; others are decoded. A
 * flip among them is seen alike. */
static void rounded_values_are_left_as_they_came(void **state)
{
    struct room *room = *state;
    unsigned left_so = 0, bad = 0;

    for (unsigned round = 0; round < 600; round++) {
        const struct ss_rounding how = {
            .values = (enum ss_values)(SS_VALUES_BF16 + round % (SS_VALUE_TYPES - SS_VALUES_BF16)),
            .bucket = (uint32_t)SS_BUCKET_LEAST << round % 5};
        const struct ss_wire_rounding rounding = {.how = &how, .val = room->val};
        struct ss_coded coded;
        struct ss_chunk chunk;
        const void *values;
        char *copy;
        uniform(room, 10, 0.01, SS_RICE_LONG + round);
        normal_values(room, SS_F32);
        room->length = ss_wire_encode(room->message, &key, SS_CODING_PACKED, room->idx, room->val,
                                      room->nnz, true, &rounding);
        assert_int_equal(decode_left(room, 0, RANGE, &coded, &chunk, &copy), SS_OK);
        assert_int_equal(chunk.coded != NULL,
                         how.values == SS_VALUES_BF16 || how.values == SS_VALUES_Q8);
        if (chunk.coded) {
            assert_int_equal(coded.how, how.values);
            assert_int_equal(ss_wire_decode_coded(&coded, SS_F32, &values), SS_OK);
            assert_memory_equal(values, room->val, 4 * (size_t)room->nnz);
            left_so++;
        }
        test_free(copy);
        room->message[SS_WIRE_HEADER + random64() % (room->length - SS_WIRE_HEADER)] ^=
            (char)(1 << random64() % 8);
        bad += !accepted(room, 0, RANGE);
    }
    assert_true(left_so > 200 && bad > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_can_be_read_beside_each_other),
        cmocka_unit_test(what_is_left_as_it_came_says_where_it_is),
        cmocka_unit_test(a_short_message_is_what_it_was),
        cmocka_unit_test(places_to_start_from_are_at_most_a_hundredth_of_a_message),
        cmocka_unit_test(a_place_that_is_not_where_its_run_starts_is_refused),
        cmocka_unit_test(a_head_that_is_not_that_of_its_code_is_refused),
        cmocka_unit_test(long_messages_that_are_cut_are_refused),
        cmocka_unit_test(rounded_values_are_left_as_they_came),
        cmocka_unit_test(flips_in_long_messages_are_seen_alike_by_all_who_decode),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
