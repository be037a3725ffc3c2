/* The rules of REGISTER and EXCLUDE.
 *
 *     text       = rule { separator rule }          separator: ';' or white space, any number
 *     rule       = condition { ',' condition } { ':' setting }
 *     condition  = '*' | ddp | count=N | count=[LO]:[HI] | type=float | type=double
 *                | comm=PATTERN | site=PATTERN
 *     setting    = density=D | k=K/B | algorithm=NAME | keep=first:N | keep=last:N | calls=N
 *                | node | values=VALUE_TYPE
 *
 * All conditions of a rule must hold; LO and HI are included; '*' holds always, 'ddp' for buffers
 * that the program has identified (shim/sparseshim.h), as shim/torch does with those of DDP. In a
 * PATTERN '*' stands for any text and '?' for any one character. Write '?' for a separator, a ','
 * or a ':' before a letter in a name. Keys and words are lower case. The first rule that matches
 * wins.
 */
#ifndef CORE_TENSOR_RULES_H
#define CORE_TENSOR_RULES_H

#include "core/base/types.h"

enum ss_keep { SS_KEEP_NONE, SS_KEEP_FIRST, SS_KEEP_LAST };

enum { SS_RULE_CALLS = 1000000 };

struct ss_rule {
    uint32_t number;  /* from 1, in the order of the text */
    const char *text; /* as written, without separators */
    uint64_t count_low;
    uint64_t count_high;
    bool identified; /* has `ddp` */
    bool has_type;
    enum ss_type type;
    const char *comm; /* pattern, NULL = any */
    const char *site; /* pattern, NULL = any */

    /* Settings of a REGISTER rule. */
    double density; /* 0 < density <= 1, 0 = not given */
    uint64_t k;     /* k largest of each `bucket` elements, 0 = not given */
    uint64_t bucket;
    bool has_values;
    unsigned value_type; /* as VALUE_TYPE */
    bool has_algorithm;
    enum ss_algorithm algorithm;
    enum ss_keep keep; /* the first or last keep_count elements are sent exactly */
    uint64_t keep_count;
    bool node;      /* one residual per host */
    uint32_t calls; /* per step, of each signature; 0 = not given (core/identity/identity.h) */
};

struct ss_rules;

/* The call with which a rule is compared. A text that is NULL reads as "". */
struct ss_rule_subject {
    uint64_t count;
    enum ss_type type;
    const char *comm;   /* name of the communicator */
    const char *site;   /* MODULE+OFFSET of the call site, "" = unknown */
    const char *symbol; /* its function, "" = unknown; site=PATTERN may match either */
    bool identified;    /* the program has identified its buffer */
};

/* Reads `text` into *rules, which the caller owns. NULL and "" give no rules: *rules = NULL.
 * Returns SS_OK, SS_ERR_MEMORY, or SS_ERR_MESSAGE with one sentence in error[0..size) that names
 * the rule, the position (characters from 1) and the allowed forms. On failure *rules is NULL. */
int ss_rules_parse(const char *text, bool with_settings, struct ss_rules **rules, char *error,
                   size_t size);

/* Returns the first rule that matches, owned by `rules`; NULL if none does or rules is NULL. */
const struct ss_rule *ss_rules_match(const struct ss_rules *rules,
                                     const struct ss_rule_subject *subject);

/* Returns true if a rule names this count for this type, by count=N or a range with a bound. The
 * function ignores comm and site, which may have other names on other ranks. */
bool ss_rules_name(const struct ss_rules *rules, uint64_t count, enum ss_type type);
/* Returns the least count that a rule names, UINT64_MAX if no rule names one. */
uint64_t ss_rules_least_named(const struct ss_rules *rules);

/* Returns true if a rule has `node`. */
bool ss_rules_name_hosts(const struct ss_rules *rules);

/* Writes a PATTERN that matches `text` into to[0..size). A character that would end the pattern, in
 * a rule or between the quotes of a shell, becomes '?'. The pattern ends in '*' if `text` fills its
 * array of `room` bytes, since it may have been cut there, and if `size` is too small. */
void ss_rule_pattern(char *to, size_t size, const char *text, size_t room);

/* The calls that can be compared with rules. */
struct ss_rules_reach {
    uint64_t min_count; /* smaller calls are never compared, */
    bool merges;        /* except nonblocking ones among larger ones */
};
/* Compares every rule with a subject and remembers the result, for ss_rules_unmatched. May be
 * called from several threads. */
void ss_rules_compare(const struct ss_rules *rules, const struct ss_rule_subject *subject);
/* Writes at most 3 of the rules that have matched no subject, each with the nearest one (by the
 * number of conditions that fail, then by count). Returns the number of all such rules; 0, and "",
 * if no subject has been compared. */
size_t ss_rules_unmatched(const struct ss_rules *rules, const struct ss_rules_reach *reach,
                          char *text, size_t size);

void ss_rules_free(struct ss_rules *rules);

#endif
