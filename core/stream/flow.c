/* Streams on their way: outgoing ones cut into chunks, incoming ones put together, both in bounded
 * windows. */
#include "core/call/call_impl.h"

const char *ss_phase_name(enum ss_phase phase)
{
    static const char *const names[SS_PHASES] = {"vote",      "calibration", "fold in",
                                                 "exchange",  "fold out",    "allgather",
                                                 "agreement", "balancing",   "kept elements"};
    return names[phase];
}

void ss_fail(struct ss_call *c, int status, int peer, enum ss_phase phase)
{
    if (c->failed < 0)
        return;
    c->failed = status;
    c->failed_peer = peer;
    c->failed_phase = phase;
}

/* ---- sending ---- */

static struct ss_send_slot *free_slot(struct ss_call *c)
{
    for (int i = 0; i < SS_SEND_SLOTS; i++)
        if (!c->slots[i].request.active)
            return &c->slots[i];
    return NULL;
}

static struct ss_tag tag_of(const struct ss_call *c, enum ss_phase phase, unsigned round)
{
    return (struct ss_tag){.call = c->number, .phase = phase, .round = round};
}

static struct ss_wire_key key_of(const struct ss_call *c, enum ss_phase phase)
{
    return (struct ss_wire_key){.type = c->type, .call = c->number, .phase = phase};
}

/* Posts msg, or, when that is refused, an error header in its place, so that the receiver does not
 * wait for ever: false. */
static bool post_send(struct ss_call *c, struct ss_send_slot *slot, int dst, enum ss_phase phase,
                      unsigned round, const void *msg, size_t len)
{
    struct ss_tag tag = tag_of(c, phase, round);

    slot->dst = dst;
    c->moved = true;
    c->bytes_sent += len;
    c->phase_sent[phase] += len;
    if (c->t->ops->send(c->t, dst, tag, msg, len, &slot->request) == SS_OK)
        return true;
    ss_fail(c, SS_ERR_TRANSPORT, dst, phase);
    struct ss_wire_key key = key_of(c, phase);
    len = ss_wire_encode_error(slot->header, &key, SS_ERR_TRANSPORT);
    if (c->t->ops->send(c->t, dst, tag, slot->header, len, &slot->request) != SS_OK)
        slot->request.active = false;
    return false;
}

int ss_send_raw(struct ss_call *c, int dst, enum ss_phase phase, unsigned round, const void *msg,
                size_t len)
{
    struct ss_send_slot *slot = free_slot(c);

    if (!slot)
        return SS_PENDING;
    return post_send(c, slot, dst, phase, round, msg, len) ? SS_OK : SS_ERR_TRANSPORT;
}

int ss_send_error(struct ss_call *c, int dst, enum ss_phase phase, unsigned round)
{
    struct ss_send_slot *slot = free_slot(c);
    struct ss_wire_key key = key_of(c, phase);

    if (!slot)
        return SS_PENDING;
    size_t len = ss_wire_encode_error(slot->header, &key, SS_ERR_PEER);
    post_send(c, slot, dst, phase, round, slot->header, len);
    return SS_OK;
}

int ss_sends_reap(struct ss_call *c)
{
    int status = SS_OK;

    for (int i = 0; i < SS_SEND_SLOTS; i++) {
        struct ss_send_slot *slot = &c->slots[i];
        if (slot->request.active)
            status = SS_PENDING;
        else if (slot->request.status != SS_OK)
            ss_fail(c, SS_ERR_TRANSPORT, slot->dst, SS_PHASE_REDUCE);
    }
    return status;
}

size_t ss_flow_arena_bound(enum ss_type type, uint64_t entries)
{
    return (size_t)(entries / SS_CHUNK_ENTRIES) * (ss_wire_bound(type, SS_CHUNK_ENTRIES) + 64) +
           ss_wire_bound(type, (uint32_t)(entries % SS_CHUNK_ENTRIES)) + 64;
}

static int group_end(const struct ss_out *o)
{
    return o->ndst - o->group < SS_RECV_WINDOW ? o->ndst : o->group + SS_RECV_WINDOW;
}

static void out_start(struct ss_out *o, enum ss_phase phase, unsigned round, int dst, int ndst)
{
    o->phase = phase;
    o->round = round;
    o->dst = dst;
    o->ndst = ndst;
    o->group_end = group_end(o);
    o->done = ndst == 0;
    o->told = -1;
}

void ss_out_stream(struct ss_out *o, struct ss_stream s, enum ss_phase phase, unsigned round,
                   int dst, int ndst)
{
    *o = (struct ss_out){.idx = s.idx, .val = s.val, .nnz = s.nnz};
    out_start(o, phase, round, dst, ndst);
}

void ss_out_round(struct ss_out *o, const struct ss_rounding *how, void *error)
{
    if (how->values == SS_VALUES_SAME)
        return;
    o->rounding = how;
    o->error = error;
}

void ss_out_round_own(struct ss_call *c, struct ss_out *o)
{
    if (o->nnz > 0 && c->round.values != SS_VALUES_SAME)
        ss_out_round(o, &c->round,
                     ss_at(c->claims.own_error, (size_t)(o->idx - c->own.idx), c->esize));
}

void ss_out_round_part(struct ss_call *c, struct ss_out *o)
{
    const struct ss_rounding *how = o->dense ? &c->round_dense : &c->round;
    struct ss_buf *error = &c->work->part_error;

    if (c->failed < 0 || o->nnz == 0 || how->values == SS_VALUES_SAME)
        return;
    if (how->stochastic) {
        ss_out_round(o, how, NULL);
        return;
    }
    if (ss_buf_reserve_voted(error, c->comm->mem, o->nnz * c->esize) != SS_OK) {
        ss_fail(c, SS_ERR_MEMORY, c->t->rank, (enum ss_phase)o->phase);
        return;
    }
    ss_out_round(o, how, error->data);
    ss_topk_book(c, o->dense ? NULL : o->idx, o->first, error->data, o->nnz);
}

void ss_out_elements(struct ss_out *o, void *val, uint64_t first, uint64_t n, enum ss_phase phase,
                     unsigned round, int dst, int ndst)
{
    *o = (struct ss_out){.dense = true, .val = val, .nnz = (size_t)n, .first = (uint32_t)first};
    out_start(o, phase, round, dst, ndst);
}

void ss_out_dense(struct ss_call *c, struct ss_out *o, uint64_t first, uint64_t n,
                  enum ss_phase phase, unsigned round, int dst, int ndst)
{
    *o = (struct ss_out){.dense = true,
                         .val = c->out + first * c->esize,
                         .nnz = (size_t)n,
                         .first = (uint32_t)first};
    out_start(o, phase, round, dst, ndst);
}

static void encode_next(struct ss_call *c, struct ss_out *o)
{
    struct ss_wire_key key = key_of(c, (enum ss_phase)o->phase);
    size_t left = o->nnz - o->pos;
    uint32_t entries = left < SS_CHUNK_ENTRIES ? (uint32_t)left : SS_CHUNK_ENTRIES;
    unsigned char *msg = (unsigned char *)c->work->arena.data + c->arena_used;
    unsigned char *val = o->val + o->pos * c->esize;
    struct ss_wire_rounding rounding = {.how = o->rounding,
                                        .val = val,
                                        .error = o->error ? o->error + o->pos * c->esize : NULL,
                                        .position = o->first + o->pos};
    const struct ss_wire_rounding *round = o->rounding ? &rounding : NULL;
    double begin = ss_call_now(c);

    if (o->pos == 0)
        o->stored = c->arena_used;
    if (o->dense)
        o->len = ss_wire_encode_dense(msg, &key, o->first + (uint32_t)o->pos, val, entries,
                                      entries == left, round);
    else
        o->len = ss_wire_encode(msg, &key, c->comm->settings->coding, o->idx + o->pos, val, entries,
                                entries == left, round);
    o->msg = msg;
    o->pos += entries;
    o->last = o->encoded = entries == left;
    c->arena_used += (o->len + 63) / 64 * 64;
    o->stored_end = o->replay = c->arena_used;
    c->times.coding += ss_call_now(c) - begin;
}

/* The messages go out from the arena from the first on. */
static void rewind_out(struct ss_out *o)
{
    o->msg = NULL;
    o->replay = o->stored;
    o->last = false;
}

void ss_out_encode_ahead(struct ss_call *c, struct ss_out *o)
{
    if (c->failed < 0 || o->done)
        return;
    do
        encode_next(c, o);
    while (!o->encoded);
    rewind_out(o);
}

static void replay_next(const struct ss_call *c, struct ss_out *o)
{
    o->msg = (const unsigned char *)c->work->arena.data + o->replay;
    o->len = ss_wire_length(o->msg);
    o->replay += (o->len + 63) / 64 * 64;
    o->last = o->replay == o->stored_end;
}

/* The current chunk has reached its whole group: the next chunk, or the next group. */
static void out_advance(struct ss_out *o)
{
    o->msg = NULL;
    if (o->last) {
        o->group = o->group_end;
        o->group_end = group_end(o);
        o->done = o->group == o->ndst;
        rewind_out(o);
    }
    o->next = o->group;
}

/* From here on each receiver that has not had the end of the stream gets an error header as its
 * next message. */
static void out_turn_to_errors(struct ss_out *o)
{
    if (!(o->msg && o->last))
        o->next = o->group;
    o->erring = true;
}

int ss_out_step(struct ss_call *c, struct ss_out *o)
{
    while (!o->done) {
        struct ss_send_slot *slot = free_slot(c);
        int dst = (o->dst + o->next) % c->t->size;

        if (!slot)
            return SS_PENDING;
        if (c->failed < 0 && !o->erring) {
            out_turn_to_errors(o);
            continue;
        }
        if (o->erring) {
            if (o->next != o->told)
                ss_send_error(c, dst, (enum ss_phase)o->phase, o->round);
            o->done = ++o->next == o->ndst;
            continue;
        }
        if (!o->msg && o->encoded)
            replay_next(c, o);
        else if (!o->msg)
            encode_next(c, o);
        if (!post_send(c, slot, dst, (enum ss_phase)o->phase, o->round, o->msg, o->len))
            o->told = o->next;
        if (++o->next == o->group_end)
            out_advance(o);
    }
    return SS_OK;
}

/* ---- receiving ---- */

static int window_of(const struct ss_call *c)
{
    return c->t->size < SS_RECV_WINDOW ? c->t->size : SS_RECV_WINDOW;
}

/* Every message of this call fits. */
static size_t message_bound(const struct ss_call *c)
{
    uint32_t entries = c->n < SS_CHUNK_ENTRIES ? (uint32_t)c->n : SS_CHUNK_ENTRIES;

    return (ss_wire_bound(c->type, entries) + 63) / 64 * 64;
}

int ss_flow_reserve(struct ss_call *c)
{
    const struct ss_settings *s = c->comm->settings;
    struct ss_work *work = c->work;
    bool rounds = s->values != SS_VALUES_SAME || s->quant != SS_VALUES_SAME;
    size_t inbox = (size_t)window_of(c) * 2 * message_bound(c);

    if (ss_buf_reserve(&work->scratch, c->comm->mem, SS_CHUNK_ENTRIES * sizeof(uint32_t)) !=
            SS_OK ||
        (rounds &&
         ss_buf_reserve(&work->values, c->comm->mem, SS_CHUNK_ENTRIES * sizeof(double)) != SS_OK) ||
        ss_buf_reserve(&work->inbox, c->comm->mem, inbox) != SS_OK ||
        ((c->topk || c->resting) && ss_agree_reserve(c) != SS_OK))
        return SS_ERR_MEMORY;
    return SS_OK;
}

static void in_init(struct ss_call *c, struct ss_in *in, enum ss_phase phase, unsigned round,
                    ss_consume *consume)
{
    size_t bound = message_bound(c);
    unsigned char *inbox = c->work->inbox.data;

    *in = (struct ss_in){.phase = phase, .round = round, .consume = consume};
    for (int i = 0; i < window_of(c); i++) {
        in->peers[i].rank = -1;
        in->peers[i].finished = true;
        in->peers[i].buffer[0] = inbox + (size_t)(2 * i) * bound;
        in->peers[i].buffer[1] = inbox + (size_t)(2 * i + 1) * bound;
    }
}

void ss_in_start(struct ss_call *c, struct ss_in *in, enum ss_phase phase, unsigned round, int src,
                 int count, ss_consume *consume)
{
    in_init(c, in, phase, round, consume);
    in->src = src;
    in->count = count;
}

void ss_in_start_ordered(struct ss_call *c, struct ss_in *in, enum ss_phase phase,
                         ss_consume *consume, void (*own)(struct ss_call *c))
{
    in_init(c, in, phase, 0, consume);
    in->ordered = true;
    in->count = c->t->size;
    in->own = own;
}

static void finish_peer(struct ss_in *in, struct ss_in_peer *p)
{
    p->finished = true;
    in->finished++;
}

static void post_recv(struct ss_call *c, struct ss_in *in, struct ss_in_peer *p)
{
    struct ss_tag tag = tag_of(c, (enum ss_phase)in->phase, in->round);

    if (c->t->ops->recv(c->t, p->rank, tag, p->buffer[p->current], message_bound(c), &p->request) !=
        SS_OK) {
        ss_fail(c, SS_ERR_TRANSPORT, p->rank, (enum ss_phase)in->phase);
        finish_peer(in, p);
    }
}

/* Posts the first receive of the peers whose turn it is, as far as the window reaches. */
static void start_peers(struct ss_call *c, struct ss_in *in)
{
    int window = window_of(c), size = c->t->size;

    for (int i = 0; i < window && in->started < in->count; i++) {
        int slot = in->ordered ? in->started % window : i;
        struct ss_in_peer *p = &in->peers[slot];

        if (in->ordered && in->started - in->head >= window)
            return;
        if (!p->finished)
            continue;
        p->rank = in->ordered ? in->started : ((in->src - in->started) % size + size) % size;
        p->current = 0;
        p->from = 0;
        p->request = (struct ss_request){0};
        p->finished = false;
        in->started++;
        if (p->rank != c->t->rank)
            post_recv(c, in, p);
        else if (!in->ordered) /* nobody sends to himself */
            finish_peer(in, p);
    }
}

/* Takes one message of a peer in and posts the next receive. */
static void take_message(struct ss_call *c, struct ss_in *in, struct ss_in_peer *p)
{
    struct ss_wire_key key = key_of(c, (enum ss_phase)in->phase);
    const struct ss_wire_scratch scratch = {c->work->scratch.data, c->work->values.data};
    const unsigned char *msg = p->buffer[p->current];
    struct ss_chunk chunk;
    double begin = ss_call_now(c);
    int status = p->request.status;
    size_t len = p->request.bytes;

    c->moved = true;
    c->phase_received[in->phase] += len;
    if (status == SS_OK)
        status = ss_wire_decode(msg, len, &key, p->from, (uint32_t)c->n, &scratch, &chunk);
    if (status == SS_OK && chunk.rep == SS_REP_ERROR)
        status = SS_ERR_PEER;
    if (status != SS_OK) {
        ss_fail(c, status, p->rank, (enum ss_phase)in->phase);
        finish_peer(in, p);
        return;
    }
    double decoded = ss_call_now(c);
    c->times.coding += decoded - begin;
    if (chunk.nnz > 0)
        p->from =
            (chunk.rep == SS_REP_DENSE ? chunk.first + chunk.nnz - 1 : chunk.idx[chunk.nnz - 1]) +
            1;

    if (chunk.last) {
        finish_peer(in, p);
    } else {
        p->current ^= 1;
        post_recv(c, in, p);
    }
    if (c->failed == 0 && (chunk.nnz > 0 || in->empty_too))
        in->consume(c, in, p->rank, &chunk, msg, len);
    c->times.merge += ss_call_now(c) - decoded;
}

static void step_ordered(struct ss_call *c, struct ss_in *in)
{
    int window = window_of(c);

    while (in->head < in->started) {
        struct ss_in_peer *p = &in->peers[in->head % window];

        if (p->rank == c->t->rank && !p->finished) {
            if (c->failed == 0)
                in->own(c);
            finish_peer(in, p);
            c->moved = true;
        }
        if (p->finished) {
            in->head++;
            start_peers(c, in);
            continue;
        }
        if (p->request.active)
            return;
        take_message(c, in, p);
    }
}

int ss_in_step(struct ss_call *c, struct ss_in *in)
{
    if (in->count == 0)
        return SS_OK;
    start_peers(c, in);
    if (in->ordered) {
        step_ordered(c, in);
    } else {
        for (int i = 0; i < window_of(c); i++)
            if (!in->peers[i].finished && !in->peers[i].request.active)
                take_message(c, in, &in->peers[i]);
        start_peers(c, in);
    }
    return in->finished == in->count ? SS_OK : SS_PENDING;
}

/* ---- giving up ---- */

enum { MOST_FLOWS = 4 };

/* The incoming flows of the call; returns how many there are. That of the kept elements is idle
 * where there are none. */
static int flows_of(struct ss_call *c, struct ss_in **flows)
{
    int count = 0;

    flows[count++] = &c->keep.in;
    switch (c->plan.algorithm) {
    case SS_RECURSIVE_DOUBLING:
        flows[count++] = &c->u.doubling.in;
        break;
    case SS_GTOPK:
        flows[count++] = &c->u.gtopk.in;
        break;
    case SS_RING:
        flows[count++] = &c->u.ring.in;
        break;
    case SS_SPLIT_ALLGATHER:
    case SS_DSAR:
    case SS_ALLGATHER:
        flows[count++] = &c->u.split.in;
        flows[count++] = &c->u.gather.in;
        break;
    case SS_OKTOPK:
        flows[count++] = &c->u.oktopk.split.in;
        flows[count++] = &c->u.oktopk.balance.in;
        flows[count++] = &c->u.oktopk.gather.in;
        break;
    default:
        break;
    }
    return count;
}

/* The agreement that may be under way, or NULL. */
static struct ss_agree *agree_of(struct ss_call *c)
{
    if (c->guard.agreeing)
        return &c->guard.agree;
    return c->plan.algorithm == SS_OKTOPK ? &c->u.oktopk.agree : NULL;
}

void ss_flow_cancel(struct ss_call *c)
{
    struct ss_in *flows[MOST_FLOWS];
    int count = flows_of(c, flows);

    for (int i = 0; i < SS_SEND_SLOTS; i++)
        if (c->slots[i].request.active)
            c->t->ops->cancel(c->t, &c->slots[i].request);
    for (int k = 0; k < count; k++)
        for (int i = 0; i < SS_RECV_WINDOW; i++)
            if (flows[k]->peers[i].request.active)
                c->t->ops->cancel(c->t, &flows[k]->peers[i].request);
    if (agree_of(c))
        ss_agree_cancel(c, agree_of(c));
}

enum ss_phase ss_flow_waiting(struct ss_call *c, int *peer)
{
    struct ss_in *flows[MOST_FLOWS];
    int count = flows_of(c, flows);

    for (int k = 0; k < count; k++)
        for (int i = 0; i < SS_RECV_WINDOW; i++)
            if (flows[k]->peers[i].request.active) {
                *peer = flows[k]->peers[i].rank;
                return (enum ss_phase)flows[k]->phase;
            }
    if (agree_of(c) && ss_agree_waiting(agree_of(c)) >= 0) {
        *peer = ss_agree_waiting(agree_of(c));
        return SS_PHASE_AGREE;
    }
    for (int i = 0; i < SS_SEND_SLOTS; i++)
        if (c->slots[i].request.active)
            *peer = c->slots[i].dst;
    return SS_PHASE_REDUCE;
}
