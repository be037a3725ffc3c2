/* The bytes that a call reads and writes. */
#ifndef SHIM_DEVICE_SPAN_H
#define SHIM_DEVICE_SPAN_H

#include "shim/mpi/state.h"

struct shim_span {
    int64_t from; /* bytes from the address that was given */
    size_t bytes; /* 0: nothing is touched */
    bool full;    /* all of it is written, unless the call is in place */
};

/* Of the send and the receive buffer of this rank. False where the MPI library will refuse the
 * call, or cannot say. */
bool shim_spans(const struct shim_call *call, struct shim_span *send, struct shim_span *recv);

/* Whether the call touches memory of a device and the MPI library knows nothing of that; of a
 * datatype of absolute addresses, where it begins. */
bool shim_lies_on_device(const struct shim_call *call);

/* An allgatherv whose displacements may lead from an address that is nobody's into such memory; and
 * whether they do, for a call on a communicator that exists. */
bool shim_is_displaced(const struct shim_call *call);
bool shim_leads_to_device(const struct shim_call *call);

/* Of an allgatherv that shim_spans knows: the slices of its receive buffer, ascending, those that
 * touch as one, to be freed; *count of them. NULL: no memory. */
struct shim_span *shim_slices(const struct shim_call *call, size_t *count);

#endif
