/* A call that begins, and what the kinds of one differ in: whose elements the input is, which of
 * the result are written where, what the ranks agree on beside the lane, and the algorithms. */
#include <string.h>

#include "core/call/call_impl.h"

static void init_slices(struct ss_feedback *f, const struct ss_collective *what)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    int rank = x->t->rank;

    x->type = x->esize == 4 ? SS_I32 : SS_I64; /* words: any bit that is set counts */
    c->op = SS_BOR;
    f->key.n = what->n * x->esize;
    f->key.type = SS_I32;
    f->key.op = SS_BOR;
    if (what->cannot)
        return;
    c->in_first = ss_coll_part(c, rank);
    c->in_n = ss_coll_part(c, rank + 1) - c->in_first;
    if (!what->in)
        c->in = ss_at_const(what->out, (size_t)c->in_first, x->esize);
}

static void init_part(struct ss_coll *c)
{
    int rank = c->x.t->rank;

    c->out_first = ss_coll_part(c, rank);
    c->out_n = ss_coll_part(c, rank + 1) - c->out_first;
}

static void init_kind(struct ss_feedback *f, const struct ss_collective *what)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;

    c->kind = what->kind;
    x->type = what->type;
    c->op = what->op;
    x->esize = ss_type_size(what->type);
    x->n = c->in_n = c->out_n = what->n;
    c->in = what->in ? what->in : what->out;
    c->in_place = what->in == NULL;
    c->out = what->out;
    f->cannot = what->cannot;
    f->key = (struct ss_lane_key){.kind = what->kind,
                                  .type = what->type,
                                  .op = what->op,
                                  .n = what->n,
                                  .window = what->window};
    switch (what->kind) {
    case SS_KIND_ALLGATHER:
    case SS_KIND_REDUCE_SCATTER:
        c->bounds = what->parts;
        c->each = what->n / (uint64_t)x->t->size;
        if (what->kind == SS_KIND_ALLGATHER)
            init_slices(f, what);
        else if (!what->cannot)
            init_part(c);
        break;
    case SS_KIND_REDUCE:
        c->root = f->key.root = what->root;
        if (x->t->rank != what->root && !what->cannot)
            init_part(c);
        break;
    default:
        break;
    }
}

/* Windows of larger calls are exact. */
bool ss_kind_has_tensor(const struct ss_feedback *f)
{
    return f->comm->tensors && f->lane->number < SS_LANES && f->c.kind == SS_KIND_ALLREDUCE &&
           f->key.window == 0 && f->c.x.n < SS_WINDOW;
}

uint64_t ss_kind_form(const struct ss_feedback *f)
{
    const struct ss_coll *c = &f->c;
    const struct ss_exchange *x = &c->x;
    uint64_t h = ss_mix(c->kind, x->esize);

    if (f->cannot || (c->kind != SS_KIND_ALLGATHER && c->kind != SS_KIND_REDUCE_SCATTER))
        return 0;
    for (int p = 1; p < x->t->size; p++)
        h = ss_mix(h, ss_coll_part(c, p) * x->esize);
    return h;
}

double ss_kind_density_max(const struct ss_feedback *f)
{
    const struct ss_exchange *x = &f->c.x;
    double n = ss_topk_elements(f), density;

    if (f->c.kind == SS_KIND_ALLGATHER)
        n /= x->t->size;
    density = (double)f->vote.ballot.nnz_max / n;
    return density < 1 ? density : 1;
}

/* Where a rank that is not the root reduces its part. */
void ss_kind_prepare(struct ss_feedback *f)
{
    struct ss_coll *c = &f->c;
    struct ss_exchange *x = &c->x;
    struct ss_buf *part = &x->work->val[1];

    if (c->kind != SS_KIND_REDUCE || x->t->rank == c->root)
        return;
    if (ss_buf_reserve_voted(part, f->comm->mem, (size_t)c->out_n * x->esize) != SS_OK)
        ss_fail(x, SS_ERR_MEMORY, x->t->rank, SS_PHASE_REDUCE);
    c->out = part->data;
    x->backend = &ss_host; /* the input has been seen */
}

/* This rank has all of the result. */
static bool has_all(const struct ss_coll *c)
{
    return c->kind == SS_KIND_ALLREDUCE || (c->kind == SS_KIND_REDUCE && c->x.t->rank == c->root);
}

/* It does, but the algorithm did not see how many entries there are. */
static bool uncounted(const struct ss_coll *c)
{
    return has_all(c) && (c->result_nnz == 0 || c->dense_seen);
}

/* Sets the elements that are counted to estimate the entries of the result: this rank's part, or
 * all if entries crowd in some parts. If a whole call has sent all elements, one block of the part:
 * another one in each call, since the zeros of a gradient may lie together. */
static void counted(const struct ss_coll *c, uint64_t *lo, uint64_t *hi)
{
    enum { BLOCK = 16384 };
    const bool all = c->voted.balanced;

    *lo = all ? 0 : ss_coll_part(c, c->x.t->rank);
    *hi = all ? c->x.n : ss_coll_part(c, c->x.t->rank + 1);
    if (c->whole.in && *hi - *lo > BLOCK) {
        const uint64_t blocks = (*hi - *lo + BLOCK - 1) / BLOCK;
        *lo += ss_mix(ss_mix(1, c->x.number), 0) % blocks * BLOCK;
        *hi = *hi - *lo < BLOCK ? *hi : *lo + BLOCK;
    }
}

void ss_kind_count(struct ss_coll *c, struct ss_scan *own)
{
    struct ss_exchange *x = &c->x;
    uint64_t lo, hi;

    counted(c, &lo, &hi);
    if (uncounted(c) && lo < hi)
        x->ticket = x->backend->ops->scan(x->backend, x->type, SS_SUM, ss_out_at(c, lo),
                                          (size_t)(hi - lo), 0, NULL, NULL, 0, own);
}

uint64_t ss_kind_result(const struct ss_feedback *f, const struct ss_scan *own)
{
    const struct ss_coll *c = &f->c;
    uint64_t lo, hi;

    counted(c, &lo, &hi);
    if (c->kind == SS_KIND_ALLGATHER)
        return f->vote.ballot.nnz_sum;
    if (!uncounted(c))
        return has_all(c) ? c->result_nnz : 0;
    if (lo == hi)
        return 0;
    return (uint64_t)((double)own->nnz * (double)c->x.n / (double)(hi - lo));
}

void ss_call_init(struct ss_call *call, struct ss_comm *comm, const struct ss_collective *what)
{
    struct ss_feedback *f = &call->f;
    struct ss_exchange *x = &f->c.x;

    const unsigned slot = call->flight.slot;

    memset(call, 0, offsetof(struct ss_call, calibrate));
    f->c.state = call->state;
    f->comm = comm;
    call->flight.f = call->look.f = f;
    call->flight.slot = slot;
    f->nonblocking = comm->caller.nonblocking;
    call->wait.moves = comm->moves;
    call->wait.polls = comm->polls;
    call->not_finite = comm->t->not_finite;
    call->caller = comm->caller;
    call->number = call->caller.number > 0 ? call->caller.number : comm->starts + 1;
    if (comm->tensors)
        f->site = comm->caller.site;
    x->t = comm->t;
    x->work = &comm->works[slot];
    x->mem = comm->mem;
    x->backend = what->backend ? what->backend : &ss_host;
    x->coding = comm->settings->coding;
    f->c.kernels = ss_kernels();
    f->reported_n = what->n;
    f->reported_type = what->type;
    call->broken = what->broken;
    init_kind(f, what);
}
