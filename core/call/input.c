/* The look of a rank at its input before the vote, which may fail on this rank alone: room for the
 * messages, the entries of the input, and further parts of the vote. */
#include "core/call/call_impl.h"
#include "core/coll/rows.h"
#include "core/stream/sample.h"

/* Looks, one after the other. The call waits for the place between two looks. */
enum { RESERVE, INPUT, SAMPLED, SCANNED, RESCANNED, CLAIMED, SURVEYED, EXTRAS, JOINS, SEEN };

/* Returns true if the input has too many entries to be extracted. If the plan may choose, the rank
 * then votes for dense. */
static bool too_dense(const struct ss_call *call)
{
    const struct ss_exchange *x = &call->f.c.x;
    const struct ss_settings *s = call->f.comm->settings;
    enum ss_algorithm a = s->algorithm;
    bool forced = a != SS_AUTO && a != SS_DENSE && !ss_keeps_global(a) && !s->observe;

    return !forced &&
           (double)call->f.c.scan.nnz > ss_plan_dense_from(call->f.c.kind, x->n, x->t->size);
}

/* If the last input of a lane was too dense, a sample is taken first, at random places since
 * regular ones may see few columns of a matrix. If the sample leaves no doubt, the rest is
 * not looked at. Elements that are not finite may then go unseen, which matters to a dense call
 * only if a residual joins it. */
enum { SAMPLE_RUNS = 256, SAMPLE_RUN = 64, SAMPLE_FROM = 1 << 18 }; /* elements */
static const double NO_DOUBT = 1.05;                                /* ten standard deviations */

static bool to_sample(const struct ss_call *call)
{
    const struct ss_settings *s = call->f.comm->settings;

    return call->lane->was_dense && !call->lane->holds && call->f.c.in_n >= SAMPLE_FROM &&
           !s->observe;
}

/* Scans the non-zero entries of the input. The first pass extracts into the work space of the last
 * call, as far as the entries fit, and counts the others. Unless the input is dense anyway, a
 * second pass extracts these. */
static int start_scan(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;
    struct ss_exchange *x = &c->x;
    struct ss_work *w = x->work;
    size_t room = w->own_idx.size / sizeof(uint32_t);
    size_t start = (size_t)ss_plan_own_least(c->in_n);

    if (w->own_val.size / x->esize < room)
        room = w->own_val.size / x->esize;
    if (room < start)
        room = start;
    if (ss_stream_reserve_own(x, &c->own, room, 0) != SS_OK)
        return SS_ERR_MEMORY;
    x->ticket =
        x->place->ops->scan(x->place, x->type, c->op, c->in, (size_t)c->in_n, (uint32_t)c->in_first,
                            c->own.idx, c->own.val, c->own.capacity, &c->scan);
    return SS_OK;
}

static int start_sample(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;
    struct ss_sample *s = &c->x.work->sample;

    if (ss_sample_reserve(&c->x, s, SAMPLE_RUNS, SAMPLE_RUNS * SAMPLE_RUN) != SS_OK) {
        call->look = SCANNED;
        return start_scan(call);
    }
    for (uint64_t r = 0; r < SAMPLE_RUNS; r++) {
        uint64_t part = c->in_n / SAMPLE_RUNS;
        ss_sample_places(s)[r].first =
            (size_t)(part * r + ss_mix(r + 1, c->in_n) % (part - SAMPLE_RUN + 1));
        ss_sample_places(s)[r].count = SAMPLE_RUN;
    }
    ss_sample_take(&c->x, s, c->in, SAMPLE_RUNS);
    return SS_OK;
}

static bool sampled_dense(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;
    const size_t of = SAMPLE_RUNS * SAMPLE_RUN;
    struct ss_scan seen;

    c->kernels->scan(c->x.type, c->op, c->x.work->sample.values.data, of, 0, NULL, NULL, 0, &seen);
    if (seen.not_finite)
        return false;
    c->scan = (struct ss_scan){.stop = (size_t)c->in_n};
    c->scan.nnz = (size_t)((double)seen.nnz / (double)of / NO_DOUBT * (double)c->in_n);
    if (!too_dense(call))
        return false;
    c->scan.nnz = (size_t)((double)seen.nnz / (double)of * (double)c->in_n);
    return true;
}

/* Returns true if a second pass must follow the first. */
static bool scan_again(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;

    c->own.nnz = c->scan.stored;
    call->lane->was_dense = too_dense(call);
    return c->scan.stored < c->scan.nnz && !call->lane->was_dense;
}

static int start_rest(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;
    struct ss_exchange *x = &c->x;

    if (ss_stream_reserve_own(x, &c->own, c->scan.nnz, c->own.nnz) != SS_OK)
        return SS_ERR_MEMORY;
    x->ticket =
        x->place->ops->scan(x->place, x->type, c->op, ss_at_const(c->in, c->scan.stop, x->esize),
                            (size_t)c->in_n - c->scan.stop, (uint32_t)(c->in_first + c->scan.stop),
                            c->own.idx + c->own.nnz, ss_at(c->own.val, c->own.nnz, x->esize),
                            c->own.capacity - c->own.nnz, &call->rest);
    return SS_OK;
}

static uint64_t largest_part(const struct ss_call *call)
{
    const struct ss_coll *c = &call->f.c;
    const struct ss_exchange *x = &c->x;
    uint64_t most = 0;
    size_t before = 0;

    if (c->own.stays) {
        for (int p = 0; p < x->t->size; p++)
            if (ss_own_slice(c, p).nnz > most)
                most = ss_own_slice(c, p).nnz;
        return most;
    }
    if (c->own.nnz < c->scan.nnz) /* entries that were not extracted: dense */
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

/* Books the seconds of a selection per element. A selection that finds its threshold anew, once in
 * a period, takes longer and is left out. */
static void book_cost(struct ss_call *call, double seconds)
{
    struct ss_feedback *f = &call->f;
    struct ss_tensor *t = f->tensor;

    if (!f->topk)
        f->comm->cost_scan = seconds;
    else if (t->threshold.exact_calls == f->threshold_before.exact_calls &&
             (t->rest.select_least == 0 || seconds < t->rest.select_least))
        t->rest.select_least = seconds;
}

/* Returns the seconds of reading and writing an element until an ordinary selection was seen. */
double ss_select_cost(const struct ss_feedback *f)
{
    double least = f->tensor->rest.select_least;

    if (least == 0)
        return 4 * ss_place_costs(f->c.x.place)->fill * (double)f->c.x.esize;
    return least * (1 + 4.0 / (double)f->comm->settings->tensors.threshold_period);
}

static int reserve(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;
    const struct ss_settings *s = call->f.comm->settings;
    bool rounded = s->values != SS_VALUES_SAME || s->quant != SS_VALUES_SAME;
    int status =
        x->place->ops->reserve(x->place, x->type, &(struct ss_place_need){.n = (size_t)x->n});

    if (status == SS_OK)
        status = ss_in_reserve(x, rounded);

    if (status == SS_OK && (call->f.topk || call->f.resting))
        status = ss_agree_reserve(x);
    if (status == SS_OK)
        status = ss_fill_reserve(&call->f.c);
    if (status == SS_OK && !call->f.comm->costs_agreed)
        status = ss_calibrate_reserve(x);
    return status;
}

/* Returns true if claims may stay in their place. The place must encode, and so must the algorithm,
 * if it is known. With MERGE such a call goes alone. */
static bool may_stay(const struct ss_call *call)
{
    const struct ss_feedback *f = &call->f;
    const struct ss_place_ops *ops = f->c.x.place->ops;
    const uint64_t by_rule = ss_topk_forced(f);
    const enum ss_algorithm a =
        by_rule > 0 ? (enum ss_algorithm)(by_rule - 1) : f->comm->settings->algorithm;

    if (!ops->remote || !ops->encode || !f->topk)
        return false;
    return a == SS_AUTO || a == SS_DENSE || ss_rows(f->c.kind)[a]->stays;
}

static int start_input(struct ss_call *call)
{
    struct ss_feedback *f = &call->f;
    bool sample = to_sample(call);

    call->sampled = false;
    call->look = EXTRAS;
    if (f->resting) {
        ss_topk_rest(f);
        return SS_OK;
    }
    f->stays = may_stay(call);
    call->look = f->topk ? CLAIMED : sample ? SAMPLED : SCANNED;
    return f->topk ? ss_topk_select(f) : sample ? start_sample(call) : start_scan(call);
}

static enum ss_span look_span(const struct ss_call *call)
{
    return call->f.topk ? SS_SPAN_SELECT : SS_SPAN_SCAN;
}

static void leave_input(struct ss_call *call)
{
    struct ss_coll *c = &call->f.c;
    struct ss_exchange *x = &c->x;
    double seconds = ss_span_end(x, look_span(call), call->look_begin) - call->look_begin;

    c->part_max = largest_part(call);
    if (c->in_n >= 4096 && !call->sampled)
        book_cost(call, seconds / (double)c->in_n);
    call->look = EXTRAS;
}

static int step_look(struct ss_call *call)
{
    struct ss_feedback *f = &call->f;

    switch (call->look) {
    case RESERVE:
        call->look = INPUT;
        return reserve(call);
    case INPUT:
        return start_input(call);
    case SAMPLED:
        call->sampled = sampled_dense(call);
        if (call->sampled) {
            leave_input(call);
            return SS_OK;
        }
        call->look = SCANNED;
        return start_scan(call);
    case SCANNED:
        if (scan_again(call)) {
            call->look = RESCANNED;
            return start_rest(call);
        }
        leave_input(call);
        return SS_OK;
    case RESCANNED:
        f->c.own.nnz += call->rest.stored;
        leave_input(call);
        return SS_OK;
    case CLAIMED:
        ss_topk_selected(f);
        call->look = SURVEYED;
        if (f->c.own.stays)
            ss_topk_survey(f);
        return SS_OK;
    case SURVEYED:
        if (f->c.own.stays)
            ss_topk_surveyed(f);
        leave_input(call);
        return SS_OK;
    case EXTRAS:
        call->look = JOINS;
        ss_look_start(f);
        if (f->comm->settings->observe)
            ss_observe_sample(call);
        return SS_OK;
    default:
        call->look = SEEN;
        ss_look_on(f);
        return SS_OK;
    }
}

void ss_call_look_start(struct ss_call *call, enum ss_look_from from)
{
    struct ss_exchange *x = &call->f.c.x;
    static const int first[] = {
        [SS_LOOK_ALL] = RESERVE, [SS_LOOK_INPUT] = INPUT, [SS_LOOK_EXTRAS] = EXTRAS};

    call->look = first[from];
    call->look_status = SS_OK;
    call->made_way = false;
    if (from == SS_LOOK_EXTRAS || call->f.resting)
        return;
    ss_trace_end(x, look_span(call)); /* begins anew if memory was short */
    call->look_begin = ss_span_begin(x, look_span(call));
}

static bool make_way(struct ss_call *call)
{
    struct ss_work *work = call->f.c.x.work;
    bool kept = ss_work_kept(work) > 0, idle = ss_in_flight_drop_idle(call->f.comm);

    ss_work_drop(work);
    return kept || idle;
}

/* Ends a look that failed. If memory is short, work space of other collectives is freed once and
 * the look begins anew. If it fails for good, the vote still gets the facts about the tensor. */
static void look_failed(struct ss_call *call, int status)
{
    if (status == SS_ERR_MEMORY && !call->made_way && make_way(call)) {
        ss_call_look_start(call, SS_LOOK_ALL);
        call->made_way = true;
        return;
    }
    call->look_status = status;
    if (call->look == CLAIMED && status != SS_ERR_MEMORY)
        ss_topk_lost(&call->f);
    if (call->look >= EXTRAS)
        ss_look_forget(&call->f);
    call->look = call->look < EXTRAS ? EXTRAS : SEEN;
}

void ss_call_look_over(struct ss_call *call, int status)
{
    if (call->look != CLAIMED || call->f.claimed)
        return;
    if (status == SS_OK)
        ss_topk_selected(&call->f);
    else
        ss_topk_lost(&call->f);
}

int ss_call_look(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;
    int status = ss_exchange_poll(x);

    while (status != SS_PENDING && call->look != SEEN) {
        if (status == SS_OK)
            status = step_look(call);
        if (status < 0)
            look_failed(call, status);
        status = ss_exchange_poll(x);
    }
    if (status != SS_PENDING && call->look_status == SS_OK)
        call->look_status = status;
    return status == SS_PENDING ? SS_PENDING : call->look_status;
}
