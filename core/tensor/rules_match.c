/* Compares calls with rules, and remembers which rules have matched nothing. */
#include <stdio.h>
#include <string.h>

#include "core/tensor/rules_impl.h"

/* A '*' first matches as little as possible; if what follows then fails, one character more. */
static bool pattern_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;

    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool text_matches(const char *pattern, const char *text)
{
    return pattern_matches(pattern, text ? text : "");
}

static bool site_matches(const struct ss_rule *r, const struct ss_rule_subject *s)
{
    return !r->site || text_matches(r->site, s->site) || text_matches(r->site, s->symbol);
}

/* Returns the number of conditions that fail. */
static unsigned misses(const struct ss_rule *r, const struct ss_rule_subject *s)
{
    return (unsigned)(s->count < r->count_low || s->count > r->count_high) +
           (unsigned)(r->identified && !s->identified) +
           (unsigned)(r->has_type && s->type != r->type) +
           (unsigned)(r->comm && !text_matches(r->comm, s->comm)) + (unsigned)!site_matches(r, s);
}

static bool matches(const struct ss_rule *r, const struct ss_rule_subject *s)
{
    return misses(r, s) == 0;
}

const struct ss_rule *ss_rules_match(const struct ss_rules *rules,
                                     const struct ss_rule_subject *subject)
{
    for (size_t i = 0; rules && i < rules->count; i++)
        if (matches(&rules->rule[i], subject))
            return &rules->rule[i];
    return NULL;
}

/* Returns true if the rule has a condition on the count. */
static bool names_counts(const struct ss_rule *r)
{
    return r->count_low > 0 || r->count_high < UINT64_MAX;
}

uint64_t ss_rules_least_named(const struct ss_rules *rules)
{
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; rules && i < rules->count; i++)
        if (names_counts(&rules->rule[i]) && rules->rule[i].count_low < least)
            least = rules->rule[i].count_low;
    return least;
}

bool ss_rules_name_hosts(const struct ss_rules *rules)
{
    for (size_t i = 0; rules && i < rules->count; i++)
        if (rules->rule[i].node)
            return true;
    return false;
}

bool ss_rules_name(const struct ss_rules *rules, uint64_t count, enum ss_type type)
{
    for (size_t i = 0; rules && i < rules->count; i++) {
        const struct ss_rule *r = &rules->rule[i];
        if (names_counts(r) && count >= r->count_low && count <= r->count_high &&
            (!r->has_type || r->type == type))
            return true;
    }
    return false;
}

/* ---- rules that have matched nothing ---- */

/* Returns the ratio, 1 or more, of a count to the nearest count that the rule takes. */
static double distance(const struct ss_rule *r, uint64_t count)
{
    if (count < r->count_low)
        return (double)r->count_low / (double)(count > 0 ? count : 1);
    if (count > r->count_high)
        return (double)count / (double)(r->count_high > 0 ? r->count_high : 1);
    return 1;
}

static void describe(const struct ss_rule_subject *s, char *text, size_t size)
{
    bool site = s->site && s->site[0], symbol = s->symbol && s->symbol[0];

    snprintf(text, size, "%llu %s from %s%s%s on %s", (unsigned long long)s->count,
             ss_type_name(s->type), site ? s->site : "an unknown place", symbol ? " in " : "",
             symbol ? s->symbol : "", s->comm && s->comm[0] ? s->comm : "an unnamed communicator");
}

/* The caller holds the lock. */
static void compare(const struct ss_rule *r, struct comparison *c, const struct ss_rule_subject *s)
{
    unsigned missed = misses(r, s);
    double far = distance(r, s->count);

    if (missed == 0)
        c->matched = true;
    if (c->matched ||
        (c->any && (missed > c->misses || (missed == c->misses && far >= c->distance))))
        return;
    c->any = true;
    c->misses = missed;
    c->distance = far;
    describe(s, c->nearest, sizeof c->nearest);
}

void ss_rules_compare(const struct ss_rules *rules, const struct ss_rule_subject *subject)
{
    if (!rules)
        return;
    pthread_mutex_lock(&rules->compared->lock);
    rules->compared->any = true;
    for (size_t i = 0; i < rules->count; i++)
        compare(&rules->rule[i], &rules->compared->rule[i], subject);
    pthread_mutex_unlock(&rules->compared->lock);
}

static void tell_unmatched(const struct ss_rule *r, const struct comparison *c,
                           const struct ss_rules_reach *reach, char *text, size_t size)
{
    if (r->count_high < reach->min_count)
        snprintf(text, size, "'%s' (MIN_COUNT=%llu leaves so small calls alone%s)", r->text,
                 (unsigned long long)reach->min_count,
                 reach->merges ? ", but for nonblocking ones among larger ones" : "");
    else
        snprintf(text, size, "'%s' (nearest: %s)", r->text, c->nearest);
}

size_t ss_rules_unmatched(const struct ss_rules *rules, const struct ss_rules_reach *reach,
                          char *text, size_t size)
{
    enum { SHOWN = 3 };
    char one[640];
    size_t n = 0, used = 0;

    snprintf(text, size, "%s", "");
    if (!rules)
        return 0;
    pthread_mutex_lock(&rules->compared->lock);
    for (size_t i = 0; i < rules->count && rules->compared->any; i++) {
        if (rules->compared->rule[i].matched || n++ >= SHOWN)
            continue;
        tell_unmatched(&rules->rule[i], &rules->compared->rule[i], reach, one, sizeof one);
        used += (size_t)snprintf(text + used, size - used, "%s%s", n > 1 ? ", " : "", one);
        used = used < size ? used : size - 1;
    }
    if (n > SHOWN)
        snprintf(text + used, size - used, " and %zu more", n - SHOWN);
    pthread_mutex_unlock(&rules->compared->lock);
    return n;
}
