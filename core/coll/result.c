/* Clears the result piece by piece and writes entries into it. */
#include <string.h>

#include "core/coll/coll.h"
#include "core/compute/quantize.h"

/* Elements of a piece. If clearing a piece launches a kernel, there are at most REMOTE_PIECES
 * pieces. */
enum { PIECE = 65536, REMOTE_PIECES = 16 };

static uint64_t piece_of(const struct ss_coll *c)
{
    const uint64_t share = (c->out_n + REMOTE_PIECES - 1) / REMOTE_PIECES;

    return c->x.backend->ops->remote && share > PIECE ? share : PIECE;
}

static size_t pieces_of(const struct ss_coll *c)
{
    return (size_t)((c->out_n + piece_of(c) - 1) / piece_of(c));
}

int ss_fill_reserve(struct ss_coll *c)
{
    return ss_buf_reserve(&c->x.work->pieces, c->x.mem, pieces_of(c));
}

void ss_fill_start(struct ss_coll *c, bool own_alone)
{
    struct ss_fill *f = &c->fill;

    f->piece = piece_of(c);
    f->pieces = pieces_of(c);
    f->left = c->x.failed < 0 ? 0 : f->pieces;
    f->cleared = c->x.work->pieces.data;
    if (f->pieces > 0)
        memset(f->cleared, 0, f->pieces);
    bool same_place = c->in_place && c->in_n == c->out_n && c->out_n == c->x.n;
    f->sparse = same_place && own_alone;
    /* The idle sweep begins behind the own part, which is cleared first anyway. */
    f->next = 0;
    if (c->out_n == c->x.n)
        f->next = (size_t)(ss_coll_part(c, (c->x.t->rank + 1) % c->x.t->size) / f->piece);
    if (f->next >= f->pieces)
        f->next = 0;
}

static void clear(struct ss_coll *c, uint64_t lo, uint64_t hi)
{
    struct ss_backend *backend = c->x.backend;

    backend->ops->clear(backend, c->x.type, ss_out_at(c, lo), (size_t)(hi - lo));
}

/* Clears a range except the own slice, which gets this rank's input. */
static void clear_slices(struct ss_coll *c, uint64_t lo, uint64_t hi)
{
    struct ss_backend *backend = c->x.backend;
    uint64_t own_lo = c->in_first < lo ? lo : c->in_first, own_hi = c->in_first + c->in_n;

    if (own_hi > hi)
        own_hi = hi;
    if (own_lo >= own_hi) {
        clear(c, lo, hi);
        return;
    }
    clear(c, lo, own_lo);
    if (!c->in_place)
        backend->ops->copy(backend, c->x.type, ss_out_at(c, own_lo),
                           ss_at_const(c->in, (size_t)(own_lo - c->in_first), c->x.esize),
                           (size_t)(own_hi - own_lo));
    clear(c, own_hi, hi);
}

static void clear_piece(struct ss_coll *c, size_t piece)
{
    struct ss_fill *f = &c->fill;
    uint64_t end = c->out_first + c->out_n, lo = c->out_first + piece * f->piece;
    uint64_t hi = lo + f->piece < end ? lo + f->piece : end;

    if (f->cleared[piece])
        return;
    f->cleared[piece] = 1;
    f->left--;
    if (c->kind == SS_KIND_ALLGATHER) {
        clear_slices(c, lo, hi);
    } else if (f->sparse) {
        struct ss_stream s = ss_stream_slice(&c->own, c->x.esize, lo, hi);
        c->x.backend->ops->clear_at(c->x.backend, c->x.type, c->out, 0, s.idx, s.nnz);
    } else {
        clear(c, lo, hi);
    }
}

void ss_fill_range(struct ss_coll *c, uint64_t lo, uint64_t hi)
{
    if (lo >= hi || c->fill.left == 0)
        return;
    lo -= c->out_first;
    hi -= c->out_first;
    for (size_t piece = (size_t)(lo / c->fill.piece); piece <= (size_t)((hi - 1) / c->fill.piece);
         piece++)
        clear_piece(c, piece);
}

bool ss_fill_idle(struct ss_coll *c)
{
    struct ss_fill *f = &c->fill;

    if (f->left == 0)
        return false;
    while (f->cleared[f->next])
        f->next = f->next + 1 < f->pieces ? f->next + 1 : 0;
    clear_piece(c, f->next);
    return true;
}

static void chunk_range(const struct ss_chunk *chunk, uint64_t *lo, uint64_t *hi)
{
    if (chunk->coded) {
        *lo = chunk->coded->first;
        *hi = (uint64_t)chunk->coded->last + 1;
    } else if (!chunk->idx) {
        *lo = chunk->first;
        *hi = *lo + chunk->nnz;
    } else {
        *lo = chunk->idx[0];
        *hi = (uint64_t)chunk->idx[chunk->nnz - 1] + 1;
    }
}

bool ss_chunk_within(const struct ss_coll *c, const struct ss_chunk *chunk, int part)
{
    uint64_t lo, hi;

    chunk_range(chunk, &lo, &hi);
    return lo >= ss_coll_part(c, part) && hi <= ss_coll_part(c, part + 1);
}

/* Lets the backend decode a chunk. */
static void take_coded(struct ss_coll *c, const enum ss_op *op, const struct ss_coded *coded)
{
    struct ss_backend *backend = c->x.backend;

    const ss_ticket ticket = backend->ops->decode(backend, c->x.type, op, c->out,
                                                  (uint32_t)c->out_first, coded, &c->x.refused);
    if (++c->x.decoding == SS_DECODING_MOST)
        c->x.ticket = ticket;
}

void ss_result_set(struct ss_coll *c, const struct ss_chunk *chunk)
{
    struct ss_backend *backend = c->x.backend;
    uint32_t first = (uint32_t)c->out_first;
    uint64_t lo, hi;

    ss_trace_begin(&c->x, SS_SPAN_SCATTER, NULL, -1);
    chunk_range(chunk, &lo, &hi);
    ss_fill_range(c, lo, hi);
    if (chunk->rep == SS_REP_DENSE) {
        backend->ops->write(backend, c->x.type, ss_out_at(c, lo), chunk->val, chunk->nnz);
        c->dense_seen = true;
    } else if (chunk->rep == SS_REP_QUANTIZED) {
        ss_quantizers()->decode(c->x.type, chunk->values, chunk->val, ss_out_at(c, lo), chunk->nnz);
        c->dense_seen = true;
    } else {
        if (chunk->coded)
            take_coded(c, NULL, chunk->coded);
        else
            backend->ops->scatter(backend, c->x.type, c->out, first, chunk->idx, chunk->val,
                                  chunk->nnz);
        c->result_nnz += chunk->nnz;
    }
    ss_trace_end(&c->x, SS_SPAN_SCATTER);
}

void ss_result_add(struct ss_coll *c, const struct ss_chunk *chunk)
{
    struct ss_backend *backend = c->x.backend;
    uint32_t first = (uint32_t)c->out_first;
    uint64_t lo, hi;

    chunk_range(chunk, &lo, &hi);
    ss_fill_range(c, lo, hi);
    if (chunk->coded)
        take_coded(c, &c->op, chunk->coded);
    else if (chunk->rep == SS_REP_DENSE)
        backend->ops->reduce(backend, c->x.type, c->op, ss_out_at(c, lo), chunk->val, chunk->nnz);
    else
        backend->ops->accumulate(backend, c->x.type, c->op, c->out, first, chunk->idx, chunk->val,
                                 chunk->nnz);
}

static void fill_under(struct ss_coll *c, const struct ss_stream *s)
{
    if (s->in_backend)
        ss_fill_range(c, s->lo, s->hi);
    else
        ss_fill_range(c, s->idx[0], (uint64_t)s->idx[s->nnz - 1] + 1);
}

void ss_result_set_stream(struct ss_coll *c, const struct ss_stream *s)
{
    struct ss_backend *backend = c->x.backend;
    uint32_t first = (uint32_t)c->out_first;

    if (s->nnz == 0)
        return;
    ss_trace_begin(&c->x, SS_SPAN_SCATTER, NULL, -1);
    fill_under(c, s);
    backend->ops->scatter(backend, c->x.type, c->out, first, s->idx, s->val, s->nnz);
    ss_trace_end(&c->x, SS_SPAN_SCATTER);
}

void ss_result_add_stream(struct ss_coll *c, const struct ss_stream *s)
{
    struct ss_backend *backend = c->x.backend;
    uint32_t first = (uint32_t)c->out_first;

    if (s->nnz == 0)
        return;
    fill_under(c, s);
    backend->ops->accumulate(backend, c->x.type, c->op, c->out, first, s->idx, s->val, s->nnz);
}

void ss_out_result(struct ss_coll *c, struct ss_out *o, uint64_t first, uint64_t n,
                   enum ss_phase phase, unsigned round, int dst, int ndst)
{
    ss_out_elements(o, ss_at(c->out, (size_t)first, c->x.esize), true, first, n, phase, round, dst,
                    ndst);
}
