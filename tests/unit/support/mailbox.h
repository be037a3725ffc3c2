/* A transport for tests with a thousand ranks: there is no clock, messages arrive when sent, and
 * the ranks take turns. Unlike the simulator it does not search all ranks and messages for the next
 * event. */
#ifndef TESTS_MAILBOX_H
#define TESTS_MAILBOX_H

#include <stdlib.h>
#include <string.h>

#include "core/call/call.h"
#include "core/call/call_impl.h"

struct mail {
    struct mail *next;
    struct ss_tag tag;
    size_t len;
    unsigned char data[];
};

struct mail_waiting {
    struct mail_waiting *next;
    int src;
    struct ss_tag tag;
    void *buf;
    size_t capacity;
    struct ss_request *request;
};

struct mail_queue {
    struct mail *head, **end;
};

struct mailbox {
    struct ss_transport transport; /* first */
    struct mailbox *all;
    struct mail_queue *from; /* messages per source, in order of sending */
    struct mail_waiting *waiting;
};

static inline int mailbox_send(struct ss_transport *t, int dst, struct ss_tag tag, const void *buf,
                               size_t len, struct ss_request *request)
{
    struct mail_queue *q = &((struct mailbox *)t)->all[dst].from[t->rank];
    struct mail *m = malloc(sizeof *m + len);

    if (!m)
        return SS_ERR_TRANSPORT;
    *m = (struct mail){.tag = tag, .len = len};
    memcpy(m->data, buf, len);
    if (!q->head)
        q->end = &q->head;
    *q->end = m;
    q->end = &m->next;
    *request = (struct ss_request){.bytes = len};
    return SS_OK;
}

static inline int mailbox_recv(struct ss_transport *t, int src, struct ss_tag tag, void *buf,
                               size_t capacity, struct ss_request *request)
{
    struct mailbox *box = (struct mailbox *)t;
    struct mail_waiting *w = malloc(sizeof *w);

    if (!w)
        return SS_ERR_TRANSPORT;
    *request = (struct ss_request){.active = true};
    *w = (struct mail_waiting){box->waiting, src, tag, buf, capacity, request};
    box->waiting = w;
    return SS_OK;
}

/* Removes the message that w waits for from its queue. Returns NULL if there is none. */
static inline struct mail *mailbox_find(struct mailbox *box, const struct mail_waiting *w)
{
    struct mail_queue *q = &box->from[w->src];

    for (struct mail **m = &q->head; *m; m = &(*m)->next) {
        struct mail *found = *m;
        if (found->tag.call != w->tag.call || found->tag.phase != w->tag.phase ||
            found->tag.round % 64 != w->tag.round % 64)
            continue;
        *m = found->next;
        if (q->end == &found->next)
            q->end = m;
        return found;
    }
    return NULL;
}

static inline int mailbox_poll(struct ss_transport *t)
{
    struct mailbox *box = (struct mailbox *)t;

    for (struct mail_waiting **at = &box->waiting; *at;) {
        struct mail_waiting *w = *at;
        struct mail *m = mailbox_find(box, w);
        if (!m) {
            at = &w->next;
            continue;
        }
        *w->request = (struct ss_request){
            .bytes = m->len, .status = m->len <= w->capacity ? SS_OK : SS_ERR_TRANSPORT};
        if (m->len <= w->capacity)
            memcpy(w->buf, m->data, m->len);
        *at = w->next;
        free(m);
        free(w);
    }
    return SS_OK;
}

static inline void mailbox_cancel(struct ss_transport *t, struct ss_request *request)
{
    struct mailbox *box = (struct mailbox *)t;

    request->active = false;
    for (struct mail_waiting **at = &box->waiting; *at; at = &(*at)->next)
        if ((*at)->request == request) {
            struct mail_waiting *w = *at;
            *at = w->next;
            free(w);
            return;
        }
}

static inline double mailbox_now(struct ss_transport *t)
{
    (void)t;
    return 0;
}

static const struct ss_transport_ops mailbox_ops = {.send = mailbox_send,
                                                    .recv = mailbox_recv,
                                                    .poll = mailbox_poll,
                                                    .cancel = mailbox_cancel,
                                                    .now = mailbox_now};

static inline struct mailbox *mailboxes_open(int size)
{
    struct mailbox *boxes = calloc((size_t)size, sizeof *boxes);

    for (int r = 0; r < size; r++) {
        boxes[r].transport = (struct ss_transport){.rank = r, .size = size, .ops = &mailbox_ops};
        boxes[r].all = boxes;
        boxes[r].from = calloc((size_t)size, sizeof *boxes[r].from);
    }
    return boxes;
}

static inline void mailboxes_close(struct mailbox *boxes)
{
    int size = boxes->transport.size;

    for (int r = 0; r < size; r++)
        free(boxes[r].from);
    free(boxes);
}

#endif
