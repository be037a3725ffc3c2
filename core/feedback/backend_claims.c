/* Claims in the backend of the buffers: reserves room for them, surveys them for the
 * vote, and copies them to the host unless the algorithm takes them from their backend. */
#include <math.h>
#include <string.h>

#include "core/feedback/feedback.h"

void ss_topk_to_backend(struct ss_feedback *f, size_t room)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    struct ss_stream_buffers *buffers = &x->work->in_backend[0];
    struct ss_buf *survey = &x->work->survey;
    const size_t count = (size_t)x->t->size,
                 bytes = count * sizeof(struct ss_share) + (count + 1) * sizeof(uint32_t);

    f->host_own = c->own;
    c->own_parts = NULL;
    if (!f->in_backend || ss_buf_reserve(survey, x->mem, bytes) != SS_OK ||
        !ss_stream_buffers_reserve(buffers, x->backend, room, x->esize,
                                   ss_topk_values(f) != SS_VALUES_SAME))
        return;
    memset(survey->data, 0, bytes);
    c->own_parts = survey->data;
    c->own = (struct ss_stream){.idx = buffers->idx.data,
                                .val = buffers->val.data,
                                .capacity = room,
                                .in_backend = true,
                                .hi = x->n};
}

void ss_topk_survey(struct ss_feedback *f)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    const size_t size = (size_t)x->t->size;
    struct ss_share *shares = x->work->survey.data;
    uint32_t *cuts = (uint32_t *)(void *)(shares + size);

    for (size_t p = 0; p <= size; p++)
        cuts[p] = (uint32_t)ss_coll_part(c, (int)p);
    x->ticket = x->backend->ops->survey(x->backend, x->type, c->own.idx, c->own.val, c->own.nnz,
                                        cuts, size, shares);
}

void ss_topk_surveyed(struct ss_feedback *f)
{
    const struct ss_coll *c = &f->c;
    double square = 0;

    for (int p = 0; p < c->x.t->size; p++)
        square += c->own_parts[p].unbounded > 0 ? (double)INFINITY : c->own_parts[p].square;
    f->sum_square = f->seen.sum_square - square;
}

bool ss_topk_fetch(struct ss_feedback *f, bool in_backend)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    const struct ss_stream there = c->own;

    /* The backend's kernels round values to these types alone. */
    const enum ss_values values = ss_topk_values(f);
    in_backend = in_backend && !ss_topk_random(f) &&
                 (values == SS_VALUES_SAME || values == SS_VALUES_BF16 || values == SS_VALUES_Q8);
    if (!there.in_backend || in_backend)
        return false;
    c->own = f->host_own;
    c->own.nnz = there.nnz;
    x->backend->ops->read(x->backend, SS_I32, there.idx, there.nnz, c->own.idx);
    x->ticket = x->backend->ops->read(x->backend, x->type, there.val, there.nnz, c->own.val);
    return true;
}
