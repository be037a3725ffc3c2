/* Pieces of a vector pass through the host: every element once, whatever is late, and zeros once a
 * copy has failed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend/pieces.h"

/* A backend on the host whose copies are done when they have been polled `late` times, and the last
 * of which fails. */
static struct {
    struct ss_backend backend;
    unsigned late, polls, copies, fails_at, stages;
} slow;

static void *stage(struct ss_backend *p, size_t bytes)
{
    (void)p;
    return slow.stages > 0 && slow.stages-- > 0 ? malloc(bytes) : NULL;
}

static void unstage(struct ss_backend *p, void *staged)
{
    (void)p;
    slow.stages++;
    free(staged);
}

static ss_ticket copy(void *to, const void *from, size_t bytes)
{
    slow.polls = 0;
    if (++slow.copies != slow.fails_at)
        memcpy(to, from, bytes);
    return slow.copies;
}

static ss_ticket fetch(struct ss_backend *p, const void *from, size_t bytes, void *staged)
{
    (void)p;
    return copy(staged, from, bytes);
}

static ss_ticket store(struct ss_backend *p, void *to, const void *staged, size_t bytes)
{
    (void)p;
    return copy(to, staged, bytes);
}

static int poll(struct ss_backend *p, ss_ticket ticket)
{
    (void)p;
    if (slow.fails_at > 0 && ticket >= slow.fails_at)
        return SS_ERR_DEVICE;
    return ticket < slow.copies || ++slow.polls > slow.late ? SS_OK : SS_PENDING;
}

static const struct ss_backend_ops ops = {
    .poll = poll, .stage = stage, .unstage = unstage, .fetch = fetch, .store = store};

enum { MOST = 1000, STAGES = 5 };

static void open_slow(unsigned late, unsigned fails_at, unsigned stages)
{
    memset(&slow, 0, sizeof slow);
    slow.backend.ops = &ops;
    slow.late = late;
    slow.fails_at = fails_at;
    slow.stages = stages;
}

/* Adds one to each byte, or writes what it was given. Returns the pieces that were all zeros. */
static size_t add_one(struct ss_pieces *p)
{
    size_t zeros = 0;

    for (size_t i = 0; i * p->piece < p->bytes; i++) {
        const size_t left = p->bytes - i * p->piece, n = left < p->piece ? left : p->piece;
        while (ss_pieces_comes(p, i))
            ;
        const char *in = ss_pieces_in(p, i);
        char *out = ss_pieces_out(p, i);
        zeros += p->status < 0;
        for (size_t j = 0; j < n; j++) {
            const char was = in ? in[j] : out[j];
            if (p->status < 0)
                assert_int_equal(was, 0);
            out[j] = (char)(was + 1);
        }
        while (ss_pieces_has(p, i))
            ;
        ss_pieces_take_back(p, i);
    }
    while (ss_pieces_go(p))
        ;
    ss_pieces_close(p);
    assert_int_equal(slow.stages, STAGES);
    return zeros;
}

static void each_element_passes_once(void **state)
{
    static char send[MOST], recv[MOST + 1];
    struct ss_pieces p;

    (void)state;
    for (size_t bytes = 1; bytes < MOST; bytes += 1 + bytes / 3)
        for (int form = 0; form < 6; form++) {
            const bool in_place = form % 2;
            open_slow((unsigned)form, 0, STAGES);
            memset(recv, 0, sizeof recv);
            for (size_t i = 0; i < bytes; i++)
                (in_place ? recv : send)[i] = (char)(i * 7);
            assert_int_equal(
                ss_pieces_open(&p, &slow.backend, in_place ? NULL : send, recv, bytes, 100, SS_OK),
                SS_OK);
            assert_int_equal(add_one(&p), 0);
            for (size_t i = 0; i < bytes; i++)
                assert_int_equal(recv[i], (char)(i * 7 + 1));
            assert_int_equal(recv[bytes], 0);
        }
}

static void behind_a_failure_there_are_zeros_to_the_end(void **state)
{
    static char send[MOST], recv[MOST];
    struct ss_pieces p;

    (void)state;
    for (unsigned fails_at = 1; fails_at <= 20; fails_at++) {
        open_slow(2, fails_at, STAGES);
        memset(send, 5, sizeof send);
        assert_int_equal(ss_pieces_open(&p, &slow.backend, send, recv, MOST, 100, SS_OK), SS_OK);
        assert_true(add_one(&p) > 0 || fails_at > 18);
        assert_int_equal(p.status, SS_ERR_DEVICE);
    }
    open_slow(0, 0, STAGES);
    assert_int_equal(ss_pieces_open(&p, &slow.backend, NULL, recv, MOST, 100, SS_ERR_DEVICE),
                     SS_OK);
    assert_int_equal(add_one(&p), 10);
    assert_int_equal(slow.copies, 0);
}

static void without_room_nothing_begins(void **state)
{
    static char send[MOST], recv[MOST];
    struct ss_pieces p;

    (void)state;
    for (unsigned stages = 0; stages < 4; stages++) {
        open_slow(0, 0, stages);
        assert_int_equal(ss_pieces_open(&p, &slow.backend, send, recv, MOST, 100, SS_OK),
                         SS_ERR_MEMORY);
        assert_int_equal(slow.stages, stages);
        assert_int_equal(slow.copies, 0);
    }
}

static void the_host_stages_too(void **state)
{
    char memory[10] = "abcdefghi";
    struct ss_staged s = {0};

    (void)state;
    ss_staged_free(&s);
    assert_true(ss_staged_make(&s, &ss_host, memory, 10));
    ss_staged_fetch(&s);
    assert_int_equal(ss_staged_poll(&s), SS_OK);
    memcpy(s.host, "ABCDEFGHI", 10);
    ss_staged_store(&s, 3, 2);
    assert_int_equal(ss_staged_poll(&s), SS_OK);
    assert_string_equal(memory, "abcDEfghi");
    ss_staged_free(&s);
    assert_null(s.backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_element_passes_once),
        cmocka_unit_test(behind_a_failure_there_are_zeros_to_the_end),
        cmocka_unit_test(without_room_nothing_begins),
        cmocka_unit_test(the_host_stages_too),
    };
    return cmocka_run_group_tests_name("staged", tests, NULL, NULL);
}
