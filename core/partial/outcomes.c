/* Keeps results that came before their call, in the order of their rounds. */
#include <string.h>

#include "core/partial/rounds_impl.h"

bool ss_outcomes_room(const struct ss_rounds *r, const struct ss_member *m)
{
    return !r->landed && m->queued < r->s.staleness;
}

/* Sets the landing to zeros again. */
static void clean(struct ss_rounds *r, const struct ss_member *m, const struct ss_outcome *o)
{
    const struct ss_tensor *t = m->tensor;

    if (o->landed)
        ss_host.ops->clear(&ss_host, t->type, r->landing.data, (size_t)t->n);
    else
        ss_host.ops->clear_at(&ss_host, t->type, r->landing.data, 0, o->idx.data, o->nnz);
}

/* Keeps the result as a stream. If there is no room for it, the result stays in the landing, and
 * the next round waits. */
void ss_outcomes_keep(struct ss_rounds *r)
{
    struct ss_member *m = r->member;
    struct ss_outcome *o = &m->queue[(m->first + m->queued) % r->s.staleness];
    const struct ss_tensor *t = m->tensor;
    size_t n = (size_t)t->n, esize = ss_type_size(t->type);
    struct ss_scan seen;

    *o = (struct ss_outcome){.begun = r->begun};
    r->c.kernels->scan(t->type, SS_SUM, r->landing.data, n, 0, NULL, NULL, 0, &seen);
    o->nnz = seen.nnz;
    if (ss_buf_reserve(&o->idx, r->mem, seen.nnz * sizeof(uint32_t)) == SS_OK &&
        ss_buf_reserve(&o->val, r->mem, seen.nnz * esize) == SS_OK) {
        r->c.kernels->scan(t->type, SS_SUM, r->landing.data, n, 0, o->idx.data, o->val.data,
                           seen.nnz, &seen);
        clean(r, m, o);
    } else {
        ss_buf_free(&o->idx);
        o->landed = r->landed = true;
    }
    m->queued++;
    if (m->queued > r->stats.queued_most)
        r->stats.queued_most = m->queued;
}

void ss_outcomes_deliver(struct ss_rounds *r)
{
    struct ss_member *m = r->caller;
    struct ss_outcome *o = &m->queue[m->first];
    const struct ss_tensor *t = m->tensor;
    void *out = r->call.out;

    if (m->queued == 0) { /* the round belonged to another tensor */
        ss_rounds_fail(r, SS_ERR_DIFFERENT);
        return;
    }
    if (o->landed) {
        ss_host.ops->copy(&ss_host, t->type, out, r->landing.data, (size_t)t->n);
        clean(r, m, o);
        r->landed = false;
    } else {
        ss_host.ops->clear(&ss_host, t->type, out, (size_t)t->n);
        ss_host.ops->scatter(&ss_host, t->type, out, 0, o->idx.data, o->val.data, o->nnz);
    }
    ss_buf_free(&o->idx);
    ss_buf_free(&o->val);
    m->first = (m->first + 1) % r->s.staleness;
    m->queued--;
}

void ss_outcomes_free(struct ss_rounds *r, struct ss_member *m)
{
    for (uint64_t i = 0; i < r->s.staleness; i++) {
        ss_buf_free(&m->queue[i].idx);
        ss_buf_free(&m->queue[i].val);
    }
    m->queued = 0;
}
