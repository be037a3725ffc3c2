/* The first phase of split_allgather, dsar, reduce_scatter and reduce (SparCML section 5.3.2): the
 * index space is split among the ranks, every rank sends each part of its stream to the part's
 * owner, and the owner reduces its part, in rank order, in place in the result. Slices are rounded
 * by their sender; its own stays as it is. */
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

int ss_split_reserve(struct ss_coll *c, struct ss_stream *part)
{
    uint64_t lo = ss_coll_part(c, c->x.t->rank), hi = ss_coll_part(c, c->x.t->rank + 1);
    uint64_t entries = hi - lo;

    if (part && entries > c->voted.nnz_sum)
        entries = c->voted.nnz_sum;
    size_t arena = slices_bound(c) + ss_arena_bound(c->x.type, entries);
    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, arena) != SS_OK)
        return SS_ERR_MEMORY;
    return part ? ss_stream_reserve(&c->x, part, 0, entries) : SS_OK;
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

static struct ss_stream own_slice(const struct ss_coll *c, int part)
{
    return ss_stream_slice(&c->own, c->x.esize, ss_coll_part(c, part), ss_coll_part(c, part + 1));
}

static void add_own(struct ss_exchange *x)
{
    struct ss_coll *c = ss_coll_of(x);
    struct ss_stream s = own_slice(c, c->x.t->rank);

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
    }
    while (s->slice < size - 1 || !s->out.done) {
        if (s->out.done) {
            int dst = (rank + ++s->slice) % size;
            ss_out_stream(&s->out, own_slice(c, dst), SS_PHASE_REDUCE, 0, dst, 1);
            ss_claims_round_own(c, &s->out);
        }
        if (ss_out_step(&c->x, &s->out) == SS_PENDING)
            break;
    }
    int received = ss_in_step(&c->x, &s->in);
    if (s->slice < size - 1 || !s->out.done || received == SS_PENDING)
        return SS_PENDING;
    ss_fill_range(c, ss_coll_part(c, rank), ss_coll_part(c, rank + 1));
    return SS_OK;
}

/* The reduced part lies dense in the result: its non-zero entries become the stream to send. */
void ss_harvest_start(struct ss_coll *c, struct ss_harvest *h, const struct ss_stream *part)
{
    uint64_t lo = ss_coll_part(c, c->x.t->rank), hi = ss_coll_part(c, c->x.t->rank + 1);
    struct ss_exchange *x = &c->x;

    h->seen = (struct ss_scan){0};
    h->begin = ss_span_begin(x, SS_SPAN_MERGE);
    if (x->failed == 0 && lo < hi)
        x->ticket =
            x->place->ops->scan(x->place, x->type, SS_SUM, ss_out_at(c, lo), (size_t)(hi - lo),
                                (uint32_t)lo, part->idx, part->val, part->capacity, &h->seen);
}

bool ss_harvest_step(struct ss_coll *c, struct ss_harvest *h, struct ss_stream *part)
{
    if (!ss_settled(&c->x, SS_PHASE_REDUCE))
        return false;
    part->nnz = c->x.failed == 0 ? h->seen.stored : 0;
    ss_span_end(&c->x, SS_SPAN_MERGE, h->begin);
    return true;
}
