/* Messages that have been sent to a rank of the simulator and not yet received. */
#ifndef CORE_SIM_INBOX_H
#define CORE_SIM_INBOX_H

#include "core/net/transport.h"

/* The bytes of messages; what goes to several ranks one after the other is kept once. */
struct ss_payload {
    size_t users;
    size_t len;
    unsigned char data[];
};
/* What a rank has sent last, and from where; zero at first. */
struct ss_payload_sent {
    struct ss_payload *payload;
    const void *from;
};
/* The bytes as they are now, with one more user; NULL when memory is short. */
struct ss_payload *ss_payload_take(struct ss_payload_sent *last, const void *buf, size_t len);
void ss_payload_let_go(struct ss_payload *payload); /* NULL is allowed */

struct ss_mail {
    struct ss_mail *next;
    int src;
    struct ss_tag tag;
    size_t len;
    double sent;                /* by the sender's clock */
    double start;               /* when the sender's link begins with it; before, by a burst */
    double arrival;             /* when the last byte is in, < 0 before it comes on the link */
    uint64_t number;            /* in the order of sending to this rank */
    struct ss_request *sender;  /* ends when this is received; NULL when the send is done */
    uint64_t round;             /* messages that led to it, one after the other, and this one */
    struct ss_payload *payload; /* NULL: there is nothing in it */
};
void ss_mail_free(struct ss_mail *m);

/* In order of sending, in queues by the sender's number; and those that are not yet on the
 * receiver's link as a heap, the first to come at its top. */
enum { SS_INBOX_QUEUES = 64 };
struct ss_inbox {
    struct ss_mail_queue {
        struct ss_mail *first;
        struct ss_mail **end;
    } queues[SS_INBOX_QUEUES];
    uint64_t sent;
    struct ss_mail **coming;
    size_t coming_count, coming_room;
};

void ss_inbox_open(struct ss_inbox *inbox);
void ss_inbox_close(struct ss_inbox *inbox); /* frees what is in it */
/* comes: it is to come on the link. False when memory is short. */
bool ss_inbox_put(struct ss_inbox *inbox, struct ss_mail *m, bool comes);
/* The link to the first message of a sender with that tag, or NULL; takes such a one out and frees
 * it. */
struct ss_mail **ss_inbox_find(struct ss_inbox *inbox, int src, struct ss_tag tag);
void ss_inbox_drop(struct ss_inbox *inbox, struct ss_mail **link);
/* The next one to come on the link, or NULL; it has. */
struct ss_mail *ss_inbox_coming(const struct ss_inbox *inbox);
void ss_inbox_come(struct ss_inbox *inbox);
/* No message there has that sender's request any more. */
void ss_inbox_forget(struct ss_inbox *inbox, const struct ss_request *sender);

#endif
