/* Facts for the vote besides the entries: the state of the tensor, and the norms of input and
 * residual if the residual is to join the input. */
#include <float.h>

#include "core/feedback/feedback.h"
#include "core/tensor/residual.h"

/* Returns true if a residual, of this rank or another, may join the input. */
static bool may_join(const struct ss_feedback *f)
{
    const struct ss_tensor *t = f->tensor;

    if (f->state == SS_TOPK_CANNOT || !t->known)
        return false;
    if (t->state == SS_TENSOR_REGISTERED)
        return f->state == SS_TOPK_RESTS && t->rest != SS_RESTS_EMPTY;
    return ss_residual_there(t) || (t->registered_calls > 0 && f->lane->has_residual);
}

static void start_join(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_looked *l = &f->looked;

    l->checks = may_join(f);
    l->joins = l->checks && ss_residual_there(f->tensor);
    l->not_finite = 0;
    l->measured = l->joins && (f->state != SS_TOPK_RESTS || !(ss_residual_square(f->tensor) > 0));
    if (l->measured)
        x->ticket = ss_residual_measure(f->tensor, &l->residual_square);
    if (l->checks)
        x->ticket =
            x->backend->ops->square(x->backend, x->type, f->c.in, (size_t)x->n, &l->input_square);
}

void ss_look_start(struct ss_feedback *f)
{
    if (!f->tensor)
        return;
    f->looked.ballot = ss_tensor_ballot(f->tensor);
    start_join(f);
}

void ss_look_forget(struct ss_feedback *f)
{
    f->looked.checks = f->looked.joins = false;
    f->looked.not_finite = 0;
}

bool ss_look_is_finite(const struct ss_feedback *f, double input)
{
    double most = f->c.x.type == SS_F32 ? (double)FLT_MAX : DBL_MAX;
    double kept = ss_residual_square(f->tensor);

    if (!(input < DBL_MAX && kept < DBL_MAX)) /* NaN, too */
        return false;
    return ss_root(input) + ss_root(kept) < most / 2;
}

/* Counts elements of the input, with the residual where this rank holds it. A residual per host
 * lies on the host backend, which answers at once. */
static void count_not_finite(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    const struct ss_residual_range *range = &f->tensor->range;
    const uint64_t end = range->first + range->n;
    size_t before = 0, behind = 0;

    if (range->by_host) {
        x->backend->ops->not_finite(x->backend, x->type, f->c.in, NULL, (size_t)range->first,
                                    &before);
        x->backend->ops->not_finite(x->backend, x->type,
                                    ss_at_const(f->c.in, (size_t)end, x->esize), NULL,
                                    (size_t)(x->n - end), &behind);
    }
    x->ticket = x->backend->ops->not_finite(
        x->backend, x->type, ss_at_const(f->c.in, (size_t)range->first, x->esize),
        ss_residual_values(f->tensor), (size_t)range->n, &f->looked.not_finite);
    if (range->by_host)
        f->looked.not_finite += before + behind;
}

void ss_look_on(struct ss_feedback *f)
{
    struct ss_looked *l = &f->looked;

    if (!f->tensor)
        return;
    if (l->measured)
        ss_residual_measured(f->tensor, l->residual_square);
    if (l->joins && ss_residual_square(f->tensor) == 0) {
        ss_join_free(f->tensor);
        l->joins = false;
    }
    if (!l->checks)
        return;
    f->input_square = l->input_square;
    if (!ss_look_is_finite(f, l->input_square))
        count_not_finite(f);
}
