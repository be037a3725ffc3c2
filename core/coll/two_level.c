/* An allreduce on two levels (hierarchical collectives: Karonis et al., IPDPS 2000): inside each
 * host, between hosts, inside each host again.
 *
 * The index space is cut into slices. The ranks of a host split their streams among the owners of
 * the slices, who reduce them in rank order. The owners of a slice, one on each host, then run an
 * algorithm of one level on it. Last, each owner gives its slices to the ranks of its host. A rank
 * that owns several slices exchanges them one after the other, in ascending order, so that no two
 * ranks wait for each other.
 *
 * Cost on the wire between hosts: that of the algorithm of one level among H hosts for n / S
 * elements, where each input is the union of the inputs of a host.
 */
#include <string.h>

#include "core/coll/coll.h"
#include "core/coll/rows.h"
#include "core/plan/cost.h"

enum { START, SPLIT, SPLIT_SENT, REDUCED, BETWEEN, BETWEEN_SENT, COLLECTED, GATHER, OVER };

struct state {
    int stage;
    int slices;     /* of the index space */
    int slice, end; /* slice of this rank that is exchanged; behind its last one */
    struct ss_subset group;
    uint32_t *borders; /* first elements of the slices of each rank of this host; NULL: no memory */
    struct ss_stream part; /* reduced entries of this rank's slices */
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

/* Returns the number of slices of the index space. */
static int slices_of(const struct ss_layout *l, uint64_t n)
{
    return (int)at_most((uint64_t)l->most, n / l->slice_least > 0 ? n / l->slice_least : 1);
}

/* Returns the first element of a slice. Slices begin at multiples of 16 elements. */
static uint64_t slice_first(const struct ss_coll *c, const struct state *s, int slice)
{
    return ss_part_first(c->x.n, s->slices, slice);
}

/* ---- phases ---- */

/* Acts among the ranks of this host, whose parts of the index space are their slices. */
static int act_inside(struct ss_coll *c, struct state *s,
                      int (*act)(struct ss_coll *c, void *state))
{
    struct ss_transport *all = c->x.t;
    int status;

    c->x.t = &s->group.t;
    c->bounds = s->borders;
    status = act(c, &s->inside);
    c->bounds = NULL;
    c->x.t = all;
    return status;
}

/* Steps the algorithm between hosts: an allreduce of the slice among its owners, whose input lies
 * in `part` and whose result is cleared. */
static int act_between(struct ss_coll *c, struct state *s)
{
    struct ss_transport *all = c->x.t;
    const struct ss_stream own = c->own;
    const struct ss_voted voted = c->voted;
    const struct ss_fill fill = c->fill;
    const uint64_t n = c->x.n, lo = slice_first(c, s, s->slice);
    const uint64_t slice_n = slice_first(c, s, s->slice + 1) - lo;
    unsigned char *out = c->out;
    int status;

    c->x.t = &s->group.t;
    c->own = s->part;
    c->fill = (struct ss_fill){0};
    c->out = ss_out_at(c, lo);
    c->x.n = c->out_n = slice_n;
    c->voted =
        (struct ss_voted){.nnz_sum = at_most(voted.nnz_sum, slice_n * (uint64_t)s->group.t.size),
                          .nnz_max = at_most(voted.nnz_sum, slice_n)};
    c->state = s->between;
    status = ss_rows(SS_KIND_ALLREDUCE)[voted.between]->step(c);
    c->state = s;
    c->voted = voted;
    c->x.n = c->out_n = n;
    c->out = out;
    c->fill = fill;
    c->own = own;
    c->x.t = all;
    return status;
}

/* ---- the steps between phases ---- */

/* Makes room for this rank's slices and for the borders of all, which it computes. */
static int reserve(struct ss_coll *c, struct state *s)
{
    struct ss_buf *borders = &c->x.work->borders;
    const int count = s->group.t.size;

    if (ss_buf_reserve_voted(borders, c->x.mem, ((size_t)count + 1) * sizeof *s->borders) != SS_OK)
        return SS_ERR_MEMORY;
    s->borders = borders->data;
    for (int i = 0; i <= count; i++)
        s->borders[i] = (uint32_t)slice_first(c, s, ss_layout_slice(i, count, s->slices));
    const uint64_t own = slice_first(c, s, s->end) - slice_first(c, s, s->slice);
    /* the messages of one phase at a time; the algorithm between hosts makes its own room */
    if (ss_buf_reserve_voted(&c->x.work->arena, c->x.mem, ss_arena_bound(c->x.type, own)) != SS_OK)
        return SS_ERR_MEMORY;
    return ss_stream_reserve(&c->x, &s->part, SS_STREAM_BETWEEN, at_most(c->voted.nnz_sum, own));
}

static int start_split(struct ss_coll *c, void *state)
{
    (void)state;
    return ss_split_reserve_slices(c);
}

static void start(struct ss_coll *c, struct state *s)
{
    s->slices = slices_of(c->layout, c->x.n);
    ss_subset_of_host(&s->group, c->x.t, c->layout);
    s->slice = ss_layout_slice(s->group.t.rank, s->group.t.size, s->slices);
    s->end = ss_layout_slice(s->group.t.rank + 1, s->group.t.size, s->slices);
    c->x.group = &s->group;
    if (reserve(c, s) != SS_OK || act_inside(c, s, start_split) != SS_OK)
        ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
    s->stage = SPLIT;
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
    return slice_first(c, s, ss_layout_slice(s->group.t.rank, s->group.t.size, s->slices));
}

/* Starts on the next slice between hosts, or, behind the last one, on the way back. */
static void next_slice(struct ss_coll *c, struct state *s)
{
    c->x.arena_used = 0;
    if (s->slice < s->end && c->layout->hosts > 1) {
        const uint64_t lo = slice_first(c, s, s->slice);
        ss_subset_of_slice(&s->group, c->x.t, c->layout, s->slice, s->slices);
        extract(c, s, lo, slice_first(c, s, s->slice + 1), 0);
        s->stage = REDUCED;
        return;
    }
    ss_subset_of_host(&s->group, c->x.t, c->layout);
    const uint64_t lo = own_first(c, s);
    extract(c, s, lo, slice_first(c, s, s->end), lo);
    s->stage = COLLECTED;
}

/* Hands the entries of the slice over to the algorithm between hosts, and clears the result. */
static void start_between(struct ss_coll *c, struct state *s)
{
    struct ss_backend *backend = c->x.backend;

    if (s->seen.stored < s->seen.nnz) /* more than the vote announced */
        ss_fail(&c->x, SS_ERR_MESSAGE, s->group.t.rank, SS_PHASE_REDUCE);
    if (c->x.failed == 0 && s->part.nnz > 0)
        backend->ops->clear_at(backend, c->x.type, ss_out_at(c, slice_first(c, s, s->slice)), 0,
                               s->part.idx, s->part.nnz);
    memset(s->between, 0, sizeof s->between);
    s->stage = BETWEEN;
}

/* Sends the own slices to the ranks of this host: sparse, if that is shorter. */
static int start_gather(struct ss_coll *c, void *state)
{
    struct state *s = c->state;
    const uint64_t n = ss_coll_part(c, s->group.t.rank + 1) - ss_coll_part(c, s->group.t.rank);
    const bool dense = s->seen.nnz > ss_plan_delta(n, c->x.type) || s->seen.stored < s->seen.nnz;

    (void)state;
    c->result_nnz = dense ? s->seen.nnz : 0;
    c->dense_seen = false;
    memset(&s->inside, 0, sizeof s->inside);
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
        if (!is_extracted(c, s))
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
        s->slice++;
        next_slice(c, s);
        return SS_OK;
    case COLLECTED:
        return is_extracted(c, s) ? act_inside(c, s, start_gather) : SS_PENDING;
    default:
        if (act_inside(c, s, step_gather) == SS_PENDING || ss_sends_reap(&c->x) == SS_PENDING)
            return SS_PENDING;
        c->x.group = NULL;
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

/* ---- the row ---- */

/* Returns the shape of the allreduce of a slice among its owners. */
static struct ss_shape between_hosts(const struct ss_shape *s, const struct ss_history *h,
                                     struct ss_history *past)
{
    const struct ss_layout *l = s->layout;
    const int slices = slices_of(l, s->n);
    const double skew = ss_cost_skew(s), mean = (double)s->nnz_sum / s->size;
    const double each = ss_plan_union(s, h, l->most) / slices;
    struct ss_shape b = *s;

    b.size = l->hosts;
    b.n = s->n / (uint64_t)slices;
    b.beta = s->beta_between * slices / l->most; /* so many ranks of a host send */
    b.nnz_sum = (uint64_t)(each * l->hosts);
    b.nnz_max = (uint64_t)ss_min(each * (mean > 0 ? (double)s->nnz_max / mean : 1), (double)b.n);
    b.part_max = (uint64_t)((double)b.nnz_max / b.size * skew);
    *past = (struct ss_history){0};
    if (h->result_sum > 0 && s->nnz_sum > 0) {
        past->result_nnz = h->result_nnz / (uint64_t)slices;
        past->result_sum =
            (uint64_t)((double)h->result_sum * (double)b.nnz_sum / (double)s->nnz_sum);
    }
    return b;
}

/* Returns true if the algorithm can run between hosts: exact ones of one level. */
static bool is_candidate(const struct ss_row *row, const struct ss_shape *b, int a)
{
    return row && !row->global && !row->deep && (b->between == SS_AUTO || (int)b->between == a);
}

/* Returns the estimate of the fastest candidate, nothing if there is one host. Sets *which. */
static struct ss_estimate cheapest(const struct ss_shape *b, const struct ss_history *past,
                                   enum ss_algorithm *which)
{
    const struct ss_row *const *rows = ss_rows(SS_KIND_ALLREDUCE);
    struct ss_estimate best = {0};
    double least = 0;

    if (b->size == 1)
        return best;
    for (int a = SS_AUTO + 1; a < SS_DENSE; a++) {
        if (!is_candidate(rows[a], b, a))
            continue;
        struct ss_estimate e = rows[a]->cost(b, past);
        double seconds = ss_max(e.wire, e.overlap) + e.serial;
        if (least > 0 && seconds >= least)
            continue;
        least = seconds;
        best = e;
        *which = (enum ss_algorithm)a;
    }
    return best;
}

enum ss_algorithm ss_two_level_between(const struct ss_shape *s, const struct ss_history *h)
{
    enum ss_algorithm which = SS_SPLIT_ALLGATHER;
    struct ss_history past;

    if (s->layout) {
        const struct ss_shape b = between_hosts(s, h, &past);
        cheapest(&b, &past, &which);
    }
    return which;
}

static struct ss_estimate cost_two_level(const struct ss_shape *s, const struct ss_history *h)
{
    const struct ss_layout *l = s->layout;
    struct ss_history past;
    const struct ss_shape b = between_hosts(s, h, &past);
    const double whole = ss_plan_union(s, h, s->size), slices = (double)slices_of(l, s->n);
    const double bytes = (l->most - 1) * ss_cost_stream_bytes(s, whole / slices, (double)b.n);
    enum ss_algorithm which;
    struct ss_estimate e = cheapest(&b, &past, &which), in;
    struct ss_shape inside = *s;

    inside.size = l->most;
    inside.alpha = s->alpha_inside;
    inside.beta = s->beta_inside;
    in = ss_cost_split(&inside);
    e.wire += in.wire + ss_cost_fan(&inside, l->most - 1) + inside.beta * bytes;
    e.overlap += ss_cost_take(s, whole, l->most);
    e.serial += in.serial + ss_cost_harvest(s, (double)b.nnz_max, (double)b.n) +
                ss_cost_harvest(s, whole / slices, (double)b.n);
    e.bytes += in.bytes + bytes;
    return e;
}

/* Counts the announced entries, since the rank makes room for them. */
static double memory(const struct ss_shape *s)
{
    const struct ss_row *const *rows = ss_rows(SS_KIND_ALLREDUCE);
    const struct ss_layout *l = s->layout;
    struct ss_shape b = *s;
    double most = 0;

    b.size = l->hosts;
    b.n = s->n / (uint64_t)slices_of(l, s->n) + 16;
    b.nnz_max = at_most(s->nnz_sum, b.n);
    b.nnz_sum = at_most(s->nnz_sum, b.n * (uint64_t)l->hosts);
    for (int a = SS_AUTO + 1; a < SS_DENSE; a++)
        if (is_candidate(rows[a], &b, a))
            most = ss_max(most, rows[a]->memory(&b));
    /* a rank of a small host owns several slices */
    double own = ss_min((double)s->nnz_sum, (double)s->n);
    return ss_memory_own(s) + ss_memory_sent(s) + most +
           2.1 * own * (4 + (double)ss_type_size(s->type));
}

const struct ss_row ss_row_two_level = {
    .source = "Karonis et al. 2000",
    .deep = true,
    .cost = cost_two_level,
    .memory = memory,
    .state = sizeof(struct state),
    .step = step,
};
