/* Planned groups: the period of the calls, what is measured of them, the agreement, the plan. */
#include "core/call/group_plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/call/group.h"
#include "core/call/group_times.h"
#include "core/plan/merging.h"
#include "core/stream/agreement.h"

/* A period counts once so many calls in a row were what they were a period before, and all of it
 * twice. Where it has fewer than LEAST calls it tells nothing of the step. */
enum { CONFIRMED_CALLS = 128, LEAST = 4, RING = 2 * SS_MERGED };

/* Seconds of processor time that a vote and an exchange take, a round figure: what keeps groups
 * from being many where all that they send is hidden. */
static const double HANDLING = 2e-5;

/* Periods that are measured before the first plan, of each that is tried and, MORE times as many
 * each, before the next. */
enum { FIRST_PERIODS = 4, TRIED_PERIODS = 8, MORE = 8, MOST_PERIODS = 256 };

/* What is tried: the plans that are optimal where exchanges follow each other, as in the paper's
 * model, and where several are under way at once; groups of so many elements (MGS-SGD, as the paper
 * has it); each call by itself (LAGS-SGD); and one group (TopK-SGD). */
enum kind { IN_TURN, AT_ONCE, THRESHOLDS, CALLWISE, WHOLE, KINDS };
enum { THRESHOLD = 8192 };

/* Of those that take as long, but for so much, the one with the fewest groups stays: it spares
 * processors. */
static const double ALIKE = 1.02;

/* One that takes so much longer than when it was chosen, twice in a row, is compared anew: with
 * those that were not as far behind it as HOPELESS, and once in ALL comparisons with all. */
static const double WORSE = 1.1, HOPELESS = 1.5;
enum { ALL = 4 };

struct layout {
    enum kind kind;
    uint64_t from;          /* index of the first call that it may hold for, 0: there is none */
    uint32_t first;         /* position at which it begins */
    bool begins[SS_MERGED]; /* a part, by position */
    unsigned groups, calls;
    struct ss_merging_times times;
};

struct ss_group_plan {
    const struct ss_comm *comm;
    uint64_t bytes;           /* of a part, as MERGE has it; 0: planned for */
    uint64_t index;           /* of the last call */
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
    uint32_t periods;          /* to be measured before the next plan */
    uint64_t planning;         /* index of the call that plans next, 0: none */

    uint64_t asked, asked_at; /* generation and index of the call that agrees, or did so last */
    uint32_t asked_period;
    struct ss_agree agree;
    enum kind asked_kind;
    uint64_t words[2 * SS_MERGED + 1]; /* gaps in ns, entries; ns from step to step as planned */
    struct ss_merging_costs costs;
    void *work; /* of a planner; NULL where parts have so many bytes */

    bool compares;          /* kinds are tried */
    unsigned groups[KINDS]; /* of each, when it was tried; */
    double tried[KINDS];    /* seconds of a step, 0: not yet */
    enum kind chosen;
    bool worse;              /* when it was last measured */
    unsigned comparisons;    /* so far */
    struct layout now, next; /* the one that holds; the one that is to follow it */
    struct ss_group_times times;
};

struct ss_group_plan *ss_group_plan_create(const struct ss_comm *comm)
{
    struct ss_group_plan *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->comm = comm;
    p->bytes = comm->settings->merge == SS_MERGE_AUTO ? 0 : comm->settings->merge;
    if (p->bytes == 0 && !(p->work = malloc(ss_merging_work_size(SS_MERGED)))) {
        free(p);
        return NULL;
    }
    return p;
}

void ss_group_plan_free(struct ss_group_plan *p)
{
    if (p)
        free(p->work);
    free(p);
}

/* ---- the period ---- */

/* The call that plans next: so many periods behind that of the index. */
static void plan_after(struct ss_group_plan *p, uint64_t index, uint32_t periods)
{
    p->periods = periods;
    p->planning = index + (uint64_t)periods * p->period;
    if (p->asked_at > 0 && p->planning < p->asked_at + RING) /* that has ended, on all ranks */
        p->planning = p->asked_at + RING;
}

static void measure_anew(struct ss_group_plan *p, uint32_t periods)
{
    memset(p->gap, 0, sizeof p->gap);
    memset(p->seen, 0, sizeof p->seen);
    plan_after(p, p->index, periods);
}

static void begin_period(struct ss_group_plan *p, uint32_t period)
{
    p->period = period;
    p->compares = p->bytes == 0;
    p->worse = false;
    p->comparisons = 0; /* a rank that lost the period earlier may have missed one */
    memset(p->tried, 0, sizeof p->tried);
    p->base = p->index;
    p->generation++;
    memset(p->nnz, 0, sizeof p->nnz);
    memset(p->count, 0, sizeof p->count);
    measure_anew(p, FIRST_PERIODS);
}

static void end_period(struct ss_group_plan *p)
{
    p->period = 0;
    p->planning = 0;
    p->now = p->next = (struct layout){0};
    ss_group_times_stop(&p->times);
}

/* Takes the key in and finds or loses the period. */
static void follow(struct ss_group_plan *p, uint64_t key)
{
    uint32_t found = 0;

    p->index++;
    for (uint32_t l = SS_MERGED; l >= 1; l--) {
        bool like = p->index > l && p->keys[(p->index - l) % RING] == key;
        p->same[l - 1] = like ? p->same[l - 1] + 1 : 0;
        if (p->same[l - 1] >= CONFIRMED_CALLS && p->same[l - 1] >= 2 * l)
            found = l;
    }
    p->keys[p->index % RING] = key;
    if (p->period > 0 && p->same[p->period - 1] == 0)
        end_period(p);
    if (p->period == 0 && found >= LEAST)
        begin_period(p, found);
}

static uint32_t position_of(const struct ss_group_plan *p, uint64_t index)
{
    return (uint32_t)((index - p->base) % p->period);
}

/* ---- what is measured ---- */

static void note_begin(struct ss_group_plan *p, const struct ss_call *call, uint32_t at)
{
    double now = ss_now(&call->f.c.x);
    double gap = now - p->begun - p->selected;

    if (p->index > p->base) {
        p->gap[at] += gap > 0 ? gap : 0;
        p->seen[at]++;
    }
    p->count[at] = call->f.c.x.n;
    p->size[at] = call->f.c.x.n * call->f.c.x.esize;
    if (p->now.from > 0)
        ss_group_times_next(&p->times, p->comm->stats, now, gap > 0 ? gap : 0, p->selected,
                            at == p->now.first);
    p->begun = now;
    p->selected = 0;
}

void ss_group_plan_selected(struct ss_group_plan *p, const struct ss_call *call)
{
    p->selected += call->f.c.x.spans.times.scan;
}

/* One that is cast again is under way already. */
void ss_group_plan_cast(struct ss_group_plan *p, struct ss_call *call)
{
    if (call->timed)
        return;
    call->timed = true;
    ss_group_times_cast(&p->times, ss_now(&call->f.c.x));
}

void ss_group_plan_over(struct ss_group_plan *p, const struct ss_call *call)
{
    ss_group_times_over(&p->times, ss_now(&call->f.c.x));
}

void ss_group_plan_voted(struct ss_group_plan *p, const struct ss_call *call)
{
    if (p->period > 0 && call->position < p->period)
        p->nnz[call->position] = call->f.vote.ballot.nnz_max;
}

/* ---- the calls ---- */

/* For the report. */
static void show(const struct ss_group_plan *p)
{
    struct ss_stats *stats = p->comm->stats;
    struct ss_merged_record *r = &stats->merged;

    pthread_mutex_lock(&stats->lock);
    r->groups = p->now.groups;
    r->planned = p->now.calls;
    r->step = p->now.times.end;
    r->hidden = p->now.times.hidden;
    r->exposed = p->now.times.exposed;
    r->measured = (struct ss_measured_step){.steps = 0};
    pthread_mutex_unlock(&stats->lock);
}

static void take_effect(struct ss_group_plan *p, uint32_t at)
{
    if (p->next.from == 0 || p->index < p->next.from || at != p->next.first)
        return;
    p->now = p->next;
    p->next.from = 0;
    ss_group_times_start(&p->times, p->comm->stats, p->begun);
    show(p);
}

/* What this rank has to say when it comes to the agreement. */
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
    p->asked_kind = p->now.kind;
    p->words[2 * p->period] =
        p->now.from > 0 ? (uint64_t)(1e9 * ss_group_times_period(&p->times)) : 0;
    if (p->compares)
        measure_anew(p, TRIED_PERIODS);
    else
        measure_anew(p, p->periods < MOST_PERIODS / MORE ? p->periods * MORE : MOST_PERIODS);
}

struct ss_group_cut ss_group_plan_next(struct ss_group_plan *p, struct ss_call *call)
{
    struct ss_group_cut cut = {0};

    follow(p, ss_lane_hash(&call->key));
    call->position = SS_MERGED;
    if (p->period == 0)
        return cut;
    uint32_t at = position_of(p, p->index);
    call->position = at;
    note_begin(p, call, at);
    take_effect(p, at);
    if (p->planning > 0 && p->index >= p->planning) {
        call->plans = true;
        ask(p);
    }
    cut.planned = p->now.from > 0;
    cut.begins = call->plans || (cut.planned && p->now.begins[at]);
    cut.ends = cut.planned && p->now.begins[(at + 1) % p->period];
    return cut;
}

/* ---- the plan ---- */

struct ss_merging_costs ss_group_costs(const struct ss_call *call)
{
    const struct ss_shape s = ss_ballot_shape_alone(call);
    const bool fixed = ss_costs_fixed(call->f.comm->settings);
    const double others = s.size - 1;

    return (struct ss_merging_costs){
        .flight = 1, /* as the paper's */
        .select_group = HANDLING,
        .select_element = fixed ? 1e-9 : s.scan, /* whether this rank selects is its own matter */
        .exchange = s.vote + s.alpha * (1 + 0.1 * (others - 1)),
        .entry = others * s.beta * (double)(sizeof(uint32_t) + call->f.c.x.esize) +
                 (others + 1) * (s.code + s.merge),
    };
}

void ss_group_plan_start(struct ss_group_plan *p, const struct ss_call *call, struct ss_exchange *x)
{
    p->costs = ss_group_costs(call);
    ss_agree_start(x, &p->agree, p->words, 0, 2 * (size_t)p->asked_period + 1, 0);
}

/* The step begins behind the longest pause. */
static uint32_t longest_pause(const struct ss_group_plan *p)
{
    uint32_t longest = 0;
    uint64_t most = 0;

    for (uint32_t i = 0; i < p->period; i++)
        if (p->words[i] >= most) {
            most = p->words[i];
            longest = i;
        }
    return longest;
}

/* The calls of a step, in order. */
static void step_of(const struct ss_group_plan *p, uint32_t first, struct ss_merging_call *calls)
{
    double arrival = 0;

    for (uint32_t i = 0; i < p->period; i++) {
        uint32_t at = (first + i) % p->period;
        uint64_t n = p->count[at], entries = p->words[p->period + at];
        arrival += i > 0 ? 1e-9 * (double)p->words[at] : 0;
        calls[i] = (struct ss_merging_call){
            .elements = n, .entries = entries < n ? entries : n, .arrival = arrival};
    }
}

/* Parts of so many bytes, from the step's begin on. */
static enum ss_merging_status cut_by_bytes(const struct ss_group_plan *p, uint32_t first,
                                           const struct ss_merging_step *step,
                                           struct ss_merging_plan *plan)
{
    uint64_t bytes = 0;

    plan->groups = 0;
    for (uint32_t i = 0; i < p->period; i++) {
        bytes += p->size[(first + i) % p->period];
        if (bytes < p->bytes && i + 1 < p->period)
            continue;
        plan->ends[plan->groups++] = i + 1;
        bytes = 0;
    }
    return ss_merging_evaluate(step, plan->ends, plan->groups, &plan->times);
}

static bool lay_out(struct ss_group_plan *p, enum kind kind, struct layout *next)
{
    static const enum ss_merging_policy policies[KINDS] = {SS_MERGING_OPTIMAL, SS_MERGING_OPTIMAL,
                                                           SS_MERGING_THRESHOLD,
                                                           SS_MERGING_CALLWISE, SS_MERGING_SINGLE};
    struct ss_merging_call calls[SS_MERGED];
    uint32_t ends[SS_MERGED] = {0};
    struct ss_merging_step step = {.calls = calls, .count = p->period, .costs = p->costs};
    struct ss_merging_plan plan = {.ends = ends};
    *next = (struct layout){.kind = kind, .first = longest_pause(p), .calls = p->period};
    step_of(p, next->first, calls);
    if (kind == AT_ONCE) /* IN_FLIGHT is each rank's own */
        step.costs.flight = SS_BESIDE < SS_MERGING_FLIGHT ? SS_BESIDE : SS_MERGING_FLIGHT;
    if (p->bytes > 0
            ? cut_by_bytes(p, next->first, &step, &plan) != SS_MERGING_OK
            : ss_merging_make(&step, policies[kind], THRESHOLD, p->work, &plan) != SS_MERGING_OK)
        return false;
    for (uint32_t g = 0; g < plan.groups; g++)
        next->begins[(next->first + (g > 0 ? ends[g - 1] : 0)) % p->period] = true;
    next->groups = plan.groups;
    next->times = plan.times;
    return true;
}

/* KINDS: none. */
static enum kind first_untried(const struct ss_group_plan *p)
{
    enum kind k = IN_TURN;

    while (k < KINDS && p->tried[k] > 0)
        k++;
    return k;
}

/* What is not tried again is taken to have become slower as the chosen one has. */
static void compare_anew(struct ss_group_plan *p, double step)
{
    const double before = p->tried[p->chosen], slower = step / before;
    const bool all = ++p->comparisons % ALL == 0;

    p->compares = true;
    p->worse = false;
    for (enum kind k = IN_TURN; k < KINDS; k++)
        p->tried[k] = all || p->tried[k] <= HOPELESS * before ? 0 : slower * p->tried[k];
}

/* What was measured under the plan that held; the kind to go on with. All ranks have heard the same
 * times. */
static enum kind choose(struct ss_group_plan *p)
{
    const double step = 1e-9 * (double)p->words[2 * p->period];
    enum kind best = IN_TURN;

    if (p->bytes > 0)
        return THRESHOLDS;
    if (p->compares && step > 0)
        p->tried[p->asked_kind] = step;
    if (!p->compares) {
        const bool worse = step > WORSE * p->tried[p->chosen];
        if (worse && p->worse)
            compare_anew(p, step);
        else
            p->worse = worse;
    }
    const enum kind untried = first_untried(p);
    if (!p->compares || untried < KINDS)
        return p->compares ? untried : p->chosen;
    for (enum kind k = IN_TURN; k < KINDS; k++)
        best = p->tried[k] < p->tried[best] ? k : best;
    const double most = ALIKE * p->tried[best];
    for (enum kind k = IN_TURN; k < KINDS; k++)
        if (p->tried[k] <= most && p->groups[k] < p->groups[best])
            best = k;
    p->compares = false;
    return p->chosen = best;
}

static void make(struct ss_group_plan *p)
{
    struct layout next;

    enum kind kind = choose(p);
    if (p->worse || p->compares) /* soon: whether it stays so, or the next kind */
        plan_after(p, p->asked_at, TRIED_PERIODS);
    if (!lay_out(p, kind, &next))
        return;
    p->groups[next.kind] = next.groups;
    next.from = p->asked_at + SS_MERGED;
    p->next = next;
}

int ss_group_plan_step(struct ss_group_plan *p, struct ss_exchange *x)
{
    if (ss_agree_step(x, &p->agree) == SS_PENDING)
        return SS_PENDING;
    if (x->failed == 0 && p->asked == p->generation && p->period > 0)
        make(p);
    return SS_OK;
}
