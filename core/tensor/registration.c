/* Registration for top-k: what is asked of a tensor, and what the ranks agree on. */
#include <stdio.h>
#include <string.h>

#include "core/tensor/residual.h"
#include "core/tensor/tensor_impl.h"

enum {
    LEAST_CALLS = 8,   /* of the gradient test */
    CALM = 4,          /* calls in a row after which all means were those of a gradient */
    QUIET = 16,        /* calls since the last one that spoke against it, where there was one */
    MOST_CALLS = 32,   /* after which it is refused */
    MOST_AGAINST = 8,  /* calls of a window that speak against it, and it is refused */
    REFUSALS = 8,      /* votes in a row */
    FIRST_LOOK = 64,   /* calls after which what was refused is looked at again, twice as many */
    LAST_LOOK = 65536, /* each time, up to these */
    LEAVES_AT = 2      /* calls that speak against a registered tensor, and it is exact */
};

const char *ss_tensor_reason_name(enum ss_tensor_reason reason)
{
    static const char *const names[SS_TENSOR_REASONS] = {
        "registered",
        "first calls are being watched",
        "not a sum of floats",
        "matches EXCLUDE",
        "matches no rule of REGISTER",
        "looks like a gradient, but REGISTER is empty",
        "double is made lossy by a rule only",
        "calls do not repeat in steps",
        "called outside the step",
        "called less than once per step",
        "inputs are alike on all ranks, as in an average",
        "results are multiples of ones before",
        "no room for a residual within MAX_MEMORY, or on its device",
        "not registered on another rank",
        "the buffer holds different tensors in turn",
        "GUARD found the result too far off",
        "unregistered by the application",
        "ranks hold different parts, as in a gather",
        "all elements have one sign, as in counts or squares",
        "the norm falls or grows from call to call, as in a solver",
        "looked like a gradient at first, but not later",
        "some calls are not those of a gradient",
        "each rank's inputs resemble its last ones, as of data that stays",
        "results resemble the last one and none before, as in a solver",
        "ranks' inputs have nothing in common, as of a layer divided among them",
        "results keep one direction, as of a mean that stays",
    };
    return names[reason];
}

static uint64_t look_after(unsigned looks)
{
    return looks < 10 ? (uint64_t)FIRST_LOOK << looks : LAST_LOOK;
}

bool ss_tensor_settle(struct ss_tensor *t, bool registered, enum ss_tensor_reason reason)
{
    if (registered && !ss_residual_make(t)) {
        registered = false;
        reason = SS_TENSOR_MEMORY;
    }
    if (!registered && t->fresh)
        ss_residual_drop(t);
    if (registered && t->state != SS_TENSOR_REGISTERED) {
        t->threshold = (struct ss_threshold){.period = t->owner->settings->threshold_period};
        ss_agreed_forget(&t->agreed);
        t->rest.resting = t->rest.emptied = t->fresh; /* until a plan says otherwise */
    }
    if (registered && t->state != SS_TENSOR_REGISTERED)
        t->lossy_since = 0; /* until a result of it is */
    if (t->state == SS_TENSOR_CANDIDATE && t->admission.decided_at == 0) {
        t->admission.decided_at = t->calls;
        t->admission.decided = registered ? SS_TENSOR_NONE : reason;
    }
    if (t->state == SS_TENSOR_CANDIDATE && t->watch.later)
        t->admission.moved = t->watch.moved;
    if (!registered && t->state == SS_TENSOR_CANDIDATE)
        t->admission.look_at = t->calls + look_after(t->admission.looks++);
    t->fresh = false;
    t->state = registered ? SS_TENSOR_REGISTERED : SS_TENSOR_EXACT;
    t->reason = registered ? SS_TENSOR_NONE : reason;
    return registered;
}

static void admit(struct ss_tensor *t)
{
    const struct ss_tensor_settings *set = t->owner->settings;
    bool given = ss_registry_find(set->registry, t->buffer, t->n, &t->density);

    if (!given)
        t->density = 0;
    t->asked = (t->rule && !t->rule->automatic) || given;
    t->admission.refusals = 0;
    t->state = SS_TENSOR_EXACT;
    if (!ss_type_is_float(t->type) || t->op != SS_SUM)
        t->reason = SS_TENSOR_TYPE;
    else if (t->excluded)
        t->reason = SS_TENSOR_EXCLUDED;
    else if (set->include && !t->rule && !given)
        t->reason = SS_TENSOR_NO_RULE;
    else if (!t->asked && t->type != SS_F32)
        t->reason = SS_TENSOR_DOUBLE;
    else if (t->ordinal == SS_ORDINAL_LOST)
        t->reason = SS_TENSOR_OUTSIDE;
    else {
        t->state = SS_TENSOR_CANDIDATE;
        t->reason = SS_TENSOR_WATCHED;
        if (t->asked && set->register_after == 0 && t->calls == 0)
            ss_tensor_settle(t, true, SS_TENSOR_NONE);
    }
}

void ss_tensor_admit(struct ss_tensor *t, const struct ss_rule_subject *subject)
{
    const struct ss_tensor_settings *set = t->owner->settings;
    const struct ss_rule_subject fallback = {.count = t->n, .type = t->type};

    if (!subject)
        subject = &fallback;
    t->rule = ss_rules_match(set->include, subject);
    t->excluded = ss_rules_match(set->exclude, subject) != NULL;
    if (ss_type_is_float(t->type) && t->op == SS_SUM) {
        ss_rules_meet(set->include, subject);
        ss_rules_meet(set->exclude, subject);
    }
    admit(t);
}

void ss_tensor_readmit(struct ss_tensor *t)
{
    t->withdrawn = false;
    if (t->state != SS_TENSOR_REGISTERED)
        admit(t);
    else if (ss_registry_find(t->owner->settings->registry, t->buffer, t->n, &t->density))
        t->asked = true;
}

static unsigned watched_calls(const struct ss_tensor *t)
{
    uint64_t after = t->owner->settings->register_after;

    if (after < LEAST_CALLS)
        return LEAST_CALLS;
    return after < UINT32_MAX ? (unsigned)after : UINT32_MAX;
}

static bool is_calm(const struct ss_watch *w)
{
    return w->calm >= CALM && (w->window_against == 0 || w->since >= QUIET);
}

/* SS_TENSOR_NONE where the calls of the window look like those of a gradient, SS_TENSOR_WATCHED
 * where that cannot be said yet. */
static enum ss_tensor_reason resemblance(const struct ss_tensor *t)
{
    static const enum ss_tensor_reason reasons[] = {
        [SS_LIKE_GRADIENT] = SS_TENSOR_MIXED,  [SS_LIKE_WEIGHTS] = SS_TENSOR_AVERAGE,
        [SS_LIKE_PARTS] = SS_TENSOR_PARTS,     [SS_LIKE_COUNTS] = SS_TENSOR_ONE_SIGN,
        [SS_LIKE_BEFORE] = SS_TENSOR_CONSTANT, [SS_LIKE_SOLVER] = SS_TENSOR_DRIFT,
        [SS_LIKE_DATA] = SS_TENSOR_DATA,       [SS_LIKE_SHORT] = SS_TENSOR_SHORT,
        [SS_LIKE_LAYERS] = SS_TENSOR_LAYERS,   [SS_LIKE_MEAN] = SS_TENSOR_MEAN,
    };
    const struct ss_watch *w = &t->watch;

    if (w->calls >= watched_calls(t) && is_calm(w))
        return SS_TENSOR_NONE;
    if ((w->calls < MOST_CALLS || w->calls < watched_calls(t)) && w->window_against < MOST_AGAINST)
        return SS_TENSOR_WATCHED;
    return reasons[w->window_against > w->calls ? w->why : ss_watch_likeness(w)];
}

static bool is_unlike(enum ss_tensor_reason reason)
{
    static const bool unlike[SS_TENSOR_REASONS] = {
        [SS_TENSOR_SELDOM] = true, [SS_TENSOR_AVERAGE] = true,  [SS_TENSOR_CONSTANT] = true,
        [SS_TENSOR_PARTS] = true,  [SS_TENSOR_ONE_SIGN] = true, [SS_TENSOR_DRIFT] = true,
        [SS_TENSOR_MIXED] = true,  [SS_TENSOR_DATA] = true,     [SS_TENSOR_SHORT] = true,
        [SS_TENSOR_LAYERS] = true, [SS_TENSOR_MEAN] = true};

    return unlike[reason];
}

uint64_t ss_tensor_look_at(const struct ss_tensor *t)
{
    bool again =
        is_unlike(t->reason) || (t->reason == SS_TENSOR_OTHERS && t->admission.seen_by_others);

    return t->state == SS_TENSOR_EXACT && !t->asked && again ? t->admission.look_at : 0;
}

/* A tensor that was refused is watched again later, as its first calls may have been special. */
static void look_again(struct ss_tensor *t)
{
    uint64_t at = ss_tensor_look_at(t);

    if (at == 0 || t->calls < at)
        return;
    ss_watch_restart(&t->watch);
    t->state = SS_TENSOR_CANDIDATE;
    t->reason = SS_TENSOR_WATCHED;
}

/* Whether its calls are known to be its own, so that a rule makes it lossy. */
static bool is_identified(const struct ss_tensor *t)
{
    enum ss_identity id = t->owner->settings->identity;

    return id == SS_IDENTITY_ADDRESS || id == SS_IDENTITY_SITE || t->history.place.settled ||
           t->owner->settings->register_after == 0;
}

void ss_tensor_identified(struct ss_tensor *t)
{
    if (t->asked && t->state == SS_TENSOR_CANDIDATE)
        ss_tensor_settle(t, true, SS_TENSOR_NONE);
}

/* Why it cannot be registered in this call, SS_TENSOR_NONE when it can; or why it does not look
 * like a gradient (from SS_TENSOR_SELDOM on). */
static enum ss_tensor_reason obstacle(const struct ss_tensor *t)
{
    if (t->asked)
        return is_identified(t) ? SS_TENSOR_NONE : SS_TENSOR_NO_STEP;
    enum ss_tensor_reason looks = resemblance(t);
    if (looks != SS_TENSOR_NONE)
        return looks;
    if (t->history.place.sync != SS_STEP_IN)
        return t->history.place.sync == SS_STEP_UNKNOWN ? SS_TENSOR_NO_STEP : SS_TENSOR_OUTSIDE;
    if (!t->history.place.settled)
        return SS_TENSOR_NO_STEP;
    if (2 * t->history.step_calls < t->history.place.turn - t->history.first_turn + 1)
        return SS_TENSOR_SELDOM;
    return SS_TENSOR_NONE;
}

/* Whether a rule, `auto` among them, or the program has asked for it. */
static bool may_register(const struct ss_tensor *t)
{
    return t->asked || t->rule;
}

struct ss_tensor_ballot ss_tensor_ballot(struct ss_tensor *t)
{
    struct ss_tensor_ballot b = {0};

    look_again(t);
    b.unregistered = !ss_tensor_lossy(t);
    t->admission.ready = false;
    if (t->state == SS_TENSOR_CANDIDATE) {
        t->reason = obstacle(t);
        b.not_gradient = is_unlike(t->reason);
        t->admission.ready = t->reason == SS_TENSOR_NONE || b.not_gradient;
        if (t->reason == SS_TENSOR_NONE && may_register(t) && !ss_residual_make(t))
            ss_tensor_settle(t, false, SS_TENSOR_MEMORY);
    }
    b.registered = ss_tensor_lossy(t);
    b.refused = t->state == SS_TENSOR_EXACT;
    b.not_ready = t->state == SS_TENSOR_REGISTERED
                      ? !b.registered
                      : t->state == SS_TENSOR_CANDIDATE && !t->admission.ready;
    return b;
}

void ss_tensor_vote(struct ss_tensor *t, const struct ss_tensor_ballot *all)
{
    t->admission.refusals = all->refused ? t->admission.refusals + 1 : 0;
    if (!all->unregistered || t->state == SS_TENSOR_EXACT)
        return;
    if (t->admission.refusals >= REFUSALS) {
        ss_tensor_settle(t, false, SS_TENSOR_OTHERS);
    } else if (!all->not_ready && !all->refused) {
        bool registered = !all->not_gradient;
        enum ss_tensor_reason reason = t->reason;
        if (reason == SS_TENSOR_NONE) {
            reason = SS_TENSOR_OTHERS;
            t->admission.seen_by_others = true;
        }
        if (registered && !may_register(t))
            ss_tensor_settle(t, false, SS_TENSOR_OFFERED);
        else
            ss_tensor_settle(t, registered, reason);
    } else if (t->fresh) {
        ss_residual_drop(t); /* another rank is not ready: made again when it is */
    }
}

bool ss_tensor_has_left(const struct ss_tensor *t)
{
    return t->state == SS_TENSOR_EXACT &&
           (t->reason == SS_TENSOR_LEFT || t->reason == SS_TENSOR_GUARDED);
}

bool ss_tensor_watching(const struct ss_tensor *t)
{
    if (t->state == SS_TENSOR_EXACT)
        return ss_tensor_has_left(t) && ss_residual_there(t);
    return !t->asked && t->type == SS_F32;
}

static bool strike(struct ss_tensor *t)
{
    if (++t->watch.against >= LEAVES_AT)
        ss_tensor_settle(t, false, SS_TENSOR_LEFT);
    return false;
}

bool ss_tensor_judge(struct ss_tensor *t, const struct ss_evidence *all, bool agreed, int size)
{
    bool left = ss_tensor_has_left(t);

    if (!agreed) {
        ss_watch_free(&t->watch);
        return !left;
    }
    struct ss_verdict v = ss_watch_judge(&t->watch, all, size);
    if (!v.judged || (t->state != SS_TENSOR_REGISTERED && !left))
        return !left;
    if (v.zero)
        return true;
    if (v.weights && t->state == SS_TENSOR_REGISTERED)
        return strike(t);
    return !v.weights && !v.far && !v.alone;
}

void ss_tensor_begin(struct ss_tensor *t)
{
    t->in_flight++;
}

void ss_tensor_end(struct ss_tensor *t)
{
    t->in_flight--;
}

/* Whether another tensor of its lane is called from elsewhere. */
static bool site_separates(const struct ss_tensor *t)
{
    for (const struct ss_tensor *o = t->owner->lanes[t->lane].tensors; o; o = o->in_lane)
        if (strcmp(o->site_name, t->site_name) != 0)
            return t->site_name[0] != '\0';
    return false;
}

void ss_tensor_rule(const struct ss_tensor *t, char *text, size_t size)
{
    bool apart = site_separates(t);
    char site[sizeof t->site_name + 2] = "";

    if (apart)
        ss_rule_pattern(site, sizeof site, t->site_name, sizeof t->site_name);
    snprintf(text, size, "count=%llu%s%s%s", (unsigned long long)t->n,
             t->type == SS_F64 ? ",type=double" : "", apart ? ",site=" : "", site);
}

void ss_tensor_override(const struct ss_tensor *t, char *text, size_t size)
{
    snprintf(text, size, "%s", "");
    if (t->state == SS_TENSOR_EXACT &&
        (is_unlike(t->reason) || t->reason == SS_TENSOR_NO_RULE || t->reason == SS_TENSOR_OFFERED ||
         t->reason == SS_TENSOR_DOUBLE || t->reason == SS_TENSOR_LEFT))
        ss_tensor_rule(t, text, size);
}

const char *ss_tensor_remedy(enum ss_tensor_reason reason)
{
    static const char *const remedies[SS_TENSOR_REASONS] = {
        [SS_TENSOR_TYPE] = "no rule can: sums of float and double alone are sent as top-k",
        [SS_TENSOR_EXCLUDED] = "no rule can while it matches EXCLUDE",
        [SS_TENSOR_NO_STEP] = ("no rule can while its calls do not repeat; with IDENTITY=site one "
                               "takes all calls from one place for one tensor"),
        [SS_TENSOR_OUTSIDE] = "no rule can: its place in the step is not known",
        [SS_TENSOR_MEMORY] = "no rule can: a larger MAX_MEMORY does",
        [SS_TENSOR_OTHERS] = "no rule can: REPORT=all says what the other ranks have against it",
        [SS_TENSOR_PROFILE] = "no rule can: a buffer for each tensor does",
        [SS_TENSOR_GUARDED] = "no rule can: GUARD=warn does",
        [SS_TENSOR_WITHDRAWN] = "no rule can: the application has taken it out",
    };

    return remedies[reason];
}
