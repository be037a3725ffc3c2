/* What core/call/group.c, the votes, and core/call/group_exchange.c share. */
#ifndef CORE_CALL_GROUP_IMPL_H
#define CORE_CALL_GROUP_IMPL_H

#include "core/call/group.h"
#include "core/call/group_plan.h"
#include "core/place/segments.h"
#include "core/vote/joint.h"

/* Seconds that a group waits for the next call: longer than a layer of most trainings takes, short
 * against what a program that is held up would notice once a step. */
#define SS_GROUP_HOLD 0.01

enum ss_group_state {
    SS_GROUP_FREE,
    SS_GROUP_OPEN,     /* calls may join */
    SS_GROUP_VOTING,   /* the vote is cast */
    SS_GROUP_AGREEING, /* on a plan */
    SS_GROUP_VOTED,    /* its calls are decided on, one after the other */
    SS_GROUP_RUNNING,  /* those that merge are being exchanged */
    SS_GROUP_DRAINING,
    SS_GROUP_OVER,
    SS_GROUP_FAILED
};

struct ss_group {
    struct ss_group *next; /* of the communicator's */
    enum ss_group_state state;
    uint64_t part;
    unsigned calls;              /* that have not left */
    unsigned count;              /* posted; once voted, those agreed on */
    unsigned voted;              /* agreed on */
    unsigned decided;            /* of these */
    unsigned merged;             /* of these, in the exchange, */
    const struct ss_call *first; /* and the first of them, which steps it */
    double since;                /* the last one joined */
    bool hurried;
    struct ss_call *members[SS_MERGED]; /* NULL: decided to go alone. The first steps the vote */
    struct ss_ballot *ballots[SS_MERGED];
    struct ss_joint joint;
    struct ss_buf messages; /* of the vote */
    int failed, failed_peer;
    enum ss_phase failed_phase;

    const struct ss_row *row; /* of the exchange */
    double memory;            /* bytes that its calls were promised */
    struct ss_segments place;
    struct ss_segment segments[SS_MERGED]; /* of the merged ones */
    uint64_t before[SS_MERGED];            /* entries before those of a member, and calls */
    struct ss_work work;
    struct ss_coll c;
    _Alignas(max_align_t) unsigned char recipe[SS_COLL_STATE];
};

struct ss_grouping {
    struct ss_comm *comm;
    struct ss_group *groups;
    uint64_t part;         /* of the next call */
    uint64_t bytes, calls; /* of that part so far */
    struct ss_group_plan *plan;
};

void ss_group_leave(struct ss_call *call);
void ss_group_fail(struct ss_group *g, int status, int peer, enum ss_phase phase);

/* core/call/group_exchange.c. Reserve: before the vote, room to exchange all posted calls; SS_OK or
 * SS_ERR_MEMORY. Takes: whether the call goes with those before it. Start: all are decided; whether
 * there is an exchange. Step:
 * of the exchange, until the state is SS_GROUP_OVER. Share: what of it is the call's. */
int ss_group_reserve(struct ss_group *g);
bool ss_group_takes(struct ss_group *g, const struct ss_call *call);
bool ss_group_start(struct ss_group *g);
void ss_group_step(struct ss_group *g, struct ss_exchange *x);
void ss_group_share(struct ss_group *g, struct ss_call *call);

#endif
