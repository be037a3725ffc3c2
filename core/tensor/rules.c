/* Reads rules from left to right; every error names its position and what is allowed there. */
#include "core/tensor/rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "core/tensor/rules_impl.h"

enum { MOST_SHOWN = 60 }; /* characters of a rule in a message */

struct parser {
    const char *end;  /* of the rule being read */
    const char *rule; /* begin of the rule being read */
    size_t number;    /* of that rule, from 1 */
    char *store;      /* room for copies */
    char *error;
    size_t size;
    bool with_settings;
    bool failed;
};

/* A piece of the text. */
struct span {
    const char *at;
    size_t length;
};

/* ---- texts ---- */

static bool is_separator(char c)
{
    return c == ';' || c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

static bool is(struct span s, const char *word)
{
    return s.length == strlen(word) && memcmp(s.at, word, s.length) == 0;
}

/* Returns how many bytes of a text a message shows. */
static int shown(struct span s)
{
    return s.length < MOST_SHOWN ? (int)s.length : MOST_SHOWN;
}

static void complain(struct parser *p, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void complain(struct parser *p, const char *at, const char *format, ...)
{
    const struct span rule = {p->rule, (size_t)(p->end - p->rule)};
    va_list args;
    int n;

    if (p->failed)
        return;
    p->failed = true;
    n = snprintf(p->error, p->size, "rule %zu, '%.*s%s', character %zu: ", p->number, shown(rule),
                 p->rule, rule.length > MOST_SHOWN ? "..." : "", (size_t)(at - p->rule) + 1);
    if (n < 0 || (size_t)n >= p->size)
        return;
    va_start(args, format);
    vsnprintf(p->error + n, p->size - (size_t)n, format, args);
    va_end(args);
}

/* ---- values ---- */

enum { LONGEST_NUMBER = 64 };

/* Copies a number; "" if it is too long to be one. */
static const char *number(char text[LONGEST_NUMBER], struct span s)
{
    if (s.length < LONGEST_NUMBER)
        memcpy(text, s.at, s.length);
    text[s.length < LONGEST_NUMBER ? s.length : 0] = '\0';
    return text;
}

static bool read_whole(struct span s, uint64_t *value)
{
    return cfg_number_count(number((char[LONGEST_NUMBER]){0}, s), value);
}

static const char *copy(struct parser *p, struct span s)
{
    char *to = p->store;

    memcpy(to, s.at, s.length);
    to[s.length] = '\0';
    p->store = to + s.length + 1;
    return to;
}

/* ---- conditions ---- */

static void read_count(struct parser *p, struct ss_rule *r, struct span value)
{
    const char *colon = memchr(value.at, ':', value.length);
    bool good;

    if (!colon) {
        good = read_whole(value, &r->count_low);
        r->count_high = r->count_low;
    } else {
        struct span low = {value.at, (size_t)(colon - value.at)};
        struct span high = {colon + 1, value.length - low.length - 1};
        good = (low.length == 0 || read_whole(low, &r->count_low)) &&
               (high.length == 0 || read_whole(high, &r->count_high)) &&
               r->count_low <= r->count_high;
    }
    if (!good)
        complain(p, value.at,
                 "count takes N, LO:HI, LO: or :HI with whole numbers of elements and LO <= HI");
}

static void read_condition(struct parser *p, struct ss_rule *r, struct span s)
{
    const char *equals = memchr(s.at, '=', s.length);
    struct span key = {s.at, equals ? (size_t)(equals - s.at) : s.length};
    struct span value = {equals ? equals + 1 : s.at + s.length,
                         equals ? s.length - key.length - 1 : 0};

    if (is(s, "*"))
        return;
    if (is(s, "ddp")) {
        r->identified = true;
        return;
    }
    if (is(s, "auto") && p->with_settings) {
        complain(p, s.at,
                 "there is no rule auto: 'sparseshim learn' finds the gradients of a program and "
                 "writes the rules");
        return;
    }
    if (equals && is(key, "count")) {
        read_count(p, r, value);
    } else if (equals && is(key, "type")) {
        r->has_type = true;
        r->type = is(value, "double") ? SS_F64 : SS_F32;
        if (!is(value, "float") && !is(value, "double"))
            complain(p, value.at, "type takes float or double");
    } else if (equals && is(key, "comm")) {
        r->comm = copy(p, value);
    } else if (equals && is(key, "site")) {
        r->site = copy(p, value);
        if (value.length == 0)
            complain(p, value.at,
                     "site takes SYMBOL or MODULE+OFFSET, in which * and ? match "
                     "any text and any character");
    } else {
        complain(p, s.at,
                 "'%.*s' is no condition: allowed are *, ddp, count=LO:HI, count=N, type=float, "
                 "type=double, comm=NAME and site=SYMBOL or MODULE+OFFSET, joined by ','",
                 shown(s), s.at);
    }
}

/* ---- settings ---- */

static void read_density(struct parser *p, struct ss_rule *r, struct span value)
{
    if (!cfg_number_share(number((char[LONGEST_NUMBER]){0}, value), &r->density) ||
        !(r->density > 0) || r->density > 1)
        complain(p, value.at,
                 "density takes a number above 0 and up to 1, or a percentage such as 1%%");
    else if (r->k > 0)
        complain(p, value.at, "a rule takes density or k, not both");
}

static void read_k(struct parser *p, struct ss_rule *r, struct span value)
{
    const char *slash = memchr(value.at, '/', value.length);
    size_t before = slash ? (size_t)(slash - value.at) : 0;

    if (!slash || !read_whole((struct span){value.at, before}, &r->k) ||
        !read_whole((struct span){slash + 1, value.length - before - 1}, &r->bucket) || r->k < 1 ||
        r->k > r->bucket)
        complain(p, value.at, "k takes K/B, the K largest of each B elements, 1 <= K <= B");
    else if (r->density > 0)
        complain(p, value.at, "a rule takes density or k, not both");
}

static void read_values(struct parser *p, struct ss_rule *r, struct span value)
{
    for (unsigned v = 0; v < SS_VALUE_CHOICES; v++)
        if (is(value, ss_value_type_name(v))) {
            r->has_values = true;
            r->value_type = v;
            return;
        }
#define WORD(id, word) ", " #word
    complain(p, value.at, "values takes one of %s", (SS_VALUES_LIST(WORD) SS_QSGD_LIST(WORD)) + 2);
#undef WORD
}

static void read_algorithm(struct parser *p, struct ss_rule *r, struct span value)
{
    char names[256] = "";
    size_t used = 0;

    for (int a = 0; a < SS_ALGORITHMS; a++) {
        const char *name = ss_algorithm_name((enum ss_algorithm)a);
        if (is(value, name)) {
            r->has_algorithm = true;
            r->algorithm = (enum ss_algorithm)a;
            return;
        }
        int n = snprintf(names + used, sizeof names - used, "%s%s", a > 0 ? ", " : "", name);
        used += n > 0 && (size_t)n < sizeof names - used ? (size_t)n : 0;
    }
    complain(p, value.at, "algorithm takes one of %s", names);
}

static void read_keep(struct parser *p, struct ss_rule *r, struct span value)
{
    const char *colon = memchr(value.at, ':', value.length);
    struct span side = {value.at, colon ? (size_t)(colon - value.at) : 0};

    r->keep = is(side, "last") ? SS_KEEP_LAST : SS_KEEP_FIRST;
    if (!colon || (!is(side, "first") && !is(side, "last")) ||
        !read_whole((struct span){colon + 1, value.length - side.length - 1}, &r->keep_count) ||
        r->keep_count == 0)
        complain(p, value.at, "keep takes first:N or last:N, N elements from 1 on");
    else if (r->node)
        complain(p, value.at, "a rule takes keep or node, not both");
}

static void read_calls(struct parser *p, struct ss_rule *r, struct span value)
{
    uint64_t calls;

    if (!read_whole(value, &calls) || calls < 1 || calls > SS_RULE_CALLS)
        complain(p, value.at, "calls takes N, the calls per step, from 1 to %d", SS_RULE_CALLS);
    else
        r->calls = (uint32_t)calls;
}

static void read_setting(struct parser *p, struct ss_rule *r, struct span s)
{
    static const struct {
        const char *name;
        void (*read)(struct parser *p, struct ss_rule *r, struct span value);
    } settings[] = {{"density", read_density},     {"k", read_k},       {"values", read_values},
                    {"algorithm", read_algorithm}, {"keep", read_keep}, {"calls", read_calls}};
    const char *equals = memchr(s.at, '=', s.length);
    struct span key = {s.at, equals ? (size_t)(equals - s.at) : s.length};

    if (p->with_settings && is(s, "node")) {
        r->node = true;
        if (r->keep != SS_KEEP_NONE)
            complain(p, s.at, "a rule takes keep or node, not both");
        return;
    }
    if (!p->with_settings) {
        complain(p, s.at, "only a rule of REGISTER takes settings such as '%.*s'", shown(s), s.at);
        return;
    }
    for (size_t i = 0; equals && i < sizeof settings / sizeof settings[0]; i++)
        if (is(key, settings[i].name)) {
            settings[i].read(p, r, (struct span){equals + 1, s.length - key.length - 1});
            return;
        }
    complain(p, s.at,
             "'%.*s' is no setting: allowed are density=D, k=K/B, values=TYPE, algorithm=NAME, "
             "keep=first:N, "
             "keep=last:N, calls=N and node, each after ':'",
             shown(s), s.at);
}

/* ---- rules ---- */

/* Returns the end of a condition or setting. A ':' before a letter ends it. Before a digit, another
 * ':' or the end of the rule it belongs to the value, as in count=LO:HI and keep=first:N. */
static const char *piece_end(const char *at, const char *end, bool conditions)
{
    for (; at < end; at++) {
        bool letter =
            at + 1 < end && ((at[1] >= 'a' && at[1] <= 'z') || (at[1] >= 'A' && at[1] <= 'Z'));
        if ((conditions && *at == ',') || (*at == ':' && letter))
            return at;
    }
    return end;
}

static void read_rule(struct parser *p, struct ss_rule *r)
{
    struct span whole = {p->rule, (size_t)(p->end - p->rule)};
    const char *at = p->rule;
    bool conditions = true;

    *r = (struct ss_rule){.text = copy(p, whole), .count_high = UINT64_MAX};
    for (;;) {
        const char *end = piece_end(at, p->end, conditions);
        struct span piece = {at, (size_t)(end - at)};
        if (conditions)
            read_condition(p, r, piece);
        else
            read_setting(p, r, piece);
        if (p->failed || end == p->end)
            return;
        conditions = *end == ',';
        at = end + 1;
    }
}

/* Moves to the next rule; returns false if there is none. */
static bool next_rule(struct parser *p)
{
    while (is_separator(*p->end))
        p->end++;
    if (*p->end == '\0')
        return false;
    p->rule = p->end;
    while (*p->end != '\0' && !is_separator(*p->end))
        p->end++;
    p->number++;
    return true;
}

int ss_rules_parse(const char *text, bool with_settings, struct ss_rules **rules, char *error,
                   size_t size)
{
    struct parser p = {.end = text, .error = error, .size = size};
    struct ss_rules *all;

    *rules = NULL;
    if (size > 0)
        error[0] = '\0';
    if (!text)
        return SS_OK;
    while (next_rule(&p))
        ;
    if (p.number == 0)
        return SS_OK;
    all = calloc(1, sizeof *all);
    if (!all)
        return SS_ERR_MEMORY;
    all->rule = calloc(p.number, sizeof *all->rule);
    all->text = malloc(3 * strlen(text) + 3); /* text and patterns; a pattern has its key's room */
    all->compared = calloc(1, sizeof *all->compared + p.number * sizeof *all->compared->rule);
    if (all->compared)
        pthread_mutex_init(&all->compared->lock, NULL);
    if (!all->rule || !all->text || !all->compared) {
        ss_rules_free(all);
        return SS_ERR_MEMORY;
    }
    p = (struct parser){.end = text,
                        .store = all->text,
                        .error = error,
                        .size = size,
                        .with_settings = with_settings};
    while (!p.failed && next_rule(&p)) {
        struct ss_rule *r = &all->rule[all->count];
        read_rule(&p, r);
        r->number = (uint32_t)++all->count;
    }
    if (p.failed) {
        ss_rules_free(all);
        return SS_ERR_MESSAGE;
    }
    *rules = all;
    return SS_OK;
}

void ss_rules_free(struct ss_rules *rules)
{
    if (!rules)
        return;
    if (rules->compared)
        pthread_mutex_destroy(&rules->compared->lock);
    free(rules->compared);
    free(rules->rule);
    free(rules->text);
    free(rules);
}

/* ---- patterns ---- */

static bool is_plain(char c)
{
    return (unsigned char)c >= ' ' && c != 0x7f && !is_separator(c) && !strchr(",:*?'\"\\#", c);
}

void ss_rule_pattern(char *to, size_t size, const char *text, size_t room)
{
    size_t n = 0;

    for (; text[n] && n + 2 < size; n++)
        to[n] = is_plain(text[n]) ? text[n] : '?';
    if (text[n] || n + 1 == room)
        to[n++] = '*';
    to[n] = '\0';
}
