/* Identity of tensors, and how a residual passes to the tensor that replaces its own. */
#include "core/tensor/tensor.h"
#include "core/tensor/residual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/tensor_impl.h"

enum {
    MOST_TENSORS = 1024, /* from here on those long unused without a residual are freed */
    GONE_STEPS = 3,
    GONE_CALLS = 64,
    SWEPT = 2 /* tensors looked at in a call, for samples that nothing will be compared with */
};

struct ss_tensors *ss_tensors_create(const struct ss_tensor_settings *settings, struct ss_mem *mem)
{
    struct ss_tensors *ts = calloc(1, sizeof *ts);

    if (ts) {
        ts->settings = settings;
        ts->mem = mem;
        pthread_mutex_init(&ts->lock, NULL);
    }
    return ts;
}

static void free_tensor(struct ss_tensor *t)
{
    t->residual.place->ops->drop(t->residual.place, &t->residual.values);
    ss_buf_free(&t->agreed.bounds);
    ss_buf_free(&t->series);
    ss_watch_free(&t->watch);
    free(t);
}

void ss_tensors_free(struct ss_tensors *ts)
{
    if (!ts)
        return;
    for (struct ss_tensor *t = ts->first; t;) {
        struct ss_tensor *next = t->next;
        free_tensor(t);
        t = next;
    }
    for (size_t i = 0; i < ts->lane_count; i++)
        free(ts->lanes[i].sites);
    free(ts->lanes);
    pthread_mutex_destroy(&ts->lock);
    free(ts);
}

struct ss_tensor *ss_tensors_first(const struct ss_tensors *ts)
{
    return ts->first;
}

void ss_tensors_lock(struct ss_tensors *ts)
{
    pthread_mutex_lock(&ts->lock);
}

void ss_tensors_unlock(struct ss_tensors *ts)
{
    pthread_mutex_unlock(&ts->lock);
}

/* ---- table ---- */

static struct ss_tensor_lane *lane_at(struct ss_tensors *ts, uint32_t number)
{
    if (number >= ts->lane_count) {
        size_t count = number + 16;
        struct ss_tensor_lane *lanes = realloc(ts->lanes, count * sizeof *lanes);
        if (!lanes)
            return NULL;
        memset(lanes + ts->lane_count, 0, (count - ts->lane_count) * sizeof *lanes);
        ts->lanes = lanes;
        ts->lane_count = count;
    }
    return &ts->lanes[number];
}

static size_t bucket_of(const struct ss_tensor *t)
{
    uint64_t h = ss_mix(ss_mix(t->lane, t->ordinal), t->label);

    return ss_mix(h, (uint64_t)(uintptr_t)t->address) % SS_TENSOR_BUCKETS;
}

static struct ss_tensor **link_in(struct ss_tensor **list, const struct ss_tensor *t, size_t offset)
{
    while (*list != t)
        list = (struct ss_tensor **)(void *)((char *)*list + offset);
    return list;
}

static struct ss_tensor **bucket(const struct ss_tensor *t)
{
    return &t->owner->buckets[bucket_of(t)];
}

static void insert(struct ss_tensor *t)
{
    struct ss_tensors *ts = t->owner;
    struct ss_tensor_lane *lane = &ts->lanes[t->lane];
    struct ss_tensor **b = bucket(t);

    t->next = ts->first;
    ts->first = t;
    t->in_lane = lane->tensors;
    lane->tensors = t;
    t->chain = *b;
    *b = t;
    ts->count++;
}

static void discard(struct ss_tensor *t)
{
    struct ss_tensors *ts = t->owner;
    struct ss_tensor **at;

    ss_residual_drop(t);
    if (ts->swept == t)
        ts->swept = t->next;
    at = link_in(&ts->first, t, offsetof(struct ss_tensor, next));
    *at = t->next;
    at = link_in(&ts->lanes[t->lane].tensors, t, offsetof(struct ss_tensor, in_lane));
    *at = t->in_lane;
    at = link_in(bucket(t), t, offsetof(struct ss_tensor, chain));
    *at = t->chain;
    ts->count--;
    free_tensor(t);
}

/* There are too many: the one without residual whose lane has had most calls since its last is
 * removed. */
static void remove_oldest(struct ss_tensors *ts)
{
    struct ss_tensor *oldest = NULL;
    uint64_t most = GONE_CALLS;

    for (struct ss_tensor *t = ts->first; t; t = t->next) {
        uint64_t gone = ts->lanes[t->lane].calls - t->history.last_on_lane;
        if (!ss_residual_there(t) && t->in_flight == 0 && !t->has_rounds && gone > most) {
            most = gone;
            oldest = t;
        }
    }
    if (oldest)
        discard(oldest);
}

/* ---- residuals that pass to a successor ---- */

static bool replaced(const struct ss_tensor *o, const struct ss_tensor *by)
{
    return by->ordinal == o->ordinal && by->history.first_on_lane > o->history.last_on_lane;
}

static bool is_long_gone(const struct ss_tensor *t, const struct ss_step_place *now)
{
    uint64_t gone = t->owner->lanes[t->lane].calls - t->history.last_on_lane;

    return gone > GONE_CALLS && gone > 3 * (uint64_t)now->period;
}

/* A gradient that stays exact for other reasons than what it looks like: in its dense calls it can
 * send a residual. */
static bool is_dense_gradient(const struct ss_tensor *s)
{
    return s->state == SS_TENSOR_EXACT &&
           (s->reason == SS_TENSOR_MEMORY || s->reason == SS_TENSOR_OTHERS ||
            s->reason == SS_TENSOR_GUARDED);
}

/* Whether others than s are called from there: layers, of which each has its own residual. */
static bool is_of_several(const struct ss_tensor *s, const struct ss_step_place *now)
{
    for (const struct ss_tensor *t = s->owner->lanes[s->lane].tensors; t; t = t->in_lane)
        if (t != s && t->label == s->label && t->state == SS_TENSOR_REGISTERED &&
            !is_long_gone(t, now))
            return true;
    return false;
}

/* One of a stack of equal layers that will not be known again. */
static bool is_forgotten(const struct ss_tensor *o)
{
    return o->ordinal > 0 && !ss_steps_know(&o->owner->steps, o->lane, o->label, o->ordinal);
}

/* Whether o, not called for a while, has its successor in s. */
static bool succeeds(const struct ss_tensor *s, const struct ss_tensor *o, bool long_gone,
                     const struct ss_step_place *now)
{
    if (s->state == SS_TENSOR_REGISTERED)
        return replaced(o, s) ||
               (long_gone && s->label == o->label && (!is_of_several(s, now) || is_forgotten(o)));
    return long_gone && is_dense_gradient(s) && replaced(o, s);
}

/* A call of it that began among the last ones may be under way, here or on another rank. As many as
 * with MERGE also without: residuals then move in the same calls. */
static bool is_recent(const struct ss_tensor *t, bool overlaps)
{
    return overlaps && t->owner->calls - t->history.last_call < SS_MERGED;
}

/* overlaps: so does the call at hand, that of `by`. */
static struct ss_tensor *successor(const struct ss_tensor *o, const struct ss_step_place *now,
                                   const struct ss_tensor *by, bool overlaps)
{
    bool long_gone = is_long_gone(o, now);
    bool gone_steps = now->sync == SS_STEP_IN && now->step > o->history.place.step + GONE_STEPS;
    struct ss_tensor *best = NULL;

    if (!long_gone && !gone_steps)
        return NULL;
    for (struct ss_tensor *s = o->owner->lanes[o->lane].tensors; s; s = s->in_lane) {
        bool alike = s->ordinal == o->ordinal;
        if (s == o || s->in_flight > 0 || (s != by && is_recent(s, overlaps)) ||
            s->history.last_on_lane < o->history.last_on_lane || !succeeds(s, o, long_gone, now) ||
            (best && !alike && best->ordinal == o->ordinal))
            continue;
        if (!best || (alike && best->ordinal != o->ordinal) ||
            s->history.last_on_lane > best->history.last_on_lane)
            best = s;
    }
    return best;
}

static bool may_have_orphans(const struct ss_tensor_lane *lane, const struct ss_step_place *now)
{
    return lane->residuals > 0 && (lane->calls > lane->orphan_calls ||
                                   (now->sync == SS_STEP_IN && now->step > lane->orphan_step));
}

/* Up to when those that have a residual now, or get one in a call of theirs, are none. */
static void foresee_orphans(struct ss_tensor_lane *lane, const struct ss_step_place *now)
{
    uint64_t calls = lane->calls, step = now->step;

    for (const struct ss_tensor *o = lane->tensors; o; o = o->in_lane)
        if (ss_residual_there(o)) {
            const struct ss_call_history *h = &o->history;
            calls = h->last_on_lane < calls ? h->last_on_lane : calls;
            step = h->place.step < step ? h->place.step : step;
        }
    lane->orphan_calls = calls + GONE_CALLS;
    lane->orphan_step = step + GONE_STEPS;
}

static void settle_orphans(const struct ss_tensor *by, bool overlaps)
{
    struct ss_tensor_lane *lane = &by->owner->lanes[by->lane];
    const struct ss_step_place *now = &by->history.place;

    if (!may_have_orphans(lane, now))
        return;
    for (struct ss_tensor *o = lane->tensors; o; o = o->in_lane) {
        if (!ss_residual_there(o) || o->in_flight > 0 || is_recent(o, overlaps))
            continue;
        struct ss_tensor *to = successor(o, now, by, overlaps);
        if (!to)
            continue;
        if (!ss_residual_hand_over(o, to))
            continue;
        o->has_rounds = false; /* its next call is with all ranks */
        if (o->state == SS_TENSOR_REGISTERED) {
            o->state = SS_TENSOR_CANDIDATE;
            o->reason = SS_TENSOR_WATCHED;
        }
    }
    foresee_orphans(lane, now);
}

bool ss_tensor_lane_interest(const struct ss_tensor *t)
{
    for (const struct ss_tensor *o = t->owner->lanes[t->lane].tensors; o; o = o->in_lane)
        if ((o->state == SS_TENSOR_REGISTERED && !(o->rest.resting && o->rest.emptied)) ||
            (o->state == SS_TENSOR_CANDIDATE && !is_long_gone(o, &t->history.place)))
            return true;
    return false;
}

/* ---- sites ---- */

static bool sites_count(const struct ss_tensors *ts)
{
    return ts->settings->identity == SS_IDENTITY_AUTO || ts->settings->identity == SS_IDENTITY_SITE;
}

void ss_tensors_level(struct ss_tensors *ts, double square, const uint8_t *parts, uint8_t small)
{
    pthread_mutex_lock(&ts->lock);
    ss_steps_level(&ts->steps, square, parts, small);
    pthread_mutex_unlock(&ts->lock);
}

static bool add_site(struct ss_tensor_lane *lane, uint64_t site)
{
    if (lane->site_count == lane->site_room) {
        uint32_t room = lane->site_room ? 4 * lane->site_room : 4;
        uint64_t *sites = room <= SS_SITES ? realloc(lane->sites, room * sizeof *sites) : NULL;
        if (!sites)
            return false;
        lane->sites = sites;
        lane->site_room = room;
    }
    lane->sites[lane->site_count++] = site;
    return true;
}

/* Where a call comes from; of a buffer that the application names, the buffer. 0 = unknown. */
static uint64_t origin(const struct ss_tensors *ts, const struct ss_tensor_call *call)
{
    if (ss_registry_names(ts->settings->registry, call->address, call->n))
        return ss_mix(1, (uint64_t)(uintptr_t)call->address);
    return call->site == 0 ? 0 : ss_mix(call->site, call->path);
}

/* The label of a call. A lane that runs out of them here does so on all ranks, or else the vote of
 * this call finds labels that differ. */
static uint32_t label_of(struct ss_tensors *ts, const struct ss_tensor_call *call)
{
    struct ss_tensor_lane *lane = &ts->lanes[call->lane];
    uint64_t site = sites_count(ts) && !lane->joined ? origin(ts, call) : 0;
    uint32_t label = 0;

    if (site == 0)
        return 0;
    while (label < lane->site_count && lane->sites[label] != site)
        label++;
    if (label < lane->site_count || add_site(lane, site))
        return label;
    ss_tensors_join_now(ts, call->lane);
    return 0;
}

/* ---- find ---- */

static struct ss_tensor *make(struct ss_tensors *ts, const struct ss_tensor_call *call,
                              const struct ss_tensor *key, const struct ss_step_place *place)
{
    struct ss_tensor *t;
    const struct ss_rule_subject *subject = call->subject;

    if (ts->count >= MOST_TENSORS)
        remove_oldest(ts);
    if (!(t = malloc(sizeof *t)))
        return NULL;
    *t = *key;
    t->owner = ts;
    t->number = ts->numbers++;
    t->residual.place = call->place ? call->place : &ss_host;
    t->type = call->type;
    t->op = call->op;
    t->n = call->n;
    t->history.first_on_lane = ts->lanes[call->lane].calls;
    t->history.last_on_lane = t->history.first_on_lane;
    t->history.place = *place;
    t->buffer = call->address;
    if (subject && subject->site)
        snprintf(t->site_name, sizeof t->site_name, "%s", subject->site);
    if (subject && subject->symbol)
        snprintf(t->symbol, sizeof t->symbol, "%s", subject->symbol);
    insert(t);
    ss_tensor_admit(t, subject);
    return t;
}

static struct ss_tensor key_of(const struct ss_tensors *ts, const struct ss_tensor_call *call,
                               uint32_t label, const struct ss_step_place *place)
{
    enum ss_identity id = ts->settings->identity;
    struct ss_tensor key = {.lane = call->lane, .label = label};

    if (id == SS_IDENTITY_AUTO || id == SS_IDENTITY_ORDINAL)
        key.ordinal = place->ordinal;
    if (id == SS_IDENTITY_ADDRESS)
        key.address = call->address;
    return key;
}

static struct ss_tensor *look_up(struct ss_tensors *ts, struct ss_tensor *key)
{
    struct ss_tensor *t;

    key->owner = ts;
    t = *bucket(key);
    while (t && (t->lane != key->lane || t->ordinal != key->ordinal || t->label != key->label ||
                 t->address != key->address))
        t = t->chain;
    return t;
}

/* Whether a call that stands there is that of the tensor which its key names. Out of place it is
 * where the lane has been seen to come but once in a step. */
static bool is_placed(const struct ss_tensors *ts, const struct ss_tensor_lane *lane,
                      const struct ss_step_place *place)
{
    enum ss_identity id = ts->settings->identity;

    if (id == SS_IDENTITY_ADDRESS || id == SS_IDENTITY_SITE || place->sync == SS_STEP_IN)
        return true;
    if (place->sync == SS_STEP_UNKNOWN)
        return ts->settings->register_after == 0;
    return place->ordinal == 0 && !lane->several;
}

bool ss_tensor_lossy(const struct ss_tensor *t)
{
    return t->state == SS_TENSOR_REGISTERED && t->placed;
}

uint64_t ss_tensor_code(const struct ss_tensor *t)
{
    if (t->owner->settings->identity == SS_IDENTITY_ADDRESS)
        return 0;
    return (uint64_t)t->ordinal << 1 | t->placed;
}

/* ---- samples that are no longer needed ---- */

/* Samples of what a program calls once or twice and never again must not pile up: such a candidate
 * will be watched from its next call on. */
static void sweep(struct ss_tensors *ts, const struct ss_step_place *now)
{
    uint64_t most = now->period > 0 ? GONE_CALLS + 3 * (uint64_t)now->period : 2 * GONE_CALLS;

    for (int i = 0; i < SWEPT; i++) {
        struct ss_tensor *t = ts->swept ? ts->swept : ts->first;
        if (!t)
            return;
        ts->swept = t->next;
        if (t->state != SS_TENSOR_CANDIDATE || t->in_flight > 0 ||
            ts->calls - t->history.last_call <= most)
            continue;
        ss_watch_free(&t->watch);
        t->watch = (struct ss_watch){.calls = 0};
    }
}

bool ss_tensors_hold(const struct ss_tensors *ts, uint32_t lane)
{
    return lane < ts->lane_count && ts->lanes[lane].residuals > 0;
}

size_t ss_tensors_forget_lane(struct ss_tensors *ts, uint32_t lane)
{
    size_t gone = 0;

    pthread_mutex_lock(&ts->lock);
    ss_steps_forget(&ts->steps, lane);
    for (struct ss_tensor *t = lane < ts->lane_count ? ts->lanes[lane].tensors : NULL, *next; t;
         t = next) {
        next = t->in_lane;
        discard(t);
        gone++;
    }
    ss_tensors_forget_joins(ts, lane);
    if (lane < ts->lane_count) {
        free(ts->lanes[lane].sites);
        ts->lanes[lane] = (struct ss_tensor_lane){0};
    }
    pthread_mutex_unlock(&ts->lock);
    return gone;
}

/* Whether the program has not seen the last call of the tensor end, in the same cycle; that call is
 * the last from now on. */
static bool overlaps(struct ss_call_history *h, const struct ss_under_way *under_way,
                     const struct ss_step_place *place)
{
    bool same = h->last_period == place->period && h->last_since == place->since;
    bool overlaps = under_way && same && ss_is_under_way(under_way, h->last_made);

    h->last_made = under_way ? under_way->number : 0;
    h->last_period = place->period;
    h->last_since = place->since;
    return overlaps;
}

/* Else the user says what one tensor is, also of a pipeline that has several calls of it under way.
 */
static bool places_count(const struct ss_tensor_settings *settings)
{
    return settings->identity == SS_IDENTITY_AUTO || settings->identity == SS_IDENTITY_ORDINAL;
}

/* The call and the last of its tensor are a step apart: its place was not just lost. */
static bool is_in_turn(const struct ss_step_place *place, uint64_t apart)
{
    return place->sync == SS_STEP_UNKNOWN || (place->sync == SS_STEP_IN && apart == place->period);
}

static struct ss_tensor *find(struct ss_tensors *ts, const struct ss_tensor_call *call,
                              struct ss_tensor_found *found)
{
    found->number = ++ts->calls;
    found->overlaps = found->in_turn = found->waived = false;
    ss_tensors_change_due(ts, call->overlaps);
    struct ss_tensor_lane *lane = lane_at(ts, call->lane);
    uint32_t label = lane ? label_of(ts, call) : 0;
    if (call->overlaps)
        ss_steps_blind(&ts->steps);
    found->marks = ss_steps_mark(&ts->steps, call->marks);
    found->at_once = ss_steps_marks(&ts->steps) & SS_STEP_AFTER_ALL;
    found->place = ss_steps_next(&ts->steps, call->lane, label);
    struct ss_tensor key = key_of(ts, call, label, &found->place), *t;

    sweep(ts, &found->place);
    if (!lane)
        return NULL;
    if (!lane->joined && ss_steps_irregular(&ts->steps, call->lane))
        ss_tensors_join_now(ts, call->lane); /* from the next call on */
    lane->calls++;
    lane->several = lane->several || found->place.ordinal > 0;
    t = look_up(ts, &key);
    if (!t && !(t = make(ts, call, &key, &found->place)))
        return NULL;
    uint64_t apart = ts->calls - t->history.last_call;
    found->waived = ts->settings->register_after == 0 && found->place.sync == SS_STEP_UNKNOWN;
    found->overlaps =
        overlaps(&t->history, call->under_way, &found->place) && places_count(ts->settings);
    found->in_turn = is_in_turn(&found->place, apart);
    if (found->overlaps && found->in_turn && found->at_once)
        ss_steps_too_short(&ts->steps, found->place.period);
    t->history.last_on_lane = lane->calls;
    t->history.last_call = ts->calls;
    return t;
}

struct ss_tensor *ss_tensor_find(struct ss_tensors *ts, const struct ss_tensor_call *call,
                                 struct ss_tensor_found *found)
{
    pthread_mutex_lock(&ts->lock);
    struct ss_tensor *t = find(ts, call, found);
    pthread_mutex_unlock(&ts->lock);
    return t;
}

static void count_call(struct ss_tensor *t, const struct ss_tensor_call *call,
                       const struct ss_step_place *place)
{
    t->calls++;
    if (t->calls == 1 || t->history.place.since != place->since) {
        t->history.first_turn = place->turn;
        t->history.step_calls = 0;
    }
    t->history.step_calls++;
    t->history.place = *place;
    t->buffer = call->address;
    t->history.confirmed += place->sync == SS_STEP_IN;
}

void ss_tensor_take(struct ss_tensor *t, const struct ss_tensor_call *call,
                    const struct ss_tensor_found *found)
{
    struct ss_tensors *ts = t->owner;

    pthread_mutex_lock(&ts->lock);
    count_call(t, call, &found->place);
    t->placed = is_placed(ts, &ts->lanes[t->lane], &found->place);
    if (found->place.settled)
        ss_tensor_identified(t);
    settle_orphans(t, call->overlaps);
    if (t->withdrawn && !t->has_rounds) {
        t->withdrawn = false;
        ss_tensor_settle(t, false, SS_TENSOR_WITHDRAWN);
    }
    if (ss_tensor_lossy(t))
        t->registered_calls++;
    pthread_mutex_unlock(&ts->lock);
}
