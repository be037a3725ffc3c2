/* Errors of our own. */
#ifndef SHIM_MPI_ERRORS_H
#define SHIM_MPI_ERRORS_H

#include <mpi.h>

#include "shim/mpi/state.h"

/* Raises an error of ours on the error handler of the application's communicator. Returns the MPI
 * error code, of which MPI_Error_string says `text`. */
int shim_raise(MPI_Comm comm, int status, const char *text);

#endif
