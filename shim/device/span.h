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

/* Whether the call touches memory of a device, as the addresses of its buffers tell, and the MPI
 * library knows nothing of that. */
bool shim_lies_on_device(const struct shim_call *call);

/* The number of slices in the receive buffer of an allgatherv that shim_spans knows, and the bytes
 * of one. Returns false if it is empty. */
int shim_slices(const struct shim_call *call);
bool shim_slice(const struct shim_call *call, int rank, struct shim_span *slice);

#endif
