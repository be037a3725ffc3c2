/* What happens on a rank before the vote, and may fail there alone: room for the messages, and the
 * entries of the input. */
#include "core/call/call_impl.h"

int ss_own_reserve(struct ss_call *c, size_t entries, size_t keep)
{
    struct ss_work *w = c->work;

    if (ss_buf_grow(&w->own_idx, c->comm->mem, entries * sizeof(uint32_t),
                    keep * sizeof(uint32_t)) != SS_OK ||
        ss_buf_grow(&w->own_val, c->comm->mem, entries * c->esize, keep * c->esize) != SS_OK)
        return SS_ERR_MEMORY;
    c->own.idx = w->own_idx.data;
    c->own.val = w->own_val.data;
    c->own.capacity = entries;
    return SS_OK;
}

/* An input with more entries than this is not extracted where the plan chooses: it says dense. */
static bool too_dense(const struct ss_call *c)
{
    const struct ss_settings *s = c->comm->settings;
    enum ss_algorithm a =
        s->algorithm; /* the last two are none for exact calls: the plan chooses */
    bool forced = a != SS_AUTO && a != SS_DENSE && a != SS_OKTOPK && a != SS_GTOPK && !s->observe;

    return !forced && (double)c->scan.nnz > ss_plan_dense_from(c->kind, c->n, c->t->size);
}

/* The non-zero entries of the input. Work space that held the last call's is tried first; what does
 * not fit is counted and, unless the input is dense anyway, extracted in a second pass from where
 * the first stopped. */
static int scan_input(struct ss_call *c)
{
    struct ss_work *w = c->work;
    size_t room = w->own_idx.size / sizeof(uint32_t);
    size_t start = (size_t)ss_plan_own_least(c->in_n);
    struct ss_scan rest;

    if (w->own_val.size / c->esize < room)
        room = w->own_val.size / c->esize;
    if (room < start)
        room = start;
    if (ss_own_reserve(c, room, 0) != SS_OK)
        return SS_ERR_MEMORY;
    c->kernels->scan(c->type, c->op, c->in, (size_t)c->in_n, (uint32_t)c->in_first, c->own.idx,
                     c->own.val, c->own.capacity, &c->scan);
    c->own.nnz = c->scan.stored;
    if (c->scan.stored == c->scan.nnz || too_dense(c))
        return SS_OK;
    if (ss_own_reserve(c, c->scan.nnz, c->own.nnz) != SS_OK)
        return SS_ERR_MEMORY;
    c->kernels->scan(c->type, c->op, ss_at_const(c->in, c->scan.stop, c->esize),
                     (size_t)c->in_n - c->scan.stop, (uint32_t)(c->in_first + c->scan.stop),
                     c->own.idx + c->own.nnz, ss_at(c->own.val, c->own.nnz, c->esize),
                     c->own.capacity - c->own.nnz, &rest);
    c->own.nnz += rest.stored;
    return SS_OK;
}

static uint64_t largest_part(const struct ss_call *c)
{
    uint64_t most = 0;
    size_t before = 0;

    if (c->own.nnz < c->scan.nnz) /* not extracted: dense */
        return (c->n + (uint64_t)c->t->size - 1) / (uint64_t)c->t->size;
    for (int p = 1; p <= c->t->size; p++) {
        size_t upto = p == c->t->size
                          ? c->own.nnz
                          : ss_lower_bound(c->own.idx, c->own.nnz, (uint32_t)ss_call_part(c, p));
        if (upto - before > most)
            most = upto - before;
        before = upto;
    }
    return most;
}

static int prepare_input(struct ss_call *c)
{
    if (c->topk)
        return ss_topk_select(c);
    if (!c->resting)
        return scan_input(c);
    ss_topk_rest(c);
    return SS_OK;
}

/* Per element. A selection takes longer where it looks for its threshold anew, once in a period:
 * what counts is the ordinary call. */
static void book_cost(struct ss_call *c, double seconds)
{
    struct ss_tensor *t = c->tensor;

    if (!c->topk)
        c->comm->cost_scan = seconds;
    else if (t->threshold.exact_calls == c->threshold_before.exact_calls &&
             (t->select_least == 0 || seconds < t->select_least))
        t->select_least = seconds;
}

/* Until an ordinary selection was seen: as long as reading and writing the elements. */
double ss_select_cost(const struct ss_call *c)
{
    double least = c->tensor->select_least;

    if (least == 0)
        return 4 * ss_local_costs()->fill * (double)c->esize;
    return least * (1 + 4.0 / (double)c->comm->settings->tensors.threshold_period);
}

static int look(struct ss_call *c, double begin)
{
    int status = prepare_input(c);

    if (status != SS_OK || c->resting)
        return status;
    c->part_max = largest_part(c);
    c->times.scan += ss_call_now(c) - begin;
    if (c->in_n >= 4096)
        book_cost(c, c->times.scan / (double)c->in_n);
    return SS_OK;
}

int ss_call_select(struct ss_call *c)
{
    return look(c, ss_call_now(c));
}

static int try_prepare(struct ss_call *c)
{
    struct ss_comm *comm = c->comm;
    double begin = ss_call_now(c);
    int status = ss_flow_reserve(c);

    if (status == SS_OK)
        status = ss_fill_reserve(c);
    if (status == SS_OK && !comm->costs_agreed)
        status = ss_calibrate_reserve(c);
    return status == SS_OK ? look(c, begin) : status;
}

int ss_call_prepare(struct ss_call *c)
{
    struct ss_work *work = c->work;
    int status = try_prepare(c);

    if (status == SS_ERR_MEMORY && ss_work_kept(work) > 0) {
        ss_work_drop(work);
        status = try_prepare(c);
    }
    return status;
}
