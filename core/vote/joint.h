/* The votes of several calls in one: a message carries a ballot for each. Ranks need not have
 * posted equally many calls: what is agreed on is the first ones, as many as the rank with fewest
 * has. A rank hears the others before it casts its own, and so knows that they wait.
 *
 * A message has the ballots one after the other, each as what it differs in from the one before:
 * calls of one step are much alike. */
#ifndef CORE_VOTE_JOINT_H
#define CORE_VOTE_JOINT_H

#include "core/vote/vote.h"

/* Most meetings of a rank: two folds, and a round for each bit of a number of ranks. */
enum { SS_JOINT_MEETINGS = 34 };

struct ss_joint {
    struct ss_transport *t;
    struct ss_schedule schedule;
    uint32_t call; /* number of the first one */
    size_t room;   /* bytes of a message */
    unsigned char *messages;
    struct ss_ballot *const *ballots;
    unsigned count; /* of them; in the end, those agreed on */
    bool cast, waiting;
    int at;     /* the meeting at hand */
    int peer;   /* being waited for, -1: nobody */
    int posted; /* status of the receives */
    struct ss_request send, receives[SS_JOINT_MEETINGS];
    uint64_t bytes; /* sent so far */
};

/* Bytes that ss_joint_open needs for up to `most` calls among `size` ranks. */
size_t ss_joint_room(int size, unsigned most);

/* Posts the receives. `room`: of that size, the joint vote's until it has ended, aligned to 8. */
void ss_joint_open(struct ss_joint *j, struct ss_transport *t, uint32_t call, unsigned most,
                   void *room);

/* Of the votes that have come, the fewest calls of one; 0: none has come. The caller polls. */
unsigned ss_joint_heard(const struct ss_joint *j);

/* Casts this rank's votes, 1 or more, up to `most`; the ballots end as the combined
 * ones, and those that are not agreed on as anything. */
void ss_joint_cast(struct ss_joint *j, struct ss_ballot *const *ballots, unsigned count);

/* Once cast: SS_PENDING, SS_OK, or an error as of ss_vote_step. */
int ss_joint_step(struct ss_joint *j, bool *moved);
void ss_joint_cancel(struct ss_joint *j);

#endif
