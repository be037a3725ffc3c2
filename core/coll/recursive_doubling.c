/* SSAR_Recursive_double (SparCML section 5.3.1) for any number of ranks: log2 P exchanges of whole
 * streams with the rank at distance 1, 2, 4, ...; streams that would pass delta entries become
 * dense in the result (section 5.1). Ranks beyond the largest power of two hand their stream to a
 * neighbour first and get the result last.
 *
 * Inputs are rounded by their owner when they first travel; partial sums are not.
 *
 * Both partners of an exchange compute lower group + higher group: the operators commute bit for
 * bit, so each adds the other's stream to its own. */
#include "core/coll/coll.h"

enum { START, FOLD_IN, ROUND, ROUND_EXCHANGE, FOLD_OUT, FINISH };

static uint64_t stream_limit(const struct ss_coll *c)
{
    uint64_t delta = c->u.doubling.delta, sum = c->voted.nnz_sum;

    return sum < delta ? sum : delta;
}

/* From here on the partial sum lives in the result; the entries received so far follow. */
static void turn_dense(struct ss_coll *c)
{
    struct ss_doubling_state *s = &c->u.doubling;

    s->dense = true;
    ss_fill_range(c, 0, c->x.n);
    ss_result_add_stream(c, &s->current);
    ss_result_add_stream(c, &s->received);
    s->current.nnz = s->received.nnz = 0;
}

static void take_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                       const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);

    struct ss_doubling_state *s = &c->u.doubling;

    (void)in, (void)msg, (void)len;
    /* A stream that overruns where the vote promised less than delta entries in all is an error:
     * append says so. */
    if (!s->dense && c->voted.nnz_sum > s->delta &&
        s->current.nnz + s->received.nnz + chunk->nnz > s->delta)
        turn_dense(c);
    if (s->dense)
        ss_result_add(c, chunk);
    else
        ss_stream_append(&c->x, src, &s->received, chunk);
}

static void set_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                      const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);

    (void)in, (void)src, (void)msg, (void)len;
    ss_result_set(c, chunk);
}

/* The partial sum so far goes to one rank. */
static void start_out(struct ss_coll *c, enum ss_phase phase, unsigned round, int dst)
{
    struct ss_doubling_state *s = &c->u.doubling;

    c->x.arena_used = 0; /* the former round's sends are done: see ROUND */
    if (s->dense)
        ss_out_result(c, &s->out, 0, c->x.n, phase, round, dst, 1);
    else
        ss_out_stream(&s->out, s->current, phase, round, dst, 1);
}

/* This rank's own stream goes out, in round 0: what comes is added to its rounded values. */
static void start_own(struct ss_coll *c, enum ss_phase phase, int dst)
{
    struct ss_doubling_state *s = &c->u.doubling;

    start_out(c, phase, 0, dst);
    if (s->dense)
        return;
    ss_claims_round_own(c, &s->out);
    if (s->out.rounding)
        ss_out_encode_ahead(&c->x, &s->out);
}

/* current + received becomes current; the three stream buffers change places. */
static void merge(struct ss_coll *c)
{
    struct ss_doubling_state *s = &c->u.doubling;
    double begin = ss_now(&c->x);
    struct ss_stream merged = s->spare;

    if (c->x.failed < 0 || s->dense || s->received.nnz == 0)
        return;
    if (s->current.nnz + s->received.nnz > merged.capacity) {
        ss_fail(&c->x, SS_ERR_MESSAGE, s->in.peers[0].rank, SS_PHASE_REDUCE);
        return;
    }
    merged.nnz = c->kernels->merge(c->x.type, c->op, s->current.idx, s->current.val, s->current.nnz,
                                   s->received.idx, s->received.val, s->received.nnz, merged.idx,
                                   merged.val);
    s->spare = s->current.idx == c->own.idx ? s->third : s->current;
    s->current = merged;
    s->received.nnz = 0;
    c->x.times.merge += ss_now(&c->x) - begin;
}

static int start(struct ss_coll *c)
{
    struct ss_doubling_state *s = &c->u.doubling;
    uint64_t n = c->x.n;
    uint64_t limit;

    s->fold = ss_fold_of(c->x.t->rank, c->x.t->size);
    s->delta = (size_t)ss_plan_delta(n, c->x.type);
    s->round = 0;
    s->dense = false;
    s->current = c->own;
    limit = stream_limit(c);
    uint64_t largest = limit < c->own.nnz ? c->own.nnz : limit;
    size_t arena = ss_arena_bound(c->x.type, largest);
    if (c->voted.nnz_sum > s->delta) { /* a dense round may come */
        size_t dense = ss_arena_bound(c->x.type, n);
        if (dense > arena)
            arena = dense;
    }
    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, arena) != SS_OK ||
        ss_stream_reserve(&c->x, &s->received, 0, limit) != SS_OK ||
        ss_stream_reserve(&c->x, &s->spare, 1, limit) != SS_OK ||
        ss_stream_reserve(&c->x, &s->third, 2, limit) != SS_OK)
        return SS_ERR_MEMORY;
    if (c->own.nnz > s->delta)
        turn_dense(c);
    return SS_OK;
}

int ss_recursive_doubling_step(struct ss_coll *c)
{
    struct ss_doubling_state *s = &c->u.doubling;
    const struct ss_fold *f = &s->fold;
    int received;

    for (;;) {
        switch (c->step) {
        case START:
            if (start(c) != SS_OK)
                ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
            s->out.done = true;
            s->in = (struct ss_in){0};
            if (f->partner >= 0 && f->position < 0)
                start_own(c, SS_PHASE_FOLD_IN, f->partner);
            else if (f->partner >= 0)
                ss_in_start(&c->x, &s->in, SS_PHASE_FOLD_IN, 0, f->partner, 1, take_chunk);
            c->step = FOLD_IN;
            break;
        case FOLD_IN:
            if (ss_out_step(&c->x, &s->out) == SS_PENDING ||
                ss_in_step(&c->x, &s->in) == SS_PENDING)
                return SS_PENDING;
            merge(c);
            c->step = f->position < 0 ? FOLD_OUT : ROUND;
            break;
        case ROUND:
            if (ss_sends_reap(&c->x) == SS_PENDING) /* their messages lie in the arena */
                return SS_PENDING;
            if (s->round == ss_fold_rounds(f)) {
                c->step = FOLD_OUT;
                break;
            }
            if (s->round == 0 && f->partner < 0)
                start_own(c, SS_PHASE_REDUCE, ss_fold_peer(f, 0));
            else
                start_out(c, SS_PHASE_REDUCE, (unsigned)s->round, ss_fold_peer(f, s->round));
            if (s->dense) /* what comes is added to it while it goes */
                ss_out_encode_ahead(&c->x, &s->out);
            ss_in_start(&c->x, &s->in, SS_PHASE_REDUCE, (unsigned)s->round,
                        ss_fold_peer(f, s->round), 1, take_chunk);
            c->step = ROUND_EXCHANGE;
            break;
        case ROUND_EXCHANGE:
            received = ss_in_step(&c->x, &s->in);
            if (ss_out_step(&c->x, &s->out) == SS_PENDING || received == SS_PENDING)
                return SS_PENDING;
            merge(c);
            s->round++;
            c->step = ROUND;
            break;
        case FOLD_OUT:
            s->out.done = true;
            s->in = (struct ss_in){0};
            if (f->partner >= 0 && f->position >= 0) {
                start_out(c, SS_PHASE_FOLD_OUT, 0, f->partner);
            } else if (f->partner >= 0) {
                s->dense = false;
                s->current.nnz = 0;
                ss_in_start(&c->x, &s->in, SS_PHASE_FOLD_OUT, 0, f->partner, 1, set_chunk);
            }
            c->step = FINISH;
            break;
        default:
            received = ss_in_step(&c->x, &s->in);
            if (ss_out_step(&c->x, &s->out) == SS_PENDING || received == SS_PENDING)
                return SS_PENDING;
            if (c->x.failed == 0) {
                ss_result_set_stream(c, &s->current);
                c->result_nnz += s->current.nnz;
            }
            return SS_OK;
        }
    }
}
