/* Work space of a call, kept for later ones and dropped with their communicator. */
#ifndef CORE_STREAM_WORK_H
#define CORE_STREAM_WORK_H

#include <stdbool.h>

#include "core/base/mem.h"

/* Where it is taken, and its elements (core/stream/sample.h). */
struct ss_sample {
    struct ss_buf runs, values;
};

/* Entries that stay in the place of a call's buffers, and what rounding takes away of them. */
struct ss_place;
struct ss_held {
    struct ss_place *place;
    struct ss_buf idx, val, error;
    size_t refused; /* entries that there was no room for, 0: none; */
    unsigned calls; /* that have asked for as many since then */
};

struct ss_work {
    struct ss_buf own_idx, own_val; /* the scanned input */
    struct ss_buf idx[3], val[3];   /* streams a recipe builds */
    struct ss_buf arena;            /* encoded messages under way */
    struct ss_buf inbox;            /* receive buffers */
    struct ss_buf scratch;          /* decoded indices of one chunk */
    struct ss_buf pieces;           /* which pieces of the result are cleared */
    struct ss_buf values;           /* decoded values of one chunk */
    struct ss_buf staging;          /* elements of one chunk of a place that is remote */
    struct ss_buf own_error;        /* top-k: see struct ss_claims */
    struct ss_buf marks;
    struct ss_buf part_error;
    struct ss_buf agree;  /* messages of small agreements (core/stream/agreement.h) */
    struct ss_buf sketch; /* of the input, for GUARD */
    struct ss_buf keep;   /* the elements that a rule keeps */
    struct ss_sample
        sample; /* of the input: how dense it is, or evidence, or what observe looks at */
    struct ss_sample levels; /* of the input, for its norm */
    struct ss_buf survey;    /* of the own stream, where it stays in its place */
    struct ss_buf leaving;   /* and its parts as they are encoded there */

    struct ss_held held[2]; /* the own stream; what is reduced of it */
};

/* What recipes built and the next ones find: its bytes; freeing it. */
size_t ss_work_kept(const struct ss_work *work);
void ss_work_drop(struct ss_work *work);
/* All of it. */
size_t ss_work_size(const struct ss_work *work);
void ss_work_free(struct ss_work *work);

/* Room for so many entries of `esize` bytes in the place, and for their errors; false: there is
 * none, and what there was is let go. A place may wait for its device where it makes memory: what
 * it had no room for is tried again once in SS_HELD_TRIES calls. */
enum { SS_HELD_TRIES = 16 };
bool ss_held_reserve(struct ss_held *held, struct ss_place *place, size_t entries, size_t esize,
                     bool errors);

#endif
