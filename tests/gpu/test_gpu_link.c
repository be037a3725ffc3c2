/* What crosses the link between host and device: bitmaps home, messages as they came there. */
#include "core/wire/rice.h"
#include "tests/gpu/gpu_ranks.h"

static struct ss_place *place;

/* Indices of dense vectors come home as bitmaps, several of a long one. */
static void a_dense_scan_comes_home_in_fewer_bytes(void **state)
{
    const size_t n = (2 << 20) + 70007, every[] = {2, 3, 40};
    uint32_t *idx[2] = {malloc(4 * n), malloc(4 * n)};
    float *val[2] = {malloc(4 * n), malloc(4 * n)}, *near;
    struct ss_scan scan[2];

    (void)state;
    place = &gpu_rank(0)->place;
    near = gpu_rank_make(0, 4 * n);
    for (size_t d = 0; d < 3; d++) {
        const size_t room = d == 1 ? n / 10 : n; /* cut: no bitmap */
        unsigned long long before, after, up;
        for (size_t i = 0; i < n; i++)
            near[i] = i % every[d] == 1 ? (float)i : 0;
        gpu_ranks.crossed(&before, &up);
        place->ops->scan(place, SS_F32, SS_SUM, gpu_far(near), n, 3, idx[0], val[0], room,
                         &scan[0]);
        gpu_ranks_finish();
        gpu_ranks.crossed(&after, &up);
        ss_host.ops->scan(&ss_host, SS_F32, SS_SUM, near, n, 3, idx[1], val[1], room, &scan[1]);
        assert_int_equal(scan[0].stored, scan[1].stored);
        assert_int_equal(scan[0].nnz, scan[1].nnz);
        assert_memory_equal(idx[0], idx[1], 4 * scan[1].stored);
        assert_memory_equal(val[0], val[1], 4 * scan[1].stored);
        const size_t as_list = 8 * scan[1].stored, as_bitmap = 4 * scan[1].stored + n / 8;
        assert_true(after - before <= (d == 0 ? as_bitmap : as_list) + 4096);
    }
    for (int i = 0; i < 2; i++) {
        free(idx[i]);
        free(val[i]);
    }
    gpu_ranks_end();
}

/* More than words for what is refused: those wait whose results nobody has asked for. */
static void many_messages_are_decoded_before_anybody_asks(void **state)
{
    enum { SENT = GPU_WORDS + 40, ENTRIES = SS_RICE_LONG };
    static uint32_t idx[ENTRIES], scratch[ENTRIES];
    static float val[ENTRIES];
    const struct ss_wire_key key = {SS_F32, 1, 1};
    struct ss_coded coded;
    const struct ss_wire_scratch as = {.idx = scratch, .coded = &coded};
    struct ss_chunk chunk;
    const enum ss_op op = SS_SUM;
    int refused[SENT] = {0};
    float *near;

    (void)state;
    place = &gpu_rank(0)->place;
    near = gpu_rank_make(0, 4 * 2 * ENTRIES);
    for (uint32_t i = 0; i < ENTRIES; i++) {
        idx[i] = 2 * i;
        val[i] = 1;
    }
    char *msg = malloc(ss_wire_bound(SS_F32, ENTRIES));
    size_t length = ss_wire_encode(msg, &key, SS_CODING_PACKED, idx, val, ENTRIES, true, NULL);
    assert_int_equal(ss_wire_decode(msg, length, &key, 0, 2 * ENTRIES, &as, &chunk), SS_OK);
    for (int i = 0; i < SENT; i++) {
        coded.sender = i;
        if (i == 50 || i == SENT - 1) /* a gap is another one */
            msg[length - 40] ^= 1;
        place->ops->decode(place, SS_F32, &op, gpu_far(near), 0, &coded, &refused[i]);
        if (i == 50)
            msg[length - 40] ^= 1;
    }
    for (int i = 0; i < SENT; i++)
        assert_int_equal(refused[i], 0);
    gpu_ranks_finish();
    for (int i = 0; i < SENT; i++)
        assert_int_equal(refused[i], i == 50 || i == SENT - 1 ? i + 1 : 0);
    for (uint32_t i = 0; i < 2 * ENTRIES; i++)
        assert_true(near[i] == (i % 2 ? 0 : SENT - 2));
    free(msg);
    gpu_ranks_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dense_scan_comes_home_in_fewer_bytes),
        cmocka_unit_test(many_messages_are_decoded_before_anybody_asks),
    };
    return cmocka_run_group_tests_name("gpu_link", tests, NULL, NULL);
}
