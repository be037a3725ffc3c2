/* Small agreements within an algorithm: an allreduce of a few integers and reals by recursive
 * doubling, with the same bits on every rank. */
#ifndef CORE_STREAM_AGREEMENT_H
#define CORE_STREAM_AGREEMENT_H

#include "core/net/meetings.h"
#include "core/stream/exchange.h"

struct ss_call;

struct ss_agree {
    struct ss_meetings meetings;
    struct ss_exchange *x;
    uint64_t *data; /* sums, then maxima, then reals: at first of this rank, at the end of all */
    size_t sums;    /* number of sums, added mod 2^64 */
    size_t maxima;
    size_t reals; /* number of doubles, passed as bits; added in the order of the ranks' groups */
    unsigned char *outgoing, *incoming; /* halves of work.agree */
    size_t capacity;                    /* bytes of each half */
};

/* Returns the most words of an agreement. */
size_t ss_agree_words(int size);
/* Makes room for the messages of agreements before the vote, so that no rank lacks it afterwards.
 * Returns SS_OK or SS_ERR_MEMORY. */
int ss_agree_reserve(struct ss_exchange *x);

/* Starts an agreement. `data` (sums + maxima + reals words, at most ss_agree_words) stays where it
 * is until the end. All ranks start the same agreements in the same order within a call. */
void ss_agree_start(struct ss_exchange *x, struct ss_agree *a, uint64_t *data, size_t sums,
                    size_t maxima, size_t reals);

/* Makes progress. Returns SS_PENDING or SS_OK. A rank that has failed takes part with an error
 * status: at the end x->failed is then set on all ranks and data is undefined, so that all ranks
 * skip the work that depends on it. */
int ss_agree_step(struct ss_exchange *x, struct ss_agree *a);

/* Cancels the agreement. Does nothing if none is in progress. */
void ss_agree_cancel(struct ss_exchange *x, struct ss_agree *a);

/* Returns the rank that the agreement waits for, -1: none. */
int ss_agree_waiting(const struct ss_agree *a);

#endif
