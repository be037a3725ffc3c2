/* MERGE_SELECT=group: one threshold for the calls of a part, found over the concatenation of their
 * gradients and residuals (Shi et al., INFOCOM 2020, section IV). They are looked at when they
 * vote, not when they are posted. Which entries a rank claims is its own matter, so nothing is
 * agreed on: where the part is not whole when a rank votes, or holds others, each call is selected
 * from by its own threshold. */
#include <stdlib.h>

#include "core/call/group_impl.h"

/* The threshold belongs to the list of calls: others begin with one of their own. */
struct ss_group_threshold {
    struct ss_group_threshold *next;
    uint64_t members; /* hash of which they are */
    uint64_t part;    /* that used it last */
    struct ss_threshold threshold;
};

/* A call that is under way is of one of the last SS_MERGED parts. */
enum { KEPT_PARTS = 4 * SS_MERGED };

void ss_group_thresholds_free(struct ss_grouping *gs)
{
    struct ss_group_threshold *t = gs->thresholds, *next;

    for (; t; t = next) {
        next = t->next;
        free(t);
    }
    gs->thresholds = NULL;
}

static void drop_old(struct ss_grouping *gs)
{
    struct ss_group_threshold **link = &gs->thresholds, *t;

    while ((t = *link)) {
        if (t->part + KEPT_PARTS >= gs->part) {
            link = &t->next;
            continue;
        }
        *link = t->next;
        free(t);
    }
}

static uint64_t members_of(const struct ss_group *g)
{
    uint64_t h = g->count;

    for (unsigned i = 0; i < g->count; i++) {
        const struct ss_feedback *f = &g->members[i]->f;
        h = ss_mix(h, f->lane_number);
        h = ss_mix(h, f->tensor->label);
        h = ss_mix(h, ss_tensor_code(f->tensor));
        h = ss_mix(h, f->c.x.n);
    }
    return h;
}

/* NULL without memory. */
static struct ss_threshold *threshold_of(struct ss_grouping *gs, const struct ss_group *g)
{
    const uint64_t members = members_of(g);
    struct ss_group_threshold *t = gs->thresholds;

    while (t && t->members != members)
        t = t->next;
    if (!t) {
        drop_old(gs);
        if (!(t = calloc(1, sizeof *t)))
            return NULL;
        t->members = members;
        t->threshold.period = gs->comm->settings->tensors.threshold_period;
        t->next = gs->thresholds;
        gs->thresholds = t;
    }
    t->part = g->part;
    return &t->threshold;
}

/* Of the same type and density. */
static bool is_alike(const struct ss_call *a, const struct ss_call *b)
{
    uint64_t bucket;

    return a->f.c.x.type == b->f.c.x.type &&
           ss_topk_density(&a->f, &bucket) == ss_topk_density(&b->f, &bucket);
}

bool ss_group_selects(const struct ss_call *call)
{
    const struct ss_comm *comm = call->f.comm;

    return call->merges && comm->settings->merge_select && !call->alone && ss_topk_shares(&call->f);
}

static bool shares(const struct ss_group *g)
{
    if (g->count < 2)
        return false;
    for (unsigned i = 0; i < g->count; i++)
        if (!g->members[i]->unseen || !is_alike(g->members[0], g->members[i]))
            return false;
    return true;
}

/* Entries wanted of all. */
static size_t wanted_of(const struct ss_group *g)
{
    uint64_t bucket;
    size_t k = 0;

    for (unsigned i = 0; i < g->count; i++)
        k += ss_topk_wanted(&g->members[i]->f, &bucket);
    return k;
}

/* Once claimed, nothing may fail: all room is there before. */
static bool reserve(const struct ss_group *g, size_t k, struct ss_select_part *parts)
{
    for (unsigned i = 0; i < g->count; i++) {
        struct ss_call *m = g->members[i];
        if (ss_call_look_reserve(m) != SS_OK ||
            ss_topk_share(&m->f, ss_claim_limit(k), &parts[i]) != SS_OK)
            return false;
    }
    return true;
}

/* Seconds, by elements; the first call has been given all. */
static void share_seconds(const struct ss_group *g, double seconds)
{
    double n = 0;

    g->members[0]->f.c.x.spans.times.scan -= seconds;
    for (unsigned i = 0; i < g->count; i++)
        n += (double)g->members[i]->f.c.x.n;
    for (unsigned i = 0; i < g->count; i++) {
        struct ss_exchange *x = &g->members[i]->f.c.x;
        x->spans.times.scan += seconds * (double)x->n / n;
    }
}

static void select_together(struct ss_grouping *gs, const struct ss_group *g)
{
    struct ss_select_part *parts = gs->parts;
    struct ss_exchange *x = &g->members[0]->f.c.x;
    const size_t k = wanted_of(g);
    struct ss_threshold *t;

    if (!reserve(g, k, parts) || !(t = threshold_of(gs, g)))
        return;
    const double begin = ss_span_begin(x, SS_SPAN_SELECT);
    bool few = ss_threshold_select_parts(t, ss_selectors(), x->type, parts, g->count, k);
    share_seconds(g, ss_span_end(x, SS_SPAN_SELECT, begin) - begin);
    for (unsigned i = 0; i < g->count; i++)
        ss_topk_shared(&g->members[i]->f, &parts[i], t, few);
}

/* The host's place does everything at once. */
static void look(struct ss_call *call)
{
    struct ss_exchange *x = &call->f.c.x;

    if (!call->unseen)
        return;
    call->unseen = false;
    ss_call_look_start(call, call->f.shared ? SS_LOOK_INPUT : SS_LOOK_ALL);
    int status = ss_call_look(call);
    if (x->spans.trace) /* a look that failed */
        ss_spans_cut(&x->spans, ss_now(x));
    ss_group_posted(call);
    ss_ballot_fill(call, ss_ballot_flags(call, status));
}

void ss_group_look(struct ss_grouping *gs, const struct ss_group *g, bool whole)
{
    if (whole && shares(g))
        select_together(gs, g);
    for (unsigned i = 0; i < g->count; i++)
        look(g->members[i]);
}
