/* Shared by the files that read and match rules. */
#ifndef CORE_TENSOR_RULES_IMPL_H
#define CORE_TENSOR_RULES_IMPL_H

#include <pthread.h>

#include "core/tensor/rules.h"

/* The results of comparing one rule with subjects. */
struct comparison {
    bool matched;
    bool any;        /* a subject did not match; the nearest such subject: */
    unsigned misses; /* conditions that failed */
    double distance; /* ratio of the counts, 1 or more */
    char nearest[320];
};

/* The results of all rules, apart from the rules, which are read without a lock. */
struct comparisons {
    pthread_mutex_t lock;
    bool any;
    struct comparison rule[];
};

struct ss_rules {
    struct comparisons *compared;
    struct ss_rule *rule;
    size_t count;
    char *text; /* of all rules, each ended by 0; then their patterns */
};

#endif
