/* Entries that stay on a device: claimed and scanned into its memory, used and encoded there, they
 * are those of the host, and so are the messages; only these cross the link. */
#include "core/wire/rice.h"
#include "tests/gpu/two_backends.h"

enum { PARTS_MOST = 100 };

/* On both sides: the host's, and the device's in vectors of its own. */
static struct {
    struct ss_buf idx, val, error;
    uint32_t *here_idx;
    char *here_val, *here_error;
    size_t nnz;
} stay;

static void make_room(size_t entries)
{
    const size_t size = ss_type_size(w.type);

    assert_int_equal(backend->ops->make(backend, NULL, &stay.idx, 4 * entries + 4), SS_OK);
    assert_int_equal(backend->ops->make(backend, NULL, &stay.val, size * entries + 8), SS_OK);
    assert_int_equal(backend->ops->make(backend, NULL, &stay.error, size * entries + 8), SS_OK);
    stay.here_idx = calloc(entries + 64, 4);
    stay.here_val = calloc(entries + 64, 8);
    stay.here_error = calloc(entries + 64, 8);
}

static void drop_room(void)
{
    backend->ops->drop(backend, &stay.idx);
    backend->ops->drop(backend, &stay.val);
    backend->ops->drop(backend, &stay.error);
    free(stay.here_idx);
    free(stay.here_val);
    free(stay.here_error);
}

/* The entries that are not zero of what the world has in IN. */
static void scan_to_stay(size_t room)
{
    struct ss_scan here, there = {.nnz = 77};

    ss_host.ops->scan(&ss_host, w.type, SS_SUM, w.here[IN], w.n, 3, stay.here_idx, stay.here_val,
                      room, &here);
    ss_ticket ticket = backend->ops->scan(backend, w.type, SS_SUM, w.there[IN], w.n, 3,
                                          stay.idx.data, stay.val.data, room, &there);
    assert_int_equal(ss_backend_wait(backend, ticket), SS_OK);
    assert_int_equal(there.stored, here.stored);
    stay.nnz = here.stored;
}

static void expect_same_entries(void)
{
    const size_t size = ss_type_size(w.type);
    uint32_t *idx = malloc(4 * stay.nnz + 4);
    char *val = malloc(size * stay.nnz + 8), *error = malloc(size * stay.nnz + 8);

    backend->ops->read(backend, SS_I32, stay.idx.data, stay.nnz, idx);
    backend->ops->read(backend, w.type, stay.val.data, stay.nnz, val);
    backend->ops->read(backend, w.type, stay.error.data, stay.nnz, error);
    gpu_ranks_finish();
    assert_memory_equal(idx, stay.here_idx, 4 * stay.nnz);
    assert_memory_equal(val, stay.here_val, size * stay.nnz);
    assert_memory_equal(error, stay.here_error, size * stay.nnz);
    free(idx);
    free(val);
    free(error);
}

/* In so many parts, some of them empty. */
static size_t make_parts(struct ss_part *parts, size_t count)
{
    size_t first = 0, room = 0;

    for (size_t i = 0; i < count; i++) {
        const size_t left = stay.nnz - first;
        parts[i].first = first;
        parts[i].count = i + 1 == count ? left : below(3) ? below(1 + 2 * left / count) : 0;
        first += parts[i].count;
        room += (parts[i].count / SS_CHUNK_ENTRIES + 1) * 128 + 16 * parts[i].count;
    }
    return room;
}

static void encode_both(enum ss_values values, enum ss_coding coding, size_t count, bool errors)
{
    struct ss_part parts[PARTS_MOST];
    size_t here_ends[PARTS_MOST], there_ends[PARTS_MOST], room = make_parts(parts, count);
    unsigned char *here = calloc(room, 1), *there = calloc(room, 1);
    unsigned long long before, after, up;
    struct ss_leaving what = {.key = {w.type, 11, 2},
                              .coding = coding,
                              .how = {.values = values, .bucket = 64 + (uint32_t)below(900)},
                              .idx = stay.here_idx,
                              .val = stay.here_val,
                              .error = errors ? stay.here_error : NULL,
                              .parts = parts,
                              .count = count};

    ss_host.ops->encode(&ss_host, w.type, &what, here, here_ends);
    what.idx = stay.idx.data;
    what.val = stay.val.data;
    what.error = errors ? stay.error.data : NULL;
    gpu_ranks.crossed(&before, &up);
    ss_ticket ticket = backend->ops->encode(backend, w.type, &what, there, there_ends);
    memset(parts, 0x77, sizeof parts);
    assert_int_equal(ss_backend_wait(backend, ticket), SS_OK);
    gpu_ranks.crossed(&after, &up);
    assert_memory_equal(there_ends, here_ends, count * sizeof *here_ends);
    size_t sent = 0, messages = 0;
    for (size_t at = 0; at < here_ends[count - 1]; messages++) {
        const size_t length = ss_wire_length(here + at);
        assert_memory_equal(there + at, here + at, length);
        sent += length;
        at += (length + 63) / 64 * 64;
    }
    assert_true(after - before == sent + 4 * messages); /* and their lengths */
    free(here);
    free(there);
    expect_same_entries();
}

static void messages_of_a_device_are_those_of_the_host(void **state)
{
    (void)state;
    for (int c = 0; c < 40; c++) {
        const enum ss_type type = c % 5 == 4 ? SS_I64 : (enum ss_type)(c % 2);
        const bool rounded = ss_type_is_float(type) && c % 3;
        open_world(type, 1 + below(c % 4 ? 4000 : 60000));
        for (size_t i = 0, every = below(6); every > 0 && i < w.n; i++)
            if (below(every) != 0) {
                memset(w.near[IN] + i * ss_type_size(type), 0, ss_type_size(type));
                memset(w.here[IN] + i * ss_type_size(type), 0, ss_type_size(type));
            }
        make_room(w.n);
        scan_to_stay(w.n);
        encode_both(!rounded   ? SS_VALUES_SAME
                    : below(2) ? SS_VALUES_BF16
                               : SS_VALUES_Q8,
                    c % 6 ? SS_CODING_AUTO : (enum ss_coding)below(4), 1 + below(c % 7 ? 9 : 99),
                    below(2));
        drop_room();
        close_world();
    }
}

/* More entries than a batch has room for, and an empty stream. */
static void a_stream_of_several_batches_is_whole(void **state)
{
    (void)state;
    open_world(SS_F64, 1200000);
    make_room(w.n);
    scan_to_stay(w.n);
    encode_both(SS_VALUES_SAME, SS_CODING_U32, 2, false);
    stay.nnz = 0;
    encode_both(SS_VALUES_Q8, SS_CODING_AUTO, 1, true);
    encode_both(SS_VALUES_SAME, SS_CODING_AUTO, 7, false);
    drop_room();
    close_world();
}

/* Claims stay, too, and are added, set, taken back and surveyed where they are: nothing of them
 * crosses. */
static void claims_are_used_where_they_stay(void **state)
{
    (void)state;
    for (int c = 0; c < 16; c++) {
        const enum ss_type type = (enum ss_type)(c % 2);
        struct ss_selection here, there;
        struct ss_share shares[2][3];
        unsigned long long before, after, up[2];
        bool few;
        open_world(type, 3000 + below(9000));
        const size_t k = 1 + below(w.n / 4);
        const uint32_t cuts[] = {5, (uint32_t)(w.n / 3), (uint32_t)(w.n / 2), (uint32_t)w.n + 5};
        make_room(ss_claim_limit(k));
        ss_host.ops->claim(&ss_host, &w.threshold[0], type, w.here[IN], w.here[RESIDUAL], w.n, 5, k,
                           stay.here_idx, stay.here_val, &here, &few);
        ss_ticket ticket =
            backend->ops->claim(backend, &w.threshold[1], type, w.there[IN], w.there[RESIDUAL], w.n,
                                5, k, stay.idx.data, stay.val.data, &there, &few);
        assert_int_equal(ss_backend_wait(backend, ticket), SS_OK);
        assert_int_equal(there.claimed, here.claimed);
        stay.nnz = here.claimed;
        gpu_ranks.crossed(&before, &up[0]);
        ss_host.ops->survey(&ss_host, type, stay.here_idx, stay.here_val, stay.nnz, cuts, 3,
                            shares[0]);
        backend->ops->survey(backend, type, stay.idx.data, stay.val.data, stay.nnz, cuts, 3,
                             shares[1]);
        ss_host.ops->accumulate(&ss_host, type, SS_SUM, w.here[OUT], 5, stay.here_idx,
                                stay.here_val, stay.nnz);
        backend->ops->accumulate(backend, type, SS_SUM, w.there[OUT], 5, stay.idx.data,
                                 stay.val.data, stay.nnz);
        if (c % 3 == 0) {
            ss_host.ops->scatter(&ss_host, type, w.here[OUT], 5, stay.here_idx, stay.here_val,
                                 stay.nnz);
            backend->ops->scatter(backend, type, w.there[OUT], 5, stay.idx.data, stay.val.data,
                                  stay.nnz);
        }
        if (c % 3 == 1) {
            ss_host.ops->add_at(&ss_host, type, w.here[RESIDUAL], 5, stay.here_idx, stay.here_val,
                                stay.nnz);
            backend->ops->add_at(backend, type, w.there[RESIDUAL], 5, stay.idx.data, stay.val.data,
                                 stay.nnz);
        } else {
            ss_host.ops->undo(&ss_host, type, w.here[IN], w.here[RESIDUAL], w.n, 5, stay.here_idx,
                              stay.here_val, stay.nnz);
            backend->ops->undo(backend, type, w.there[IN], w.there[RESIDUAL], w.n, 5, stay.idx.data,
                               stay.val.data, stay.nnz);
        }
        gpu_ranks_finish();
        gpu_ranks.crossed(&after, &up[1]);
        assert_true(after - before == sizeof shares[0] && up[1] - up[0] <= 64);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(shares[1][i].first, shares[0][i].first);
            assert_int_equal(shares[1][i].count, shares[0][i].count);
            assert_true(close_to(shares[1][i].square, shares[0][i].square));
        }
        expect_same_entries();
        drop_room();
        close_world();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_a_device_are_those_of_the_host),
        cmocka_unit_test(a_stream_of_several_batches_is_whole),
        cmocka_unit_test(claims_are_used_where_they_stay),
    };
    return cmocka_run_group_tests_name("gpu_encode", tests, NULL, NULL);
}
