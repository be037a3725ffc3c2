/* From the reports of a job to the rules that take what looked like a gradient in it, and nothing
 * else that was seen. */
#ifndef SHIM_CLI_LEARN_RULES_H
#define SHIM_CLI_LEARN_RULES_H

#include <stdio.h>

#include "shim/cli/report_read.h"

/* What a report says of a tensor. */
enum cli_verdict {
    CLI_GRADIENT,  /* it looks like one */
    CLI_UNDECIDED, /* too little was seen */
    CLI_REFUSED,   /* it must stay exact, as must all that a rule cannot tell from it */
    CLI_UNTOUCHED  /* exact whatever the rules say */
};
enum cli_verdict cli_verdict(const struct ss_tensor_record *t);

/* The reports of all ranks of one job; borrowed. */
struct cli_reports {
    const struct cli_report *list;
    size_t count;
};

/* What was learned of a job. */
struct cli_learned {
    char **rule; /* for REGISTER, each once */
    size_t rules;
    size_t left_out; /* tensors that look like gradients and that no rule tells from others */
};

/* Characters of all rules together that a line of a configuration file is sure to hold. */
enum { CLI_LONGEST_RULES = 7500 };

/* Finds a rule for every tensor that looks like a gradient: by count; by type, communicator or call
 * site as well only where the count alone would take what must stay exact. Each matches on every
 * rank that reports gradients of its count and type. Where the rules are longer than a line holds,
 * neighbouring counts become ranges, unless something between them must stay exact. SS_OK, to be
 * ended with cli_learned_free; SS_ERR_MEMORY. */
int cli_learn(const struct cli_reports *reports, struct cli_learned *learned);
void cli_learned_free(struct cli_learned *learned);

/* Whether a rule that was learned takes a tensor. */
bool cli_learned_takes(const struct cli_learned *learned, const struct ss_tensor_record *t);

/* Writes a line, after `prefix`, for the tensors of one verdict, those alike together: what they
 * are, where they come from, and why. Of gradients, those that a rule takes or those that none
 * does. How many tensors there are, those of several ranks counted once; out NULL: no more. */
size_t cli_learned_tell(FILE *out, const char *prefix, const struct cli_reports *reports,
                        const struct cli_learned *learned, enum cli_verdict verdict, bool taken);

#endif
