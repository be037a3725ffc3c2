/* Periods by runs: run[p] counts the calls in a row that equal the call p before; a period has held
 * for run[p] + p calls. */
#include "core/steps.h"

#include <math.h>
#include <string.h>

enum {
    RUN_MAX = 60000,
    FIT_DEPTH = 64, /* calls looked back to find the place again */
    FIT_LEAST = 2,
    STEADY = 16,
    STRETCH = 8,        /* calls in place to each interruption, at least */
    MOST_LAYERS = 32,   /* where nothing is known of levels */
    FEW_LAYERS = 16,    /* where they do not tell layers apart */
    FEW_WEIGHTS = 6,    /* between calls from elsewhere with the counts of the step */
    UNEVEN_CALLS = 512, /* before a step of uneven levels is trusted all the same */
    PATIENCE = 128,     /* calls a period that explains less must hold at most */
    SET_LARGEST = SS_STEP_LONGEST / 3,
    SET_CALLS = 48, /* before a step without an order is trusted, and: */
    SET_STEPS = 16
};

/* ---- history ---- */

/* Of a lane, without its label. */
static uint32_t number_of(uint32_t lane)
{
    return lane & 0xffff;
}

static uint32_t ago(const struct ss_steps *s, uint32_t calls)
{
    return s->history[s->end - 1 - calls];
}

static void count_runs(struct ss_steps *s, uint32_t lane)
{
    uint32_t most = s->end - 1 < SS_STEP_LONGEST ? s->end - 1 : SS_STEP_LONGEST;

    for (uint32_t p = 1; p <= most; p++) {
        uint32_t run = s->run[p] < RUN_MAX ? s->run[p] : s->run[p] - p; /* keeps the phase */
        s->run[p] = (uint16_t)(ago(s, p) == lane ? run + 1 : 0);
    }
}

static void remember(struct ss_steps *s, uint32_t lane)
{
    if (s->end == 2 * SS_STEP_LONGEST) {
        memmove(s->history, s->history + SS_STEP_LONGEST, SS_STEP_LONGEST * sizeof lane);
        memmove(s->level, s->level + SS_STEP_LONGEST, SS_STEP_LONGEST * sizeof *s->level);
        s->end = SS_STEP_LONGEST;
    }
    s->level[s->end] = 0;
    s->history[s->end++] = lane;
    count_runs(s, lane);
    if (s->since_out < UINT32_MAX)
        s->since_out++;
}

/* How many of the last calls, at most `most`, fit the cycle when the last one is at `position`. */
static uint32_t fit(const struct ss_steps *s, const struct ss_step_cycle *c, uint32_t position,
                    uint32_t most)
{
    uint32_t n = 0;

    if (most > s->end)
        most = s->end;
    while (n < most && c->lane[position] == ago(s, n)) {
        position = (position > 0 ? position : c->length) - 1;
        n++;
    }
    return n;
}

/* The one place of the cycle that the last calls fit much better than any other, -1 = none. */
static int find_place(const struct ss_steps *s, const struct ss_step_cycle *c)
{
    uint32_t best = 0, second = 0;
    int place = -1;

    for (uint32_t q = 0; q < c->length; q++) {
        uint32_t n = fit(s, c, q, FIT_DEPTH);
        if (n > best) {
            second = best;
            best = n;
            place = (int)q;
        } else if (n > second) {
            second = n;
        }
    }
    return best >= FIT_LEAST && best / 2 >= second ? place : -1;
}

/* ---- cycles ---- */

static uint32_t occurrences(const struct ss_step_cycle *c, uint32_t lane)
{
    uint32_t n = 0;

    for (uint32_t q = 0; q < c->length; q++)
        n += c->lane[q] == lane;
    return n;
}

static struct ss_step_place in_place(struct ss_steps *s, struct ss_step_cycle *c, uint32_t position)
{
    if (position == 0)
        s->step++;
    c->next = (uint16_t)((position + 1) % c->length);
    c->used = ++s->clock;
    if (c->seen < UINT32_MAX)
        c->seen++;
    return (struct ss_step_place){.sync = SS_STEP_IN,
                                  .ordinal = c->ordinal[position],
                                  .call = position + 1,
                                  .period = c->length,
                                  .step = s->step,
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
        int at = c->lane[c->next] == lane ? c->next : find_place(s, c);
        if (at >= 0) {
            found = c;
            *place = at;
        }
    }
    return found;
}

static void forget_all(struct ss_steps *s)
{
    for (int i = 0; i < SS_STEP_CYCLES; i++)
        s->cycles[i].length = 0;
    s->current = 0;
    s->outs = 0;
}

static struct ss_step_place out_of_place(struct ss_steps *s, struct ss_step_cycle *c, uint32_t lane)
{
    uint32_t n = occurrences(c, lane);
    struct ss_step_place place = {.sync = n == 0 ? SS_STEP_FOREIGN : SS_STEP_LOST,
                                  .ordinal = n > 1 ? SS_ORDINAL_LOST : 0,
                                  .period = c->length,
                                  .step = s->step,
                                  .since = c->since};

    c->breaks += s->outs == 0;
    if (++s->outs >= 2 * SS_STEP_LONGEST)
        forget_all(s);
    return place;
}

/* ---- steps without an order ---- */

/* Lanes seen on the way back through the history, each in one place of an open table. */
struct lane_set {
    uint32_t lane[2 * SS_STEP_LONGEST];
    uint16_t block[2 * SS_STEP_LONGEST]; /* the last in which it was seen, 0: empty */
};

/* Whether the lane is new in this block. Only in the first may it be new altogether. */
static bool enter_block(struct lane_set *set, uint32_t lane, uint16_t block)
{
    uint32_t i = lane * 0x9e3779b1u >> 22;

    while (set->block[i] > 0 && set->lane[i] != lane)
        i = (i + 1) % (2 * SS_STEP_LONGEST);
    if (set->block[i] != block - 1 || lane == SS_STEP_LAST_LANE)
        return false;
    set->lane[i] = lane;
    set->block[i] = block;
    return true;
}

/* How many of the last calls, SET_LARGEST at most, are of lanes of their own, when they and twice
 * as many before are three times the same ones, in whatever order; else 0. */
static uint32_t set_of_last(const struct ss_steps *s)
{
    struct lane_set set;
    uint32_t n = 0, i;

    memset(set.block, 0, sizeof set.block);
    while (n < s->end && n <= SET_LARGEST && enter_block(&set, ago(s, n), 1))
        n++;
    if (n < 2 || n > SET_LARGEST || 3 * n > s->end)
        return 0;
    for (i = n; i < 3 * n && enter_block(&set, ago(s, i), (uint16_t)(i / n + 1)); i++)
        ;
    return i == 3 * n ? n : 0;
}

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
    return in_place(s, c, c->came++);
}

/* A call from elsewhere with a count of the step, after enough steps without and with no more than
 * a step of its like before it: weights, which say nothing about layers. */
static bool is_aside(const struct ss_steps *s, const struct ss_step_cycle *c, uint32_t lane)
{
    uint32_t q = 0, i = s->outs + 1, need = FEW_WEIGHTS * (uint32_t)c->length;

    while (q < c->length && number_of(c->lane[q]) != number_of(lane))
        q++;
    if (q == c->length || occurrences(c, lane) > 0 || s->outs > c->length)
        return false;
    while (need > 0 && i + c->length < s->end && ago(s, i) == ago(s, i + c->length)) {
        i++;
        need--;
    }
    return need == 0;
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
    if (c->lane[place] != lane) {
        s->since_out = is_aside(s, c, lane) ? s->since_out - 1 : 0;
        place = find_place(s, c);
        if (place >= 0 && place < c->next && place > 0)
            s->step++; /* the former step was cut short */
    }
    if (place < 0 && occurrences(c, lane) == 0) {
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
    return in_place(s, c, (uint32_t)place);
}

/* ---- new periods ---- */

static bool lanes_of_last(const struct ss_steps *s, uint32_t p, const struct ss_step_cycle *c)
{
    for (uint32_t q = 0; q < c->length; q++) {
        uint32_t i = 0;
        while (i < p && ago(s, i) != c->lane[q])
            i++;
        if (i == p)
            return false;
    }
    return true;
}

/* ---- levels ---- */

/* Sum of how far the levels of the last `calls` calls are from those `apart` before; -1 where too
 * few are known. */
static int64_t unevenness(const struct ss_steps *s, uint32_t calls, uint32_t apart)
{
    int64_t sum = 0, known = 0;

    for (uint32_t i = 0; i < calls && i + apart < s->end; i++) {
        int a = s->level[s->end - 1 - i], b = s->level[s->end - 1 - i - apart];
        if (a == 0 || b == 0 || ago(s, i) != ago(s, i + apart))
            continue;
        known++;
        sum += a > b ? a - b : b - a;
    }
    return !s->blind && known > 0 && 2 * known >= calls ? sum * calls / known : -1;
}

/* Calls a step of p apart resemble each other less than the norms of one gradient do: they may be
 * those of different layers. This call is not among them, whose level is not known yet. */
static bool is_uneven(const struct ss_steps *s, uint32_t p)
{
    uint32_t calls = STEADY > p ? STEADY : p;

    return unevenness(s, calls, p) > (int64_t)SS_STEP_OCTAVE * calls;
}

static bool same_lanes(const struct ss_steps *s, uint32_t p, const struct ss_step_cycle *c)
{
    for (uint32_t i = 0; i < p; i++) {
        uint32_t q = 0;
        while (q < c->length && number_of(c->lane[q]) != number_of(ago(s, i)))
            q++;
        if (q == c->length)
            return false;
    }
    return true;
}

/* The last p calls are little more than the cycle repeated more often than a network has equal
 * layers: a training interrupted at equal intervals. Layers keep their levels from one step to the
 * next, and differ. What comes from elsewhere with the counts of gradients is weights. */
static bool only_interrupts(const struct ss_steps *s, uint32_t p, const struct ss_step_cycle *c)
{
    uint32_t length = c->length, alike = 0, most = 0, layers = MOST_LAYERS;
    int64_t within = unevenness(s, p, p), between = unevenness(s, p, length);

    for (uint32_t i = 0; i < 2 * p; i++) { /* twice, as the stretch may cross the end */
        alike = ago(s, i % p) == ago(s, (i + length) % p) ? alike + 1 : 0;
        most = alike > most ? alike : most;
    }
    most += length;
    if (within >= 0 && between > 2 * within + SS_STEP_OCTAVE / 8 * (int64_t)p)
        return false;
    if (same_lanes(s, p, c))
        layers = FEW_WEIGHTS;
    else if (within >= 0 && between >= 0)
        layers = FEW_LAYERS;
    return most > layers * length && 8 * most >= 7 * p;
}

/* The period has held long enough to take over. */
static bool holds(const struct ss_steps *s, uint32_t p)
{
    const struct ss_step_cycle *c = s->current > 0 ? &s->cycles[s->current - 1] : NULL;
    uint32_t held = s->run[p] + p, need = 3 * p;

    if (s->run[p] < 2 * p)
        return false;
    for (uint32_t d = 1; d <= p / 2; d++)
        if (p % d == 0 && s->run[d] >= p - d)
            return false; /* a shorter period repeated */
    if (!c)
        return true;
    if (need < 3 * (uint32_t)c->length)
        need = 3 * (uint32_t)c->length;
    uint32_t patience = c->seen < PATIENCE ? c->seen : PATIENCE;
    if (need < patience && !lanes_of_last(s, p, c))
        need = patience;
    return held >= need && s->since_out < need && !(p > c->length && only_interrupts(s, p, c));
}

/* The cycle made of the last p calls, if it is known, and the place of this call in it. */
static struct ss_step_cycle *known_cycle(struct ss_steps *s, uint32_t p, uint32_t *place)
{
    for (int i = 0; i < SS_STEP_CYCLES; i++) {
        struct ss_step_cycle *c = &s->cycles[i];
        for (uint32_t q = 0; c->length == p && !c->any_order && q < p; q++)
            if (fit(s, c, q, p) == p) {
                *place = q;
                return c;
            }
    }
    return NULL;
}

static struct ss_step_cycle *free_cycle(struct ss_steps *s)
{
    struct ss_step_cycle *oldest = NULL;

    for (int i = 0; i < SS_STEP_CYCLES; i++) {
        struct ss_step_cycle *c = &s->cycles[i];
        if (c->length == 0)
            return c;
        if (!oldest || c->used < oldest->used)
            oldest = c;
    }
    return oldest;
}

/* Lanes that the cycle begins and ends with like the last p calls, when position 0 is the lane
 * `start` calls into them. */
static uint32_t likeness(const struct ss_steps *s, uint32_t p, uint32_t start,
                         const struct ss_step_cycle *c)
{
    uint32_t most = c->length < p ? c->length : p, head = 0, tail = 0;

    while (head < most && ago(s, p - 1 - (start + head) % p) == c->lane[head])
        head++;
    while (tail < most &&
           ago(s, p - 1 - (start + p - 1 - tail) % p) == c->lane[c->length - 1 - tail])
        tail++;
    return head + tail;
}

/* Which of the last p calls is position 0: the first of the stretch in which the period holds;
 * where the step in force was only changed, the one that leaves most of it alike. */
static uint32_t find_start(const struct ss_steps *s, uint32_t p)
{
    const struct ss_step_cycle *c = s->current > 0 ? &s->cycles[s->current - 1] : NULL;
    uint32_t first = p - 1 - (uint32_t)(s->run[p] + p - 1) % p, best = first;

    if (!c || p >= 2 * (uint32_t)c->length)
        return first;
    for (uint32_t i = 1, most = likeness(s, p, first, c); i < p; i++) {
        uint32_t start = (first + i) % p, like = likeness(s, p, start, c);
        if (like > most) {
            most = like;
            best = start;
        }
    }
    return best;
}

static struct ss_step_cycle *make_cycle(struct ss_steps *s, uint32_t p, uint32_t *place)
{
    struct ss_step_cycle *c;
    uint32_t start = find_start(s, p);

    for (int i = 0; i < SS_STEP_CYCLES; i++)
        if (s->cycles[i].length > 0 && lanes_of_last(s, p, &s->cycles[i]))
            s->cycles[i].length = 0;
    c = free_cycle(s);
    *c = (struct ss_step_cycle){.length = (uint16_t)p};
    *place = p - 1 - start;
    for (uint32_t q = 0; q < p; q++)
        c->lane[q] = ago(s, p - 1 - (start + q) % p);
    for (uint32_t q = 0; q < p; q++) {
        uint16_t ordinal = 0;
        for (uint32_t before = 0; before < q; before++)
            ordinal = (uint16_t)(ordinal + (c->lane[before] == c->lane[q]));
        c->ordinal[q] = ordinal;
    }
    return c;
}

/* A period that takes over in this call. */
static void adopt(struct ss_steps *s, uint32_t p, struct ss_step_place *place)
{
    uint32_t position;
    struct ss_step_cycle *c = known_cycle(s, p, &position);
    bool first = s->step == 0 && s->current == 0;

    if (c && s->current == (int)(c - s->cycles) + 1 && place->sync == SS_STEP_IN &&
        c->next == (position + 1) % p)
        return;
    bool made = !c;
    if (s->current == 0) /* what came before was not expected by anything */
        s->since_out = s->run[p] + p;
    if (made)
        c = make_cycle(s, p, &position);
    s->current = (int)(c - s->cycles) + 1;
    s->outs = 0;
    if (first)
        s->step = (s->run[p] + p - 1) / p - (position == 0);
    else
        s->step += position > 0;
    if (made && !first)
        c->since = s->step + (position == 0);
    *place = in_place(s, c, position);
}

/* The last n calls have all lanes of the step in force, if there is one. */
static bool explains(const struct ss_steps *s, uint32_t n)
{
    return s->current == 0 || lanes_of_last(s, n, &s->cycles[s->current - 1]);
}

/* The last n calls end a step in which each lane comes once, in an order of its own. */
static void adopt_set(struct ss_steps *s, uint32_t n, struct ss_step_place *place)
{
    uint32_t start;
    struct ss_step_cycle *c = make_cycle(s, n, &start);

    s->current = (int)(c - s->cycles) + 1;
    s->outs = 0;
    s->since_out = 3 * n;
    s->step += s->step == 0 ? 2 : 0;
    c->any_order = true;
    c->since = s->step;
    c->seen = 3 * n - 1;
    c->came = (uint16_t)n;
    *place = in_place(s, c, n - 1);
}

/* Twelve layers through one lane must not pass for a step of one call before the thirteenth. */
static bool is_settled(const struct ss_steps *s, const struct ss_step_place *place, uint32_t steady)
{
    if (place->sync != SS_STEP_IN)
        return false;
    const struct ss_step_cycle *c = &s->cycles[s->current - 1];
    uint32_t seen = c->seen, periods = 3 * place->period;
    bool broken = seen < STRETCH * c->breaks;
    if (c->any_order)
        return seen >= SET_CALLS && seen >= SET_STEPS * place->period && !broken;
    if (seen < UNEVEN_CALLS && is_uneven(s, place->period))
        return false;
    return (steady >= STEADY && steady >= periods) ||
           (seen >= PATIENCE && seen >= periods && !broken);
}

struct ss_step_place ss_steps_next(struct ss_steps *s, uint32_t number, uint32_t label)
{
    uint32_t steady = s->since_out, set;
    uint32_t lane = (number < SS_STEP_LAST_LANE ? number : SS_STEP_LAST_LANE) | label << 16;

    remember(s, lane);
    struct ss_step_place place = follow(s, lane);
    bool settled = s->current > 0 && s->since_out >= 3 * SS_STEP_LONGEST;
    for (uint32_t p = 1; p <= SS_STEP_LONGEST && !settled; p++)
        if (holds(s, p)) {
            adopt(s, p, &place);
            break;
        }
    if (place.sync != SS_STEP_IN && (set = set_of_last(s)) > 0 && explains(s, set))
        adopt_set(s, set, &place);
    place.settled = is_settled(s, &place, steady < s->since_out ? steady : s->since_out);
    return place;
}

void ss_steps_level(struct ss_steps *s, double square)
{
    int exponent;
    double mantissa = frexp(square, &exponent);

    if (s->end > 0 && square > 0 && square - square == 0)
        s->level[s->end - 1] = (int16_t)((exponent + 1100) * SS_STEP_OCTAVE +
                                         (int)(2 * (mantissa - 0.5) * SS_STEP_OCTAVE));
}

void ss_steps_blind(struct ss_steps *s)
{
    s->blind = true;
}

static void forget_cycles(struct ss_steps *s, uint32_t lane)
{
    for (int i = 0; i < SS_STEP_CYCLES; i++) {
        struct ss_step_cycle *c = &s->cycles[i];
        uint32_t q = 0;
        while (q < c->length && number_of(c->lane[q]) != lane)
            q++;
        if (q == c->length)
            continue;
        c->length = 0;
        if (s->current == i + 1) {
            s->current = 0;
            s->outs = 0;
        }
    }
}

void ss_steps_forget(struct ss_steps *s, uint32_t lane)
{
    forget_cycles(s, lane);
    for (uint32_t i = 0; i < s->end; i++)
        if (number_of(s->history[i]) == lane) {
            s->history[i] = SS_STEP_LAST_LANE;
            memset(s->run, 0, sizeof s->run);
        }
}

void ss_steps_join(struct ss_steps *s, uint32_t lane)
{
    uint32_t end = s->end;

    forget_cycles(s, lane);
    memset(s->run, 0, sizeof s->run);
    for (uint32_t i = 0; i < end; i++)
        if (number_of(s->history[i]) == lane)
            s->history[i] = lane;
    for (s->end = 1; s->end <= end; s->end++)
        count_runs(s, ago(s, 0));
    s->end = end;
}
