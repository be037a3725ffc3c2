/* What the training programs share: how they fail, read numbers from options, and log. */
#ifndef TESTS_APPS_APP_H
#define TESTS_APPS_APP_H

#include <errno.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG_STEPS = 10 }; /* steps per line of a log */

struct log {
    FILE *file; /* NULL on every rank but the first */
    bool wanted;
    double loss[2]; /* summed over this rank's samples since the last line; their number */
};

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static double number(const char *option, const char *text, double low, double high)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= low && value <= high))
        fail("--%s takes a number from %g to %g, not '%s'", option, low, high, text);
    return value;
}

static long whole(const char *option, const char *text, long low, long high)
{
    double value = number(option, text, (double)low, (double)high);

    if (value != (double)(long)value)
        fail("--%s takes a whole number, not '%s'", option, text);
    return (long)value;
}

/* Whether all ranks hold the same bits. Collective. */
static bool replicas_agree(const float *weight, size_t weights)
{
    uint64_t hash = 0, both[2], top[2];

    for (size_t i = 0; i < weights; i++) {
        uint32_t bits;

        memcpy(&bits, &weight[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u + (hash >> 47);
    }
    both[0] = hash;
    both[1] = ~hash;
    MPI_Allreduce(both, top, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    return top[0] == ~top[1];
}

/* Opens the CSV on the first rank; path NULL: no log, and the calls below do nothing. */
static void log_open(struct log *log, const char *path, int rank)
{
    log->wanted = path != NULL;
    if (!path || rank != 0)
        return;
    log->file = fopen(path, "w");
    if (!log->file)
        fail("cannot write --log %s: %s", path, strerror(errno));
    fputs("step,epoch,seconds,allreduce_seconds,loss\n", log->file);
}

/* A line, on the first rank: the mean loss since the last. */
static void log_line(const struct log *log, long step, long epoch, double seconds,
                     double allreduce_seconds, double loss)
{
    if (log->file)
        fprintf(log->file, "%ld,%ld,%.4f,%.4f,%.6f\n", step, epoch, seconds, allreduce_seconds,
                loss);
}

/* After each step (counted from 1), with this rank's loss summed over its samples. Every LOG_STEPS
 * steps a line gives the mean over the samples of all ranks since the last. Collective. */
static inline void log_step(struct log *log, long step, long epoch, double seconds,
                            double allreduce_seconds, double loss, double samples)
{
    double sum[2] = {0};

    if (!log->wanted)
        return;
    log->loss[0] += loss;
    log->loss[1] += samples;
    if (step % LOG_STEPS != 0)
        return;
    MPI_Reduce(log->loss, sum, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    log->loss[0] = log->loss[1] = 0;
    log_line(log, step, epoch, seconds, allreduce_seconds, sum[0] / sum[1]);
}

static void log_close(struct log *log, const char *path)
{
    if (log->file && fclose(log->file) != 0)
        fail("cannot write --log %s: %s", path, strerror(errno));
}

#endif
