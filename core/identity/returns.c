/* The period with which receive addresses return. */
#include <stdlib.h>

#include "core/identity/identity_impl.h"

enum { LONGEST = SS_IDENTITY_LONGEST, PERIODS = 2, LONG = 4, BREAKS = 2 };

static struct ss_return *at(struct ss_returns *r, uint64_t number)
{
    return &r->last[number % LONGEST];
}

/* Returns the calls since the address last came, with an ordinal if that is asked for; 0 if that is
 * not remembered. */
static uint32_t last_return(struct ss_returns *r, const void *address, bool placed)
{
    uint64_t most = r->count < LONGEST ? r->count : LONGEST;

    for (uint32_t back = 1; back <= most; back++) {
        const struct ss_return *was = at(r, r->count - back);
        if (was->address == address && (!placed || was->ordinal > 0))
            return back;
    }
    return 0;
}

/* Returns true if the call and the last one with its address look like those of one tensor. A
 * buffer that all calls use in place, or with other send buffers, may be shared by several. */
static bool is_whole(const struct ss_returns *r, const struct ss_return *was, const void *from)
{
    return was->from == from && (from != was->address || r->period > 1);
}

bool ss_returns_tell(const struct ss_returns *r)
{
    return r->known && r->whole + 1 >= PERIODS * (uint64_t)r->period;
}

static bool returns(struct ss_returns *r, const void *address)
{
    return r->period > 0 && at(r, r->count - r->period)->address == address;
}

/* Starts a period. If the address had an ordinal before, the new ordinals continue from it. */
static void begin_period(struct ss_returns *r, const void *address, uint64_t number)
{
    uint32_t back = last_return(r, address, true);
    uint32_t former = back > 0 ? at(r, r->count - back)->ordinal - 1 : r->period;

    r->known = true;
    r->former = 0;
    r->base = former < r->period ? number + r->period - former : 0;
}

uint32_t ss_returns_next(struct ss_returns *r, const struct ss_identity_call *call, uint64_t number,
                         uint32_t *ordinal)
{
    const void *address = call->address;

    if (!r->last && !(r->last = calloc(LONGEST, sizeof *r->last)))
        return 0;
    if (returns(r, address)) {
        r->run++;
        r->whole = is_whole(r, at(r, r->count - r->period), call->from) ? r->whole + 1 : 0;
    } else {
        r->breaks += r->run > 0;
        if (r->known && r->run >= LONG * (uint64_t)r->period) {
            r->former = r->period;
            r->ended = r->count;
        }
        r->period = last_return(r, address, false);
        r->run = r->period > 0;
        r->known = false;
        r->whole = 0;
    }
    if (!r->known && r->period > 0 && r->run >= PERIODS * (uint64_t)r->period)
        begin_period(r, address, number);
    *at(r, r->count++) = (struct ss_return){address, call->from, 0};
    if (!r->known)
        return 0;
    *ordinal = (uint32_t)((number + r->period - r->base % r->period) % r->period);
    return r->period;
}

void ss_returns_keep(struct ss_returns *r, const struct ss_standing *now)
{
    if (r->last && r->count > 0 && now->known)
        at(r, r->count - 1)->ordinal = now->ordinal + 1;
}

bool ss_returns_may_exceed(const struct ss_returns *r, uint32_t step)
{
    const bool did = r->former > step && r->former % step == 0;

    if (r->known)
        return false;
    return did ? r->count <= r->ended + SS_MARKS_APART
               : r->run > 0 && r->period > step && r->breaks < BREAKS;
}

void ss_returns_free(struct ss_returns *r)
{
    free(r->last);
}
