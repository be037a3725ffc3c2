/* Rank arithmetic of the collectives, apart from any communication. */
#ifndef CORE_NET_RANKS_H
#define CORE_NET_RANKS_H

#include "core/base/types.h"

/* Recursive doubling for any number of ranks: with pof2 the largest power of two <= size and rem =
 * size - pof2, the even ranks below 2 rem hand their part to the odd rank above them and get the
 * result back; the others exchange in log2(pof2) rounds under a new numbering. */
struct ss_fold {
    int pof2;
    int rem;
    int position; /* of this rank in the new numbering, -1 when it is folded away */
    int partner;  /* the rank folded with, -1 when there is none */
};
struct ss_fold ss_fold_of(int rank, int size);

/* Rounds of the exchange, and the rank met in round 0, 1, ... */
int ss_fold_rounds(const struct ss_fold *fold);
int ss_fold_peer(const struct ss_fold *fold, int round);

/* The steps of an agreement by recursive doubling: fold in, rounds, fold out. In each a rank sends
 * what it has to one rank, receives from one, or both. */
struct ss_schedule {
    struct ss_fold fold;
    int stage; /* 0: over */
    int round;
};
struct ss_meeting {
    int to, from;   /* ranks, -1: nobody; in the rounds both are the same */
    unsigned round; /* for the tag: from 0, or 40 and 41 for the two folds */
    bool result;    /* what comes replaces what is there, it is the result */
};
struct ss_schedule ss_schedule_of(int rank, int size);
/* The meeting at hand; false when all is over. */
bool ss_schedule_now(const struct ss_schedule *schedule, struct ss_meeting *meeting);
void ss_schedule_next(struct ss_schedule *schedule);

/* First element of part p when n elements are split among `size` ranks: ascending, part 0 begins at
 * 0, part `size` at n. Borders are multiples of 16 elements, so that parts begin on cache lines;
 * trailing parts of a short vector are empty. */
uint64_t ss_part_first(uint64_t n, int size, int p);

#endif
