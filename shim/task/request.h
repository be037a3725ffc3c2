/* Requests that may belong to this library, without MPI's types. */
#ifndef SHIM_TASK_REQUEST_H
#define SHIM_TASK_REQUEST_H

#include "shim/mpi/state.h"

/* Handles MPI_Request_get_status of a request that may belong to this library. */
int shim_request_get_status(shim_request_get_status_fn *next, uintptr_t request, int *flag,
                            void *status);
/* Handles MPI_Cancel and MPI_Request_free of such a request. */
int shim_request_call(shim_cancel_fn *next, void *request, bool cancel);

/* Polls a request if it is of this library and has not ended. Returns false if there is
 * nothing to wait for. */
bool shim_request_poll(const void *request);
/* State of a call of the MPI library that may complete requests of this library. */
struct shim_ended {
    bool inside;
    int code; /* of a request that has ended with an error */
};
/* Begins such a call and returns the state of the call that it is nested in: a handler of the
 * program may complete requests as well. */
struct shim_ended shim_request_begin_end(void);
/* Ends it. Returns the code of a request that has ended with an error, and otherwise `err`. */
int shim_request_end_end(struct shim_ended outer, int err);

/* Handles MPI_Op_free of an operator of the program while a reduction may wait for its post. */
int shim_user_op_free(shim_op_free_fn *next, void *op);

#endif
