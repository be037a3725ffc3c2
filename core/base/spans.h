/* What the time of a call goes to, as spans, one inside the other. From them come the times that
 * are booked and, where somebody wants one, the events of a trace: core/stream/exchange.h begins
 * and ends them by the transport's clock. */
#ifndef CORE_BASE_SPANS_H
#define CORE_BASE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/times.h"

/* Those of a trace alone are not booked: their time is part of that of the span around them. */
enum ss_span {
    SS_SPAN_CALL,   /* from start to end; of a trace alone */
    SS_SPAN_SCAN,   /* the look at the input */
    SS_SPAN_SELECT, /* top-k: the same, with its selection; booked as a scan */
    SS_SPAN_VOTE,
    SS_SPAN_CALIBRATE, /* booked as a vote */
    SS_SPAN_EXCHANGE,  /* the recipe and what follows it */
    SS_SPAN_ROUND,     /* from the first receive of a flow to its last; of a trace alone */
    SS_SPAN_ENCODE,    /* booked as coding, as is the next */
    SS_SPAN_DECODE,
    SS_SPAN_MERGE,
    SS_SPAN_SCATTER,  /* into the result; of a trace alone */
    SS_SPAN_CLEAR,    /* of the result while nothing has come; of a trace alone */
    SS_SPAN_WAIT,     /* steps in which nothing moved; of a trace alone */
    SS_SPAN_NATIVE,   /* the MPI library's collective, and its turn there */
    SS_SPAN_ACTIVATE, /* of a partial call's round: before it begins; of a trace alone */
    SS_SPANS
};

/* What a call was, with its end. Texts are static but for `comm`, which is borrowed. */
struct ss_trace_call {
    const char *comm;
    int ranks;
    uint64_t number; /* of the call on its communicator, or of a round */
    uint64_t count;  /* elements */
    const char *type;
    const char *algorithm; /* what ran */
    const char *why;       /* it went to the MPI library, or failed; NULL: neither */
    uint64_t bytes;        /* sent by this rank */
    double density;        /* of this rank's input, < 0: not looked at */
};

/* Begin or end of a span. Events of a lane come in the order of their times, and what has begun
 * there last ends first. Texts are static. */
struct ss_trace_event {
    double at; /* seconds */
    unsigned lane;
    bool begins;
    const char *name;
    const char *phase; /* of a round, or in which a rank waits; NULL: none */
    int number;        /* of the round, or the rank of the communicator that is waited for; < 0:
                          none */
    const struct ss_trace_call *call; /* NULL: it is no end of a call */
};

/* Takes the events of a process, from any thread. */
struct ss_trace {
    /* A lane for a call: no two have one at the same time. False: the call goes without events. */
    bool (*open)(struct ss_trace *t, unsigned *lane);
    void (*close)(struct ss_trace *t, unsigned lane);
    void (*event)(struct ss_trace *t, const struct ss_trace_event *event);
    void (*idle)(struct ss_trace *t, double at); /* a call has been waiting for some time */
};

/* Of a call, or of a round of partial calls. Zero: nothing is booked, nobody wants a trace. */
enum { SS_SPAN_DEPTH = 8 };
struct ss_spans {
    struct ss_times times;  /* booked */
    struct ss_trace *trace; /* NULL: none; nothing below it is used then */
    const char *call;       /* name of its first span */
    unsigned lane;
    uint8_t depth;
    uint8_t open[SS_SPAN_DEPTH];
    bool lull; /* the innermost ends where another begins or ends */
};

const char *ss_span_name(enum ss_span span);

/* Where a span is booked, NULL: it is not. */
static inline double *ss_span_booked(struct ss_times *t, enum ss_span span)
{
    switch (span) {
    case SS_SPAN_SCAN:
    case SS_SPAN_SELECT:
        return &t->scan;
    case SS_SPAN_VOTE:
    case SS_SPAN_CALIBRATE:
        return &t->vote;
    case SS_SPAN_EXCHANGE:
        return &t->exchange;
    case SS_SPAN_ENCODE:
    case SS_SPAN_DECODE:
        return &t->coding;
    case SS_SPAN_MERGE:
        return &t->merge;
    case SS_SPAN_NATIVE:
        return &t->native;
    default:
        return 0;
    }
}

/* Whether the sink has a lane for a call, which its span, SS_SPAN_CALL, is to begin: by a clock
 * that is looked at from here on, since another call may just have left the lane. */
bool ss_spans_open(struct ss_spans *s, struct ss_trace *trace, const char *call);

/* The rest is for calls with a trace, at the time `at`. Close: all that are open end, the call's
 * with what it was. */
void ss_spans_close(struct ss_spans *s, const struct ss_trace_call *what, double at);

void ss_spans_begin(struct ss_spans *s, enum ss_span span, const char *phase, int number,
                    double at);
/* Those inside end, too. Nothing where it is not open. */
void ss_spans_end(struct ss_spans *s, enum ss_span span, double at);
/* All but the call's end. */
void ss_spans_cut(struct ss_spans *s, double at);

/* Nothing moves: the span, SS_SPAN_WAIT or SS_SPAN_CLEAR, lasts until another begins or ends, or
 * ss_spans_wake. Begins nothing where it is what the call is in already. */
bool ss_spans_lulled(const struct ss_spans *s, enum ss_span span);
void ss_spans_lull(struct ss_spans *s, enum ss_span span, const char *phase, int peer, double at);
void ss_spans_wake(struct ss_spans *s, double at);

#endif
