/* Inside of shim/job/trace.c and trace_text.c: an event as it is noted, and as text. */
#ifndef SHIM_JOB_TRACE_IMPL_H
#define SHIM_JOB_TRACE_IMPL_H

#include "shim/job/trace.h"
#include "shim/mpi/state.h"

/* Names of communicators that a trace tells apart; further ones share the last. */
enum { TRACE_COMMS = 64, TRACE_NAME = 64 };

/* An event as it is noted; texts are static. */
struct trace_record {
    double at; /* seconds of shim_now */
    const char *name, *phase;
    int number;
    uint16_t lane;
    bool begins, ends_call;
    uint8_t comm; /* of a call that ends, as is all below: index of its name */
    float density;
    const char *type, *algorithm, *why;
    uint64_t count, bytes;
    uint64_t call;
    int ranks;
};

/* Notes stand on a lane of their own. */
enum { TRACE_LANES = 1024, TRACE_NOTES = TRACE_LANES };

/* Text on its way to the file; what has no room is cut off. */
enum { TRACE_TEXT = 1 << 16, TRACE_LINE = 4096 /* any line is shorter */ };
struct trace_text {
    size_t used;
    bool begun; /* there is a line in the file */
    char text[TRACE_TEXT];
};

/* Each puts whole lines; what ends a line stands before the next. */
void shim_trace_put_head(struct trace_text *out);
void shim_trace_put_lane(struct trace_text *out, unsigned lane);
void shim_trace_put(struct trace_text *out, const struct trace_record *r,
                    char (*comms)[TRACE_NAME]);
void shim_trace_put_clock(struct trace_text *out, const struct shim_clock_sample *sample);
/* From here on, or, at the end of the job, so many in all. */
void shim_trace_put_dropped(struct trace_text *out, double at, const char *why, uint64_t count);
void shim_trace_put_end(struct trace_text *out);

#endif
