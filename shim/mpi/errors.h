/* Errors of this library. */
#ifndef SHIM_MPI_ERRORS_H
#define SHIM_MPI_ERRORS_H

#include "shim/mpi/mpi_names.h"
#include "shim/mpi/state.h"

/* Raises an error of this library on the error handler of the application's communicator. Returns
 * the MPI error code, for which MPI_Error_string gives `text`. */
int shim_raise(MPI_Comm comm, int status, const char *text);

#endif
