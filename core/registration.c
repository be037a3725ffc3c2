/* Registration for top-k: what is asked of a tensor, and what the ranks agree on. */
#include <stdio.h>
#include <string.h>

#include "core/tensor_impl.h"

enum {
    LEAST_CALLS = 3, /* of the gradient test */
    REFUSALS = 8     /* votes in a row */
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
        "result is a multiple of the input, as in an average",
        "result is a multiple of the one before",
        "no room for a residual within MAX_MEMORY",
        "not registered on another rank",
        "the buffer holds different tensors in turn",
        "GUARD found the result too far off",
        "unregistered by the application",
    };
    return names[reason];
}

void ss_tensor_drop_residual(struct ss_tensor *t)
{
    if (t->residual.data)
        t->owner->lanes[t->lane].residuals--;
    ss_buf_free(&t->residual);
    t->fresh = false;
}

bool ss_tensor_make_residual(struct ss_tensor *t)
{
    size_t size = (size_t)t->n * ss_type_size(t->type);

    if (t->residual.data)
        return true;
    if (ss_buf_reserve(&t->residual, t->owner->mem, size) != SS_OK)
        return false;
    memset(t->residual.data, 0, size);
    t->owner->lanes[t->lane].residuals++;
    t->fresh = true;
    return true;
}

bool ss_tensor_settle(struct ss_tensor *t, bool registered, enum ss_tensor_reason reason)
{
    if (registered && !ss_tensor_make_residual(t)) {
        registered = false;
        reason = SS_TENSOR_MEMORY;
    }
    if (!registered && t->fresh)
        ss_tensor_drop_residual(t);
    if (registered && t->state != SS_TENSOR_REGISTERED) {
        t->threshold = (struct ss_threshold){.period = t->owner->settings->threshold_period};
        ss_agreed_forget(&t->agreed);
    }
    ss_watch_free(&t->watch);
    t->fresh = false;
    t->state = registered ? SS_TENSOR_REGISTERED : SS_TENSOR_EXACT;
    t->reason = registered ? SS_TENSOR_NONE : reason;
    return registered;
}

void ss_tensor_readmit(struct ss_tensor *t)
{
    const struct ss_tensor_settings *set = t->owner->settings;
    bool given = ss_registry_find(set->registry, t->buffer, t->n, &t->density);

    if (!given)
        t->density = 0;
    t->asked = (t->rule && !t->rule->automatic) || given;
    t->refusals = 0;
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
    ss_tensor_readmit(t);
}

static unsigned watched_calls(const struct ss_tensor *t)
{
    uint64_t after = t->owner->settings->register_after;

    if (after < LEAST_CALLS)
        return LEAST_CALLS;
    return after < UINT32_MAX ? (unsigned)after : UINT32_MAX;
}

/* Whether its calls are known to be its own, so that a rule makes it lossy. */
static bool is_identified(const struct ss_tensor *t)
{
    enum ss_identity id = t->owner->settings->identity;

    return id == SS_IDENTITY_ADDRESS || id == SS_IDENTITY_SITE || t->place.settled ||
           t->owner->settings->register_after == 0;
}

/* Why it cannot be registered in this call, SS_TENSOR_NONE when it can; or why it does not look
 * like a gradient (from SS_TENSOR_SELDOM on). */
static enum ss_tensor_reason obstacle(const struct ss_tensor *t)
{
    if (t->asked)
        return is_identified(t) ? SS_TENSOR_NONE : SS_TENSOR_NO_STEP;
    if (t->watch.calls < watched_calls(t))
        return SS_TENSOR_WATCHED;
    if (t->place.sync != SS_STEP_IN)
        return t->place.sync == SS_STEP_UNKNOWN ? SS_TENSOR_NO_STEP : SS_TENSOR_OUTSIDE;
    if (!t->place.settled)
        return SS_TENSOR_NO_STEP;
    if (2 * t->step_calls < t->place.step - t->first_step + 1)
        return SS_TENSOR_SELDOM;
    if (t->watch.result_parallel)
        return SS_TENSOR_CONSTANT;
    return SS_TENSOR_NONE;
}

/* Somebody has said so: a rule, `auto` among them, or the program. */
static bool may_register(const struct ss_tensor *t)
{
    return t->asked || t->rule;
}

struct ss_tensor_ballot ss_tensor_ballot(struct ss_tensor *t)
{
    struct ss_tensor_ballot b = {.unregistered = !ss_tensor_lossy(t)};

    t->ready = false;
    if (t->state == SS_TENSOR_CANDIDATE) {
        t->reason = obstacle(t);
        b.not_gradient = t->reason == SS_TENSOR_SELDOM || t->reason == SS_TENSOR_CONSTANT;
        t->ready = t->reason == SS_TENSOR_NONE || b.not_gradient;
        if (t->reason == SS_TENSOR_NONE && may_register(t) && !ss_tensor_make_residual(t))
            ss_tensor_settle(t, false, SS_TENSOR_MEMORY);
    }
    b.registered = ss_tensor_lossy(t);
    b.refused = t->state == SS_TENSOR_EXACT;
    b.not_ready = t->state == SS_TENSOR_REGISTERED ? !b.registered
                                                   : t->state == SS_TENSOR_CANDIDATE && !t->ready;
    b.differs = b.registered || (t->ready && (t->asked || !t->watch.input_parallel));
    return b;
}

void ss_tensor_vote(struct ss_tensor *t, const struct ss_tensor_ballot *all)
{
    t->refusals = all->refused ? t->refusals + 1 : 0;
    if (!all->unregistered || t->state == SS_TENSOR_EXACT)
        return;
    if (t->refusals >= REFUSALS) {
        ss_tensor_settle(t, false, SS_TENSOR_OTHERS);
    } else if (!all->not_ready && !all->refused) {
        bool registered = !all->not_gradient && all->differs;
        enum ss_tensor_reason reason = t->reason;
        if (reason == SS_TENSOR_NONE)
            reason = all->differs ? SS_TENSOR_OTHERS : SS_TENSOR_AVERAGE;
        if (registered && !may_register(t))
            ss_tensor_settle(t, false, SS_TENSOR_OFFERED);
        else
            ss_tensor_settle(t, registered, reason);
    } else if (t->fresh) {
        ss_tensor_drop_residual(t); /* another rank is not ready: made again when it is */
    }
}

bool ss_tensor_watching(const struct ss_tensor *t)
{
    return t->state == SS_TENSOR_CANDIDATE && !t->asked && t->in_flight <= 1 &&
           t->watch.calls < watched_calls(t);
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
    bool site = site_separates(t);

    snprintf(text, size, "count=%llu%s%s%s", (unsigned long long)t->n,
             t->type == SS_F64 ? ",type=double" : "", site ? ",site=" : "",
             site ? t->site_name : "");
}

void ss_tensor_override(const struct ss_tensor *t, char *text, size_t size)
{
    static const bool open[SS_TENSOR_REASONS] = {
        [SS_TENSOR_SELDOM] = true,  [SS_TENSOR_AVERAGE] = true, [SS_TENSOR_CONSTANT] = true,
        [SS_TENSOR_NO_RULE] = true, [SS_TENSOR_OFFERED] = true, [SS_TENSOR_DOUBLE] = true,
    };

    snprintf(text, size, "%s", "");
    if (t->state == SS_TENSOR_EXACT && open[t->reason])
        ss_tensor_rule(t, text, size);
}
