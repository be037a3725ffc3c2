/* Implements the simulator: messages between links, receives in order of posting, and the choice of
 * the rank to step. */
#include "core/sim/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/sim/sim_impl.h"

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return x * 0x2545f4914f6cdd1dULL;
}

static void forget_event(struct sim_rank *rank)
{
    struct ss_sim *sim = rank->sim;

    if (rank->event_known)
        sim->unknown[sim->unknowns++] = rank->transport.rank;
    rank->event_known = false;
}

/* Updates the rank's key after its clock or its ability to step has changed. */
static void file_rank(struct sim_rank *rank)
{
    bool out = rank->finished || rank->idling;

    ss_tournament_set(&rank->sim->clocks, rank->transport.rank, out ? INFINITY : rank->clock);
}

static double processor_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void compute(struct sim_rank *rank, double seconds)
{
    rank->clock = ss_cores_take(&rank->sim->cores, rank->clock, seconds);
}

/* Lets the time of the rank's computing pass for it. */
static void computed(struct sim_rank *rank)
{
    struct ss_sim *sim = rank->sim;

    if (sim->compute > 0)
        compute(rank, sim->compute * (processor_time() - sim->accounted));
}

/* Ends a stretch of the simulator's own work. */
static void computes_on(struct ss_sim *sim)
{
    if (sim->compute > 0)
        sim->accounted = processor_time();
}

static struct ss_mail *new_message(struct sim_rank *self, const void *buf, size_t len, bool damaged)
{
    const struct ss_sim_fault *fault = &self->sim->fault;
    struct ss_mail *m = calloc(1, sizeof *m);

    if (!m)
        return NULL;
    if (damaged)
        self->last.from = NULL;
    if (buf && !(m->payload = ss_payload_take(&self->last, buf, len))) {
        free(m);
        return NULL;
    }
    if (buf && damaged) {
        m->payload->data[fault->corrupt_byte % len] ^=
            fault->corrupt_mask ? fault->corrupt_mask : 0x10;
        self->last.from = NULL; /* no other rank may share it */
    }
    return m;
}

static void send_inside(struct sim_rank *self, struct ss_mail *m)
{
    const struct ss_sim *sim = self->sim;

    m->start = fmax(self->clock, self->local_free);
    self->local_free = m->start + sim->beta_inside * (double)m->len;
    m->arrival = self->local_free + sim->alpha_inside;
}

static void send_outside(struct sim_rank *self, struct ss_mail *m)
{
    const struct ss_sim *sim = self->sim;

    m->start = fmax(self->clock - sim->lag, self->link->out_free);
    m->arrival = -1;
    self->link->out_free = m->start + sim->gap + sim->beta * (double)m->len;
}

static int send(struct ss_transport *t, int dst, struct ss_tag tag, const void *buf, size_t len,
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

    struct ss_mail *m = new_message(self, buf, len, faulty && number == sim->fault.corrupt_send);
    if (!m)
        return SS_ERR_TRANSPORT;
    m->src = t->rank;
    m->tag = tag;
    m->len = len;
    m->round = self->round + 1;
    m->sent = self->clock;
    const bool inside = sim->hosts && self->host == peer->host;
    if (inside)
        send_inside(self, m);
    else
        send_outside(self, m);
    m->sender = len > sim->eager ? request : NULL;
    if (!ss_inbox_put(&peer->inbox, m, !sim->random && !inside)) {
        ss_mail_free(m);
        return SS_ERR_TRANSPORT;
    }
    request->active = m->sender != NULL;
    self->sent += len;
    if (!inside)
        self->sent_outside += len;
    forget_event(peer);
    return SS_OK;
}

static int sim_send(struct ss_transport *t, int dst, struct ss_tag tag, const void *buf, size_t len,
                    struct ss_request *request)
{
    struct sim_rank *self = (struct sim_rank *)t;

    computed(self);
    int status = send(t, dst, tag, buf, len, request);
    computes_on(self->sim);
    return status;
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
    forget_event(self);
    return SS_OK;
}

/* Returns the first message for a posted receive, or NULL. */
static struct ss_mail **find_message(struct sim_rank *self, const struct posted *p)
{
    return ss_inbox_find(&self->inbox, p->src, p->tag);
}

static void unlink_posted(struct sim_rank *self, struct posted **link)
{
    struct posted *p = *link;

    *link = p->next;
    if (self->posted_end == &p->next)
        self->posted_end = link;
    free(p);
}

/* Lets a message come on the receiver's link, which carries one at a time. */
static void arrive(struct ss_sim *sim, struct sim_rank *self)
{
    struct ss_mail *m = ss_inbox_coming(&self->inbox);
    double begin = m->start + sim->alpha;

    ss_inbox_come(&self->inbox);
    if (begin < self->link->in_free)
        begin = self->link->in_free;
    self->link->in_free = begin + sim->gap + sim->beta * (double)m->len;
    m->arrival = fmax(self->link->in_free, m->sent + sim->alpha);
    forget_event(self);
}

static void wake(struct sim_rank *rank, double time)
{
    if (rank->clock < time)
        rank->clock = time;
    rank->idling = false;
    rank->idle = 0;
    file_rank(rank);
}

static void complete(struct sim_rank *self, struct posted **link, struct ss_mail **mlink)
{
    struct posted *p = *link;
    struct ss_mail *m = *mlink;
    struct ss_request *request = p->request;

    request->active = false;
    request->bytes = m->len;
    request->status = m->len <= p->capacity ? SS_OK : SS_ERR_TRANSPORT;
    if (request->status == SS_OK && m->payload)
        memcpy(p->buf, m->payload->data, m->len);
    if (self->round < m->round)
        self->round = m->round;
    if (m->sender) {
        m->sender->active = false;
        wake(&self->sim->ranks[m->src], m->arrival);
    }
    ss_inbox_drop(&self->inbox, mlink);
    unlink_posted(self, link);
    self->moved = true;
    forget_event(self);
}

/* Completes the receives whose messages are in; with a seed, a random choice of those that were
 * sent. */
static int sim_poll(struct ss_transport *t)
{
    struct sim_rank *self = (struct sim_rank *)t;
    struct ss_sim *sim = self->sim;

    computed(self);
    for (struct posted **p = &self->posted; *p;) {
        struct ss_mail **m = find_message(self, *p);
        bool done = m && (*m)->arrival >= 0 && (*m)->arrival <= self->clock;

        if (m && sim->random) {
            done = next_random(&sim->random) % 3 == 0;
            self->moved = true; /* otherwise something is left to deliver */
        }
        if (done)
            complete(self, p, m);
        else
            p = &(*p)->next;
    }
    computes_on(sim);
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
        ss_inbox_forget(&self->sim->ranks[r].inbox, request);
    forget_event(self);
    request->active = false;
    request->status = SS_ERR_TRANSPORT;
}

static double sim_now(struct ss_transport *t)
{
    struct sim_rank *self = (struct sim_rank *)t;

    computed(self);
    computes_on(self->sim);
    return self->clock;
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
    sim->unknown = malloc((size_t)size * sizeof *sim->unknown);
    if (!ss_tournament_open(&sim->clocks, size) || !ss_tournament_open(&sim->events, size) ||
        !sim->unknown) {
        ss_sim_free(sim);
        return NULL;
    }
    for (int r = 0; r < size; r++) {
        struct sim_rank *rank = &sim->ranks[r];
        rank->transport = (struct ss_transport){.rank = r, .size = size, .ops = &sim_ops};
        rank->sim = sim;
        rank->link = &rank->own;
        rank->event_known = true; /* there is no event yet */
        ss_inbox_open(&rank->inbox);
        rank->posted_end = &rank->posted;
    }
    return sim;
}

static void free_rank(struct sim_rank *rank)
{
    ss_inbox_close(&rank->inbox);
    while (rank->posted)
        unlink_posted(rank, &rank->posted);
    ss_payload_let_go(rank->last.payload);
}

void ss_sim_free(struct ss_sim *sim)
{
    if (!sim)
        return;
    for (int r = 0; r < sim->size; r++)
        free_rank(&sim->ranks[r]);
    ss_tournament_close(&sim->clocks);
    ss_tournament_close(&sim->events);
    free(sim->unknown);
    ss_cores_free(&sim->cores);
    free(sim);
}

struct ss_transport *ss_sim_transport(struct ss_sim *sim, int rank)
{
    return &sim->ranks[rank].transport;
}

/* Returns the next rank to step: by the clock the one furthest behind, with a seed any that is
 * neither finished nor idling. */
static struct sim_rank *pick_rank(struct ss_sim *sim)
{
    if (!sim->random) {
        int first = ss_tournament_first(&sim->clocks);
        return first >= 0 ? &sim->ranks[first] : NULL;
    }
    int start = (int)(next_random(&sim->random) % (uint64_t)sim->size);
    for (int i = 0; i < sim->size; i++) {
        struct sim_rank *rank = &sim->ranks[(start + i) % sim->size];
        if (!rank->finished && !rank->idling)
            return rank;
    }
    return NULL;
}

static void find_event(struct ss_sim *sim, struct sim_rank *rank)
{
    const struct ss_mail *coming = ss_inbox_coming(&rank->inbox);
    double time = coming ? coming->start + sim->alpha : INFINITY;

    rank->event_known = true;
    rank->event_arrival = coming != NULL;
    for (struct posted *p = rank->posted; p; p = p->next) {
        struct ss_mail **m = find_message(rank, p);
        if (m && (*m)->arrival >= 0 && (*m)->arrival < time) {
            time = (*m)->arrival;
            rank->event_arrival = false;
        }
    }
    ss_tournament_set(&sim->events, rank->transport.rank, rank->finished ? INFINITY : time);
}

/* Lets the earliest event of all ranks happen, when no rank can move by itself. Returns false if
 * there is none. */
static bool next_event(struct ss_sim *sim)
{
    while (sim->unknowns > 0)
        find_event(sim, &sim->ranks[sim->unknown[--sim->unknowns]]);

    int first = ss_tournament_first(&sim->events);
    if (first < 0)
        return false;
    struct sim_rank *rank = &sim->ranks[first];
    if (rank->event_arrival)
        arrive(sim, rank);
    else
        wake(rank, sim->events.key[first]);
    return true;
}

/* Lets time pass on all ranks, from the latest clock on, so that all see the same wait. */
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

/* With a seed, delivery happens in polls: any waiting rank may have been served. */
static void wake_all(struct ss_sim *sim)
{
    for (int r = 0; r < sim->size; r++)
        wake(&sim->ranks[r], 0);
}

bool ss_sim_run(struct ss_sim *sim, int (*step)(void *ctx, int rank), void *ctx, int *status,
                uint64_t max_steps)
{
    enum { IDLE_STEPS = 4 }; /* a step that only computes moves nothing, but the next one may */
    int left = sim->size;

    for (int r = 0; r < sim->size; r++) {
        sim->ranks[r].finished = false;
        wake(&sim->ranks[r], 0);
        forget_event(&sim->ranks[r]);
    }
    while (left > 0 && max_steps-- > 0) {
        struct sim_rank *rank = pick_rank(sim);
        if (!rank) {
            if ((!sim->random && next_event(sim)) || pass_time(sim))
                continue;
            break;
        }
        rank->moved = false;
        computes_on(sim);
        int result = step(ctx, rank->transport.rank);
        computed(rank);
        if (result != SS_PENDING) {
            status[rank->transport.rank] = result;
            rank->finished = true;
            rank->moved = true;
            forget_event(rank);
            left--;
        }
        if (!rank->moved)
            rank->idling = ++rank->idle >= IDLE_STEPS;
        else if (sim->random)
            wake_all(sim);
        else
            rank->idle = 0;
        file_rank(rank);
    }
    return left == 0;
}

void ss_sim_restart(struct ss_sim *sim)
{
    double latest = 0;

    ss_cores_restart(&sim->cores);
    for (int r = 0; r < sim->size; r++)
        latest = fmax(latest, sim->ranks[r].clock);
    for (int r = 0; r < sim->size; r++) {
        struct sim_rank *rank = &sim->ranks[r];
        rank->clock = 0;
        rank->own.out_free = fmax(fmin(rank->own.out_free - latest, 0), -sim->lag);
        rank->own.in_free = fmax(fmin(rank->own.in_free - latest, 0), -sim->lag);
        rank->local_free = 0;
        rank->sent_outside = 0;
        rank->sent = rank->sends = rank->round = 0;
    }
}

void ss_sim_compute(struct ss_sim *sim, int rank, double seconds)
{
    compute(&sim->ranks[rank], seconds);
    file_rank(&sim->ranks[rank]);
}
