/* Incoming streams: one from each of several ranks. */
#ifndef CORE_STREAM_IN_H
#define CORE_STREAM_IN_H

#include "core/stream/exchange.h"

struct ss_in_peer {
    int rank;
    bool finished;
    unsigned char current; /* which of its two buffers is posted */
    uint32_t from;         /* no index below this may come */
    struct ss_request request;
    unsigned char *buffer[2];
};

/* Takes a decoded chunk. msg, len: the message itself, for forwarding; valid during the call only.
 */
typedef void ss_consume(struct ss_exchange *x, struct ss_in *in, int src,
                        const struct ss_chunk *chunk, const void *msg, size_t len);

struct ss_in {
    struct ss_in *next; /* in ss_exchange.open */
    unsigned phase;
    unsigned round;
    bool ordered; /* by rank, from 0 to P - 1, this rank's own turn by `own`; else sources src, src
                     - 1, ... mod P as they come */
    bool empty_too; /* consume chunks without entries as well */
    bool coded_too; /* and those that the place can decode as they came */
    int src;
    int count;
    ss_consume *consume;
    void (*own)(struct ss_exchange *x);
    int head;    /* ordered: whose turn it is; peers are numbered in order of posting */
    int started; /* peers whose first receive is posted */
    int finished;
    struct ss_in_peer peers[SS_RECV_WINDOW]; /* ring: peer i lives in slot i mod window */
};

/* Receive buffers and scratch, before the vote: SS_OK or SS_ERR_MEMORY. rounded: values may come
 * narrower than they are. */
int ss_in_reserve(struct ss_exchange *x, bool rounded);

/* `in` is zero or finished; it is open, and where it is, until it is finished or given up. */
void ss_in_start(struct ss_exchange *x, struct ss_in *in, enum ss_phase phase, unsigned round,
                 int src, int count, ss_consume *consume);
void ss_in_start_ordered(struct ss_exchange *x, struct ss_in *in, enum ss_phase phase,
                         ss_consume *consume, void (*own)(struct ss_exchange *x));
int ss_in_step(struct ss_exchange *x, struct ss_in *in);

#endif
