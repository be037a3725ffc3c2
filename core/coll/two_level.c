/* An allreduce on two levels (hierarchical collectives: Karonis et al., IPDPS 2000): inside each
 * host, between hosts, inside each host again.
 *
 * The index space is cut into slices. The ranks of a host split their streams among the owners of
 * the slices, who reduce them in rank order. The owners of a slice, one on each host, then run an
 * algorithm of one level on it. Last, each owner gives its slices to the ranks of its host. A rank
 * that owns several slices exchanges them one after the other, in ascending order, so that no two
 * ranks wait for each other. If entries crowd in some slices, and split_allgather runs between
 * hosts, all ranks divide the index space by its entries first, into slices and parts of slices.
 *
 * If the own stream holds entries of this rank's slices only, which are claims from the sum of its
 * host's inputs (core/feedback/host_sum.c), the first step is left out. If each rank then owns one
 * slice at most, an algorithm that keeps the largest entries can run between hosts: it acts on each
 * slice as on the elements of a job of one rank per host, with the state, global set and k of the
 * slice.
 *
 * Cost on the wire between hosts: that of the algorithm of one level among H hosts for n / S
 * elements, where each input is the union of the inputs of a host.
 */
#include "core/coll/two_level.h"

#include <string.h>

#include "core/coll/algorithms.h"
#include "core/coll/coll.h"
#include "core/compute/quantize.h"

enum { BALANCE, START, SPLIT, SPLIT_SENT, REDUCED, BETWEEN, BETWEEN_SENT, COLLECTED, GATHER, OVER };

struct state {
    int stage;
    int slices;     /* of the index space */
    int slice, end; /* slice of this rank that is exchanged; behind its last one */
    struct ss_subset subset;
    uint32_t *borders; /* first elements of the slices of each rank of this host; NULL: no memory */
    struct ss_balance balance;
    const uint32_t *cuts;   /* balanced slices: a part for each host in each slice; NULL: equal */
    uint32_t *parts;        /* balanced slices: first elements of the parts of the current slice */
    uint32_t *breaks;       /* whole calls: ends of the parts of this rank's slices */
    const uint32_t *bounds; /* parts that the algorithm between hosts has set */
    struct ss_stream part;  /* reduced entries of this rank's slices */
    struct ss_stream given; /* input of the algorithm between hosts, by indices of the slice */
    size_t claim;           /* by_host: entries of the own stream in earlier slices */
    size_t errors;          /* by_host: errors that earlier slices have booked, */
    size_t errors_room;     /* for which there is room */
    struct ss_scan seen;
    double begin;
    union {
        struct ss_split split;
        struct ss_gather gather;
    } inside;
    _Alignas(16) unsigned char between[SS_COLL_STATE];
};
_Static_assert(sizeof(struct state) <= SS_COLL_STATE_MOST, "room for the state");

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* Returns the first element of a slice. Slices begin at multiples of 16 elements. */
static uint64_t slice_first(const struct ss_coll *c, const struct state *s, int slice)
{
    return s->cuts ? s->cuts[slice * c->layout->hosts] : ss_part_first(c->x.n, s->slices, slice);
}

/* Sets the parts of the current slice, which its elements number from 0. */
static void set_parts(struct ss_coll *c, struct state *s, uint64_t lo)
{
    const int hosts = c->layout->hosts, rank = s->subset.t.rank;
    const uint32_t *cuts = s->cuts + s->slice * hosts;

    for (int h = 0; h <= hosts; h++)
        s->parts[h] = cuts[h] - (uint32_t)lo;
    c->bounds = s->parts;
    c->part_most = ss_balance_room(&s->balance, cuts[rank], cuts[rank + 1]) + 1;
}

/* ---- phases ---- */

/* Acts among the ranks of this host, whose parts of the index space are their slices. */
static int act_inside(struct ss_coll *c, struct state *s,
                      int (*act)(struct ss_coll *c, void *state))
{
    struct ss_transport *all = c->x.t;
    int status;

    c->x.t = &s->subset.t;
    c->bounds = s->borders;
    status = act(c, &s->inside);
    c->bounds = NULL;
    c->x.t = all;
    return status;
}

/* Returns the numbers that the owners of a slice of n elements may rely on. */
static struct ss_voted voted_between(const struct ss_coll *c, const struct state *s, uint64_t n)
{
    const struct ss_voted *v = &c->voted;
    const uint64_t most = at_most(c->by_host ? v->nnz_max : v->nnz_sum, n);

    return (struct ss_voted){.nnz_sum = at_most(v->nnz_sum, most * (uint64_t)s->subset.t.size),
                             .nnz_max = most,
                             .k_max = v->k_max,
                             .same_state = v->same_state};
}

/* Steps the algorithm between hosts: an allreduce of the slice among its owners, whose input is
 * `given` and whose result is cleared. */
static int act_between(struct ss_coll *c, struct state *s)
{
    struct ss_transport *all = c->x.t;
    const struct ss_stream own = c->own;
    const struct ss_voted voted = c->voted;
    const struct ss_fill fill = c->fill;
    void *const own_error = c->claims.own_error;
    unsigned char *const in_global = c->claims.in_global;
    const uint64_t n = c->x.n, lo = slice_first(c, s, s->slice);
    const uint64_t slice_n = slice_first(c, s, s->slice + 1) - lo;
    unsigned char *out = c->out;
    int status;

    c->x.t = &s->subset.t;
    c->own = s->given;
    if (own_error)
        c->claims.own_error = ss_at(own_error, s->claim, c->x.esize);
    if (in_global)
        c->claims.in_global = in_global + s->claim;
    c->fill = (struct ss_fill){0};
    c->out = ss_out_at(c, lo);
    c->x.n = c->out_n = slice_n;
    c->voted = voted_between(c, s, slice_n);
    c->whole.first -= lo; /* the elements of the slice are numbered from 0 */
    c->state = s->between;
    c->bounds = s->bounds;
    if (s->cuts && s->parts)
        set_parts(c, s, lo);
    status = ss_algorithms(SS_KIND_ALLREDUCE)[voted.between]->step(c);
    s->bounds = c->bounds;
    c->bounds = NULL;
    c->part_most = 0;
    c->state = s;
    c->whole.first += lo;
    c->voted = voted;
    c->x.n = c->out_n = n;
    c->out = out;
    c->fill = fill;
    c->own = own;
    c->claims.own_error = own_error;
    c->claims.in_global = in_global;
    c->x.t = all;
    return status;
}

/* ---- the steps between phases ---- */

/* Returns the most errors of reduced entries that this rank books: of rounding those of a part of
 * each of its slices, `own` elements together, and the entries that gtopk cuts. */
static size_t errors_most(const struct ss_coll *c, uint64_t own)
{
    const bool rounds = c->rounding.values != SS_VALUES_SAME;
    const size_t cut = c->voted.between == SS_GTOPK ? 2 * (c->own.nnz + (size_t)c->voted.k_max) : 0;

    return (rounds ? (size_t)own : 0) + cut;
}

static bool is_whole(const struct ss_coll *c)
{
    return c->whole.values != SS_VALUES_SAME;
}

/* Makes room for the codes of this rank's slices, n elements, which it sends to the ranks of its
 * host: part by part, as they were quantized between hosts. Computes the ends of the parts. */
static int reserve_codes(struct ss_coll *c, struct state *s, uint64_t n)
{
    const int hosts = c->layout->hosts, parts = (s->end - s->slice) * hosts;
    const uint64_t part = parts > 0 ? n / (uint64_t)parts + 32 : 0;
    struct ss_work *work = c->x.work;

    for (int i = 0; i < parts; i++) {
        const uint64_t first = slice_first(c, s, s->slice + i / hosts);
        const uint64_t elements = slice_first(c, s, s->slice + i / hosts + 1) - first;
        s->breaks[i] = (uint32_t)(first + ss_part_first(elements, hosts, i % hosts + 1));
    }
    if (ss_buf_reserve_voted(&work->arena, c->x.mem,
                             (size_t)parts * ss_arena_quantized(c->whole.values, part)) != SS_OK)
        return SS_ERR_MEMORY;
    return ss_buf_reserve_voted(&work->slice_errors, c->x.mem,
                                (size_t)at_most(part, SS_CHUNK_QUANTIZED) * c->x.esize);
}

/* Makes room for this rank's slices and for the borders of all, which it computes. */
static int reserve(struct ss_coll *c, struct state *s)
{
    struct ss_buf *borders = &c->x.work->borders;
    const int count = s->subset.t.size;
    const size_t hosts = (size_t)c->layout->hosts;

    if (ss_buf_reserve_voted(borders, c->x.mem,
                             ((size_t)count + hosts * (size_t)(s->end - s->slice + 1) + 2) *
                                 sizeof *s->borders) != SS_OK)
        return SS_ERR_MEMORY;
    s->borders = borders->data;
    s->parts = s->borders + count + 1;
    s->breaks = s->parts + hosts + 1;
    for (int i = 0; i <= count; i++)
        s->borders[i] = (uint32_t)slice_first(c, s, ss_layout_slice(i, count, s->slices));
    const uint64_t lo = slice_first(c, s, s->slice), hi = slice_first(c, s, s->end);
    const uint64_t own = s->cuts ? ss_balance_room(&s->balance, lo, hi) : hi - lo;
    /* the messages of one phase at a time; the algorithm between hosts makes its own room. Dense
     * messages are as long as sparse ones would be, but have more headers. */
    const size_t headers = (size_t)((hi - lo) / SS_CHUNK_ENTRIES) * ss_arena_bound(c->x.type, 0);
    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem,
                             ss_arena_bound(c->x.type, own) + headers) != SS_OK)
        return SS_ERR_MEMORY;
    if (is_whole(c))
        return reserve_codes(c, s, hi - lo);
    s->errors_room = c->by_host ? errors_most(c, own) : 0;
    if (ss_buf_reserve_voted(&c->x.work->slice_errors, c->x.mem,
                             s->errors_room * (sizeof(uint32_t) + c->x.esize)) != SS_OK)
        return SS_ERR_MEMORY;
    return ss_stream_reserve(&c->x, &s->part, SS_STREAM_BETWEEN, at_most(c->voted.nnz_sum, own));
}

static int start_split(struct ss_coll *c, void *state)
{
    (void)state;
    return ss_split_reserve_slices(c);
}

/* Returns SS_PENDING, or SS_OK if slices are divided. */
static int divide(struct ss_coll *c, struct state *s)
{
    s->slices = ss_layout_slices(c->layout, c->x.n);
    if (!c->voted.balanced || c->voted.between != SS_SPLIT_ALLGATHER)
        return SS_OK;
    if (ss_balance_step(c, &s->balance, s->slices * c->layout->hosts) == SS_PENDING)
        return SS_PENDING;
    if (c->x.failed == 0)
        s->cuts = s->balance.bounds;
    return SS_OK;
}

static void start(struct ss_coll *c, struct state *s)
{
    ss_subset_of_host(&s->subset, c->x.t, c->layout);
    s->slice = ss_layout_slice(s->subset.t.rank, s->subset.t.size, s->slices);
    s->end = ss_layout_slice(s->subset.t.rank + 1, s->subset.t.size, s->slices);
    c->x.subset = &s->subset;
    if (reserve(c, s) != SS_OK || (!c->by_host && act_inside(c, s, start_split) != SS_OK))
        ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
    s->stage = c->by_host ? SPLIT_SENT : SPLIT;
}

/* Starts to extract the entries of elements [lo, hi) of the result, numbered from `first`. */
static void extract(struct ss_coll *c, struct state *s, uint64_t lo, uint64_t hi, uint64_t first)
{
    struct ss_exchange *x = &c->x;

    s->seen = (struct ss_scan){0};
    s->part.nnz = 0;
    s->begin = ss_span_begin(x, SS_SPAN_MERGE);
    if (x->failed == 0 && lo < hi)
        x->ticket = x->backend->ops->scan(x->backend, x->type, SS_SUM, ss_out_at(c, lo),
                                          (size_t)(hi - lo), (uint32_t)first, s->part.idx,
                                          s->part.val, s->part.capacity, &s->seen);
}

/* Returns true if the entries are in `part`. */
static bool is_extracted(struct ss_coll *c, struct state *s)
{
    if (!ss_settled(&c->x, SS_PHASE_REDUCE))
        return false;
    if (c->x.failed == 0)
        s->part.nnz = s->seen.stored;
    ss_span_end(&c->x, SS_SPAN_MERGE, s->begin);
    return true;
}

/* ---- the step ---- */

static uint64_t own_first(const struct ss_coll *c, const struct state *s)
{
    return slice_first(c, s, ss_layout_slice(s->subset.t.rank, s->subset.t.size, s->slices));
}

/* Starts on the next slice between hosts, or, behind the last one, on the way back. */
static void next_slice(struct ss_coll *c, struct state *s)
{
    c->x.arena_used = 0;
    if (s->slice < s->end && c->layout->hosts > 1) {
        const uint64_t lo = slice_first(c, s, s->slice);
        ss_subset_of_slice(&s->subset, c->x.t, c->layout, s->slice, s->slices);
        s->stage = REDUCED;
        if (c->by_host)
            return;
        extract(c, s, lo, slice_first(c, s, s->slice + 1), 0);
        return;
    }
    ss_subset_of_host(&s->subset, c->x.t, c->layout);
    c->rounding = (struct ss_rounding){.values = SS_VALUES_SAME};
    const uint64_t lo = own_first(c, s);
    s->stage = COLLECTED;
    if (!is_whole(c))
        extract(c, s, lo, slice_first(c, s, s->end), lo);
}

/* Hands the claims in the slice over to the algorithm between hosts, and clears the result. */
static void give_claims(struct ss_coll *c, struct state *s)
{
    const uint64_t lo = slice_first(c, s, s->slice), hi = slice_first(c, s, s->slice + 1);
    const struct ss_stream claims = ss_stream_slice(&c->own, c->x.esize, lo, hi);

    s->given = (struct ss_stream){.idx = s->part.idx, .val = claims.val, .hi = hi - lo};
    if (c->x.failed < 0)
        return;
    s->given.nnz = claims.nnz;
    for (size_t i = 0; i < claims.nnz; i++)
        s->given.idx[i] = claims.idx[i] - (uint32_t)lo;
    ss_fill_range(c, lo, hi);
}

/* Keeps the errors of a reduced part until the end of the call, since the next slice's take their
 * place. */
static void keep_errors(struct ss_coll *c, struct state *s)
{
    const uint64_t lo = slice_first(c, s, s->slice);
    struct ss_claims *b = &c->claims;
    unsigned char *error = c->x.work->slice_errors.data;

    s->claim += s->given.nnz;
    if (!b->error || c->x.failed < 0)
        return;
    if (b->errors > s->errors_room - s->errors) {
        ss_fail(&c->x, SS_ERR_MEMORY, s->subset.t.rank, SS_PHASE_REDUCE);
        return;
    }
    uint32_t *idx = (uint32_t *)(void *)(error + s->errors_room * c->x.esize);
    for (size_t i = 0; i < b->errors; i++)
        idx[s->errors + i] = (uint32_t)(lo + (b->idx ? b->idx[i] : b->first + i));
    memcpy(error + s->errors * c->x.esize, b->error, b->errors * c->x.esize);
    s->errors += b->errors;
    b->error = NULL;
}

/* Books all errors. */
static void book_errors(struct ss_coll *c, const struct state *s)
{
    const unsigned char *error = c->x.work->slice_errors.data;
    const void *idx = error + s->errors_room * c->x.esize;

    if (s->errors > 0)
        ss_claims_book(c, idx, 0, error, s->errors);
}

/* Hands the entries of the slice over to the algorithm between hosts, and clears the result. */
static void start_between(struct ss_coll *c, struct state *s)
{
    struct ss_backend *backend = c->x.backend;

    memset(s->between, 0, sizeof s->between);
    s->stage = BETWEEN;
    s->bounds = NULL;
    if (c->by_host) {
        give_claims(c, s);
        return;
    }

    if (s->seen.stored < s->seen.nnz) /* more than the vote announced */
        ss_fail(&c->x, SS_ERR_MESSAGE, s->subset.t.rank, SS_PHASE_REDUCE);
    if (c->x.failed == 0 && s->part.nnz > 0)
        backend->ops->clear_at(backend, c->x.type, ss_out_at(c, slice_first(c, s, s->slice)), 0,
                               s->part.idx, s->part.nnz);
    s->given = s->part;
}

/* Sends the own slices to the ranks of this host: quantized, or sparse, if that is shorter. */
static int start_gather(struct ss_coll *c, void *state)
{
    struct state *s = c->state;
    const uint64_t n = ss_coll_part(c, s->subset.t.rank + 1) - ss_coll_part(c, s->subset.t.rank);
    const bool dense =
        is_whole(c) || s->seen.nnz > ss_plan_delta(n, c->x.type) || s->seen.stored < s->seen.nnz;

    (void)state;
    c->result_nnz = dense ? s->seen.nnz : 0;
    c->dense_seen = false;
    memset(&s->inside, 0, sizeof s->inside);
    if (is_whole(c) && ss_levels_recode(c->whole.values))
        ss_gather_start_quantized(c, &s->inside.gather, s->breaks, c->x.work->slice_errors.data);
    else
        ss_gather_start(c, &s->inside.gather, dense ? NULL : &s->part);
    s->stage = GATHER;
    return SS_OK;
}

static int step_split(struct ss_coll *c, void *state)
{
    return ss_split_step(c, state);
}

static int step_gather(struct ss_coll *c, void *state)
{
    return ss_gather_step(c, state);
}

/* Makes one step of the stage. Returns SS_PENDING, or SS_OK if the next stage may follow at once.
 */
static int step_stage(struct ss_coll *c, struct state *s)
{
    switch (s->stage) {
    case BALANCE:
        if (divide(c, s) == SS_PENDING)
            return SS_PENDING;
        s->stage = START;
        return SS_OK;
    case START:
        start(c, s);
        return SS_OK;
    case SPLIT:
        if (act_inside(c, s, step_split) == SS_PENDING)
            return SS_PENDING;
        s->stage = SPLIT_SENT;
        return SS_OK;
    case SPLIT_SENT:
        if (ss_sends_reap(&c->x) == SS_PENDING)
            return SS_PENDING;
        next_slice(c, s);
        return SS_OK;
    case REDUCED:
        if (!c->by_host && !is_extracted(c, s))
            return SS_PENDING;
        start_between(c, s);
        return SS_OK;
    case BETWEEN:
        if (act_between(c, s) == SS_PENDING)
            return SS_PENDING;
        s->stage = BETWEEN_SENT;
        return SS_OK;
    case BETWEEN_SENT:
        if (ss_sends_reap(&c->x) == SS_PENDING)
            return SS_PENDING;
        if (c->by_host)
            keep_errors(c, s);
        s->slice++;
        next_slice(c, s);
        return SS_OK;
    case COLLECTED:
        return is_whole(c) || is_extracted(c, s) ? act_inside(c, s, start_gather) : SS_PENDING;
    default:
        if (act_inside(c, s, step_gather) == SS_PENDING || ss_sends_reap(&c->x) == SS_PENDING)
            return SS_PENDING;
        c->x.subset = NULL;
        book_errors(c, s);
        s->stage = OVER;
        return SS_OK;
    }
}

static int step(struct ss_coll *c)
{
    struct state *s = c->state;
    int status = SS_OK;

    while (status == SS_OK && s->stage != OVER)
        status = step_stage(c, s);
    return status;
}

const struct ss_algorithm_def ss_algorithm_two_level = {
    .deep = true,
    .cost = ss_two_level_cost,
    .memory = ss_two_level_memory,
    .state = sizeof(struct state),
    .step = step,
};
