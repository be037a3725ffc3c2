/* Implements payloads, the queues and the heap. */
#include "core/sim/inbox.h"

#include <stdlib.h>
#include <string.h>

/* ---- payloads ---- */

void ss_payload_let_go(struct ss_payload *p)
{
    if (p && --p->users == 0)
        free(p);
}

struct ss_payload *ss_payload_take(struct ss_payload_sent *last, const void *buf, size_t len)
{
    struct ss_payload *p = last->payload;

    if (!p || last->from != buf || p->len != len || memcmp(p->data, buf, len) != 0) {
        ss_payload_let_go(p);
        last->payload = p = malloc(sizeof *p + len);
        if (!p)
            return NULL;
        last->from = buf;
        p->users = 1;
        p->len = len;
        memcpy(p->data, buf, len);
    }
    p->users++;
    return p;
}

void ss_mail_free(struct ss_mail *m)
{
    ss_payload_let_go(m->payload);
    free(m);
}

/* ---- the heap ---- */

static bool is_earlier(const struct ss_mail *a, const struct ss_mail *b)
{
    return a->start < b->start || (a->start == b->start && a->number < b->number);
}

static bool push(struct ss_inbox *inbox, struct ss_mail *m)
{
    size_t i = inbox->coming_count;

    if (i == inbox->coming_room) {
        size_t room = i > 0 ? 2 * i : 16;
        struct ss_mail **more = realloc(inbox->coming, room * sizeof(*more));
        if (!more)
            return false;
        inbox->coming = more;
        inbox->coming_room = room;
    }
    inbox->coming_count++;
    for (; i > 0 && is_earlier(m, inbox->coming[(i - 1) / 2]); i = (i - 1) / 2)
        inbox->coming[i] = inbox->coming[(i - 1) / 2];
    inbox->coming[i] = m;
    return true;
}

struct ss_mail *ss_inbox_coming(const struct ss_inbox *inbox)
{
    return inbox->coming_count > 0 ? inbox->coming[0] : NULL;
}

void ss_inbox_come(struct ss_inbox *inbox)
{
    struct ss_mail **heap = inbox->coming, *last = heap[--inbox->coming_count];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < inbox->coming_count) {
        if (child + 1 < inbox->coming_count && is_earlier(heap[child + 1], heap[child]))
            child++;
        if (!is_earlier(heap[child], last))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
}

/* ---- the queues ---- */

static struct ss_mail_queue *queue_of(struct ss_inbox *inbox, int src)
{
    return &inbox->queues[src % SS_INBOX_QUEUES];
}

void ss_inbox_open(struct ss_inbox *inbox)
{
    for (int q = 0; q < SS_INBOX_QUEUES; q++)
        inbox->queues[q].end = &inbox->queues[q].first;
}

void ss_inbox_close(struct ss_inbox *inbox)
{
    for (int q = 0; q < SS_INBOX_QUEUES; q++)
        while (inbox->queues[q].first)
            ss_inbox_drop(inbox, &inbox->queues[q].first);
    free(inbox->coming);
}

bool ss_inbox_put(struct ss_inbox *inbox, struct ss_mail *m, bool comes)
{
    struct ss_mail_queue *queue = queue_of(inbox, m->src);

    m->number = inbox->sent++;
    if (comes && !push(inbox, m))
        return false;
    *queue->end = m;
    queue->end = &m->next;
    return true;
}

static bool same_tag(struct ss_tag a, struct ss_tag b)
{
    return a.call == b.call && a.phase == b.phase && a.round % 64 == b.round % 64;
}

struct ss_mail **ss_inbox_find(struct ss_inbox *inbox, int src, struct ss_tag tag)
{
    for (struct ss_mail **m = &queue_of(inbox, src)->first; *m; m = &(*m)->next)
        if ((*m)->src == src && same_tag((*m)->tag, tag))
            return m;
    return NULL;
}

void ss_inbox_drop(struct ss_inbox *inbox, struct ss_mail **link)
{
    struct ss_mail *m = *link;
    struct ss_mail_queue *queue = queue_of(inbox, m->src);

    *link = m->next;
    if (queue->end == &m->next)
        queue->end = link;
    ss_mail_free(m);
}

void ss_inbox_forget(struct ss_inbox *inbox, const struct ss_request *sender)
{
    for (int q = 0; q < SS_INBOX_QUEUES; q++)
        for (struct ss_mail *m = inbox->queues[q].first; m; m = m->next)
            if (m->sender == sender)
                m->sender = NULL;
}
