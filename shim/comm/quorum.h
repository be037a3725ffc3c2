/* Partial calls while the program computes: the watchdog takes part in their rounds. */
#ifndef SHIM_COMM_QUORUM_H
#define SHIM_COMM_QUORUM_H

#include "shim/comm/lists.h"

/* At the job's beginning: whether this rank can serve them. */
void shim_quorum_start(void);

/* First contact: a transport for partial calls, before the ranks meet, which hear of it where there
 * is none; and, once the private communicators are made, the rounds. From then on the list holds a
 * reference, given back when the application has freed the communicator; a rank that lacks the
 * memory for them says so in its votes. */
void shim_quorum_equip(struct shim_comm *c);
/* Gives the transport up: what shim_transport_close says. */
bool shim_quorum_unequip(struct shim_comm *c);
void shim_quorum_open(struct shim_comm *c);

/* Steps the rounds of all communicators but those that another thread is stepping. Whether
 * something moved; *under_way: there is more to come. */
bool shim_quorum_turn(bool *under_way);

/* The application has freed it: the list gives its reference back. Makes no MPI call. */
void shim_quorum_leave(struct shim_comm *comm);

static inline bool shim_quorum_idle(void)
{
    return shim_list_is_empty(SHIM_QUORUM);
}

/* MPI_Finalize has begun, and no thread of ours is left: what is to be told. */
void shim_quorum_end(void);

/* Before the transport is closed: waits, a second at most, for messages of rounds that are over,
 * which might otherwise meet another communicator. */
void shim_quorum_settle(struct shim_comm *comm);

#endif
