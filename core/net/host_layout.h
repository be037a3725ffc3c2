/* The layout of a communicator's ranks on hosts. */
#ifndef CORE_NET_HOST_LAYOUT_H
#define CORE_NET_HOST_LAYOUT_H

#include "core/base/choices.h"
#include "core/base/types.h"

/* Hosts are numbered in the order of their first ranks, and the ranks of a host in rank order. The
 * same on all ranks. */
struct ss_layout {
    int size;             /* ranks */
    int hosts;            /* hosts, 1 or more */
    int most;             /* ranks of the largest host */
    uint64_t slice_least; /* least elements of a slice, if there is more than one */
    int *host;            /* host of each rank */
    int *local;           /* number of each rank on its host */
    int *first;           /* index in `ranks` of each host's first rank; hosts + 1 values */
    int *ranks;           /* ranks, host after host */
    uint64_t *ids;        /* of each rank: equal on the ranks of a host */
    int *ring;   /* position of each rank on a ring whose neighbours are on different hosts, as far
                    as there are enough hosts */
    int *around; /* ranks in the order of the ring */
};

/* Creates a layout of `size` ranks, owned by the caller; NULL if memory is short. The caller fills
 * in `ids`, then calls ss_layout_find, which needs no memory. */
struct ss_layout *ss_layout_create(int size);
void ss_layout_find(struct ss_layout *layout);
void ss_layout_free(struct ss_layout *layout);

/* Returns the number of ranks of a host. */
static inline int ss_layout_count(const struct ss_layout *l, int host)
{
    return l->first[host + 1] - l->first[host];
}

/* Returns true if there are several hosts, and one of them has several ranks. */
static inline bool ss_layout_is_deep(const struct ss_layout *l)
{
    return l && l->hosts > 1 && l->most > 1;
}

/* Returns the number of slices of an index space of n elements. */
int ss_layout_slices(const struct ss_layout *layout, uint64_t n);
/* An index space is cut into slices. Each host deals all slices to its ranks in order: a rank owns
 * consecutive ones, or none. Returns the first slice of rank `local` among `count` ranks; `count`
 * as `local` gives the number of slices. */
int ss_layout_slice(int local, int count, int slices);
/* Returns the most slices that one rank owns. */
int ss_layout_most_slices(const struct ss_layout *layout, int slices);
/* Returns the rank of a host that owns a slice. */
int ss_layout_owner(const struct ss_layout *layout, int host, int slice, int slices);

#endif
