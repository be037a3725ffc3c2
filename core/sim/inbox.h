/* Messages sent to a rank of the simulator and not received yet. */
#ifndef CORE_SIM_INBOX_H
#define CORE_SIM_INBOX_H

#include "core/net/transport.h"

/* The bytes of messages; bytes sent to several ranks in turn are stored once. */
struct ss_payload {
    size_t users;
    size_t len;
    unsigned char data[];
};
/* The last payload that a rank has sent, and its buffer; zero at first. */
struct ss_payload_sent {
    struct ss_payload *payload;
    const void *from;
};
/* Returns a payload with the current bytes of buf and one more user; NULL if memory is short. */
struct ss_payload *ss_payload_take(struct ss_payload_sent *last, const void *buf, size_t len);
/* Drops a user of a payload, which may be NULL. */
void ss_payload_let_go(struct ss_payload *payload);

struct ss_mail {
    struct ss_mail *next;
    int src;
    struct ss_tag tag;
    size_t len;
    double sent;     /* time by the sender's clock */
    double start;    /* time when the sender's link begins with it; earlier by a burst */
    double arrival;  /* time when the last byte is in, < 0 before it comes on the link */
    uint64_t number; /* order of sending to this rank */
    /* request that ends when this message is received; NULL if the send is done */
    struct ss_request *sender;
    /* length of the chain of messages that led to this one, itself included */
    uint64_t round;
    struct ss_payload *payload; /* NULL: without content */
};
void ss_mail_free(struct ss_mail *m);

/* Messages in order of sending, in queues by the sender's number; and a heap of those that are not
 * on the receiver's link yet, the first to come at its top. */
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
/* Frees the inbox with its messages. */
void ss_inbox_close(struct ss_inbox *inbox);
/* Enters a message; `comes` says that it has still to come on the link. Returns false if memory is
 * short. */
bool ss_inbox_put(struct ss_inbox *inbox, struct ss_mail *m, bool comes);
/* Returns the link to the first message of a sender with that tag, or NULL. */
struct ss_mail **ss_inbox_find(struct ss_inbox *inbox, int src, struct ss_tag tag);
/* Removes and frees the message at a link. */
void ss_inbox_drop(struct ss_inbox *inbox, struct ss_mail **link);
/* Returns the next message to come on the link, or NULL. */
struct ss_mail *ss_inbox_coming(const struct ss_inbox *inbox);
/* Removes that message from the heap. */
void ss_inbox_come(struct ss_inbox *inbox);
/* Clears a sender's request from all messages. */
void ss_inbox_forget(struct ss_inbox *inbox, const struct ss_request *sender);

#endif
