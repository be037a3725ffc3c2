/* Allreduce of every element in few bits, with error feedback on both sides: scatter, reduce,
 * allgather (Markov et al. 2021, CGX). The index space is split among the ranks. Each rank
 * quantizes gradient + residual of each part and sends it to the part's owner, and keeps the
 * errors. The owner adds up its own values, unrounded, and those of the others, in rank order, in
 * the result; quantizes the sum, keeps its errors, and sends it to all.
 *
 * The owner sends nothing of its own part before the sum, so that its residual there holds the
 * errors of the sum: a tensor has one residual of N elements. Its values of that part wait for the
 * sum in the work space.
 *
 * Cost on the wire: 2 (A + beta b N (P-1)/P), with
 *
 *     A    alpha (1 + 0.1 (P-2)), for P - 1 messages at once
 *     b    bytes of a coded element
 */
#include <string.h>

#include "core/coll/algorithms.h"
#include "core/coll/coll.h"
#include "core/compute/quantize.h"
#include "core/plan/cost.h"

struct state {
    int step;
    int slice;          /* number of slices sent */
    size_t coded;       /* elements of the slices before the current one that were coded */
    unsigned char *own; /* input + residual of the own part; NULL: no memory */
    struct ss_out out;
    struct ss_in in;
};
_Static_assert(sizeof(struct state) <= SS_COLL_STATE, "room for the state");

enum { START, REDUCE, GATHER };

static uint64_t own_first(const struct ss_coll *c)
{
    return ss_coll_part(c, c->x.t->rank);
}

static size_t own_count(const struct ss_coll *c)
{
    return (size_t)(ss_coll_part(c, c->x.t->rank + 1) - own_first(c));
}

static const unsigned char *input_at(const struct ss_coll *c, uint64_t element)
{
    return ss_at_const(c->whole.in, (size_t)(element - c->whole.first), c->x.esize);
}

static unsigned char *residual_at(const struct ss_coll *c, uint64_t element)
{
    return ss_at(c->whole.residual, (size_t)(element - c->whole.first), c->x.esize);
}

/* Writes the values of a chunk into the result, or adds them. */
static void take(struct ss_coll *c, const struct ss_chunk *chunk, int part, bool add,
                 enum ss_phase phase)
{
    const struct ss_quantizers *q = ss_quantizers();
    unsigned char *to = ss_out_at(c, chunk->first);

    if (chunk->rep != SS_REP_QUANTIZED || chunk->values != c->whole.values ||
        !ss_chunk_within(c, chunk, part))
        ss_fail(&c->x, SS_ERR_MESSAGE, part, phase);
    else if (add)
        q->add(c->x.type, chunk->values, chunk->val, to, chunk->nnz);
    else
        q->decode(c->x.type, chunk->values, chunk->val, to, chunk->nnz);
}

/* The first rank's values are the first in the result. */
static void reduce_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                         const struct ss_chunk *chunk, const void *msg, size_t len)
{
    (void)in, (void)msg, (void)len;
    take(ss_coll_of(x), chunk, x->t->rank, src > 0, SS_PHASE_REDUCE);
}

static void gather_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                         const struct ss_chunk *chunk, const void *msg, size_t len)
{
    (void)in, (void)msg, (void)len;
    take(ss_coll_of(x), chunk, src, false, SS_PHASE_GATHER);
}

static void reduce_own(struct ss_exchange *x)
{
    struct ss_coll *c = ss_coll_of(x);
    void *to = ss_out_at(c, own_first(c));
    const struct state *s = c->state;

    if (own_count(c) == 0)
        return;
    if (x->t->rank == 0)
        memcpy(to, s->own, own_count(c) * x->esize);
    else
        c->kernels->reduce(x->type, SS_SUM, to, s->own, own_count(c));
}

/* Returns the bytes of the messages of all parts, each of which ends with a bucket of its own. */
static size_t arena_bound(enum ss_values values, uint64_t n, int size)
{
    return (size_t)size * ss_arena_quantized(values, n / (uint64_t)size + 16);
}

/* Adds input and residual of the own part, a block at a time, which stays in the first cache. */
static void join_own(struct ss_coll *c, unsigned char *own)
{
    enum { BLOCK = 2048 };
    const unsigned char *in = input_at(c, own_first(c)), *r = residual_at(c, own_first(c));
    const size_t n = own_count(c);

    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t at = i * c->x.esize, count = n - i < BLOCK ? n - i : BLOCK;
        memcpy(own + at, in + at, count * c->x.esize);
        c->kernels->reduce(c->x.type, SS_SUM, own + at, r + at, count);
    }
}

/* Makes room, and joins input and residual of the own part. */
static void start(struct ss_coll *c, struct state *s)
{
    struct ss_buf *own = &c->x.work->part_error;
    const size_t arena = arena_bound(c->whole.values, c->x.n, c->x.t->size);

    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, arena) != SS_OK ||
        ss_buf_reserve_voted(own, c->x.mem, own_count(c) * c->x.esize) != SS_OK) {
        ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
    } else {
        s->own = own->data;
        join_own(c, s->own);
    }
    if (!c->by_host)
        c->whole.sent = s;
    ss_in_start_ordered(&c->x, &s->in, SS_PHASE_REDUCE, reduce_chunk, reduce_own);
    s->in.quantized = true;
    s->out.done = true;
}

static void start_slice(struct ss_coll *c, struct state *s)
{
    const int dst = (c->x.t->rank + ++s->slice) % c->x.t->size;
    const uint64_t lo = ss_coll_part(c, dst), hi = ss_coll_part(c, dst + 1);

    s->coded += s->out.pos;
    ss_out_elements(&s->out, NULL, false, lo, hi - lo, SS_PHASE_REDUCE, 0, dst, 1);
    ss_out_quantize(&s->out, c->whole.values, input_at(c, lo), residual_at(c, lo),
                    &c->whole.square);
}

static int reduce(struct ss_coll *c, struct state *s)
{
    while (s->slice < c->x.t->size - 1 || !s->out.done) {
        if (s->out.done)
            start_slice(c, s);
        if (ss_out_step(&c->x, &s->out) == SS_PENDING)
            break;
    }
    const int received = ss_in_step(&c->x, &s->in);

    return s->slice < c->x.t->size - 1 || !s->out.done ? SS_PENDING : received;
}

static void start_gather(struct ss_coll *c, struct state *s)
{
    const int rank = c->x.t->rank, size = c->x.t->size;
    const uint64_t lo = own_first(c);

    s->coded += s->out.pos;
    ss_in_start(&c->x, &s->in, SS_PHASE_GATHER, 0, (rank + size - 1) % size, size - 1,
                gather_chunk);
    s->in.quantized = true;
    ss_out_elements(&s->out, ss_out_at(c, lo), false, lo, own_count(c), SS_PHASE_GATHER, 0,
                    (rank + 1) % size, size - 1);
    ss_out_quantize(&s->out, c->whole.values, NULL, residual_at(c, lo), &c->whole.square);
}

static int gather(struct ss_coll *c, struct state *s)
{
    const int sent = ss_out_step(&c->x, &s->out);
    const int received = ss_in_step(&c->x, &s->in);

    return sent == SS_PENDING || received == SS_PENDING ? SS_PENDING : SS_OK;
}

static int step(struct ss_coll *c)
{
    struct state *s = c->state;

    switch (s->step) {
    case START:
        start(c, s);
        s->step = REDUCE;
        /* fall through */
    case REDUCE:
        if (reduce(c, s) == SS_PENDING)
            return SS_PENDING;
        start_gather(c, s);
        s->step = GATHER;
        /* fall through */
    default:
        return gather(c, s);
    }
}

/* Adds input or levels to the residual, `done` elements of a part having been sent from `message`
 * on. Returns the end of their messages. */
static size_t give_back(struct ss_coll *c, uint64_t lo, size_t n, size_t done, size_t message)
{
    const unsigned char *arena = c->x.work->arena.data;

    for (size_t i = 0; i < done;) {
        const size_t left = done - i;
        const size_t count = left < SS_CHUNK_QUANTIZED ? left : SS_CHUNK_QUANTIZED;
        ss_quantizers()->add(c->x.type, c->whole.values, ss_wire_codes_of(arena + message),
                             residual_at(c, lo + i), count);
        message += (ss_wire_length(arena + message) + 63) / 64 * 64;
        i += count;
    }
    if (done < n)
        c->kernels->reduce(c->x.type, SS_SUM, residual_at(c, lo + done), input_at(c, lo + done),
                           n - done);
    return message;
}

/* Input and result may be the same: a rank has sent all of its slices before it receives a sum. */
void ss_quantized_return(struct ss_coll *c)
{
    const struct state *s = c->whole.sent;
    size_t message = 0;
    size_t coded = s->coded + (s->step == REDUCE ? s->out.pos : 0);
    for (int i = 1; i < c->x.t->size; i++) {
        const int dst = (c->x.t->rank + i) % c->x.t->size;
        const uint64_t lo = ss_coll_part(c, dst);
        const size_t n = (size_t)(ss_coll_part(c, dst + 1) - lo);
        const size_t done = coded < n ? coded : n;
        message = give_back(c, lo, n, done, message);
        coded -= done;
    }
    if (own_count(c) == 0)
        return;
    if (s->own)
        memcpy(residual_at(c, own_first(c)), s->own, own_count(c) * c->x.esize);
    else
        give_back(c, own_first(c), own_count(c), 0, 0);
}

/* ---- the algorithm ---- */

/* Work on an element in terms of clearing it (measured: 0.73, 0.7, 0.4 and 0.45 ns of 0.37). */
static const double JOIN = 2, ROUND = 1.9, ADD = 1.1, DECODE = 1.2;

static double coded(const struct ss_shape *s, double n)
{
    return (double)ss_quantized_bytes(s->values, (size_t)n) +
           SS_WIRE_HEADER * (1 + n / SS_CHUNK_QUANTIZED);
}

static struct ss_estimate cost(const struct ss_shape *s, const struct ss_history *h)
{
    const int others = s->size - 1;
    const double part = (double)s->n / s->size, bytes = 2 * others * coded(s, part);
    const double clear = s->fill * (double)ss_type_size(s->type);

    (void)h;
    return (struct ss_estimate){.wire = 2 * ss_cost_fan(s, others) + s->beta * bytes,
                                .overlap = clear * part * others * (JOIN + ADD + DECODE),
                                .serial = clear * part * (JOIN + ROUND),
                                .bytes = bytes};
}

static double memory(const struct ss_shape *s)
{
    return 65536 + (double)arena_bound(s->values, s->n, s->size) +
           ((double)s->n / s->size + 16) * (double)ss_type_size(s->type);
}

const struct ss_algorithm_def ss_algorithm_quantized = {
    .whole = true,
    .cost = cost,
    .memory = memory,
    .state = sizeof(struct state),
    .step = step,
};
