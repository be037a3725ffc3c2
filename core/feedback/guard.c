/* GUARD compares the result of a tensor with the dense sum of the same inputs. Every rank takes a
 * count sketch of its input (Charikar, Chen, Farach-Colton 2002): each element enters a random one
 * of M buckets with a random sign. The sum of the ranks' sketches is the sketch of the dense sum.
 * The cosine between that and the sketch of the result estimates the cosine between the vectors,
 * with a standard error of 1/sqrt(M): 0.02. The comparison costs a pass over input and result and
 * 16 KiB, not a dense allreduce. */
#include <float.h>

#include "core/feedback/feedback.h"

enum { BUCKETS = SS_SKETCH_BUCKETS };

/* With error feedback the cosine of result and dense sum stays above 0, however few entries are
 * sent. An entry waits 1/d calls on average, so that the residual is at most 1/d times the input.
 * Both limits leave room for chance. Most sums that are not gradients keep within them, too, as the
 * table in scripts/results.md shows. */
static const double LEAST_COSINE = -0.1, MOST_RATIO = 10;

/* GUARD compares calls 8, 16, 32, ... 256 and then every 256th. If such a call is a partial one, it
 * compares the next call that is not. */
enum { GUARD_FIRST = 8, GUARD_PERIOD = 256 };

static uint64_t looks_until(uint64_t call)
{
    uint64_t looks = call / GUARD_PERIOD;

    for (uint64_t early = GUARD_FIRST; early < GUARD_PERIOD && early <= call; early *= 2)
        looks++;
    return looks;
}

bool ss_guard_due(const struct ss_feedback *f)
{
    return f->comm->settings->guard != SS_GUARD_OFF &&
           looks_until(f->topk_calls + 1) > looks_until(f->tensor->guarding.before);
}

int ss_guard_reserve(struct ss_feedback *f)
{
    if (f->comm->settings->guard == SS_GUARD_OFF)
        return SS_OK;
    return ss_buf_reserve(&f->c.x.work->sketch, f->comm->mem, 2 * BUCKETS * sizeof(double));
}

void ss_guard_take(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;

    x->ticket =
        x->backend->ops->sketch(x->backend, x->type, f->c.in, (size_t)x->n, x->work->sketch.data);
}

void ss_guard_start(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    double *sketch = x->work->sketch.data;

    f->guarded = f->guarding = false;
    f->guard_seconds -= ss_now(x);
    if (x->failed == 0)
        x->ticket =
            x->backend->ops->sketch(x->backend, x->type, f->c.out, (size_t)x->n, sketch + BUCKETS);
}

static void conclude(struct ss_feedback *f, bool far)
{
    struct ss_guarding *g = &f->tensor->guarding;
    bool exact = f->comm->settings->guard == SS_GUARD_EXACT;
    const char *then =
        exact ? "; it is exact from here on" : "; SPARSESHIM_GUARD=exact would make it exact";

    if (far && !g->far)
        ss_topk_warn(f,
                     "its result has come apart from the dense sum (cosine %.2f, residual %.3g "
                     "times the input)%s",
                     g->cosine, g->ratio, then);
    g->far = far;
    if (far && exact)
        ss_tensor_settle(f->tensor, false, SS_TENSOR_GUARDED);
}

static void judge(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    const double *sum = x->work->sketch.data, *result = sum + BUCKETS;
    struct ss_guarding *g = &f->tensor->guarding;
    double dot = 0, a = 0, b = 0, ratio = ss_bits_double(f->vote.ballot.ratio_max);
    double share = (double)f->vote.ballot.k_max / ss_topk_elements(f), limit = MOST_RATIO / share;

    for (int i = 0; i < BUCKETS; i++) {
        dot += sum[i] * result[i];
        a += sum[i] * sum[i];
        b += result[i] * result[i];
    }
    if (ratio == DBL_MAX) /* a rank's input is zero: nothing to hold the residual against */
        ratio = 0;
    g->checks++;
    g->cosine = a > 0 && b > 0 ? dot / ss_root(a) / ss_root(b) : 1;
    g->ratio = ss_root(ratio);
    conclude(f, g->cosine < LEAST_COSINE || ratio > limit * limit);
}

int ss_guard_step(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;

    if (!f->guarding && !ss_settled(x, SS_PHASE_WORDS))
        return SS_PENDING;
    if (!f->guarding)
        ss_word_exchange_start(x, &f->guard, x->work->sketch.data, 0, 0, BUCKETS);
    f->guarding = true;
    if (ss_word_exchange_step(x, &f->guard) == SS_PENDING)
        return SS_PENDING;
    if (x->failed == 0)
        judge(f);
    f->guard_seconds += ss_now(x);
    return SS_OK;
}
