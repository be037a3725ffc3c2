/* Planned groups: the period of the calls, their measured times, the word exchange, the plan. */
#include "core/call/group_plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/call/call_impl.h"
#include "core/plan/merging.h"
#include "core/stream/word_exchange.h"

/* A period counts once CONFIRMED calls in a row, and twice as many as it has, were what they were a
 * period before. A period of fewer than LEAST calls says nothing of the step. */
enum { CONFIRMED = 128, LEAST = 4, RING = 2 * SS_MERGED };

/* Steps measured before the first plan, and of each kind in a comparison. The next comparison comes
 * FIRST_PAUSE steps later; each pause has four times the steps of the one before, at most
 * MOST_PAUSE. */
enum { FIRST_STEPS = 4, TRIED_STEPS = 8, FIRST_PAUSE = 64, MOST_PAUSE = 1024 };

/* Seconds of processor time that a vote and an exchange take, a round figure. */
static const double HANDLING = 2e-5;

/* Each call alone costs processor time: it stays only where steps take less than this share of
 * those in groups. */
static const double FASTER = 0.98;

enum kind { TOGETHER, ALONE, KINDS };

struct layout {
    enum kind kind;
    uint64_t from;          /* index of the first call that it may hold for, 0: there is none */
    uint32_t first;         /* position of the first call of a step */
    bool begins[SS_MERGED]; /* a part, by position */
    uint32_t groups;
    double seconds; /* to the end of a step as planned */
};

struct ss_group_plan {
    const struct ss_comm *comm;
    uint64_t bytes; /* of a part, as MERGE has it; 0: planned for */

    uint64_t index;           /* of the last call, from 1 */
    uint64_t keys[RING];      /* of the last calls, by index */
    uint32_t same[SS_MERGED]; /* calls in a row like those so many + 1 before */
    uint32_t period;          /* 0: none is known */
    uint64_t base;            /* index of the first call of a period */
    uint64_t generation;      /* periods found so far */

    double begun, selected;    /* the last call; seconds of selection since */
    double gap[SS_MERGED];     /* seconds before a call, sums, by position */
    uint32_t seen[SS_MERGED];  /* summands */
    uint64_t nnz[SS_MERGED];   /* most entries of a rank, of the last call there */
    uint64_t count[SS_MERGED]; /* elements, */
    uint64_t size[SS_MERGED];  /* and their bytes */
    double step_begun;         /* seconds, 0: no step of the layout has begun */
    double steps[MOST_PAUSE];  /* seconds from step to step since the last word exchange */
    uint32_t steps_measured;

    uint64_t planning;        /* index of the call that plans next, 0: none */
    uint64_t asked, asked_at; /* generation and index of the call that agrees, or did so last */
    uint32_t asked_period;
    struct ss_word_exchange exchange;
    uint64_t words[2 * SS_MERGED + 1]; /* gaps in ns, entries; ns from step to step */

    bool compares;
    uint32_t pause;          /* steps until the next comparison */
    double took[KINDS];      /* seconds from step to step, 0: not measured */
    struct layout now, next; /* the one that holds; the one that is to follow it */
    struct ss_merging_costs costs;
    struct ss_merging_call calls[SS_MERGED]; /* of the plan that is made, and room for it */
    struct ss_merging_plan plan;
    struct ss_merging_work work;
};

struct ss_group_plan *ss_group_plan_create(const struct ss_comm *comm)
{
    struct ss_group_plan *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->comm = comm;
    p->bytes = comm->settings->merge == SS_MERGE_AUTO ? 0 : comm->settings->merge;
    return p;
}

void ss_group_plan_free(struct ss_group_plan *p)
{
    free(p);
}

/* ---- the period ---- */

/* The call `steps` behind that of the index plans next. The last word exchange has ended on all
 * ranks by then. */
static void plan_after(struct ss_group_plan *p, uint64_t index, uint32_t steps)
{
    p->planning = index + (uint64_t)steps * p->period;
    if (p->asked_at > 0 && p->planning < p->asked_at + RING)
        p->planning = p->asked_at + RING;
}

static void measure_anew(struct ss_group_plan *p)
{
    memset(p->gap, 0, sizeof p->gap);
    memset(p->seen, 0, sizeof p->seen);
    p->steps_measured = 0;
}

static void begin_period(struct ss_group_plan *p, uint32_t period)
{
    p->period = period;
    p->base = p->index;
    p->generation++;
    p->compares = p->bytes == 0;
    p->pause = FIRST_PAUSE;
    memset(p->took, 0, sizeof p->took);
    memset(p->nnz, 0, sizeof p->nnz);
    measure_anew(p);
    plan_after(p, p->index, FIRST_STEPS);
}

static void end_period(struct ss_group_plan *p)
{
    p->period = 0;
    p->planning = 0;
    p->now.from = p->next.from = 0;
}

/* Takes the key in and finds or loses the period. */
static void follow(struct ss_group_plan *p, uint64_t key)
{
    uint32_t found = 0;

    p->index++;
    for (uint32_t l = SS_MERGED; l >= 1; l--) {
        bool like = p->index > l && p->keys[(p->index - l) % RING] == key;
        p->same[l - 1] = like ? p->same[l - 1] + 1 : 0;
        if (p->same[l - 1] >= CONFIRMED && p->same[l - 1] >= 2 * l)
            found = l;
    }
    p->keys[p->index % RING] = key;
    if (p->period > 0 && p->same[p->period - 1] == 0)
        end_period(p);
    if (p->period == 0 && found >= LEAST)
        begin_period(p, found);
}

/* ---- the calls ---- */

static void note_step(struct ss_group_plan *p, double now)
{
    if (p->step_begun > 0 && p->steps_measured < MOST_PAUSE)
        p->steps[p->steps_measured++] = now - p->step_begun;
    p->step_begun = now;
}

static void note_begin(struct ss_group_plan *p, const struct ss_exchange *x, uint32_t at)
{
    double now = ss_now(x), gap = now - p->begun - p->selected;

    if (p->index > p->base) {
        p->gap[at] += gap > 0 ? gap : 0;
        p->seen[at]++;
    }
    p->count[at] = x->n;
    p->size[at] = x->n * x->esize;
    if (p->now.from > 0 && at == p->now.first)
        note_step(p, now);
    p->begun = now;
    p->selected = 0;
}

void ss_group_plan_selected(struct ss_group_plan *p, const struct ss_exchange *x)
{
    p->selected += x->spans.times.scan;
}

void ss_group_plan_voted(struct ss_group_plan *p, uint32_t position, uint64_t entries)
{
    if (p->period > 0 && position < p->period)
        p->nnz[position] = entries;
}

/* For the report. */
static void show(const struct ss_group_plan *p)
{
    struct ss_stats *stats = p->comm->stats;
    struct ss_merged_record *r = &stats->merged;

    pthread_mutex_lock(&stats->lock);
    r->groups = p->now.groups;
    r->planned = p->period;
    r->predicted = p->now.seconds;
    r->together = p->took[TOGETHER];
    r->alone = p->took[ALONE];
    pthread_mutex_unlock(&stats->lock);
}

static void take_effect(struct ss_group_plan *p, uint32_t at)
{
    if (p->next.from == 0 || p->index < p->next.from || at != p->next.first)
        return;
    p->now = p->next;
    p->next.from = 0;
    p->step_begun = p->begun;
    p->steps_measured = 0;
    show(p);
}

static int by_length(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* The median: a pause of the program now and then does not count. 0: none is measured. */
static double step_seconds(struct ss_group_plan *p)
{
    if (p->steps_measured == 0)
        return 0;
    qsort(p->steps, p->steps_measured, sizeof *p->steps, by_length);
    return p->steps[p->steps_measured / 2];
}

/* Fills in what this rank brings to the word exchange. */
static void ask(struct ss_group_plan *p)
{
    p->asked = p->generation;
    p->asked_at = p->index;
    p->asked_period = p->period;
    for (uint32_t i = 0; i < p->period; i++) {
        double mean = p->seen[i] > 0 ? p->gap[i] / p->seen[i] : 0;
        p->words[i] = (uint64_t)(mean * 1e9);
        p->words[p->period + i] = p->nnz[i];
    }
    p->words[2 * p->period] = (uint64_t)(1e9 * step_seconds(p));
    measure_anew(p);
    plan_after(p, p->index, p->pause); /* should this word exchange fail */
}

struct ss_group_cut ss_group_plan_next(struct ss_group_plan *p, const struct ss_feedback *f)
{
    struct ss_group_cut cut = {.position = SS_MERGED};

    follow(p, ss_lane_hash(&f->key));
    if (p->period == 0)
        return cut;
    uint32_t at = (uint32_t)((p->index - p->base) % p->period);
    cut.position = at;
    note_begin(p, &f->c.x, at);
    take_effect(p, at);
    if (p->planning > 0 && p->index >= p->planning) {
        cut.plans = true;
        ask(p);
    }
    cut.planned = p->now.from > 0;
    cut.begins = cut.plans || (cut.planned && p->now.begins[at]);
    cut.ends = cut.planned && p->now.begins[(at + 1) % p->period];
    return cut;
}

/* ---- the plan ---- */

static struct ss_merging_costs costs_of(const struct ss_feedback *f)
{
    const struct ss_shape s = ss_ballot_shape_alone(f);
    const bool fixed = ss_costs_fixed(f->comm->settings);
    const double others = s.size - 1;

    return (struct ss_merging_costs){
        .element = fixed ? 1e-9 : s.scan, /* whether this rank selects is its own matter */
        .group = HANDLING,
        .exchange = s.vote + s.alpha * (1 + 0.1 * (others - 1)),
        .entry = others * s.beta * (double)(sizeof(uint32_t) + f->c.x.esize) +
                 (others + 1) * (s.code + s.merge),
    };
}

void ss_group_plan_start(struct ss_group_plan *p, const struct ss_feedback *f,
                         struct ss_exchange *x)
{
    p->costs = costs_of(f);
    ss_word_exchange_start(x, &p->exchange, p->words, 0, 2 * (size_t)p->asked_period + 1, 0);
}

/* The step begins behind the longest pause. */
static uint32_t longest_pause(const struct ss_group_plan *p)
{
    uint32_t longest = 0;

    for (uint32_t i = 0; i < p->period; i++)
        if (p->words[i] >= p->words[longest])
            longest = i;
    return longest;
}

static void plan_groups(struct ss_group_plan *p, uint32_t first)
{
    double arrival = 0;

    for (uint32_t i = 0; i < p->period; i++) {
        uint32_t at = (first + i) % p->period;
        uint64_t n = p->count[at], entries = p->words[p->period + at];
        arrival += i > 0 ? 1e-9 * (double)p->words[at] : 0;
        p->calls[i] = (struct ss_merging_call){
            .elements = n, .entries = entries < n ? entries : n, .arrival = arrival};
    }
    ss_merging_make(p->calls, p->period, &p->costs, &p->work, &p->plan);
}

/* Ends a group at each `bytes` of the step; 0: with each call. */
static void cut_by_bytes(struct ss_group_plan *p, uint32_t first, uint64_t bytes)
{
    uint64_t size = 0;

    p->plan.groups = 0;
    p->plan.seconds = 0;
    for (uint32_t i = 0; i < p->period; i++) {
        size += p->size[(first + i) % p->period];
        if (size < bytes && i + 1 < p->period)
            continue;
        p->plan.ends[p->plan.groups++] = i + 1;
        size = 0;
    }
}

static void lay_out(struct ss_group_plan *p, enum kind kind)
{
    const uint32_t first = longest_pause(p);

    if (kind == ALONE || p->bytes > 0)
        cut_by_bytes(p, first, kind == ALONE ? 0 : p->bytes);
    else
        plan_groups(p, first);
    p->next = (struct layout){.kind = kind,
                              .from = p->asked_at + SS_MERGED,
                              .first = first,
                              .groups = p->plan.groups,
                              .seconds = p->plan.seconds};
    for (uint32_t g = 0; g < p->plan.groups; g++)
        p->next.begins[(first + (g > 0 ? p->plan.ends[g - 1] : 0)) % p->period] = true;
}

/* Books what the steps took that the word exchange measured, and returns the kind to go on with: in
 * a comparison first groups, then each call alone, then the better one. All ranks have the same
 * times. */
static enum kind choose(struct ss_group_plan *p)
{
    const bool measured = p->now.from > 0;

    if (measured)
        p->took[p->now.kind] = 1e-9 * (double)p->words[2 * p->period];
    if (p->bytes > 0 || !measured)
        return TOGETHER;
    if (!p->compares) {
        p->compares = true;
        return TOGETHER;
    }
    if (p->now.kind == TOGETHER)
        return ALONE;
    p->compares = false;
    return p->took[ALONE] < FASTER * p->took[TOGETHER] ? ALONE : TOGETHER;
}

static void make(struct ss_group_plan *p)
{
    lay_out(p, choose(p));
    plan_after(p, p->asked_at, p->compares ? TRIED_STEPS : p->pause);
    if (!p->compares && p->pause < MOST_PAUSE)
        p->pause *= 4;
}

int ss_group_plan_step(struct ss_group_plan *p, struct ss_exchange *x)
{
    if (ss_word_exchange_step(x, &p->exchange) == SS_PENDING)
        return SS_PENDING;
    if (x->failed == 0 && p->asked == p->generation && p->period > 0)
        make(p);
    return SS_OK;
}
