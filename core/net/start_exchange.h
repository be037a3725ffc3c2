/* The start exchange of numbered rounds: any rank may start round t, and all ranks hear of it
 * within log2 P messages.
 *
 * Each rank has an edge to rank + 2^j mod P for each j < ceil(log2 P). When a rank starts round t
 * or first hears of it, it sends the start of t once along each of its edges. Hence any number
 * of ranks may start a round, and each rank gets exactly one message per round on each incoming
 * edge. The edges from every rank contain a binomial tree; if P is not a power of two, branches of
 * the tree overlap. For any P, the edges are thus the union of the P trees of eager-SGD (Li et al.,
 * PPoPP'20, section 4.1.1) with consumable sends.
 *
 * Receives are posted ahead with exact source and tag. A rank handles all rounds, in order, and
 * each round needs every rank. No rank can therefore be two rounds ahead of another, and one buffer
 * per edge suffices.
 */
#ifndef CORE_NET_START_EXCHANGE_H
#define CORE_NET_START_EXCHANGE_H

#include "core/net/transport.h"

/* A start: number of the round, from 1, and two words of the rank that starts the round. */
enum { SS_START_EDGES = 31, SS_START_WORDS = 2 };
struct ss_start_message {
    uint32_t magic;
    uint32_t round;
    uint64_t words[SS_START_WORDS];
    uint64_t check; /* hash of all other fields */
};

struct ss_start_edge {
    int to, from;   /* ranks */
    uint32_t round; /* number of the last message consumed */
    bool posted;    /* a receive is posted, or its message is not consumed yet */
    struct ss_request send, recv;
    struct ss_start_message outgoing, incoming;
};

/* State of the start exchange. Posted messages point into it: do not move it between open and
 * close. */
struct ss_start_exchange {
    struct ss_transport *t;
    uint32_t round; /* number of the last round handled */
    int edges;
    uint64_t words[SS_START_WORDS]; /* words of the last round handled */
    struct ss_start_edge edge[SS_START_EDGES];
};

void ss_start_exchange_open(struct ss_start_exchange *a, struct ss_transport *t);

/* Consumes messages that have arrived and posts receives; the caller polls the transport. Returns
 * SS_OK, SS_ERR_TRANSPORT, SS_ERR_PROTOCOL, or SS_ERR_DIFFERENT if two ranks have started a round
 * with different words. After an error, further steps serve the other edges. */
int ss_start_exchange_step(struct ss_start_exchange *a);

/* Returns the message of a rank that has started the round after the last one handled; NULL if none
 * has. */
const struct ss_start_message *ss_start_exchange_seen(const struct ss_start_exchange *a);

/* Handles the next round: sends its start on all edges. If messages of the round before are
 * still in flight, does nothing and returns SS_PENDING. Returns SS_OK, or SS_ERR_TRANSPORT if an
 * edge has refused its message twice; the round counts as handled in both cases. */
int ss_start_exchange_handle(struct ss_start_exchange *a, const uint64_t words[SS_START_WORDS]);

/* Returns true if all messages of the handled rounds have been sent and received. */
bool ss_start_exchange_settled(const struct ss_start_exchange *a);

/* Cancels the receives for further rounds until the next step. If the exchange was settled
 * before, no message is lost meanwhile. */
void ss_start_exchange_pause(struct ss_start_exchange *a);

/* Cancels all sends and receives in flight. */
void ss_start_exchange_close(struct ss_start_exchange *a);

#endif
