/* An agreement of all ranks under way, whatever is agreed on: the meetings of ss_schedule, one
 * after the other. Vote (core/vote/vote.h) and the agreements inside of a recipe
 * (core/stream/agreement.h) are this with a record of their own. */
#ifndef CORE_NET_MEETINGS_H
#define CORE_NET_MEETINGS_H

#include "core/net/ranks.h"
#include "core/net/transport.h"

struct ss_meetings {
    struct ss_transport *t;
    struct ss_schedule schedule;
    bool waiting; /* for the one at hand */
    int peer;     /* being waited for, -1: nobody */
    struct ss_request send, recv;
};

/* `owner` is what ss_meetings_step was called with. */
struct ss_meetings_parts {
    /* Posts the messages of a meeting by m->recv and m->send; one with nobody leaves its request
     * inactive and SS_OK. SS_OK, or an error that ends the agreement here. */
    int (*post)(void *owner, struct ss_meetings *m, const struct ss_meeting *now);
    /* Both are done: takes in what came. Likewise. */
    int (*take)(void *owner, struct ss_meetings *m, const struct ss_meeting *now);
};

void ss_meetings_start(struct ss_meetings *m, struct ss_transport *t);

/* A send that is refused is tried once more: a rank that leaves an agreement leaves all others
 * waiting. */
int ss_meetings_send(struct ss_meetings *m, int peer, struct ss_tag tag, const void *msg,
                     size_t len);
int ss_meetings_recv(struct ss_meetings *m, int peer, struct ss_tag tag, void *buffer,
                     size_t capacity);

/* SS_PENDING, SS_OK, or the error of a part. *moved is set when something happened. The caller
 * polls the transport. */
int ss_meetings_step(struct ss_meetings *m, const struct ss_meetings_parts *parts, void *owner,
                     bool *moved);
void ss_meetings_cancel(struct ss_meetings *m);

#endif
