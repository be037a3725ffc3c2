/* The table of tensors, and the passing of residuals to successors. */
#include "core/tensor/tensor.h"
#include "core/tensor/residual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/tensor_impl.h"

enum {
    MOST_TENSORS = 1024, /* beyond this number, long unused tensors without a residual are freed */
    GONE_STEPS = 3,      /* an orphan was not called for so many steps, */
    GONE_CALLS = 64,     /* and for so many calls of its lane */
    LOOKED_FOR = 256     /* calls of a candidate during which its lane does not back off */
};

struct ss_tensors *ss_tensors_create(const struct ss_tensor_settings *settings, struct ss_mem *mem)
{
    struct ss_tensors *ts = calloc(1, sizeof *ts);

    if (!ts || !(ts->identity = ss_identity_create(&settings->identity))) {
        free(ts);
        return NULL;
    }
    ts->settings = settings;
    ts->mem = mem;
    pthread_mutex_init(&ts->lock, NULL);
    return ts;
}

static void free_tensor(struct ss_tensor *t)
{
    t->residual.backend->ops->drop(t->residual.backend, &t->residual.values);
    ss_buf_free(&t->agreed.bounds);
    ss_buf_free(&t->series);
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
    ss_identity_free(ts->identity);
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
    return ss_mix(ss_mix(t->lane, t->ordinal), t->label) % SS_TENSOR_BUCKETS;
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
    at = link_in(&ts->first, t, offsetof(struct ss_tensor, next));
    *at = t->next;
    at = link_in(&ts->lanes[t->lane].tensors, t, offsetof(struct ss_tensor, in_lane));
    *at = t->in_lane;
    at = link_in(bucket(t), t, offsetof(struct ss_tensor, chain));
    *at = t->chain;
    ts->count--;
    free_tensor(t);
}

/* Removes the tensor without a residual whose lane has had most calls since the tensor's last. */
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

/* Tensors that other rules name are other gradients. */
static bool replaced(const struct ss_tensor *o, const struct ss_tensor *by)
{
    return by->ordinal == o->ordinal && by->rule == o->rule &&
           by->history.first_on_lane > o->history.last_on_lane;
}

static bool is_long(const struct ss_tensor *t, uint64_t calls)
{
    return calls > GONE_CALLS && calls > GONE_STEPS * (uint64_t)t->history.period;
}

static bool is_gone(const struct ss_tensor *t)
{
    return is_long(t, t->owner->lanes[t->lane].calls - t->history.last_on_lane);
}

/* Returns true if s has gone on without t, which has its label. Between two steps the lane may have
 * many calls that are of no layer. */
static bool goes_on_without(const struct ss_tensor *s, const struct ss_tensor *t)
{
    return s->history.last_of_label > t->history.last_of_label &&
           is_long(t, s->history.last_of_label - t->history.last_of_label);
}

/* Returns true if the dense calls of the exact tensor s can send a residual. */
static bool is_dense(const struct ss_tensor *s)
{
    return s->state == SS_TENSOR_EXACT &&
           (s->reason == SS_TENSOR_MEMORY || s->reason == SS_TENSOR_OTHERS ||
            s->reason == SS_TENSOR_GUARDED);
}

/* Returns true if other registered tensors have the label of s and come beside it: layers, each
 * with its own residual. */
static bool is_of_several(const struct ss_tensor *s)
{
    for (const struct ss_tensor *t = s->owner->lanes[s->lane].tensors; t; t = t->in_lane)
        if (t != s && t->label == s->label && t->state == SS_TENSOR_REGISTERED &&
            !goes_on_without(s, t))
            return true;
    return false;
}

static bool succeeds(const struct ss_tensor *s, const struct ss_tensor *o)
{
    if (s->state == SS_TENSOR_REGISTERED)
        return replaced(o, s) ||
               (s->label == o->label && goes_on_without(s, o) && !is_of_several(s));
    return is_dense(s) && replaced(o, s);
}

/* Returns true if a call of t may be in flight, here or on another rank. The bound is SS_MERGED
 * with MERGE and without, so that residuals move in the same calls. */
static bool is_recent(const struct ss_tensor *t, bool overlaps)
{
    return overlaps && t->owner->calls - t->history.last_call < SS_MERGED;
}

/* Returns the tensor that takes the residual of o, or NULL. `by` is the tensor of the current call,
 * which overlaps with others if `overlaps`. */
static struct ss_tensor *successor(const struct ss_tensor *o, const struct ss_tensor *by,
                                   bool overlaps)
{
    struct ss_tensor *best = NULL;

    for (struct ss_tensor *s = o->owner->lanes[o->lane].tensors; s; s = s->in_lane) {
        bool alike = s->ordinal == o->ordinal;
        if (s == o || s->in_flight > 0 || (s != by && is_recent(s, overlaps)) ||
            s->history.last_on_lane < o->history.last_on_lane || !succeeds(s, o) ||
            (best && !alike && best->ordinal == o->ordinal))
            continue;
        if (!best || (alike && best->ordinal != o->ordinal) ||
            s->history.last_on_lane > best->history.last_on_lane)
            best = s;
    }
    return best;
}

/* Sets the number of calls up to which no tensor of the lane can be an orphan. */
static void foresee_orphans(struct ss_tensor_lane *lane)
{
    uint64_t calls = lane->calls;

    for (const struct ss_tensor *o = lane->tensors; o; o = o->in_lane)
        if (ss_residual_there(o) && o->history.last_on_lane < calls)
            calls = o->history.last_on_lane;
    lane->orphan_calls = calls + GONE_CALLS;
}

static void settle_orphans(const struct ss_tensor *by, bool overlaps)
{
    struct ss_tensor_lane *lane = &by->owner->lanes[by->lane];

    if (lane->residuals == 0 || lane->calls <= lane->orphan_calls)
        return;
    for (struct ss_tensor *o = lane->tensors; o; o = o->in_lane) {
        if (!ss_residual_there(o) || o->in_flight > 0 || is_recent(o, overlaps) || !is_gone(o))
            continue;
        struct ss_tensor *to = successor(o, by, overlaps);
        if (!to || !ss_residual_hand_over(o, to))
            continue;
        o->has_rounds = false; /* its next call waits for all ranks */
        if (o->state == SS_TENSOR_REGISTERED) {
            o->state = SS_TENSOR_CANDIDATE;
            o->reason = SS_TENSOR_NO_STEP;
        }
    }
    foresee_orphans(lane);
}

bool ss_tensor_lane_interest(const struct ss_tensor *t)
{
    for (const struct ss_tensor *o = t->owner->lanes[t->lane].tensors; o; o = o->in_lane)
        if ((o->state == SS_TENSOR_REGISTERED && o->rest != SS_RESTS_EMPTY) ||
            (o->state == SS_TENSOR_CANDIDATE && !is_gone(o) && o->calls < LOOKED_FOR))
            return true;
    return false;
}

/* ---- find ---- */

static struct ss_tensor *make(struct ss_tensors *ts, const struct ss_tensor_call *call,
                              const struct ss_tensor *key)
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
    t->residual.backend = call->backend ? call->backend : &ss_host;
    t->type = call->type;
    t->op = call->op;
    t->n = call->n;
    t->history.first_on_lane = ts->lanes[call->lane].calls;
    t->history.last_on_lane = t->history.first_on_lane;
    t->buffer = call->address;
    if (subject && subject->site)
        snprintf(t->site_name, sizeof t->site_name, "%s", subject->site);
    if (subject && subject->symbol)
        snprintf(t->symbol, sizeof t->symbol, "%s", subject->symbol);
    insert(t);
    ss_tensor_admit(t, subject);
    t->hold = (struct ss_hold){.n = t->n};
    if (call->has_slices && (call->slices.by_host || (t->rule && t->rule->node)) &&
        !(t->rule && t->rule->keep != SS_KEEP_NONE)) {
        t->hold = call->slices;
        t->hold.by_host = true;
    }
    return t;
}

static struct ss_tensor *look_up(struct ss_tensors *ts, struct ss_tensor *key)
{
    struct ss_tensor *t;

    key->owner = ts;
    t = *bucket(key);
    while (t && (t->lane != key->lane || t->ordinal != key->ordinal || t->label != key->label))
        t = t->chain;
    return t;
}

bool ss_tensor_lossy(const struct ss_tensor *t)
{
    return t->state == SS_TENSOR_REGISTERED && t->placed;
}

bool ss_tensors_hold(const struct ss_tensors *ts, uint32_t lane)
{
    return lane < ts->lane_count && ts->lanes[lane].residuals > 0;
}

size_t ss_tensors_forget_lane(struct ss_tensors *ts, uint32_t lane)
{
    size_t gone = 0;

    pthread_mutex_lock(&ts->lock);
    ss_identity_forget(ts->identity, lane);
    for (struct ss_tensor *t = lane < ts->lane_count ? ts->lanes[lane].tensors : NULL, *next; t;
         t = next) {
        next = t->in_lane;
        discard(t);
        gone++;
    }
    if (lane < ts->lane_count)
        ts->lanes[lane] = (struct ss_tensor_lane){0};
    pthread_mutex_unlock(&ts->lock);
    return gone;
}

void ss_tensors_identity_vote(struct ss_tensors *ts, uint32_t lane, bool same_label,
                              bool same_tensor, bool all_known)
{
    ss_identity_vote(ts->identity, lane, same_label, same_tensor, all_known);
}

static bool stand(struct ss_tensors *ts, const struct ss_tensor_call *call,
                  struct ss_standing *where)
{
    const struct ss_identity_call seen = {
        .rule = ss_tensors_rule(ts, call),
        .lane = call->lane,
        .site = call->site == 0 ? 0 : ss_mix(call->site, call->path) | 1,
        .buffer = ss_registry_number(ts->settings->registry, call->address, call->n),
        .address = call->address,
        .from = call->from,
        .marks = call->marks + ts->marks,
    };
    struct ss_sequence *sequence = ss_identity_next(ts->identity, &seen);

    if (!sequence)
        return false;
    *where = ss_sequence_count(sequence, &seen);
    return true;
}

/* A call whose place is not known is booked on ordinal 0 of its sequence, and is exact. */
static struct ss_tensor *find(struct ss_tensors *ts, const struct ss_tensor_call *call,
                              struct ss_tensor_found *found)
{
    struct ss_tensor_lane *lane = lane_at(ts, call->lane);

    found->number = ++ts->calls;
    ts->marks += call->n <= SS_MARK_COUNT;
    if (!lane || !stand(ts, call, &found->where))
        return NULL;
    lane->calls++;
    struct ss_tensor key = {.lane = call->lane, .label = found->where.label};
    key.ordinal = found->where.known ? found->where.ordinal : 0;
    struct ss_tensor *t = look_up(ts, &key);
    if (!t && !(t = make(ts, call, &key)))
        return NULL;
    t->history.last_on_lane = lane->calls;
    t->history.last_of_label = found->where.number;
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

void ss_tensor_take(struct ss_tensor *t, const struct ss_tensor_call *call,
                    const struct ss_tensor_found *found)
{
    struct ss_tensors *ts = t->owner;

    pthread_mutex_lock(&ts->lock);
    t->calls++;
    t->history.period = found->where.period;
    t->buffer = call->address;
    t->placed = found->where.known;
    if (t->placed)
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
