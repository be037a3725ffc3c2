/* An exchange of all ranks by a schedule: the pair exchanges of ss_schedule, one after the other. A
 * pair exchange is one message to a rank, one from a rank, or both. The vote (core/vote/vote.h) and
 * the word exchanges within an algorithm (core/stream/word_exchange.h) are schedule exchanges with
 * records of their own. */
#ifndef CORE_NET_SCHEDULE_EXCHANGE_H
#define CORE_NET_SCHEDULE_EXCHANGE_H

#include "core/net/ranks.h"
#include "core/net/transport.h"

struct ss_schedule_exchange {
    struct ss_transport *t;
    struct ss_schedule schedule;
    bool waiting; /* the messages of the current pair exchange are posted */
    int peer;     /* rank that is waited for, -1: none */
    struct ss_request send, recv;
};

/* Callbacks of a schedule exchange. `context` is the argument of ss_schedule_exchange_step. */
struct ss_schedule_exchange_steps {
    /* Posts the messages of a pair exchange through m->recv and m->send; where the pair exchange
     * has no rank to send to or to receive from, leaves that request inactive. Returns SS_OK, or an
     * error that ends the exchange. */
    int (*post)(void *context, struct ss_schedule_exchange *m, const struct ss_pair_exchange *now);
    /* Consumes the received message after both requests have completed. Returns like `post`. */
    int (*take)(void *context, struct ss_schedule_exchange *m, const struct ss_pair_exchange *now);
};

void ss_schedule_exchange_start(struct ss_schedule_exchange *m, struct ss_transport *t);

/* Starts the send of the current pair exchange. Tries a refused send once more, since a rank that
 * leaves a schedule exchange leaves all others waiting. */
int ss_schedule_exchange_send(struct ss_schedule_exchange *m, int peer, struct ss_tag tag,
                              const void *msg, size_t len);
/* Starts the receive of the current pair exchange. */
int ss_schedule_exchange_recv(struct ss_schedule_exchange *m, int peer, struct ss_tag tag,
                              void *buffer, size_t capacity);

/* Makes progress; the caller polls the transport. Returns SS_PENDING, SS_OK, or the error of a
 * callback. Sets *moved if a pair exchange has completed. */
int ss_schedule_exchange_step(struct ss_schedule_exchange *m,
                              const struct ss_schedule_exchange_steps *parts, void *context,
                              bool *moved);
void ss_schedule_exchange_cancel(struct ss_schedule_exchange *m);

#endif
