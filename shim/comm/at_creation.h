/* First contact where a communicator is made (shim/comm/contact.c). Without MPI's types, for entry
 * points. */
#ifndef SHIM_COMM_AT_CREATION_H
#define SHIM_COMM_AT_CREATION_H

#include <stdbool.h>
#include <stdint.h>

/* So many communicators that are made from one, and from those made from it, are met at creation: a
 * program that makes thousands and uses none pays for these alone. */
enum { SHIM_CREATIONS = 32 };

/* Makes the first contact where the program makes the communicator: called by all its ranks in the
 * call that has made it, in which they may wait for each other. Nonblocking calls are served on
 * such communicators, and on those that a blocking call has met; on all others they pass through.
 * `number`, equal on all ranks, counts the communicators made from the same ancestors. A rank that
 * has made too many is not `willing`. If the ranks do not agree, the first eligible blocking call
 * makes contact once more. Returns MPI_SUCCESS, or an MPI error code that was raised. */
int shim_comm_contact_at_creation(uintptr_t handle, unsigned number, bool willing);
/* Counts a communicator that all ranks of `parent` make from it together, and sets *number. Returns
 * true if those in the new one are to make contact at once: all get the same answer. */
bool shim_comm_count_creation(uintptr_t parent, unsigned *number);

#endif
