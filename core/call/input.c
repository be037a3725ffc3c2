/* What happens on a rank before the vote, and may fail there alone: room for the messages, and the
 * entries of the input. */
#include "core/call/call_impl.h"
#include "core/coll/rows.h"

/* An input with more entries than this is not extracted where the plan chooses: it says dense. */
static bool too_dense(const struct ss_call *call)
{
    const struct ss_exchange *x = &call->f.c.x;
    const struct ss_settings *s = call->f.comm->settings;
    enum ss_algorithm a = s->algorithm;
    bool forced = a != SS_AUTO && a != SS_DENSE && !ss_keeps_global(a) && !s->observe;

    return !forced &&
           (double)call->f.c.scan.nnz > ss_plan_dense_from(call->f.c.kind, x->n, x->t->size);
}

/* A lane whose last input was too dense is asked by a sample first, at random places lest it see
 * few columns of a matrix: where that leaves no doubt the rest is not looked at. What is not finite
 * may then go unseen, which is no matter of a dense call, unless a residual is to join it or a loss
 * scale is to be followed. */
enum { SAMPLE_RUNS = 256, SAMPLE_RUN = 64, SAMPLE_FROM = 1 << 18 }; /* elements */
static const double NO_DOUBT = 1.05;                                /* ten standard deviations */

static bool sampled_dense(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;
    struct ss_exchange *x = &c->x;
    const struct ss_settings *s = call->f.comm->settings;
    struct ss_scan run;
    uint64_t seen = 0;

    if (!call->lane->was_dense || call->lane->holds || c->in_n < SAMPLE_FROM || s->observe ||
        s->residual_scale)
        return false;
    for (uint64_t r = 0; r < SAMPLE_RUNS; r++) {
        uint64_t part = c->in_n / SAMPLE_RUNS;
        size_t at = (size_t)(part * r + ss_mix(r + 1, c->in_n) % (part - SAMPLE_RUN + 1));
        x->place->ops->scan(x->place, x->type, c->op, ss_at_const(c->in, at, x->esize), SAMPLE_RUN,
                            0, NULL, NULL, 0, &run);
        if (run.not_finite)
            return false;
        seen += run.nnz;
    }
    c->scan = (struct ss_scan){.stop = (size_t)c->in_n};
    c->scan.nnz = (size_t)((double)seen / (SAMPLE_RUNS * SAMPLE_RUN) / NO_DOUBT * (double)c->in_n);
    if (!too_dense(call))
        return false;
    c->scan.nnz = (size_t)((double)seen / (SAMPLE_RUNS * SAMPLE_RUN) * (double)c->in_n);
    return true;
}

/* The non-zero entries of the input. Work space that held the last call's is tried first; what does
 * not fit is counted and, unless the input is dense anyway, extracted in a second pass from where
 * the first stopped. */
static int scan_input(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;
    struct ss_exchange *x = &c->x;
    struct ss_work *w = x->work;
    size_t room = w->own_idx.size / sizeof(uint32_t);
    size_t start = (size_t)ss_plan_own_least(c->in_n);
    struct ss_scan rest;

    call->sampled = sampled_dense(call);
    if (call->sampled)
        return SS_OK;
    if (w->own_val.size / x->esize < room)
        room = w->own_val.size / x->esize;
    if (room < start)
        room = start;
    if (ss_stream_reserve_own(x, &c->own, room, 0) != SS_OK)
        return SS_ERR_MEMORY;
    x->place->ops->scan(x->place, x->type, c->op, c->in, (size_t)c->in_n, (uint32_t)c->in_first,
                        c->own.idx, c->own.val, c->own.capacity, &c->scan);
    c->own.nnz = c->scan.stored;
    call->lane->was_dense = too_dense(call);
    if (c->scan.stored == c->scan.nnz || call->lane->was_dense)
        return SS_OK;
    if (ss_stream_reserve_own(x, &c->own, c->scan.nnz, c->own.nnz) != SS_OK)
        return SS_ERR_MEMORY;
    x->place->ops->scan(x->place, x->type, c->op, ss_at_const(c->in, c->scan.stop, x->esize),
                        (size_t)c->in_n - c->scan.stop, (uint32_t)(c->in_first + c->scan.stop),
                        c->own.idx + c->own.nnz, ss_at(c->own.val, c->own.nnz, x->esize),
                        c->own.capacity - c->own.nnz, &rest);
    c->own.nnz += rest.stored;
    return SS_OK;
}

static uint64_t largest_part(const struct ss_call *call)
{
    const struct ss_coll *c = &call->f.c;
    const struct ss_exchange *x = &c->x;
    uint64_t most = 0;
    size_t before = 0;

    if (c->own.nnz < c->scan.nnz) /* not extracted: dense */
        return (x->n + (uint64_t)x->t->size - 1) / (uint64_t)x->t->size;
    for (int p = 1; p <= x->t->size; p++) {
        size_t upto = p == x->t->size
                          ? c->own.nnz
                          : ss_lower_bound(c->own.idx, c->own.nnz, (uint32_t)ss_coll_part(c, p));
        if (upto - before > most)
            most = upto - before;
        before = upto;
    }
    return most;
}

static int prepare_input(struct ss_call *call)
{
    struct ss_feedback *f = &call->f;

    if (f->topk)
        return ss_topk_select(f);
    if (!f->resting)
        return scan_input(call);
    ss_topk_rest(f);
    return SS_OK;
}

/* Per element. A selection takes longer where it looks for its threshold anew, once in a period:
 * what counts is the ordinary call. */
static void book_cost(struct ss_call *call, double seconds)
{
    struct ss_feedback *f = &call->f;
    struct ss_tensor *t = f->tensor;

    if (!f->topk)
        f->comm->cost_scan = seconds;
    else if (t->threshold.exact_calls == f->threshold_before.exact_calls &&
             (t->select_least == 0 || seconds < t->select_least))
        t->select_least = seconds;
}

/* Until an ordinary selection was seen: as long as reading and writing the elements. */
double ss_select_cost(const struct ss_feedback *f)
{
    double least = f->tensor->select_least;

    if (least == 0)
        return 4 * ss_host_costs()->fill * (double)f->c.x.esize;
    return least * (1 + 4.0 / (double)f->comm->settings->tensors.threshold_period);
}

static int look(struct ss_call *call, double begin)
{
    struct ss_coll *c = &call->f.c;
    struct ss_exchange *x = &c->x;
    int status = prepare_input(call);

    if (status != SS_OK || call->f.resting)
        return status;
    c->part_max = largest_part(call);
    x->times.scan += ss_now(x) - begin;
    if (c->in_n >= 4096 && !call->sampled)
        book_cost(call, x->times.scan / (double)c->in_n);
    return SS_OK;
}

int ss_call_select(struct ss_call *call)
{
    return look(call, ss_now(&call->f.c.x));
}

static int try_prepare(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;
    struct ss_comm *comm = call->f.comm;
    double begin = ss_now(x);
    const struct ss_settings *s = comm->settings;
    bool rounded = s->values != SS_VALUES_SAME || s->quant != SS_VALUES_SAME;
    int status = ss_in_reserve(x, rounded);

    if (status == SS_OK && (call->f.topk || call->f.resting))
        status = ss_agree_reserve(x);
    if (status == SS_OK)
        status = ss_fill_reserve(&call->f.c);
    if (status == SS_OK && !comm->costs_agreed)
        status = ss_calibrate_reserve(x);
    return status == SS_OK ? look(call, begin) : status;
}

int ss_call_prepare(struct ss_call *call)
{
    struct ss_work *work = call->f.c.x.work;
    int status = try_prepare(call);

    if (status == SS_ERR_MEMORY && ss_work_kept(work) > 0) {
        ss_work_drop(work);
        status = try_prepare(call);
    }
    return status;
}
