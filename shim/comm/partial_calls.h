/* Partial calls while the program computes: the watchdog takes part in their rounds. */
#ifndef SHIM_COMM_PARTIAL_CALLS_H
#define SHIM_COMM_PARTIAL_CALLS_H

#include "shim/comm/lists.h"

/* Finds, when the job begins, if this rank can serve partial calls. */
void shim_partial_start(void);

/* Opens a transport for partial calls, before the first exchange, in which the ranks agree on it.
 */
void shim_partial_equip(struct shim_comm *c);

/* Gives the transport up: what shim_transport_close says. */
bool shim_partial_unequip(struct shim_rounds *rounds);
/* Opens the rounds when the private communicators exist. The list then holds a reference until the
 * application frees the communicator. A rank without memory for the rounds says so in its votes. */
void shim_partial_open(struct shim_comm *c);

/* Steps the rounds of all communicators except those that another thread is stepping. Returns true
 * if something moved; sets *under_way if messages are in flight. */
bool shim_partial_step(bool *under_way);

/* Drops the list's reference after the application has freed the communicator. Makes no MPI
 * call. */
void shim_partial_leave(struct shim_comm *comm);

static inline bool shim_partial_idle(void)
{
    return shim_list_is_empty(SHIM_PARTIAL);
}

/* Logs the results of rounds when MPI_Finalize has begun and no thread of the shim is left. */
void shim_partial_end(void);

/* Waits at most a second for messages of finished rounds, before the transport is closed, since
 * they could reach another communicator. */
void shim_partial_settle(struct shim_comm *comm);

#endif
