/* What the vote is to hear of an input beside its entries: what the tensor is, how large the input
 * is while its step is not known, what it looks like, and what a residual that is to join it adds
 * to it. */
#include <float.h>
#include <math.h>

#include "core/feedback/feedback.h"
#include "core/stream/sample.h"
#include "core/tensor/residual.h"

/* Of the level: of what is like noise the norm is right within two percent, a quarter of the unit
 * of levels. */
enum { SAMPLE = 8192, RUNS = SAMPLE / SS_SAMPLE_RUN };

/* Squared norm and parts of the input for the level of a call whose step is not known yet, infinite
 * where something is not finite: of what was extracted, where that is little, else of a sample. */
static void start_level(struct ss_feedback *f)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    struct ss_sample *s = &x->work->levels;
    const struct ss_tensor *t = f->tensor;

    f->looked.level = false;
    if (f->topk || t->history.place.settled || t->state == SS_TENSOR_EXACT)
        return;
    if (c->scan.not_finite) {
        f->input_square = INFINITY;
    } else if (!f->resting && c->own.nnz == c->scan.nnz && c->own.nnz <= x->n / 8) {
        f->input_square = ss_steps_parts_sparse(x->type, c->own.idx, c->own.val, c->own.nnz,
                                                (size_t)x->n, f->parts);
    } else if (ss_sample_reserve(x, s, RUNS, SAMPLE) == SS_OK) {
        f->looked.level = true;
        ss_sample_take(x, s, c->in, ss_steps_runs((size_t)x->n, SAMPLE, ss_sample_places(s)));
    }
}

static void start_evidence(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_sample *s = &x->work->sample;

    f->looked.evidence =
        (ss_tensor_watching(f->tensor) || f->guarded) && (!f->found.overlaps || f->found.waived) &&
        ss_sample_reserve(x, s, SS_EVIDENCE_RUNS, ss_evidence_elements((size_t)x->n)) == SS_OK;
    if (f->looked.evidence)
        ss_sample_take(x, s, f->c.in, ss_evidence_runs((size_t)x->n, ss_sample_places(s)));
}

/* The tensor is exact and has a residual that is to be sent. */
static bool joins(const struct ss_feedback *f)
{
    const struct ss_tensor *t = f->tensor;

    if (f->stuck || !t->placed || !ss_residual_there(t) || t->fresh)
        return false;
    return t->state != SS_TENSOR_REGISTERED || (f->resting && !t->rest.emptied);
}

static void start_join(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_looked *l = &f->looked;

    l->joins = joins(f);
    l->not_finite = 0;
    l->measured = l->joins && (!f->resting || !(ss_residual_square(f->tensor) > 0));
    if (l->measured)
        x->ticket = ss_residual_measure(f->tensor, &l->residual_square);
    if (l->joins)
        x->ticket =
            x->place->ops->square(x->place, x->type, f->c.in, (size_t)x->n, &l->input_square);
}

void ss_look_start(struct ss_feedback *f)
{
    if (!f->tensor)
        return;
    f->looked.ballot = ss_tensor_ballot(f->tensor); /* may make a residual */
    f->looked.ballot.not_ready |= f->found.overlaps && !f->found.waived;
    start_level(f);
    start_evidence(f);
    start_join(f);
}

void ss_look_forget(struct ss_feedback *f)
{
    f->looked.level = f->looked.evidence = f->looked.joins = false;
    f->looked.not_finite = 0;
}

/* By the norms alone: no element of input or residual is larger than they are. */
static bool sum_is_finite(const struct ss_feedback *f)
{
    double most = f->c.x.type == SS_F32 ? (double)FLT_MAX : DBL_MAX;
    double input = f->looked.input_square, kept = ss_residual_square(f->tensor);

    if (!(input < DBL_MAX && kept < DBL_MAX)) /* NaN, too */
        return false;
    return ss_root(input) + ss_root(kept) < most / 2;
}

void ss_look_on(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    struct ss_looked *l = &f->looked;

    if (!f->tensor)
        return;
    if (l->level)
        f->input_square =
            ss_steps_parts(x->type, x->work->levels.values.data, (size_t)x->n, SAMPLE, f->parts);
    if (l->measured)
        ss_residual_measured(f->tensor, l->residual_square);
    if (l->joins && ss_residual_square(f->tensor) == 0) {
        ss_join_emptied(f->tensor);
        l->joins = false;
    }
    if (!l->joins)
        return;
    f->input_square = l->input_square;
    if (!sum_is_finite(f))
        x->ticket =
            x->place->ops->not_finite(x->place, x->type, f->c.in, ss_residual_values(f->tensor),
                                      (size_t)x->n, &l->not_finite);
}

void ss_look_show(struct ss_feedback *f)
{
    const struct ss_exchange *x = &f->c.x;

    if (f->tensor && f->looked.evidence)
        ss_evidence_show(&f->vote.ballot.evidence, &f->tensor->watch, x->type,
                         x->work->sample.values.data, (size_t)x->n, f->looked.shown);
    f->looked.shown = true;
}
