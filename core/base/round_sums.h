/* Sums over the rounds of partial calls, on one rank. */
#ifndef CORE_BASE_ROUND_SUMS_H
#define CORE_BASE_ROUND_SUMS_H

#include <stdint.h>

enum { SS_STALENESS_SEEN = 16 };
struct ss_rounds_sums {
    uint64_t rounds; /* rounds that are over on this rank */
    uint64_t in;     /* rounds with the gradient of their call */
    uint64_t left;   /* rounds with entries that late gradients had left in the residual */
    uint64_t late;   /* calls whose gradient came late */
    uint64_t steps;  /* number of steps that the rounds make */
    /* Late gradients by the number of their tensor's rounds from their own to the round whose
     * selection they entered; the last counter includes all larger numbers. Leaves out late
     * gradients that no selection has seen yet. */
    uint64_t stale[SS_STALENESS_SEEN];
    double waited; /* seconds from calls to their results */
    /* Seconds by which calls came later after the beginning of their round on this rank than the
     * call before: a synchronous allreduce would have waited for them. */
    double lag;
};

/* Adds the difference of `is` and `was` to `to`. */
static inline void ss_rounds_sums_add(struct ss_rounds_sums *to, const struct ss_rounds_sums *is,
                                      const struct ss_rounds_sums *was)
{
    to->rounds += is->rounds - was->rounds;
    to->in += is->in - was->in;
    to->left += is->left - was->left;
    to->late += is->late - was->late;
    to->steps += is->steps - was->steps;
    to->waited += is->waited - was->waited;
    to->lag += is->lag - was->lag;
    for (int i = 0; i < SS_STALENESS_SEEN; i++)
        to->stale[i] += is->stale[i] - was->stale[i];
}

#endif
