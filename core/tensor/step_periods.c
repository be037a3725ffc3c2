/* New periods. */
#include <string.h>

#include "core/tensor/steps_impl.h"

enum {
    SET_LARGEST = SS_STEP_LONGEST / 3,
    LONGEST_WAIT = 16, /* periods that one which explains less must hold at most */
    NO_CHANCE =
        32 /* calls that a period holds in which a set comes in changing order not by chance */
};

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
    while (n < s->end && n <= SET_LARGEST && enter_block(&set, ss_step_ago(s, n), 1))
        n++;
    if (n < 2 || n > SET_LARGEST || 3 * n > s->end)
        return 0;
    for (i = n; i < 3 * n && enter_block(&set, ss_step_ago(s, i), (uint16_t)(i / n + 1)); i++)
        ;
    return i == 3 * n ? n : 0;
}

/* ---- new periods ---- */

bool ss_step_has_lanes(const struct ss_steps *s, uint32_t p, const struct ss_step_cycle *c)
{
    for (uint32_t q = 0; q < c->length; q++) {
        uint32_t i = 0;
        while (i < p && ss_step_ago(s, i) != c->lane[q])
            i++;
        if (i == p)
            return false;
    }
    return true;
}

/* Whether one of the last p calls has its lane several times in the cycle. */
static bool is_of_layers(const struct ss_steps *s, uint32_t p, const struct ss_step_cycle *c)
{
    for (uint32_t i = 0; i < p; i++)
        if (ss_step_occurrences(c, ss_step_ago(s, i)) > 1)
            return true;
    return false;
}

/* For how many calls the period must have held to take over. */
static uint32_t wait_of(const struct ss_steps *s, uint32_t p, const struct ss_step_cycle *c)
{
    uint32_t need = 3 * p, both = 3 * (uint32_t)c->length;
    uint32_t patience = c->seen < SS_PATIENCE ? c->seen : SS_PATIENCE;

    if (patience > LONGEST_WAIT * p)
        patience = LONGEST_WAIT * p;
    if (need < patience && !ss_step_has_lanes(s, p, c))
        need = patience;
    if (need < both && (s->outs < need || is_of_layers(s, p, c)))
        need = both; /* else the cycle has expected nothing in all the while */
    return need;
}

/* The step in force has no order, and expects all that comes: equal layers there and back, say, of
 * which each would pass for the other. */
static bool is_order_of_set(const struct ss_steps *s, uint32_t p, const struct ss_step_cycle *c)
{
    return c->any_order && p > c->length && s->run[p] + p >= NO_CHANCE &&
           ss_step_has_lanes(s, p, c);
}

/* The period has held long enough to take over. */
static bool holds(const struct ss_steps *s, uint32_t p)
{
    const struct ss_step_cycle *c = s->current > 0 ? &s->cycles[s->current - 1] : NULL;
    const uint16_t *run = ss_step_runs(s);

    if (run[p] < 2 * p || !ss_step_allowed(s, p))
        return false;
    for (uint32_t d = 1; d <= p / 2; d++)
        if (p % d == 0 && run[d] >= p - d)
            return false; /* a shorter period repeated */
    if (!c)
        return true;
    uint32_t need = wait_of(s, p, c);
    if (is_order_of_set(s, p, c))
        return true;
    return run[p] + p >= need && s->since_out < need &&
           !(p > c->length && ss_step_only_interrupts(s, p, c));
}

/* The cycle made of the last p calls, if it is known, and the place of this call in it. */
static struct ss_step_cycle *known_cycle(struct ss_steps *s, uint32_t p, uint32_t *place)
{
    for (int i = 0; i < SS_STEP_CYCLES; i++) {
        struct ss_step_cycle *c = &s->cycles[i];
        for (uint32_t q = 0; c->length == p && !c->any_order && q < p; q++)
            if (ss_step_fit(s, c, q, p) == p) {
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

/* The last p calls are the cycle from position 0 on when that is the lane `start` calls into them:
 * how many calls ago its position q is. */
static uint32_t calls_ago(uint32_t p, uint32_t start, uint32_t q)
{
    return p - 1 - (start + q) % p;
}

/* Calls that the cycle begins and ends with like the last p calls, marks included. */
static uint32_t likeness(const struct ss_steps *s, uint32_t p, uint32_t start,
                         const struct ss_step_cycle *c)
{
    uint32_t most = c->length < p ? c->length : p, head = 0, tail = 0;

    while (head < most && ss_step_fits(s, c, head, calls_ago(p, start, head)))
        head++;
    while (tail < most &&
           ss_step_fits(s, c, c->length - 1 - tail, calls_ago(p, start, p - 1 - tail)))
        tail++;
    return head + tail;
}

/* Which of the last p calls is position 0: the first of the stretch in which the period holds, and
 * that has most marks, where they count; where the step in force was only changed, the one that
 * leaves most of it alike. */
static uint32_t find_start(const struct ss_steps *s, uint32_t p)
{
    const struct ss_step_cycle *c = s->current > 0 ? &s->cycles[s->current - 1] : NULL;
    const uint16_t *run = ss_step_runs(s);
    uint32_t first = p - 1 - (uint32_t)(run[p] + p - 1) % p, best = first, most = 0;

    for (uint32_t i = 0; i < p && (run == s->marked || c); i++) {
        uint32_t start = (first + i) % p, like = 0;
        if (c && p < 2 * (uint32_t)c->length)
            like = likeness(s, p, start, c) * (SS_STEP_MARKS + 1);
        if (run == s->marked)
            like += ss_step_mark_ago(s, calls_ago(p, start, 0));
        if (i == 0 || like > most) {
            most = like;
            best = start;
        }
    }
    return best;
}

/* The cycle in force, or the last that was, with that lane in it. */
static const struct ss_step_cycle *last_with(const struct ss_steps *s, uint32_t lane)
{
    const struct ss_step_cycle *last = NULL;

    for (int i = 0; i < SS_STEP_CYCLES; i++) {
        const struct ss_step_cycle *c = &s->cycles[i];
        if (c->length > 0 && (!last || c->used > last->used) && ss_step_occurrences(c, lane) > 0)
            last = c;
    }
    return last;
}

static uint32_t first_ordinal(const struct ss_step_cycle *c, uint32_t lane)
{
    uint32_t first = UINT32_MAX;

    for (uint32_t q = 0; q < c->length; q++)
        if (c->lane[q] == lane && c->ordinal[q] < first)
            first = c->ordinal[q];
    return first;
}

/* The cycle is the last p calls of it again and again, marks included where they tell. */
static bool repeats(const struct ss_step_cycle *c, uint32_t p)
{
    for (uint32_t q = 0; q < c->length; q++) {
        uint32_t next = (q + p) % c->length;
        unsigned counts = SS_STEP_MARKS & ~(unsigned)(c->varies[q] | c->varies[next]);
        if (c->lane[q] != c->lane[next] || (c->told && ((c->mark[q] ^ c->mark[next]) & counts)))
            return false;
    }
    return p > 0 && p < c->length && c->length % p == 0;
}

/* From which on the calls of the lane of position q, the first of it, have their ordinals in a new
 * cycle: those of the last cycle, where the lane comes as often, or once, or one step may be
 * several of the other; new ones where other layers of equal counts come. */
static uint32_t ordinals_from(const struct ss_steps *s, const struct ss_step_cycle *made,
                              uint32_t q)
{
    const struct ss_step_cycle *last = last_with(s, made->lane[q]);
    uint32_t now = ss_step_occurrences(made, made->lane[q]);
    uint32_t then = last ? ss_step_occurrences(last, made->lane[q]) : 0;

    if (then == 0 || last->any_order)
        return 0;
    if (now == 1 || now % then == 0 || repeats(last, made->length))
        return first_ordinal(last, made->lane[q]);
    return s->ordinals;
}

static void number_calls(struct ss_steps *s, struct ss_step_cycle *made)
{
    uint32_t most = s->ordinals;

    for (uint32_t q = 0; q < made->length; q++) {
        uint32_t before = q;
        while (before > 0 && made->lane[before - 1] != made->lane[q])
            before--;
        made->ordinal[q] = before > 0 ? made->ordinal[before - 1] + 1 : ordinals_from(s, made, q);
        if (made->ordinal[q] >= most)
            most = made->ordinal[q] + 1;
    }
    s->ordinals = most;
}

/* Other layers of equal counts come, and the cycle will be known again when its own return: by
 * marks, or by calls of a lane that comes once. */
static bool is_other_stack(const struct ss_step_cycle *c, const struct ss_step_cycle *made)
{
    bool other = false, known = c->told;

    for (uint32_t q = 0; q < c->length; q++) {
        uint32_t times = ss_step_occurrences(c, c->lane[q]);
        known = known || times == 1;
        other = other || (times > 1 && times != ss_step_occurrences(made, c->lane[q]));
    }
    return other && known;
}

static struct ss_step_cycle *make_cycle(struct ss_steps *s, uint32_t p, uint32_t *place)
{
    struct ss_step_cycle made = {.length = (uint16_t)p}, *c;
    uint32_t start = find_start(s, p);

    for (uint32_t q = 0; q < p; q++)
        made.lane[q] = ss_step_ago(s, calls_ago(p, start, q));
    number_calls(s, &made);
    ss_step_keep_marks(s, &made, start);
    for (int i = 0; i < SS_STEP_CYCLES; i++)
        if (s->cycles[i].length > 0 && ss_step_has_lanes(s, p, &s->cycles[i]) &&
            !is_other_stack(&s->cycles[i], &made))
            s->cycles[i].length = 0;
    c = free_cycle(s);
    *c = made;
    *place = p - 1 - start;
    return c;
}

/* A period that takes over in this call. */
static void adopt(struct ss_steps *s, uint32_t p, struct ss_step_place *place)
{
    uint32_t position;
    struct ss_step_cycle *c = known_cycle(s, p, &position);
    bool first = s->step == 0 && s->current == 0;
    uint32_t held = ss_step_runs(s)[p] + p;

    if (c && s->current == (int)(c - s->cycles) + 1 && place->sync == SS_STEP_IN &&
        c->next == (position + 1) % p)
        return;
    bool made = !c;
    if (s->current == 0 || made) /* expected by nothing, but in this place */
        s->since_out = held;
    if (made)
        c = make_cycle(s, p, &position);
    s->current = (int)(c - s->cycles) + 1;
    s->outs = 0;
    s->doubted = 0;
    if (first)
        s->step = (held - 1) / p - (position == 0);
    else
        s->step += position > 0;
    if (made && !first)
        c->since = s->step + (position == 0);
    *place = ss_step_in_place(s, c, position);
}

/* The last n calls have all lanes of the step in force, if there is one. */
static bool explains(const struct ss_steps *s, uint32_t n)
{
    return s->current == 0 || ss_step_has_lanes(s, n, &s->cycles[s->current - 1]);
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
    *place = ss_step_in_place(s, c, n - 1);
}

void ss_step_seek(struct ss_steps *s, struct ss_step_place *place)
{
    bool settled = s->current > 0 && s->since_out >= 3 * SS_STEP_LONGEST;
    uint32_t found = 0;

    for (uint32_t p = 1; p <= SS_STEP_LONGEST && !settled && found == 0; p++)
        found = holds(s, p) ? p : 0;
    if (found == 0 && place->sync == SS_STEP_IN)
        found = ss_step_of_levels(s, &s->cycles[s->current - 1]);
    if (found > 0)
        adopt(s, found, place);
    if (place->sync != SS_STEP_IN && (found = set_of_last(s)) > 0 && ss_step_allowed(s, found) &&
        explains(s, found))
        adopt_set(s, found, place);
}
