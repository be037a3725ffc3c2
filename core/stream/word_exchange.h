/* Word exchanges within an algorithm: an allreduce of a few integers and reals by recursive
 * doubling, with the same bits on every rank. */
#ifndef CORE_STREAM_WORD_EXCHANGE_H
#define CORE_STREAM_WORD_EXCHANGE_H

#include "core/net/schedule_exchange.h"
#include "core/stream/exchange.h"

struct ss_call;

struct ss_word_exchange {
    struct ss_schedule_exchange exchange;
    struct ss_exchange *x;
    uint64_t *data; /* sums, then maxima, then reals: at first of this rank, at the end of all */
    size_t sums;    /* number of sums, added mod 2^64 */
    size_t maxima;
    size_t reals; /* number of doubles, passed as bits; added in the order of the ranks' groups */
    unsigned char *outgoing, *incoming; /* halves of work.words */
    size_t capacity;                    /* bytes of each half */
};

/* Returns the most words of a word exchange. */
size_t ss_word_exchange_most(int size);
/* Makes room for the messages of word exchanges before the vote, so that no rank lacks it
 * afterwards. Returns SS_OK or SS_ERR_MEMORY. */
int ss_word_exchange_reserve(struct ss_exchange *x);

/* Starts a word exchange. `data` (sums + maxima + reals words, at most ss_word_exchange_most) stays
 * where it is until the end. All ranks start the same word exchanges in the same order within a
 * call. */
void ss_word_exchange_start(struct ss_exchange *x, struct ss_word_exchange *a, uint64_t *data,
                            size_t sums, size_t maxima, size_t reals);

/* Makes progress. Returns SS_PENDING or SS_OK. A rank that has failed takes part with an error
 * status: at the end x->failed is then set on all ranks and data is undefined, so that all ranks
 * skip the work that depends on it. */
int ss_word_exchange_step(struct ss_exchange *x, struct ss_word_exchange *a);

/* Cancels the word exchange. Does nothing if none is in progress. */
void ss_word_exchange_cancel(struct ss_exchange *x, struct ss_word_exchange *a);

/* Returns the rank that the word exchange waits for, -1: none. */
int ss_word_exchange_waiting(const struct ss_word_exchange *a);

#endif
