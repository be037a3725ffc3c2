/* The activation of numbered rounds: whichever rank starts round t, all hear of it within log2 P
 * messages.
 *
 * Each rank has an edge to rank + 2^j mod P for each j < ceil(log2 P). The first time it handles
 * round t, having started it or heard of it, it sends the activation of t along each of its edges,
 * once: any number of ranks may start a round, and each rank gets exactly one message of each round
 * on each edge that leads to it. From every rank these edges hold a binomial tree (for P not a
 * power of two one whose branches overlap), so that this is the union of P of them of eager-SGD (Li
 * et al., PPoPP'20, section 4.1.1), with consumable sends, for any P.
 *
 * Receives are posted ahead, exact source and tag. A rank handles its rounds in order, none left
 * out, and no rank can be two rounds ahead of another that is needed in each: so one buffer an edge
 * does. */
#ifndef CORE_NET_ACTIVATION_H
#define CORE_NET_ACTIVATION_H

#include "core/net/transport.h"

/* What travels: the number of the round, from 1, and what the initiator says of it. */
enum { SS_ACTIVATION_EDGES = 31, SS_ACTIVATION_WORDS = 2 };
struct ss_activation_message {
    uint32_t magic;
    uint32_t round;
    uint64_t words[SS_ACTIVATION_WORDS];
    uint64_t check; /* hash of all other fields */
};

struct ss_activation_edge {
    int to, from;   /* ranks */
    uint32_t round; /* of the last message consumed */
    bool posted;    /* a receive is, or what came is not consumed yet */
    struct ss_request send, recv;
    struct ss_activation_message outgoing, incoming;
};

/* Messages lead here: it does not move between open and close. */
struct ss_activation {
    struct ss_transport *t;
    uint32_t round; /* the last one handled */
    int edges;
    uint64_t words[SS_ACTIVATION_WORDS]; /* of that one */
    struct ss_activation_edge edge[SS_ACTIVATION_EDGES];
};

void ss_activation_open(struct ss_activation *a, struct ss_transport *t);

/* Takes in what has come and posts receives; the caller polls the transport. SS_OK;
 * SS_ERR_TRANSPORT, SS_ERR_PROTOCOL; SS_ERR_DIFFERENT: two ranks have started one round with
 * different words. After an error it can be stepped on, but for the edge concerned. */
int ss_activation_step(struct ss_activation *a);

/* Whether another rank has started the round after the last one handled: what it says, or NULL. */
const struct ss_activation_message *ss_activation_seen(const struct ss_activation *a);

/* Handles that round: tells it on. SS_PENDING: messages of the round before are still under way,
 * nothing was done. SS_OK, or SS_ERR_TRANSPORT where an edge has refused its message twice; the
 * round is handled all the same. */
int ss_activation_pass(struct ss_activation *a, const uint64_t words[SS_ACTIVATION_WORDS]);

/* Whether all messages of the rounds that were handled have come, and gone. */
bool ss_activation_settled(const struct ss_activation *a);

/* Takes back the receives that wait for further rounds, until the next step. What comes meanwhile
 * is not lost where it was settled before. */
void ss_activation_pause(struct ss_activation *a);

/* Gives up what is under way. */
void ss_activation_close(struct ss_activation *a);

#endif
