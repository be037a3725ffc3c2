/* Identity of tensors, and how their residuals change hands. */
#include "core/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor_impl.h"

enum {
    MOST_TENSORS = 1024, /* from here on those long unused without a residual are let go */
    GONE_STEPS = 3,
    GONE_CALLS = 64
};

/* When paths begin to count; see enum ss_identity. */
enum { PATH_RETURNS = 4, PATH_HELD = 8 };

/* Tensors of equal lane, ordinal and site. */
struct ss_tensor_group {
    struct ss_tensor_group *next;
    uint32_t lane;
    uint32_t ordinal;
    uint64_t site;
    bool no_address; /* for good */
    bool by_path;
    bool no_path; /* for good */
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
    ss_buf_free(&t->residual);
    ss_buf_free(&t->agreed.bounds);
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
    for (struct ss_tensor_group *g = ts->groups; g;) {
        struct ss_tensor_group *next = g->next;
        free(g);
        g = next;
    }
    free(ts->lanes);
    pthread_mutex_destroy(&ts->lock);
    free(ts);
}

struct ss_tensor *ss_tensors_first(const struct ss_tensors *ts)
{
    return ts->first;
}

struct ss_mem *ss_tensors_mem(const struct ss_tensors *ts)
{
    return ts->mem;
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

static size_t bucket_of(uint32_t lane, uint32_t ordinal, uint64_t site, const void *address)
{
    uint64_t h = site ^ ((uint64_t)lane << 32 | ordinal);

    h = (h ^ h >> 31) * 0x9e3779b97f4a7c15ULL ^ (uint64_t)(uintptr_t)address;
    h = (h ^ h >> 29) * 0xd6e8feb86659fd93ULL;
    return h >> 56;
}

static struct ss_tensor **link_in(struct ss_tensor **list, const struct ss_tensor *t, size_t offset)
{
    while (*list != t)
        list = (struct ss_tensor **)(void *)((char *)*list + offset);
    return list;
}

static struct ss_tensor **bucket(const struct ss_tensor *t)
{
    return &t->owner->buckets[bucket_of(t->lane, t->ordinal, t->site, t->address)];
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

    ss_tensor_drop_residual(t);
    at = link_in(&ts->first, t, offsetof(struct ss_tensor, next));
    *at = t->next;
    at = link_in(&ts->lanes[t->lane].tensors, t, offsetof(struct ss_tensor, in_lane));
    *at = t->in_lane;
    at = link_in(bucket(t), t, offsetof(struct ss_tensor, chain));
    *at = t->chain;
    ts->count--;
    free_tensor(t);
}

static void forget_address(struct ss_tensor *t)
{
    struct ss_tensor **at = link_in(bucket(t), t, offsetof(struct ss_tensor, chain));

    *at = t->chain;
    t->address = NULL;
    t->path = 0;
    t->path_returns = 0;
    at = bucket(t);
    t->chain = *at;
    *at = t;
}

/* Too many: the one without residual whose lane went on longest without it makes way. */
static void make_way(struct ss_tensors *ts)
{
    struct ss_tensor *oldest = NULL;
    uint64_t most = GONE_CALLS;

    for (struct ss_tensor *t = ts->first; t; t = t->next) {
        uint64_t gone = ts->lanes[t->lane].calls - t->last_on_lane;
        if (!t->residual.data && t->in_flight == 0 && gone > most) {
            most = gone;
            oldest = t;
        }
    }
    if (oldest)
        discard(oldest);
}

/* ---- residuals change hands ---- */

static void hand_over(struct ss_tensor *from, struct ss_tensor *to)
{
    if (!from->residual.data)
        return;
    if (to->residual.data) {
        ss_residual_add_dense(to->type, to->residual.data, from->residual.data, (size_t)to->n);
        ss_tensor_drop_residual(from);
        /* A bound, until the next call knows. */
        to->residual_square = 2 * (to->residual_square + from->residual_square);
    } else {
        to->residual = from->residual;
        to->residual_square = from->residual_square;
        from->residual = (struct ss_buf){0};
    }
    from->residual_square = 0;
}

static bool replaced(const struct ss_tensor *o, const struct ss_tensor *by)
{
    bool alike = by->ordinal == o->ordinal || (by->address && by->address == o->address);

    return alike && by->first_on_lane > o->last_on_lane;
}

static int likeness(const struct ss_tensor *o, const struct ss_tensor *s)
{
    return s->address && s->address == o->address ? 2 : s->ordinal == o->ordinal;
}

static bool is_long_gone(const struct ss_tensor *t, const struct ss_step_place *now)
{
    uint64_t gone = t->owner->lanes[t->lane].calls - t->last_on_lane;

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

/* Whether o, not called for a while, has its successor in s. */
static bool succeeds(const struct ss_tensor *s, const struct ss_tensor *o, bool long_gone)
{
    if (s->state == SS_TENSOR_REGISTERED)
        return long_gone || replaced(o, s);
    return long_gone && is_dense_gradient(s) && replaced(o, s);
}

static struct ss_tensor *successor(const struct ss_tensor *o, const struct ss_step_place *now)
{
    bool long_gone = is_long_gone(o, now);
    bool gone_steps = now->sync == SS_STEP_IN && now->step > o->place.step + GONE_STEPS;
    struct ss_tensor *best = NULL;

    if (!long_gone && !gone_steps)
        return NULL;
    for (struct ss_tensor *s = o->owner->lanes[o->lane].tensors; s; s = s->in_lane) {
        if (s == o || s->in_flight > 0 || s->site != o->site || s->last_on_lane < o->last_on_lane ||
            !succeeds(s, o, long_gone))
            continue;
        if (!best || likeness(o, s) > likeness(o, best) ||
            (likeness(o, s) == likeness(o, best) && s->last_on_lane > best->last_on_lane))
            best = s;
    }
    return best;
}

static void settle_orphans(struct ss_tensors *ts, const struct ss_tensor_call *call)
{
    struct ss_tensor_lane *lane = &ts->lanes[call->lane];

    if (lane->residuals == 0)
        return;
    for (struct ss_tensor *o = lane->tensors; o; o = o->in_lane) {
        if (!o->residual.data || o->in_flight > 0)
            continue;
        struct ss_tensor *to = successor(o, &call->place);
        if (!to)
            continue;
        hand_over(o, to);
        if (o->state == SS_TENSOR_REGISTERED) {
            o->state = SS_TENSOR_CANDIDATE;
            o->reason = SS_TENSOR_WATCHED;
        }
    }
}

bool ss_tensor_lane_interest(const struct ss_tensor *t)
{
    for (const struct ss_tensor *o = t->owner->lanes[t->lane].tensors; o; o = o->in_lane)
        if ((o->state == SS_TENSOR_REGISTERED && !(o->resting && o->emptied)) ||
            (o->state == SS_TENSOR_CANDIDATE && !is_long_gone(o, &t->place)))
            return true;
    return false;
}

/* ---- groups ---- */

static struct ss_tensor_group *group_at(const struct ss_tensors *ts, uint32_t lane,
                                        uint32_t ordinal, uint64_t site)
{
    for (struct ss_tensor_group *g = ts->groups; g; g = g->next)
        if (g->lane == lane && g->ordinal == ordinal && g->site == site)
            return g;
    return NULL;
}

/* The group of a tensor, made when new; NULL when memory is short. */
static struct ss_tensor_group *group_of(const struct ss_tensor *t)
{
    struct ss_tensor_group *g = group_at(t->owner, t->lane, t->ordinal, t->site);

    if (!g && (g = calloc(1, sizeof *g))) {
        *g = (struct ss_tensor_group){
            .next = t->owner->groups, .lane = t->lane, .ordinal = t->ordinal, .site = t->site};
        t->owner->groups = g;
    }
    return g;
}

static bool same_group(const struct ss_tensor *a, const struct ss_tensor *b)
{
    return a->ordinal == b->ordinal && a->site == b->site;
}

/* Addresses of the group, or paths, have come and gone. */
static bool must_merge(const struct ss_tensor *t)
{
    unsigned members = 0, once = 0, most = t->path ? SS_PATHS : SS_ADDRESSES;

    for (const struct ss_tensor *o = t->owner->lanes[t->lane].tensors; o; o = o->in_lane) {
        if (!same_group(o, t))
            continue;
        if (o->in_flight > 0)
            return false;
        members++;
        once += o->calls <= 1;
    }
    return members > most && 2 * once >= members;
}

/* The tensor that stays: registered if one is, else with a residual, else the newest. */
static struct ss_tensor *keeper(struct ss_tensor *t)
{
    struct ss_tensor *best = t;

    for (struct ss_tensor *o = t->owner->lanes[t->lane].tensors; o; o = o->in_lane) {
        if (!same_group(o, t) || best->state == SS_TENSOR_REGISTERED)
            continue;
        if (o->state == SS_TENSOR_REGISTERED || (o->residual.data && !best->residual.data))
            best = o;
    }
    return best;
}

static struct ss_tensor *merge_group(struct ss_tensor *t)
{
    struct ss_tensors *ts = t->owner;
    struct ss_tensor_group *g = group_of(t);
    struct ss_tensor *keep = keeper(t);

    if (!g)
        return t;
    g->no_path = g->no_path || (g->by_path && g->no_address);
    g->no_address = true;
    g->by_path = false; /* until they show again in what is one tensor now */
    keep->place = t->place;
    keep->last_on_lane = t->last_on_lane;
    for (struct ss_tensor *o = ts->lanes[keep->lane].tensors, *next; o; o = next) {
        next = o->in_lane;
        if (o == keep || !same_group(o, keep))
            continue;
        hand_over(o, keep);
        keep->calls += o->calls;
        keep->step_calls += o->step_calls;
        keep->confirmed_calls += o->confirmed_calls;
        keep->registered_calls += o->registered_calls;
        keep->topk_calls += o->topk_calls;
        keep->density_sum += o->density_sum;
        keep->asked_sum += o->asked_sum;
        keep->off_sum += o->off_sum;
        keep->global_calls += o->global_calls;
        keep->global_off_sum += o->global_off_sum;
        if (o->first_on_lane < keep->first_on_lane)
            keep->first_on_lane = o->first_on_lane;
        if (o->first_step < keep->first_step)
            keep->first_step = o->first_step;
        discard(o);
    }
    forget_address(keep);
    if (keep->state == SS_TENSOR_CANDIDATE) {
        ss_watch_free(&keep->watch);
        keep->watch = (struct ss_watch){.calls = 0};
    }
    return keep;
}

/* ---- find ---- */

static struct ss_tensor *make(struct ss_tensors *ts, const struct ss_tensor_call *call,
                              const struct ss_tensor *key)
{
    struct ss_tensor *t;
    const struct ss_rule_subject *subject = call->subject;

    if (ts->count >= MOST_TENSORS)
        make_way(ts);
    if (!(t = malloc(sizeof *t)))
        return NULL;
    *t = *key;
    t->owner = ts;
    t->number = ts->numbers++;
    t->type = call->type;
    t->op = call->op;
    t->n = call->n;
    t->first_step = call->place.step;
    t->first_on_lane = ts->lanes[call->lane].calls;
    t->last_on_lane = t->first_on_lane;
    t->place = call->place;
    t->buffer = call->address;
    t->last_path = call->path;
    if (subject && subject->site)
        snprintf(t->site_name, sizeof t->site_name, "%s", subject->site);
    if (subject && subject->symbol)
        snprintf(t->symbol, sizeof t->symbol, "%s", subject->symbol);
    insert(t);
    ss_tensor_admit(t, subject);
    return t;
}

static struct ss_tensor key_of(const struct ss_tensors *ts, const struct ss_tensor_call *call)
{
    enum ss_identity id = ts->settings->identity;
    struct ss_tensor key = {.lane = call->lane};
    const struct ss_tensor_group *g;

    if (id == SS_IDENTITY_AUTO || id == SS_IDENTITY_ORDINAL)
        key.ordinal = call->place.ordinal;
    if (id == SS_IDENTITY_AUTO || id == SS_IDENTITY_SITE)
        key.site = call->site;
    g = group_at(ts, key.lane, key.ordinal, key.site);
    if (id == SS_IDENTITY_ADDRESS ||
        (id == SS_IDENTITY_AUTO && key.ordinal != SS_ORDINAL_LOST && !(g && g->no_address)))
        key.address = call->address;
    if (g && g->by_path)
        key.path = call->path;
    return key;
}

static struct ss_tensor *look_up(struct ss_tensors *ts, struct ss_tensor *key)
{
    struct ss_tensor *t;

    key->owner = ts;
    t = *bucket(key);
    while (t && (t->lane != key->lane || !same_group(t, key) || t->address != key->address ||
                 t->path != key->path))
        t = t->chain;
    return t;
}

/* From now on the paths of its group count: each tensor is that of its last call's. */
static void count_paths(const struct ss_tensor *t)
{
    struct ss_tensor_group *g = group_of(t);

    if (!g || g->no_path)
        return;
    g->by_path = true;
    for (struct ss_tensor *o = t->owner->lanes[t->lane].tensors; o; o = o->in_lane)
        if (same_group(o, t))
            o->path = o->last_path;
}

/* Enters a path among those seen; whether it was among them. */
static bool path_known(struct ss_tensor *t, uint64_t path)
{
    unsigned bit = (unsigned)(path * 0x9e3779b97f4a7c15ULL >> 56);
    uint64_t *word = &t->paths[bit / 64], mask = (uint64_t)1 << bit % 64;
    bool known = *word & mask;

    *word |= mask;
    return known;
}

/* Whether the call shows that the path must count. */
static bool paths_vary(struct ss_tensor *t, uint64_t path)
{
    enum ss_identity id = t->owner->settings->identity;

    if ((id != SS_IDENTITY_AUTO && id != SS_IDENTITY_SITE) || t->path || !path)
        return false;
    if (path == t->last_path) {
        if (++t->path_held == PATH_HELD) {
            memset(t->paths, 0, sizeof t->paths);
            t->path_returns = 0;
        }
        return false;
    }
    t->path_held = 1;
    path_known(t, t->last_path);
    t->path_returns += path_known(t, path);
    return t->path_returns >= PATH_RETURNS && t->in_flight == 0;
}

/* ---- lanes that do not come again ---- */

/* Samples of what a program calls once and never again must not pile up: a candidate whose lane has
 * been called once only, before SS_LANES_WATCHED newer ones, will be watched from its next call on.
 */
static void watch_new_lane(struct ss_tensors *ts, uint32_t number)
{
    uint32_t *place = &ts->watched[ts->newest_watched++ % SS_LANES_WATCHED];
    uint32_t before = *place;

    *place = number + 1;
    if (before == 0 || ts->lanes[before - 1].calls > 1)
        return;
    for (struct ss_tensor *t = ts->lanes[before - 1].tensors; t; t = t->in_lane)
        if (t->state == SS_TENSOR_CANDIDATE && t->in_flight == 0) {
            ss_watch_free(&t->watch);
            t->watch = (struct ss_watch){.calls = 0};
        }
}

bool ss_tensors_hold(const struct ss_tensors *ts, uint32_t lane)
{
    return lane < ts->lane_count && ts->lanes[lane].residuals > 0;
}

static void forget_groups(struct ss_tensors *ts, uint32_t lane)
{
    for (struct ss_tensor_group **link = &ts->groups; *link;) {
        struct ss_tensor_group *g = *link;

        if (g->lane == lane) {
            *link = g->next;
            free(g);
        } else {
            link = &g->next;
        }
    }
}

size_t ss_tensors_forget_lane(struct ss_tensors *ts, uint32_t lane)
{
    size_t gone = 0;

    if (lane >= ts->lane_count)
        return 0;
    pthread_mutex_lock(&ts->lock);
    for (struct ss_tensor *t = ts->lanes[lane].tensors, *next; t; t = next) {
        next = t->in_lane;
        discard(t);
        gone++;
    }
    forget_groups(ts, lane);
    ts->lanes[lane] = (struct ss_tensor_lane){0};
    pthread_mutex_unlock(&ts->lock);
    return gone;
}

static struct ss_tensor *find(struct ss_tensors *ts, const struct ss_tensor_call *call)
{
    struct ss_tensor_lane *lane = lane_at(ts, call->lane);

    if (!lane)
        return NULL;
    if (++lane->calls == 1)
        watch_new_lane(ts, call->lane);
    struct ss_tensor key = key_of(ts, call);
    struct ss_tensor *t = look_up(ts, &key);
    if (t && paths_vary(t, call->path)) {
        count_paths(t);
        key = key_of(ts, call);
        t = look_up(ts, &key);
    }
    bool made = !t;
    if (made && !(t = make(ts, call, &key)))
        return NULL;
    t->last_path = call->path;
    t->calls++;
    if (t->first_step < call->place.since) {
        t->first_step = call->place.step;
        t->step_calls = 0;
    }
    t->step_calls++;
    t->place = call->place;
    t->buffer = call->address;
    t->last_on_lane = lane->calls;
    if (call->place.sync == SS_STEP_IN)
        t->confirmed_calls++;
    if (made && ((ts->settings->identity == SS_IDENTITY_AUTO && t->address) || t->path) &&
        must_merge(t))
        t = merge_group(t);
    settle_orphans(ts, call);
    if (t->state == SS_TENSOR_REGISTERED)
        t->registered_calls++;
    return t;
}

struct ss_tensor *ss_tensor_find(struct ss_tensors *ts, const struct ss_tensor_call *call)
{
    pthread_mutex_lock(&ts->lock);
    struct ss_tensor *t = find(ts, call);
    pthread_mutex_unlock(&ts->lock);
    return t;
}
