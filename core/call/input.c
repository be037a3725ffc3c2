/* The look of a rank at its input before the vote, which may fail on this rank alone: room for the
 * messages, the entries of the input, and further parts of the vote. */
#include "core/call/call_impl.h"
#include "core/coll/algorithms.h"
#include "core/stream/sample.h"

/* Looks, one after the other. The call waits for the backend between two looks. */
enum { RESERVE, INPUT, SAMPLED, SCANNED, RESCANNED, CLAIMED, SURVEYED, EXTRAS, JOINS, SEEN };

/* Returns true if the input has too many entries to be extracted. If the plan may choose, the rank
 * then votes for dense. */
static bool too_dense(const struct ss_feedback *f)
{
    const struct ss_exchange *x = &f->c.x;
    const struct ss_settings *s = f->comm->settings;
    enum ss_algorithm a = s->algorithm;
    bool forced = a != SS_AUTO && a != SS_DENSE && !ss_keeps_global(a) && !s->observe;

    return !forced && (double)f->c.scan.nnz > ss_plan_dense_from(f->c.kind, x->n, x->t->size);
}

/* If the last input of a lane was too dense, a sample is taken first, at random places since
 * regular ones may see few columns of a matrix. If the sample is certain, the
 * other elements are not looked at. An element that is not finite may then go unseen, which matters
 * to a dense call only if a residual joins it. */
enum { SAMPLE_RUNS = 256, SAMPLE_RUN = 64, SAMPLE_FROM = 1 << 18 }; /* elements */
static const double CERTAIN = 1.05;                                 /* ten standard deviations */

static bool to_sample(const struct ss_feedback *f)
{
    const struct ss_settings *s = f->comm->settings;

    return f->lane->was_dense && !f->lane->has_residual && f->c.in_n >= SAMPLE_FROM && !s->observe;
}

/* Scans the non-zero entries of the input. The first pass extracts into the work space of the last
 * call, as far as the entries fit, and counts the others. Unless the input is dense anyway, a
 * second pass extracts these. */
static int start_scan(struct ss_feedback *f)
{
    struct ss_coll *c = &f->c;
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
    x->ticket = x->backend->ops->scan(x->backend, x->type, c->op, c->in, (size_t)c->in_n,
                                      (uint32_t)c->in_first, c->own.idx, c->own.val,
                                      c->own.capacity, &c->scan);
    return SS_OK;
}

static int start_sample(struct ss_look *look)
{
    struct ss_coll *c = &look->f->c;
    struct ss_sample *s = &c->x.work->sample;

    if (ss_sample_reserve(&c->x, s, SAMPLE_RUNS, SAMPLE_RUNS * SAMPLE_RUN) != SS_OK) {
        look->at = SCANNED;
        return start_scan(look->f);
    }
    for (uint64_t r = 0; r < SAMPLE_RUNS; r++) {
        uint64_t part = c->in_n / SAMPLE_RUNS;
        ss_sample_list(s)[r].first =
            (size_t)(part * r + ss_mix(r + 1, c->in_n) % (part - SAMPLE_RUN + 1));
        ss_sample_list(s)[r].count = SAMPLE_RUN;
    }
    ss_sample_take(&c->x, s, c->in, SAMPLE_RUNS);
    return SS_OK;
}

static bool sampled_dense(struct ss_feedback *f)
{
    struct ss_coll *c = &f->c;
    const size_t of = SAMPLE_RUNS * SAMPLE_RUN;
    struct ss_scan seen;

    c->kernels->scan(c->x.type, c->op, c->x.work->sample.values.data, of, 0, NULL, NULL, 0, &seen);
    if (seen.not_finite)
        return false;
    c->scan = (struct ss_scan){.stop = (size_t)c->in_n};
    c->scan.nnz = (size_t)((double)seen.nnz / (double)of / CERTAIN * (double)c->in_n);
    if (!too_dense(f))
        return false;
    c->scan.nnz = (size_t)((double)seen.nnz / (double)of * (double)c->in_n);
    return true;
}

/* Returns true if a second pass must follow the first. */
static bool scan_again(struct ss_feedback *f)
{
    struct ss_coll *c = &f->c;

    c->own.nnz = c->scan.stored;
    f->lane->was_dense = too_dense(f);
    return c->scan.stored < c->scan.nnz && !f->lane->was_dense;
}

static int start_second(struct ss_look *look)
{
    struct ss_coll *c = &look->f->c;
    struct ss_exchange *x = &c->x;

    if (ss_stream_reserve_own(x, &c->own, c->scan.nnz, c->own.nnz) != SS_OK)
        return SS_ERR_MEMORY;
    x->ticket = x->backend->ops->scan(
        x->backend, x->type, c->op, ss_at_const(c->in, c->scan.stop, x->esize),
        (size_t)c->in_n - c->scan.stop, (uint32_t)(c->in_first + c->scan.stop),
        c->own.idx + c->own.nnz, ss_at(c->own.val, c->own.nnz, x->esize),
        c->own.capacity - c->own.nnz, &look->second);
    return SS_OK;
}

/* Returns the most entries of the own stream in one of `parts` equal parts of n elements from
 * `first` on. */
static uint64_t most_of(const struct ss_coll *c, uint64_t first, uint64_t n, int parts)
{
    uint64_t most = 0;
    size_t before = 0;

    for (int p = 1; p <= parts; p++) {
        const uint64_t end = first + ss_part_first(n, parts, p);
        const size_t upto =
            p == parts ? c->own.nnz : ss_lower_bound(c->own.idx, c->own.nnz, (uint32_t)end);
        if (upto - before > most)
            most = upto - before;
        before = upto;
    }
    return most;
}

static uint64_t largest_part(const struct ss_feedback *f)
{
    const struct ss_coll *c = &f->c;
    const struct ss_exchange *x = &c->x;
    uint64_t most = 0;
    size_t before = 0;

    if (c->own.in_backend) {
        for (int p = 0; p < x->t->size; p++)
            if (ss_own_slice(c, p).nnz > most)
                most = ss_own_slice(c, p).nnz;
        return most;
    }
    if (c->own.nnz < c->scan.nnz) /* entries that were not extracted: dense */
        return (x->n + (uint64_t)x->t->size - 1) / (uint64_t)x->t->size;
    if (f->host.done)
        return most_of(c, f->select_first, f->select_n, ss_topk_owners(f));
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
static void book_cost(struct ss_feedback *f, double seconds)
{
    struct ss_tensor *t = f->tensor;

    if (!ss_topk_claims(f))
        f->comm->cost_scan = seconds;
    else if (t->threshold.exact_calls == f->threshold_before.exact_calls &&
             (t->select_least == 0 || seconds < t->select_least))
        t->select_least = seconds;
}

/* Returns the seconds of reading and writing an element until an ordinary selection was seen. */
double ss_select_cost(const struct ss_feedback *f)
{
    double least = f->tensor->select_least;

    if (least == 0)
        return 4 * ss_backend_costs(f->c.x.backend)->fill * (double)f->c.x.esize;
    return least * (1 + 4.0 / (double)f->comm->settings->tensors.threshold_period);
}

static int reserve(struct ss_feedback *f)
{
    struct ss_exchange *x = &f->c.x;
    int status =
        x->backend->ops->reserve(x->backend, x->type, &(struct ss_backend_need){.n = (size_t)x->n});

    if (status == SS_OK)
        status = ss_in_reserve(x, ss_topk_values(f) != SS_VALUES_SAME);

    if (status == SS_OK && f->c.kind == SS_KIND_ALLREDUCE)
        status = ss_word_exchange_reserve(x);
    if (status == SS_OK && ss_topk_is_lossy(f) && f->tensor->range.by_host)
        status = ss_host_sum_reserve(f);
    if (status == SS_OK)
        status = ss_fill_reserve(&f->c);
    if (status == SS_OK && !f->comm->costs_agreed)
        status = ss_calibrate_reserve(x);
    return status;
}

/* Returns true if claims may stay in their backend. The backend must encode, and so must the
 * algorithm, if it is known. */
static bool may_be_in_backend(const struct ss_feedback *f)
{
    const struct ss_backend_ops *ops = f->c.x.backend->ops;
    const uint64_t by_rule = ss_topk_forced(f);
    const enum ss_algorithm a =
        by_rule > 0 ? (enum ss_algorithm)(by_rule - 1) : f->comm->settings->algorithm;

    if (!ops->remote || !ops->encode || !ss_topk_claims(f))
        return false;
    return a == SS_AUTO || a == SS_DENSE || ss_algorithms(f->c.kind)[a]->in_backend;
}

static int start_input(struct ss_look *look)
{
    struct ss_feedback *f = look->f;
    bool sample = to_sample(f);

    look->sampled = false;
    look->at = EXTRAS;
    if (f->state == SS_TOPK_RESTS) {
        ss_topk_rest(f);
        return SS_OK;
    }
    if (ss_host_sum_due(f)) /* the entries follow from the sum */
        return SS_OK;
    f->in_backend = may_be_in_backend(f);
    look->at = ss_topk_claims(f) ? CLAIMED : sample ? SAMPLED : SCANNED;
    return ss_topk_claims(f) ? ss_topk_select(f) : sample ? start_sample(look) : start_scan(f);
}

static enum ss_span look_span(const struct ss_feedback *f)
{
    return ss_topk_claims(f) ? SS_SPAN_SELECT : SS_SPAN_SCAN;
}

static void leave_input(struct ss_look *look)
{
    struct ss_feedback *f = look->f;
    struct ss_exchange *x = &f->c.x;
    const double seconds = ss_span_end(x, look_span(f), look->begin) - look->begin;
    const uint64_t n = f->host.done ? f->select_n : f->c.in_n;

    f->c.part_max = largest_part(f);
    if (n >= 4096 && !look->sampled)
        book_cost(f, seconds / (double)n);
    look->at = EXTRAS;
}

static int step_look(struct ss_look *look)
{
    struct ss_feedback *f = look->f;

    switch (look->at) {
    case RESERVE:
        look->at = INPUT;
        return reserve(f);
    case INPUT:
        return start_input(look);
    case SAMPLED:
        look->sampled = sampled_dense(f);
        if (look->sampled) {
            leave_input(look);
            return SS_OK;
        }
        look->at = SCANNED;
        return start_scan(f);
    case SCANNED:
        if (scan_again(f)) {
            look->at = RESCANNED;
            return start_second(look);
        }
        leave_input(look);
        return SS_OK;
    case RESCANNED:
        f->c.own.nnz += look->second.stored;
        leave_input(look);
        return SS_OK;
    case CLAIMED:
        ss_topk_selected(f);
        look->at = SURVEYED;
        if (f->c.own.in_backend)
            ss_topk_survey(f);
        return SS_OK;
    case SURVEYED:
        if (f->c.own.in_backend)
            ss_topk_surveyed(f);
        leave_input(look);
        return SS_OK;
    case EXTRAS:
        look->at = JOINS;
        ss_look_start(f);
        if (f->comm->settings->observe)
            ss_observe_sample(look);
        return SS_OK;
    default:
        look->at = SEEN;
        ss_look_on(f);
        return SS_OK;
    }
}

void ss_call_look_start(struct ss_look *look, enum ss_look_from from)
{
    struct ss_exchange *x = &look->f->c.x;
    static const int first[] = {
        [SS_LOOK_ALL] = RESERVE, [SS_LOOK_INPUT] = INPUT, [SS_LOOK_EXTRAS] = EXTRAS};

    look->at = first[from];
    look->status = SS_OK;
    look->made_way = false;
    if (from == SS_LOOK_EXTRAS || look->f->state == SS_TOPK_RESTS || ss_host_sum_due(look->f))
        return;
    ss_trace_end(x, look_span(look->f)); /* begins anew if memory was short */
    look->begin = ss_span_begin(x, look_span(look->f));
}

static bool make_way(struct ss_feedback *f)
{
    struct ss_work *work = f->c.x.work;
    bool kept = ss_work_kept(work) > 0, idle = ss_in_flight_drop_idle(f->comm);

    ss_work_drop(work);
    return kept || idle;
}

/* Ends a look that failed. If memory is short, work space of other collectives is freed once and
 * the look begins anew. If it fails for good, the vote still gets the facts about the tensor. */
static void look_failed(struct ss_look *look, int status)
{
    if (status == SS_ERR_MEMORY && !look->made_way && make_way(look->f)) {
        ss_call_look_start(look, SS_LOOK_ALL);
        look->made_way = true;
        return;
    }
    look->status = status;
    if (look->at == CLAIMED && status != SS_ERR_MEMORY)
        ss_topk_lost(look->f);
    if (look->at >= EXTRAS)
        ss_look_forget(look->f);
    look->at = look->at < EXTRAS ? EXTRAS : SEEN;
}

void ss_call_look_over(struct ss_look *look, int status)
{
    if (look->at != CLAIMED)
        return;
    if (status == SS_OK)
        ss_topk_selected(look->f);
    else
        ss_topk_lost(look->f);
}

int ss_call_look(struct ss_look *look)
{
    struct ss_exchange *x = &look->f->c.x;
    int status = ss_exchange_poll(x);

    while (status != SS_PENDING && look->at != SEEN) {
        if (status == SS_OK)
            status = step_look(look);
        if (status < 0)
            look_failed(look, status);
        status = ss_exchange_poll(x);
    }
    if (status != SS_PENDING && look->status == SS_OK)
        look->status = status;
    return status == SS_PENDING ? SS_PENDING : look->status;
}
