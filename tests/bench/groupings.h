/* Groupings of the calls of a step, as in the OMGS-SGD paper (Shi et al., INFOCOM 2020): its timing
 * model, its Algorithm 1 as printed, the groupings that it compares, and the earliest end of all
 * groupings. Selection may cost n log n as in the paper (eq. 10), which core/plan/merging.h does
 * not have: a group is then dearer than its parts. */
#ifndef TESTS_BENCH_GROUPINGS_H
#define TESTS_BENCH_GROUPINGS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/plan/merging.h"

enum { MOST_CALLS = 512 };

struct grouping_costs {
    double element, group, exchange, entry; /* as struct ss_merging_costs */
    double sort;                            /* selection, per n log2 n of a group of n elements */
};

struct grouping_step {
    const struct ss_merging_call *calls;
    uint32_t count;
    struct grouping_costs costs;
};

struct grouping {
    uint32_t groups, ends[MOST_CALLS]; /* one past the last call of each group */
    double seconds;                    /* to the end of the last exchange: eq. 17 */
    double exposed;                    /* communication after the computation: eq. 9 */
};

/* Seconds of selection from a group, its handling included: eq. 10. */
static inline double grouping_select(const struct grouping_costs *c, double elements)
{
    return c->group + c->element * elements +
           (c->sort > 0 && elements > 1 ? c->sort * elements * log2(elements) : 0);
}

/* Equations 5 to 9. */
static inline void grouping_evaluate(const struct grouping_step *step, struct grouping *g)
{
    double computation = 0, arrived = 0, end = 0;

    for (uint32_t i = 0, k = 0; k < g->groups; k++) {
        double elements = 0, entries = 0;
        for (; i < g->ends[k]; i++) {
            elements += (double)step->calls[i].elements;
            entries += (double)step->calls[i].entries;
        }
        computation +=
            step->calls[i - 1].arrival - arrived + grouping_select(&step->costs, elements);
        arrived = step->calls[i - 1].arrival;
        end = fmax(computation, end) + step->costs.exchange + step->costs.entry * entries;
    }
    g->seconds = end;
    g->exposed = end - computation;
}

/* Groups grow until they have so many elements (MGS-SGD); 0: each call alone (LAGS-SGD);
 * UINT64_MAX: one group (TopK-SGD). */
static inline void grouping_by_threshold(const struct grouping_step *step, uint64_t threshold,
                                         struct grouping *g)
{
    uint64_t elements = 0;

    g->groups = 0;
    for (uint32_t i = 0; i < step->count; i++) {
        elements += step->calls[i].elements;
        if (elements < threshold && i + 1 < step->count)
            continue;
        g->ends[g->groups++] = i + 1;
        elements = 0;
    }
    grouping_evaluate(step, g);
}

/* ---- Algorithm 1 ---- */

/* The layer at hand with those merged into it. The paper's d is elements and entries here. */
struct grouping_layer {
    double tau_b, t_b; /* begin of its gradients' computation, how long that takes */
    double elements, entries;
};

static inline double grouping_exchange(const struct grouping_costs *c,
                                       const struct grouping_layer *l)
{
    return c->exchange + c->entry * l->entries;
}

/* Call i alone; it begins where the layer before left off. */
static inline struct grouping_layer grouping_layer_of(const struct grouping_step *step, uint32_t i,
                                                      double tau_b)
{
    const struct ss_merging_call *call = &step->calls[i];

    return (struct grouping_layer){.tau_b = tau_b,
                                   .t_b = call->arrival - (i > 0 ? call[-1].arrival : 0),
                                   .elements = (double)call->elements,
                                   .entries = (double)call->entries};
}

/* Lines 37 to 41: eq. 13 to 15. */
static inline struct grouping_layer grouping_merge(const struct grouping_layer *l,
                                                   const struct grouping_layer *next)
{
    return (struct grouping_layer){.tau_b = l->tau_b,
                                   .t_b = l->t_b + next->t_b,
                                   .elements = l->elements + next->elements,
                                   .entries = l->entries + next->entries};
}

/* Lines 5 to 8; tau_c: when the exchange of l would begin. */
static inline bool grouping_merges(const struct grouping_costs *c, const struct grouping_layer *l,
                                   const struct grouping_layer *next, double tau_c)
{
    const double mu = l->tau_b + l->t_b + next->t_b;
    const bool q3 = mu + grouping_select(c, l->elements) + grouping_select(c, next->elements) <
                    tau_c + grouping_exchange(c, l);
    const bool q5 = tau_c + c->exchange > mu + grouping_select(c, l->elements + next->elements);

    return q3 && q5;
}

static inline void grouping_algorithm1(const struct grouping_step *step, struct grouping *g)
{
    const struct grouping_costs *c = &step->costs;
    struct grouping_layer l = grouping_layer_of(step, 0, 0);
    double exchanged = 0; /* tau_c + t_c of the layer before */

    g->groups = 0;
    for (uint32_t i = 0; i < step->count; i++) {
        double selected = l.tau_b + l.t_b + grouping_select(c, l.elements);
        double tau_c = fmax(exchanged, selected);
        if (i + 1 < step->count) {
            struct grouping_layer next = grouping_layer_of(step, i + 1, selected);
            if (grouping_merges(c, &l, &next, tau_c)) {
                l = grouping_merge(&l, &next);
                continue;
            }
            exchanged = tau_c + grouping_exchange(c, &l);
            l = next;
        }
        g->ends[g->groups++] = i + 1;
    }
    grouping_evaluate(step, g);
}

/* ---- the earliest end ---- */

/* Of all 2^(count - 1) groupings, for a few calls: bit i of the mask ends a group after call i. */
static inline void grouping_exhaustive(const struct grouping_step *step, struct grouping *best)
{
    struct grouping g;

    best->seconds = INFINITY;
    for (uint32_t mask = 0; mask < 1u << (step->count - 1); mask++) {
        g.groups = 0;
        for (uint32_t i = 0; i < step->count; i++)
            if (i + 1 == step->count || mask >> i & 1)
                g.ends[g.groups++] = i + 1;
        grouping_evaluate(step, &g);
        if (g.seconds < best->seconds)
            *best = g;
    }
}

/* A way to put the first calls into groups matters to the calls behind by how much its costs per
 * group have delayed the computation, and by the end of its last exchange. Ways of which none is at
 * most another in both are kept: up to MOST_WAYS of them. */
enum { MOST_WAYS = 64 };

struct grouping_way {
    double late, end;
    double least;         /* end of the step, whatever follows */
    uint32_t calls, from; /* of the way before: its calls, and which of theirs it is */
};

struct grouping_search {
    double ready[MOST_CALLS + 1], elements[MOST_CALLS + 1], entries[MOST_CALLS + 1];
    struct grouping_way ways[MOST_CALLS + 1][MOST_WAYS];
    uint32_t count[MOST_CALLS + 1];
    double best; /* end of a known grouping: ways that cannot end before it are left out */
    bool exact;  /* no way was lost */
};

static inline void grouping_keep(struct grouping_search *s, uint32_t calls,
                                 const struct grouping_way *way)
{
    struct grouping_way *ways = s->ways[calls];
    uint32_t kept = 0, worst = 0;

    for (uint32_t i = 0; i < s->count[calls]; i++)
        if (ways[i].late <= way->late && ways[i].end <= way->end)
            return;
    for (uint32_t i = 0; i < s->count[calls]; i++)
        if (ways[i].late < way->late || ways[i].end < way->end)
            ways[kept++] = ways[i];
    if (kept == MOST_WAYS) {
        s->exact = false;
        for (uint32_t i = 1; i < kept; i++)
            worst = ways[i].least > ways[worst].least ? i : worst;
        ways[worst] = ways[--kept];
    }
    ways[kept++] = *way;
    s->count[calls] = kept;
}

/* Adds groups that end with call j. An exchange that is over before the next group can be selected
 * counts as if it ended then. */
static inline void grouping_extend(struct grouping_search *s, const struct grouping_step *step,
                                   uint32_t j)
{
    const struct grouping_costs *c = &step->costs;
    const bool last = j == step->count;

    s->count[j] = 0;
    for (uint32_t i = 0; i < j; i++) {
        const double elements = s->elements[j] - s->elements[i];
        const double extra = grouping_select(c, elements) - c->element * elements;
        for (uint32_t w = 0; w < s->count[i]; w++) {
            const struct grouping_way *before = &s->ways[i][w];
            struct grouping_way way = {.late = before->late + extra, .calls = i, .from = w};
            way.end = fmax(s->ready[j] + way.late, before->end) + c->exchange +
                      c->entry * (s->entries[j] - s->entries[i]);
            way.least = fmax(way.end + c->entry * (s->entries[step->count] - s->entries[j]),
                             s->ready[step->count] + way.late + c->exchange);
            if (way.least >= s->best)
                continue;
            if (last)
                way.late = 0;
            else
                way.end = fmax(way.end, s->ready[j + 1] + way.late);
            grouping_keep(s, j, &way);
        }
    }
}

/* Returns whether no grouping ends earlier; otherwise this is the best of those that were seen. */
static inline bool grouping_optimum(const struct grouping_step *step, struct grouping *g)
{
    static struct grouping_search s;
    static const uint64_t thresholds[] = {0, UINT64_MAX};
    struct grouping other;

    grouping_algorithm1(step, g);
    for (int i = 0; i < 2; i++) {
        grouping_by_threshold(step, thresholds[i], &other);
        if (other.seconds < g->seconds)
            *g = other;
    }
    s.best = g->seconds;
    s.exact = true;
    s.count[0] = 1;
    s.ways[0][0] = (struct grouping_way){0};
    for (uint32_t j = 0; j < step->count; j++) {
        s.elements[j + 1] = s.elements[j] + (double)step->calls[j].elements;
        s.entries[j + 1] = s.entries[j] + (double)step->calls[j].entries;
        s.ready[j + 1] = step->calls[j].arrival + step->costs.element * s.elements[j + 1];
    }
    for (uint32_t j = 1; j <= step->count; j++)
        grouping_extend(&s, step, j);
    if (s.count[step->count] == 0)
        return s.exact;
    g->groups = 0;
    for (uint32_t j = step->count, w = 0; j > 0; g->groups++) {
        const struct grouping_way *way = &s.ways[j][w];
        g->ends[g->groups] = j;
        j = way->calls;
        w = way->from;
    }
    for (uint32_t i = 0; i < g->groups / 2; i++) {
        uint32_t end = g->ends[i];
        g->ends[i] = g->ends[g->groups - 1 - i];
        g->ends[g->groups - 1 - i] = end;
    }
    grouping_evaluate(step, g);
    return s.exact;
}

#endif
