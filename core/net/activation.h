/* The activation of numbered rounds: any rank may start round t, and all ranks hear of it within
 * log2 P messages.
 *
 * Each rank has an edge to rank + 2^j mod P for each j < ceil(log2 P). When a rank starts round t
 * or first hears of it, it sends the activation of t once along each of its edges. Hence any number
 * of ranks may start a round, and each rank gets exactly one message per round on each incoming
 * edge. The edges from every rank contain a binomial tree; if P is not a power of two, branches of
 * the tree overlap. For any P, the edges are thus the union of the P trees of eager-SGD (Li et al.,
 * PPoPP'20, section 4.1.1) with consumable sends.
 *
 * Receives are posted ahead with exact source and tag. A rank handles all rounds, in order, and
 * each round needs every rank. No rank can therefore be two rounds ahead of another, and one buffer
 * per edge suffices.
 */
#ifndef CORE_NET_ACTIVATION_H
#define CORE_NET_ACTIVATION_H

#include "core/net/transport.h"

/* An activation: number of the round, from 1, and two words of the rank that starts the round. */
enum { SS_ACTIVATION_EDGES = 31, SS_ACTIVATION_WORDS = 2 };
struct ss_activation_message {
    uint32_t magic;
    uint32_t round;
    uint64_t words[SS_ACTIVATION_WORDS];
    uint64_t check; /* hash of all other fields */
};

struct ss_activation_edge {
    int to, from;   /* ranks */
    uint32_t round; /* number of the last message consumed */
    bool posted;    /* a receive is posted, or its message is not consumed yet */
    struct ss_request send, recv;
    struct ss_activation_message outgoing, incoming;
};

/* State of the activation. Posted messages point into it: do not move it between open and close. */
struct ss_activation {
    struct ss_transport *t;
    uint32_t round; /* number of the last round handled */
    int edges;
    uint64_t words[SS_ACTIVATION_WORDS]; /* words of the last round handled */
    struct ss_activation_edge edge[SS_ACTIVATION_EDGES];
};

void ss_activation_open(struct ss_activation *a, struct ss_transport *t);

/* Consumes messages that have arrived and posts receives; the caller polls the transport. Returns
 * SS_OK, SS_ERR_TRANSPORT, SS_ERR_PROTOCOL, or SS_ERR_DIFFERENT if two ranks have started a round
 * with different words. After an error, further steps serve the other edges. */
int ss_activation_step(struct ss_activation *a);

/* Returns the message of a rank that has started the round after the last one handled; NULL if none
 * has. */
const struct ss_activation_message *ss_activation_seen(const struct ss_activation *a);

/* Handles the next round: sends its activation on all edges. If messages of the round before are
 * still in flight, does nothing and returns SS_PENDING. Returns SS_OK, or SS_ERR_TRANSPORT if an
 * edge has refused its message twice; the round counts as handled in both cases. */
int ss_activation_pass(struct ss_activation *a, const uint64_t words[SS_ACTIVATION_WORDS]);

/* Returns true if all messages of the handled rounds have been sent and received. */
bool ss_activation_settled(const struct ss_activation *a);

/* Cancels the receives for further rounds until the next step. If the activation was settled
 * before, no message is lost meanwhile. */
void ss_activation_pause(struct ss_activation *a);

/* Cancels all sends and receives in flight. */
void ss_activation_close(struct ss_activation *a);

#endif
