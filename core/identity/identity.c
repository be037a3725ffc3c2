/* The rules of a lane, and the position of a call in the step. */
#include "core/identity/identity.h"

#include <stdlib.h>

enum {
    NAMED = 0x40000000,      /* rule codes of registered buffers begin here, */
    IDENTIFIED = 0x10000000, /* those of identified buffers so much higher, */
    EXCLUDED = 0x20000000,   /* and so much higher where EXCLUDE takes the call */
    BUFFERS = 256,           /* receive buffers of a rule without calls=N */
    MOST_COMPARED = 1024,    /* a larger N is counted alone: buffers do not correct it */
    SETTLED = 16,
    CERTAIN = 8 /* calls, as few buffers come in the same order by chance */
};

struct ss_seen_buffer {
    const void *address, *from;
    uint32_t position; /* from 1; 0: none yet */
    unsigned returns;  /* in a row */
    uint64_t last;     /* number of its last call */
};

/* The positions of a rule with calls=N, and their buffers. */
struct ss_positions {
    const void **buffers; /* the buffer of each position, once `settled`, and behind these N the
                           buffers of the last N calls, by their number modulo N */
    uint64_t same;        /* calls in a row whose buffer was that of the call N before */
    uint64_t since;       /* number of the call with which it went astray */
    uint32_t shift;       /* position = (number + shift) % N */
    uint32_t shown;       /* the shift that the buffers show since `run` calls */
    uint32_t run;
    bool settled; /* each position has a buffer of its own */
    bool astray;  /* a buffer that is not that of its position has come */
};

struct ss_lane_rule {
    struct ss_lane_rule *next;
    uint32_t key;       /* number of the rule, or NAMED and the number of the registered buffer */
    uint32_t rule_code; /* equal on all ranks */
    uint64_t count;     /* calls so far */
    uint64_t unknown;   /* calls in a row without a position */
    struct ss_positions positions;
    struct ss_seen_buffer *buffers; /* BUFFERS of them, NULL: not made yet */
    uint32_t ordinals;              /* of buffers, given so far */
};

/* ---- positions by receive buffers, of a rule without calls=N ----
 *
 * A buffer is a position once it has returned in each of the first steps, from the same send
 * buffer, and with a call from another buffer in between. If it comes twice in a row, or with
 * another send buffer, several layers may share it: its calls are exact until it has returned anew.
 * With another send buffer it is another position from then on, so that the residual of the one
 * reaches no other. Positions are numbered in the order in which they are first known: buffers that
 * come once shift no number. */

/* Returns the entry of the address, or the entry that was not used for longest. */
static struct ss_seen_buffer *entry_of(const struct ss_lane_rule *s, const void *address)
{
    struct ss_seen_buffer *oldest = s->buffers;

    for (struct ss_seen_buffer *e = s->buffers; e < s->buffers + BUFFERS; e++) {
        if (e->last > 0 && e->address == address)
            return e;
        oldest = e->last < oldest->last ? e : oldest;
    }
    return oldest;
}

static bool find_by_buffer(struct ss_identity *identity, struct ss_lane_rule *s,
                           const struct ss_identity_call *call, struct ss_call_identity *now)
{
    const bool twice = identity->last == call->address;

    identity->last = call->address;
    if (!s->buffers && !(s->buffers = calloc(BUFFERS, sizeof *s->buffers)))
        return false;
    struct ss_seen_buffer *e = entry_of(s, call->address);
    if (e->address != call->address || e->from != call->from)
        *e = (struct ss_seen_buffer){.address = call->address, .from = call->from};
    else
        e->returns = twice ? 0 : e->returns + 1;
    e->last = s->count;
    now->known = e->returns > 0 && e->returns + 1 >= identity->steps;
    if (now->known && e->position == 0)
        e->position = ++s->ordinals;
    now->ordinal = now->known ? e->position - 1 : 0;
    return true;
}

/* ---- positions by calls=N, and their correction by the receive buffers ----
 *
 * The position of a call is its number plus a shift, modulo N. If N different buffers have come in
 * the same order for two steps, and for SETTLED calls, each position has its own. A call
 * from another buffer than that of its position then shows a missing or additional call, or that
 * buffers have moved: the calls are exact. If N calls in a row, at least CERTAIN, come from the
 * buffers of the positions in their order, these show the shift. If N different buffers soon come
 * in the same order anew, the count holds and the buffers are new. Otherwise, as when layers are
 * frozen, the calls stay exact. Where layers share buffers, the count alone holds. */

/* Returns true if n buffers differ. */
static bool are_distinct(const void *const *buffers, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            if (buffers[i] == buffers[j])
                return false;
    return true;
}

/* Follows the shift that the buffers show. */
static void follow(struct ss_positions *p, uint32_t n, uint32_t index, const void *address)
{
    uint32_t position = 0;

    while (position < n && p->buffers[position] != address)
        position++;
    const uint32_t shown = (position + n - index) % n;
    if (position == n)
        p->run = 0;
    else
        p->run = p->run > 0 && shown == p->shown ? p->run + 1 : 1;
    p->shown = shown;
    if (p->run < n || p->run < CERTAIN)
        return;
    p->shift = shown;
    p->astray = false;
}

/* Compares a call with the buffers of the positions, or finds these. */
static void compare(struct ss_positions *p, uint32_t n, uint64_t number, const void *address)
{
    const uint32_t index = (uint32_t)(number % n);
    const void **last = p->buffers + n;

    p->same = last[index] == address ? p->same + 1 : 0;
    last[index] = address;
    if (p->settled && !p->astray && p->buffers[(index + p->shift) % n] != address) {
        p->astray = true;
        p->since = number;
        p->run = 0;
    }
    if (p->astray)
        follow(p, n, index, address);
    if (p->settled && (!p->astray || number > p->since + 4 * n + 2 * SETTLED))
        return;
    if (p->same < 2 * n || p->same < SETTLED || p->same % n != 0 || !are_distinct(last, n))
        return;
    for (uint32_t i = 0; i < n; i++)
        p->buffers[(i + p->shift) % n] = last[i];
    p->settled = true;
    p->astray = false;
}

static bool find_by_count(const struct ss_identity *identity, struct ss_lane_rule *s,
                          const struct ss_identity_call *call, struct ss_call_identity *now)
{
    struct ss_positions *p = &s->positions;
    const uint32_t n = call->rule.calls;

    if (n > 1 && n <= MOST_COMPARED && !identity->by_rule) {
        if (!p->buffers && !(p->buffers = calloc(2 * n, sizeof *p->buffers)))
            return false;
        compare(p, n, s->count, call->address);
    }
    now->ordinal = (uint32_t)((s->count + p->shift) % n);
    now->known = !p->astray && s->count >= identity->steps * (uint64_t)n;
    return true;
}

/* ---- rules of a lane ---- */

void ss_lane_rules_free(struct ss_lane_rules *lane)
{
    while (lane->first) {
        struct ss_lane_rule *s = lane->first;
        lane->first = s->next;
        free(s->positions.buffers);
        free(s->buffers);
        free(s);
    }
}

/* Returns the rule of the lane for a registered or identified buffer, or else for a rule, made when
 * new; NULL if memory is short. Ranks may register their buffers in any order: their rule codes
 * count first uses. */
static struct ss_lane_rule *lane_rule_of(struct ss_lane_rules *lane,
                                         const struct ss_identity_call *call, bool named)
{
    const uint32_t position = call->identified ? NAMED + IDENTIFIED + call->buffer : 0;
    const uint32_t key = !named         ? call->rule.number
                         : position > 0 ? position
                                        : NAMED + call->buffer;
    struct ss_lane_rule *s = lane->first;

    while (s && s->key != key)
        s = s->next;
    if (s || !(s = calloc(1, sizeof *s)))
        return s;
    s->key = key;
    s->rule_code = named && position == 0 ? NAMED + ++lane->buffers : key;
    s->next = lane->first;
    lane->first = s;
    return s;
}

/* Sets `tell` once no call of the rule had a position for long, but for the first steps. */
static void tell(struct ss_lane_rule *s, uint32_t calls, struct ss_call_identity *now)
{
    const bool begins = calls > 0 && !s->positions.astray;

    s->unknown = now->known || begins ? 0 : s->unknown + 1;
    now->tell = s->unknown == SS_IDENTITY_TELLS + 2 * (uint64_t)calls;
}

bool ss_identity_find(struct ss_identity *identity, struct ss_lane_rules *lane,
                      const struct ss_identity_call *call, struct ss_call_identity *now)
{
    const struct ss_call_rule *rule = &call->rule;
    const bool named = call->buffer > 0 && !identity->by_rule, excluded = named && rule->excluded;
    struct ss_lane_rule *s = lane_rule_of(lane, call, named);
    bool good = true;

    if (!s)
        return false;
    *now = (struct ss_call_identity){.rule_code = s->rule_code + (excluded ? EXCLUDED : 0),
                                     .known = named > excluded};
    s->count++;
    if (named || !rule->takes)
        return true;
    if (rule->calls > 0)
        good = find_by_count(identity, s, call, now);
    else if (!identity->by_rule)
        good = find_by_buffer(identity, s, call, now);
    tell(s, rule->calls, now);
    return good;
}
