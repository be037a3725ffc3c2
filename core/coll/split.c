/* The first phase of split_allgather, dsar, reduce_scatter and reduce (SparCML section 5.3.2). The
 * index space is split among the ranks. Every rank sends each part of its stream to the part's
 * owner, and the owner reduces its part, in rank order, in the result. Slices are rounded by their
 * sender; the owner's own slice is not rounded. */
#include "core/coll/coll.h"

static size_t slices_bound(const struct ss_coll *c)
{
    return ss_arena_bound(c->x.type, c->own.nnz) +
           (size_t)c->x.t->size * ss_arena_bound(c->x.type, 0);
}

int ss_split_reserve_slices(struct ss_coll *c)
{
    return ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, slices_bound(c));
}

/* Makes room for the reduced part in the backend, if the own stream stays there. */
static bool reserve_there(struct ss_coll *c, struct ss_stream *part, uint64_t entries)
{
    struct ss_stream_buffers *buffers = &c->x.work->in_backend[1];
    const int rank = c->x.t->rank;

    if (!c->own.in_backend || c->x.failed < 0 ||
        !ss_stream_buffers_reserve(buffers, c->x.backend, (size_t)entries, c->x.esize,
                                   c->rounding.values != SS_VALUES_SAME))
        return false;
    *part = (struct ss_stream){.idx = buffers->idx.data,
                               .val = buffers->val.data,
                               .capacity = (size_t)entries,
                               .in_backend = true,
                               .lo = ss_coll_part(c, rank),
                               .hi = ss_coll_part(c, rank + 1)};
    return true;
}

int ss_split_reserve(struct ss_coll *c, struct ss_stream *part)
{
    uint64_t lo = ss_coll_part(c, c->x.t->rank), hi = ss_coll_part(c, c->x.t->rank + 1);
    uint64_t entries = hi - lo;

    if (part && entries > c->voted.nnz_sum)
        entries = c->voted.nnz_sum;
    if (part && c->part_most > 0 && entries > c->part_most)
        entries = c->part_most;
    size_t arena = slices_bound(c) + ss_arena_bound(c->x.type, entries);
    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, arena) != SS_OK)
        return SS_ERR_MEMORY;
    if (!part)
        return SS_OK;
    return reserve_there(c, part, entries) ? SS_OK : ss_stream_reserve(&c->x, part, 0, entries);
}

static void add_chunk(struct ss_exchange *x, struct ss_in *in, int src,
                      const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);

    (void)in, (void)msg, (void)len;
    if (ss_chunk_within(c, chunk, c->x.t->rank))
        ss_result_add(c, chunk);
    else
        ss_fail(&c->x, SS_ERR_MESSAGE, src, SS_PHASE_REDUCE);
}

struct ss_stream ss_own_slice(const struct ss_coll *c, int part)
{
    const uint64_t lo = ss_coll_part(c, part), hi = ss_coll_part(c, part + 1);
    struct ss_stream s = c->own;

    if (!c->own.in_backend)
        return ss_stream_slice(&c->own, c->x.esize, lo, hi);
    const size_t first = (size_t)c->own_parts[part].first,
                 end = part + 1 < c->x.t->size ? (size_t)c->own_parts[part + 1].first : c->own.nnz;
    s.idx += first;
    s.val = ss_at(s.val, first, c->x.esize);
    s.nnz = end - first;
    s.lo = lo;
    s.hi = hi;
    return s;
}

/* Starts encoding all slices but the own one in the backend, in the order in which they are sent,
 * if the own stream stays there. */
static void encode_slices(struct ss_coll *c, struct ss_split *s)
{
    const int rank = c->x.t->rank, size = c->x.t->size;
    struct ss_buf *room = &c->x.work->leaving;
    const size_t each = sizeof(struct ss_part) + sizeof(size_t);
    const bool rounds = c->rounding.values != SS_VALUES_SAME;
    struct ss_part *parts;

    if (!c->own.in_backend || c->x.failed < 0)
        return;
    if (ss_buf_reserve_voted(room, c->x.mem, (size_t)size * each) != SS_OK) {
        ss_fail(&c->x, SS_ERR_MEMORY, rank, SS_PHASE_REDUCE);
        return;
    }
    parts = room->data;
    s->ends = (size_t *)(void *)(parts + size);
    for (int i = 1; i < size; i++) {
        const struct ss_stream slice = ss_own_slice(c, (rank + i) % size);
        parts[i - 1] = (struct ss_part){(size_t)(slice.idx - c->own.idx), slice.nnz};
    }
    ss_out_encode_parts(&c->x, &c->own, rounds ? &c->rounding : NULL,
                        rounds ? c->claims.own_error : NULL, SS_PHASE_REDUCE, parts,
                        (size_t)size - 1, s->ends);
    s->begin = c->x.arena_used;
    s->encoding = true;
}

/* Returns true if slices can be sent. */
static bool slices_encoded(struct ss_coll *c, struct ss_split *s)
{
    if (s->encoding && !ss_settled(&c->x, SS_PHASE_REDUCE))
        return false;
    if (s->encoding && c->x.failed == 0)
        c->x.arena_used = s->begin + s->ends[c->x.t->size - 2];
    s->encoding = false;
    return true;
}

static void start_slice(struct ss_coll *c, struct ss_split *s)
{
    const int dst = (c->x.t->rank + ++s->slice) % c->x.t->size;

    if (c->own.in_backend && c->x.failed == 0) {
        const size_t begin = s->slice > 1 ? s->ends[s->slice - 2] : 0;
        ss_out_messages(&s->out, s->begin + begin, s->begin + s->ends[s->slice - 1],
                        SS_PHASE_REDUCE, 0, dst, 1);
        return;
    }
    ss_out_stream(&s->out, ss_own_slice(c, dst), SS_PHASE_REDUCE, 0, dst, 1);
    ss_claims_round_own(c, &s->out);
}

static void add_own(struct ss_exchange *x)
{
    struct ss_coll *c = ss_coll_of(x);
    struct ss_stream s = ss_own_slice(c, c->x.t->rank);

    ss_result_add_stream(c, &s);
}

enum { START, EXCHANGE };

int ss_split_step(struct ss_coll *c, struct ss_split *s)
{
    int rank = c->x.t->rank, size = c->x.t->size;

    if (s->step == START) {
        ss_in_start_ordered(&c->x, &s->in, SS_PHASE_REDUCE, add_chunk, add_own);
        s->in.coded_too = true;
        s->slice = 0;
        s->out.done = true;
        s->step = EXCHANGE;
        encode_slices(c, s);
    }
    while (slices_encoded(c, s) && (s->slice < size - 1 || !s->out.done)) {
        if (s->out.done)
            start_slice(c, s);
        if (ss_out_step(&c->x, &s->out) == SS_PENDING)
            break;
    }
    int received = ss_in_step(&c->x, &s->in);
    if (s->slice < size - 1 || !s->out.done || received == SS_PENDING)
        return SS_PENDING;
    ss_fill_range(c, ss_coll_part(c, rank), ss_coll_part(c, rank + 1));
    return SS_OK;
}

/* The reduced part lies dense in the result; its non-zero entries become the stream to send. */
void ss_compact_start(struct ss_coll *c, struct ss_compact *h, const struct ss_stream *part)
{
    uint64_t lo = ss_coll_part(c, c->x.t->rank), hi = ss_coll_part(c, c->x.t->rank + 1);
    struct ss_exchange *x = &c->x;

    h->seen = (struct ss_scan){0};
    h->begin = ss_span_begin(x, SS_SPAN_MERGE);
    if (x->failed == 0 && lo < hi)
        x->ticket =
            x->backend->ops->scan(x->backend, x->type, SS_SUM, ss_out_at(c, lo), (size_t)(hi - lo),
                                  (uint32_t)lo, part->idx, part->val, part->capacity, &h->seen);
}

bool ss_compact_step(struct ss_coll *c, struct ss_compact *h, struct ss_stream *part)
{
    if (!ss_settled(&c->x, SS_PHASE_REDUCE))
        return false;
    part->nnz = c->x.failed == 0 ? h->seen.stored : 0;
    ss_span_end(&c->x, SS_SPAN_MERGE, h->begin);
    return true;
}
