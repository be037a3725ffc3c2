/* A model of the MPI library's allreduce of a long vector on hosts of several ranks. The ranks of a
 * host send their vectors to its first rank. The first ranks run Rabenseifner's algorithm, and send
 * the result to the ranks of their hosts. Messages have no content. */
#ifndef CORE_TRIAL_DENSE_HOSTS_H
#define CORE_TRIAL_DENSE_HOSTS_H

#include "core/net/rank_subset.h"
#include "core/trial/rabenseifner.h"

struct ss_dense_hosts {
    struct ss_subset host, firsts; /* ranks of this host, first ranks of all hosts */
    struct ss_rabenseifner between;
    size_t bytes; /* of the vector */
    int peer;     /* of a first rank: the rank of this host to receive from next */
    bool handed;  /* this rank has sent its vector */
    bool posted;
    struct ss_request sent, received;
};

void ss_dense_hosts_start(struct ss_dense_hosts *d, struct ss_transport *t,
                          const struct ss_layout *layout, uint64_t n, size_t esize);
/* Makes progress. Returns SS_PENDING, SS_OK or SS_ERR_TRANSPORT. */
int ss_dense_hosts_step(struct ss_dense_hosts *d);

#endif
