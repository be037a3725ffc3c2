/* Sparse ring (Patarasuk and Yuan 2009; SparCML section 8.1 compares with it). First a
 * reduce-scatter in P - 1 rounds, in which each rank passes the partial sum of one part to the next
 * rank. Then P - 1 rounds in which the reduced parts go round; messages are forwarded unchanged. A
 * slice is rounded by its sender in the first round, a reduced part by its owner; partial sums are
 * not rounded.
 *
 * Cost on the wire: the sum over r = 1 .. P - 1 of alpha + beta e U(r) / P, then P - 1 times alpha
 * + beta e U(P) / P, with
 *
 *     e    bytes of an entry
 *     U(r) entries of the union of r inputs
 */
#include <string.h>

#include "core/coll/algorithms.h"
#include "core/coll/coll.h"
#include "core/plan/cost.h"

enum { START, REDUCE, REDUCE_EXCHANGE, GATHER_START, GATHER };

struct state {
    int step;
    int round;
    struct ss_out out;
    struct ss_in in;
    struct ss_stream partial; /* current part: own slice plus received entries */
    struct ss_stream received;
    int forwarded;       /* rounds of the allgather whose stream has been forwarded whole */
    size_t forward_next; /* arena offset of the next message to forward */
    /* arena offset behind the last message to forward */
    size_t forward_end;
};
_Static_assert(sizeof(struct state) <= SS_COLL_STATE, "room for the state");

/* A message to forward, in front of its bytes in the arena. */
struct forward {
    size_t len;
    unsigned round;
    bool last;
    _Alignas(64) unsigned char msg[];
};

static int part_index(const struct ss_coll *c, int offset)
{
    int size = c->x.t->size;

    return ((c->x.t->rank + offset) % size + size) % size;
}

static struct ss_stream own_slice(const struct ss_coll *c, int part)
{
    return ss_stream_slice(&c->own, c->x.esize, ss_coll_part(c, part), ss_coll_part(c, part + 1));
}

static int start(struct ss_coll *c)
{
    struct state *s = c->state;
    uint64_t sum = c->voted.nnz_sum, most = 0;

    for (int p = 0; p < c->x.t->size; p++) {
        uint64_t part = ss_coll_part(c, p + 1) - ss_coll_part(c, p);
        if (part > most)
            most = part;
    }
    if (most > sum)
        most = sum;
    uint64_t total = sum < c->x.n ? sum : c->x.n;
    size_t each = ss_arena_bound(c->x.type, 0) + sizeof(struct forward);
    size_t arena = ss_arena_bound(c->x.type, total) +
                   ((size_t)c->x.t->size + (size_t)(total / SS_CHUNK_ENTRIES)) * each;
    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, arena) != SS_OK ||
        ss_stream_reserve(&c->x, &s->received, 0, most) != SS_OK ||
        ss_stream_reserve(&c->x, &s->partial, 1, 2 * most < sum ? 2 * most : sum) != SS_OK)
        return SS_ERR_MEMORY;
    return SS_OK;
}

static void take_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                       const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct state *s = ss_coll_of(x)->state;

    (void)in, (void)msg, (void)len;
    ss_stream_append(x, src, &s->received, chunk);
}

/* Sets partial to received plus the own slice of the received part. */
static void merge(struct ss_coll *c)
{
    struct state *s = c->state;
    struct ss_stream own = own_slice(c, part_index(c, -s->round - 1));

    if (c->x.failed < 0)
        return;
    if (s->received.nnz + own.nnz > s->partial.capacity) {
        ss_fail(&c->x, SS_ERR_MESSAGE, part_index(c, -1), SS_PHASE_REDUCE);
        return;
    }
    double begin = ss_span_begin(&c->x, SS_SPAN_MERGE);
    s->partial.nnz =
        c->kernels->merge(c->x.type, c->op, s->received.idx, s->received.val, s->received.nnz,
                          own.idx, own.val, own.nnz, s->partial.idx, s->partial.val);
    s->received.nnz = 0;
    ss_span_end(&c->x, SS_SPAN_MERGE, begin);
}

static void start_reduce_round(struct ss_coll *c)
{
    struct state *s = c->state;
    struct ss_stream part = s->round == 0 ? own_slice(c, c->x.t->rank) : s->partial;

    c->x.arena_used = 0;
    ss_out_stream(&s->out, part, SS_PHASE_REDUCE, (unsigned)s->round, part_index(c, 1), 1);
    if (s->round == 0)
        ss_claims_round_own(c, &s->out);
    ss_in_start(&c->x, &s->in, SS_PHASE_REDUCE, (unsigned)s->round, part_index(c, -1), 1,
                take_chunk);
}

static void keep_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                       const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);
    struct ss_chunk taken = *chunk;
    struct ss_coded coded;

    (void)src, (void)msg, (void)len;
    /* the error names the author of the chunk, not the rank that forwarded it */
    if (chunk->coded) {
        coded = *chunk->coded;
        coded.sender = part_index(c, -1 - (int)in->round);
        taken.coded = &coded;
    }
    if (chunk->nnz > 0)
        ss_result_set(c, &taken);
}

/* Queues a message of the current round for the next rank. */
static void queue_forward(struct ss_exchange *x, struct ss_in *in, int src,
                          const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);

    struct state *s = c->state;
    struct ss_buf *arena = &c->x.work->arena;
    struct forward *f;
    size_t need = sizeof *f + (len + 63) / 64 * 64;

    keep_chunk(x, in, src, chunk, msg, len);
    if (need > arena->size - s->forward_end) {
        ss_fail(&c->x, SS_ERR_MESSAGE, src, SS_PHASE_GATHER);
        return;
    }
    f = (struct forward *)((unsigned char *)arena->data + s->forward_end);
    *f = (struct forward){.len = len, .round = (unsigned)s->round + 1, .last = chunk->last};
    memcpy(f->msg, msg, len);
    s->forward_end += need;
}

static void start_gather_round(struct ss_coll *c)
{
    struct state *s = c->state;
    bool on = s->round < c->x.t->size - 2;

    ss_in_start(&c->x, &s->in, SS_PHASE_GATHER, (unsigned)s->round, part_index(c, -1), 1,
                on ? queue_forward : keep_chunk);
    s->in.empty_too = on;
    s->in.coded_too = true;
}

static void start_gather(struct ss_coll *c)
{
    struct state *s = c->state;

    c->x.arena_used = 0;
    s->round = 0;
    s->forwarded = 0;
    ss_out_stream(&s->out, s->partial, SS_PHASE_GATHER, 0, part_index(c, 1), 1);
    ss_claims_round_part(c, &s->out);
    if (s->out.rounding)
        ss_out_encode_ahead(&c->x, &s->out);
    if (c->x.failed == 0)
        ss_result_set_stream(c, &s->partial);
    c->result_nnz += s->partial.nnz;
    /* Messages to forward lie behind the messages of the own part. */
    s->forward_next = s->forward_end = (ss_arena_bound(c->x.type, s->partial.nnz) + 63) / 64 * 64;
    start_gather_round(c);
}

/* Forwards queued messages. If the call has failed, sends an error header for each round that was
 * not forwarded whole. */
static int forward_step(struct ss_coll *c)
{
    struct state *s = c->state;
    int rounds = c->x.t->size - 2, next = part_index(c, 1);

    while (c->x.failed == 0 && s->forward_next < s->forward_end) {
        struct forward *f =
            (struct forward *)((unsigned char *)c->x.work->arena.data + s->forward_next);
        int sent = ss_send_raw(&c->x, next, SS_PHASE_GATHER, f->round, f->msg, f->len);
        if (sent == SS_PENDING)
            return SS_PENDING;
        s->forward_next += sizeof *f + (f->len + 63) / 64 * 64;
        if (f->last || sent < 0)
            s->forwarded++;
    }
    while (c->x.failed < 0 && s->forwarded < rounds) {
        if (ss_send_error(&c->x, next, SS_PHASE_GATHER, (unsigned)s->forwarded + 1) == SS_PENDING)
            return SS_PENDING;
        s->forwarded++;
    }
    return s->forwarded == rounds ? SS_OK : SS_PENDING;
}

static int gather_step(struct ss_coll *c)
{
    struct state *s = c->state;
    int rounds = c->x.t->size - 1;
    int sent = ss_out_step(&c->x, &s->out);

    while (s->round < rounds) {
        if (ss_in_step(&c->x, &s->in) == SS_PENDING)
            break;
        if (++s->round < rounds)
            start_gather_round(c);
    }
    if (sent == SS_PENDING || forward_step(c) == SS_PENDING || s->round < rounds)
        return SS_PENDING;
    return SS_OK;
}

static int step(struct ss_coll *c)
{
    struct state *s = c->state;

    for (;;) {
        switch (s->step) {
        case START:
            if (start(c) != SS_OK)
                ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
            s->round = 0;
            s->forward_end = s->forward_next = 0;
            s->step = REDUCE;
            break;
        case REDUCE:
            if (ss_sends_reap(&c->x) == SS_PENDING) /* messages in flight lie in the arena */
                return SS_PENDING;
            start_reduce_round(c);
            s->step = REDUCE_EXCHANGE;
            break;
        case REDUCE_EXCHANGE: {
            int sent = ss_out_step(&c->x, &s->out);
            if (ss_in_step(&c->x, &s->in) == SS_PENDING || sent == SS_PENDING)
                return SS_PENDING;
            merge(c);
            s->step = ++s->round < c->x.t->size - 1 ? REDUCE : GATHER_START;
            break;
        }
        case GATHER_START:
            if (ss_sends_reap(&c->x) == SS_PENDING)
                return SS_PENDING;
            start_gather(c);
            s->step = GATHER;
            break;
        default:
            return gather_step(c);
        }
    }
}

/* ---- the definition ---- */

/* The fullest part holds up each round; each rank sends every part but one. */
static struct ss_estimate cost_ring(const struct ss_shape *s, const struct ss_history *h)
{
    struct ss_estimate e = {0};
    int others = s->size - 1;
    double part_n = (double)s->n / s->size, skew = ss_cost_skew(s);

    for (int r = 1; r <= s->size; r++) {
        int times = r < s->size ? 1 : others;
        double mean = ss_plan_union(s, h, r) / s->size;
        double part = ss_min(part_n, mean * skew);
        bool sums = r > 1 && r < s->size;
        enum ss_values values = sums ? SS_VALUES_SAME : s->values;
        e.bytes += times * ss_cost_bytes_as(s, values, mean, part_n);
        e.wire += times * (s->alpha + s->beta * ss_cost_bytes_as(s, values, part, part_n));
        e.serial += s->code * part + ss_cost_rounding(s, values, part, times * part);
        e.serial +=
            r < s->size ? (s->code + s->merge) * part : ss_cost_take(s, times * part, times);
    }
    return e;
}

static double memory(const struct ss_shape *s)
{
    double entry = 4 + (double)ss_type_size(s->type), n = (double)s->n, sum = (double)s->nnz_sum;
    double part = n / s->size + 16;

    return ss_memory_own(s) + 1.1 * ss_min(n, sum) * entry + ss_min(part, sum) * entry +
           ss_min(2 * part, sum) * entry + ss_memory_claims(s, s->values, ss_min(part, sum), false);
}

const struct ss_algorithm_def ss_algorithm_ring = {
    .cost = cost_ring,
    .memory = memory,
    .state = sizeof(struct state),
    .step = step,
};
