/* Rules for the gradients in the reports of a job: the least that takes them and nothing else. */
#include "shim/cli/learn_rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/tensor_record.h"
#include "core/tensor/rules.h"

enum { LONGEST_RULE = 512 };

/* What the user must not be told twice: tensors that differ in their ordinal or address alone. */
static bool alike(const struct ss_tensor_record *a, const struct ss_tensor_record *b)
{
    return a->count == b->count && a->type == b->type && a->state == b->state &&
           a->reason == b->reason && strcmp(a->comm, b->comm) == 0 && strcmp(a->site, b->site) == 0;
}

enum cli_verdict cli_verdict(const struct ss_tensor_record *t)
{
    static const bool untouched[SS_TENSOR_REASONS] = {
        [SS_TENSOR_TYPE] = true,   [SS_TENSOR_EXCLUDED] = true,  [SS_TENSOR_OUTSIDE] = true,
        [SS_TENSOR_MEMORY] = true, [SS_TENSOR_WITHDRAWN] = true, [SS_TENSOR_OTHERS] = true};

    if (t->state == SS_TENSOR_REGISTERED || t->reason == SS_TENSOR_OFFERED)
        return CLI_GRADIENT;
    if (t->state == SS_TENSOR_CANDIDATE)
        return CLI_UNDECIDED;
    return untouched[t->reason] ? CLI_UNTOUCHED : CLI_REFUSED;
}

/* ---- rules ---- */

enum { BY_TYPE = 1, BY_COMM = 2, BY_SYMBOL = 4, BY_SITE = 8 };

/* The rule for a tensor that goes by its count and what else is asked for; false where the tensor
 * lacks that. */
static bool rule_of(const struct ss_tensor_record *t, int by, char text[LONGEST_RULE])
{
    char comm[2 * sizeof t->comm] = "", site[2 * sizeof t->site] = "";
    bool symbol = by & BY_SYMBOL, place = symbol || (by & BY_SITE);

    if ((symbol && !t->symbol[0]) || ((by & BY_SITE) && !t->site[0]))
        return false;
    if (by & BY_COMM)
        ss_rule_pattern(comm, sizeof comm, t->comm, sizeof t->comm);
    if (symbol)
        ss_rule_pattern(site, sizeof site, t->symbol, sizeof t->symbol);
    else if (place)
        ss_rule_pattern(site, sizeof site, t->site, sizeof t->site);
    snprintf(text, LONGEST_RULE, "count=%" PRIu64 "%s%s%s%s%s%s", t->count,
             by & BY_TYPE ? ",type=" : "", by & BY_TYPE ? ss_type_name(t->type) : "",
             by & BY_COMM ? ",comm=" : "", comm, place ? ",site=" : "", site);
    return true;
}

static bool takes(const struct ss_rules *rules, const struct ss_tensor_record *t)
{
    const struct ss_rule_subject subject = {
        .count = t->count, .type = t->type, .comm = t->comm, .site = t->site, .symbol = t->symbol};

    return ss_rules_match(rules, &subject) != NULL;
}

/* A tensor of which too little was seen is no objection where gradients come from as well: it may
 * be one of theirs. */
static bool objects(const struct ss_tensor_record *t, const struct cli_report *report)
{
    enum cli_verdict verdict = cli_verdict(t);

    if (verdict != CLI_UNDECIDED)
        return verdict == CLI_REFUSED;
    for (const struct ss_tensor_record *o = report->stats.tensors; o; o = o->next)
        if (cli_verdict(o) == CLI_GRADIENT && o->count == t->count && o->type == t->type &&
            strcmp(o->site, t->site) == 0)
            return false;
    return true;
}

/* Whether the rule takes what looks like `like` on this rank, where there is such, and nothing that
 * must stay exact. */
static bool serves(const struct ss_rules *rules, const struct cli_report *report,
                   const struct ss_tensor_record *like)
{
    bool any = false, found = false;

    for (const struct ss_tensor_record *t = report->stats.tensors; t; t = t->next) {
        bool taken = takes(rules, t);

        if (taken && objects(t, report))
            return false;
        if (cli_verdict(t) == CLI_GRADIENT && t->count == like->count && t->type == like->type) {
            any = true;
            found = found || taken;
        }
    }
    return found || !any;
}

static bool serves_all(const struct ss_rules *rules, const struct cli_reports *reports,
                       const struct ss_tensor_record *like)
{
    for (size_t i = 0; i < reports->count; i++)
        if (!serves(rules, &reports->list[i], like))
            return false;
    return true;
}

/* The rule that goes by the least and serves on all ranks: 1 with its text, 0 where there is none.
 * The names of functions live longer than offsets. */
static int find_rule(const struct cli_reports *reports, const struct ss_tensor_record *t,
                     char text[LONGEST_RULE])
{
    static const int forms[] = {0,
                                BY_TYPE,
                                BY_COMM,
                                BY_SYMBOL,
                                BY_SITE,
                                BY_TYPE | BY_COMM,
                                BY_TYPE | BY_SYMBOL,
                                BY_TYPE | BY_SITE,
                                BY_COMM | BY_SYMBOL,
                                BY_COMM | BY_SITE};
    char error[200];

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct ss_rules *rules = NULL;

        if (!rule_of(t, forms[i], text))
            continue;
        int status = ss_rules_parse(text, true, &rules, error, sizeof error);
        if (status == SS_ERR_MEMORY)
            return status;
        bool good = rules && takes(rules, t) && serves_all(rules, reports, t);
        ss_rules_free(rules);
        if (good)
            return 1;
    }
    return 0;
}

static int add_rule(struct cli_learned *learned, const char *text)
{
    char **rule = realloc(learned->rule, (learned->rules + 1) * sizeof *rule);

    if (rule)
        learned->rule = rule;
    char *copy = rule ? strdup(text) : NULL;
    if (!copy)
        return SS_ERR_MEMORY;
    learned->rule[learned->rules++] = copy;
    return SS_OK;
}

bool cli_learned_takes(const struct cli_learned *learned, const struct ss_tensor_record *t)
{
    char error[200];
    bool taken = false;

    for (size_t i = 0; i < learned->rules && !taken; i++) {
        struct ss_rules *rules = NULL;

        taken = ss_rules_parse(learned->rule[i], true, &rules, error, sizeof error) == SS_OK &&
                takes(rules, t);
        ss_rules_free(rules);
    }
    return taken;
}

static int learn_from(const struct cli_reports *reports, const struct cli_report *report,
                      struct cli_learned *learned)
{
    char text[LONGEST_RULE];

    for (const struct ss_tensor_record *t = report->stats.tensors; t; t = t->next) {
        if (cli_verdict(t) != CLI_GRADIENT || cli_learned_takes(learned, t))
            continue;
        int found = find_rule(reports, t, text);
        if (found == 0)
            learned->left_out++;
        else if (found < 0 || add_rule(learned, text) != SS_OK)
            return SS_ERR_MEMORY;
    }
    return SS_OK;
}

/* ---- ranges, where there are more counts than a line has room for ---- */

static size_t length_of(const struct cli_learned *learned)
{
    size_t length = 0;

    for (size_t i = 0; i < learned->rules; i++)
        length += strlen(learned->rule[i]) + 2;
    return length;
}

/* The count of a rule that goes by it alone; 0: it does not. */
static uint64_t plain_count(const char *rule)
{
    uint64_t count = 0;
    int end = 0;

    return sscanf(rule, "count=%" SCNu64 "%n", &count, &end) == 1 && rule[end] == '\0' ? count : 0;
}

/* Rules by count alone first, the lower count before the higher. */
static int by_count(const void *a, const void *b)
{
    uint64_t x = plain_count(*(char *const *)a) - 1, y = plain_count(*(char *const *)b) - 1;

    return (x > y) - (x < y);
}

static bool in_reach(const struct cli_reports *reports, uint64_t low, uint64_t high,
                     char text[LONGEST_RULE])
{
    const struct ss_tensor_record nothing = {.count = 0};
    struct ss_rules *rules = NULL;
    char error[200];

    snprintf(text, LONGEST_RULE, "count=%" PRIu64 ":%" PRIu64, low, high);
    bool good = ss_rules_parse(text, true, &rules, error, sizeof error) == SS_OK &&
                serves_all(rules, reports, &nothing);
    ss_rules_free(rules);
    return good;
}

/* Neighbours with nothing between them that must stay exact become one range each. */
static int shorten(const struct cli_reports *reports, struct cli_learned *learned)
{
    char text[LONGEST_RULE], range[LONGEST_RULE];
    size_t kept = 0;

    qsort(learned->rule, learned->rules, sizeof *learned->rule, by_count);
    for (size_t i = 0; i < learned->rules; kept++) {
        uint64_t low = plain_count(learned->rule[i]);
        size_t first = i++;
        for (; low > 0 && i < learned->rules && plain_count(learned->rule[i]) > 0 &&
               in_reach(reports, low, plain_count(learned->rule[i]), range);
             i++) {
            memcpy(text, range, sizeof text);
            free(learned->rule[i]);
            learned->rule[i] = NULL;
        }
        char *own = learned->rule[first];
        learned->rule[first] = NULL;
        learned->rule[kept] = own;
        if (i - first == 1)
            continue;
        char *rule = strdup(text);
        if (!rule)
            return SS_ERR_MEMORY;
        free(learned->rule[kept]);
        learned->rule[kept] = rule;
    }
    learned->rules = kept;
    return SS_OK;
}

int cli_learn(const struct cli_reports *reports, struct cli_learned *learned)
{
    int status = SS_OK;

    *learned = (struct cli_learned){.rules = 0};
    for (size_t i = 0; i < reports->count && status == SS_OK; i++)
        status = learn_from(reports, &reports->list[i], learned);
    if (status == SS_OK && length_of(learned) > CLI_LONGEST_RULES)
        status = shorten(reports, learned);
    if (status != SS_OK)
        cli_learned_free(learned);
    return status;
}

void cli_learned_free(struct cli_learned *learned)
{
    for (size_t i = 0; i < learned->rules; i++)
        free(learned->rule[i]);
    free(learned->rule);
    *learned = (struct cli_learned){.rules = 0};
}

/* ---- comments ---- */

static const char *why(const struct ss_tensor_record *t, bool taken)
{
    if (cli_verdict(t) != CLI_GRADIENT)
        return ss_tensor_reason_name(t->reason);
    return taken ? "looks like a gradient"
                 : "looks like a gradient, but no rule tells it from what is refused";
}

/* Names may hold anything; a comment is one line. */
static void tell_name(FILE *out, const char *name)
{
    for (; *name; name++)
        fputc((unsigned char)*name < 0x20 || *name == 0x7f ? '?' : *name, out);
}

static void tell(FILE *out, const char *prefix, const struct ss_tensor_record *t, size_t tensors,
                 uint64_t calls, bool taken)
{
    fprintf(out, "%s%" PRIu64 " %s called from ", prefix, t->count, ss_type_name(t->type));
    tell_name(out, t->site[0] ? t->site : "an unknown place");
    if (t->symbol[0]) {
        fputs(" (", out);
        tell_name(out, t->symbol);
        fputc(')', out);
    }
    fputs(" on ", out);
    tell_name(out, t->comm[0] ? t->comm : "an unnamed communicator");
    fprintf(out, " of %d ranks, %" PRIu64 " calls", t->size, calls);
    if (tensors > 1)
        fprintf(out, " of %zu tensors", tensors);
    fprintf(out, ": %s", why(t, taken));
    if (cli_verdict(t) == CLI_REFUSED)
        fprintf(out, "; to register it all the same: SPARSESHIM_REGISTER=count=%" PRIu64, t->count);
    fputc('\n', out);
}

/* Whether another tensor alike was told before this one. */
static bool told(const struct cli_reports *reports, size_t report, const struct ss_tensor_record *t)
{
    for (size_t i = 0; i <= report; i++)
        for (const struct ss_tensor_record *o = reports->list[i].stats.tensors; o && o != t;
             o = o->next)
            if (alike(o, t))
                return true;
    return false;
}

static size_t tell_alike(FILE *out, const char *prefix, const struct ss_tensor_record *t,
                         bool taken)
{
    uint64_t calls = 0;
    size_t tensors = 0;

    for (const struct ss_tensor_record *o = t; o; o = o->next)
        if (alike(o, t)) {
            calls += o->calls;
            tensors++;
        }
    if (out)
        tell(out, prefix, t, tensors, calls, taken);
    return tensors;
}

size_t cli_learned_tell(FILE *out, const char *prefix, const struct cli_reports *reports,
                        const struct cli_learned *learned, enum cli_verdict verdict, bool taken)
{
    size_t tensors = 0;

    for (size_t i = 0; i < reports->count; i++)
        for (const struct ss_tensor_record *t = reports->list[i].stats.tensors; t; t = t->next)
            if (cli_verdict(t) == verdict && !told(reports, i, t) &&
                (verdict != CLI_GRADIENT || cli_learned_takes(learned, t) == taken))
                tensors += tell_alike(out, prefix, t, taken);
    return tensors;
}
