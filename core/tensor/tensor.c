/* The table of tensors. */
#include "core/tensor/tensor.h"
#include "core/tensor/residual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor/tensor_impl.h"

enum {
    MOST_TENSORS = 1024, /* beyond this number, long unused tensors without a residual are freed */
    GONE_CALLS = 64,     /* calls of the lane without one of the tensor: it is unused */
    LOOKED_FOR = 256     /* calls of a candidate during which its lane does not back off */
};
#define SITES 0x80000000u /* rule codes of call sites begin here */

struct ss_tensors *ss_tensors_create(const struct ss_tensor_settings *settings, struct ss_mem *mem)
{
    struct ss_tensors *ts = calloc(1, sizeof *ts);

    if (!ts)
        return NULL;
    ts->identity = settings->identity;
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
    for (size_t i = 0; i < ts->lane_count; i++)
        ss_lane_rules_free(&ts->lanes[i].rules);
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
    return ss_mix(ss_mix(t->lane, t->ordinal), t->rule_code) % SS_TENSOR_BUCKETS;
}

static struct ss_tensor **link_in(struct ss_tensor **list, const struct ss_tensor *t, size_t offset)
{
    while (*list != t)
        list = (struct ss_tensor **)(void *)((char *)*list + offset);
    return list;
}

static struct ss_tensor **bucket(const struct ss_tensor *t)
{
    return &t->set->buckets[bucket_of(t)];
}

static void insert(struct ss_tensor *t)
{
    struct ss_tensors *ts = t->set;
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
    struct ss_tensors *ts = t->set;
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
        uint64_t gone = ts->lanes[t->lane].calls - t->last_on_lane;
        if (!ss_residual_there(t) && t->in_flight == 0 && !t->has_rounds && gone > most) {
            most = gone;
            oldest = t;
        }
    }
    if (oldest)
        discard(oldest);
}

static bool is_gone(const struct ss_tensor *t)
{
    return t->set->lanes[t->lane].calls - t->last_on_lane > GONE_CALLS;
}

bool ss_tensor_lane_interest(const struct ss_tensor *t)
{
    for (const struct ss_tensor *o = t->set->lanes[t->lane].tensors; o; o = o->in_lane)
        if ((o->state == SS_TENSOR_REGISTERED && o->rest != SS_RESTS_EMPTY) ||
            (o->state == SS_TENSOR_CANDIDATE && !is_gone(o) && o->calls < LOOKED_FOR))
            return true;
    return false;
}

/* ---- find ---- */

static struct ss_tensor *make(struct ss_tensors *ts, const struct ss_tensor_call *call,
                              const struct ss_rule_subject *subject, const struct ss_tensor *key)
{
    struct ss_tensor *t;

    if (ts->count >= MOST_TENSORS)
        remove_oldest(ts);
    if (!(t = malloc(sizeof *t)))
        return NULL;
    *t = *key;
    t->set = ts;
    t->residual.backend = call->backend ? call->backend : &ss_host;
    t->type = call->type;
    t->op = call->op;
    t->n = call->n;
    t->buffer = call->address;
    if (subject->site)
        snprintf(t->site_name, sizeof t->site_name, "%s", subject->site);
    if (subject->symbol)
        snprintf(t->symbol, sizeof t->symbol, "%s", subject->symbol);
    insert(t);
    ss_tensor_admit(t, subject);
    t->range = (struct ss_residual_range){.n = t->n};
    if (call->has_slices && (call->slices.by_host || (t->rule && t->rule->node)) &&
        !(t->rule && t->rule->keep != SS_KEEP_NONE)) {
        t->range = call->slices;
        t->range.by_host = true;
    }
    return t;
}

static struct ss_tensor *look_up(struct ss_tensors *ts, struct ss_tensor *key)
{
    struct ss_tensor *t;

    key->set = ts;
    t = *bucket(key);
    while (t &&
           (t->lane != key->lane || t->ordinal != key->ordinal || t->rule_code != key->rule_code))
        t = t->chain;
    return t;
}

bool ss_tensor_lossy(const struct ss_tensor *t)
{
    return t->state == SS_TENSOR_REGISTERED && t->known;
}

bool ss_tensors_have_residual(const struct ss_tensors *ts, uint32_t lane)
{
    return lane < ts->lane_count && ts->lanes[lane].residuals > 0;
}

size_t ss_tensors_forget_lane(struct ss_tensors *ts, uint32_t lane)
{
    size_t gone = 0;

    pthread_mutex_lock(&ts->lock);
    for (struct ss_tensor *t = lane < ts->lane_count ? ts->lanes[lane].tensors : NULL, *next; t;
         t = next) {
        next = t->in_lane;
        discard(t);
        gone++;
    }
    if (lane < ts->lane_count) {
        ss_lane_rules_free(&ts->lanes[lane].rules);
        ts->lanes[lane] = (struct ss_tensor_lane){0};
    }
    pthread_mutex_unlock(&ts->lock);
    return gone;
}

static bool identify(struct ss_tensors *ts, const struct ss_tensor_call *call,
                     const struct ss_rule_subject *subject, uint32_t buffer,
                     struct ss_call_identity *where)
{
    const struct ss_identity_call seen = {
        .rule = ss_tensors_rule(ts, call, subject),
        .buffer = buffer,
        .identified = subject->identified,
        .address = call->address,
        .from = call->from,
    };

    return ss_identity_find(&ts->identity, &ts->lanes[call->lane].rules, &seen, where);
}

/* Returns the rule code of a call. Calls that no rule takes are booked by their call sites, which
 * reports name. */
static uint32_t rule_code_of(const struct ss_tensor_call *call,
                             const struct ss_call_identity *where)
{
    return where->rule_code > 0 ? where->rule_code : SITES + (uint32_t)(call->site % SITES);
}

/* A call whose position is not known is booked on ordinal 0 of its rule, and is exact. */
static struct ss_tensor *find(struct ss_tensors *ts, const struct ss_tensor_call *call,
                              struct ss_tensor_found *found)
{
    struct ss_tensor_lane *lane = lane_at(ts, call->lane);
    const struct ss_rule_subject by_count = {.count = call->n, .type = call->type};
    struct ss_rule_subject subject = call->subject ? *call->subject : by_count;
    const uint32_t buffer =
        ss_registry_number(ts->settings->registry, call->address, call->n, &subject.identified);

    found->number = ++ts->calls;
    if (!lane || !identify(ts, call, &subject, buffer, &found->where))
        return NULL;
    lane->calls++;
    struct ss_tensor key = {.lane = call->lane, .rule_code = rule_code_of(call, &found->where)};
    key.ordinal = found->where.known ? found->where.ordinal : 0;
    struct ss_tensor *t = look_up(ts, &key);
    key.identified = subject.identified;
    if (!t && !(t = make(ts, call, &subject, &key)))
        return NULL;
    t->last_on_lane = lane->calls;
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
    struct ss_tensors *ts = t->set;

    pthread_mutex_lock(&ts->lock);
    t->calls++;
    t->buffer = call->address;
    t->known = found->where.known;
    if (t->known)
        ss_tensor_identified(t);
    if (t->withdrawn && !t->has_rounds) {
        t->withdrawn = false;
        ss_tensor_settle(t, false, SS_TENSOR_WITHDRAWN);
    }
    if (ss_tensor_lossy(t))
        t->registered_calls++;
    pthread_mutex_unlock(&ts->lock);
}
