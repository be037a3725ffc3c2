/* Shared by core/call/groups.c, which stores groups, core/call/group.c, which votes, and
 * core/call/group_exchange.c. */
#ifndef CORE_CALL_GROUP_IMPL_H
#define CORE_CALL_GROUP_IMPL_H

#include "core/backend/segments.h"
#include "core/call/group.h"
#include "core/call/group_plan.h"
#include "core/vote/group_vote.h"

/* Seconds that a group waits for the next call. Longer than a layer of most trainings takes, and
 * shorter than a delay that a program would notice once a step. */
#define SS_GROUP_WAIT 0.01

enum ss_group_state {
    SS_GROUP_FREE,
    SS_GROUP_OPEN,     /* calls may enter */
    SS_GROUP_VOTING,   /* the vote is cast */
    SS_GROUP_PLANNING, /* agrees on a plan */
    SS_GROUP_VOTED,    /* its calls are decided on, one after the other */
    SS_GROUP_RUNNING,  /* exchanges the merged calls */
    SS_GROUP_DRAINING,
    SS_GROUP_OVER,
    SS_GROUP_FAILED
};

struct ss_group {
    struct ss_group *next; /* next group of the communicator */
    enum ss_group_state state;
    uint64_t part;
    unsigned calls;              /* calls that have not left */
    unsigned count;              /* calls posted; after the vote, calls agreed on */
    unsigned voted;              /* calls agreed on */
    unsigned decided;            /* calls decided, of those agreed on */
    unsigned merged;             /* calls in the exchange, of those decided */
    const struct ss_call *first; /* first call in the exchange, which steps it */
    double since;                /* time when the last call entered */
    bool waits_for_none;
    /* NULL: decided to go alone. The first member steps the vote. */
    struct ss_call *members[SS_MERGED];
    struct ss_ballot *ballots[SS_MERGED];
    struct ss_group_vote vote;
    struct ss_buf messages; /* messages of the vote */
    int failed, failed_peer;
    enum ss_phase failed_phase;

    const struct ss_algorithm_def *algorithm; /* of the exchange */
    double memory;                            /* bytes promised to the calls */
    struct ss_segments backend;
    struct ss_segment segments[SS_MERGED]; /* results of the merged calls */
    uint64_t before[SS_MERGED];            /* entries of the members and calls before a member */
    struct ss_work work;
    struct ss_coll c;
    _Alignas(max_align_t) unsigned char algorithm_state[SS_COLL_STATE];
};

struct ss_grouping {
    struct ss_comm *comm;
    struct ss_group *groups;
    uint64_t part;         /* part of the next call */
    uint64_t bytes, calls; /* bytes and calls of that part so far */
    struct ss_group_plan *plan;
};

/* core/call/groups.c: returns a group without calls, NULL without memory. */
struct ss_group *ss_group_new(struct ss_grouping *gs);
void ss_group_leave(struct ss_group_member *member);
void ss_group_fail(struct ss_group *g, int status, int peer, enum ss_phase phase);

/* core/call/group_exchange.c: makes room before the vote to exchange all posted calls. Returns
 * SS_OK or SS_ERR_MEMORY. */
int ss_group_reserve(struct ss_group *g);
/* Returns true if the call merges with the decided calls before it. */
bool ss_group_takes(struct ss_group *g, const struct ss_call *call);
/* Starts the exchange once all calls are decided. Returns true if there is one. */
bool ss_group_start(struct ss_group *g);
/* Steps the exchange, until the state is SS_GROUP_OVER. */
void ss_group_step(struct ss_group *g, struct ss_exchange *x);
/* Sets a member's share of the exchange. c: its collective. */
void ss_group_share(const struct ss_group *g, unsigned member, struct ss_coll *c);

#endif
