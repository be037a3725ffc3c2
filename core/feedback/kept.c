/* Elements that a rule keeps (:keep=first:n or last:n), such as a metric appended to a gradient.
 * The selection leaves them out. When the algorithm has finished, every rank sends them dense and
 * unrounded to every other rank, and all ranks add them in rank order. */
#include "core/feedback/feedback.h"

void ss_keep_range(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    const struct ss_rule *rule = f->tensor->rule;

    f->keep.first = 0;
    f->keep.count = 0;
    f->select_first = f->tensor->range.first;
    f->select_n = f->tensor->range.n;
    f->select_in = f->c.in;
    if (f->tensor->range.by_host || !rule || rule->keep == SS_KEEP_NONE)
        return;
    f->keep.count = rule->keep_count;
    f->select_n = x->n - rule->keep_count;
    if (rule->keep == SS_KEEP_LAST)
        f->keep.first = f->select_n;
    else
        f->select_first = rule->keep_count;
    f->select_in = ss_at_const(f->c.in, (size_t)f->select_first, x->esize);
}

uint64_t ss_keep_code(const struct ss_feedback *f)
{
    if (!f->tensor || f->tensor->state != SS_TENSOR_REGISTERED)
        return 0;
    if (f->whole)
        return UINT64_MAX - 2 - f->tensor->range.by_host;
    if (f->tensor->range.by_host) /* also while it rests: the plan is another */
        return UINT64_MAX - 1;
    if (!ss_topk_claims(f)) /* a rule that keeps all */
        return UINT64_MAX;
    return f->keep.count * 2 + (f->keep.first == 0 && f->keep.count > 0);
}

int ss_keep_take(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_buf *buf = &x->work->keep;
    size_t bytes = (size_t)f->keep.count * x->esize;

    if (f->keep.count == 0)
        return SS_OK;
    if (ss_buf_reserve(buf, f->comm->mem, bytes) != SS_OK)
        return SS_ERR_MEMORY;
    x->ticket = x->backend->ops->read(x->backend, x->type,
                                      ss_at_const(f->c.in, (size_t)f->keep.first, x->esize),
                                      (size_t)f->keep.count, buf->data);
    return SS_OK;
}

static void add(struct ss_exchange *x, struct ss_in *in, int src, const struct ss_chunk *chunk,
                const void *msg, size_t len)
{
    const struct ss_feedback *f = ss_feedback_of(x);
    const struct ss_coll *c = &f->c;
    uint64_t end = f->keep.first + f->keep.count;

    (void)in, (void)msg, (void)len;
    if (chunk->rep != SS_REP_DENSE || chunk->first < f->keep.first ||
        chunk->first + (uint64_t)chunk->nnz > end) {
        ss_fail(x, SS_ERR_MESSAGE, src, SS_PHASE_KEEP);
        return;
    }
    x->backend->ops->reduce(x->backend, x->type, c->op, ss_at(c->out, chunk->first, x->esize),
                            chunk->val, chunk->nnz);
}

static void add_own(struct ss_exchange *x)
{
    const struct ss_feedback *f = ss_feedback_of(x);
    const struct ss_coll *c = &f->c;

    x->backend->ops->reduce(x->backend, x->type, c->op,
                            ss_at(c->out, (size_t)f->keep.first, x->esize), x->work->keep.data,
                            (size_t)f->keep.count);
}

void ss_keep_start(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_keeping *k = &f->keep;
    int rank = x->t->rank, size = x->t->size;

    k->done = true;
    if (ss_buf_reserve_voted(&x->work->arena, f->comm->mem, ss_arena_bound(x->type, k->count)) !=
        SS_OK)
        ss_fail(x, SS_ERR_MEMORY, rank, SS_PHASE_KEEP);
    x->arena_used = 0;
    if (x->failed == 0) /* the algorithm may have left signed zeros */
        x->backend->ops->clear(x->backend, x->type, ss_at(f->c.out, (size_t)k->first, x->esize),
                               (size_t)k->count);
    ss_in_start_ordered(x, &k->in, SS_PHASE_KEEP, add, add_own);
    ss_out_elements(&k->out, x->work->keep.data, false, k->first, k->count, SS_PHASE_KEEP, 0,
                    (rank + 1) % size, size - 1);
}

int ss_keep_step(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    int sent = ss_out_step(x, &f->keep.out);
    int received = ss_in_step(x, &f->keep.in);

    return sent == SS_PENDING || received == SS_PENDING ? SS_PENDING : SS_OK;
}
