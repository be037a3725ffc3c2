/* MODE=learn: every call is the MPI library's, and each rank records the sums of floats and doubles
 * (core/learn/learn_record.h) in a file of its own in REPORT_DIR, for `sparseshim learn`. */
#ifndef SHIM_ENTRY_LEARN_H
#define SHIM_ENTRY_LEARN_H

#include "shim/mpi/state.h"

static inline bool shim_learns(void)
{
    return shim.options.mode == CFG_MODE_LEARN;
}

/* Records an eligible allreduce and hands it on; request NULL: blocking. */
int shim_learn(const struct shim_call *call, enum ss_type type, enum ss_op op, void *request);

enum { SHIM_LEARN_SCALARS = 8 /* elements */ };

/* Counts an allreduce of a few numbers, such as a loss. */
void shim_learn_scalar(const struct shim_call *call);

/* The program frees a communicator. */
void shim_learn_forget(uintptr_t comm);

#endif
