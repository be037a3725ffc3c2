/* Sequences of calls, and where a call stands in its own. */
#include "core/identity/identity.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"
#include "core/identity/identity_impl.h"

enum {
    UNLIKE = 8,         /* calls with differing codes, and marks do not count */
    RULED = 0x10000,    /* labels of the calls of a rule begin here, */
    NAMED = 0x40000000, /* and those of registered buffers here, */
    BARRED = 0x20000000 /* and so much higher where EXCLUDE takes the call */
};

struct ss_identity *ss_identity_create(const struct ss_identity_way *how)
{
    struct ss_identity *identity = calloc(1, sizeof *identity);

    if (identity)
        identity->how = *how;
    return identity;
}

static void free_list(struct ss_sequence *s)
{
    while (s) {
        struct ss_sequence *next = s->next;
        ss_returns_free(&s->returns);
        free(s);
        s = next;
    }
}

void ss_identity_forget(struct ss_identity *identity, uint32_t number)
{
    struct ss_identity_lane *lane = number < identity->lane_count ? identity->lanes[number] : NULL;

    if (!lane)
        return;
    free_list(lane->sites);
    free_list(lane->rules);
    free_list(lane->named);
    free(lane);
    identity->lanes[number] = NULL;
}

void ss_identity_free(struct ss_identity *identity)
{
    if (!identity)
        return;
    for (size_t i = 0; i < identity->lane_count; i++)
        ss_identity_forget(identity, (uint32_t)i);
    free(identity->lanes);
    free(identity);
}

static struct ss_identity_lane *lane_at(struct ss_identity *identity, uint32_t number)
{
    struct ss_identity_lane *lane;

    if (number >= identity->lane_count) {
        size_t count = number + 16;
        struct ss_identity_lane **lanes = realloc(identity->lanes, count * sizeof *lanes);
        if (!lanes)
            return NULL;
        memset(lanes + identity->lane_count, 0, (count - identity->lane_count) * sizeof *lanes);
        identity->lanes = lanes;
        identity->lane_count = count;
    }
    lane = identity->lanes[number];
    if (!lane && (lane = calloc(1, sizeof *lane))) {
        lane->identity = identity;
        identity->lanes[number] = lane;
    }
    return lane;
}

/* ---- the sequence of a call ---- */

static struct ss_sequence *lookup(struct ss_sequence *s, uint64_t key)
{
    while (s && s->key != key)
        s = s->next;
    return s;
}

static struct ss_sequence *add(struct ss_identity_lane *lane, struct ss_sequence **list,
                               uint64_t key, uint32_t label)
{
    struct ss_sequence *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->lane = lane;
    s->key = key;
    s->label = label;
    s->next = *list;
    *list = s;
    return s;
}

/* Returns NULL if the lane has run out of labels, or of memory. A lane that runs out of labels here
 * does so on all ranks, or the vote of this call finds labels that differ. */
static struct ss_sequence *of_site(struct ss_identity_lane *lane, uint64_t site)
{
    struct ss_sequence *s = lookup(lane->sites, site);

    if (!s && lane->labels < SS_IDENTITY_SITES)
        return add(lane, &lane->sites, site, ++lane->labels);
    lane->joined = lane->joined || !s;
    return s;
}

/* Labels by first use: ranks may register their buffers in any order. */
static struct ss_sequence *of_buffer(struct ss_identity_lane *lane, uint32_t buffer)
{
    struct ss_sequence *s = lookup(lane->named, buffer);

    return s ? s : add(lane, &lane->named, buffer, NAMED + ++lane->buffers);
}

static struct ss_sequence *of_rule(struct ss_identity_lane *lane, uint32_t number)
{
    struct ss_sequence *s = lookup(lane->rules, number);

    return s ? s : add(lane, &lane->rules, number, RULED + number);
}

/* Returns the sequence of the call's site where sites count, else that of its rule. */
static struct ss_sequence *sequence_of(struct ss_identity_lane *lane,
                                       const struct ss_identity_call *call)
{
    const struct ss_sequence_rule *rule = &call->rule;
    struct ss_sequence *all = of_rule(lane, rule->number), *s = NULL;

    if (!all)
        return NULL;
    all->count++; /* on all ranks, wherever the vote says that sites do not count */
    if (!lane->identity->how.by_rule && !lane->joined && call->site != 0 &&
        (rule->of_site || rule->calls == 0) && !(s = of_site(lane, call->site)) && !lane->joined)
        return NULL;
    if (!s)
        return all;
    s->count++;
    return s;
}

struct ss_sequence *ss_identity_next(struct ss_identity *identity,
                                     const struct ss_identity_call *call)
{
    struct ss_identity_lane *lane = lane_at(identity, call->lane);
    struct ss_sequence *s;

    if (!lane)
        return NULL;
    if (call->buffer > 0 && !identity->how.by_rule)
        return of_buffer(lane, call->buffer);
    if ((s = sequence_of(lane, call))) {
        s->taken = call->rule.takes;
        s->calls = call->rule.calls;
    }
    return s;
}

/* ---- where a call stands ---- */

static bool marks_count(const struct ss_sequence *s)
{
    return !s->lane->unmarked && !s->lane->identity->how.by_rule;
}

static bool is_open(const struct ss_sequence *s)
{
    return marks_count(s) && ss_marking_is_open(&s->marking);
}

/* Places a call by calls=N, or by the marks if their distance is a multiple of N. Marks may come in
 * the middle of a step: when they first count, the numbers go on. If the first marks may still turn
 * out to be regular, waits for them, at most as long again, except for calls=1 and calls that go by
 * the rule alone. */
static struct ss_standing by_calls(struct ss_sequence *s, uint64_t number, uint32_t step,
                                   uint32_t place, bool fits)
{
    const uint64_t least = s->lane->identity->how.steps * (uint64_t)s->calls;
    const bool wait = s->calls > 1 && is_open(s) && number < 2 * least;
    const bool marked = step > 0 && step % s->calls == 0;

    if (marked && !s->was_marked)
        s->at_mark = number - place;
    s->was_marked = s->was_marked || marked;
    return (struct ss_standing){
        .period = s->calls,
        .ordinal = (uint32_t)((marked ? s->at_mark + place : number) % s->calls),
        .known = number >= least && !wait && (fits || !marked),
    };
}

/* Returns true if a call whose address has returned waits for marks: several layers that share one
 * buffer look like one gradient. */
static bool waits(const struct ss_sequence *s, const struct ss_identity_call *call)
{
    const bool alone = s->returns.period == 1;

    if (alone && ss_returns_tell(&s->returns))
        return false;
    return is_open(s) || (alone && call->from != call->address && marks_count(s) &&
                          ss_marking_may_begin(&s->marking));
}

static struct ss_standing by_returns(struct ss_sequence *s, const struct ss_identity_call *call)
{
    struct ss_standing now = {.ordinal = 0};

    now.period = ss_returns_next(&s->returns, call, s->count, &now.ordinal);
    now.known = now.period > 0 && !waits(s, call);
    return now;
}

/* Returns true if addresses decide although marks are regular: each is one tensor's, and marks
 * separate several of their periods. Addresses go on to decide until none has returned for long. */
static bool addresses_win(struct ss_sequence *s, uint32_t period, uint32_t step)
{
    struct ss_returns *r = &s->returns;

    if (period > 0 && period < step && step % period == 0 && ss_returns_tell(r))
        r->won = true;
    else if (period > 0 || s->unknown > SS_MARKS_APART)
        r->won = false;
    return r->won;
}

/* Places a call by marks and addresses together, where neither period holds the other a whole
 * number of times. A place between marks is a tensor in each of the steps of the joint period. */
static struct ss_standing by_both(uint32_t period, uint64_t number, uint32_t step, uint32_t place)
{
    uint32_t steps = 1;

    while (steps * step % period != 0)
        steps++;
    return (struct ss_standing){
        .period = steps * step,
        .ordinal = (uint32_t)((number - place) / step % steps) * step + place,
        .known = place < step && steps * step <= SS_IDENTITY_LONGEST,
    };
}

/* Places a call by the longer of the periods of marks and addresses. */
static struct ss_standing by_longer(struct ss_sequence *s, const struct ss_identity_call *call,
                                    uint32_t step, uint32_t place, bool fits)
{
    struct ss_standing now = by_returns(s, call);

    if (step == 0 || addresses_win(s, now.period, step) || ss_returns_may_exceed(&s->returns, step))
        return now;
    if (now.period > step)
        return now.period % step == 0 ? now : by_both(now.period, s->count, step, place);
    return (struct ss_standing){.period = step, .ordinal = place, .known = fits};
}

struct ss_standing ss_sequence_count(struct ss_sequence *s, const struct ss_identity_call *call)
{
    const struct ss_identity_way *how = &s->lane->identity->how;
    const uint64_t number = s->count;
    struct ss_standing now = {.label = s->label, .number = number};
    uint32_t place, step = ss_marking_next(&s->marking, call->marks, &place);

    if (s->label > NAMED)
        return (struct ss_standing){.label = s->label + (call->rule.excluded ? BARRED : 0),
                                    .period = 1,
                                    .known = !call->rule.excluded};
    if (!s->taken)
        return now;
    if (!marks_count(s))
        step = 0;
    bool fits = ss_marking_fits(&s->marking, place, call->address, s->calls == 0) && place < step &&
                !s->marking.cut;
    if (s->calls > 0)
        now = by_calls(s, number, step, place, fits);
    else if (!how->by_rule)
        now = by_longer(s, call, step, place, fits);
    if (s->calls == 0)
        ss_returns_keep(&s->returns, &now);
    now.label = s->label;
    now.number = number;
    if (now.known)
        s->unknown = 0;
    else if (s->calls == 0 && ++s->unknown >= SS_IDENTITY_TELLS && s->returns.run == 0 && !s->told)
        now.tell = s->told = true;
    return now;
}

uint64_t ss_standing_code(const struct ss_standing *now)
{
    return now->known ? (uint64_t)now->period << 32 | (now->ordinal + 1) : 0;
}

/* ---- votes ---- */

void ss_identity_vote(struct ss_identity *identity, uint32_t number, bool same_label,
                      bool same_tensor, bool all_known)
{
    struct ss_identity_lane *lane = number < identity->lane_count ? identity->lanes[number] : NULL;

    if (!lane)
        return;
    if (!same_label)
        lane->joined = true;
    if (same_tensor)
        lane->unlike = 0;
    else if (same_label && all_known && ++lane->unlike >= UNLIKE)
        lane->unmarked = true;
}
