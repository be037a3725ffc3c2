/* The grouping that ends first, by dynamic programming over the number of calls that are in groups.
 *
 * A way to group the first j calls matters to what follows by two numbers only: how much the costs
 * per group have delayed the computation (`late`; arrivals and costs per call and element delay all
 * ways alike), and when its last exchange ends; with W exchanges at once, when the last W end. What
 * follows adds to them and takes maxima. So a way that is at most another's in each of them leads
 * to an end at most the other's, whatever follows, and the other can be forgotten: what is left of
 * the ways to j is a Pareto front. Where costs per group are zero, `late` is zero; with one
 * exchange at a time a front is then a single way and the search takes L^2 / 2 steps. Else fronts
 * may grow, and these keep them short, none of which loses an optimum:
 * - an exchange that ends before the next group can be ready delays nothing, and counts so;
 * - no way is followed that cannot end before the best grouping known (lower bounds below);
 * - a first search with short fronts finds one that is close to the best.
 * A front that would be longer than what it may be (SS_MERGING_FRONT; less for many calls, whose
 * plan would take long) loses the ways of the largest lower bound; the least of these bounds is
 * then what is returned. */
#include "core/plan/merging_impl.h"

/* Rows of the work space, by the number of calls in groups. */
enum { READY, ELEMENTS, ENTRIES, SORTED, AFTER, MIXED };

enum { MIXTURES = SS_MERGING_ROWS - MIXED };

/* Longest fronts: of the first search; of the second, which takes so many steps where that leaves
 * it two. */
enum { FIRST_FRONT = 1, LEAST_FRONT = 2, STEPS = 200000 };

struct search {
    const struct ss_merging_costs *costs;
    uint32_t count;
    unsigned flight; /* 0: any number at once */
    double *const *rows;
    struct ss_merging_way *ways;
    uint32_t ways_count, live_count;
    uint32_t *live; /* ways that can still lead to the best, by calls */
    uint32_t front; /* begin of the front that is being made; it ends with the ways */
    uint32_t longest;
    double best, forgotten; /* end of the best; least bound of what was dropped */
    uint32_t best_from;
    bool found;
    bool mixed; /* the rows from MIXED on are filled */
};

/* READY: end of the computation of the first j calls and of their selection, but for costs per
 * group. SORTED: what selection costs at least beyond, each call alone. AFTER: at least from the
 * delays at j to the end: the data of call k and later ones follow its selection. */
static void fill_rows(struct search *s, const struct ss_merging_call *calls)
{
    const struct ss_merging_costs *c = s->costs;
    double *const *r = s->rows;

    r[READY][0] = r[ELEMENTS][0] = r[ENTRIES][0] = r[SORTED][0] = 0;
    for (uint32_t j = 0; j < s->count; j++) {
        double elements = (double)calls[j].elements;
        r[ELEMENTS][j + 1] = r[ELEMENTS][j] + elements;
        r[ENTRIES][j + 1] = r[ENTRIES][j] + (double)calls[j].entries;
        r[READY][j + 1] =
            calls[j].arrival + c->select_call * (j + 1) + c->select_element * r[ELEMENTS][j + 1];
        r[SORTED][j + 1] = r[SORTED][j] + ss_merging_extra(c, elements) - c->select_group;
    }
    double most = 0;
    for (uint32_t j = s->count; j-- > 0;) {
        double data = c->entry * (r[ENTRIES][s->count] - r[ENTRIES][j]);
        most = ss_merging_max(most, r[READY][j + 1] + r[SORTED][j + 1] + data);
        r[AFTER][j] = most - r[SORTED][j] + c->select_group + c->exchange;
    }
}

static double data_after(const struct search *s, uint32_t calls)
{
    return s->costs->entry * (s->rows[ENTRIES][s->count] - s->rows[ENTRIES][calls]);
}

/* Closer to each other near zero: mostly the computation decides. */
static double weight_of(int mixture)
{
    double x = (mixture + 0.5) / MIXTURES;

    return x * x * x;
}

/* The longer the groups the fewer latencies and the dearer the selection: the end is at least a
 * weighted mean of a course through all exchanges that follow and one through all selections and
 * the last exchange, and the least of that mean over all groupings is a sum over groups, found from
 * the end of the step back. For one exchange at a time. */
static void fill_mixed(struct search *s)
{
    const struct ss_merging_costs *c = s->costs;
    double *const *mixed = s->rows + MIXED;

    for (int m = 0; m < MIXTURES; m++)
        mixed[m][s->count] = 0;
    for (uint32_t j = s->count; j-- > 0;)
        for (uint32_t k = j + 1; k <= s->count; k++) {
            double selection = ss_merging_extra(c, s->rows[ELEMENTS][k] - s->rows[ELEMENTS][j]);
            if (k == s->count)
                selection += c->exchange + data_after(s, j);
            for (int m = 0; m < MIXTURES; m++) {
                double w = weight_of(m);
                double mean = w * c->exchange + (1 - w) * selection + mixed[m][k];
                if (k == j + 1 || mean < mixed[m][j])
                    mixed[m][j] = mean;
            }
        }
    s->mixed = true;
}

/* What follows a way ends no earlier: by its exchanges, by its computation, by both. */
static double least_end(const struct search *s, const struct ss_merging_way *way)
{
    double exchanged = way->end + data_after(s, way->calls);
    double selected = way->late + s->rows[READY][s->count];
    double least = way->late + s->rows[AFTER][way->calls];

    least = ss_merging_max(least, exchanged + (s->flight == 1 ? s->costs->exchange : 0));
    for (int m = 0; s->mixed && m < MIXTURES; m++) {
        double w = weight_of(m);
        least = ss_merging_max(least,
                               w * exchanged + (1 - w) * selected + s->rows[MIXED + m][way->calls]);
    }
    return least;
}

/* End of the exchange before which the next one of a way does not begin. */
static double slot_of(const struct search *s, const struct ss_merging_way *way)
{
    if (s->flight == 0)
        return 0;
    for (unsigned back = 1; back < s->flight && way->calls > 0; back++)
        way = &s->ways[way->from];
    return way->end;
}

/* ---- a front: ways to the same call of which none is at most another ---- */

/* When the next group can be ready: exchanges that end before might as well end then. */
static double next_ready(const struct search *s, const struct ss_merging_way *way)
{
    const double *ready = s->rows[READY] + way->calls, *sorted = s->rows[SORTED] + way->calls;

    return ready[1] + way->late + s->costs->select_group + sorted[1] - sorted[0];
}

/* Whether a is at most b in all that matters; next: of b. */
static bool at_most(const struct search *s, const struct ss_merging_way *a,
                    const struct ss_merging_way *b, double next)
{
    if (a->late > b->late)
        return false;
    for (unsigned back = 0;; back++) {
        if (a->end > ss_merging_max(b->end, next))
            return false;
        if (back + 1 >= s->flight || a->calls == 0)
            return true;
        a = &s->ways[a->from];
        if (b->calls > 0)
            b = &s->ways[b->from];
    }
}

static void drop_least_promising(struct search *s)
{
    uint32_t worst = s->front;

    for (uint32_t i = s->front; i < s->ways_count; i++)
        if (s->ways[i].least > s->ways[worst].least)
            worst = i;
    if (s->ways[worst].least < s->forgotten)
        s->forgotten = s->ways[worst].least;
    s->ways[worst] = s->ways[--s->ways_count];
}

static void insert(struct search *s, const struct ss_merging_way *way)
{
    double next = next_ready(s, way);

    for (uint32_t i = s->front; i < s->ways_count; i++)
        if (at_most(s, &s->ways[i], way, next))
            return;
    for (uint32_t i = s->front; i < s->ways_count;)
        if (at_most(s, way, &s->ways[i], next_ready(s, &s->ways[i])))
            s->ways[i] = s->ways[--s->ways_count];
        else
            i++;
    s->ways[s->ways_count++] = *way;
    if (s->ways_count - s->front > s->longest)
        drop_least_promising(s);
}

/* ---- the search ---- */

/* The group from a way to `calls` has been added. */
static void arrive(struct search *s, struct ss_merging_way *way)
{
    uint32_t calls = way->calls;

    if (calls == s->count) {
        if (way->end < s->best) {
            s->best = way->end;
            s->best_from = way->from;
            s->found = true;
        }
        return;
    }
    way->least = least_end(s, way);
    if (way->least < s->best)
        insert(s, way);
}

/* Adds the group after the way number `from`, up to `calls`. False where neither this group nor a
 * longer one can end early enough: it is ready no earlier, and all data of both follow. */
static bool follow(struct search *s, uint32_t from, uint32_t calls, double extra)
{
    const struct ss_merging_way *before = &s->ways[from];
    double late = before->late + extra, ready = s->rows[READY][calls] + late;
    double slot = slot_of(s, before), entries = s->rows[ENTRIES][calls];

    if (ss_merging_exchange(s->costs, ready, slot, before->end, 0) + data_after(s, before->calls) >=
        s->best)
        return false;
    entries -= s->rows[ENTRIES][before->calls];
    struct ss_merging_way way = {
        .late = late,
        .end = ss_merging_exchange(s->costs, ready, slot, before->end, entries),
        .from = from,
        .calls = calls};
    arrive(s, &way);
    return true;
}

/* All ways to `calls`, whose front is then live. */
static void make_front(struct search *s, uint32_t calls)
{
    uint32_t kept = 0, grouped = UINT32_MAX;
    double extra = 0;

    s->front = s->ways_count;
    for (uint32_t i = 0; i < s->live_count; i++) {
        uint32_t from = s->live[i], done = s->ways[from].calls;
        if (done != grouped)
            extra = ss_merging_extra(s->costs, s->rows[ELEMENTS][calls] - s->rows[ELEMENTS][done]);
        grouped = done;
        if (follow(s, from, calls, extra))
            s->live[kept++] = from;
    }
    for (uint32_t i = s->front; i < s->ways_count; i++)
        s->live[kept++] = i;
    s->live_count = kept;
}

static void take_best(const struct search *s, struct ss_merging_plan *plan)
{
    uint32_t groups = 1;

    for (uint32_t way = s->best_from; s->ways[way].calls > 0; way = s->ways[way].from)
        groups++;
    plan->groups = groups;
    plan->ends[--groups] = s->count;
    for (uint32_t way = s->best_from; s->ways[way].calls > 0; way = s->ways[way].from)
        plan->ends[--groups] = s->ways[way].calls;
}

static void search(struct search *s, uint32_t longest, struct ss_merging_plan *plan)
{
    s->ways[0] = (struct ss_merging_way){0};
    s->ways_count = s->live_count = 1;
    s->live[0] = 0;
    s->longest = longest;
    s->forgotten = s->best;
    s->found = false;
    for (uint32_t calls = 1; calls <= s->count; calls++)
        make_front(s, calls);
    if (s->found && plan)
        take_best(s, plan);
}

/* The second search is for what the first may have lost. Returns the bound. */
static double search_twice(struct search *s, struct ss_merging_plan *plan)
{
    double half = (double)s->count * s->count / 2;
    double longest = ss_merging_max(STEPS / half, LEAST_FRONT);

    search(s, FIRST_FRONT, plan);
    if (s->forgotten < s->best) {
        if (s->flight == 1)
            fill_mixed(s);
        search(s, longest < SS_MERGING_FRONT ? (uint32_t)longest : SS_MERGING_FRONT, plan);
    }
    s->mixed = false;
    return s->forgotten < s->best ? s->forgotten : s->best;
}

double ss_merging_search(const struct ss_merging_step *step, const struct ss_merging_work *work,
                         struct ss_merging_plan *plan)
{
    struct search s = {.costs = &step->costs,
                       .count = step->count,
                       .flight = step->costs.flight < step->count ? step->costs.flight : 0,
                       .rows = work->rows,
                       .ways = work->ways,
                       .live = work->live,
                       .best = plan->times.end};

    fill_rows(&s, step->calls);
    double bound = search_twice(&s, plan);
    if (s.flight > 1 && bound < s.best) {
        s.flight = 0;
        bound = ss_merging_max(bound, search_twice(&s, NULL));
    }
    return bound;
}
