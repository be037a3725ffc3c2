/* The memory of other ranks on a host. */
#ifndef SHIM_COMM_PEERS_H
#define SHIM_COMM_PEERS_H

#include "shim/comm/comm.h"

/* Finds out whether each rank of the communicator can read the memory of the other ranks of its
 * host, and if so lets all do it. Called by all ranks when the private communicator is new and the
 * hosts are known, on any thread. */
void shim_peers_open(struct shim_comm *c);

#endif
