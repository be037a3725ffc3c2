/* Joins a residual with dense calls, by its norm against that of the input (core/README.md,
 * Residuals in dense calls). */
#include <float.h>

#include "core/feedback/feedback.h"
#include "core/tensor/residual.h"

void ss_join_free(struct ss_tensor *t)
{
    if (t->state != SS_TENSOR_REGISTERED)
        ss_residual_drop(t);
}

double ss_join_ratio_square(const struct ss_feedback *f)
{
    const struct ss_tensor *t = f->tensor;

    if (!t || !ss_residual_there(t) || !(ss_residual_square(t) > 0))
        return 0;
    if (!(f->input_square > 0))
        return DBL_MAX;
    return ss_residual_square(t) / f->input_square;
}

/* ---- dense calls ---- */

static const double SIXTEENTH = 0.0625;

double ss_join_share(const struct ss_feedback *f)
{
    return ss_bits_double(f->vote.ballot.ratio_max) <= 1 ? 1 : SIXTEENTH;
}

void ss_join_start(struct ss_feedback *f)
{
    const struct ss_tensor *t = f->tensor;

    if (t && t->known && ss_residual_there(t) && ss_topk_move(&f->state, SS_ON_JOIN))
        ss_residual_join(t, f->c.in, f->c.out, ss_join_share(f));
}

void ss_join_end(struct ss_feedback *f)
{
    const double share = ss_join_share(f);

    ss_residual_leave(f->tensor, share);
    if (share == 1)
        ss_join_free(f->tensor);
}
