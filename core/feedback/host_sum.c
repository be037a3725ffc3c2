/* Top-k with one residual per host. After a vote that the call is lossy, the ranks of a host sum
 * their inputs densely, each rank the slices that it owns (core/net/host_layout.h), in rank order.
 * The owner then claims from that sum plus its part of the host's residual, and two_level sums the
 * claims between hosts. Each host thus sends as many entries as a rank that is alone on its host.
 * The inputs go in messages, unless the ranks read them in each other's memory
 * (core/feedback/read_host_sum.c).
 *
 * The sum may be infinite where no input is: the vote on the claims tells all ranks. */
#include "core/feedback/feedback.h"

bool ss_host_sum_possible(const struct ss_comm *comm)
{
    const struct ss_settings *s = comm->settings;

    return ss_layout_is_deep(comm->layout) && s->aggregation != SS_AGGREGATION_OFF &&
           s->quorum == SS_QUORUM_ALL && s->merge == 0;
}

/* Returns the first element of the slices of the rank of this host with this number; the number of
 * ranks gives the end. */
static uint64_t first_of(const struct ss_feedback *f, int local)
{
    const struct ss_layout *l = f->comm->layout;
    const int slices = ss_layout_slices(l, f->c.x.n),
              count = ss_layout_count(l, l->host[f->comm->t->rank]);

    return ss_part_first(f->c.x.n, slices, ss_layout_slice(local, count, slices));
}

void ss_host_sum_range(const struct ss_feedback *f, struct ss_tensor_call *call)
{
    const struct ss_layout *l = f->comm->layout;

    call->has_slices = ss_host_sum_possible(f->comm) && f->c.x.backend == &ss_host;
    if (!call->has_slices)
        return;
    const int local = l->local[f->comm->t->rank];
    const uint64_t first = first_of(f, local);
    call->slices =
        (struct ss_residual_range){.by_host = f->comm->settings->aggregation == SS_AGGREGATION_ON,
                                   .first = first,
                                   .n = first_of(f, local + 1) - first};
}

bool ss_host_sum_due(const struct ss_feedback *f)
{
    return ss_topk_claims(f) && f->tensor->range.by_host && !f->host.done;
}

int ss_host_sum_reserve(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    const struct ss_residual_range *range = &f->tensor->range;
    const size_t chunks = (size_t)(x->n / SS_CHUNK_ENTRIES) + (size_t)x->t->size;
    const size_t messages = (size_t)x->n * x->esize + chunks * (SS_WIRE_HEADER + 64);

    ss_host_sum_show(f);
    if (ss_buf_reserve(&x->work->host_sum, x->mem, (size_t)range->n * x->esize + 1) != SS_OK)
        return SS_ERR_MEMORY;
    return ss_buf_reserve(&x->work->arena, x->mem, messages);
}

static void add_own(struct ss_exchange *x)
{
    const struct ss_feedback *f = ss_feedback_of(x);
    const struct ss_residual_range *range = &f->tensor->range;

    x->backend->ops->reduce(x->backend, x->type, f->c.op, x->work->host_sum.data,
                            ss_at_const(f->c.in, (size_t)range->first, x->esize), (size_t)range->n);
}

static void add(struct ss_exchange *x, struct ss_in *in, int src, const struct ss_chunk *chunk,
                const void *msg, size_t len)
{
    const struct ss_feedback *f = ss_feedback_of(x);
    const struct ss_residual_range *range = &f->tensor->range;

    (void)in, (void)msg, (void)len;
    if (chunk->rep != SS_REP_DENSE || chunk->first < range->first ||
        chunk->first + (uint64_t)chunk->nnz > range->first + range->n) {
        ss_fail(x, SS_ERR_MESSAGE, src, SS_PHASE_REDUCE);
        return;
    }
    x->backend->ops->reduce(
        x->backend, x->type, f->c.op,
        ss_at(x->work->host_sum.data, (size_t)(chunk->first - range->first), x->esize), chunk->val,
        chunk->nnz);
}

/* Starts sending the next rank of the host its slices. */
static void start_next(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_host_sum *h = &f->host;
    const int dst = (h->subset.t.rank + ++h->sent) % h->subset.t.size;
    const uint64_t first = first_of(f, dst), end = first_of(f, dst + 1);
    void *in = (void *)(uintptr_t)ss_at_const(f->c.in, (size_t)first, x->esize);

    ss_out_elements(&h->out, in, false, first, end - first, SS_PHASE_REDUCE, 0, dst, 1);
}

void ss_host_sum_start(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_host_sum *h = &f->host;

    *h = (struct ss_host_sum){.out = {.done = true}};
    ss_subset_of_host(&h->subset, x->t, f->comm->layout);
    x->subset = &h->subset;
    x->arena_used = 0;
    x->backend->ops->clear(x->backend, x->type, x->work->host_sum.data, (size_t)f->tensor->range.n);
    if (ss_host_sum_reads(f))
        return;
    x->t = &h->subset.t;
    ss_in_start_ordered(x, &h->in, SS_PHASE_REDUCE, add, add_own);
    x->t = h->subset.all;
}

static int exchange(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_host_sum *h = &f->host;
    const int others = h->subset.t.size - 1;

    while (h->sent < others || !h->out.done) {
        if (h->out.done)
            start_next(f);
        if (ss_out_step(x, &h->out) == SS_PENDING)
            break;
    }
    const int received = ss_in_step(x, &h->in);
    return h->sent < others || !h->out.done || received == SS_PENDING ? SS_PENDING : SS_OK;
}

int ss_host_sum_step(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_host_sum *h = &f->host;

    x->t = &h->subset.t;
    int status = ss_host_sum_reads(f) ? ss_host_sum_read(f) : exchange(f);
    x->t = h->subset.all;
    if (status == SS_PENDING || ss_sends_reap(x) == SS_PENDING)
        return SS_PENDING;
    x->subset = NULL;
    h->done = true;
    f->select_in = x->work->host_sum.data;
    return SS_OK;
}

/* ---- what the others ask ---- */

double ss_topk_elements(const struct ss_feedback *f)
{
    const double n = (double)f->c.x.n;

    if (!f->tensor || !f->tensor->range.by_host)
        return n;
    const int slices = ss_layout_slices(f->comm->layout, f->c.x.n);
    return n * ss_layout_most_slices(f->comm->layout, slices) / slices;
}

int ss_topk_owners(const struct ss_feedback *f)
{
    return f->tensor->range.by_host ? f->comm->layout->hosts : f->c.x.t->size;
}
