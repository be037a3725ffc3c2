/* Periods by runs: run[p] counts the calls in a row that equal the call p before; a period has held
 * for run[p] + p calls. */
#include "core/tensor/steps.h"

#include "core/tensor/steps_impl.h"

#include <string.h>

enum {
    RUN_MAX = 60000,
    FIT_DEPTH = 64, /* calls looked back to find the place again */
    FIT_LEAST = 2,
    STRETCH = 8,        /* calls in place to each interruption, at least */
    UNEVEN_CALLS = 512, /* before a step of uneven levels is trusted all the same */
    SET_CALLS = 48,     /* before a step without an order is trusted, and: */
    SET_STEPS = 16
};

/* ---- history ---- */

/* One more, or none where the call is another; keeps the phase. */
static uint16_t go_on(uint32_t run, uint32_t p, bool same)
{
    return (uint16_t)(same ? (run < RUN_MAX ? run : run - p) + 1 : 0);
}

void ss_step_count_runs(struct ss_steps *s)
{
    uint32_t most = s->end - 1 < SS_STEP_LONGEST ? s->end - 1 : SS_STEP_LONGEST;
    uint32_t lane = ss_step_ago(s, 0), number = ss_step_number(lane);

    for (uint32_t p = 1; p <= most; p++) {
        uint32_t other = ss_step_ago(s, p);
        s->run[p] = go_on(s->run[p], p, other == lane);
        s->plain[p] = go_on(s->plain[p], p, ss_step_number(other) == number);
        s->marked[p] = go_on(s->marked[p], p,
                             other == lane && ss_step_mark_ago(s, 0) == ss_step_mark_ago(s, p));
    }
}

void ss_step_recount(struct ss_steps *s)
{
    uint32_t end = s->end;

    memset(s->run, 0, sizeof s->run);
    memset(s->plain, 0, sizeof s->plain);
    memset(s->marked, 0, sizeof s->marked);
    for (s->end = 1; s->end <= end; s->end++)
        ss_step_count_runs(s);
    s->end = end;
}

static void remember(struct ss_steps *s, uint32_t lane)
{
    if (s->end == 2 * SS_STEP_LONGEST) {
        memmove(s->history, s->history + SS_STEP_LONGEST, SS_STEP_LONGEST * sizeof lane);
        memmove(s->level, s->level + SS_STEP_LONGEST, SS_STEP_LONGEST * sizeof *s->level);
        memmove(s->mark, s->mark + SS_STEP_LONGEST, SS_STEP_LONGEST * sizeof *s->mark);
        s->end = SS_STEP_LONGEST;
    }
    s->level[s->end] = (struct ss_step_level){.norm = 0};
    s->mark[s->end] = s->coming | s->carried;
    s->coming = 0;
    s->history[s->end++] = lane;
    s->labelled = s->labelled || lane != ss_step_number(lane);
    ss_step_count_runs(s);
    if (s->since_out < UINT32_MAX)
        s->since_out++;
}

uint32_t ss_step_fit(const struct ss_steps *s, const struct ss_step_cycle *c, uint32_t position,
                     uint32_t most)
{
    uint32_t n = 0;

    if (most > s->end)
        most = s->end;
    while (n < most && ss_step_fits(s, c, position, n)) {
        position = (position > 0 ? position : c->length) - 1;
        n++;
    }
    return n;
}

/* The one place of the cycle that the last calls fit much better than any other, at least so many
 * of them, -1 = none. */
static int find_place(const struct ss_steps *s, const struct ss_step_cycle *c, uint32_t least)
{
    uint32_t best = 0, second = 0;
    int place = -1;

    for (uint32_t q = 0; q < c->length; q++) {
        uint32_t n = ss_step_fit(s, c, q, FIT_DEPTH);
        if (n > best) {
            second = best;
            best = n;
            place = (int)q;
        } else if (n > second) {
            second = n;
        }
    }
    return best >= least && best / 2 >= second ? place : -1;
}

/* ---- cycles ---- */

uint32_t ss_step_occurrences(const struct ss_step_cycle *c, uint32_t lane)
{
    uint32_t n = 0;

    for (uint32_t q = 0; q < c->length; q++)
        n += c->lane[q] == lane;
    return n;
}

struct ss_step_place ss_step_in_place(struct ss_steps *s, struct ss_step_cycle *c,
                                      uint32_t position)
{
    if (position == 0) {
        s->step++;
        c->turns++;
    }
    c->next = (uint16_t)((position + 1) % c->length);
    c->used = ++s->clock;
    if (c->seen < UINT32_MAX)
        c->seen++;
    return (struct ss_step_place){.sync = SS_STEP_IN,
                                  .ordinal = c->ordinal[position],
                                  .call = position + 1,
                                  .period = c->length,
                                  .step = s->step,
                                  .turn = c->turns,
                                  .since = c->since};
}

/* Another cycle that was in force before and goes on with this call. */
static struct ss_step_cycle *resuming(struct ss_steps *s, uint32_t lane, int *place)
{
    struct ss_step_cycle *found = NULL;

    for (int i = 0; i < SS_STEP_CYCLES; i++) {
        struct ss_step_cycle *c = &s->cycles[i];
        if (c->length == 0 || c->any_order || i + 1 == s->current ||
            (found && c->used < found->used))
            continue;
        int at = c->lane[c->next] == lane ? c->next : find_place(s, c, FIT_LEAST);
        if (at >= 0) {
            found = c;
            *place = at;
        }
    }
    return found;
}

void ss_step_forget_all(struct ss_steps *s)
{
    for (int i = 0; i < SS_STEP_CYCLES; i++)
        s->cycles[i].length = 0;
    s->current = 0;
    s->outs = 0;
}

static struct ss_step_place out_of_place(struct ss_steps *s, struct ss_step_cycle *c, uint32_t lane)
{
    uint32_t n = ss_step_occurrences(c, lane);
    struct ss_step_place place = {.sync = n == 0 ? SS_STEP_FOREIGN : SS_STEP_LOST,
                                  .ordinal = n > 1 ? SS_ORDINAL_LOST : 0,
                                  .period = c->length,
                                  .step = s->step,
                                  .turn = c->turns,
                                  .since = c->since};

    c->breaks += s->outs == 0;
    s->lost = s->lost || n > 0;
    if (++s->outs >= 2 * SS_STEP_LONGEST)
        ss_step_forget_all(s);
    return place;
}

/* ---- following ---- */

/* A call under a cycle without an order. A lane that comes again before all others have come shows
 * that it is none. */
static struct ss_step_place follow_set(struct ss_steps *s, struct ss_step_cycle *c, uint32_t lane)
{
    uint32_t q = 0;

    while (q < c->length && c->lane[q] != lane)
        q++;
    if (q == c->length)
        return out_of_place(s, c, lane);
    if (c->came == c->length) {
        memset(c->seen_here, 0, sizeof c->seen_here);
        c->came = 0;
    }
    if (c->seen_here[q]) {
        c->length = 0;
        s->current = 0;
        s->since_out = 0;
        return (struct ss_step_place){.sync = SS_STEP_UNKNOWN, .step = s->step};
    }
    c->seen_here[q] = true;
    s->outs = 0;
    return ss_step_in_place(s, c, c->came++);
}

/* A call from elsewhere with a count of the step, after enough steps without and with no more than
 * a step of its like before it: weights, which say nothing about layers. */
static bool is_aside(const struct ss_steps *s, const struct ss_step_cycle *c, uint32_t lane)
{
    uint32_t q = 0, i = s->outs + 1, need = SS_FEW_WEIGHTS * (uint32_t)c->length;

    while (q < c->length && ss_step_number(c->lane[q]) != ss_step_number(lane))
        q++;
    if (q == c->length || ss_step_occurrences(c, lane) > 0 || s->outs > c->length)
        return false;
    while (need > 0 && i + c->length < s->end &&
           ss_step_ago(s, i) == ss_step_ago(s, i + c->length)) {
        i++;
        need--;
    }
    return need == 0;
}

/* The call has its lane where the cycle expects it, but not the marks. Returns another place that
 * it has, or the same. */
static int place_of_marks(struct ss_steps *s, struct ss_step_cycle *c, int place)
{
    int other = find_place(s, c, 1);

    if (other < 0 && ss_step_mark_varies(s, c, (uint32_t)place))
        return place;
    s->since_out = 0;
    s->doubted = c->length;
    c->breaks++;
    if (other < 0)
        return place;
    memset(c->strikes, 0, sizeof c->strikes); /* marks do tell */
    s->step += other < place && other > 0;
    return other;
}

/* Follows the cycle in force, or one that resumes. */
static struct ss_step_place follow(struct ss_steps *s, uint32_t lane)
{
    if (s->current == 0)
        return (struct ss_step_place){.sync = SS_STEP_UNKNOWN, .step = s->step};

    struct ss_step_cycle *c = &s->cycles[s->current - 1];
    if (c->any_order)
        return follow_set(s, c, lane);
    int place = c->next;
    if (c->lane[place] == lane && s->lost && ss_step_occurrences(c, lane) > 1) {
        place = find_place(s, c, FIT_LEAST);
    } else if (c->lane[place] != lane) {
        s->since_out = is_aside(s, c, lane) ? s->since_out - 1 : 0;
        place = find_place(s, c, FIT_LEAST);
        if (place >= 0 && place < c->next && place > 0)
            s->step++; /* the former step was cut short */
    } else if (ss_step_mark_off(s, c, (uint32_t)place, 0) != 0) {
        place = place_of_marks(s, c, place);
    } else {
        c->strikes[place] = (uint8_t)(c->strikes[place] - (c->strikes[place] > 0));
    }
    if (place < 0 && ss_step_occurrences(c, lane) == 0) {
        struct ss_step_cycle *other = resuming(s, lane, &place);
        if (other) {
            s->current = (int)(other - s->cycles) + 1;
            s->step += place > 0;
            c = other;
        }
    }
    if (place < 0)
        return out_of_place(s, c, lane);
    s->outs = 0;
    s->lost = false;
    return ss_step_in_place(s, c, (uint32_t)place);
}

/* Twelve layers through one lane must not pass for a step of one call before the thirteenth. */
static bool is_settled(struct ss_steps *s, const struct ss_step_place *place, uint32_t steady)
{
    if (place->sync != SS_STEP_IN)
        return false;
    struct ss_step_cycle *c = &s->cycles[s->current - 1];
    uint32_t seen = c->seen, period = place->period, periods = 3 * period;
    bool broken = seen < STRETCH * c->breaks;
    if (c->any_order)
        return seen >= SET_CALLS && seen >= SET_STEPS * period && !broken;
    if (seen < UNEVEN_CALLS && (ss_step_uneven(s, period) || ss_step_patchy(s, period)))
        return false;
    if (steady >= SS_STEADY && steady >= periods)
        return true;
    if (steady < SS_EVEN || steady < periods)
        c->even = false; /* else once is enough: parts of what is lossy are not looked at */
    else if (c->even || ss_step_even(s, period))
        return c->even = true;
    return seen >= SS_PATIENCE && seen >= periods && !broken;
}

/* A place found by marks alone is not trusted at once. */
static void doubt(struct ss_steps *s, uint32_t lane, struct ss_step_place *place)
{
    if (s->doubted == 0 || place->sync != SS_STEP_IN)
        return;
    s->doubted--;
    if (ss_step_occurrences(&s->cycles[s->current - 1], lane) > 1) {
        place->sync = SS_STEP_LOST;
        place->ordinal = SS_ORDINAL_LOST;
    }
}

static uint32_t lane_of(uint32_t number, uint32_t label)
{
    return (number < SS_STEP_LAST_LANE ? number : SS_STEP_LAST_LANE) | label << 16;
}

bool ss_steps_know(const struct ss_steps *s, uint32_t number, uint32_t label, uint32_t ordinal)
{
    uint32_t lane = lane_of(number, label);
    bool known = false;

    for (int i = 0; i < SS_STEP_CYCLES; i++)
        for (uint32_t q = 0; q < s->cycles[i].length && !known; q++)
            known = s->cycles[i].lane[q] == lane && s->cycles[i].ordinal[q] == ordinal;
    return known;
}

struct ss_step_place ss_steps_next(struct ss_steps *s, uint32_t number, uint32_t label)
{
    uint32_t steady = s->since_out;
    uint32_t lane = lane_of(number, label);

    remember(s, lane);
    ss_step_pass_marks(s);
    struct ss_step_place place = follow(s, lane);
    ss_step_seek(s, &place);
    s->carried = place.sync == SS_STEP_FOREIGN ? s->mark[s->end - 1] : 0;
    doubt(s, lane, &place);
    place.settled = is_settled(s, &place, steady < s->since_out ? steady : s->since_out);
    return place;
}
