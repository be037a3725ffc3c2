/* Small agreements inside a recipe: an allreduce of a few integers and reals by recursive doubling,
 * the same bits on every rank. */
#ifndef CORE_STREAM_AGREEMENT_H
#define CORE_STREAM_AGREEMENT_H

#include "core/net/meetings.h"
#include "core/stream/exchange.h"

struct ss_call;

struct ss_agree {
    struct ss_meetings meetings;
    struct ss_exchange *x;
    uint64_t *data; /* sums, then maxima, then reals: on entry this rank's, at the end of all */
    size_t sums;    /* added mod 2^64 */
    size_t maxima;
    size_t reals; /* doubles, by their bits; added in the order of the ranks' groups */
    unsigned char *outgoing, *incoming; /* of work.agree */
    size_t capacity;                    /* of each, bytes */
};

/* Most words of an agreement, and room for the messages, made before the vote so that no rank lacks
 * it afterwards: SS_OK or SS_ERR_MEMORY. */
size_t ss_agree_words(int size);
int ss_agree_reserve(struct ss_exchange *x);

/* Begins; data (sums + maxima + reals words, at most ss_agree_words) stays where it is until the
 * end. All ranks start the same agreements in the same order within a call. */
void ss_agree_start(struct ss_exchange *x, struct ss_agree *a, uint64_t *data, size_t sums,
                    size_t maxima, size_t reals);

/* SS_PENDING or SS_OK. A rank that has failed takes part and says so: when any had at its start,
 * x->failed is set on all at the end and data is undefined, so that what comes after can be left
 * out by all of them. */
int ss_agree_step(struct ss_exchange *x, struct ss_agree *a);

/* Gives it up. Does nothing where none is under way. */
void ss_agree_cancel(struct ss_exchange *x, struct ss_agree *a);

/* The rank it waits for, -1: none. */
int ss_agree_waiting(const struct ss_agree *a);

#endif
