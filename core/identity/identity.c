/* The sequences of a lane, and the place of a call in its own. */
#include "core/identity/identity.h"

#include <stdlib.h>

enum {
    NAMED = 0x40000000,  /* labels of registered buffers begin here, */
    BARRED = 0x20000000, /* and so much higher where EXCLUDE takes the call */
    BUFFERS = 256,       /* receive buffers of a sequence without calls=N */
    SEATS = 1024,        /* a larger N is counted alone: buffers do not correct it */
    SETTLED = 16,
    CERTAIN = 8 /* calls, as few buffers come in the same order by chance */
};

struct ss_own_buffer {
    const void *address, *from;
    uint32_t position; /* from 1; 0: none yet */
    unsigned returns;  /* in a row */
    uint64_t last;     /* number of its last call */
};

/* The positions of a rule with calls=N, and their buffers. */
struct ss_positions {
    const void **seats; /* the buffer of each position, once `settled`, and behind these N the
                           buffers of the last N calls, by their number modulo N */
    uint64_t same;      /* calls in a row whose buffer was that of the call N before */
    uint64_t since;     /* number of the call with which it went astray */
    uint32_t shift;     /* position = (number + shift) % N */
    uint32_t shown;     /* the shift that the seats show since `run` calls */
    uint32_t run;
    bool settled; /* each position has a buffer of its own */
    bool astray;  /* a buffer that is not that of its position has come */
};

struct ss_sequence {
    struct ss_sequence *next;
    uint32_t key;      /* number of the rule, or NAMED and the number of the registered buffer */
    uint32_t label;    /* equal on all ranks */
    uint64_t count;    /* calls so far */
    uint64_t unplaced; /* calls in a row without a position */
    struct ss_positions positions;
    struct ss_own_buffer *buffers; /* BUFFERS of them, NULL: not made yet */
    uint32_t ordinals;             /* of buffers, given so far */
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
static struct ss_own_buffer *entry_of(const struct ss_sequence *s, const void *address)
{
    struct ss_own_buffer *oldest = s->buffers;

    for (struct ss_own_buffer *e = s->buffers; e < s->buffers + BUFFERS; e++) {
        if (e->last > 0 && e->address == address)
            return e;
        oldest = e->last < oldest->last ? e : oldest;
    }
    return oldest;
}

static bool place_by_buffer(struct ss_identity *identity, struct ss_sequence *s,
                            const struct ss_identity_call *call, struct ss_standing *now)
{
    const bool twice = identity->last == call->address;

    identity->last = call->address;
    if (!s->buffers && !(s->buffers = calloc(BUFFERS, sizeof *s->buffers)))
        return false;
    struct ss_own_buffer *e = entry_of(s, call->address);
    if (e->address != call->address || e->from != call->from)
        *e = (struct ss_own_buffer){.address = call->address, .from = call->from};
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
 * the same order for two steps, and for SETTLED calls, each position has its own: a seat. A call
 * from another buffer than that of its position then shows a missing or additional call, or that
 * buffers have moved: the calls are exact. If N calls in a row, at least CERTAIN, come from the
 * seats in their order, these show the shift. If N different buffers soon come in the same order
 * anew, the count holds and the seats are new. Otherwise, as when layers are frozen, the calls stay
 * exact. Buffers that layers share have no seats: the count alone holds. */

/* Returns true if n buffers differ. */
static bool are_distinct(const void *const *buffers, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            if (buffers[i] == buffers[j])
                return false;
    return true;
}

/* Follows the shift that the seats show. */
static void follow(struct ss_positions *p, uint32_t n, uint32_t turn, const void *address)
{
    uint32_t seat = 0;

    while (seat < n && p->seats[seat] != address)
        seat++;
    const uint32_t shown = (seat + n - turn) % n;
    if (seat == n)
        p->run = 0;
    else
        p->run = p->run > 0 && shown == p->shown ? p->run + 1 : 1;
    p->shown = shown;
    if (p->run < n || p->run < CERTAIN)
        return;
    p->shift = shown;
    p->astray = false;
}

/* Compares a call with the seats, or finds these. */
static void compare(struct ss_positions *p, uint32_t n, uint64_t number, const void *address)
{
    const uint32_t turn = (uint32_t)(number % n);
    const void **last = p->seats + n;

    p->same = last[turn] == address ? p->same + 1 : 0;
    last[turn] = address;
    if (p->settled && !p->astray && p->seats[(turn + p->shift) % n] != address) {
        p->astray = true;
        p->since = number;
        p->run = 0;
    }
    if (p->astray)
        follow(p, n, turn, address);
    if (p->settled && (!p->astray || number > p->since + 4 * n + 2 * SETTLED))
        return;
    if (p->same < 2 * n || p->same < SETTLED || p->same % n != 0 || !are_distinct(last, n))
        return;
    for (uint32_t i = 0; i < n; i++)
        p->seats[(i + p->shift) % n] = last[i];
    p->settled = true;
    p->astray = false;
}

static bool place_by_count(const struct ss_identity *identity, struct ss_sequence *s,
                           const struct ss_identity_call *call, struct ss_standing *now)
{
    struct ss_positions *p = &s->positions;
    const uint32_t n = call->rule.calls;

    if (n > 1 && n <= SEATS && !identity->by_rule) {
        if (!p->seats && !(p->seats = calloc(2 * n, sizeof *p->seats)))
            return false;
        compare(p, n, s->count, call->address);
    }
    now->ordinal = (uint32_t)((s->count + p->shift) % n);
    now->known = !p->astray && s->count >= identity->steps * (uint64_t)n;
    return true;
}

/* ---- sequences ---- */

void ss_sequences_free(struct ss_sequences *lane)
{
    while (lane->first) {
        struct ss_sequence *s = lane->first;
        lane->first = s->next;
        free(s->positions.seats);
        free(s->buffers);
        free(s);
    }
}

/* Returns the sequence of a registered buffer, or else of a rule, made when new; NULL if memory is
 * short. Ranks may register their buffers in any order: their labels count first uses. */
static struct ss_sequence *sequence_of(struct ss_sequences *lane, uint32_t buffer, uint32_t rule)
{
    const uint32_t key = buffer > 0 ? NAMED + buffer : rule;
    struct ss_sequence *s = lane->first;

    while (s && s->key != key)
        s = s->next;
    if (s || !(s = calloc(1, sizeof *s)))
        return s;
    s->key = key;
    s->label = buffer > 0 ? NAMED + ++lane->buffers : key;
    s->next = lane->first;
    lane->first = s;
    return s;
}

/* Sets `tell` once no call of the sequence was placed for long, but for the first steps. */
static void tell(struct ss_sequence *s, uint32_t calls, struct ss_standing *now)
{
    const bool begins = calls > 0 && !s->positions.astray;

    s->unplaced = now->known || begins ? 0 : s->unplaced + 1;
    now->tell = s->unplaced == SS_IDENTITY_TELLS + 2 * (uint64_t)calls;
}

bool ss_identity_place(struct ss_identity *identity, struct ss_sequences *lane,
                       const struct ss_identity_call *call, struct ss_standing *now)
{
    const struct ss_sequence_rule *rule = &call->rule;
    const bool named = call->buffer > 0 && !identity->by_rule, barred = named && rule->excluded;
    struct ss_sequence *s = sequence_of(lane, named ? call->buffer : 0, rule->number);
    bool good = true;

    if (!s)
        return false;
    *now = (struct ss_standing){.label = s->label + (barred ? BARRED : 0), .known = named > barred};
    s->count++;
    if (named || !rule->takes)
        return true;
    if (rule->calls > 0)
        good = place_by_count(identity, s, call, now);
    else if (!identity->by_rule)
        good = place_by_buffer(identity, s, call, now);
    tell(s, rule->calls, now);
    return good;
}
