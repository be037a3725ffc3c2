/* A model of the MPI library's allreduce of a long vector: the messages of Rabenseifner's algorithm
 * (2004; Thakur et al. 2005, section 4.5) without content. Recursive halving, then recursive
 * doubling. If P is not a power of two, the ranks beyond it hand their vector to a neighbour first
 * and get the result last, as in MPICH. Long messages go in pieces, so that two of them share a
 * link. */
#ifndef CORE_TRIAL_RABENSEIFNER_H
#define CORE_TRIAL_RABENSEIFNER_H

#include "core/net/ranks.h"
#include "core/net/transport.h"

struct ss_rabenseifner {
    struct ss_transport *t;
    uint64_t n; /* elements */
    size_t esize;
    struct ss_fold fold;
    int step; /* 0: before the fold; one per round; the fold out; then it is over */
    bool posted;
    size_t coming; /* bytes still to be received in the step */
    struct ss_request sent, received;
};

void ss_rabenseifner_start(struct ss_rabenseifner *d, struct ss_transport *t, uint64_t n,
                           size_t esize);
/* Makes progress. Returns SS_PENDING, SS_OK or SS_ERR_TRANSPORT. */
int ss_rabenseifner_step(struct ss_rabenseifner *d);

#endif
