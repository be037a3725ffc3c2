/* Takes the events of a rank, and fails the test if spans overlap without nesting. */
#ifndef TESTS_UNIT_STRICT_TRACE_H
#define TESTS_UNIT_STRICT_TRACE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/spans.h"

enum { LANES = 32, DEEP = 8 };

/* Checks the rules of core/base/spans.h, and counts. */
struct strict {
    struct ss_trace sink;
    bool busy[LANES];
    unsigned depth[LANES];
    const char *open[LANES][DEEP];
    double last[LANES];
    unsigned begun[SS_SPANS], calls, at_once, most_at_once;
};

static inline bool strict_open(struct ss_trace *t, unsigned *lane)
{
    struct strict *s = (struct strict *)t;

    for (*lane = 0; s->busy[*lane]; (*lane)++)
        assert_true(*lane + 1 < LANES);
    s->busy[*lane] = true;
    s->depth[*lane] = 0;
    if (++s->at_once > s->most_at_once)
        s->most_at_once = s->at_once;
    return true;
}

static inline void strict_close(struct ss_trace *t, unsigned lane)
{
    struct strict *s = (struct strict *)t;

    assert_true(s->busy[lane]);
    assert_int_equal(s->depth[lane], 0);
    s->busy[lane] = false;
    s->at_once--;
}

static inline void strict_count(struct strict *s, const char *name)
{
    for (int i = 0; i < SS_SPANS; i++)
        s->begun[i] += strcmp(name, ss_span_name((enum ss_span)i)) == 0;
}

static inline void strict_event(struct ss_trace *t, const struct ss_trace_event *e)
{
    struct strict *s = (struct strict *)t;
    unsigned *depth = &s->depth[e->lane];

    assert_true(s->busy[e->lane]);
    assert_true(e->at >= s->last[e->lane]);
    s->last[e->lane] = e->at;
    if (e->begins) {
        assert_true(*depth < DEEP);
        s->open[e->lane][(*depth)++] = e->name;
        strict_count(s, e->name);
        return;
    }
    assert_true(*depth > 0);
    assert_string_equal(s->open[e->lane][--*depth], e->name);
    if (e->call)
        s->calls++;
    assert_true(!e->call || *depth == 0);
}

static inline void strict_idle(struct ss_trace *t, double at)
{
    (void)t, (void)at;
}

static inline void strict_set(struct strict *s)
{
    memset(s, 0, sizeof *s);
    s->sink = (struct ss_trace){strict_open, strict_close, strict_event, strict_idle};
}

#endif
