/* Whole calls: every element of gradient + residual is sent, in few bits (density 1 and a
 * VALUE_TYPE of few bits). Nothing is selected. The look finds out if the input is finite; the
 * algorithm joins input and residual, and leaves the errors of rounding in the residual. Until it
 * begins, the residual is untouched, so that a call that turns native has nothing to undo. */
#include "core/coll/algorithms.h"
#include "core/compute/quantize.h"
#include "core/feedback/feedback.h"
#include "core/tensor/residual.h"

/* Returns the VALUE_TYPE of the tensor. */
static unsigned value_type(const struct ss_feedback *f)
{
    const struct ss_rule *rule = f->tensor ? f->tensor->rule : NULL;

    return rule && rule->has_values ? rule->value_type : f->comm->settings->value_type;
}

enum ss_values ss_topk_values(const struct ss_feedback *f)
{
    return ss_values_of(value_type(f));
}

bool ss_topk_random(const struct ss_feedback *f)
{
    return ss_rounds_at_random(value_type(f));
}

/* Returns true if the algorithm that a rule or ALGORITHM names may run in a whole call, or means
 * auto there. */
static bool takes_whole(const struct ss_feedback *f)
{
    const struct ss_rule *rule = f->tensor->rule;
    const enum ss_algorithm a =
        rule && rule->has_algorithm ? rule->algorithm : f->comm->settings->algorithm;

    return a == SS_AUTO || a == SS_DENSE || ss_keeps_global(a) ||
           ss_algorithms(SS_KIND_ALLREDUCE)[a]->whole ||
           (a == SS_TWO_LEVEL && f->tensor->range.by_host);
}

bool ss_whole_due(const struct ss_feedback *f)
{
    const struct ss_settings *s = f->comm->settings;
    uint64_t bucket;

    return ss_topk_density(f, &bucket) >= 1 && bucket == 0 && ss_topk_values(f) != SS_VALUES_SAME &&
           !ss_topk_random(f) && s->quorum == SS_QUORUM_ALL && f->keep.count == 0 &&
           !f->c.x.backend->ops->remote && f->c.kind == SS_KIND_ALLREDUCE && takes_whole(f);
}

int ss_whole_look(struct ss_feedback *f)
{
    f->k = (size_t)f->select_n;
    f->seen.input_square = ss_quantizers()->square(f->c.x.type, f->select_in, f->k);
    return ss_guard_reserve(f);
}

void ss_whole_looked(struct ss_feedback *f)
{
    const void *residual = ss_residual_at(f->tensor, f->select_first);
    const size_t n = (size_t)f->select_n;
    bool finite = ss_look_is_finite(f, f->seen.input_square);

    finite = finite || ss_vector_not_finite(f->c.x.type, f->select_in, residual, n) == 0;
    f->input_square = f->seen.input_square;
    f->c.own.nnz = 0;
    f->c.scan = (struct ss_scan){.nnz = n, .stored = n, .stop = n, .not_finite = !finite};
}

void ss_whole_start(struct ss_feedback *f)
{
    f->c.whole = (struct ss_whole){.values = ss_topk_values(f),
                                   .in = f->select_in,
                                   .residual = ss_residual_at(f->tensor, f->select_first),
                                   .first = f->select_first};
}

/* The residual becomes input + residual. A residual per host keeps what it has. */
void ss_whole_fail(struct ss_feedback *f)
{
    struct ss_tensor *t = f->tensor;

    if (f->c.whole.sent)
        ss_quantized_return(&f->c);
    else if (!t->range.by_host)
        ss_vector_add(t->type, ss_residual_at(t, f->select_first), f->select_in,
                      (size_t)f->select_n);
}
