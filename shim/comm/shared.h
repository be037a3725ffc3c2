/* The memory that the ranks of a communicator share if they are on one host. */
#ifndef SHIM_COMM_SHARED_H
#define SHIM_COMM_SHARED_H

#include "shim/comm/comm.h"

/* Maps the memory on all ranks or on none. Called by all ranks when the private communicator is new
 * and the hosts are known, on any thread. */
void shim_shared_open(struct shim_comm *c);
/* Frees this rank's mapping, if there is one. */
void shim_shared_free(struct ss_shared *shared, int size);

#endif
