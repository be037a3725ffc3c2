/* One threshold for several tensors: before and after the selection from all of them. */
#include "core/feedback/feedback.h"
#include "core/tensor/residual.h"

bool ss_topk_shares(const struct ss_feedback *f)
{
    uint64_t bucket;

    return f->topk && f->keep.count == 0 && f->c.x.place == &ss_host && f->c.x.n > 0 &&
           ss_topk_density(f, &bucket) > 0 && bucket == 0;
}

int ss_topk_share(struct ss_feedback *f, size_t most, struct ss_select_part *part)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    size_t n = (size_t)x->n, room = most < n ? most : n;

    if (ss_stream_reserve_own(x, &c->own, room, 0) != SS_OK || ss_guard_reserve(f) != SS_OK)
        return SS_ERR_MEMORY;
    *part = (struct ss_select_part){.g = c->in,
                                    .r = ss_residual_at(f->tensor, 0),
                                    .n = n,
                                    .idx = c->own.idx,
                                    .val = c->own.val,
                                    .capacity = room};
    return SS_OK;
}

void ss_topk_shared(struct ss_feedback *f, const struct ss_select_part *part,
                    struct ss_threshold *t, bool few)
{
    uint64_t bucket;

    f->k = ss_topk_wanted(f, &bucket);
    f->threshold_before = f->tensor->threshold;
    f->shared = t;
    f->seen = part->seen;
    f->few = few;
}
