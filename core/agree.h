/* Small agreements inside a recipe: an allreduce of a few integers and reals by recursive doubling,
 * the same bits on every rank. Included by core/call_impl.h. */
#ifndef CORE_AGREE_H
#define CORE_AGREE_H

#include "core/ranks.h"
#include "core/transport.h"

struct ss_call;

struct ss_agree {
    struct ss_fold fold;
    uint64_t *data; /* sums, then maxima, then reals: on entry this rank's, at the end of all */
    size_t sums;    /* added mod 2^64 */
    size_t maxima;
    size_t reals; /* doubles, by their bits; added in the order of the ranks' groups */
    int stage;
    int round;
    bool waiting;
    int peer; /* being waited for, -1: nobody */
    struct ss_request recv;
};

/* Begins; data (sums + maxima + reals words) stays where it is until the end. Room for the messages
 * is made here (work.agree): a failure is c->failed, and the schedule is completed with error
 * headers. All ranks start the same agreements in the same order within a call. */
void ss_agree_start(struct ss_call *c, struct ss_agree *a, uint64_t *data, size_t sums,
                    size_t maxima, size_t reals);

/* SS_PENDING or SS_OK; where c->failed is set at the end, data is undefined. */
int ss_agree_step(struct ss_call *c, struct ss_agree *a);

#endif
