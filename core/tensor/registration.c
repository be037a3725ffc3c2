/* Registration for top-k, by the settings, the application and the votes of all ranks. */
#include <stdio.h>
#include <string.h>

#include "core/tensor/residual.h"
#include "core/tensor/tensor_impl.h"

enum { REFUSALS = 8 /* votes in a row */ };

const char *ss_tensor_reason_name(enum ss_tensor_reason reason)
{
    static const char *const names[SS_TENSOR_REASONS] = {
        "registered",
        "not a sum of floats",
        "matches EXCLUDE",
        "matches no rule of REGISTER",
        "its position in the step is not known",
        "no room for a residual within MAX_MEMORY, or on its device",
        "not registered on another rank",
        "GUARD found the result too far off",
        "unregistered by the application",
    };
    return names[reason];
}

bool ss_tensor_settle(struct ss_tensor *t, bool registered, enum ss_tensor_reason reason)
{
    const bool before = ss_residual_there(t);

    if (registered && !ss_residual_make(t)) {
        registered = false;
        reason = SS_TENSOR_MEMORY;
    }
    if (registered && t->state != SS_TENSOR_REGISTERED) {
        t->threshold = (struct ss_threshold){.period = t->set->settings->threshold_period};
        ss_agreed_forget(&t->agreed);
        t->rest = before ? SS_AWAKE : SS_RESTS_EMPTY;
        t->lossy_since = 0;
    }
    if (t->decided_at == 0)
        t->decided_at = t->calls;
    t->state = registered ? SS_TENSOR_REGISTERED : SS_TENSOR_EXACT;
    t->reason = registered ? SS_TENSOR_NONE : reason;
    return registered;
}

static void admit(struct ss_tensor *t)
{
    const struct ss_tensor_settings *set = t->set->settings;
    bool given = ss_registry_find(set->registry, t->buffer, t->n, &t->density);

    if (!given)
        t->density = 0;
    t->asked = t->rule || given;
    t->refusals = 0;
    t->state = SS_TENSOR_EXACT;
    if (!ss_type_is_float(t->type) || t->op != SS_SUM)
        t->reason = SS_TENSOR_TYPE;
    else if (t->excluded)
        t->reason = SS_TENSOR_EXCLUDED;
    else if (!t->asked)
        t->reason = SS_TENSOR_NO_RULE;
    else {
        t->state = SS_TENSOR_CANDIDATE;
        t->reason = SS_TENSOR_NO_STEP;
    }
}

struct ss_call_rule ss_tensors_rule(const struct ss_tensors *ts, const struct ss_tensor_call *call,
                                    const struct ss_rule_subject *subject)
{
    const struct ss_rule *rule;
    struct ss_call_rule of = {.excluded = ss_rules_match(ts->settings->exclude, subject) != NULL};

    if (of.excluded || !ss_type_is_float(call->type) || call->op != SS_SUM ||
        !(rule = ss_rules_match(ts->settings->include, subject)))
        return of;
    of.takes = true;
    of.number = rule->number;
    of.calls = rule->calls;
    return of;
}

void ss_tensor_admit(struct ss_tensor *t, const struct ss_rule_subject *subject)
{
    const struct ss_tensor_settings *set = t->set->settings;

    t->rule = ss_rules_match(set->include, subject);
    t->excluded = ss_rules_match(set->exclude, subject) != NULL;
    if (ss_type_is_float(t->type) && t->op == SS_SUM) {
        ss_rules_compare(set->include, subject);
        ss_rules_compare(set->exclude, subject);
    }
    admit(t);
}

void ss_tensor_readmit(struct ss_tensor *t)
{
    t->withdrawn = false;
    if (t->state != SS_TENSOR_REGISTERED)
        admit(t);
    else if (ss_registry_find(t->set->settings->registry, t->buffer, t->n, &t->density))
        t->asked = true;
}

void ss_tensor_identified(struct ss_tensor *t)
{
    if (t->asked && t->state == SS_TENSOR_CANDIDATE)
        ss_tensor_settle(t, true, SS_TENSOR_NONE);
}

struct ss_tensor_ballot ss_tensor_ballot(const struct ss_tensor *t)
{
    return (struct ss_tensor_ballot){.unregistered = !ss_tensor_lossy(t),
                                     .registered = ss_tensor_lossy(t),
                                     .refused = t->state == SS_TENSOR_EXACT};
}

void ss_tensor_vote(struct ss_tensor *t, const struct ss_tensor_ballot *all, bool same)
{
    t->refusals = all->refused || !same ? t->refusals + 1 : 0;
    if (t->state == SS_TENSOR_REGISTERED && t->refusals >= REFUSALS)
        ss_tensor_settle(t, false, SS_TENSOR_OTHERS);
}

void ss_tensor_begin(struct ss_tensor *t)
{
    t->in_flight++;
}

void ss_tensor_end(struct ss_tensor *t)
{
    t->in_flight--;
}

/* Returns true if the site is known and another tensor of the lane has another site. */
static bool site_separates(const struct ss_tensor *t)
{
    for (const struct ss_tensor *o = t->set->lanes[t->lane].tensors; o; o = o->in_lane)
        if (strcmp(o->site_name, t->site_name) != 0)
            return t->site_name[0] != '\0';
    return false;
}

void ss_tensor_rule(const struct ss_tensor *t, char *text, size_t size)
{
    bool apart;
    char site[sizeof t->site_name + 2] = "";

    if (t->identified) {
        snprintf(text, size, "ddp");
        return;
    }
    apart = site_separates(t);
    if (apart)
        ss_rule_pattern(site, sizeof site, t->site_name, sizeof t->site_name);
    snprintf(text, size, "count=%llu%s%s%s", (unsigned long long)t->n,
             t->type == SS_F64 ? ",type=double" : "", apart ? ",site=" : "", site);
}

void ss_tensor_override(const struct ss_tensor *t, char *text, size_t size)
{
    snprintf(text, size, "%s", "");
    if (t->state == SS_TENSOR_EXACT && t->reason == SS_TENSOR_NO_RULE)
        ss_tensor_rule(t, text, size);
}

const char *ss_tensor_remedy(enum ss_tensor_reason reason)
{
    static const char *const remedies[SS_TENSOR_REASONS] = {
        [SS_TENSOR_TYPE] = "no rule can: sums of float and double alone are sent as top-k",
        [SS_TENSOR_EXCLUDED] = "no rule can while it matches EXCLUDE",
        [SS_TENSOR_NO_STEP] = "calls=N in its rule, N being its calls per step, does",
        [SS_TENSOR_MEMORY] = "no rule can: a larger MAX_MEMORY does",
        [SS_TENSOR_OTHERS] = "no rule can: REPORT=all says what the other ranks have against it",
        [SS_TENSOR_GUARDED] = "no rule can: GUARD=warn does",
        [SS_TENSOR_WITHDRAWN] = "no rule can: the application has taken it out",
    };

    return remedies[reason];
}
