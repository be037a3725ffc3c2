/* How far the clocks of the ranks are apart, for traces that are put beside each other. */
#ifndef SHIM_COMM_CLOCK_H
#define SHIM_COMM_CLOCK_H

#include "shim/comm/comm.h"

/* Whether this rank is to have a trace, also where it cannot write one: it serves the others. */
bool shim_clock_is_wanted(void);

/* Where every rank of the job is in it, the first being the same, and wants a trace: by all ranks,
 * when the private communicator is new, on any thread. */
void shim_clock_meet(const struct shim_comm *c);

/* In MPI_Finalize, by all ranks: once more, since clocks drift. Ranks that do not come are waited
 * for no longer than a few seconds. */
void shim_clock_part(void);

#endif
