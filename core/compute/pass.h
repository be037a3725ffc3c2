/* A select in parts, for those that put passes together (core/select/buckets.c). */
#ifndef CORE_COMPUTE_PASS_H
#define CORE_COMPUTE_PASS_H

#include <string.h>

#include "core/compute/select.h"
#include "core/compute/width.h"

enum { SS_PARTIALS = 16 };

/* A select under way, as far as it is in memory. */
struct ss_pass {
    size_t n, capacity;
    ss_magnitude threshold,
        leave; /* of what is claimed, that below `leave` stays in the residual */
    uint32_t base;
    uint32_t *idx;
    void *val;
    struct ss_selection out; /* all but the sums */
    uint64_t any_input;      /* bits set in some |g| */
    double input_square[SS_PARTIALS], sum_square[SS_PARTIALS];
};

/* Parts of ss_select_buckets. `pass` is a select that goes on where the last one ended: with the
 * sums and what was seen of the ranges before, over elements [0, pass->n). kth gives a magnitude
 * that fewer than k of `count` values exceed, and how many that are equal to it make up the k: for
 * more than k >= 1 values that all reach `low`. val has room for SS_LANES_MOST more. */
struct ss_bucket_parts {
    void (*pass)(enum ss_type type, struct ss_pass *pass, const void *g, void *r);
    ss_magnitude (*kth)(enum ss_type type, void *val, size_t count, size_t k, ss_magnitude low,
                        size_t *ties);
};

enum { SS_LANES_MOST = 16 };

/* What the pass has seen, its sums added up. */
void ss_pass_end(struct ss_pass *pass, struct ss_selection *out);

#endif
