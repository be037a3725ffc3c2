/* The trace of this process (TRACE): events of calls as Chrome's trace-event format has them, in a
 * JSON array, one event a line, in which the last bracket is missing until the job has ended.
 *
 * Events are noted in a buffer of fixed size and written while calls wait, or at their end, four
 * times a second, and where the buffer is full. */
#ifndef SHIM_JOB_TRACE_H
#define SHIM_JOB_TRACE_H

#include "shim/mpi/state.h"

/* The rank is known: opens the file and sets settings.trace, where a trace is wanted. A file that
 * cannot be written is told; the job goes on without. */
void shim_trace_start(void);
/* Writes what is noted. */
void shim_trace_flush(void);
/* The job has ended: nothing is noted from here on. Tells how many events were dropped, if any. */
void shim_trace_end(void);

/* ---- inside: shim/job/trace_text.c ---- */

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
    uint32_t call;
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
