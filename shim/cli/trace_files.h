/* Traces that ranks of a job wrote (SPARSESHIM_TRACE), and their clocks beside each other. */
#ifndef SHIM_CLI_TRACE_FILES_H
#define SHIM_CLI_TRACE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_clock {
    double at, offset, uncertainty; /* microseconds, of the rank's clock */
};

enum { TRACE_CLOCKS = 2 };

struct trace_file {
    char *path; /* owned */
    int rank, ranks;
    char *program;    /* owned */
    double real_time; /* microseconds since 1970 where its clock is 0 */
    double first;     /* of the first event, by its clock; < 0: none */
    int clocks;
    struct trace_clock clock[TRACE_CLOCKS];
    bool whole;       /* the job has ended */
    uint64_t dropped; /* events that it lacks, as far as it says */
};

struct trace_files {
    struct trace_file *file; /* owned, in order of rank */
    size_t n;
    bool measured; /* the offsets of all clocks are known; else the hosts' own times serve */
    double zero;   /* of the first event, by the common clock */
};

/* Reads what the traces say of themselves; of a folder all trace-*.json in it. CLI_OK; after saying
 * so CLI_NO where one cannot be read or they are not of one job, CLI_USAGE where one is neither a
 * file nor a folder. */
int cli_traces_read(struct trace_files *files, int n, char **arguments);
void cli_traces_free(struct trace_files *files);

/* A rank's time, microseconds, on the common clock, from the first event on. */
double cli_trace_time(const struct trace_files *files, const struct trace_file *file, double at);

/* The time of an event in a line, from *number to *end, and whether it is one. */
bool cli_trace_line(const char *line, const char **number, const char **end);

/* A line of a file as it is read: without its end and the comma there. NULL at the end of the file,
 * and of a last line that is not whole. *line and *size as for getline. */
struct trace_lines {
    void *file; /* FILE * */
    char *line;
    size_t size;
};
char *cli_trace_next(struct trace_lines *lines);

#endif
