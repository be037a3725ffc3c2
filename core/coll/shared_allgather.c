/* The allgather of core/coll/allgather.c where all ranks are on one host: instead of messages, the
 * ranks read each other's entries in shared memory (core/net/shared_memory.h).
 *
 * In each round, every rank writes the next entries of its stream, as many as fit. The round covers
 * the elements before the first one that a rank has not come to. A rank clears these elements piece
 * by piece, and adds the entries of all ranks to each piece, in rank order, while the piece is in
 * the cache.
 *
 * A rank that fails sets a flag in its area, which the ranks that wait for it read.
 */
#include <string.h>

#include "core/coll/coll.h"

enum { START, WRITE, READ, OVER };

static int give_up(struct ss_coll *c, struct ss_sharing *s)
{
    atomic_store(&ss_shared_head(c->shared, c->x.t->rank)->failed, true);
    c->x.shared_peer = 0;
    s->step = OVER;
    return SS_OK;
}

/* Waits for a rank, unless it has failed. */
static int wait_for(struct ss_coll *c, struct ss_sharing *s, int rank)
{
    if (atomic_load_explicit(&ss_shared_head(c->shared, rank)->failed, memory_order_acquire)) {
        ss_fail(&c->x, SS_ERR_PEER, rank, SS_PHASE_GATHER);
        return give_up(c, s);
    }
    c->x.shared_peer = rank + 1;
    s->reached = rank;
    return SS_PENDING;
}

static void write_entries(struct ss_coll *c, struct ss_sharing *s)
{
    struct ss_exchange *x = &c->x;
    struct ss_shared *m = c->shared;
    struct ss_shared_head *head = ss_shared_head(m, x->t->rank);
    const size_t left = c->own.nnz - s->next, room = ss_shared_capacity(m, x->esize);
    const size_t nnz = left < room ? left : room;

    memcpy(ss_shared_idx(m, x->t->rank, s->round), c->own.idx + s->next, nnz * sizeof *c->own.idx);
    memcpy(ss_shared_val(m, x->t->rank, s->round, x->esize), ss_at(c->own.val, s->next, x->esize),
           nnz * x->esize);
    head->half[s->round % 2] =
        (struct ss_shared_half){.end = nnz < left ? c->own.idx[s->next + nnz] : x->n,
                                .call = x->number,
                                .nnz = (uint32_t)nnz};
    atomic_store_explicit(&head->written, s->round, memory_order_release);
    const size_t bytes = nnz * (sizeof *c->own.idx + x->esize);

    x->bytes_sent += bytes;
    x->bytes_inside += bytes;
    x->phase_sent[SS_PHASE_GATHER] += bytes;
    x->moved = true;
}

/* Returns the entries that a rank has written in this round. */
static struct ss_stream written_by(const struct ss_coll *c, const struct ss_sharing *s, int rank)
{
    return (struct ss_stream){.idx = ss_shared_idx(c->shared, rank, s->round),
                              .val = ss_shared_val(c->shared, rank, s->round, c->x.esize),
                              .nnz = ss_shared_head(c->shared, rank)->half[s->round % 2].nnz};
}

/* Returns true if a rank's entries of this round lie between `first` and the end that the rank
 * names, which is higher. */
static bool is_sound(const struct ss_coll *c, const struct ss_sharing *s, int rank)
{
    const struct ss_shared_half *half = &ss_shared_head(c->shared, rank)->half[s->round % 2];
    const struct ss_stream w = written_by(c, s, rank);

    return half->call == c->x.number && half->end > s->first && half->end <= c->x.n &&
           w.nnz <= ss_shared_capacity(c->shared, c->x.esize) &&
           (w.nnz == 0 || (w.idx[0] >= s->first && w.idx[w.nnz - 1] < half->end));
}

/* Finds the end of the elements that the round covers. Returns false if what a rank has written is
 * malformed. */
static bool find_end(struct ss_coll *c, struct ss_sharing *s)
{
    s->end = c->x.n;
    for (int r = 0; r < c->shared->size; r++) {
        const uint64_t end = ss_shared_head(c->shared, r)->half[s->round % 2].end;

        if (!is_sound(c, s, r)) {
            ss_fail(&c->x, SS_ERR_MESSAGE, r, SS_PHASE_GATHER);
            return false;
        }
        if (end < s->end)
            s->end = end;
    }
    return true;
}

/* Counts the entries of the result in some pieces, which stand for all: one of P, and about COUNTED
 * of them at most. */
static void count_piece(struct ss_coll *c, struct ss_sharing *s, uint64_t lo, uint64_t hi)
{
    enum { COUNTED = 8 };
    const uint64_t share = c->fill.pieces / COUNTED, size = (uint64_t)c->shared->size;
    const uint64_t every = share > size ? share : size;
    struct ss_scan seen;

    if (lo / c->fill.piece % every != (uint64_t)c->x.t->rank)
        return;
    c->kernels->scan(c->x.type, SS_SUM, ss_out_at(c, lo), (size_t)(hi - lo), 0, NULL, NULL, 0,
                     &seen);
    s->counted += hi - lo;
    s->found += seen.nnz;
}

/* Adds up elements [lo, hi), which lie in one piece. */
static void add_piece(struct ss_coll *c, struct ss_sharing *s, uint64_t lo, uint64_t hi)
{
    ss_fill_range(c, lo, hi);
    for (int r = 0; r < c->shared->size; r++) {
        const struct ss_stream w = written_by(c, s, r);
        const struct ss_stream slice = ss_stream_slice(&w, c->x.esize, lo, hi);

        c->x.backend->ops->accumulate(c->x.backend, c->x.type, c->op, c->out,
                                      (uint32_t)c->out_first, slice.idx, slice.val, slice.nnz);
    }
    count_piece(c, s, lo, hi);
}

static void read_entries(struct ss_coll *c, struct ss_sharing *s)
{
    const double begin = ss_span_begin(&c->x, SS_SPAN_MERGE);
    uint64_t lo = s->first, hi;

    for (; lo < s->end; lo = hi) {
        hi = (lo / c->fill.piece + 1) * c->fill.piece;
        add_piece(c, s, lo, hi < s->end ? hi : s->end);
    }
    ss_span_end(&c->x, SS_SPAN_MERGE, begin);
    atomic_store_explicit(&ss_shared_head(c->shared, c->x.t->rank)->read, s->round,
                          memory_order_release);
    s->next += ss_lower_bound(c->own.idx + s->next, c->own.nnz - s->next, (uint32_t)s->end);
    s->first = s->end;
    c->x.moved = true;
}

static int step_write(struct ss_coll *c, struct ss_sharing *s)
{
    const uint64_t before = s->round > 2 ? s->round - 2 : 0;
    const int rank = ss_shared_unread(c->shared, s->reached, before);

    if (rank < c->shared->size)
        return wait_for(c, s, rank);
    write_entries(c, s);
    s->reached = 0;
    s->step = READ;
    return SS_OK;
}

static int step_read(struct ss_coll *c, struct ss_sharing *s)
{
    const int rank = ss_shared_unwritten(c->shared, s->reached, s->round);

    if (rank < c->shared->size)
        return wait_for(c, s, rank);
    if (!find_end(c, s))
        return give_up(c, s);
    read_entries(c, s);
    s->reached = 0;
    s->step = WRITE;
    if (s->first < c->x.n) {
        s->round++;
        return SS_OK;
    }
    c->shared->rounds = s->round;
    c->x.shared_peer = 0;
    if (s->counted > 0)
        c->result_nnz = (uint64_t)((double)s->found * (double)c->x.n / (double)s->counted);
    s->step = OVER;
    return SS_OK;
}

int ss_sharing_step(struct ss_coll *c, struct ss_sharing *s)
{
    int status = SS_OK;

    if (s->step == START) {
        s->round = c->shared->rounds + 1;
        s->step = WRITE;
    }
    if (c->x.failed < 0)
        return give_up(c, s);
    while (s->step != OVER && status == SS_OK)
        status = s->step == WRITE ? step_write(c, s) : step_read(c, s);
    return status;
}
