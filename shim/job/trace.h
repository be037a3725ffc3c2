/* The trace of this process (TRACE): events of calls as Chrome's trace-event format has them, in a
 * JSON array, one event a line, in which the last bracket is missing until the job has ended.
 *
 * Events are noted in a buffer of fixed size and written while calls wait, or at their end, four
 * times a second, and where the buffer is full. */
#ifndef SHIM_JOB_TRACE_H
#define SHIM_JOB_TRACE_H

/* The rank is known: opens the file and sets settings.trace, where a trace is wanted. A file that
 * cannot be written is told; the job goes on without. */
void shim_trace_start(void);
/* Writes what is noted. */
void shim_trace_flush(void);
/* The job has ended: nothing is noted from here on. Tells how many events were dropped, if any. */
void shim_trace_end(void);

#endif
