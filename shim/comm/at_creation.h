/* First exchange where a communicator is made (shim/comm/first_exchange.c). Without MPI's types,
 * for entry points. */
#ifndef SHIM_COMM_AT_CREATION_H
#define SHIM_COMM_AT_CREATION_H

#include <stdbool.h>
#include <stdint.h>

/* A communicator's number is that of the one it is made from, plus the communicators that were made
 * from that one so far. Up to this number they have a first exchange at creation, and as many of
 * those of MPI_Comm_create_group and MPI_Intercomm_merge: a program that makes thousands and uses
 * none pays for these alone. */
enum { SHIM_CREATIONS = 32 };

/* Makes the first exchange where the program makes the communicator: called by all its ranks in the
 * call that has made it, in which they may wait for each other. Nonblocking calls are served on
 * such communicators, and on those that had it in a blocking call; on all others they pass through.
 * `number` is the same on all ranks. A rank is not `willing` if it has made more than
 * SHIM_CREATIONS by MPI_Comm_create_group and MPI_Intercomm_merge. If the ranks do not agree, the
 * first eligible blocking call makes the first exchange once more. Returns MPI_SUCCESS, or an MPI
 * error code that was raised. */
int shim_comm_exchange_at_creation(uintptr_t handle, unsigned number, bool willing);
/* Counts a communicator that all ranks of `parent` make from it together, and sets *number. Returns
 * true if those in the new one are to make a first exchange at once: all get the same answer. */
bool shim_comm_count_creation(uintptr_t parent, unsigned *number);

#endif
