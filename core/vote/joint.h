/* Joint votes: the votes of several calls in one, with a ballot for each call in a message. Ranks
 * may have posted different numbers of calls; the joint vote agrees on the first ones, as many as
 * the rank with the fewest has. A rank can hear the votes of other ranks before it casts its own,
 * and then knows that they wait.
 *
 * A message holds the ballots one after the other, each as its difference from the one before,
 * since the calls of a step are similar.
 */
#ifndef CORE_VOTE_JOINT_H
#define CORE_VOTE_JOINT_H

#include "core/vote/vote.h"

/* Most meetings of a rank: two folds, and a round for each bit of the number of ranks. */
enum { SS_JOINT_MEETINGS = 34 };

struct ss_joint {
    struct ss_transport *t;
    struct ss_schedule schedule;
    uint32_t call; /* number of the first call */
    size_t room;   /* bytes of a message */
    unsigned char *messages;
    struct ss_ballot *const *ballots;
    unsigned count; /* number of ballots; at the end, of those agreed on */
    bool cast, waiting;
    int at;     /* index of the current meeting */
    int peer;   /* rank that is waited for, -1: none */
    int posted; /* status of the receives */
    struct ss_request send, receives[SS_JOINT_MEETINGS];
    uint64_t bytes, inside; /* bytes sent so far; those of them to ranks of the same host */
};

/* Returns the bytes that ss_joint_open needs for up to `most` calls among `size` ranks. */
size_t ss_joint_room(int size, unsigned most);

/* Posts the receives. `room` has the size of ss_joint_room, is aligned to 8, and belongs to the
 * joint vote until its end. */
void ss_joint_open(struct ss_joint *j, struct ss_transport *t, uint32_t call, unsigned most,
                   void *room);

/* Returns the least number of calls in a vote that has arrived, 0 if none has. The caller polls the
 * transport. */
unsigned ss_joint_heard(const struct ss_joint *j);

/* Casts this rank's votes, 1 to `most`. At the end the ballots hold the combined ones; the content
 * of ballots beyond `count` is undefined. */
void ss_joint_cast(struct ss_joint *j, struct ss_ballot *const *ballots, unsigned count);

/* Makes progress after ss_joint_cast. Returns SS_PENDING, SS_OK, or an error of ss_vote_step. */
int ss_joint_step(struct ss_joint *j, bool *moved);
void ss_joint_cancel(struct ss_joint *j);

#endif
