/* Room in a backend for what stays there: where there is none it is asked for seldom, since a
 * backend may wait for its device wherever it makes memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/backend/backend.h"
#include "core/stream/work.h"

static struct {
    size_t room; /* bytes of the longest vector that there is memory for */
    unsigned tries, made, dropped;
} the;

static int make(struct ss_backend *p, struct ss_mem *mem, struct ss_buf *buf, size_t bytes)
{
    (void)p, (void)mem;
    the.tries++;
    *buf = (struct ss_buf){.data = NULL};
    if (bytes > the.room)
        return SS_ERR_MEMORY;
    *buf = (struct ss_buf){.data = malloc(1), .size = bytes};
    the.made++;
    return SS_OK;
}

static void drop(struct ss_backend *p, struct ss_buf *buf)
{
    (void)p;
    the.dropped += buf->data != NULL;
    free(buf->data);
    *buf = (struct ss_buf){.data = NULL};
}

static const struct ss_backend_ops ops = {.remote = true, .make = make, .drop = drop};
static struct ss_backend backends[2] = {{&ops}, {&ops}};

static bool ask(struct ss_work *w, int backend, size_t entries)
{
    return ss_stream_buffers_reserve(&w->in_backend[0], &backends[backend], entries, 4, true);
}

static void begin(struct ss_work *w, size_t room)
{
    *w = (struct ss_work){.in_backend = {{.backend = NULL}}};
    the.room = room;
    the.tries = the.made = the.dropped = 0;
}

static void end(struct ss_work *w)
{
    ss_work_free(w);
    assert_int_equal(the.made, the.dropped);
}

static void without_room_it_is_tried_once_in_many_calls(void **state)
{
    struct ss_work w;

    (void)state;
    begin(&w, 100);
    for (unsigned call = 0; call < 4 * SS_RESERVE_TRIES; call++)
        assert_false(ask(&w, 0, 1000 + call));
    assert_int_equal(the.tries, 4);
    end(&w);
}

static void room_that_has_come_is_found(void **state)
{
    struct ss_work w;
    unsigned calls = 0;

    (void)state;
    begin(&w, 100);
    assert_false(ask(&w, 0, 1000));
    the.room = 1 << 20;
    while (!ask(&w, 0, 1000))
        calls++;
    assert_int_equal(calls, SS_RESERVE_TRIES - 1);
    the.tries = 0;
    for (unsigned call = 0; call < 100; call++)
        assert_true(ask(&w, 0, 1000 - call));
    assert_int_equal(the.tries, 0);
    end(&w);
}

static void what_needs_less_and_other_backends_are_tried_at_once(void **state)
{
    struct ss_work w;

    (void)state;
    begin(&w, 2000);
    assert_false(ask(&w, 0, 1000));
    assert_true(ask(&w, 0, 300));
    assert_false(ask(&w, 0, 1000));
    assert_true(ask(&w, 0, 300));
    assert_true(ask(&w, 1, 300));
    assert_false(ask(&w, 1, 1000));
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_room_it_is_tried_once_in_many_calls),
        cmocka_unit_test(room_that_has_come_is_found),
        cmocka_unit_test(what_needs_less_and_other_backends_are_tried_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
