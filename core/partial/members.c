/* Tensors that have rounds: late gradients, claims, entries that are not finite. */
#include <stdlib.h>
#include <string.h>

#include "core/partial/rounds_impl.h"
#include "core/tensor/residual.h"

struct ss_member *ss_member_of(const struct ss_rounds *r, const struct ss_tensor *tensor)
{
    for (struct ss_member *m = r->members; m; m = m->next)
        if (m->tensor == tensor)
            return m;
    return NULL;
}

struct ss_member *ss_member_coded(const struct ss_rounds *r, uint64_t code)
{
    for (struct ss_member *m = r->members; m; m = m->next)
        if (m->code == code)
            return m;
    return NULL;
}

static void strays_free(struct ss_strays *s)
{
    ss_buf_free(&s->idx);
    ss_buf_free(&s->val);
    s->count = 0;
}

/* ---- entries that are not finite ---- */

static bool is_finite(enum ss_type type, const void *v, size_t i)
{
    return ss_magnitude_at(type, v, i) < ss_magnitude_none(type);
}

static int reserve(struct ss_rounds *r, struct ss_strays *s, size_t count, size_t esize)
{
    if (ss_buf_reserve(&s->idx, r->mem, count * sizeof(uint32_t)) == SS_OK &&
        ss_buf_reserve(&s->val, r->mem, count * esize) == SS_OK)
        return SS_OK;
    strays_free(s);
    return SS_ERR_MEMORY;
}

static int collect(struct ss_rounds *r, const struct ss_tensor *t, const void *g,
                   struct ss_strays *s)
{
    size_t n = (size_t)t->n, esize = ss_type_size(t->type);
    size_t count = ss_vector_not_finite(t->type, g, NULL, n);

    if (count == 0)
        return SS_OK;
    if (reserve(r, s, count, esize) != SS_OK)
        return SS_ERR_MEMORY;
    for (size_t i = 0; i < n && s->count < count; i++) {
        if (is_finite(t->type, g, i))
            continue;
        ((uint32_t *)s->idx.data)[s->count] = (uint32_t)i;
        memcpy(ss_at(s->val.data, s->count++, esize), ss_at_const(g, i, esize), esize);
    }
    return SS_OK;
}

static size_t merge(enum ss_type type, const struct ss_strays *a, const struct ss_strays *b,
                    struct ss_strays *into)
{
    return ss_kernels()->merge(type, SS_SUM, a->idx.data, a->val.data, a->count, b->idx.data,
                               b->val.data, b->count, into->idx.data, into->val.data);
}

/* Adds the strays of g to those that wait. */
static int add_strays(struct ss_rounds *r, struct ss_member *m, const void *g)
{
    const struct ss_tensor *t = m->tensor;
    struct ss_strays more = {0}, all = {0};
    int status = collect(r, t, g, &more);

    if (status != SS_OK || more.count == 0)
        return status;
    if (m->strays.count > 0) {
        status = reserve(r, &all, m->strays.count + more.count, ss_type_size(t->type));
        if (status == SS_OK)
            all.count = merge(t->type, &m->strays, &more, &all);
        strays_free(&more);
        more = all;
    }
    if (status == SS_OK) {
        strays_free(&m->strays);
        m->strays = more;
    }
    return status;
}

/* Mixes the strays with the claims for sending; the claims stay where they are, in case they have
 * to return. */
static int mix_strays(struct ss_rounds *r, struct ss_member *m)
{
    struct ss_coll *c = &r->c;
    const struct ss_strays *s = &m->strays;
    size_t most = s->count + c->own.nnz, esize = ss_type_size(m->tensor->type);

    if (s->count == 0)
        return SS_OK;
    if (ss_buf_reserve(&r->mixed_idx, r->mem, most * sizeof(uint32_t)) != SS_OK ||
        ss_buf_reserve(&r->mixed_val, r->mem, most * esize) != SS_OK)
        return SS_ERR_MEMORY;
    c->own.nnz =
        c->kernels->merge(m->tensor->type, SS_SUM, c->own.idx, c->own.val, c->own.nnz, s->idx.data,
                          s->val.data, s->count, r->mixed_idx.data, r->mixed_val.data);
    c->own.idx = r->mixed_idx.data;
    c->own.val = r->mixed_val.data;
    c->own.capacity = most;
    strays_free(&m->strays);
    return SS_OK;
}

/* ---- late gradients ---- */

static void measure(struct ss_tensor *t)
{
    double square = ss_residual_square(t);

    if (ss_backend_wait(&ss_host, ss_residual_measure(t, &square)) == SS_OK)
        ss_residual_measured(t, square);
}

/* Adds the finite elements of g from `first` on. */
static void add(struct ss_tensor *t, const void *g, size_t first)
{
    size_t esize = ss_type_size(t->type);

    ss_host.ops->add(&ss_host, t->type, ss_residual_at(t, first), ss_at_const(g, first, esize),
                     (size_t)t->n - first);
}

int ss_member_accumulate(struct ss_rounds *r, struct ss_member *m, const void *g)
{
    int status = add_strays(r, m, g);

    add(m->tensor, g, 0);
    measure(m->tensor);
    if (m->late <= r->s.staleness)
        m->late_calls[m->late] = m->calls;
    m->late++;
    r->stats.sum.late++;
    return status;
}

void ss_member_selected(struct ss_rounds *r, struct ss_member *m)
{
    for (uint64_t i = 0; i < m->late && i <= r->s.staleness; i++) {
        uint32_t stale = m->rounds - m->late_calls[i];

        r->stats.sum.stale[stale < SS_STALENESS_SEEN ? stale : SS_STALENESS_SEEN - 1]++;
    }
    m->late = 0;
}

/* ---- claims ---- */

/* Selects into work.own. */
static void select_from(struct ss_rounds *r, struct ss_member *m, const void *g,
                        struct ss_selection *seen)
{
    struct ss_tensor *t = m->tensor;
    struct ss_coll *c = &r->c;
    void *residual = ss_residual_at(t, 0);
    size_t n = (size_t)t->n;
    bool few = false;
    ss_ticket ticket;

    if (m->bucket > 0)
        ticket = ss_host.ops->claim_buckets(&ss_host, t->type, g, residual, n, 0, m->k, m->bucket,
                                            c->own.idx, c->own.val, seen);
    else
        ticket = ss_host.ops->claim(&ss_host, &t->threshold, t->type, g, residual, n, 0, m->k,
                                    c->own.idx, c->own.val, seen, &few);
    ss_backend_wait(&ss_host, ticket);
    if (few)
        ss_threshold_reevaluate(&t->threshold);
}

/* Undoes a selection after an entry was not finite: the claims return, and all finite entries are
 * in the residual. */
static int take_apart(struct ss_rounds *r, struct ss_member *m, const void *g,
                      const struct ss_selection *seen)
{
    ss_residual_add(m->tensor, r->c.own.idx, r->c.own.val, seen->claimed);
    if (seen->stop < (size_t)m->tensor->n)
        add(m->tensor, g, seen->stop);
    return add_strays(r, m, g);
}

static size_t limit(const struct ss_member *m)
{
    uint64_t n = m->tensor->n;

    return m->bucket > 0 ? m->k * (size_t)((n + m->bucket - 1) / m->bucket) : ss_claim_limit(m->k);
}

int ss_member_claim(struct ss_rounds *r, struct ss_member *m, const void *g)
{
    struct ss_coll *c = &r->c;
    struct ss_tensor *t = m->tensor;
    struct ss_threshold before = t->threshold;
    struct ss_selection seen = {0};
    int status = SS_OK;

    c->own = (struct ss_stream){0};
    c->claims.own_error = NULL;
    r->claimed = 0;
    c->x.work = &r->work;
    c->x.mem = r->mem;
    c->x.esize = ss_type_size(t->type);
    c->kernels = ss_kernels();
    if (ss_stream_reserve_own(&c->x, &c->own, limit(m), 0) != SS_OK)
        return SS_ERR_MEMORY;
    select_from(r, m, g, &seen);
    if (g && seen.not_finite > 0) {
        status = take_apart(r, m, g, &seen);
        t->threshold = before;
        select_from(r, m, NULL, &seen);
    }
    c->own.nnz = r->claimed = seen.claimed;
    ss_residual_claimed(t, seen.sum_square - ss_vector_square(t->type, c->own.val, seen.claimed));
    return status == SS_OK ? mix_strays(r, m) : status;
}

void ss_member_sent(struct ss_rounds *r)
{
    const struct ss_coll *c = &r->c;

    if (r->member && c->claims.own_error)
        ss_residual_add(r->member->tensor, c->own.idx, c->claims.own_error, c->own.nnz);
}

/* Returns the claims. Values are rounded in place, except those that travel with strays. */
void ss_member_return(struct ss_rounds *r, struct ss_member *m)
{
    const struct ss_coll *c = &r->c;
    bool in_place = c->claims.own_error && c->own.val == r->work.own_val.data;

    if (r->claimed > 0)
        ss_residual_return(m->tensor, r->work.own_idx.data, r->work.own_val.data, r->claimed);
    if (r->claimed > 0 && in_place)
        ss_residual_add(m->tensor, c->own.idx, c->claims.own_error, r->claimed);
    r->claimed = 0;
}

/* ---- admission ---- */

/* Makes room for the landing, with zeros in its new part. The landing is empty when it grows: the
 * tensor that needs it has no result yet, and the calls of all others are over. */
static int reserve_landing(struct ss_rounds *r, struct ss_mem *mem, size_t bytes)
{
    size_t before = r->landing.size;

    if (bytes <= before)
        return SS_OK;
    if (ss_buf_grow(&r->landing, mem, bytes, before) != SS_OK)
        return SS_ERR_MEMORY;
    memset((char *)r->landing.data + before, 0, r->landing.size - before);
    return SS_OK;
}

int ss_member_room(struct ss_rounds *r, const struct ss_member *m, struct ss_mem *mem)
{
    struct ss_coll *c = &r->c;
    struct ss_exchange *x = &c->x;

    x->t = r->t;
    x->work = &r->work;
    x->mem = mem;
    x->backend = &ss_host;
    x->n = c->out_n = m->n;
    x->esize = ss_type_size(m->type);
    x->type = SS_F64; /* the type of messages of rounds that this rank does not know */
    if (ss_in_reserve(x, r->s.rounding.values != SS_VALUES_SAME) != SS_OK ||
        ss_fill_reserve(c) != SS_OK)
        return SS_ERR_MEMORY;
    return reserve_landing(r, mem, (size_t)m->n * x->esize);
}

/* Makes room for a round of the tensor, whatever its ranks send. */
static int make_room(struct ss_rounds *r, const struct ss_member *m)
{
    if (ss_member_room(r, m, r->mem) != SS_OK)
        return SS_ERR_MEMORY;
    return ss_stream_reserve_own(&r->c.x, &r->c.own, limit(m), 0);
}

static struct ss_member *make(const struct ss_rounds *r)
{
    struct ss_member *m = calloc(1, sizeof *m);
    size_t most = (size_t)r->s.staleness;

    if (!m)
        return NULL;
    m->late_calls = calloc(most + 1, sizeof *m->late_calls);
    m->queue = calloc(most, sizeof *m->queue);
    if (m->late_calls && m->queue)
        return m;
    free(m->late_calls);
    free(m->queue);
    free(m);
    return NULL;
}

/* Updates a tensor that is admitted already. */
static int admit_again(struct ss_rounds *r, struct ss_member *m, uint64_t code, size_t k,
                       size_t bucket)
{
    if (m->code != code) { /* another tensor at this position */
        strays_free(&m->strays);
        m->late = 0;
    }
    m->n = m->tensor->n;
    m->type = m->tensor->type;
    m->code = code;
    m->k = k;
    m->bucket = bucket;
    return make_room(r, m);
}

int ss_rounds_admit(struct ss_rounds *r, struct ss_tensor *tensor, uint64_t code, size_t k,
                    size_t bucket)
{
    struct ss_member *m = ss_member_of(r, tensor);

    if (!ss_residual_there(tensor) || tensor->residual.backend != &ss_host ||
        r->stage != SS_ROUND_NONE)
        return SS_ERR_MEMORY;
    if (m)
        return admit_again(r, m, code, k, bucket);
    m = make(r);
    if (!m)
        return SS_ERR_MEMORY;
    m->tensor = tensor;
    m->next = r->members;
    r->members = m;
    if (admit_again(r, m, code, k, bucket) == SS_OK)
        return SS_OK;
    ss_member_free(r, m);
    return SS_ERR_MEMORY;
}

void ss_member_free(struct ss_rounds *r, struct ss_member *m)
{
    struct ss_member **link = &r->members;

    while (*link != m)
        link = &(*link)->next;
    *link = m->next;
    ss_outcomes_free(r, m);
    strays_free(&m->strays);
    free(m->late_calls);
    free(m->queue);
    free(m);
}

void ss_rounds_open(struct ss_rounds *r, const struct ss_tensor *tensor, uint64_t calls)
{
    struct ss_member *m = ss_member_of(r, tensor);

    if (!m)
        return;
    m->open = calls;
    m->tensor->has_rounds = calls > 0;
}

bool ss_rounds_next(struct ss_rounds *r, const struct ss_tensor *tensor)
{
    struct ss_member *m = ss_member_of(r, tensor);

    if (!m || m->open == 0 || !tensor->has_rounds || !tensor->known)
        return false;
    m->open--;
    m->tensor->has_rounds = m->open > 0; /* a call holds it until that is over */
    return true;
}

uint64_t ss_rounds_late(const struct ss_rounds *r, const struct ss_tensor *tensor)
{
    const struct ss_member *m = ss_member_of(r, tensor);

    return m ? m->late : 0;
}

void ss_rounds_selected(struct ss_rounds *r, const struct ss_tensor *tensor)
{
    struct ss_member *m = ss_member_of(r, tensor);

    if (m) {
        m->rounds = ++m->calls;
        ss_member_selected(r, m);
    }
}
