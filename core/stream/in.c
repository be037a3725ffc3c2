/* Receives streams from several ranks at once in bounded windows, and decodes them chunk by
 * chunk. */
#include "core/stream/in.h"

#include "core/compute/quantize.h"

static int window_of(const struct ss_exchange *x)
{
    return x->t->size < SS_RECV_WINDOW ? x->t->size : SS_RECV_WINDOW;
}

/* Returns the bytes that hold every message of this call. */
static size_t message_bound(const struct ss_exchange *x)
{
    uint32_t entries = x->n < SS_CHUNK_ENTRIES ? (uint32_t)x->n : SS_CHUNK_ENTRIES;

    /* a short quantized message has a whole bucket */
    return (ss_wire_bound(x->type, entries) + 4 * SS_QUANT_BUCKET + 63) / 64 * 64;
}

/* Removes a stream from the open ones, which ss_exchange_cancel cancels. */
static void in_close(struct ss_exchange *x, struct ss_in *in)
{
    for (struct ss_in **link = &x->open; *link; link = &(*link)->next)
        if (*link == in) {
            *link = in->next;
            ss_trace_end(x, SS_SPAN_ROUND);
            return;
        }
}

static void in_open(struct ss_exchange *x, struct ss_in *in)
{
    if (in->count == 0)
        return;
    in->next = x->open;
    x->open = in;
    ss_trace_begin(x, SS_SPAN_ROUND, ss_phase_name((enum ss_phase)in->phase), (int)in->round);
}

int ss_in_reserve(struct ss_exchange *x, bool rounded)
{
    struct ss_work *work = x->work;
    size_t inbox = (size_t)window_of(x) * 2 * message_bound(x);

    if (ss_buf_reserve(&work->scratch, x->mem, SS_CHUNK_ENTRIES * sizeof(uint32_t)) != SS_OK ||
        (rounded &&
         ss_buf_reserve(&work->values, x->mem, SS_CHUNK_ENTRIES * sizeof(double)) != SS_OK))
        return SS_ERR_MEMORY;
    if (x->backend->ops->remote &&
        ss_buf_reserve(&work->staging, x->mem, SS_CHUNK_ENTRIES * sizeof(double)) != SS_OK)
        return SS_ERR_MEMORY;
    return ss_buf_reserve(&work->inbox, x->mem, inbox);
}

static void in_init(struct ss_exchange *x, struct ss_in *in, enum ss_phase phase, unsigned round,
                    ss_consume *consume)
{
    size_t bound = message_bound(x);
    unsigned char *inbox = x->work->inbox.data;

    in_close(x, in);
    *in = (struct ss_in){.phase = phase, .round = round, .consume = consume};
    for (int i = 0; i < window_of(x); i++) {
        in->peers[i].rank = -1;
        in->peers[i].finished = true;
        in->peers[i].buffer[0] = inbox + (size_t)(2 * i) * bound;
        in->peers[i].buffer[1] = inbox + (size_t)(2 * i + 1) * bound;
    }
}

void ss_in_start(struct ss_exchange *x, struct ss_in *in, enum ss_phase phase, unsigned round,
                 int src, int count, ss_consume *consume)
{
    in_init(x, in, phase, round, consume);
    in->src = src;
    in->count = count;
    in_open(x, in);
}

void ss_in_start_ordered(struct ss_exchange *x, struct ss_in *in, enum ss_phase phase,
                         ss_consume *consume, void (*own)(struct ss_exchange *x))
{
    in_init(x, in, phase, 0, consume);
    in->ordered = true;
    in->count = x->t->size;
    in->own = own;
    in_open(x, in);
}

static void finish_peer(struct ss_in *in, struct ss_in_peer *p)
{
    p->finished = true;
    in->finished++;
}

static void post_recv(struct ss_exchange *x, struct ss_in *in, struct ss_in_peer *p)
{
    struct ss_tag tag = ss_exchange_tag(x, (enum ss_phase)in->phase, in->round);

    if (x->t->ops->recv(x->t, p->rank, tag, p->buffer[p->current], message_bound(x), &p->request) !=
        SS_OK) {
        ss_fail(x, SS_ERR_TRANSPORT, p->rank, (enum ss_phase)in->phase);
        finish_peer(in, p);
    }
}

/* Posts the first receive of the peers whose turn it is, as far as the window reaches. */
static void start_peers(struct ss_exchange *x, struct ss_in *in)
{
    int window = window_of(x), size = x->t->size;

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
        if (p->rank != x->t->rank)
            post_recv(x, in, p);
        else if (!in->ordered) /* no rank sends to itself */
            finish_peer(in, p);
    }
}

/* Returns true if the backend decodes chunks itself. The host decodes its own, and those of
 * backends whose memory it can access. */
static bool leaves_coded(const struct ss_exchange *x, const struct ss_in *in)
{
    return in->coded_too && x->backend->ops->remote && x->backend->ops->decode;
}

static uint32_t last_index(const struct ss_chunk *chunk)
{
    if (chunk->coded)
        return chunk->coded->last;
    return chunk->idx ? chunk->idx[chunk->nnz - 1] : chunk->first + chunk->nnz - 1;
}

/* Returns true if a received value is not finite. Inputs that are not finite make a call native, so
 * that a sum has overflowed. Allgathers move integers. */
static bool is_not_finite(const struct ss_exchange *x, const struct ss_chunk *chunk)
{
    struct ss_scan seen;

    if (!ss_type_is_float(x->type) || chunk->coded || chunk->nnz == 0)
        return false;
    if (chunk->rep == SS_REP_QUANTIZED)
        return !ss_quantized_finite(x->type, chunk->values, chunk->val, chunk->nnz);
    ss_kernels()->scan(x->type, SS_SUM, chunk->val, chunk->nnz, 0, NULL, NULL, 0, &seen);
    return seen.not_finite;
}

/* Consumes one message of a peer and posts the next receive. */
static void take_message(struct ss_exchange *x, struct ss_in *in, struct ss_in_peer *p)
{
    struct ss_wire_key key = ss_exchange_key(x, (enum ss_phase)in->phase);
    struct ss_coded coded = {.nnz = 0};
    const struct ss_wire_scratch scratch = {.idx = x->work->scratch.data,
                                            .val = x->work->values.data,
                                            .coded = leaves_coded(x, in) ? &coded : NULL};
    const unsigned char *msg = p->buffer[p->current];
    struct ss_chunk chunk = {.rep = SS_REP_ERROR};
    double begin = ss_span_begin(x, SS_SPAN_DECODE);
    int status = p->request.status;
    size_t len = p->request.bytes;

    x->moved = true;
    x->phase_received[in->phase] += len;
    if (status == SS_OK)
        status = ss_wire_decode(msg, len, &key, p->from, (uint32_t)x->n, &scratch, &chunk);
    if (status == SS_OK && chunk.rep == SS_REP_QUANTIZED && !in->quantized)
        status = SS_ERR_MESSAGE;
    if (status == SS_OK && chunk.rep == SS_REP_ERROR)
        status = SS_ERR_PEER;
    if (status != SS_OK) {
        ss_fail(x, status, p->rank, (enum ss_phase)in->phase);
        finish_peer(in, p);
        ss_trace_end(x, SS_SPAN_DECODE);
        return;
    }
    double decoded = ss_span_next(x, SS_SPAN_DECODE, begin, SS_SPAN_MERGE);
    if (chunk.nnz > 0)
        p->from = last_index(&chunk) + 1;
    coded.sender = p->rank;
    ss_exchange_all(x)->not_finite += is_not_finite(x, &chunk);

    if (chunk.last) {
        finish_peer(in, p);
    } else {
        p->current ^= 1;
        post_recv(x, in, p);
    }
    if (x->failed == 0 && (chunk.nnz > 0 || in->empty_too))
        in->consume(x, in, p->rank, &chunk, msg, len);
    ss_span_end(x, SS_SPAN_MERGE, decoded);
}

/* Returns true if the backend has enough chunks to decode; messages then wait in the inbox. */
static bool is_crowded(struct ss_exchange *x, const struct ss_in *in)
{
    if (x->decoding < SS_DECODING_MOST)
        return false;
    if (!ss_settled(x, (enum ss_phase)in->phase))
        return true;
    x->decoding = 0;
    return false;
}

static void step_ordered(struct ss_exchange *x, struct ss_in *in)
{
    int window = window_of(x);

    while (in->head < in->started) {
        struct ss_in_peer *p = &in->peers[in->head % window];

        if (p->rank == x->t->rank && !p->finished) {
            if (x->failed == 0)
                in->own(x);
            finish_peer(in, p);
            x->moved = true;
        }
        if (p->finished) {
            in->head++;
            start_peers(x, in);
            continue;
        }
        if (p->request.active || is_crowded(x, in))
            return;
        take_message(x, in, p);
    }
}

int ss_in_step(struct ss_exchange *x, struct ss_in *in)
{
    if (in->count == 0)
        return SS_OK;
    start_peers(x, in);
    if (in->ordered) {
        step_ordered(x, in);
    } else {
        for (int i = 0; i < window_of(x); i++)
            if (!in->peers[i].finished && !in->peers[i].request.active && !is_crowded(x, in))
                take_message(x, in, &in->peers[i]);
        start_peers(x, in);
    }
    if (in->finished < in->count)
        return SS_PENDING;
    in_close(x, in);
    return SS_OK;
}
