/* Group votes: the votes of several calls in one, with a ballot for each call in a message. Ranks
 * may have posted different numbers of calls; the group vote agrees on the first ones, as many as
 * the rank with the fewest has. A rank can hear the votes of other ranks before it casts its own,
 * and then knows that they wait.
 *
 * A message holds the ballots one after the other, each as its difference from the one before,
 * since the calls of a step are similar.
 */
#ifndef CORE_VOTE_GROUP_VOTE_H
#define CORE_VOTE_GROUP_VOTE_H

#include "core/vote/vote.h"

/* Most pair exchanges of a rank: two folds, and a round for each bit of the number of ranks. */
enum { SS_GROUP_VOTE_PAIRS = 34 };

struct ss_group_vote {
    struct ss_transport *t;
    struct ss_schedule schedule;
    uint32_t call; /* number of the first call */
    size_t room;   /* bytes of a message */
    unsigned char *messages;
    struct ss_ballot *const *ballots;
    unsigned count; /* number of ballots; at the end, of those agreed on */
    bool waiting;
    int at;     /* index of the current pair exchange */
    int peer;   /* rank that is waited for, -1: none */
    int posted; /* status of the receives */
    struct ss_request send, receives[SS_GROUP_VOTE_PAIRS];
    uint64_t bytes, inside; /* bytes sent so far; those of them to ranks of the same host */
};

/* Returns the bytes that ss_group_vote_open needs for up to `most` calls among `size` ranks. */
size_t ss_group_vote_room(int size, unsigned most);

/* Posts the receives. `room` has the size of ss_group_vote_room, is aligned to 8, and belongs to
 * the group vote until its end. */
void ss_group_vote_open(struct ss_group_vote *g, struct ss_transport *t, uint32_t call,
                        unsigned most, void *room);

/* Returns the least number of calls in a vote that has arrived, 0 if none has. The caller polls the
 * transport. */
unsigned ss_group_vote_heard(const struct ss_group_vote *g);

/* Casts this rank's votes, 1 to `most`. At the end the ballots hold the combined ones; the content
 * of ballots beyond `count` is undefined. */
void ss_group_vote_cast(struct ss_group_vote *g, struct ss_ballot *const *ballots, unsigned count);

/* Makes progress after ss_group_vote_cast. Returns SS_PENDING, SS_OK, or an error of ss_vote_step.
 */
int ss_group_vote_step(struct ss_group_vote *g, bool *moved);
void ss_group_vote_cancel(struct ss_group_vote *g);

#endif
