/* Incoming streams: one from each of several ranks. */
#ifndef CORE_STREAM_IN_H
#define CORE_STREAM_IN_H

#include "core/stream/exchange.h"

struct ss_in_peer {
    int rank;
    bool finished;
    unsigned char current; /* index of the posted buffer */
    uint32_t from;         /* least index that the next chunk may hold */
    struct ss_request request;
    unsigned char *buffer[2];
};

/* Consumes a decoded chunk. msg and len are the message itself, for forwarding; valid during the
 * call only. */
typedef void ss_consume(struct ss_exchange *x, struct ss_in *in, int src,
                        const struct ss_chunk *chunk, const void *msg, size_t len);

struct ss_in {
    struct ss_in *next; /* in ss_exchange.open */
    unsigned phase;
    unsigned round;
    /* If true, the peers come by rank from 0 to P - 1, with `own` called at this rank's turn. If
     * false, sources src, src - 1, ... mod P come as they arrive. */
    bool ordered;
    bool empty_too; /* consume chunks without entries as well */
    bool quantized; /* chunks are quantized; without it such a chunk is malformed */
    bool coded_too; /* consume chunks that the backend can decode as they are */
    int src;
    int count;
    ss_consume *consume;
    void (*own)(struct ss_exchange *x);
    /* ordered: position of the current peer; peers are numbered in the order of posting */
    int head;
    int started; /* number of peers whose first receive is posted */
    int finished;
    struct ss_in_peer peers[SS_RECV_WINDOW]; /* ring: peer i lives in slot i mod window */
};

/* Makes receive buffers and scratch before the vote. Returns SS_OK or SS_ERR_MEMORY. `rounded` says
 * that values may arrive coded. */
int ss_in_reserve(struct ss_exchange *x, bool rounded);

/* Starts receiving. `in` is zero or finished, and does not move until it is finished or
 * cancelled. */
void ss_in_start(struct ss_exchange *x, struct ss_in *in, enum ss_phase phase, unsigned round,
                 int src, int count, ss_consume *consume);
void ss_in_start_ordered(struct ss_exchange *x, struct ss_in *in, enum ss_phase phase,
                         ss_consume *consume, void (*own)(struct ss_exchange *x));
int ss_in_step(struct ss_exchange *x, struct ss_in *in);

#endif
