/* The period of blocking calls, and its plan. */
#include "core/call/blocking_steps.h"

#include <stdlib.h>

enum { REPEATS = 3 };

void ss_blocking_note(struct ss_blocking_steps *b, const struct ss_blocking_call *call,
                      const struct ss_merging_costs *costs)
{
    b->calls[b->count++ % SS_BLOCKING_RING] = *call;
    b->costs = *costs;
}

static const struct ss_blocking_call *at(const struct ss_blocking_steps *b, uint64_t number)
{
    return &b->calls[number % SS_BLOCKING_RING];
}

/* Calls up to the last one that are of the lane of the one so many before. */
static uint64_t alike(const struct ss_blocking_steps *b, uint64_t held, uint32_t period)
{
    uint64_t n = 0;

    while (n + period < held &&
           at(b, b->count - 1 - n)->key == at(b, b->count - 1 - n - period)->key)
        n++;
    return n;
}

/* The shortest; a single lane has none. */
static uint32_t find_period(const struct ss_blocking_steps *b, uint64_t held, uint64_t *calls)
{
    for (uint32_t l = 1; l <= SS_BLOCKING_STEP; l++) {
        *calls = alike(b, held, l);
        if (*calls >= (uint64_t)(REPEATS - 1) * l)
            return l > 1 ? l : 0;
    }
    return 0;
}

/* Means by position, whole periods of the last calls. */
struct means {
    uint32_t period;
    uint64_t first; /* number of the first call */
    uint64_t rounds;
    double gap[SS_BLOCKING_STEP], took[SS_BLOCKING_STEP];
};

static void measure(const struct ss_blocking_steps *b, struct means *m)
{
    for (uint64_t i = 0; i < m->rounds * m->period; i++) {
        const struct ss_blocking_call *call = at(b, m->first + i);
        double gap = call->begun - at(b, m->first + i - 1)->over;
        uint32_t p = (uint32_t)(i % m->period);
        m->gap[p] += (gap > 0 ? gap : 0) / (double)m->rounds;
        m->took[p] += (call->over - call->begun) / (double)m->rounds;
    }
}

/* The step begins behind the longest pause. */
static uint32_t longest_pause(const struct means *m)
{
    uint32_t longest = 0;

    for (uint32_t p = 1; p < m->period; p++)
        if (m->gap[p] >= m->gap[longest])
            longest = p;
    return longest;
}

/* The calls of a step, and what they take one after another: measured, and as the model has it. */
static void lay_out(const struct ss_blocking_steps *b, const struct means *m,
                    struct ss_merging_call *calls, struct ss_blocking_record *record)
{
    const struct ss_merging_costs *c = &b->costs;
    uint32_t first = longest_pause(m);
    double arrival = 0;

    for (uint32_t i = 0; i < m->period; i++) {
        uint32_t p = (first + i) % m->period;
        const struct ss_blocking_call *last = at(b, m->first + (m->rounds - 1) * m->period + p);
        uint64_t entries = last->entries < last->elements ? last->entries : last->elements;
        arrival += i > 0 ? m->gap[p] : 0;
        calls[i] = (struct ss_merging_call){last->elements, entries, arrival};
        record->measured += m->took[p];
        record->now += c->select_group + c->select_element * (double)last->elements + c->exchange +
                       c->entry * (double)entries;
    }
    record->measured += arrival;
    record->now += arrival;
}

static bool plan(const struct ss_blocking_steps *b, const struct means *m, void *work,
                 struct ss_blocking_record *record)
{
    struct ss_merging_call calls[SS_BLOCKING_STEP];
    uint32_t ends[SS_BLOCKING_STEP];
    struct ss_merging_plan plan = {.ends = ends};
    const struct ss_merging_step step = {.calls = calls, .count = m->period, .costs = b->costs};

    lay_out(b, m, calls, record);
    if (ss_merging_make(&step, SS_MERGING_OPTIMAL, 0, work, &plan) != SS_MERGING_OK)
        return false;
    record->calls = m->period;
    record->groups = plan.groups;
    record->then = plan.times.end;
    return true;
}

bool ss_blocking_judge(const struct ss_blocking_steps *b, struct ss_blocking_record *record)
{
    uint64_t held = b->count < SS_BLOCKING_RING ? b->count : SS_BLOCKING_RING, calls;
    struct means m = {.period = find_period(b, held, &calls)};

    *record = (struct ss_blocking_record){0};
    if (m.period == 0)
        return false;
    m.rounds = calls / m.period;
    m.first = b->count - m.rounds * m.period;
    measure(b, &m);
    void *work = malloc(ss_merging_work_size(m.period));
    bool good = work && plan(b, &m, work, record);
    free(work);
    return good;
}
