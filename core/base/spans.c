/* Opens and closes the nested spans of a traced call. */
#include "core/base/spans.h"

#include <stddef.h>

const char *ss_span_name(enum ss_span span)
{
    static const char *const names[SS_SPANS] = {
        [SS_SPAN_CALL] = "call",           [SS_SPAN_SCAN] = "scan",
        [SS_SPAN_SELECT] = "select",       [SS_SPAN_VOTE] = "vote",
        [SS_SPAN_CALIBRATE] = "calibrate", [SS_SPAN_EXCHANGE] = "exchange",
        [SS_SPAN_ROUND] = "round",         [SS_SPAN_ENCODE] = "encode",
        [SS_SPAN_DECODE] = "decode",       [SS_SPAN_MERGE] = "merge",
        [SS_SPAN_SCATTER] = "scatter",     [SS_SPAN_CLEAR] = "clear",
        [SS_SPAN_WAIT] = "wait",           [SS_SPAN_NATIVE] = "native",
        [SS_SPAN_START] = "start",
    };

    return names[span];
}

static const char *name_of(const struct ss_spans *s, enum ss_span span)
{
    return span == SS_SPAN_CALL ? s->call : ss_span_name(span);
}

static void push(struct ss_spans *s, enum ss_span span, const char *phase, int number, double at)
{
    if (s->depth == SS_SPAN_DEPTH)
        return;
    s->open[s->depth++] = (uint8_t)span;
    s->trace->event(s->trace, &(struct ss_trace_event){.at = at,
                                                       .lane = s->lane,
                                                       .begins = true,
                                                       .name = name_of(s, span),
                                                       .phase = phase,
                                                       .number = number});
}

static void pop(struct ss_spans *s, const struct ss_trace_call *what, double at)
{
    enum ss_span span = (enum ss_span)s->open[--s->depth];

    s->lull = false;
    s->trace->event(s->trace, &(struct ss_trace_event){.at = at,
                                                       .lane = s->lane,
                                                       .name = name_of(s, span),
                                                       .number = -1,
                                                       .call = s->depth == 0 ? what : NULL});
}

bool ss_spans_open(struct ss_spans *s, struct ss_trace *trace, const char *call)
{
    if (!trace->open(trace, &s->lane))
        return false;
    s->trace = trace;
    s->call = call;
    return true;
}

void ss_spans_close(struct ss_spans *s, const struct ss_trace_call *what, double at)
{
    while (s->depth > 0)
        pop(s, what, at);
    s->trace->close(s->trace, s->lane);
    s->trace = NULL;
}

void ss_spans_begin(struct ss_spans *s, enum ss_span span, const char *phase, int number, double at)
{
    ss_spans_wake(s, at);
    push(s, span, phase, number, at);
}

void ss_spans_end(struct ss_spans *s, enum ss_span span, double at)
{
    unsigned found = s->depth;

    while (found > 0 && s->open[found - 1] != span)
        found--;
    while (found > 0 && s->depth >= found)
        pop(s, NULL, at);
}

void ss_spans_cut(struct ss_spans *s, double at)
{
    while (s->depth > 1)
        pop(s, NULL, at);
}

bool ss_spans_lulled(const struct ss_spans *s, enum ss_span span)
{
    return s->lull && s->open[s->depth - 1] == span;
}

void ss_spans_lull(struct ss_spans *s, enum ss_span span, const char *phase, int peer, double at)
{
    if (ss_spans_lulled(s, span))
        return;
    ss_spans_begin(s, span, phase, peer, at);
    s->lull = s->open[s->depth - 1] == span;
}

void ss_spans_wake(struct ss_spans *s, double at)
{
    if (s->lull)
        pop(s, NULL, at);
}
