/* Elements that a rule keeps (:keep=first:n or last:n), such as a metric appended to a gradient:
 * they are left out of the selection, travel dense and unrounded from every rank to every other
 * once the recipe is through, and are added in rank order. */
#include <string.h>

#include "core/call/call_impl.h"

void ss_keep_range(struct ss_call *c)
{
    const struct ss_rule *rule = c->tensor->rule;

    c->keep.first = 0;
    c->keep.count = 0;
    c->select_first = 0;
    c->select_n = c->n;
    if (!rule || rule->keep == SS_KEEP_NONE)
        return;
    c->keep.count = rule->keep_count;
    c->select_n = c->n - rule->keep_count;
    if (rule->keep == SS_KEEP_LAST)
        c->keep.first = c->select_n;
    else
        c->select_first = rule->keep_count;
}

uint64_t ss_keep_code(const struct ss_call *c)
{
    if (!c->tensor || c->tensor->state != SS_TENSOR_REGISTERED)
        return 0;
    if (!c->topk) /* a rule that keeps all */
        return UINT64_MAX;
    return c->keep.count * 2 + (c->keep.first == 0 && c->keep.count > 0);
}

int ss_keep_take(struct ss_call *c)
{
    struct ss_buf *buf = &c->work->keep;
    size_t bytes = (size_t)c->keep.count * c->esize;

    if (c->keep.count == 0)
        return SS_OK;
    if (ss_buf_reserve(buf, c->comm->mem, bytes) != SS_OK)
        return SS_ERR_MEMORY;
    memcpy(buf->data, ss_at_const(c->in, (size_t)c->keep.first, c->esize), bytes);
    return SS_OK;
}

static void add(struct ss_call *c, struct ss_in *in, int src, const struct ss_chunk *chunk,
                const void *msg, size_t len)
{
    uint64_t end = c->keep.first + c->keep.count;

    (void)in, (void)msg, (void)len;
    if (chunk->rep != SS_REP_DENSE || chunk->first < c->keep.first ||
        chunk->first + (uint64_t)chunk->nnz > end) {
        ss_fail(c, SS_ERR_MESSAGE, src, SS_PHASE_KEEP);
        return;
    }
    c->kernels->reduce(c->type, c->op, ss_at(c->out, chunk->first, c->esize), chunk->val,
                       chunk->nnz);
}

static void add_own(struct ss_call *c)
{
    c->kernels->reduce(c->type, c->op, ss_at(c->out, (size_t)c->keep.first, c->esize),
                       c->work->keep.data, (size_t)c->keep.count);
}

void ss_keep_start(struct ss_call *c)
{
    struct ss_keeping *k = &c->keep;
    int rank = c->t->rank, size = c->t->size;

    if (ss_buf_reserve_voted(&c->work->arena, c->comm->mem,
                             ss_flow_arena_bound(c->type, k->count)) != SS_OK)
        ss_fail(c, SS_ERR_MEMORY, rank, SS_PHASE_KEEP);
    c->arena_used = 0;
    if (c->failed == 0) /* the recipe may have left signed zeros */
        memset(ss_at(c->out, (size_t)k->first, c->esize), 0, (size_t)k->count * c->esize);
    ss_in_start_ordered(c, &k->in, SS_PHASE_KEEP, add, add_own);
    ss_out_elements(&k->out, c->work->keep.data, k->first, k->count, SS_PHASE_KEEP, 0,
                    (rank + 1) % size, size - 1);
}

int ss_keep_step(struct ss_call *c)
{
    int sent = ss_out_step(c, &c->keep.out);
    int received = ss_in_step(c, &c->keep.in);

    return sent == SS_PENDING || received == SS_PENDING ? SS_PENDING : SS_OK;
}
