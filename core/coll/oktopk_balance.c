/* Balances the global set before oktopk's allgather (Ok-Topk, PPoPP'22, section 3.1.2): entries
 * move so that each rank holds an equal share, in the order of the indices. */
#include <string.h>

#include "core/coll/oktopk_impl.h"

/* Balancing pays if the largest part is more than four times the mean (section 5.3). */
enum { UNEVEN = 4 };

bool ss_oktopk_uneven(const struct ss_coll *c, uint64_t largest)
{
    return largest * (uint64_t)c->x.t->size > UNEVEN * ss_oktopk_of(c)->total;
}

/* A range of the global set, its entries numbered by index. */
struct range {
    uint64_t lo, hi;
};

/* Returns the range of rank p; words[p] is the number of its first entry. */
static struct range range_of(const struct ss_coll *c, int p)
{
    return (struct range){ss_oktopk_of(c)->words[p], ss_oktopk_of(c)->words[p + 1]};
}

/* Returns the range that rank p sends to all. */
static struct range share_of(const struct ss_coll *c, int p)
{
    uint64_t total = ss_oktopk_of(c)->total, size = (uint64_t)c->x.t->size;

    return (struct range){total * (uint64_t)p / size, total * ((uint64_t)p + 1) / size};
}

/* Returns true if a message goes from the rank that has `from` to the owner of `share`. The sources
 * of a share are consecutive ranks; a source without entries sends an empty message. */
static bool meets(struct range from, struct range share)
{
    return from.lo < share.hi && from.hi > share.lo;
}

static struct range common(struct range a, struct range b)
{
    struct range r = {a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};

    if (r.hi < r.lo)
        r.hi = r.lo;
    return r;
}

/* Returns the count of entries received from rank p. */
static uint64_t *taken(struct ss_coll *c, int p)
{
    return &ss_oktopk_of(c)->words[c->x.t->size + 1 + p];
}

/* Returns the room for the entries of src in the own share, as a stream that is being filled. */
static struct ss_stream room_of(struct ss_coll *c, int src)
{
    const struct ss_stream *share = &ss_oktopk_of(c)->share;
    struct range mine = share_of(c, c->x.t->rank), part = common(range_of(c, src), mine);
    size_t at = (size_t)(part.lo - mine.lo);

    return (struct ss_stream){.idx = share->idx + at,
                              .val = ss_at(share->val, at, c->x.esize),
                              .nnz = (size_t)*taken(c, src),
                              .capacity = (size_t)(part.hi - part.lo)};
}

static void take_balanced(struct ss_exchange *x, struct ss_in *in, int src,
                          const struct ss_chunk *chunk, const void *msg, size_t len)
{
    struct ss_coll *c = ss_coll_of(x);

    uint32_t dense = chunk->rep == SS_REP_DENSE ? chunk->nnz : 0;
    uint64_t first = dense ? chunk->first : chunk->idx[0];
    uint64_t last = dense ? first + dense - 1 : chunk->idx[chunk->nnz - 1];
    struct ss_stream s = room_of(c, src);

    (void)in, (void)msg, (void)len;
    if (first < ss_coll_part(c, src) || last >= ss_coll_part(c, src + 1)) {
        ss_fail(&c->x, SS_ERR_MESSAGE, src, SS_PHASE_BALANCE);
        return;
    }
    ss_stream_append(&c->x, src, &s, chunk);
    *taken(c, src) = s.nnz;
}

static struct ss_stream own_entries(const struct ss_coll *c, struct range share)
{
    const struct ss_stream *own = &ss_oktopk_of(c)->reduced;
    struct range mine = range_of(c, c->x.t->rank), part = common(mine, share);
    size_t at = (size_t)(part.lo - mine.lo);

    if (c->x.failed < 0) /* only error headers are sent */
        return (struct ss_stream){0};
    return (struct ss_stream){.idx = own->idx + at,
                              .val = ss_at(own->val, at, c->x.esize),
                              .nnz = (size_t)(part.hi - part.lo)};
}

static void copy_own(struct ss_coll *c, struct ss_stream own)
{
    struct ss_stream room = room_of(c, c->x.t->rank);

    memcpy(room.idx, own.idx, own.nnz * sizeof *own.idx);
    memcpy(room.val, own.val, own.nnz * c->x.esize);
    *taken(c, c->x.t->rank) = own.nnz;
}

void ss_oktopk_balance_start(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    int rank = c->x.t->rank, size = c->x.t->size, sources = 0, top = 0;
    struct range mine = share_of(c, rank);
    uint64_t before = 0;

    for (int p = 0; p <= size; p++) {
        uint64_t count = p < size ? s->words[p] : 0;
        s->words[p] = before;
        before += count;
    }
    memset(taken(c, 0), 0, (size_t)size * sizeof *s->words);
    for (int p = 0; p < size; p++)
        if (meets(range_of(c, p), mine)) {
            sources++;
            top = p;
        }
    if (ss_stream_reserve(&c->x, &s->share, 1, mine.hi - mine.lo) != SS_OK) {
        ss_fail(&c->x, SS_ERR_MEMORY, rank, SS_PHASE_BALANCE);
    } else {
        s->share.nnz = (size_t)(mine.hi - mine.lo);
        if (meets(range_of(c, rank), mine))
            copy_own(c, own_entries(c, mine));
    }
    ss_in_start(&c->x, &s->balance.in, SS_PHASE_BALANCE, 0, top, sources, take_balanced);
    s->balance.dst = -1;
    s->balance.out.done = true;
}

/* Starts sending to the next rank whose share overlaps this rank's entries. Returns false if there
 * is none. */
static bool next_share(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);
    int *dst = &s->balance.dst;

    while (++*dst < c->x.t->size) {
        struct range share = share_of(c, *dst);
        if (*dst == c->x.t->rank || !meets(range_of(c, c->x.t->rank), share))
            continue;
        ss_out_stream(&s->balance.out, own_entries(c, share), SS_PHASE_BALANCE, 0, *dst, 1);
        return true;
    }
    return false;
}

int ss_oktopk_balance_step(struct ss_coll *c)
{
    struct ss_oktopk_state *s = ss_oktopk_of(c);

    while (s->balance.dst < c->x.t->size) {
        if (s->balance.out.done && !next_share(c))
            break;
        if (ss_out_step(&c->x, &s->balance.out) == SS_PENDING)
            break;
    }
    if (ss_in_step(&c->x, &s->balance.in) == SS_PENDING || s->balance.dst < c->x.t->size)
        return SS_PENDING;
    for (int p = 0; c->x.failed == 0 && p < c->x.t->size; p++)
        if (meets(range_of(c, p), share_of(c, c->x.t->rank)) &&
            room_of(c, p).nnz != room_of(c, p).capacity)
            ss_fail(&c->x, SS_ERR_MESSAGE, p, SS_PHASE_BALANCE);
    return SS_OK;
}
