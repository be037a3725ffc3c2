/* The simulator: messages and receives as lists in order of time, and the rank to step next. */
#include "core/sim/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct message {
    struct message *next;
    int src;
    struct ss_tag tag;
    size_t len;
    double start;   /* when the sender's link begins with it */
    double arrival; /* when the last byte is in, < 0 before it comes on the receiver's link */
    struct ss_request *sender; /* ends when this is received; NULL when the send is done */
    unsigned char data[];
};

struct posted {
    struct posted *next;
    int src;
    struct ss_tag tag;
    void *buf;
    size_t capacity;
    struct ss_request *request;
};

struct sim_rank {
    struct ss_transport transport; /* first, so that a transport leads to its rank */
    struct ss_sim *sim;
    double clock;
    double out_free; /* when the outgoing link is free */
    double in_free;
    struct message *inbox; /* in order of sending */
    struct message **inbox_end;
    struct posted *posted; /* in order of posting */
    struct posted **posted_end;
    uint64_t sent;
    uint64_t sends;
    bool finished;
    bool moved;
    bool stuck; /* waits for an event */
    int idle;   /* steps in a row that moved nothing */
    /* The next event here, when event_known: at event_time a message comes on the link
     * (event_message) or, NULL, the first receive is done; never: INFINITY. */
    bool event_known;
    double event_time;
    struct message *event_message;
};

struct ss_sim {
    int size;
    double alpha;
    double beta;
    uint64_t random; /* state, 0 = by the clock */
    struct ss_sim_fault fault;
    size_t eager; /* longer sends wait for their receive */
    double idle;  /* seconds that pass when nobody can move, 0 = the run ends */
    struct sim_rank ranks[];
};

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 0x2545f4914f6cdd1dULL;
}

static bool same_tag(struct ss_tag a, struct ss_tag b)
{
    return a.call == b.call && a.phase == b.phase && a.round % 64 == b.round % 64;
}

static int sim_send(struct ss_transport *t, int dst, struct ss_tag tag, const void *buf, size_t len,
                    struct ss_request *request)
{
    struct sim_rank *self = (struct sim_rank *)t;
    struct ss_sim *sim = self->sim;
    struct sim_rank *peer = &sim->ranks[dst];
    bool faulty = self->transport.rank == sim->fault.rank;
    uint64_t number = ++self->sends;

    if (faulty && number == sim->fault.fail_send)
        return SS_ERR_TRANSPORT;

    *request = (struct ss_request){.status = SS_OK, .bytes = len};
    self->moved = true;
    if (faulty && number == sim->fault.lose_send) {
        request->active = len > sim->eager;
        return SS_OK;
    }

    struct message *m = malloc(sizeof *m + len);
    if (!m)
        return SS_ERR_TRANSPORT;
    memcpy(m->data, buf, len);
    if (faulty && number == sim->fault.corrupt_send)
        m->data[sim->fault.corrupt_byte % len] ^=
            sim->fault.corrupt_mask ? sim->fault.corrupt_mask : 0x10;
    m->next = NULL;
    m->src = t->rank;
    m->tag = tag;
    m->len = len;
    m->start = self->clock > self->out_free ? self->clock : self->out_free;
    m->arrival = -1;
    m->sender = len > sim->eager ? request : NULL;
    request->active = m->sender != NULL;
    self->out_free = m->start + sim->beta * (double)len;
    self->sent += len;
    *peer->inbox_end = m;
    peer->inbox_end = &m->next;
    peer->event_known = false;
    return SS_OK;
}

static int sim_recv(struct ss_transport *t, int src, struct ss_tag tag, void *buf, size_t capacity,
                    struct ss_request *request)
{
    struct sim_rank *self = (struct sim_rank *)t;
    struct posted *p = malloc(sizeof *p);

    if (!p)
        return SS_ERR_TRANSPORT;
    *request = (struct ss_request){.active = true};
    *p = (struct posted){
        .src = src, .tag = tag, .buf = buf, .capacity = capacity, .request = request};
    *self->posted_end = p;
    self->posted_end = &p->next;
    self->event_known = false;
    return SS_OK;
}

/* The first message for a posted receive, or NULL. */
static struct message **find_message(struct sim_rank *self, const struct posted *p)
{
    for (struct message **m = &self->inbox; *m; m = &(*m)->next)
        if ((*m)->src == p->src && same_tag((*m)->tag, p->tag))
            return m;
    return NULL;
}

static void unlink_message(struct sim_rank *self, struct message **link)
{
    struct message *m = *link;

    *link = m->next;
    if (self->inbox_end == &m->next)
        self->inbox_end = link;
    free(m);
}

static void unlink_posted(struct sim_rank *self, struct posted **link)
{
    struct posted *p = *link;

    *link = p->next;
    if (self->posted_end == &p->next)
        self->posted_end = link;
    free(p);
}

/* A message comes on the receiver's link, which carries one at a time. */
static void arrive(struct ss_sim *sim, struct sim_rank *self, struct message *m)
{
    double begin = m->start + sim->alpha;

    if (begin < self->in_free)
        begin = self->in_free;
    m->arrival = begin + sim->beta * (double)m->len;
    self->in_free = m->arrival;
    self->event_known = false;
}

static void wake(struct sim_rank *rank, double time)
{
    if (rank->clock < time)
        rank->clock = time;
    rank->stuck = false;
    rank->idle = 0;
}

static void complete(struct sim_rank *self, struct posted **link, struct message **mlink)
{
    struct posted *p = *link;
    struct message *m = *mlink;
    struct ss_request *request = p->request;

    request->active = false;
    request->bytes = m->len;
    request->status = m->len <= p->capacity ? SS_OK : SS_ERR_TRANSPORT;
    if (request->status == SS_OK)
        memcpy(p->buf, m->data, m->len);
    if (m->sender) {
        m->sender->active = false;
        wake(&self->sim->ranks[m->src], m->arrival);
    }
    unlink_message(self, mlink);
    unlink_posted(self, link);
    self->moved = true;
    self->event_known = false;
}

/* By the clock: completes the receives whose messages are in. Random: any of those sent. */
static int sim_poll(struct ss_transport *t)
{
    struct sim_rank *self = (struct sim_rank *)t;
    struct ss_sim *sim = self->sim;

    for (struct posted **p = &self->posted; *p;) {
        struct message **m = find_message(self, *p);
        bool done = m && (*m)->arrival >= 0 && (*m)->arrival <= self->clock;

        if (m && sim->random) {
            done = next_random(&sim->random) % 3 == 0;
            self->moved = true; /* or there is something left to deliver */
        }
        if (done)
            complete(self, p, m);
        else
            p = &(*p)->next;
    }
    return SS_OK;
}

static void sim_cancel(struct ss_transport *t, struct ss_request *request)
{
    struct sim_rank *self = (struct sim_rank *)t;

    for (struct posted **p = &self->posted; *p; p = &(*p)->next)
        if ((*p)->request == request) {
            unlink_posted(self, p);
            break;
        }
    for (int r = 0; r < self->sim->size; r++)
        for (struct message *m = self->sim->ranks[r].inbox; m; m = m->next)
            if (m->sender == request)
                m->sender = NULL;
    self->event_known = false;
    request->active = false;
    request->status = SS_ERR_TRANSPORT;
}

static double sim_now(struct ss_transport *t)
{
    return ((struct sim_rank *)t)->clock;
}

static const struct ss_transport_ops sim_ops = {
    .send = sim_send,
    .recv = sim_recv,
    .poll = sim_poll,
    .cancel = sim_cancel,
    .now = sim_now,
};

struct ss_sim *ss_sim_create(int size, double alpha, double beta, uint64_t seed)
{
    struct ss_sim *sim = calloc(1, sizeof *sim + (size_t)size * sizeof sim->ranks[0]);

    if (!sim)
        return NULL;
    sim->size = size;
    sim->alpha = alpha;
    sim->beta = beta;
    sim->random = seed;
    sim->fault.rank = -1;
    sim->eager = SIZE_MAX;
    for (int r = 0; r < size; r++) {
        struct sim_rank *rank = &sim->ranks[r];
        rank->transport = (struct ss_transport){.rank = r, .size = size, .ops = &sim_ops};
        rank->sim = sim;
        rank->inbox_end = &rank->inbox;
        rank->posted_end = &rank->posted;
    }
    return sim;
}

void ss_sim_free(struct ss_sim *sim)
{
    if (!sim)
        return;
    for (int r = 0; r < sim->size; r++) {
        while (sim->ranks[r].inbox)
            unlink_message(&sim->ranks[r], &sim->ranks[r].inbox);
        while (sim->ranks[r].posted)
            unlink_posted(&sim->ranks[r], &sim->ranks[r].posted);
    }
    free(sim);
}

struct ss_transport *ss_sim_transport(struct ss_sim *sim, int rank)
{
    return &sim->ranks[rank].transport;
}

/* The next rank to step: the one furthest behind that is not finished and not stuck, or any. */
static struct sim_rank *pick_rank(struct ss_sim *sim)
{
    int start = sim->random ? (int)(next_random(&sim->random) % (uint64_t)sim->size) : 0;
    struct sim_rank *best = NULL;

    for (int i = 0; i < sim->size; i++) {
        struct sim_rank *rank = &sim->ranks[(start + i) % sim->size];
        if (rank->finished || rank->stuck)
            continue;
        if (sim->random)
            return rank;
        if (!best || rank->clock < best->clock)
            best = rank;
    }
    return best;
}

static void find_event(struct ss_sim *sim, struct sim_rank *rank)
{
    rank->event_known = true;
    rank->event_time = INFINITY;
    rank->event_message = NULL;
    for (struct message *m = rank->inbox; m; m = m->next)
        if (m->arrival < 0 && m->start + sim->alpha < rank->event_time) {
            rank->event_time = m->start + sim->alpha;
            rank->event_message = m;
        }
    for (struct posted *p = rank->posted; p; p = p->next) {
        struct message **m = find_message(rank, p);
        if (m && (*m)->arrival >= 0 && (*m)->arrival < rank->event_time) {
            rank->event_time = (*m)->arrival;
            rank->event_message = NULL;
        }
    }
}

/* Nobody can move by itself: the earliest event of all happens. False when there is none. */
static bool next_event(struct ss_sim *sim)
{
    struct sim_rank *first = NULL;

    for (int r = 0; r < sim->size; r++) {
        struct sim_rank *rank = &sim->ranks[r];
        if (rank->finished)
            continue;
        if (!rank->event_known)
            find_event(sim, rank);
        if (rank->event_time < (first ? first->event_time : INFINITY))
            first = rank;
    }
    if (!first)
        return false;
    if (first->event_message)
        arrive(sim, first, first->event_message);
    else
        wake(first, first->event_time);
    return true;
}

/* Time passes for all, from the latest clock on, so that all see the same wait. */
static bool pass_time(struct ss_sim *sim)
{
    double latest = 0;

    for (int r = 0; r < sim->size; r++)
        if (!sim->ranks[r].finished && sim->ranks[r].clock > latest)
            latest = sim->ranks[r].clock;
    for (int r = 0; r < sim->size; r++)
        if (!sim->ranks[r].finished)
            wake(&sim->ranks[r], latest + sim->idle);
    return sim->idle > 0;
}

/* With a seed, delivery happens in polls: any rank that waited may have been served. */
static void wake_all(struct ss_sim *sim)
{
    for (int r = 0; r < sim->size; r++)
        wake(&sim->ranks[r], 0);
}

bool ss_sim_run(struct ss_sim *sim, int (*step)(void *ctx, int rank), void *ctx, int *status,
                uint64_t max_steps)
{
    enum { IDLE_STEPS = 4 }; /* a step that only computes moves nothing, yet the next one may */
    int left = sim->size;

    for (int r = 0; r < sim->size; r++) {
        sim->ranks[r].finished = false;
        wake(&sim->ranks[r], 0);
    }
    while (left > 0 && max_steps-- > 0) {
        struct sim_rank *rank = pick_rank(sim);
        if (!rank) {
            if ((!sim->random && next_event(sim)) || pass_time(sim))
                continue;
            break;
        }
        rank->moved = false;
        int result = step(ctx, rank->transport.rank);
        if (result != SS_PENDING) {
            status[rank->transport.rank] = result;
            rank->finished = true;
            rank->moved = true;
            left--;
        }
        if (!rank->moved)
            rank->stuck = ++rank->idle >= IDLE_STEPS;
        else if (sim->random)
            wake_all(sim);
        else
            rank->idle = 0;
    }
    return left == 0;
}

uint64_t ss_sim_bytes_sent(const struct ss_sim *sim, int rank)
{
    return sim->ranks[rank].sent;
}

uint64_t ss_sim_sends(const struct ss_sim *sim, int rank)
{
    return sim->ranks[rank].sends;
}

double ss_sim_clock(const struct ss_sim *sim, int rank)
{
    return sim->ranks[rank].clock;
}

void ss_sim_set_eager(struct ss_sim *sim, size_t bytes)
{
    sim->eager = bytes;
}

void ss_sim_set_idle(struct ss_sim *sim, double seconds)
{
    sim->idle = seconds;
}

void ss_sim_set_fault(struct ss_sim *sim, struct ss_sim_fault fault)
{
    sim->fault = fault;
}

void ss_sim_compute(struct ss_sim *sim, int rank, double seconds)
{
    sim->ranks[rank].clock += seconds;
}
