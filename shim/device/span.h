/* The bytes that a call reads and writes. */
#ifndef SHIM_DEVICE_SPAN_H
#define SHIM_DEVICE_SPAN_H

#include "shim/mpi/state.h"

struct shim_span {
    int64_t from; /* offset of the first byte from the address of the buffer */
    size_t bytes; /* 0: the call touches nothing */
    bool full;    /* the call writes all bytes, unless it is in place */
};

/* Set the bytes of this rank's send and receive buffer. Returns false if the MPI library will
 * refuse the call or does not tell. */
bool shim_spans(const struct shim_call *call, struct shim_span *send, struct shim_span *recv);

/* Returns true if a buffer of the call lies in device memory that the MPI library does not know. */
bool shim_lies_on_device(const struct shim_call *call);

/* Returns the number of slices in the receive buffer of an allgatherv that shim_spans knows. */
int shim_slices(const struct shim_call *call);
/* Sets the bytes of one slice. Returns false if the slice is empty. */
bool shim_slice(const struct shim_call *call, int rank, struct shim_span *slice);

#endif
