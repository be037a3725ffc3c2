/* The trace of this process (TRACE): events of calls in Chrome's trace-event format, as a JSON
 * array with one event per line. The last bracket is missing until the job has ended.
 *
 * A buffer of fixed size collects the events. The shim writes the buffer while calls wait or when
 * they end, at most four times a second, and when the buffer is full.
 */
#ifndef SHIM_JOB_TRACE_H
#define SHIM_JOB_TRACE_H

/* Opens the file and sets settings.trace, if a trace is wanted. Called when the rank is known. If
 * the file cannot be written, logs it and goes on without a trace. */
void shim_trace_start(void);
/* Writes the collected events. */
void shim_trace_flush(void);
/* Ends the trace at the end of the job, and logs how many events were dropped, if any. */
void shim_trace_end(void);

#endif
