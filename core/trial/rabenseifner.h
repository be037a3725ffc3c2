/* What the MPI library does for a long vector: the messages of Rabenseifner's allreduce (2004;
 * Thakur et al. 2005, section 4.5) without anything in them. Recursive halving, then recursive
 * doubling; ranks beyond the largest power of two hand their vector to a neighbour first and get
 * the result last, as MPICH does it. Long messages go in pieces, so that two of them share a link.
 */
#ifndef CORE_TRIAL_RABENSEIFNER_H
#define CORE_TRIAL_RABENSEIFNER_H

#include "core/net/ranks.h"
#include "core/net/transport.h"

struct ss_rabenseifner {
    struct ss_transport *t;
    uint64_t n; /* elements */
    size_t esize;
    struct ss_fold fold;
    int step; /* 0: before the fold; one for each round; the fold out; then it is over */
    bool posted;
    size_t coming; /* bytes still to be received in it */
    struct ss_request sent, received;
};

void ss_rabenseifner_start(struct ss_rabenseifner *d, struct ss_transport *t, uint64_t n,
                           size_t esize);
/* SS_PENDING, SS_OK or SS_ERR_TRANSPORT. */
int ss_rabenseifner_step(struct ss_rabenseifner *d);

#endif
