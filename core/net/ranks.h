/* Rank arithmetic of the collectives, without communication. */
#ifndef CORE_NET_RANKS_H
#define CORE_NET_RANKS_H

#include "core/net/host_layout.h"

/* Recursive doubling for any number of ranks. pof2 is the largest power of two <= size, and rem =
 * size - pof2. Each even rank below 2 rem hands its data to the odd rank above it and gets the
 * result back. The remaining pof2 ranks are numbered anew and exchange in log2(pof2) rounds. */
struct ss_fold {
    int pof2;
    int rem;
    int position; /* number of this rank in the new numbering, -1: folded away */
    int partner;  /* rank folded with this rank, -1: none */
};
struct ss_fold ss_fold_of(int rank, int size);

/* Returns the number of rounds, log2(pof2). */
int ss_fold_rounds(const struct ss_fold *fold);
/* Returns the rank to exchange with in round 0, 1, ... */
int ss_fold_peer(const struct ss_fold *fold, int round);

/* The schedule of an exchange of all ranks: gather, fold in, rounds, fold out, spread. In each pair
 * exchange a rank sends its record to a rank, receives a record from a rank, or both.
 *
 * If a host has several ranks, they first merge their records along a tree, whose root is the first
 * rank of the host. The roots alone take part in recursive doubling, so that the bytes between
 * hosts do not grow with the ranks on each; then the result goes back along the trees. */
struct ss_schedule {
    const struct ss_layout *layout; /* NULL: recursive doubling among all ranks */
    int rank;
    struct ss_fold fold; /* of this rank's host among the hosts, or of this rank among all */
    int stage;           /* 0: the schedule is over */
    int round;
    int child; /* gather, spread: children in the tree that have sent, and get no result yet */
};
struct ss_pair_exchange {
    int to, from;   /* ranks, -1: none; equal in the rounds */
    unsigned round; /* for the tag: from 0, or 40 to 43 for the folds, gather and spread */
    bool result;    /* the received record is the result and replaces the own one */
};
/* Returns the schedule of a rank. `layout` may be NULL; its hosts are used if it is deep. */
struct ss_schedule ss_schedule_of(int rank, int size, const struct ss_layout *layout);
/* Sets *pair to the current pair exchange. Returns false if the schedule is over. */
bool ss_schedule_now(const struct ss_schedule *schedule, struct ss_pair_exchange *pair);
void ss_schedule_next(struct ss_schedule *schedule);

/* Returns the first element of part p when n elements are split among `size` ranks. Part 0 begins
 * at 0, and `size` as p gives n. Borders are multiples of 16 elements, so that parts begin on cache
 * lines; trailing parts of a short vector are empty. */
uint64_t ss_part_first(uint64_t n, int size, int p);

#endif
