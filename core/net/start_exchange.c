/* Implements the start exchange: a message per round on each edge. */
#include "core/net/start_exchange.h"

#include <string.h>

enum { MAGIC = 0x71756f72 };

/* Returns ceil(log2 size). */
static int edges_of(int size)
{
    int edges = 0;

    while (size > 1 && edges < SS_START_EDGES && (int64_t)1 << edges < size)
        edges++;
    return edges;
}

void ss_start_exchange_open(struct ss_start_exchange *a, struct ss_transport *t)
{
    *a = (struct ss_start_exchange){.t = t, .edges = edges_of(t->size)};
    for (int j = 0; j < a->edges; j++) {
        int64_t far = (int64_t)1 << j;

        a->edge[j].to = (int)((t->rank + far) % t->size);
        a->edge[j].from = (int)((t->rank - far + t->size) % t->size);
    }
}

/* Returns the tag of an edge. All its messages share the tag: they arrive in the order sent and
 * carry their round. */
static struct ss_tag tag_of(int edge)
{
    return (struct ss_tag){.phase = SS_PHASE_START, .round = (unsigned)edge};
}

static int post(struct ss_start_exchange *a, int j)
{
    struct ss_start_edge *e = &a->edge[j];
    int status =
        a->t->ops->recv(a->t, e->from, tag_of(j), &e->incoming, sizeof e->incoming, &e->recv);

    e->posted = status == SS_OK;
    return e->posted ? SS_OK : SS_ERR_TRANSPORT;
}

static uint64_t hash(const struct ss_start_message *m)
{
    uint64_t h = ss_mix(m->magic, m->round);

    for (int i = 0; i < SS_START_WORDS; i++)
        h = ss_mix(h, m->words[i]);
    return h;
}

/* Returns how many rounds the incoming message is ahead of the last handled round. */
static int32_t ahead(const struct ss_start_exchange *a, const struct ss_start_edge *e)
{
    return (int32_t)(e->incoming.round - a->round);
}

/* Returns true if a message has arrived and is not consumed. */
static bool is_here(const struct ss_start_edge *e)
{
    return e->posted && !e->recv.active;
}

/* Checks a message that has arrived. */
static int check(const struct ss_start_exchange *a, const struct ss_start_edge *e)
{
    if (e->recv.status != SS_OK)
        return SS_ERR_TRANSPORT;
    if (e->recv.bytes != sizeof e->incoming || e->incoming.magic != MAGIC ||
        e->incoming.check != hash(&e->incoming) || ahead(a, e) > 1)
        return SS_ERR_PROTOCOL;
    if (ahead(a, e) == 0 && memcmp(e->incoming.words, a->words, sizeof a->words) != 0)
        return SS_ERR_DIFFERENT;
    return SS_OK;
}

static int step_edge(struct ss_start_exchange *a, int j)
{
    struct ss_start_edge *e = &a->edge[j];
    int status = SS_OK;

    if (is_here(e)) {
        status = check(a, e);
        if (status == SS_OK && ahead(a, e) > 0)
            return SS_OK;
        e->posted = false;
        e->round = e->incoming.round;
    }
    if (!e->posted && post(a, j) != SS_OK)
        return SS_ERR_TRANSPORT;
    return status;
}

int ss_start_exchange_step(struct ss_start_exchange *a)
{
    int status = SS_OK;

    for (int j = 0; j < a->edges; j++) {
        int of_edge = step_edge(a, j);

        if (status == SS_OK)
            status = of_edge;
    }
    return status;
}

const struct ss_start_message *ss_start_exchange_seen(const struct ss_start_exchange *a)
{
    for (int j = 0; j < a->edges; j++)
        if (is_here(&a->edge[j]) && check(a, &a->edge[j]) == SS_OK && ahead(a, &a->edge[j]) == 1)
            return &a->edge[j].incoming;
    return NULL;
}

static int tell(struct ss_start_exchange *a, int j)
{
    struct ss_start_edge *e = &a->edge[j];
    int status = SS_ERR_TRANSPORT;

    e->outgoing.magic = MAGIC;
    e->outgoing.round = a->round;
    memcpy(e->outgoing.words, a->words, sizeof a->words);
    e->outgoing.check = hash(&e->outgoing);
    for (int attempt = 0; status != SS_OK && attempt < 2; attempt++)
        status =
            a->t->ops->send(a->t, e->to, tag_of(j), &e->outgoing, sizeof e->outgoing, &e->send);
    if (status != SS_OK)
        e->send.active = false;
    return status == SS_OK ? SS_OK : SS_ERR_TRANSPORT;
}

int ss_start_exchange_handle(struct ss_start_exchange *a, const uint64_t words[SS_START_WORDS])
{
    int status = SS_OK;

    for (int j = 0; j < a->edges; j++)
        if (a->edge[j].send.active)
            return SS_PENDING;
    a->round++;
    memcpy(a->words, words, sizeof a->words);
    for (int j = 0; j < a->edges; j++)
        if (tell(a, j) != SS_OK)
            status = SS_ERR_TRANSPORT;
    return status;
}

bool ss_start_exchange_settled(const struct ss_start_exchange *a)
{
    for (int j = 0; j < a->edges; j++)
        if (a->edge[j].send.active || a->edge[j].round != a->round)
            return false;
    return true;
}

void ss_start_exchange_pause(struct ss_start_exchange *a)
{
    for (int j = 0; j < a->edges; j++)
        if (a->edge[j].posted && a->edge[j].recv.active) {
            a->t->ops->cancel(a->t, &a->edge[j].recv);
            a->edge[j].posted = false;
        }
}

void ss_start_exchange_close(struct ss_start_exchange *a)
{
    for (int j = 0; j < a->edges; j++) {
        struct ss_start_edge *e = &a->edge[j];

        if (e->posted && e->recv.active)
            a->t->ops->cancel(a->t, &e->recv);
        if (e->send.active)
            a->t->ops->cancel(a->t, &e->send);
        e->posted = false;
    }
    a->edges = 0;
}
