/* Nested spans of a call's time. core/stream/exchange.h begins and ends them by the transport's
 * clock, books their times, and sends the events of a trace if the call has one. */
#ifndef CORE_BASE_SPANS_H
#define CORE_BASE_SPANS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/times.h"

/* The spans. A span marked "trace only" is not booked: its time belongs to the span around it. */
enum ss_span {
    SS_SPAN_CALL,   /* trace only: from start to end */
    SS_SPAN_SCAN,   /* the look at the input */
    SS_SPAN_SELECT, /* top-k: the look with its selection; booked as a scan */
    SS_SPAN_VOTE,
    SS_SPAN_CALIBRATE, /* booked as a vote */
    SS_SPAN_EXCHANGE,  /* the algorithm's messages and their reduction */
    SS_SPAN_ROUND,     /* trace only: from the first receive of a stream to its last */
    SS_SPAN_ENCODE,    /* booked as coding, like SS_SPAN_DECODE */
    SS_SPAN_DECODE,
    SS_SPAN_MERGE,
    SS_SPAN_SCATTER, /* trace only: entries into the result */
    SS_SPAN_CLEAR,   /* trace only: zeroing the result while no message is there */
    SS_SPAN_WAIT,    /* trace only: steps in which nothing moved */
    SS_SPAN_NATIVE,  /* the MPI library's collective, and the wait for its turn */
    SS_SPAN_START,   /* trace only: a partial call's wait before its round begins */
    SS_SPANS
};

/* Description of a finished call. Texts are static, except `comm`, which is borrowed. */
struct ss_trace_call {
    const char *comm;
    int ranks;
    uint64_t number; /* number of the call on its communicator, or of the round */
    uint64_t count;  /* elements */
    const char *type;
    const char *algorithm; /* algorithm that served the call */
    const char *why;       /* reason for going native or for the failure; NULL if neither */
    uint64_t bytes;        /* bytes sent by this rank */
    uint64_t inside;       /* those of `bytes` that went to ranks of the same host */
    double density;        /* density of this rank's input, < 0: not counted */
};

/* Begin or end of a span. Events of a lane come in the order of their times, and spans end in the
 * reverse order of their beginnings. Texts are static. */
struct ss_trace_event {
    double at; /* time in seconds */
    unsigned lane;
    bool begins;
    const char *name;
    const char *phase; /* phase of the round or of the wait; NULL: none */
    int number;        /* number of the round, or rank that is waited for; -1: none */
    const struct ss_trace_call *call; /* set in the last event of a call */
};

/* A sink for the events of a process, callable from any thread. */
struct ss_trace {
    /* Allots a lane that no other open call has. Returns false if the call gets no lane and no
     * events. */
    bool (*open)(struct ss_trace *t, unsigned *lane);
    void (*close)(struct ss_trace *t, unsigned lane);
    void (*event)(struct ss_trace *t, const struct ss_trace_event *event);
    void (*idle)(struct ss_trace *t, double at); /* called during a long wait */
};

/* Spans of a call, or of a round of partial calls. Zero-initialised: nothing is booked and there is
 * no trace. */
enum { SS_SPAN_DEPTH = 8 };
struct ss_spans {
    struct ss_times times;  /* seconds booked so far */
    struct ss_trace *trace; /* NULL: no trace, and the fields below are unused */
    const char *call;       /* name of SS_SPAN_CALL */
    unsigned lane;
    uint8_t depth;
    uint8_t open[SS_SPAN_DEPTH];
    bool lull; /* the innermost span ends when another begins or ends */
};

const char *ss_span_name(enum ss_span span);

/* Returns where the time of a span is booked; NULL if it is not. */
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

/* Opens a lane of `trace` for a call. Returns false if there is none. The caller reads the clock
 * after this and begins SS_SPAN_CALL with that time, since another call may just have left the
 * lane. */
bool ss_spans_open(struct ss_spans *s, struct ss_trace *trace, const char *call);

/* Ends all open spans at time `at`, the call's own with the description `what`, and closes the
 * lane. This function and those below require an open lane. */
void ss_spans_close(struct ss_spans *s, const struct ss_trace_call *what, double at);

/* Begins a span inside the innermost one. */
void ss_spans_begin(struct ss_spans *s, enum ss_span span, const char *phase, int number,
                    double at);
/* Ends `span` and all spans inside it. Does nothing if `span` is not open. */
void ss_spans_end(struct ss_spans *s, enum ss_span span, double at);
/* Ends all spans but the call's. */
void ss_spans_cut(struct ss_spans *s, double at);

/* Returns true if `span` (SS_SPAN_WAIT or SS_SPAN_CLEAR) is the innermost and was begun by
 * ss_spans_lull. */
bool ss_spans_lulled(const struct ss_spans *s, enum ss_span span);
/* Begins `span` for a time in which nothing moves; it lasts until another span begins or ends, or
 * until ss_spans_wake. Does nothing if the call is in that span already. */
void ss_spans_lull(struct ss_spans *s, enum ss_span span, const char *phase, int peer, double at);
/* Ends the span that ss_spans_lull has begun, if any. */
void ss_spans_wake(struct ss_spans *s, double at);

#endif
