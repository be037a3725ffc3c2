/* Shared by trace.c and trace_text.c: an event as a record and as text. */
#ifndef SHIM_JOB_TRACE_IMPL_H
#define SHIM_JOB_TRACE_IMPL_H

#include "shim/job/trace.h"
#include "shim/mpi/state.h"

/* Most names of communicators in a trace; further communicators share the last name. */
enum { TRACE_COMMS = 64, TRACE_NAME = 64 };

/* A collected event; texts are static. */
struct trace_record {
    double at; /* seconds of shim_now */
    const char *name, *phase;
    int number;
    uint16_t lane;
    bool begins, ends_call;
    /* end of a call: index of its communicator's name; the fields below also belong to such
     * events */
    uint8_t comm;
    float density;
    const char *type, *algorithm, *why;
    uint64_t count, bytes, inside;
    uint64_t call;
    int ranks;
};

/* Number of lanes; notes have a lane of their own behind them. */
enum { TRACE_LANES = 1024, TRACE_NOTES = TRACE_LANES };

/* Text for the file; text without room is cut off. */
enum { TRACE_TEXT = 1 << 16, TRACE_LINE = 4096 /* any line is shorter */ };
struct trace_text {
    size_t used;
    bool begun; /* the file has a line */
    char text[TRACE_TEXT];
};

/* Append whole lines; the separator comes before the next line. */
void shim_trace_put_head(struct trace_text *out);
void shim_trace_put_lane(struct trace_text *out, unsigned lane);
void shim_trace_put(struct trace_text *out, const struct trace_record *r,
                    char (*comms)[TRACE_NAME]);
void shim_trace_put_clock(struct trace_text *out, const struct shim_clock_sample *sample);
/* Notes that events are dropped from now on, or, at the end of the job, `count` dropped events. */
void shim_trace_put_dropped(struct trace_text *out, double at, const char *why, uint64_t count);
void shim_trace_put_end(struct trace_text *out);

#endif
