/* Work space of a call: later calls of the communicator use it again, and it is freed with the
 * communicator. */
#ifndef CORE_STREAM_WORK_H
#define CORE_STREAM_WORK_H

#include <stdbool.h>

#include "core/base/mem.h"

/* A sample: its runs and their elements (core/stream/sample.h). */
struct ss_sample {
    struct ss_buf runs, values;
};

/* Entries that stay in the backend of a call's buffers, and their rounding errors. */
struct ss_backend;
struct ss_stream_buffers {
    struct ss_backend *backend;
    struct ss_buf idx, val, error;
    size_t refused; /* entries for which the backend had no memory, 0: none */
    unsigned calls; /* calls that have asked for as many since then */
};

/* Streams that algorithms build: three of an algorithm of one level, and that between levels. */
enum { SS_STREAM_BETWEEN = 3, SS_STREAMS };

struct ss_work {
    struct ss_buf own_idx, own_val;                 /* the scanned input */
    struct ss_buf idx[SS_STREAMS], val[SS_STREAMS]; /* streams that an algorithm builds */
    struct ss_buf arena;                            /* encoded messages in flight */
    struct ss_buf inbox;                            /* receive buffers */
    struct ss_buf scratch;                          /* decoded indices of one chunk */
    struct ss_buf pieces;    /* flags of the pieces of the result that are cleared */
    struct ss_buf values;    /* decoded values of one chunk */
    struct ss_buf staging;   /* elements of one chunk of a remote backend */
    struct ss_buf own_error; /* top-k: see struct ss_claims */
    struct ss_buf in_global;
    struct ss_buf part_error;
    struct ss_buf words;        /* messages of word exchanges (core/stream/word_exchange.h) */
    struct ss_buf sketch;       /* sketch of the input, for GUARD */
    struct ss_buf keep;         /* elements that a rule keeps */
    struct ss_buf host_sum;     /* sum of the host's inputs, as far as this rank owns slices */
    struct ss_sample sample;    /* sample of the input, for its density or for observe */
    struct ss_buf survey;       /* survey of the own stream, if it stays in its backend */
    struct ss_buf slice_errors; /* rounding errors of slices (core/coll/two_level.c) */
    struct ss_buf borders;      /* borders of slices (core/coll/two_level.c) */
    struct ss_buf balance;      /* counts and borders of balanced parts */
    struct ss_buf leaving;      /* parts of the own stream while the backend encodes them */

    struct ss_stream_buffers in_backend[2]; /* the own stream; its reduced part */
};

/* Returns the bytes that algorithms have left for later calls. */
size_t ss_work_kept(const struct ss_work *work);
/* Frees the buffers that ss_work_kept counts. */
void ss_work_drop(struct ss_work *work);
/* Returns the bytes of all buffers of the host. */
size_t ss_work_size(const struct ss_work *work);
/* Frees everything. */
void ss_work_free(struct ss_work *work);

/* Makes room in the backend for `entries` entries of `esize` bytes and, with `errors`, for their
 * errors. If there is no room, frees what there was and returns false. Making memory may block on
 * the device, so that a refused size is tried again only once in SS_RESERVE_TRIES calls. */
enum { SS_RESERVE_TRIES = 16 };
bool ss_stream_buffers_reserve(struct ss_stream_buffers *b, struct ss_backend *backend,
                               size_t entries, size_t esize, bool errors);

#endif
