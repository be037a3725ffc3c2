/* The exchange of merged calls. The concatenation of their streams goes through one algorithm. Its
 * result lies in segments, one in the result of each call. */
#include <string.h>

#include "core/call/group_impl.h"
#include "core/coll/algorithms.h"

/* ---- before the vote ---- */

int ss_group_reserve(struct ss_group *g)
{
    struct ss_coll *c = &g->c;
    struct ss_exchange *x = &c->x;
    uint64_t n = 0;

    *x = g->members[0]->f.c.x;
    for (unsigned i = 0; i < g->count; i++) {
        const struct ss_exchange *m = &g->members[i]->f.c.x;
        n += m->n;
        x->type = m->esize > x->esize ? m->type : x->type;
        x->esize = ss_type_size(x->type);
    }
    ss_segments_init(&g->backend, g->segments, 0);
    x->backend = &g->backend.backend;
    x->work = &g->work;
    x->n = c->out_n = n < SS_WINDOW ? n : SS_WINDOW - 1;
    x->bytes_sent = x->bytes_inside = 0;
    if (g->members[0]->member.plans && ss_word_exchange_reserve(x) != SS_OK)
        return SS_ERR_MEMORY;
    return ss_in_reserve(x, false) == SS_OK && ss_fill_reserve(c) == SS_OK ? SS_OK : SS_ERR_MEMORY;
}

/* ---- calls that merge, the same on all ranks ---- */

/* Returns true if the bits of an element do not depend on its neighbours, since it is not rounded
 * in a bucket. */
static bool is_plain(const struct ss_feedback *f)
{
    return !ss_topk_claims(f) || ss_topk_values(f) == SS_VALUES_SAME;
}

static bool fits(const struct ss_group *g, const struct ss_call *call)
{
    const struct ss_exchange *x = &call->f.c.x;

    return call->algorithm == g->algorithm && x->type == g->c.x.type &&
           g->c.x.n + x->n < SS_WINDOW &&
           g->memory + call->member.memory <= (double)call->f.vote.ballot.memory_min;
}

bool ss_group_takes(struct ss_group *g, const struct ss_call *call)
{
    const struct ss_exchange *x = &call->f.c.x;

    if (g->voted < 2 || (call->f.vote.ballot.flags & SS_VOTE_APART) ||
        !call->algorithm->elementwise || !is_plain(&call->f))
        return false;
    if (g->merged == 0) {
        g->first = call;
        g->algorithm = call->algorithm;
        g->c.x.type = x->type;
        g->c.x.n = 0;
        g->memory = 0;
    } else if (!fits(g, call)) {
        return false;
    }
    g->segments[g->merged++] =
        (struct ss_segment){.at = call->f.c.out, .first = g->c.x.n, .n = x->n};
    g->c.x.n += x->n;
    g->memory += call->member.memory;
    return true;
}

/* ---- its begin ---- */

static void init(struct ss_group *g)
{
    const struct ss_coll *like = &g->first->f.c;
    struct ss_coll *c = &g->c;
    struct ss_exchange *x = &c->x;
    uint64_t n = x->n;

    memset(c, 0, sizeof *c);
    memset(g->algorithm_state, 0, g->algorithm->state);
    memset(g->before, 0, sizeof g->before);
    ss_segments_init(&g->backend, g->segments, g->merged);
    c->kind = like->kind;
    c->op = like->op;
    c->kernels = like->kernels;
    c->state = g->algorithm_state;
    c->out = g->backend.base;
    c->in_n = c->out_n = n;
    c->voted.same_state = true;
    x->t = like->x.t;
    x->work = &g->work;
    x->mem = like->x.mem;
    x->backend = &g->backend.backend;
    x->coding = like->x.coding;
    x->type = like->x.type;
    x->esize = like->x.esize;
    x->n = n;
    x->number = like->x.number;
}

/* Joins the entries that the calls have claimed or scanned, one after the other. */
static void append_streams(struct ss_group *g, size_t entries)
{
    struct ss_coll *c = &g->c;
    struct ss_work *w = &g->work;
    unsigned merged = 0;

    if (ss_buf_reserve_voted(&w->own_idx, c->x.mem, entries * sizeof(uint32_t)) != SS_OK ||
        ss_buf_reserve_voted(&w->own_val, c->x.mem, entries * c->x.esize) != SS_OK) {
        ss_fail(&c->x, SS_ERR_MEMORY, c->x.t->rank, SS_PHASE_REDUCE);
        return;
    }
    c->own.idx = w->own_idx.data;
    c->own.val = w->own_val.data;
    c->own.capacity = entries;
    for (unsigned i = 0; i < g->voted; i++) {
        if (!g->members[i])
            continue;
        const struct ss_stream *s = &g->members[i]->f.c.own;
        g->before[i] = c->own.nnz + merged;
        uint32_t base = (uint32_t)g->segments[merged++].first;
        for (size_t j = 0; j < s->nnz; j++)
            c->own.idx[c->own.nnz + j] = s->idx[j] + base;
        if (s->nnz > 0)
            memcpy(ss_at(c->own.val, c->own.nnz, c->x.esize), s->val, s->nnz * c->x.esize);
        c->own.nnz += s->nnz;
    }
}

bool ss_group_start(struct ss_group *g)
{
    struct ss_coll *c = &g->c;
    size_t entries = 0;

    if (g->merged < 2)
        return false;
    init(g);
    for (unsigned i = 0; i < g->voted; i++) {
        const struct ss_call *m = g->members[i];
        if (!m)
            continue;
        entries += m->f.c.own.nnz;
        c->voted.nnz_sum += m->f.vote.ballot.nnz_sum;
        c->voted.nnz_max += m->f.vote.ballot.nnz_max;
        c->voted.k_max += m->f.vote.ballot.k_max;
        if (m->f.c.x.failed < 0)
            ss_fail(&c->x, m->f.c.x.failed, m->f.c.x.failed_peer, m->f.c.x.failed_phase);
    }
    append_streams(g, entries);
    ss_fill_start(c, false);
    g->state = SS_GROUP_RUNNING;
    return true;
}

/* ---- until its end ---- */

static bool algorithm_ends(struct ss_group *g)
{
    struct ss_coll *c = &g->c;

    if (g->algorithm->step(c) == SS_OK)
        return true;
    if (!c->x.moved && c->x.failed == 0)
        ss_fill_idle(c);
    return false;
}

void ss_group_step(struct ss_group *g, struct ss_exchange *x)
{
    struct ss_coll *c = &g->c;

    c->x.moved = false;
    if (g->state == SS_GROUP_RUNNING && algorithm_ends(g)) {
        if (c->x.failed == 0)
            ss_fill_range(c, 0, c->out_n);
        g->state = SS_GROUP_DRAINING;
        c->x.moved = true;
    }
    if (g->state == SS_GROUP_DRAINING && ss_sends_reap(&c->x) == SS_OK) {
        g->state = SS_GROUP_OVER;
        c->x.moved = true;
    }
    x->moved = x->moved || c->x.moved;
}

/* Returns the share of `total` of `own` entries from `before` on, of `all`. Each call counts as one
 * more entry. The shares of all calls add up to `total`. */
static uint64_t part_of(uint64_t total, uint64_t before, uint64_t own, uint64_t all)
{
    return (uint64_t)((double)total * (double)(before + own) / (double)all) -
           (uint64_t)((double)total * (double)before / (double)all);
}

void ss_group_share(const struct ss_group *g, unsigned member, struct ss_coll *c)
{
    const struct ss_exchange *merged = &g->c.x;
    struct ss_exchange *x = &c->x;
    uint64_t before = g->before[member], own = c->own.nnz + 1;
    uint64_t all = g->c.own.nnz + g->merged;
    double share = (double)own / (double)all;

    if (merged->failed < 0)
        ss_fail(x, merged->failed, merged->failed_peer, merged->failed_phase);
    x->bytes_sent += part_of(merged->bytes_sent, before, own, all);
    x->bytes_inside += part_of(merged->bytes_inside, before, own, all);
    x->spans.times.merge += share * merged->spans.times.merge;
    x->spans.times.coding += share * merged->spans.times.coding;
    c->fill.left = 0; /* the result is written */
}
