/* The line that rank 0 of the communicator logs, once per tensor, when it is found to look like a
 * gradient: that it is lossy from here on, or which rule would make it so. */
#include <stdio.h>

#include "core/feedback/feedback.h"

static void describe(const struct ss_feedback *f, char *text, size_t size)
{
    const struct ss_tensor *t = f->tensor;
    char place[32] = "";

    if (t->history.place.call > 0)
        snprintf(place, sizeof place, " (call %u of the step)", t->history.place.call);
    snprintf(text, size, "top-k: %llu %s from %s%s%s%s", (unsigned long long)t->n,
             ss_type_name(t->type), t->site_name[0] ? t->site_name : "an unknown place",
             t->symbol[0] ? " in " : "", t->symbol, place);
}

/* The share sent per call. */
static void share(const struct ss_feedback *f, char *text, size_t size)
{
    const struct ss_settings *s = f->comm->settings;
    const struct ss_rule *rule = f->tensor->rule;
    bool ruled = rule && (rule->k > 0 || rule->density > 0);
    uint64_t bucket = ruled ? rule->bucket : s->bucket, k = ruled ? rule->k : s->k;
    double density = ruled ? rule->density : s->density;

    if (f->tensor->density > 0)
        snprintf(text, size, "%.3g %%", 100 * f->tensor->density);
    else if (bucket > 0)
        snprintf(text, size, "%llu of %llu", (unsigned long long)k, (unsigned long long)bucket);
    else
        snprintf(text, size, "%.3g %%", 100 * density);
}

static void tell_admitted(const struct ss_feedback *f, const char *what, const char *rule,
                          char *text, size_t size)
{
    char sent[48];

    share(f, sent, sizeof sent);
    snprintf(text, size, "%s, %s per call; SPARSESHIM_EXCLUDE='%s' keeps it exact", what, sent,
             rule);
}

static void tell_offered(const char *what, const char *rule, char *text, size_t size)
{
    snprintf(text, size,
             "%s looks like a gradient and stays exact; to send its largest entries only: "
             "SPARSESHIM_REGISTER='%s', or SPARSESHIM_REGISTER=auto for all that looks so",
             what, rule);
}

void ss_admission_tell(struct ss_feedback *f)
{
    const struct ss_tensor *t = f->tensor;
    struct ss_comm *comm = f->comm;
    bool admitted = t->state == SS_TENSOR_REGISTERED;
    char what[320], rule[SS_TENSOR_RULE];

    if (t->asked || (!admitted && t->reason != SS_TENSOR_OFFERED) || f->c.x.t->rank != 0 ||
        !ss_stats_tell(comm->stats, admitted ? SS_TELL_ADMITTED : SS_TELL_OFFERED, t->n))
        return;
    describe(f, what, sizeof what);
    ss_tensor_rule(t, rule, sizeof rule);
    if (admitted)
        tell_admitted(f, what, rule, comm->warning, sizeof comm->warning);
    else
        tell_offered(what, rule, comm->warning, sizeof comm->warning);
}
