/* MODE=learn: the record of one call. `sparseshim learn` judges from these records which tensors
 * are gradients (shim/cli/learn_records.py reads them, learn_judge.py judges).
 *
 * A rank records a sample of its input. All calls with the same count are sampled at the same
 * elements, on all ranks. The buffer is cut into equal parts, and each part gives one run of
 * SS_LEARN_RUN elements from a random place, at most SS_LEARN_MOST elements in all.
 *
 * The sketch is a count sketch (Charikar, Chen, Farach-Colton 2002): each element of the sample
 * enters one of SS_LEARN_SKETCH buckets with a random sign. Sketches are linear: the sum of the
 * ranks' sketches is the sketch of the result, which is therefore not recorded. Cosines of sketches
 * have a standard error of (1 - cos^2) / 11.3.
 */
#ifndef CORE_LEARN_LEARN_RECORD_H
#define CORE_LEARN_LEARN_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/types.h"

enum {
    SS_LEARN_RUN = 16,
    SS_LEARN_MOST = 65536,    /* elements of a sample */
    SS_LEARN_LEAST = 4096,    /* elements of a sample, if the call has so many; else all */
    SS_LEARN_SKETCH = 128,    /* 8 groups of SS_LEARN_RUN buckets */
    SS_LEARN_BLOCKS = 64,     /* equal parts of the buffer */
    SS_LEARN_GROUPS = 64,     /* random groups of elements */
    SS_LEARN_POSITIONS = 512, /* elements whose being zero is recorded */
    SS_LEARN_UNIT = 8192,     /* value of a sketch that is as long as the sample */
    SS_LEARN_SHARE = 65535,   /* value of a block that has all energy */
};

/* The kinds of records in a file: text as "rank 0\n" or "name = value"; a call site as
 * MODULE+OFFSET, its function and a hash of it and its callers, a line each; a call without and
 * with a sample. */
enum ss_learn_kind { SS_LEARN_TEXT = 1, SS_LEARN_SITE, SS_LEARN_CALL, SS_LEARN_SAMPLED };
/* identified: the program has identified the receive buffer */
enum {
    SS_LEARN_NONBLOCKING = 1,
    SS_LEARN_IN_PLACE = 2,
    SS_LEARN_NOT_FINITE = 4,
    SS_LEARN_IDENTIFIED = 8
};

/* The head of each record, in the byte order of the machine; a record has no padding. Its text
 * follows the head of an SS_LEARN_TEXT or SS_LEARN_SITE. */
struct ss_learn_head {
    uint32_t size; /* bytes with this head */
    uint32_t kind; /* enum ss_learn_kind */
};

struct ss_learn_record {
    struct ss_learn_head head;
    uint64_t comm;    /* the communicator, equal on its ranks */
    uint64_t count;   /* elements */
    uint64_t recv;    /* address of the receive buffer */
    uint64_t scalars; /* sums of a few numbers on the communicator so far */
    uint32_t site;    /* the n-th SS_LEARN_SITE of the file, from 1 */
    uint32_t size;    /* ranks of the communicator */
    uint32_t rank;    /* this rank in it */
    uint16_t type;    /* enum ss_type */
    uint16_t flags;
    /* The fields from here on are in SS_LEARN_SAMPLED alone. */
    uint32_t elements; /* of the sample */
    uint32_t zeros;    /* among them */
    double energy;     /* sum of squares */
    double above;      /* of elements above zero */
    uint64_t nonzero[SS_LEARN_POSITIONS / 64];
    uint16_t blocks[SS_LEARN_BLOCKS]; /* shares of the energy */
    uint16_t groups[SS_LEARN_GROUPS]; /* shares of the energy */
    int16_t sketch[SS_LEARN_SKETCH];  /* over the root of the energy */
};
enum { SS_LEARN_SHORT = offsetof(struct ss_learn_record, elements) };

/* Fills the sample of an input of n > 0 floats or doubles and sets the head's size. */
void ss_learn_sample(struct ss_learn_record *record, enum ss_type type, const void *in, size_t n);

#endif
