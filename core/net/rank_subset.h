/* A transport among some ranks of a communicator: the ranks of a host, or the owners of one slice,
 * of which each host has one (core/net/host_layout.h). */
#ifndef CORE_NET_RANK_SUBSET_H
#define CORE_NET_RANK_SUBSET_H

#include "core/net/host_layout.h"
#include "core/net/transport.h"

struct ss_subset {
    struct ss_transport t; /* numbers the ranks of the subset from 0 */
    struct ss_transport *all;
    const struct ss_layout *layout;
    int host;          /* the subset is this host's ranks; -1: the owners of a slice */
    int slice, slices; /* of the owners */
};

/* Makes the subset of this rank's host. */
void ss_subset_of_host(struct ss_subset *s, struct ss_transport *all,
                       const struct ss_layout *layout);
/* Makes the subset of a slice's owners, of which this rank is one, in the order of the hosts. */
void ss_subset_of_slice(struct ss_subset *s, struct ss_transport *all,
                        const struct ss_layout *layout, int slice, int slices);
/* Returns the rank in the communicator of a rank of the subset. */
int ss_subset_rank(const struct ss_subset *s, int rank);

#endif
