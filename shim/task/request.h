/* Requests that may be ours, without mpi.h. */
#ifndef SHIM_TASK_REQUEST_H
#define SHIM_TASK_REQUEST_H

#include "shim/mpi/state.h"

/* MPI_Request_get_status, MPI_Cancel and MPI_Request_free of a request that may be ours. */
int shim_request_get_status(shim_request_get_status_fn *next, uintptr_t request, int *flag,
                            void *status);
int shim_request_call(shim_request_fn *next, void *request, bool cancel);

/* MPI_Op_free of an operator of the program's while a reduction may wait for its post. */
int shim_own_op_free(shim_op_free_fn *next, void *op);

#endif
