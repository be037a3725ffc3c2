/* The timing model of merged calls and the policies that need no search.
 *
 * Selection delays the computation that follows it (eq. 6, 7). With one exchange at a time an
 * exchange begins when its group is selected and the one before is over (eq. 8). With `flight` at
 * once it begins when the one `flight` before it is over; it then takes the latency, in which the
 * link is free for others, and its bytes, for which the link serves exchanges in order. If the link
 * is shared in equal parts instead, exchanges end later than here, but the last of those that share
 * it ends at the same time. */
#include "core/plan/merging.h"

#include "core/plan/merging_impl.h"

/* Numbers up to here and their sums are exact as double. */
static const double MOST_ELEMENTS = 0x1p53;
/* So that sums and products stay finite. */
static const double MOST_SECONDS = 1e30;

const char *ss_merging_status_text(enum ss_merging_status status)
{
    switch (status) {
    case SS_MERGING_OK:
        return "success";
    case SS_MERGING_TOO_MANY_CALLS:
        return "too many calls in a step";
    case SS_MERGING_BAD_ARRIVAL:
        return "an arrival is negative, not finite or before the one that precedes it";
    case SS_MERGING_BAD_ENTRIES:
        return "a call has more entries than elements";
    case SS_MERGING_BAD_COST:
        return "a cost is negative or not finite, or there are too many elements";
    case SS_MERGING_BAD_FLIGHT:
        return "no exchange may run, or too many at once";
    case SS_MERGING_BAD_GROUPS:
        return "the ends of the groups do not rise to the number of calls";
    }
    return "unknown status";
}

void ss_merging_allgather(struct ss_merging_costs *costs, int size, double alpha, double beta,
                          double bytes_per_entry)
{
    int rounds = 0;

    while (rounds < 30 && 1 << rounds < size)
        rounds++;
    costs->exchange = rounds * alpha;
    costs->entry = (size - 1) * bytes_per_entry * beta;
}

/* ---- what is refused ---- */

static bool is_cost(double seconds)
{
    return seconds >= 0 && seconds <= MOST_SECONDS;
}

static enum ss_merging_status check_calls(const struct ss_merging_step *step)
{
    double before = 0, elements = 0;

    for (uint32_t i = 0; i < step->count; i++) {
        const struct ss_merging_call *call = &step->calls[i];
        if (!is_cost(call->arrival) || call->arrival < before)
            return SS_MERGING_BAD_ARRIVAL;
        if (call->entries > call->elements)
            return SS_MERGING_BAD_ENTRIES;
        before = call->arrival;
        elements += (double)call->elements;
    }
    return elements <= MOST_ELEMENTS ? SS_MERGING_OK : SS_MERGING_BAD_COST;
}

static enum ss_merging_status check(const struct ss_merging_step *step)
{
    const struct ss_merging_costs *c = &step->costs;

    if (step->count > SS_MERGING_CALLS)
        return SS_MERGING_TOO_MANY_CALLS;
    if (!is_cost(c->select_call) || !is_cost(c->select_group) || !is_cost(c->select_element) ||
        !is_cost(c->select_sort) || !is_cost(c->exchange) || !is_cost(c->entry))
        return SS_MERGING_BAD_COST;
    if (c->flight < 1 || c->flight > SS_MERGING_FLIGHT)
        return SS_MERGING_BAD_FLIGHT;
    return check_calls(step);
}

static bool rise_to(const uint32_t *ends, uint32_t groups, uint32_t count)
{
    uint32_t before = 0;

    for (uint32_t g = 0; g < groups; g++) {
        if (ends[g] <= before)
            return false;
        before = ends[g];
    }
    return before == count;
}

/* ---- the times of a grouping ---- */

struct course {
    double computation;             /* end so far */
    double communication;           /* seconds in which an exchange ran */
    double last;                    /* end of the last exchange */
    double ends[SS_MERGING_FLIGHT]; /* of the last `flight` of them, in turn */
    unsigned turn;
};

static void exchange(const struct ss_merging_costs *costs, struct course *at, double entries)
{
    double *slot = &at->ends[at->turn], begin = ss_merging_max(at->computation, *slot);
    double end = ss_merging_exchange(costs, at->computation, *slot, at->last, entries);

    at->communication += end - ss_merging_max(begin, at->last);
    at->last = *slot = end;
    at->turn = at->turn + 1 < costs->flight ? at->turn + 1 : 0;
}

static void evaluate(const struct ss_merging_step *step, const uint32_t *ends, uint32_t groups,
                     struct ss_merging_times *times)
{
    struct course at = {0};
    double arrived = 0;

    for (uint32_t g = 0, i = 0; g < groups; g++) {
        double calls = ends[g] - i, elements = 0, entries = 0;
        for (; i < ends[g]; i++) {
            elements += (double)step->calls[i].elements;
            entries += (double)step->calls[i].entries;
        }
        at.computation +=
            step->calls[i - 1].arrival - arrived + ss_merging_select(&step->costs, calls, elements);
        arrived = step->calls[i - 1].arrival;
        exchange(&step->costs, &at, entries);
    }
    *times = (struct ss_merging_times){.end = at.last,
                                       .computation = at.computation,
                                       .communication = at.communication,
                                       .exposed = at.last - at.computation};
    times->hidden = ss_merging_max(times->communication - times->exposed, 0);
}

enum ss_merging_status ss_merging_evaluate(const struct ss_merging_step *step, const uint32_t *ends,
                                           uint32_t groups, struct ss_merging_times *times)
{
    enum ss_merging_status status = check(step);

    if (status != SS_MERGING_OK)
        return status;
    if (!rise_to(ends, groups, step->count))
        return SS_MERGING_BAD_GROUPS;
    evaluate(step, ends, groups, times);
    return SS_MERGING_OK;
}

/* ---- policies ---- */

static void by_threshold(const struct ss_merging_step *step, uint64_t threshold,
                         struct ss_merging_plan *plan)
{
    double elements = 0;

    plan->groups = 0;
    for (uint32_t i = 0; i < step->count; i++) {
        elements += (double)step->calls[i].elements;
        if (elements < (double)threshold && i + 1 < step->count)
            continue;
        plan->ends[plan->groups++] = i + 1;
        elements = 0;
    }
}

static void one_group(const struct ss_merging_step *step, struct ss_merging_plan *plan)
{
    plan->groups = step->count > 0;
    if (step->count > 0)
        plan->ends[0] = step->count;
}

/* Makes `other` the plan where it ends earlier. */
static void keep_better(const struct ss_merging_step *step, const struct ss_merging_plan *other,
                        struct ss_merging_plan *plan)
{
    struct ss_merging_times times;

    evaluate(step, other->ends, other->groups, &times);
    if (plan->groups > 0 && times.end >= plan->times.end)
        return;
    plan->times = times;
    plan->groups = other->groups;
    for (uint32_t g = 0; g < other->groups; g++)
        plan->ends[g] = other->ends[g];
}

/* The simple policies and, with several exchanges at once, the optimum of one at a time come first:
 * they rule out most of what the search would look at. */
static void optimal(const struct ss_merging_step *step, const struct ss_merging_work *work,
                    struct ss_merging_plan *plan)
{
    struct ss_merging_plan other = {.ends = work->ends};

    plan->groups = 0;
    one_group(step, &other);
    keep_better(step, &other, plan);
    by_threshold(step, 0, &other);
    keep_better(step, &other, plan);
    ss_merging_algorithm1(step, &other);
    keep_better(step, &other, plan);
    if (step->costs.flight > 1) {
        struct ss_merging_step one = *step;
        one.costs.flight = 1;
        evaluate(&one, other.ends, other.groups, &other.times);
        ss_merging_search(&one, work, &other);
        keep_better(step, &other, plan);
    }
    plan->bound = ss_merging_search(step, work, plan);
    evaluate(step, plan->ends, plan->groups, &plan->times);
    plan->exact = plan->bound >= plan->times.end * (1 - 1e-11);
}

size_t ss_merging_work_size(uint32_t calls)
{
    size_t ways = (size_t)calls * SS_MERGING_FRONT + 1;

    return ((size_t)calls + 1) * SS_MERGING_ROWS * sizeof(double) +
           ways * (sizeof(struct ss_merging_way) + sizeof(uint32_t)) + calls * sizeof(uint32_t);
}

static struct ss_merging_work divide(void *room, uint32_t calls)
{
    struct ss_merging_work work;
    double *row = room;

    for (int r = 0; r < SS_MERGING_ROWS; r++, row += calls + 1)
        work.rows[r] = row;
    work.ways = (struct ss_merging_way *)row;
    work.live = (uint32_t *)(work.ways + (size_t)calls * SS_MERGING_FRONT + 1);
    work.ends = work.live + (size_t)calls * SS_MERGING_FRONT + 1;
    return work;
}

enum ss_merging_status ss_merging_make(const struct ss_merging_step *step,
                                       enum ss_merging_policy policy, uint64_t threshold,
                                       void *room, struct ss_merging_plan *plan)
{
    enum ss_merging_status status = check(step);

    if (status != SS_MERGING_OK)
        return status;
    struct ss_merging_work work = divide(room, step->count);
    *plan = (struct ss_merging_plan){.ends = plan->ends};
    if (step->count == 0)
        plan->exact = policy == SS_MERGING_OPTIMAL;
    else if (policy == SS_MERGING_OPTIMAL)
        optimal(step, &work, plan);
    else if (policy == SS_MERGING_ALGORITHM1)
        ss_merging_algorithm1(step, plan);
    else if (policy == SS_MERGING_SINGLE)
        one_group(step, plan);
    else
        by_threshold(step, policy == SS_MERGING_THRESHOLD ? threshold : 0, plan);
    evaluate(step, plan->ends, plan->groups, &plan->times);
    return SS_MERGING_OK;
}
