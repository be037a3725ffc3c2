/* The rules of REGISTER and EXCLUDE.
 *
 *     text       = rule { separator rule }          separator: ';' or white space, any number
 *     rule       = condition { ',' condition } { ':' setting }
 *     condition  = '*' | count=N | count=[LO]:[HI] | type=float | type=double
 *                | comm=PATTERN | site=PATTERN
 *     setting    = density=D | k=K/B | algorithm=NAME | keep=first:N | keep=last:N | calls=N
 *
 * All conditions of a rule must hold; LO and HI are included; '*' holds always. In a PATTERN '*'
 * stands for any text and '?' for any one character: so can a separator, a ',' or a ':' before a
 * letter in a name be written. Keys and words are lower case. The first rule that matches wins.
 */
#ifndef CORE_TENSOR_RULES_H
#define CORE_TENSOR_RULES_H

#include "core/base/types.h"

enum ss_keep { SS_KEEP_NONE, SS_KEEP_FIRST, SS_KEEP_LAST };

enum { SS_RULE_CALLS = 1000000 };

struct ss_rule {
    const char *text; /* as written, without separators */
    uint64_t count_low;
    uint64_t count_high;
    bool has_type;
    enum ss_type type;
    const char *comm; /* pattern, NULL = any */
    const char *site; /* pattern, NULL = any */

    /* Settings of a REGISTER rule. */
    double density; /* 0 < density <= 1, 0 = not given */
    uint64_t k;     /* k largest of each `bucket` elements, 0 = not given */
    uint64_t bucket;
    bool has_algorithm;
    enum ss_algorithm algorithm;
    enum ss_keep keep; /* the first or last keep_count elements are sent exactly */
    uint64_t keep_count;
    uint32_t calls; /* per step, of each signature, and of each site if the rule names one; 0 = not
                       given (core/identity/identity.h) */
};

struct ss_rules;

/* What a rule is compared with. Texts may be NULL, which reads as "". */
struct ss_rule_subject {
    uint64_t count;
    enum ss_type type;
    const char *comm;   /* name of the communicator */
    const char *site;   /* MODULE+OFFSET of the call site, "" = unknown */
    const char *symbol; /* its function, "" = unknown; site=PATTERN may match either */
};

/* Reads `text`; NULL and "" give no rules, *rules = NULL. SS_OK; SS_ERR_MEMORY; or
 * SS_ERR_MESSAGE with one sentence in error[0..size) that names the rule, the position (characters
 * from 1) and what is allowed. *rules is NULL on failure. Owned by the caller. */
int ss_rules_parse(const char *text, bool with_settings, struct ss_rules **rules, char *error,
                   size_t size);

/* The first rule that matches, owned by `rules`; NULL when none does or rules is NULL. */
const struct ss_rule *ss_rules_match(const struct ss_rules *rules,
                                     const struct ss_rule_subject *subject);

/* Counts that rules name: count=N, a range with an end. Whether some rule names this one, for this
 * type; its comm and site are not looked at, which ranks may know under other names. The least
 * count that any of them names, UINT64_MAX: none does. */
bool ss_rules_name(const struct ss_rules *rules, uint64_t count, enum ss_type type);
uint64_t ss_rules_least_named(const struct ss_rules *rules);

/* A PATTERN that takes `text`, in to[0..size): what would end it, in a rule or in the quotes of a
 * shell, is '?'; text that fills its room of `room` bytes was cut there and ends in '*', as does
 * one for which `size` is too small. */
void ss_rule_pattern(char *to, size_t size, const char *text, size_t room);

/* Rules that match nothing. ss_rules_meet compares every rule with a subject and remembers the
 * result; from several threads. ss_rules_unmatched writes the rules that have matched none, at
 * most 3 of them, each with the subject that came nearest (the fewest conditions
 * that fail, then the nearest count), and returns how many there are; 0 and "" where nothing was
 * met at all. */
struct ss_rules_reach {
    uint64_t min_count; /* calls of fewer elements cannot be met */
    bool merges;        /* but where the rules name their count */
};
void ss_rules_meet(const struct ss_rules *rules, const struct ss_rule_subject *subject);
size_t ss_rules_unmatched(const struct ss_rules *rules, const struct ss_rules_reach *reach,
                          char *text, size_t size);

void ss_rules_free(struct ss_rules *rules);

#endif
