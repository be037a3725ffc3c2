/* The wire codec with values in fewer bits: round trips and sizes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/support/wire_room.h"

/* Encodes the room's stream, or n elements from `first`, rounded in place; what a decoder gets is
 * what stays here, and error makes up the difference. */
static void check_rounded(struct room *room, enum ss_type type, enum ss_coding coding,
                          const struct ss_rounding *how, bool dense)
{
    static uint64_t was[SS_CHUNK_ENTRIES], error[SS_CHUNK_ENTRIES];
    struct ss_wire_key typed = key;
    struct ss_wire_rounding rounding = {.how = how, .val = room->val, .error = error};
    size_t bound = ss_wire_bound(type, room->nnz), size = ss_type_size(type);
    struct ss_chunk chunk;
    char *copy;

    typed.type = type;
    memcpy(was, room->val, room->nnz * size);
    memset(room->message, CANARY, bound + CANARIES);
    if (dense)
        room->length =
            ss_wire_encode_dense(room->message, &typed, 100, room->val, room->nnz, true, &rounding);
    else
        room->length = ss_wire_encode(room->message, &typed, coding, room->idx, room->val,
                                      room->nnz, true, &rounding);
    assert_true(room->length <= bound);
    for (size_t i = 0; i < CANARIES; i++)
        assert_int_equal(room->message[bound + i], CANARY);
    uint32_t end = dense ? 100 + room->nnz : room->nnz ? room->idx[room->nnz - 1] + 1 : 0;
    assert_int_equal(decode(room, &typed, 0, end, &chunk, &copy), SS_OK);
    assert_int_equal(chunk.rep == SS_REP_DENSE, dense);
    assert_int_equal(chunk.nnz, room->nnz);
    assert_memory_equal(chunk.val, room->val, room->nnz * size);
    if (!dense)
        assert_memory_equal(chunk.idx, room->idx, room->nnz * sizeof *room->idx);
    for (uint32_t i = 0; i < room->nnz; i++) {
        if (type == SS_F32)
            assert_true(((float *)was)[i] == ((float *)room->val)[i] + ((float *)error)[i]);
        else
            assert_true(((double *)was)[i] == ((double *)room->val)[i] + ((double *)error)[i]);
    }
    test_free(copy);
    if (room->nnz > 0) { /* without room for the values */
        const struct ss_wire_scratch scratch = {.idx = room->scratch};
        assert_int_equal(
            ss_wire_decode(room->message, room->length, &typed, 0, end, &scratch, &chunk),
            SS_ERR_MESSAGE);
    }
}

static void rounded_streams_come_back_as_they_were_rounded(void **state)
{
    struct room *room = *state;
    const uint32_t sizes[] = {0, 1, 63, 1001, SS_CHUNK_ENTRIES};

    for (enum ss_type type = SS_F32; type <= SS_F64; type++)
        for (enum ss_values values = SS_VALUES_BF16; values < SS_VALUE_TYPES; values++)
            for (unsigned form = 0; form < 2 * CODINGS; form++)
                for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                    struct ss_rounding how = {.values = values, .bucket = form < 4 ? 64 : 1000};
                    uniform(room, 5, densities[(form * 5 + s) % DENSITIES], sizes[s]);
                    normal_values(room, type);
                    check_rounded(room, type, (enum ss_coding)(form % CODINGS), &how, false);
                    normal_values(room, type);
                    check_rounded(room, type, SS_CODING_AUTO, &how, true);
                }
}

static void expected_sizes_hold_for_rounded_values(void **state)
{
    struct room *room = *state;

    for (size_t d = 0; d < DENSITIES; d++)
        for (enum ss_values values = SS_VALUES_BF16; values < SS_VALUE_TYPES; values++) {
            struct ss_rounding how = {.values = values, .bucket = 1024};
            uniform(room, 0, densities[d], densities[d] < 1e-4 ? 8000 : SS_CHUNK_ENTRIES);
            normal_values(room, SS_F32);
            check_rounded(room, SS_F32, SS_CODING_AUTO, &how, false);
            double bytes = (double)(room->length - SS_WIRE_HEADER) / room->nnz;
            double expected = ss_wire_bytes_per_entry(SS_F32, &how, densities[d]);
            if (fabs(bytes - expected) > 0.02 * expected)
                fail_msg("density %g, %s: %g bytes per entry, expected %g", densities[d],
                         ss_value_type_name(values), bytes, expected);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounded_streams_come_back_as_they_were_rounded),
        cmocka_unit_test(expected_sizes_hold_for_rounded_values),
    };
    return cmocka_run_group_tests_name("wire values", tests, set_up, tear_down);
}
