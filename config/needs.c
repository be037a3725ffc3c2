/* Options that need other options. */
#include "config/parts.h"

#include <string.h>

static bool is_topk(const struct cfg_options *o)
{
    return o->mode == CFG_MODE_TOPK;
}

/* MODE=observe predicts what DENSITY would bring. */
static bool uses_density(const struct cfg_options *o)
{
    return is_topk(o) || o->mode == CFG_MODE_OBSERVE;
}

static bool may_run(const struct cfg_options *o)
{
    return is_topk(o) || !(SS_GLOBAL_ALGORITHMS >> o->algorithm & 1);
}

/* Partial calls have no vote, so that a rule must tell all ranks the period of the gradients. */
static bool has_rule(const struct cfg_options *o)
{
    return strstr(o->include, ":calls=") != NULL;
}

static bool may_differ(const struct cfg_options *o)
{
    return !o->reproducible;
}

static bool has_thread(const struct cfg_options *o)
{
    return o->progress != CFG_PROGRESS_OFF;
}

static bool waits_for_all(const struct cfg_options *o)
{
    return o->quorum == SS_QUORUM_ALL;
}

static bool may_use_dsar(const struct cfg_options *o)
{
    return o->algorithm == SS_AUTO || o->algorithm == SS_DSAR || strstr(o->include, "dsar");
}

static bool has_bits(const struct cfg_options *o)
{
    return o->quant_bits != CFG_QUANT_OFF;
}

static bool has_report(const struct cfg_options *o)
{
    return o->report != CFG_REPORT_OFF;
}

static const struct need {
    const char *name;
    bool (*is_met)(const struct cfg_options *o);
    const char *other, *value; /* the needed option and its value */
    bool strict; /* the default is taken; else the value stays without effect, no STRICT error */
} needs[] = {
    {"ALGORITHM", may_run, "MODE", "=topk", true},
    {"VALUE_TYPE", is_topk, "MODE", "=topk", true},
    {"QUANT_BITS", is_topk, "MODE", "=topk", true},
    {"QUORUM", is_topk, "MODE", "=topk", true},
    {"QUORUM", has_rule, "REGISTER", " with calls=N in a rule", true},
    {"QUORUM", may_differ, "REPRODUCIBLE", "=off", true},
    {"MERGE", is_topk, "MODE", "=topk", true},
    {"MERGE", has_thread, "PROGRESS", " other than off", true},
    {"MERGE", waits_for_all, "QUORUM", "=all", true},
    {"DENSITY", uses_density, "MODE", "=topk", false},
    {"REGISTER", is_topk, "MODE", "=topk", false},
    {"EXCLUDE", is_topk, "MODE", "=topk", false},
    {"WARMUP_STEPS", is_topk, "MODE", "=topk", false},
    {"GUARD", is_topk, "MODE", "=topk", false},
    {"QUANT_BITS", may_use_dsar, "ALGORITHM", "=auto or dsar", false},
    {"QUANT_FEEDBACK", has_bits, "QUANT_BITS", " other than off", false},
    {"REPORT_DIR", has_report, "REPORT", "=rank0 or all", false},
};

/* Returns whether the user means the value of a row to have an effect. A value of the site's file
 * is no such value, nor is one from a weaker source than that of the option that it needs, or one
 * whose MODE the policy has limited. */
static bool is_meant(const struct cfg *cfg, size_t row, size_t other)
{
    return cfg->source[row] > CFG_FROM_SYSTEM_FILE && cfg->source[other] <= cfg->source[row] &&
           !cfg->limited;
}

/* MODE=learn serves no call; its options are meant for the job that follows. */
void cfg_check_needs(struct cfg *cfg)
{
    if (cfg->options.mode == CFG_MODE_LEARN)
        return;
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        const struct need *need = &needs[i];
        size_t row = cfg_find(need->name);
        if (need->is_met(&cfg->options) || cfg_is_standard(cfg, row) ||
            !(need->strict || is_meant(cfg, row, cfg_find(need->other))))
            continue;
        cfg_say(cfg, need->strict, CFG_PREFIX "%s=%s needs " CFG_PREFIX "%s%s; %s%s", need->name,
                CFG_SHOWN(cfg->text[row]), need->other, need->value,
                need->strict ? cfg_table[row].standard : "it has no effect",
                need->strict ? " stands" : "");
        if (need->strict)
            cfg_set(cfg, row, cfg_table[row].standard, CFG_FROM_DEFAULT, need->name);
    }
}
