/* Options that need other options. */
#include "config/parts.h"

#include <string.h>

/* MODE=observe predicts what DENSITY would bring. */
static bool uses_density(const struct cfg_options *o)
{
    return cfg_is_lossy(o) || o->mode == CFG_MODE_OBSERVE;
}

/* A density of 1 in full width sends what MODE=exact sends. */
static bool sends_less(const struct cfg_options *o)
{
    return !cfg_is_lossy(o) || o->density.density < 1 || o->value_type != SS_VALUES_SAME;
}

static bool may_run(const struct cfg_options *o)
{
    return cfg_is_lossy(o) || !((SS_GLOBAL_ALGORITHMS | SS_WHOLE_ALGORITHMS) >> o->algorithm & 1);
}

/* Partial calls have no vote, so that a rule must tell all ranks the period of the gradients. */
static bool has_rule(const struct cfg_options *o)
{
    return strstr(o->include, ":calls=") != NULL;
}

/* Rounds take the coding of the job, and round to nearest. */
static bool has_one_coding(const struct cfg_options *o)
{
    return strstr(o->include, ":values=") == NULL;
}

static bool rounds_to_nearest(const struct cfg_options *o)
{
    return o->value_type < SS_VALUE_TYPES;
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
    {"ALGORITHM", may_run, "MODE", "=topk or quant", true},
    {"VALUE_TYPE", cfg_is_lossy, "MODE", "=topk or quant", true},
    {"QUORUM", cfg_is_lossy, "MODE", "=topk or quant", true},
    {"QUORUM", has_rule, "REGISTER", " with calls=N in a rule", true},
    {"QUORUM", has_one_coding, "REGISTER", " without values=", true},
    {"QUORUM", rounds_to_nearest, "VALUE_TYPE", " other than qsgd", true},
    {"QUORUM", may_differ, "REPRODUCIBLE", "=off", true},
    {"MERGE", cfg_is_lossy, "MODE", "=topk or quant", true},
    {"MERGE", has_thread, "PROGRESS", " other than off", true},
    {"MERGE", waits_for_all, "QUORUM", "=all", true},
    {"DENSITY", uses_density, "MODE", "=topk or quant", false},
    {"DENSITY", sends_less, "VALUE_TYPE", "=q4, or MODE=quant, to send less", false},
    {"REGISTER", cfg_is_lossy, "MODE", "=topk or quant", false},
    {"EXCLUDE", cfg_is_lossy, "MODE", "=topk or quant", false},
    {"WARMUP_STEPS", cfg_is_lossy, "MODE", "=topk or quant", false},
    {"GUARD", cfg_is_lossy, "MODE", "=topk or quant", false},
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

void cfg_set_mode_defaults(struct cfg *cfg)
{
    static const struct {
        const char *name, *value;
    } quant[] = {{"DENSITY", "1"}, {"VALUE_TYPE", "q4"}};

    for (size_t i = 0; cfg->options.mode == CFG_MODE_QUANT && i < sizeof quant / sizeof *quant; i++)
        if (cfg->source[cfg_find(quant[i].name)] == CFG_FROM_DEFAULT)
            cfg_set(cfg, cfg_find(quant[i].name), quant[i].value, CFG_FROM_DEFAULT, "MODE=quant");
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
