/* The steps of a select, for callers that combine passes (core/select/buckets.c). */
#ifndef CORE_COMPUTE_PASS_H
#define CORE_COMPUTE_PASS_H

#include <string.h>

#include "core/compute/select.h"
#include "core/compute/width.h"

enum { SS_PARTIALS = 16 };

/* State of a select in progress. */
struct ss_pass {
    size_t n, capacity;
    ss_magnitude threshold, leave; /* claims below `leave` stay in the residual */
    uint32_t base;
    uint32_t *idx;
    void *val;
    struct ss_selection out; /* results so far, without the sums */
    uint64_t any_input;      /* bits set in any |g| */
    double input_square[SS_PARTIALS], sum_square[SS_PARTIALS];
};

/* Functions of ss_select_buckets. val has room for SS_LANES_MOST elements more. */
struct ss_bucket_parts {
    /* Selects over elements [0, pass->n), adding to the sums and counts of the ranges before. */
    void (*pass)(enum ss_type type, struct ss_pass *pass, const void *g, void *r);
    /* Returns a magnitude that fewer than k of `count` values exceed, and sets *ties to the number
     * of values equal to it that complete the k. count > k >= 1; all values reach `low`. */
    ss_magnitude (*kth)(enum ss_type type, void *val, size_t count, size_t k, ss_magnitude low,
                        size_t *ties);
};

enum { SS_LANES_MOST = 16 };

/* Sets *out to the results of the pass, with its sums added up. */
void ss_pass_end(struct ss_pass *pass, struct ss_selection *out);

#endif
