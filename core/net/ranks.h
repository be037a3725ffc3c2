/* Rank arithmetic of the collectives, without communication. */
#ifndef CORE_NET_RANKS_H
#define CORE_NET_RANKS_H

#include "core/base/types.h"

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

/* The schedule of an agreement by recursive doubling: fold in, rounds, fold out. In each meeting a
 * rank sends its record to a rank, receives a record from a rank, or both. */
struct ss_schedule {
    struct ss_fold fold;
    int stage; /* 0: the schedule is over */
    int round;
};
struct ss_meeting {
    int to, from;   /* ranks, -1: none; equal in the rounds */
    unsigned round; /* for the tag: from 0, or 40 and 41 for the two folds */
    bool result;    /* the received record is the result and replaces the own one */
};
struct ss_schedule ss_schedule_of(int rank, int size);
/* Sets *meeting to the current meeting. Returns false if the schedule is over. */
bool ss_schedule_now(const struct ss_schedule *schedule, struct ss_meeting *meeting);
void ss_schedule_next(struct ss_schedule *schedule);

/* Returns the first element of part p when n elements are split among `size` ranks. Part 0 begins
 * at 0, and `size` as p gives n. Borders are multiples of 16 elements, so that parts begin on cache
 * lines; trailing parts of a short vector are empty. */
uint64_t ss_part_first(uint64_t n, int size, int p);

#endif
