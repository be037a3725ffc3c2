/* Measures the differences of the ranks' clocks, so that their traces can be merged. */
#ifndef SHIM_COMM_CLOCK_H
#define SHIM_COMM_CLOCK_H

#include "shim/comm/comm.h"

/* Returns true if this rank wants a trace, even if it cannot write one: it then answers other
 * ranks. */
bool shim_clock_is_wanted(void);

/* Measures the clocks if the communicator has every rank of the job with the same first rank, and
 * all ranks want a trace. Called by all ranks when the private communicator is new, on any
 * thread. */
void shim_clock_measure(const struct shim_comm *c);

/* Measures once more in MPI_Finalize, since clocks drift. Called by all ranks; waits a bounded time
 * for ranks that do not come. */
void shim_clock_measure_again(void);

#endif
