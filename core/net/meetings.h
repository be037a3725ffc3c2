/* An agreement of all ranks in progress: the meetings of ss_schedule, one after the other. A
 * meeting is one message to a rank, one from a rank, or both. The vote (core/vote/vote.h) and the
 * agreements within an algorithm (core/stream/agreement.h) are agreements with records of their
 * own. */
#ifndef CORE_NET_MEETINGS_H
#define CORE_NET_MEETINGS_H

#include "core/net/ranks.h"
#include "core/net/transport.h"

struct ss_meetings {
    struct ss_transport *t;
    struct ss_schedule schedule;
    bool waiting; /* the messages of the current meeting are posted */
    int peer;     /* rank that is waited for, -1: none */
    struct ss_request send, recv;
};

/* Callbacks of an agreement. `owner` is the argument of ss_meetings_step. */
struct ss_meetings_parts {
    /* Posts the messages of a meeting through m->recv and m->send; where the meeting has no rank to
     * send to or to receive from, leaves that request inactive. Returns SS_OK, or an error that
     * ends the agreement. */
    int (*post)(void *owner, struct ss_meetings *m, const struct ss_meeting *now);
    /* Consumes the received message after both requests have completed. Returns like `post`. */
    int (*take)(void *owner, struct ss_meetings *m, const struct ss_meeting *now);
};

void ss_meetings_start(struct ss_meetings *m, struct ss_transport *t);

/* Starts the send of the current meeting. Tries a refused send once more, since a rank that leaves
 * an agreement leaves all others waiting. */
int ss_meetings_send(struct ss_meetings *m, int peer, struct ss_tag tag, const void *msg,
                     size_t len);
/* Starts the receive of the current meeting. */
int ss_meetings_recv(struct ss_meetings *m, int peer, struct ss_tag tag, void *buffer,
                     size_t capacity);

/* Makes progress; the caller polls the transport. Returns SS_PENDING, SS_OK, or the error of a
 * callback. Sets *moved if a meeting has completed. */
int ss_meetings_step(struct ss_meetings *m, const struct ss_meetings_parts *parts, void *owner,
                     bool *moved);
void ss_meetings_cancel(struct ss_meetings *m);

#endif
